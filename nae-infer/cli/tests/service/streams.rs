//! Cameras of the network, most by `ffmpeg`, and what goes wrong with them: each fault is shown as a loss, with its reason and without
//! a password, and the camera is found again.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::camera::jpeg;
use crate::harness::{Place, Service, eventually, group, models, runs};
use crate::stream_camera::{Camera, Login, Manner, Pictures};

/// With what means something in an address; encoded for one; and `me:` and it, in base 64.
const PASSWORD: &str = "secret/w@r:d%1";
const ENCODED: &str = "secret%2Fw%40r%3Ad%251";
const LETTERS: &str = "bWU6c2VjcmV0L3dAcjpkJTE=";
/// Seconds without a frame after which a camera is lost: enough for `ffmpeg` to start on a machine that has other work.
const TIMEOUT: &str = "6";

/// Whether `ffmpeg` is there, and `openssl`, which makes certificates.
pub(crate) fn can_run() -> bool {
    let missing = ["ffmpeg", "openssl"].into_iter().find(|name| Command::new(name).arg("-version").output().is_err());
    let Some(name) = missing else { return true };
    assert!(std::env::var_os("NAE_EVERY_RUNTIME").is_none(), "{name} is not installed");
    eprintln!("skipped: {name} is not installed");
    false
}

/// An image that comes with the model, as a video.
pub(crate) fn video(codec: &'static str, name: &str, size: u32) -> Pictures {
    Pictures::video(codec, &models().join("images").join(format!("{name}.png")), size)
}

fn watch(place: &Place, source: &str) -> Service {
    Service::start(&place.state(), &["--source", source, "--source-timeout", TIMEOUT])
}

fn state(service: &Service) -> Value {
    service.get("/api/state").json()
}

fn frames(service: &Service) -> f64 {
    service.metric("nae_frames_total{origin=\"Source\"}")
}

/// Waits for some frames more than there are.
fn wait_frames(service: &Service) {
    let before = frames(service);
    eventually("frames come", || frames(service) > before + 2.0);
    assert_eq!(state(service)["source_state"], "connected");
}

/// Waits for the loss, and gives its reason.
fn wait_lost(service: &Service) -> String {
    let mut reason = String::new();
    eventually("the camera is shown as lost", || {
        let state = state(service);
        reason = state["source_reason"].as_str().unwrap_or_default().to_owned();
        state["source_state"] == "lost"
    });
    reason
}

fn command_line(process: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

#[test]
fn a_stream_is_scored_as_its_images_are() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    for (codec, name, anomaly) in [("H264", "six", false), ("H264", "checkerboard", true), ("H265", "zero", false)] {
        let camera = Camera::start(video(codec, name, 64));
        let service = watch(&place, &format!("rtsp://{}/live", camera.place()));
        wait_frames(&service);
        assert_eq!(state(&service)["latest"]["anomaly"], anomaly, "{codec} {name}: {}", state(&service));
        assert_eq!(service.get("/api/latest/image").kind, "image/jpeg");
    }
}

#[test]
fn streams_over_tls_are_taken() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    for (scheme, pictures) in [("rtsps", video("H264", "six", 64)), ("https", Pictures::Jpeg(jpeg("six")))] {
        let camera = Camera::with_tls(pictures, &place.path(""));
        let service = watch(&place, &format!("{scheme}://{}/live", camera.place()));
        wait_frames(&service);
        assert_eq!(state(&service)["latest"]["anomaly"], false, "{scheme}: {}", state(&service));
    }
}

