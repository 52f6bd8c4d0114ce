//! A model for the day and one for the night: which is in use as it becomes dark and light, what each has for itself, and what is left
//! when one is missing or the service is killed.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::alarms::scored;
use crate::browser::Browser;
use crate::harness::{PATIENCE, Place, Service, comes, eventually, model, picture};
use crate::learn::{act, other_model, status};
use crate::mosquitto::Broker;

/// Two anomalies of two frames raise an alarm, a normal frame clears it; no frame is dropped.
const QUICK: [&str; 8] = ["--alarm-raise", "2", "--alarm-clear", "0", "--alarm-window", "2", "--queue", "1000"];
/// Night below 100, which the picture `six` is, day above 150, within a second.
const BY_BRIGHTNESS: [&str; 4] = ["--night-brightness", "100-150", "--night-hold", "1"];

/// A frame of one grey, which the models of the digits do not know.
fn grey(level: u8) -> Vec<u8> {
    [b"P5 16 16 255\n".as_slice(), &[level; 256]].concat()
}

fn start(place: &Place, arguments: &[&str]) -> Service {
    let source = place.source();
    Service::start(&place.state(), &[&["--source", &source], &QUICK[..], arguments].concat())
}

/// The frames of the folder would come again with the next start.
fn forget_frames(place: &Place) {
    std::fs::remove_dir_all(place.path("frames")).unwrap();
    std::fs::create_dir(place.path("frames")).unwrap();
}

/// With a model for the night, which is the same network in another file.
fn start_with_both(place: &Place, arguments: &[&str]) -> Service {
    let night = other_model().display().to_string();
    start(place, &[&["--night-model", &night], arguments].concat())
}

