//! Names, addresses and settings of each camera, and what is refused.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;

use serde_json::{Value, json};

use super::{camera, for_all, frame, listed, scored, with_folders};
use crate::harness::{PATIENCE, Place, Service, comes, eventually, model, picture};

#[test]
fn addresses_name_the_camera_or_say_that_they_have_to() {
    let place = Place::new();
    let settings = for_all("") + &with_folders(&place, &["gate", "yard"]);
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    let events = service.events();
    frame(&place, "gate", "a.png", &picture("six"));
    frame(&place, "yard", "b.png", &picture("checkerboard"));
    let mut told = BTreeMap::new();
    while told.len() < 2 {
        let event = events.recv_timeout(PATIENCE).unwrap();
        if event["event"] == "frame" {
            told.insert(event["camera"].as_str().unwrap().to_owned(), event["name"].as_str().unwrap().to_owned());
        }
    }
    let expected = [("gate", "a.png"), ("yard", "b.png")].map(|(camera, name)| (camera.to_owned(), name.to_owned()));
    assert_eq!(told, BTreeMap::from(expected));

    for (path, status, said) in [
        (
            "/api/state",
            404,
            "there are 2 cameras: ask for /api/cameras/CAMERA/state, where CAMERA is one of gate, yard",
        ),
        ("/api/alarms/0/image", 404, "/api/cameras/CAMERA/alarms/0/image"),
        ("/api/cameras/shed/state", 404, "there is no camera of this name; there are gate, yard"),
        ("/api/cameras/..%2fgate/state", 404, "there is no camera of this name"),
        ("/api/cameras/gate/nothing", 404, "there is nothing here"),
        ("/events?camera=shed", 404, "there is no camera of this name"),
        ("/v2/models/digits", 404, "models are called as their cameras: gate, yard"),
    ] {
        let (found, text) = service.get(path).problem();
        assert!(found == status && text.contains(said), "{path}: {found} {text}");
    }
    for (path, status) in [("/score", 400), ("/score?camera=shed", 404), ("/score/heat-map", 400)] {
        let (found, text) = service.post(path, &picture("six")).problem();
        assert!(found == status && text.contains("gate, yard"), "{path}: {found} {text}");
    }
    let (status, text) = service.change("/api/reload", "{}").problem();
    assert!(status == 404 && text.contains("/api/cameras/CAMERA/reload"), "{status} {text}");

    // Of each its own.
    assert_eq!(service.camera("gate")["latest"]["name"], "a.png");
    assert_eq!(service.camera("yard")["latest"]["name"], "b.png");
    let listed = listed(&service);
    assert_eq!((&listed["gate"]["anomaly"], &listed["yard"]["anomaly"]), (&json!(false), &json!(true)));
    assert_eq!((&listed["gate"]["number"], &listed["gate"]["dropped"]), (&json!(1), &json!(0)));
    assert!((0.0..60.0).contains(&listed["gate"]["age"].as_f64().unwrap()), "{}", listed["gate"]);
    assert_eq!(service.get("/api/cameras/gate/latest/heat-map").kind, "image/png");
    assert_eq!(service.get("/api/cameras/gate/latest/thumbnail").body, picture("six"), "it is small");
    assert_eq!(service.get("/api/cameras/yard/history?seconds=60").json().as_array().unwrap().len(), 1);
    let rate = r#"{"false_positive_rate": 0.1}"#;
    assert_eq!(service.change("/api/cameras/gate/false-positive-rate", rate).status, 200);
    let threshold = |name: &str| service.camera(name)["threshold"].as_f64().unwrap();
    assert!(threshold("gate") < threshold("yard"));
    assert_eq!(service.post("/score?camera=yard", &picture("six")).json()["threshold"], threshold("yard"));
    assert_eq!(service.post("/score?camera=gate", &picture("six")).json()["threshold"], threshold("gate"));
    assert_eq!(service.get("/v2/models/gate").json()["name"], "gate");
    let tensor =
        json!({"inputs": [{"name": "image", "shape": [1, 1, 16, 16], "datatype": "FP32", "data": vec![0.5; 256]}]});
    let answer = service.post("/v2/models/yard/infer", tensor.to_string().as_bytes()).json();
    assert_eq!(answer["model_name"], "yard");
    assert_eq!(service.metric("nae_frames_total{camera=\"yard\",origin=\"Request\"}"), 2.0);

    let one = service.events_of("/events?camera=yard");
    frame(&place, "gate", "c.png", &picture("six"));
    eventually("it is scored", || scored(&service, "gate") == 2.0);
    frame(&place, "yard", "d.png", &picture("six"));
    assert_eq!(one.recv_timeout(PATIENCE).unwrap()["name"], "d.png", "and not c.png");
}