/// By digest or as it is; neither log, page nor answers have it, nor does a camera that did not ask for it.
#[test]
fn a_camera_of_motion_jpeg_is_told_the_password_as_it_asks_for_it() {
    if !can_run() {
        return;
    }
    for login in [Login::Digest("me", PASSWORD), Login::Basic(LETTERS)] {
        let place = Place::new();
        let camera = Camera::with_login(Pictures::Jpeg(jpeg("six")), login);
        let source = format!("http://{}/video", camera.place());
        let with = |state: &str, login: &str| {
            std::fs::write(place.path("login"), login).unwrap();
            let file = place.path("login").display().to_string();
            Service::start(&place.path(state), &["--source", &source, "--source-login-file", &file])
        };
        let service = with("right", &format!("me:{PASSWORD}"));
        wait_frames(&service);
        for path in ["/api/state", "/", "/metrics"] {
            assert!(!String::from_utf8_lossy(&service.get(path).body).contains("secret"), "{path}");
        }
        let service = with("wrong", "me:secret-not");
        let (reason, line) = (wait_lost(&service), service.wait_log("the source is lost"));
        for text in [&reason, &line] {
            let part = "it answered 401 Unauthorized: user or password are wrong";
            assert!(text.contains(part) && !text.contains("secret"), "{text}");
        }
    }
}

/// Neither others' lists of processes, nor log, page and answers have the password; a wrong one is a loss with that reason.
#[test]
fn the_password_of_a_stream_is_shown_to_nobody_and_a_wrong_one_is_said() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let camera = Camera::with_login(video("H264", "six", 64), Login::Digest("me", PASSWORD));
    let login = place.path("login");
    std::fs::write(&login, format!("me:{PASSWORD}\n")).unwrap();
    let address = camera.place();
    let source = format!("rtsp://{address}/live");
    let arguments = ["--source", &source, "--source-login-file", login.to_str().unwrap(), "--source-timeout", TIMEOUT];
    let service = Service::start(&place.state(), &arguments);
    wait_frames(&service);
    let [child] = service.children()[..] else { panic!("{:?}", service.children()) };
    let line = command_line(child);
    assert!(line.starts_with("ffmpeg ") && !line.contains("secret") && !line.contains("live"), "{line}");
    for path in ["/api/state", "/", "/metrics"] {
        assert!(!String::from_utf8_lossy(&service.get(path).body).contains("secret"), "{path}");
    }

    // By a variable, which the child does not get.
    let right = format!("rtsp://me:{ENCODED}@{address}/live");
    let service = Service::start_with(
        &place.path("by-variable"),
        &["--source-timeout", TIMEOUT],
        &[("NAE_INFER_SOURCE", Path::new(&right))],
    );
    wait_frames(&service);
    let child = service.children()[0];
    let variables = String::from_utf8_lossy(&std::fs::read(format!("/proc/{child}/environ")).unwrap()).into_owned();
    assert!(variables.contains("PATH=") && !variables.contains("secret"), "{variables}");

    // A wrong one.
    let camera = Camera::with_login(video("H264", "six", 64), Login::Basic(LETTERS));
    let address = camera.place();
    let wrong = format!("rtsp://me:{ENCODED}-not@{address}/live");
    let variables = [("NAE_INFER_SOURCE", Path::new(&wrong))];
    let service = Service::start_with(&place.path("wrong"), &["--source-timeout", TIMEOUT], &variables);
    let (reason, line) = (wait_lost(&service), service.wait_log("the source is lost"));
    for text in [&reason, &line] {
        assert!(
            text.contains(&format!("rtsp://{address}/live: ffmpeg ended")) && text.contains("401 Unauthorized"),
            "{text}"
        );
        assert!(!text.contains("secret") && !text.contains("me:"), "{text}");
    }
    assert!(!state(&service).to_string().contains("secret"));

    // And right again, for a camera that asks for it in the other way.
    std::fs::write(&login, format!("me:{PASSWORD}")).unwrap();
    let source = format!("rtsp://{address}/live");
    let arguments = ["--source", &source, "--source-login-file", login.to_str().unwrap(), "--source-timeout", TIMEOUT];
    wait_frames(&Service::start(&place.path("basic"), &arguments));
}

