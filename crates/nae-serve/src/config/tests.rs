//! Tests where settings come from, which problems are reported, and that no secret is printed.
#![allow(clippy::unwrap_used)]

use super::super::secret::Secret;
use super::super::tokens::Role;
use super::*;

fn read(file: Option<&str>, environment: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("serve.toml");
    if let Some(text) = file {
        std::fs::write(&path, text).unwrap();
    }
    let flags = Flags { config: file.map(|_| path), ..flags };
    let environment = environment.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    Config::read(&flags, environment).map_err(|e| e.to_string())
}

fn flag(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn flags_go_over_the_environment_and_that_over_the_file() {
    let file = "model = \"a.onnx\"\nqueue = 7\nalarm_window = 9\nmax_fps = 12.5";
    let environment = [("NAE_INFER_QUEUE", "8"), ("NAE_INFER_THREADS", "3"), ("OTHER", "x")];
    let config = read(Some(file), &environment, Flags { threads: flag("2"), ..Flags::default() }).unwrap();
    let camera = &config.cameras[0];
    assert_eq!(camera.model, Some(PathBuf::from("a.onnx")));
    assert_eq!((camera.queue, config.threads), (8, 2));
    assert_eq!(camera.source.interval, Duration::from_millis(80));
    assert_eq!(camera.alarm, AlarmSettings::new(3, 1, 9).unwrap());
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
}

#[test]
fn everything_wrong_is_said_at_once() {
    let file = "modle = \"a\"\nqueue = true\nmax_fps = -1\nwebhook = \"ftp://x\"\nalarm_hours = \"Mon 7-19\"";
    let environment = [("NAE_INFER_LISTEN", "here"), ("NAE_INFER_TYPO", "1")];
    let flags = Flags { alarm_raise: flag("6"), mqtt: flag("broker"), token_file: flag("none"), ..Flags::default() };
    let error = read(Some(file), &environment, flags).unwrap_err();
    for part in [
        "there is no setting `modle`",
        "`queue`: expected a text or a number",
        "`max_fps`: expected a number from 0.001",
        "`webhook`: expected an address",
        "`alarm_hours`: expected days and hours such as `Mon-Fri 07:00-19:00, Sat 08:00-12:00`, or ",
        "(`Mon 7-19` is neither), found `Mon 7-19`",
        "variable NAE_INFER_LISTEN: `listen`: expected ADDRESS:PORT, found `here`",
        "variable NAE_INFER_TYPO: there is no setting `typo`",
        "the raising count must be between 1 and the window's length",
        "flag --mqtt: `mqtt`: expected HOST:PORT, mqtt://HOST or mqtts://HOST",
        "flag --token-file: `token_file`: expected a file that can be read",
    ] {
        assert!(error.contains(part), "expected {part} in\n{error}");
    }
    assert!(error.starts_with("10 settings are wrong"), "{error}");
}

/// A TOML error would show the line, and the password in it.
#[test]
fn a_file_that_is_no_toml_is_told_by_line_and_column() {
    let error = read(Some("queue = 7\nwebhook = \"https://me:secret@x\nmodel = 1"), &[], Flags::default()).unwrap_err();
    assert!(error.contains("serve.toml: line 2, column ") && !error.contains("secret"), "{error}");
}

#[test]
fn a_cameras_password_is_in_no_error() {
    for source in [
        "rtsp://me:sec/ret@:0/",
        "ftp://me:secret@camera/x",
        "rtsp://me:secret@camera:port/",
        "rtsp:/me:secret@camera/live",
        "me:secret@camera",
        "rtsp://me:my secret@camera/",
    ] {
        let file = format!("[[camera]]\nname = \"gate\"\nmodel = \"m\"\nsource = [\"{source}\"]");
        let error = read(Some(&file), &[("NAE_INFER_SOURCE", source)], Flags::default()).unwrap_err();
        assert!(error.contains("variable NAE_INFER_SOURCE") && error.contains("expected a text"), "{error}");
        assert!(!error.contains("sec"), "{error}");
        let error = read(None, &[], Flags { model: flag("m"), source: flag(source), ..Flags::default() }).unwrap_err();
        assert!(error.contains("`source`: expected") && !error.contains("sec"), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("login");
    let with = |source: &str, login: &str| {
        std::fs::write(&path, login).unwrap();
        let source_login_file = Some(path.display().to_string());
        read(None, &[], Flags { model: flag("m"), source: flag(source), source_login_file, ..Flags::default() })
    };
    let config = with("rtsp://camera/live", "me:secret\n").unwrap();
    assert!(config.cameras[0].source.address.camera().unwrap().has_login());
    assert!(!format!("{config:?}").contains("secret"));
    for (source, login, said) in [
        ("rtsp://camera/live", "secret", "expected USER:PASSWORD in it"),
        ("rtsp://me:secret@camera/live", "me:secret", "are in the `source`, too"),
        ("folder:x", "me:secret", "a source `folder:x` takes no password"),
    ] {
        let error = with(source, login).unwrap_err();
        assert!(error.contains(said) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn a_receivers_password_is_in_no_error() {
    let flags =
        |webhook, mqtt| Flags { model: flag("m"), webhook: flag(webhook), mqtt: flag(mqtt), ..Flags::default() };
    let error = read(None, &[], flags("http://me:sec/ret@host/", "me:secret@broker")).unwrap_err();
    assert!(error.contains("`webhook`: expected an address") && error.contains("found `…@broker`"), "{error}");
    assert!(!error.contains("sec"), "{error}");
    for webhook in ["me:secret@host/x", "https:/me:secret@host/x", "https://me:my secret@host/"] {
        let error = read(None, &[], flags(webhook, "broker:1883")).unwrap_err();
        assert!(error.contains("`webhook`: expected an address") && error.contains("…@host/"), "{error}");
        assert!(!error.contains("sec"), "{error}");
    }
    let config = read(None, &[], flags("https://me:secret@host/", "me:s%40cret@broker:1883")).unwrap();
    assert!(!format!("{:?}", config.webhook).contains("secret"));
    let mqtt = config.cameras[0].mqtt.clone().unwrap();
    assert_eq!(mqtt.address.login, Some(("me".into(), Secret::new("s@cret"))));
    assert_eq!(mqtt.name(), "mqtt broker:1883 nae/alarms");
    assert_eq!(mqtt.name_before(), "mqtt me:s%40cret@broker:1883 nae/alarms", "what journals of before call it");
}

/// Earlier, the settings were printed with the broker's login and the token, and the flags with every
/// address.
#[test]
fn what_is_secret_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, "covert\n").unwrap();
    let file = Some(path.display().to_string());
    let flags = || Flags {
        model: flag("m"),
        source: flag("rtsp://me:covert@camera/"),
        token_file: file.clone(),
        webhook: flag("https://me:covert@host/covert"),
        mqtt: flag("mqtts://me:covert@broker"),
        ..Flags::default()
    };
    let config = read(None, &[], flags()).unwrap();
    let flags = || Flags { mqtt: flag("mqtts://broker"), mqtt_password_file: file.clone(), ..flags() };
    let of_file = read(None, &[], Flags { mqtt_user: flag("me"), ..flags() }).unwrap();
    assert_eq!(of_file.cameras[0].mqtt.as_ref().unwrap().address.login.as_ref().unwrap().1.expose(), "covert");
    for text in [format!("{:?}", flags()), format!("{config:#?}"), format!("{of_file:?}")] {
        assert!(!text.contains("covert"), "{text}");
    }
    let variable = [("NAE_INFER_MQTT_PASSWORD", "covert"), ("NAE_INFER_MQTT_USER", "me")];
    let of_variable = read(None, &variable, Flags { mqtt_password_file: None, ..flags() }).unwrap();
    assert_eq!(
        of_variable.cameras[0].mqtt.as_ref().unwrap().address.login,
        of_file.cameras[0].mqtt.as_ref().unwrap().address.login
    );
    let error = read(None, &variable, flags()).unwrap_err();
    assert!(
        error.contains("`mqtt_password` and `mqtt_password_file`: give one") && !error.contains("covert"),
        "{error}"
    );
}

/// Before, the password was ignored if `mqtt` contained the user.
#[test]
fn a_brokers_user_and_password_may_come_from_two_settings() {
    let read_login = |mqtt, user: Option<&str>, password: Option<&str>| {
        let given = [("NAE_INFER_MQTT_USER", user), ("NAE_INFER_MQTT_PASSWORD", password)];
        let variables: Vec<_> = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let config = read(None, &variables, Flags { model: flag("m"), mqtt: flag(mqtt), ..Flags::default() })?;
        let login = config.cameras[0].mqtt.as_ref().unwrap().address.login.clone();
        Ok::<_, String>(login.map(|(user, password)| (user, password.expose().to_owned())))
    };
    let login = |user: &str, password: &str| Ok(Some((user.to_owned(), password.to_owned())));
    assert_eq!(read_login("mqtt://gate@host", None, Some("covert")), login("gate", "covert"));
    assert_eq!(read_login("mqtt://host", Some("gate"), Some("covert")), login("gate", "covert"));
    assert_eq!(read_login("mqtt://gate:covert@host", None, None), login("gate", "covert"));
    assert_eq!(read_login("mqtt://gate@host", None, None), login("gate", ""));
    assert_eq!(read_login("mqtt://host", Some("gate"), None), login("gate", ""));
    assert_eq!(read_login("mqtt://host", None, None), Ok(None));
    for (mqtt, user, password, said) in [
        ("mqtt://host", None, Some("covert"), "`mqtt_password`: there is no user"),
        (
            "mqtt://gate:covert@host",
            None,
            Some("secret"),
            "`mqtt` and `mqtt_password`: give the password in one of them",
        ),
        ("mqtt://gate:covert@host", Some("yard"), None, "`mqtt` and `mqtt_user`: give the user in one of them"),
    ] {
        let error = read_login(mqtt, user, password).unwrap_err();
        assert!(error.contains(said) && !error.contains('\n'), "{error}");
        assert!(!error.contains("covert") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn a_secret_to_sign_with_is_taken_from_a_file_or_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    std::fs::write(&path, format!("{secret}\n")).unwrap();
    let flags = |webhook: Option<String>, webhook_secret_file| Flags {
        model: flag("m"),
        webhook,
        webhook_secret_file,
        ..Flags::default()
    };
    let (hook, file) = (|| flag("http://host/"), || Some(path.display().to_string()));
    let variable = [("NAE_INFER_WEBHOOK_SECRET", secret)];
    let config = read(None, &[], flags(hook(), file())).unwrap();
    assert_eq!(config.webhook_signer, Some(secret.parse().unwrap()));
    assert_eq!(config, read(None, &variable, flags(hook(), None)).unwrap());
    assert!(!format!("{config:?}").contains("MfKQ"));
    let wrong = [("NAE_INFER_WEBHOOK_SECRET", "covert")];
    for (variable, flags, said) in [
        (&variable, flags(hook(), file()), "`webhook_secret` and `webhook_secret_file`: give one"),
        (&variable, flags(None, None), "there is no `webhook`"),
        (&wrong, flags(hook(), None), "`webhook_secret`: expected whsec_ and base64"),
    ] {
        let error = read(None, variable, flags).unwrap_err();
        assert!(error.contains(said) && !error.contains("covert") && !error.contains("MfKQ"), "{error}");
    }
}

#[test]
fn files_for_tls_are_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.pem");
    std::fs::write(&path, "no certificate").unwrap();
    let file = Some(path.display().to_string());
    let flags = |mqtt| Flags { model: flag("m"), mqtt: flag(mqtt), mqtt_ca_file: file.clone(), ..Flags::default() };
    let error = read(None, &[], flags("broker:1883")).unwrap_err();
    assert!(error.contains("write the broker as mqtts://broker:1883"), "{error}");
    let error = read(None, &[], flags("mqtts://broker")).unwrap_err();
    assert!(error.contains("none.pem: expected certificates in PEM, found none"), "{error}");
    let error = read(None, &[], Flags { mqtt_key_file: file.clone(), ..flags("mqtts://broker") }).unwrap_err();
    assert!(error.contains("give both or none"), "{error}");
}

#[test]
fn a_stream_is_taken_as_it_is_said() {
    let file = "model = \"m\"\nsource = \"rtsps://camera/live\"\nmax_fps = 4\nsource_timeout = 2.5\n\
                source_size = \"640x480\"\nffmpeg_arguments = \"-hwaccel  vaapi\"";
    let source = read(Some(file), &[], Flags::default()).unwrap().cameras.remove(0).source;
    assert_eq!((source.interval, source.silence), (Duration::from_millis(250), Duration::from_millis(2500)));
    assert_eq!(
        (source.largest, source.ffmpeg_arguments.as_slice()),
        ((640, 480), ["-hwaccel", "vaapi"].map(String::from).as_slice())
    );
    for wrong in ["640", "0x480", "640x-1", "99999x1000"] {
        let error =
            read(None, &[], Flags { model: flag("m"), source_size: flag(wrong), ..Flags::default() }).unwrap_err();
        assert!(error.contains("`source_size`: expected WIDTHxHEIGHT"), "{error}");
    }
}

/// The dynamic user of systemd cannot read the files themselves.
#[test]
fn every_secret_of_the_settings_that_are_shipped_is_handed_over_by_the_unit() {
    let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
    let shipped = |name: &str| std::fs::read_to_string(packaging.join(name)).unwrap();
    let (settings, unit) = (shipped("nae-infer.toml"), shipped("nae-infer.service"));
    for line in settings.lines().filter(|line| line.contains(" = \"")) {
        let (name, value) = line.trim_start_matches("# ").split_once(" = ").unwrap();
        // Certificates are public.
        let is_secret =
            name.ends_with("_file") && !["certificate_file", "ca_file"].iter().any(|end| name.ends_with(end));
        if is_secret {
            let file = value
                .trim_matches('"')
                .strip_prefix("/run/credentials/nae-infer.service/")
                .unwrap_or_else(|| panic!("{line}"));
            assert!(unit.contains(&format!("\n#LoadCredential={file}:/etc/nae-infer/{file}\n")), "{line}");
        }
    }
}

/// Every container beside a Service of this name has these variables.
#[test]
fn what_kubernetes_says_of_a_service_is_no_setting() {
    let variables = [
        ("NAE_INFER_SERVICE_HOST", "10.0.0.1"),
        ("NAE_INFER_SERVICE_PORT", "8080"),
        ("NAE_INFER_SERVICE_PORT_HTTP", "8080"),
        ("NAE_INFER_PORT", "tcp://10.0.0.1:8080"),
        ("NAE_INFER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("NAE_INFER_PORT_8080_TCP_PROTO", "tcp"),
        ("NAE_INFER_PORT_8080_TCP_PORT", "8080"),
        ("NAE_INFER_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("NAE_INFER_GATE_SERVICE_HOST", "10.0.0.2"),
        ("NAE_INFER_GATE_PORT", "udp://10.0.0.2:53"),
        ("NAE_INFER_GATE_PORT_53_UDP", "udp://10.0.0.2:53"),
    ];
    let flags = || Flags { model: flag("m"), ..Flags::default() };
    assert_eq!(read(None, &variables, flags()), read(None, &[], flags()));
    for (variable, name) in [("NAE_INFER_PORT", "port"), ("NAE_INFER_MQTT_PORT_X", "mqtt_port_x")] {
        let error = read(None, &[(variable, "8080")], flags()).unwrap_err();
        assert!(error.contains(&format!("variable {variable}: there is no setting `{name}`")), "{error}");
    }
    // Kubernetes would set a setting with such a name.
    let settings = serde_json::to_value(Flags::default()).unwrap();
    let settings = settings.as_object().unwrap().keys();
    assert!(settings.clone().all(|name| !name.starts_with("service_") && !name.starts_with("port")), "{settings:?}");
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_not_passed_over() {
    use std::os::unix::ffi::OsStringExt as _;
    let variable = ("NAE_INFER_STATE".into(), OsString::from_vec(b"/tmp/\xFF".to_vec()));
    let error = Config::read(&Flags { model: flag("m"), ..Flags::default() }, [variable].into_iter()).unwrap_err();
    assert_eq!(error.to_string(), "variable NAE_INFER_STATE: expected UTF-8");
}

#[test]
fn others_need_a_token() {
    let flags = || Flags { model: flag("m"), listen: flag("0.0.0.0:80"), ..Flags::default() };
    assert!(read(None, &[], flags()).unwrap_err().contains("give a `token_file`"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "  secret\n").unwrap();
    let token_file = Some(path.display().to_string());
    let config = read(None, &[], Flags { token_file, ..flags() }).unwrap();
    assert_eq!(config.tokens.role("secret"), Some(Role::Operate));
}

/// The first camera has its own settings, the other those for all.
#[test]
fn each_camera_has_its_own_settings_over_those_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let login = folder.path().join("login");
    std::fs::write(&login, "me:secret").unwrap();
    let file = format!(
        "state = \"s\"\nmodel = \"a.onnx\"\nqueue = 7\nmax_fps = 4\nalarm_hours = \"22:00-06:00\"\nmqtt = \"broker:1\"\nmqtt_client_id = \"id\"\n\
         source_login_file = \"{}\"\n\
         [[camera]]\nname = \"gate\"\nmodel = \"b.onnx\"\nsource = \"rtsp://gate/\"\nalarm_raise = 1\nalarm_clear = 0\n\
         score_timeout = 2\n\
         [[camera]]\nname = \"Yard_2-b\"\nsource = \"folder:frames\"\nqueue = 1\nalarm_hours = \"Sat 08:00-12:00\"\n",
        login.display()
    );
    let config = read(Some(&file), &[("NAE_INFER_THREADS", "3")], Flags::default()).unwrap();
    let [gate, yard] = config.cameras.as_slice() else { panic!("{config:?}") };
    assert_eq!(config.threads, 3);
    assert_eq!((gate.name.as_str(), yard.name.as_str()), ("gate", "Yard_2-b"));
    assert_eq!((&gate.model, &yard.model), (&Some(PathBuf::from("b.onnx")), &Some(PathBuf::from("a.onnx"))));
    assert_eq!((gate.queue, yard.queue), (7, 1));
    assert_eq!((gate.source.interval, yard.source.interval), (Duration::from_millis(250), Duration::from_millis(250)));
    assert_eq!((gate.alarm, yard.alarm), (AlarmSettings::new(1, 0, 5).unwrap(), AlarmSettings::new(3, 1, 5).unwrap()));
    assert_eq!((gate.score_timeout, yard.score_timeout), (Duration::from_secs(2), Duration::from_secs(10)));
    assert_eq!((&gate.state, &yard.state), (&PathBuf::from("s/cameras/gate"), &PathBuf::from("s/cameras/Yard_2-b")));
    assert_eq!(
        [&gate.alarm_hours, &yard.alarm_hours],
        ["22:00-06:00", "Sat 08:00-12:00"].map(|text| Some(text.parse().unwrap())).each_ref()
    );
    assert_eq!(gate.address, "/api/cameras/gate");
    // The login for all does not apply to the folder.
    assert!(gate.source.address.camera().unwrap().has_login());
    let brokers = [gate, yard].map(|camera| camera.mqtt.as_ref().unwrap());
    assert_eq!(brokers.map(|broker| broker.state_topic.as_str()), ["nae/gate", "nae/Yard_2-b"]);
    assert_eq!(brokers.map(|broker| broker.client_id.as_deref()), [Some("id-gate"), Some("id-Yard_2-b")]);
    assert_eq!(brokers.map(|broker| broker.alarm_topic.as_str()), ["nae/alarms"; 2]);
    // A single camera has the same paths as before there were several.
    let only = read(Some("state = \"s\"\nmodel = \"m\"\ncamera_name = \"gate\""), &[], Flags::default()).unwrap();
    assert_eq!((&only.cameras[0].state, only.cameras[0].address.as_str()), (&PathBuf::from("s"), "/api"));
    assert_eq!(only.cameras[0].name.as_str(), "gate");
    assert_eq!(only.cameras[0].alarm_hours, None);
}

/// A camera's own definition of the night replaces that for all.
#[test]
fn night_is_told_in_one_way_for_each_camera() {
    let file = "state = \"s\"\nmodel = \"a.onnx\"\nnight_model = \"n.onnx\"\nnight_hours = \"22:00-06:00\"\nnight_hold = 5\n\
         [[camera]]\nname = \"gate\"\n\
         [[camera]]\nname = \"yard\"\nnight_model = \"y.onnx\"\nnight_brightness = \"30-50\"\n\
         [[camera]]\nname = \"door\"\nnight_colour = \"2 - 5.5\"\nnight_hold = 7\n";
    let config = read(Some(file), &[], Flags::default()).unwrap();
    let text = |camera: &CameraConfig| serde_json::to_string(&camera.night.as_ref().unwrap().text()).unwrap();
    assert_eq!(
        config.cameras.iter().map(text).collect::<Vec<_>>(),
        [
            r#"{"by":"schedule","night":"22:00-06:00"}"#,
            r#"{"by":"brightness","night_below":30.0,"day_above":50.0,"hold":5.0}"#,
            r#"{"by":"colour","night_below":2.0,"day_above":5.5,"hold":7.0}"#,
        ]
    );
    let nights = config.cameras.iter().map(|camera| camera.of_night());
    let nights: Vec<_> = nights.map(|night| (night.model.unwrap(), night.state)).collect();
    assert_eq!(nights[0], ("n.onnx".into(), "s/cameras/gate/night".into()));
    assert_eq!(nights[1], ("y.onnx".into(), "s/cameras/yard/night".into()));
    // A learned model needs no file; without any of these settings, there is no night.
    let learned = read(Some("model = \"m\"\nnight_hours = \"22:00-06:00\""), &[], Flags::default()).unwrap();
    assert!(learned.cameras[0].night.is_some() && learned.cameras[0].night_model.is_none());
    assert_eq!(read(Some("model = \"m\""), &[], Flags::default()).unwrap().cameras[0].night, None);
    for (file, part) in [
        ("night_model = \"n\"", "`night_model`: when is night?"),
        ("night_hours = \"late\"", "`night_hours`: expected days and hours"),
        ("night_hours = \"22:00-06:00\"\nnight_colour = \"2-5\"", "`night_hours`, `night_colour`: one of them"),
        ("night_brightness = \"50-30\"", "`night_brightness`: expected two levels above 0"),
        ("night_brightness = \"30\"", "`night_brightness`: expected two levels of 255"),
        ("night_colour = \"NaN-5\"", "`night_colour`: expected two levels above 0"),
        ("night_colour = \"2-5\"\nnight_hold = 0", "`night_hold`: expected a number from 0.1 to 3600"),
    ] {
        let error = read(Some(file), &[], Flags::default()).unwrap_err();
        assert!(error.contains(part) && !error.contains("settings are wrong"), "{file}: {error}");
    }
}

#[test]
fn everything_wrong_with_cameras_is_said_at_once() {
    let file = "max_fps = -1\ncamera_name = \"x\"\nsource = \"-\"\n\
                [[camera]]\nname = \"gate\"\nmodel = \"m\"\nqueue = 0\nsorce = \"x\"\nlisten = \"x\"\n\
                [[camera]]\nname = \"Gate\"\nmodel = \"m\"\nalarm_raise = 9\n\
                [[camera]]\nname = \"gate\"\nmodel = \"m\"\nsource = \"ftp://me:covert@x\"\n\
                [[camera]]\nname = \"../up\"\nmodel = \"m\"\nalarm_window = true\n\
                [[camera]]\nmax_fps = 1\n";
    let flags = Flags { source: flag("rtsp://me:covert@camera/"), ..Flags::default() };
    let error = read(Some(file), &[("NAE_INFER_MODEL", "m2")], flags).unwrap_err();
    for part in [
        "serve.toml: `max_fps`: expected a number from 0.001",
        "serve.toml: `camera_name` is the name of an only camera, and ",
        "serve.toml: camera `gate`: `queue`: expected a number from 1 to 10000, found `0`",
        "serve.toml: camera `gate`: there is no setting `sorce` of a camera",
        "serve.toml: camera `gate`: `listen` is no setting of a camera: write it before the first [[camera]]",
        "the names `gate` and `Gate` differ by case only",
        "serve.toml: camera `Gate`: `alarm_raise` 9, `alarm_clear` 1, `alarm_window` 5: ",
        "serve.toml: camera `gate`: `source`: expected rtsp://",
        "serve.toml: camera `../up`: `name`: expected 1 to 64 of letters, digits, `-` and `_`, found `../up`",
        "serve.toml: camera `../up`: `alarm_window`: expected a text or a number, found true",
        "serve.toml: [[camera]] number 5 has no `name`",
        "flag --source: `source` is a camera's own, and ",
        "variable NAE_INFER_MODEL: `model` is a camera's own, and ",
        "(camera `gate`, camera `Gate`, camera `gate`, camera `../up`, [[camera]] number 5): write it there",
    ] {
        assert!(error.contains(part), "expected {part} in\n{error}");
    }
    assert_eq!(error.matches("`max_fps`").count(), 1, "once, not for each camera\n{error}");
    assert!(!error.contains("covert"), "{error}");
    for (file, said) in [
        ("camera = \"gate\"", "`camera`: expected [[camera]]"),
        ("camera = []", "`camera`: expected [[camera]]"),
        ("camera = [1]", "`camera`: expected [[camera]]"),
        ("[camera]\nname = \"gate\"", "`camera`: expected [[camera]]"),
        ("model = \"m\"\n[[camera]]\nname = true", "[[camera]] number 1: `name`: expected a text or a number"),
        ("model = \"m\"\n[[camera]]\nname = \"a\"\n[[camera]]\nname = \"a\"", "two [[camera]] have the name `a`"),
        (
            "model = \"m\"\nsource = \"-\"\n[[camera]]\nname = \"a\"\n[[camera]]\nname = \"b\"",
            "standard input has the frames of one camera, and a, b are to take it",
        ),
    ] {
        let error = read(Some(file), &[], Flags::default()).map(|_| String::new()).unwrap_or_else(|error| error);
        assert!(error.contains(said), "expected {said} in {error}\n{file}");
    }
}

#[test]
fn a_token_has_one_role() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path.display().to_string())
    };
    let flags = |look: &str| Flags {
        model: flag("m"),
        token_file: file("operate", "all"),
        score_token_file: file("score", "images"),
        look_token_file: file("look", look),
        ..Flags::default()
    };
    let tokens = read(None, &[], flags("seeing\n")).unwrap().tokens;
    let roles = ["all", "images", "seeing", "", "al", "alll"].map(|token| tokens.role(token));
    assert_eq!(roles, [Some(Role::Operate), Some(Role::Score), Some(Role::Look), None, None, None]);
    let error = read(None, &[], flags("images")).unwrap_err();
    assert_eq!(error, "`look_token_file`: expected a token of its own, found that of another role");
    for never in ["pässwort", "two\nlines", "a\ttab"] {
        let error = read(None, &[], flags(never)).unwrap_err();
        assert!(error.contains("`look_token_file`: expected one line of letters"), "{error}");
    }
    // A token for looking is enough to listen to others; in that case, nobody can change anything.
    let config =
        read(None, &[], Flags { token_file: None, score_token_file: None, listen: flag("0.0.0.0:80"), ..flags("x") });
    assert_eq!(config.unwrap().tokens.role("x"), Some(Role::Look));
}

#[test]
fn regions_are_tables_of_the_file_or_a_text() {
    let one = "kind = \"include\"\nvertices = [[0, 0], [0.5, 0], [0.5, 1]]\n";
    let other = r#"[{"kind": "ignore", "name": "road", "vertices": [[0, 0], [1, 0], [1, 1]]}]"#;
    let expected = |text: &str| Regions::from_json(text).unwrap();
    let include = r#"[{"kind": "include", "vertices": [[0, 0], [0.5, 0], [0.5, 1]]}]"#;
    let of = |config: Result<Config, String>| -> Vec<Regions> {
        config.unwrap().cameras.into_iter().map(|camera| camera.regions).collect()
    };
    let file = format!("model = \"m\"\n[[regions]]\n{one}");
    assert_eq!(of(read(Some(&file), &[], Flags::default())), [expected(include)]);
    let flags = Flags { regions: flag(other), ..Flags::default() };
    assert_eq!(of(read(Some(&file), &[], flags)), [expected(other)], "a flag goes over the file");
    assert_eq!(of(read(Some("model = \"m\""), &[], Flags::default())), [Regions::default()]);

    // Each of several cameras has its own regions, or those for all.
    let file = format!(
        "model = \"m\"\nregions = '{other}'\n[[camera]]\nname = \"a\"\n[[camera.regions]]\n{one}[[camera]]\nname = \"b\"\n\
         [[camera]]\nname = \"c\"\nregions = []\n"
    );
    assert_eq!(of(read(Some(&file), &[], Flags::default())), [expected(include), expected(other), Regions::default()]);
    let wrong = "[[camera]]\nname = \"a\"\nmodel = \"m\"\n[[camera.regions]]\nkind = \"ignore\"\nname = \"sky\"\n\
                 vertices = [[0, 0], [1, 0]]";
    let error = read(Some(wrong), &[], Flags::default()).unwrap_err();
    assert!(error.ends_with("camera `a`: `regions`: region 1 (`sky`): expected 3 to 64 vertices, found 2"), "{error}");
    for wrong in ["regions = 5", "regions = [5]", "[regions]\nkind = \"ignore\"", "[[regions]]\nvertices = [[nan, 0]]"]
    {
        let error = read(Some(&format!("model = \"m\"\n{wrong}")), &[], Flags::default()).unwrap_err();
        assert!(error.contains("`regions`: expected"), "{error}");
    }
}

/// A camera without a model learns one, if it can.
#[test]
fn a_camera_needs_a_model_or_what_to_learn_one_from() {
    let of = |source, room| Flags { source: flag(source), learn_room: flag(room), ..Flags::default() };
    let why = |flags| read(None, &[], flags).unwrap().cameras[0].cannot_learn();
    assert_eq!(why(of("rtsp://camera/", "10")), None);
    for (source, room, part) in
        [("none", "10", "no `source` to learn one from"), ("rtsp://camera/", "0", "`learn_room` is 0")]
    {
        let why = why(of(source, room)).unwrap();
        assert!(why.starts_with("no `model`, and ") && why.contains(part) && why.contains("--model FILE"), "{why}");
    }
    assert_eq!(ConfigError::of(Vec::new()), Ok(()));
}

/// Without a token, only this machine has access, and is not limited unless a limit is set.
#[test]
fn limits_are_there_where_others_ask() {
    use super::super::limits::{LimitSettings, Rate};
    use std::num::NonZeroU32;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "secret").unwrap();
    let of = |token: bool, file: &str| {
        let token_file = token.then(|| path.display().to_string());
        read(Some(&format!("model = \"m\"\n{file}")), &[], Flags { token_file, ..Flags::default() })
    };
    let settings = |wrong, changes, scores| LimitSettings {
        wrong_tokens: NonZeroU32::new(wrong),
        changes: NonZeroU32::new(changes).map(Rate::per_minute),
        scores: NonZeroU32::new(scores).map(Rate::per_second),
    };
    assert_eq!(of(true, "").unwrap().limits, settings(5, 240, 200));
    assert_eq!(of(false, "").unwrap().limits, settings(5, 0, 0));
    let said = "wrong_tokens = 9\nchanges_per_minute = 8\nscores_per_second = 7";
    assert_eq!(of(false, said).unwrap().limits, settings(9, 8, 7));
    let off = "wrong_tokens = 0\nchanges_per_minute = 0\nscores_per_second = 0";
    assert_eq!(of(true, off).unwrap().limits, LimitSettings::default());
    assert_eq!(of(true, "").unwrap().trusted_proxies, Default::default());
    let proxies = of(true, "trusted_proxies = \"127.0.0.1, 10.1.0.0/16\"").unwrap().trusted_proxies;
    assert_eq!(Ok(proxies), "127.0.0.1,10.1.0.0/16".parse());
    let error = of(true, "trusted_proxies = \"proxy\"").unwrap_err();
    assert!(error.contains("`trusted_proxies`: expected addresses and networks"), "{error}");
    let error = of(true, "wrong_tokens = -1\nscores_per_second = 0.5").unwrap_err();
    for part in
        ["`wrong_tokens`: expected a number from 0 to 1000", "`scores_per_second`: expected a number from 0 to 100000"]
    {
        assert!(error.contains(part), "{error}");
    }
}