/// The only camera has its name, too.
#[test]
fn the_only_camera_is_found_by_its_name_and_without() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--camera-name", "gate", "--source", &place.source()]);
    place.frame("a.png", &picture("six"));
    eventually("it is scored", || scored(&service, "gate") == 1.0);
    assert_eq!(service.get("/api/cameras/gate/state").json(), service.get("/api/state").json());
    assert_eq!(
        service.post("/score?camera=gate", &picture("six")).json(),
        service.post("/score", &picture("six")).json()
    );
    assert_eq!(service.get("/v2/models/gate").status, 200);
    assert_eq!(service.get("/v2/models/digits").status, 200);
    assert!(place.state().join("alarms.journal").exists() && !place.state().join("cameras").exists());

    // One of the settings file is the only one, too, and has its own folder.
    let place = Place::new();
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0") + &with_folders(&place, &["gate"]);
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    frame(&place, "gate", "a.png", &picture("checkerboard"));
    eventually("its alarm is raised", || service.get("/api/alarms").json()[0]["camera"] == "gate");
    assert_eq!(service.get("/api/state").json()["name"], "gate");
    assert_eq!(service.get("/api/alarms").json()[0]["picture"], "/api/cameras/gate/alarms/0/image");
    assert_eq!(service.post("/score", &picture("six")).status, 200);
    assert_eq!(service.get("/v2/models/digits").status, 200);
    assert!(
        place.state().join("cameras/gate/alarms.journal").exists() && !place.state().join("alarms.journal").exists()
    );
}

#[test]
fn figures_say_of_which_camera_they_are() {
    let place = Place::new();
    let log = place.path("alarms.jsonl");
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0") + &with_folders(&place, &["gate", "yard"]);
    let service = Service::with_cameras(&place, &settings, &["--alarm-log", log.to_str().unwrap()]).unwrap();
    frame(&place, "gate", "a.png", &picture("checkerboard"));
    eventually("its alarm is in the file", || {
        service.metric(&format!("nae_alarms_waiting{{camera=\"gate\",receiver=\"file {}\"}}", log.display())) == 0.0
            && service.metric("nae_alarms_total{camera=\"gate\"}") == 1.0
            && std::fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n'))
    });
    assert_eq!(service.metric("nae_alarms_total{camera=\"yard\"}"), 0.0);
    let text = String::from_utf8(service.get("/metrics").body).unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let labelled = line.contains("camera=\"gate\"") || line.contains("camera=\"yard\"");
        let of_service = [
            "nae_requests_total",
            "nae_history_writing",
            "nae_history_bytes",
            "nae_limited_total",
            "nae_wrong_tokens_total",
            "nae_tls_",
        ];
        assert!(labelled || of_service.iter().any(|name| line.starts_with(name)), "{line}");
    }
    // One description for each, as the format asks for.
    let mut described: Vec<&str> = text.lines().filter(|line| line.starts_with("# HELP")).collect();
    let all = described.len();
    described.dedup();
    assert_eq!(described.len(), all);
    let alarm: Value = serde_json::from_str(std::fs::read_to_string(&log).unwrap().trim()).unwrap();
    assert!(alarm["id"].as_str().unwrap().starts_with("gate-"), "{alarm}");
    assert_eq!((&alarm["camera"], &alarm["picture"]), (&json!("gate"), &json!("/api/cameras/gate/alarms/0/image")));
    assert_eq!(service.get(alarm["picture"].as_str().unwrap()).body, picture("checkerboard"));
}