#[test]
fn a_stream_that_breaks_is_lost_with_the_reason_and_found_again() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let mut camera = Camera::start(video("H264", "six", 64));
    let service = watch(&place, &format!("rtsp://{}/live", camera.place()));
    wait_frames(&service);

    // ffmpeg is killed.
    let children = service.children();
    let [child] = children[..] else { panic!("{children:?}") };
    assert!(Command::new("kill").args(["-9", &child.to_string()]).status().unwrap().success());
    let reason = wait_lost(&service);
    assert!(reason.contains("ffmpeg ended, signal: 9"), "{reason}");
    wait_frames(&service);

    // The camera goes away, and comes back.
    camera.go_away();
    eventually("nobody answers", || wait_lost(&service).contains("Connection refused"));
    let camera = camera.again();
    wait_frames(&service);

    // It stops in mid-stream, and says nothing to whoever asks again.
    let connections = camera.connections();
    camera.be(Manner::Silent);
    let reason = wait_lost(&service);
    assert!(reason.contains("no frame for 6s") || reason.contains("timed out"), "{reason}");
    eventually("it was asked again", || camera.connections() > connections);
    let children = service.children();
    assert!(children.len() <= 1, "one at a time: {children:?}");
    camera.be(Manner::Plays);
    wait_frames(&service);
}

/// Neither to see what the rate of a camera is, nor because there are threads to be kept busy. That a picture of RTP is whole is seen when
/// the next begins.
#[test]
fn no_frame_of_a_stream_waits_for_more_than_the_next() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    for codec in ["H264", "H265"] {
        let camera = Camera::every(Duration::from_millis(250), video(codec, "six", 64));
        let source = format!("rtsp://{}/live", camera.place());
        let arguments = ["--source", &source, "--source-timeout", "60", "--queue", "40"];
        let service = Service::start(&place.path(codec), &arguments);
        eventually("the first is scored", || frames(&service) >= 1.0);
        let first = camera.sent();
        eventually("three more come", || camera.sent() > first + 3);
        camera.be(Manner::Silent);
        eventually("all that were sent but the last are scored", || frames(&service) >= camera.sent() as f64 - 1.0);
        println!("{codec}: {first} frames were sent when the first was scored");
        // H.264 may say with the seventh in which order they are.
        assert!(first <= 12, "{codec}: {first}");
    }
}

/// It takes more than three seconds to say what it has, and some tenths of one for a picture. `ffmpeg` wants to see some before it gives
/// the first.
#[test]
fn a_slow_camera_is_lost_or_waited_for_as_the_timeout_says() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let camera = Camera::start(video("H264", "six", 64));
    camera.be(Manner::Slow);
    let source = format!("rtsp://{}/live", camera.place());
    let service = Service::start(&place.state(), &["--source", &source, "--source-timeout", "2"]);
    let reason = wait_lost(&service);
    assert!(reason.contains("no frame for 2s"), "{reason}");
    drop(service);

    let service = Service::start(&place.state(), &["--source", &source, "--source-timeout", "60"]);
    let begin = Instant::now();
    wait_frames(&service);
    println!("a slow camera's first frames after {:?}", begin.elapsed());
    let (before, connections) = (frames(&service), camera.connections());
    eventually("ten more come", || frames(&service) >= before + 10.0);
    // At first those that `ffmpeg` has held back.
    eventually("they come as they are sent", || frames(&service) >= camera.sent() as f64 - 2.0);
    assert_eq!(
        (camera.connections(), service.metric("nae_source_up")),
        (connections, 1.0),
        "it was not lost meanwhile"
    );
    assert_eq!(state(&service)["latest"]["anomaly"], false);
}

#[test]
fn garbage_of_a_camera_is_a_loss() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let camera = Camera::start(video("H264", "six", 64));
    camera.be(Manner::Garbage);
    let service = watch(&place, &format!("rtsp://{}/live", camera.place()));
    let reason = wait_lost(&service);
    assert!(reason.contains("ffmpeg ended") && reason.contains("Invalid data"), "{reason}");
    camera.be(Manner::Plays);
    wait_frames(&service);
    // In place of the video's units.
    camera.be(Manner::Garbage);
    let reason = wait_lost(&service);
    assert!(reason.contains("no frame for 6s"), "{reason}");
}