fn digest(path: &Path) -> String {
    // As `cksum -o 3` and zlib have it.
    let script = "import sys, zlib; print('%08x' % zlib.crc32(open(sys.argv[1], 'rb').read()))";
    let output = Command::new("python3").args(["-c", script]).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn state(service: &Service) -> Value {
    service.get("/api/state").json()
}

/// The condition that holds, whose model is in use, and its digest.
fn now(service: &Service) -> (String, String, String) {
    let state = state(service);
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let day_night = &state["day_night"];
    (text(&day_night["condition"]), text(&day_night["model_for"]), text(&state["model"]))
}

fn expected(condition: &str, model_for: &str, model: &Path) -> (String, String, String) {
    (condition.to_owned(), model_for.to_owned(), digest(model))
}

/// The camera sees this, again and again, until something is so; how many frames that took.
fn sees(service: &Service, place: &Place, name: &str, image: &[u8], mut until: impl FnMut() -> bool) -> usize {
    let end = Instant::now() + PATIENCE;
    let mut count = 0;
    while !until() {
        assert!(Instant::now() < end, "timed out waiting: {name}, {}", state(service)["day_night"]);
        place.frame(&format!("{name}-{count:04}.pgm"), image);
        count += 1;
        thread::sleep(Duration::from_millis(100));
    }
    count
}

fn set(service: &Service, rule: &str) -> Value {
    let answer = service.change("/api/day-night", rule);
    assert_eq!(answer.status, 200, "{rule}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

/// What has come of events of a kind.
fn of_kind(events: &Receiver<Value>, kind: &str) -> Vec<Value> {
    events.try_iter().filter(|event| event["event"] == kind).collect()
}

/// A real run of a camera at which it becomes dark, and light again.
#[test]
fn as_it_becomes_dark_and_light_the_models_take_turns_and_no_frame_is_lost() {
    let place = Place::new();
    let service = start_with_both(&place, &BY_BRIGHTNESS);
    let events = service.events();
    let by_day = expected("day", "day", &model());
    let by_night = expected("night", "night", &other_model());
    assert_eq!(now(&service), by_day);

    let mut sent = sees(&service, &place, "a", &grey(200), || state(&service)["alarm"] == true);
    sent += sees(&service, &place, "b", &grey(200), || service.get("/api/day-night").json()["light"] != Value::Null);
    let light = &service.get("/api/day-night").json()["light"];
    assert_eq!(light, &json!({"brightness": 200.0, "colour": 0.0}));
    // Headlights, the other way round: a moment of dark, which is shorter than it has to be.
    place.frame("c.pgm", &grey(5));
    place.frame("d.pgm", &grey(200));
    sent += 2;
    assert_eq!(now(&service), by_day);
    assert_eq!((service.metric("nae_night"), service.metric("nae_night_model_in_use")), (0.0, 0.0));
    drop(of_kind(&events, "frame"));

    // Between the levels nothing changes, however long.
    let begin = Instant::now();
    sent += sees(&service, &place, "e", &grey(120), || begin.elapsed() > Duration::from_secs(3));
    assert_eq!(now(&service), by_day);

    let begin = Instant::now();
    sent += sees(&service, &place, "f", &grey(10), || now(&service).0 == "night");
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(now(&service), by_night);
    assert_eq!((service.metric("nae_night"), service.metric("nae_night_model_in_use")), (1.0, 1.0));
    let told = of_kind(&events, "day_night");
    let day_night =
        json!({"condition": "night", "model_for": "night", "by": "brightness", "night_model_missing": null});
    assert_eq!(told, [json!({"camera": "camera", "event": "day_night", "day_night": day_night})]);
    assert_eq!(service.get("/api/cameras").json()[0]["day_night"], day_night);

    // What is normal or not is said by the model of the night, and its alarms say so.
    sent += sees(&service, &place, "g", &picture("six"), || state(&service)["alarm"] == false);
    let before = service.metric("nae_alarms_total");
    sent += sees(&service, &place, "h", &grey(10), || service.metric("nae_alarms_total") > before);
    let alarms = service.get("/api/alarms").json();
    assert_eq!((&alarms[0]["night"], &alarms[0]["model"]), (&json!(true), &json!(by_night.2)));
    let first = alarms.as_array().unwrap().last().unwrap();
    assert_eq!((&first["night"], &first["model"]), (&json!(false), &json!(by_day.2)));

    sent += sees(&service, &place, "i", &grey(220), || now(&service).0 == "day");
    assert_eq!(now(&service), by_day);
    let counted = || {
        let lost = ["nae_frames_dropped_total", "nae_frame_failures_total{origin=\"Source\"}"];
        [scored(&service), service.metric(lost[0]), service.metric(lost[1])]
    };
    comes(|| counted()[0] >= sent as f64);
    assert_eq!(counted(), [sent as f64, 0.0, 0.0], "scored, dropped, failed");

    // The history knows which was in use.
    let rows = || service.get("/api/history/interval?from=600&points=600").json();
    let of = |chart: &Value, night: bool| -> u64 {
        let slices = chart["slices"].as_array().unwrap().iter().filter(|slice| slice["night"] == night);
        slices.map(|slice| slice["count"].as_u64().unwrap()).sum()
    };
    eventually("the history has all", || {
        let chart = rows();
        of(&chart, true) + of(&chart, false) == sent as u64
    });
    let chart = rows();
    assert!(of(&chart, true) > 2 && of(&chart, false) > 10, "{chart}");
    for slice in chart["slices"].as_array().unwrap() {
        let is_night = slice["night"] == true;
        assert_eq!(slice["model"], if is_night { by_night.2.as_str() } else { by_day.2.as_str() });
    }
    let csv = String::from_utf8(service.get("/api/history.csv?from=600").body).unwrap();
    assert!(csv.starts_with("time,seconds,count,min,mean,max,threshold,model,night\n"), "{csv}");
    assert!(csv.contains(&format!("{},true\n", by_night.2)) && csv.contains(&format!("{},false\n", by_day.2)), "{csv}");
}

/// It was of another model, and what is told of it ends with that.
#[test]
fn an_alarm_that_is_up_is_cleared_when_the_model_of_the_night_takes_over() {
    let place = Place::new();
    let Some(broker) = Broker::open(&place) else { return };
    let address = broker.address();
    let received = broker.listen("nae/gate/state");
    let service = start(&place, &["--mqtt", &address, "--camera-name", "gate"]);
    let told = received.wait("the state", |message| message.json()["source"] == "connected").json();
    assert_eq!((&told["condition"], &told["model_for"]), (&Value::Null, &Value::Null), "not distinguished");
    drop(service);
    let by_hours = ["--night-hours", "00:00-24:00"];
    let service = start_with_both(&place, &[&["--mqtt", &address, "--camera-name", "gate"], &by_hours[..]].concat());
    received.wait("it is night", |message| message.json()["condition"] == "night");
    set(&service, r#"{"by": "day"}"#);
    received.wait("it is day", |message| message.json()["condition"] == "day");
    sees(&service, &place, "a", &grey(200), || state(&service)["alarm"] == true);
    let raised = received.wait("the alarm", |message| message.json()["alarm"] == true).json();
    assert_eq!((&raised["condition"], &raised["model_for"]), (&json!("day"), &json!("day")));
    set(&service, r#"{"by": "night"}"#);
    assert_eq!((state(&service)["alarm"].clone(), service.metric("nae_alarm")), (json!(false), 0.0));
    let cleared = received.wait("it is night", |message| message.json()["condition"] == "night").json();
    assert_eq!((&cleared["alarm"], &cleared["model_for"]), (&json!(false), &json!("night")));
    // One frame of the night is not two: that of before has no part in it.
    let before = service.metric("nae_frames_total{camera=\"gate\",origin=\"Source\"}");
    place.frame("b.pgm", &grey(200));
    eventually("it is scored", || service.metric("nae_frames_total{camera=\"gate\",origin=\"Source\"}") > before);
    assert_eq!(state(&service)["alarm"], false);
    sees(&service, &place, "c", &grey(200), || state(&service)["alarm"] == true);
    eventually("its end is in the history", || {
        let chart = service.get("/api/history/interval").json();
        let alarms = chart["alarms"].as_array().unwrap();
        alarms.len() == 2
            && alarms[0]["cleared"].is_string()
            && alarms[0]["night"] == false
            && alarms[1]["night"] == true
    });
}

/// Of a zone five hours and a half ahead, whose hours are not those of UTC.
#[test]
fn night_is_in_its_hours_of_local_time() {
    let place = Place::new();
    let output = Command::new("date").args(["-u", "+%s"]).output().unwrap();
    let seconds: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    let minute = (seconds / 60 + 330) % 1440;
    let text = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    let hours = format!("{}-{}", text(minute + 1380), text(minute + 60));
    let (source, night) = (place.source(), other_model().display().to_string());
    let with = |zone: &str| {
        let arguments = ["--source", &source, "--night-model", &night, "--night-hours", &hours];
        Service::start_with(&place.state(), &arguments, &[("TZ", Path::new(zone))])
    };
    let service = with("XYZ-5:30");
    assert_eq!(now(&service), expected("night", "night", &other_model()), "{hours}");
    assert_eq!(state(&service)["day_night"]["by"], "schedule");
    service.kill();
    let service = with("UTC0");
    assert_eq!(now(&service), expected("day", "day", &model()), "{hours}");
    // Also while no frames come, by another rule.
    set(&service, r#"{"by": "schedule", "night": "00:00-24:00"}"#);
    assert_eq!(now(&service).0, "night");
    let reset = service.change("/api/day-night/reset", "{}").json();
    assert_eq!((&reset["from"], &reset["now"]["condition"]), (&json!("settings"), &json!("day")));
    assert_eq!(reset["rule"], json!({"by": "schedule", "night": hours}));
}

/// Whatever is wrong with it, the camera is watched.
#[test]
fn without_a_model_for_the_night_that_of_the_day_is_used_and_it_is_said() {
    let place = Place::new();
    let file = place.path("night.nae");
    let name = file.display().to_string();
    let start = || start(&place, &["--night-model", &name, "--night-hours", "00:00-24:00"]);
    let by_day = expected("night", "day", &model());
    let by_night = expected("night", "night", &other_model());
    for (content, part) in [(None, "night.nae"), (Some("garbage"), "night.nae")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let service = start();
        assert!(service.started.contains("there is no model for the night"), "{}", service.started);
        assert_eq!(now(&service), by_day);
        assert_eq!((service.metric("nae_night"), service.metric("nae_night_model_in_use")), (1.0, 0.0));
        let missing = state(&service)["day_night"]["night_model_missing"].as_str().unwrap().to_owned();
        assert!(missing.contains(part), "{missing}");
        // It is scored all the same.
        sees(&service, &place, "a", &grey(200), || scored(&service) > 0.0);
        let (code, said) = service.change("/api/reload", "{}").problem();
        assert!(code == 409 && said.contains("night.nae"), "{code} {said}");
        service.kill();
    }
    // Once it is there, it is taken without a restart.
    let service = start();
    std::fs::copy(other_model(), &file).unwrap();
    service.signal("HUP");
    eventually("the model of the night is in use", || now(&service) == by_night);
    assert_eq!(state(&service)["day_night"]["night_model_missing"], Value::Null);
    eventually("there is a copy of it", || {
        let mut files = std::fs::read_dir(place.state().join("night")).unwrap();
        files.any(|file| file.unwrap().file_name().to_str().unwrap().starts_with("last-good"))
    });
    service.kill();
    // The copy of the last that worked, as by day.
    std::fs::write(&file, "garbage").unwrap();
    let service = start();
    assert!(service.started.contains("the last that could is used, from a copy"), "{}", service.started);
    assert_eq!(now(&service), by_night);
}

/// What held, and what was set, is there again; also right after a switch nothing is broken.
#[test]
fn a_kill_leaves_the_night_as_it_was() {
    let place = Place::new();
    let service = start_with_both(&place, &BY_BRIGHTNESS);
    sees(&service, &place, "a", &grey(5), || now(&service).0 == "night");
    let kept = place.state().join("day-night.json");
    eventually("it is on disk", || kept.exists());
    service.kill();
    forget_frames(&place);
    // Before any frame has come.
    let service = start_with_both(&place, &BY_BRIGHTNESS);
    assert_eq!(now(&service), expected("night", "night", &other_model()));
    service.kill();
    for round in 0..4 {
        let service = start_with_both(&place, &["--night-brightness", "30-50", "--night-hold", "0.1"]);
        let before = now(&service).0;
        let (to, level) = if before == "day" { ("night", 5) } else { ("day", 200) };
        let events = service.events();
        sees(&service, &place, &format!("b{round}"), &grey(level), || !of_kind(&events, "day_night").is_empty());
        service.kill();
        forget_frames(&place);
        let service = start_with_both(&place, &BY_BRIGHTNESS);
        assert!(!service.started.contains("ERROR"), "{}", service.started);
        let (condition, model_for, in_use) = now(&service);
        assert!(condition == before || condition == to, "{condition}");
        let file = if condition == "night" { other_model() } else { model() };
        assert_eq!((model_for, in_use), (condition, digest(&file)));
        service.kill();
    }
    let service = start_with_both(&place, &BY_BRIGHTNESS);
    set(&service, r#"{"by": "night"}"#);
    service.kill();
    let service = start_with_both(&place, &BY_BRIGHTNESS);
    let told = service.get("/api/day-night").json();
    assert_eq!(
        (&told["from"], &told["rule"], now(&service).0),
        (&json!("kept"), &json!({"by": "night"}), "night".into())
    );
    service.kill();
    std::fs::write(&kept, "garbage").unwrap();
    let service = start_with_both(&place, &BY_BRIGHTNESS);
    assert!(service.started.contains("what was set of day and night is not known"), "{}", service.started);
    assert_eq!(now(&service).0, "day");
}

#[test]
fn each_model_has_its_threshold_its_changes_and_its_way_back() {
    let place = Place::new();
    let service = start_with_both(&place, &["--night-hours", "00:00-24:00"]);
    let threshold = || state(&service)["threshold"].as_f64().unwrap();
    let at = |condition: &str| {
        set(&service, &format!(r#"{{"by": "{condition}"}}"#));
        threshold()
    };
    let [day, night] = ["day", "night"].map(at);
    assert_eq!(service.change("/api/false-positive-rate", r#"{"false_positive_rate": 0.2}"#).status, 200);
    let adjusted = threshold();
    assert!(adjusted < night, "{adjusted} {night}");
    assert_eq!(at("day"), day);
    // There is nothing to undo by day.
    assert_eq!(service.change("/api/undo", "{}").status, 409);
    assert_eq!(service.change("/api/false-positive-rate", r#"{"false_positive_rate": 0.1}"#).status, 200);
    let models = [other_model(), model()].map(|file| digest(&file));
    let changes = service.get("/api/adjustments").json();
    let changed: Vec<&str> =
        changes.as_array().unwrap().iter().map(|change| change["model"].as_str().unwrap()).collect();
    assert_eq!(changed, models);
    service.kill();
    let service = start_with_both(&place, &["--night-hours", "00:00-24:00"]);
    set(&service, r#"{"by": "night"}"#);
    assert_eq!(state(&service)["threshold"].as_f64().unwrap(), adjusted);
    assert_eq!(service.change("/api/undo", "{}").status, 200);
    assert_eq!(state(&service)["threshold"].as_f64().unwrap(), night);
}

/// From a camera whose settings name one model for both.
#[test]
fn a_model_for_the_night_is_learned_from_frames_of_the_night_alone() {
    let place = Place::new();
    let night = |service: &Service| service.get("/api/learn?condition=night").json();
    let act_at_night = |service: &Service, action: &str, body: &str| {
        let answer = service.change(&format!("/api/learn/{action}?condition=night"), body);
        assert_eq!(answer.status, 200, "{action}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    };
    let service = start(&place, &[]);
    assert_eq!(service.get("/api/learn?condition=night").status, 409, "day and night are not told apart");
    assert_eq!(service.get("/api/learn?condition=dusk").status, 400);
    assert!(!place.state().join("night").exists());
    set(&service, r#"{"by": "day"}"#);
    act_at_night(&service, "collect", r#"{"minutes": 60}"#);
    act(&service, "collect", r#"{"minutes": 60}"#);
    sees(&service, &place, "a", &grey(200), || status(&service)["seen"].as_u64().unwrap() >= 3);
    let waiting = night(&service);
    assert_eq!(
        (&waiting["seen"], &waiting["waits"], &status(&service)["waits"]),
        (&json!(0), &json!(true), &json!(false))
    );
    assert_eq!(waiting["collecting"]["left"], 3600.0, "its time stands still");

    set(&service, r#"{"by": "night"}"#);
    assert_eq!(now(&service), expected("night", "day", &model()));
    let (kept, seen) = (status(&service)["kept"].clone(), status(&service)["seen"].clone());
    for level in [10, 40, 70] {
        let before = night(&service)["seen"].as_u64().unwrap();
        place.frame(&format!("b{level}.pgm"), &grey(level));
        eventually("it is looked at", || night(&service)["seen"].as_u64().unwrap() > before);
    }
    let collecting = night(&service);
    assert_eq!((&collecting["kept"], &collecting["waits"]), (&json!(3), &json!(false)));
    assert_eq!((status(&service)["kept"].clone(), status(&service)["seen"].clone()), (kept, seen), "those of the day");
    service.kill();
    forget_frames(&place);
    let service = start(&place, &[]);
    assert_eq!((&night(&service)["phase"], &night(&service)["kept"]), (&json!("collecting"), &json!(3)));
    act_at_night(&service, "stop", "{}");

    // The model comes back to the condition that it is of.
    let bytes = std::fs::read(other_model()).unwrap();
    let kind = [("content-type", "application/octet-stream")];
    assert_eq!(service.post_with("/api/learn/take-model?condition=night", &bytes, &kind).status, 200);
    act_at_night(&service, "shadow", "{}");
    sees(&service, &place, "c", &picture("six"), || night(&service)["shadow"]["compared"].as_u64() > Some(1));
    act_at_night(&service, "swap", r#"{"anyway": true}"#);
    let by_night = expected("night", "night", &other_model());
    assert_eq!(now(&service), by_night);
    assert_eq!(status(&service)["in_use"], Value::Null, "by day that of the settings is");
    service.kill();
    let service = start(&place, &[]);
    assert_eq!(now(&service), by_night);
    set(&service, r#"{"by": "day"}"#);
    assert_eq!(now(&service), expected("day", "day", &model()));
    // Also by day, when it is not in use.
    assert_eq!(act_at_night(&service, "roll-back", "{}")["back_to"], Value::Null);
    set(&service, r#"{"by": "night"}"#);
    assert_eq!(now(&service), expected("night", "day", &model()));
    // Spoilt while the service is down: the frames stay.
    act_at_night(&service, "swap", r#"{"anyway": true}"#);
    assert_eq!(now(&service), by_night);
    service.kill();
    let learned = place.state().join(format!("night/learn/models/{}.model", by_night.2));
    std::fs::write(&learned, "garbage").unwrap();
    let service = start(&place, &[]);
    assert_eq!(now(&service), expected("night", "day", &model()));
    let missing = state(&service)["day_night"]["night_model_missing"].as_str().unwrap().to_owned();
    assert!(missing.contains("cannot be opened"), "{missing}");
    assert_eq!(night(&service)["kept"], 3);
    // As is the one of the settings: then there is none, and no way back from it.
    assert_eq!(service.post_with("/api/learn/take-model?condition=night", &bytes, &kind).status, 200);
    act_at_night(&service, "swap", r#"{"anyway": true}"#);
    service.kill();
    std::fs::write(&learned, "garbage").unwrap();
    let service = start(&place, &["--night-model", "missing.nae", "--night-hours", "00:00-24:00"]);
    assert_eq!(now(&service), expected("night", "day", &model()));
    let spoilt = night(&service);
    assert_eq!((&spoilt["in_use"], &spoilt["back_to"]), (&Value::Null, &Value::Null));
    assert!(spoilt["note"].as_str().unwrap().contains("could not be opened: there is none in use"), "{spoilt}");
}

#[test]
fn who_may_look_sees_day_and_night_and_who_may_operate_sets_them() {
    let place = Place::new();
    let tokens = place.three_tokens();
    let service = start(&place, &tokens.iter().map(String::as_str).collect::<Vec<_>>());
    let bearer = |token: &str| format!("Bearer {token}");
    let get = |token: &str| service.get_with("/api/day-night", &[("authorization", &bearer(token))]).status;
    let post = |token: &str, path: &str, body: &str| {
        let headers = [("authorization", &*bearer(token)), ("content-type", "application/json")];
        let answer = service.post_with(path, body.as_bytes(), &headers);
        (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(["token", "look-token", "score-token", "wrong"].map(get), [200, 200, 403, 401]);
    for path in ["/api/day-night", "/api/day-night/reset"] {
        let body = if path.ends_with("reset") { "{}" } else { r#"{"by": "day"}"# };
        let found = ["look-token", "score-token", "wrong", "token"].map(|token| post(token, path, body).0);
        assert_eq!(found, [403, 403, 401, 200], "{path}");
    }
    for (body, part) in [
        (r#"{"by": "schedule", "night": "late"}"#, "`night`: expected days and hours"),
        (r#"{"by": "brightness", "night_below": 50, "day_above": 30}"#, "`night_below` and `day_above`"),
        (r#"{"by": "colour", "night_below": 1, "day_above": 3, "hold": 1e9}"#, "`hold`"),
        (r#"{"by": "colour", "night_below": NaN, "day_above": 3}"#, ""),
        (r#"{"by": "sun"}"#, ""),
        ("[]", ""),
    ] {
        let (code, said) = post("token", "/api/day-night", body);
        assert!(code == 400 && said.contains(part), "{body}: {code} {said}");
    }
    let told = service.get_with("/api/day-night", &[("authorization", "Bearer token")]).json();
    assert_eq!((&told["rule"], &told["from"], &told["now"]), (&Value::Null, &Value::Null, &Value::Null));
}

/// Settings that do not say when night is, or say it twice.
#[test]
fn wrong_settings_are_said() {
    let place = Place::new();
    let refused = |arguments: &[&str]| Service::try_start(&model(), &place.state(), arguments).err().unwrap();
    let said = refused(&["--night-model", "night.onnx"]);
    assert!(said.contains("`night_model`: when is night? Say so by `night_hours`"), "{said}");
    let said = refused(&["--night-hours", "22:00-06:00", "--night-colour", "2-5"]);
    assert!(said.contains("`night_hours`, `night_colour`: one of them says when night is"), "{said}");
    let said = refused(&["--night-brightness", "50-30", "--night-hold", "0"]);
    assert!(said.contains("`night_brightness`: expected two levels") && said.contains("`night_hold`"), "{said}");
}

/// By clicks, on a page as wide as a telephone's, too.
#[test]
fn the_page_shows_and_sets_day_and_night() {
    let place = Place::new();
    let service = start(&place, &[]);
    place.frame("a.pgm", &grey(200));
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let text = |page: &mut Browser, id: &str| page.value(&format!("document.getElementById('{id}')?.textContent"));
    let says = |page: &mut Browser, id: &str, part: &str| {
        eventually(part, || text(page, id).as_str().unwrap_or_default().contains(part));
    };
    says(&mut page, "day-night-now", "not distinguished");
    assert_eq!(text(&mut page, "day-night-chip"), "");
    assert_eq!(page.value("document.getElementById('learn-of').offsetParent === null"), true);
    let choose = |page: &mut Browser, id: &str, value: &str| {
        page.value(&format!(
            "(() => {{ const e = document.getElementById('{id}'); e.value = '{value}'; \
             e.dispatchEvent(new Event('input', {{bubbles: true}})); e.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
        ));
    };
    choose(&mut page, "day-night-by", "night");
    page.click("#day-night-save");
    page.wait_text("day-night-chip", "night, model of the day");
    says(&mut page, "day-night-now", "It is night, as set by hand. The model of the day is in use.");
    says(&mut page, "day-night-missing", "there is no model for the night yet: learn one here");
    eventually("learning is of the night", || {
        page.value("document.getElementById('learn-condition').value") == "night"
    });
    page.click("#learn button[data-action=collect]");
    eventually("it is", || service.get("/api/learn?condition=night").json()["phase"] == "collecting");
    assert_eq!(status(&service)["phase"], "idle");
    choose(&mut page, "learn-condition", "day");
    says(&mut page, "learn-phase", "No frames yet");
    choose(&mut page, "day-night-by", "schedule");
    choose(&mut page, "day-night-hours", "late");
    page.click("#day-night-save");
    says(&mut page, "day-night-problem", "expected days and hours");
    choose(&mut page, "day-night-by", "brightness");
    // With all its fields, also where a telephone shows it.
    let over = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    for width in [360, 1200] {
        page.widen(width);
        let [left, _, wide, _] = page.place("#day-night-hold");
        assert!(left >= 0.0 && left + wide <= f64::from(width), "{left} {wide} of {width}");
        assert_eq!(page.value(over), 0, "{width}");
    }
    choose(&mut page, "day-night-hold", "0.5");
    page.click("#day-night-save");
    says(&mut page, "day-night-now", "by the brightness of the picture");
    assert_eq!(
        service.get("/api/day-night").json()["rule"],
        json!({"by": "brightness", "night_below": 30.0, "day_above": 50.0, "hold": 0.5})
    );
    // The first look decides: it is light.
    sees(&service, &place, "b", &grey(200), || now(&service).0 == "day");
    page.wait_text("day-night-chip", "day");
    choose(&mut page, "learn-condition", "night");
    says(&mut page, "learn-phase", "It waits for the night.");
    page.click("#day-night-reset");
    says(&mut page, "day-night-now", "not distinguished");
    eventually("learning is of the one model", || {
        page.value("document.getElementById('learn-of').offsetParent === null") == true
    });
}