#[test]
fn reloading_is_each_cameras_own() {
    let place = Place::new();
    for name in ["gate", "yard", "shed"] {
        std::fs::copy(model(), place.path(&format!("{name}.onnx"))).unwrap();
    }
    let own = |name: &str| camera(name, &format!("model = \"{}\"", place.path(&format!("{name}.onnx")).display()));
    let settings = ["gate", "yard", "shed"].map(own).concat();
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    let digest = |name: &str| service.camera(name)["model"].as_str().unwrap().to_owned();
    let before = digest("gate");
    std::fs::write(place.path("gate.onnx"), b"garbage").unwrap();
    for name in ["yard", "shed"] {
        std::fs::copy(model().with_file_name("digits.nae"), place.path(&format!("{name}.onnx"))).unwrap();
    }
    service.signal("HUP");
    eventually("the others are exchanged", || digest("yard") != before && digest("shed") != before);
    let line = service.wait_log("the model was not exchanged");
    assert!(line.contains("gate") && line.contains("gate.onnx"), "{line}");
    assert_eq!(digest("gate"), before);
    assert_eq!(service.post("/score?camera=gate", &picture("six")).json()["verdict"], "normal");
}

/// Exit status and what is said.
fn refused(place: &Place, settings: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let path = place.path("serve.toml");
    std::fs::write(&path, settings).unwrap();
    let said = place.path("said");
    let mut process = Command::new(env!("CARGO_BIN_EXE_nae-infer"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(path)
        .arg("--state")
        .arg(place.state())
        .args(arguments)
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    comes(|| process.try_wait().unwrap().is_some());
    // Where it has ended by itself this changes nothing.
    let _ = process.kill();
    (process.wait().unwrap().code(), std::fs::read_to_string(said).unwrap())
}

#[test]
fn wrong_settings_of_cameras_are_wrong_usage() {
    let place = Place::new();
    for (settings, arguments, said) in [
        (camera("gate", "") + &camera("gate", ""), [].as_slice(), "two [[camera]] have the name `gate`"),
        (camera("gate", "sorce = \"none\""), &[], "camera `gate`: there is no setting `sorce` of a camera"),
        (camera("a/b", ""), &[], "`name`: expected 1 to 64 of letters"),
        (camera("..", ""), &[], "`name`: expected 1 to 64 of letters"),
        (camera("gate", "") + &camera("yard", ""), &["--source", "none"], "flag --source: `source` is a camera's own"),
        (camera("gate", "queue = 0") + &camera("yard", "max_fps = 0"), &[], "2 settings are wrong"),
    ] {
        let (code, text) = refused(&place, &(for_all("") + &settings), arguments);
        assert!(code == Some(2) && text.contains(said) && text.contains("serve.toml"), "{code:?} {text}");
        assert!(!place.state().exists(), "nothing is begun");
    }
}

#[test]
fn a_camera_without_a_model_that_can_be_read_is_named_at_the_start() {
    let place = Place::new();
    std::fs::write(place.path("garbage.onnx"), b"garbage").unwrap();
    let with = |name: &str, file: &str| camera(name, &format!("model = \"{}\"", place.path(file).display()));
    let settings = for_all("") + &camera("gate", "") + &with("yard", "none.onnx") + &with("shed", "garbage.onnx");
    let (code, text) = refused(&place, &settings, &[]);
    assert_eq!(code, Some(1), "{text}");
    for part in ["camera `yard`: ", "none.onnx", "camera `shed`: ", "garbage.onnx"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("camera `gate`: "), "{text}");
}