#[test]
fn another_resolution_in_mid_stream_is_taken() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let camera = Camera::start(video("H264", "six", 64).then(video("H264", "zero", 96)));
    let service = watch(&place, &format!("rtsp://{}/live", camera.place()));
    wait_frames(&service);
    // Two rounds of both.
    let (sent, scored) = (camera.sent(), frames(&service));
    eventually("both were sent", || camera.sent() > sent + 100);
    let taken = frames(&service) - scored;
    assert!(taken > 50.0, "{taken}");
    assert_eq!(camera.connections(), 1, "it is the same connection");
    assert_eq!(state(&service)["latest"]["anomaly"], false);
    assert_eq!(service.metric("nae_frame_failures_total{origin=\"Source\"}"), 0.0);
}

#[test]
fn the_rate_of_a_stream_is_limited_and_its_size() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let camera = Camera::start(video("H264", "six", 96));
    let source = format!("rtsp://{}/live", camera.place());
    let arguments = ["--source", &source, "--source-timeout", TIMEOUT, "--max-fps", "5", "--source-size", "48x400"];
    let service =
        Service::start(&place.state(), &[arguments.as_slice(), &["--ffmpeg-arguments", "-threads 1"]].concat());
    wait_frames(&service);
    let (sent, scored) = (camera.sent(), frames(&service));
    eventually("four seconds are sent", || camera.sent() >= sent + 100);
    let taken = frames(&service) - scored;
    assert!((12.0..=25.0).contains(&taken), "{taken} of 100 at 25 a second");
    let image = nae_infer::image::load_from_memory(&service.get("/api/latest/image").body).unwrap();
    assert_eq!((image.width(), image.height()), (48, 48));
    let line = command_line(service.children()[0]);
    assert!(line.contains(" -threads 1 "), "{line}");
}

#[test]
fn ffmpeg_ends_with_the_service_however_it_ends() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let camera = Camera::start(video("H264", "six", 64));
    let source = format!("rtsp://{}/live", camera.place());
    for stop in ["TERM", "KILL"] {
        // Once while frames come, and once while it waits for a camera that says nothing.
        for manner in [Manner::Plays, Manner::Silent] {
            camera.be(manner);
            let connections = camera.connections();
            let service = Service::start(&place.state(), &["--source", &source, "--source-timeout", "600"]);
            eventually("ffmpeg asks", || camera.connections() > connections);
            if manner == Manner::Plays {
                wait_frames(&service);
            }
            let [child] = service.children()[..] else { panic!("{:?}", service.children()) };
            // Ctrl-C on a terminal goes to a whole group: the camera would be called lost.
            assert_eq!(group(child), Some(child));
            if stop == "TERM" {
                service.signal("TERM");
                assert_eq!(service.wait(), Some(0));
                assert!(!runs(child), "{manner:?}: ffmpeg is left behind");
            } else {
                service.kill();
                eventually("Linux ends ffmpeg", || !runs(child));
            }
        }
    }
}

#[test]
fn a_machine_without_ffmpeg_is_told_what_to_install() {
    let place = Place::new();
    let variables = [("PATH", Path::new("/nothing/here"))];
    let service = Service::start_with(&place.state(), &["--source", "rtsp://127.0.0.1:9/live"], &variables);
    let reason = wait_lost(&service);
    assert!(reason.contains("rtsp://127.0.0.1:9/live: this source needs the program ffmpeg"), "{reason}");
    assert!(reason.contains("apt-get install ffmpeg"), "{reason}");
    assert_eq!(state(&service)["source"], json!("rtsp://127.0.0.1:9/live"));
}

#[test]
fn a_password_on_the_command_line_of_the_service_is_warned_of() {
    let place = Place::new();
    let arguments = ["--source", "http://me:secret-word@127.0.0.1:9/video"];
    let mut process = Command::new(env!("CARGO_BIN_EXE_nae-infer"))
        .args(["serve", "--listen", "127.0.0.1:0", "--model", "/nothing.onnx", "--state"])
        .arg(place.state())
        .args(arguments)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut process.stderr.take().unwrap(), &mut said).unwrap();
    process.wait().unwrap();
    assert!(said.contains("give it by --source-login-file") && !said.contains("secret"), "{said}");
}
