//! Alarms of each camera arrive, once, over kills, and after it becomes one of several.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{camera, for_all, frame, scored, with_folders};
use crate::alarms::{Absent, webhook};
use crate::harness::{PATIENCE, Place, Service, eventually, picture, slow_tests_are_asked_for};
use crate::mosquitto::{Broker, Message};

/// Alarms are raised while nobody takes them, the service is killed, and all arrive after the next start.
#[test]
fn alarms_of_each_camera_arrive_once_after_a_kill() {
    const NAMES: [&str; 3] = ["gate", "yard", "shed"];
    let place = Place::new();
    let receiver = Absent::new();
    let address = receiver.address();
    let url = format!("http://{address}/alarm");
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0\nalarm_window = 1") + &with_folders(&place, &NAMES);
    let start = || Service::with_cameras(&place, &settings, &["--webhook", &url]).unwrap();
    let raise = |service: &Service, camera: &str, name: &str, count: usize| {
        for i in 0..count {
            for image in ["checkerboard", "six"] {
                let before = scored(service, camera);
                frame(&place, camera, &format!("{name}-{i}-{image}.png"), &picture(image));
                eventually("the frame is scored", || scored(service, camera) > before);
            }
        }
    };
    let service = start();
    for (camera, count) in NAMES.into_iter().zip([3, 1, 2]) {
        raise(&service, camera, "before", count);
    }
    service.kill();
    for name in NAMES {
        std::fs::remove_dir_all(place.path(name)).unwrap();
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let service = start();
    let received = webhook(receiver.appear());
    raise(&service, "yard", "after", 1);
    let mut got: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut ids = Vec::new();
    for _ in 0..7 {
        let alarm = received.recv_timeout(3 * PATIENCE).expect("an alarm");
        got.entry(alarm["camera"].as_str().unwrap().to_owned()).or_default().push(alarm["number"].as_u64().unwrap());
        ids.push(alarm["id"].to_string());
    }
    let expected = [("gate", vec![0, 1, 2]), ("shed", vec![0, 1]), ("yard", vec![0, 1])];
    assert_eq!(got, expected.map(|(camera, numbers)| (camera.to_owned(), numbers)).into(), "in order, of each camera");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 7);
    for name in NAMES {
        eventually("all are acknowledged", || {
            let label = format!("camera=\"{name}\",receiver=\"webhook http://{address}\"");
            service.metric(&format!("nae_alarms_waiting{{{label}}}")) == 0.0
        });
        assert!(place.state().join("cameras").join(name).join("alarms.journal").exists());
    }
    service.kill();
    for name in NAMES {
        std::fs::remove_dir_all(place.path(name)).unwrap();
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let service = start();
    assert!(received.recv_timeout(Duration::from_secs(2)).is_err(), "once each, also after another start");
    assert_eq!(service.get("/api/cameras/gate/alarms").json().as_array().unwrap().len(), 3);
}

#[test]
fn no_alarm_of_any_camera_is_lost_over_many_kills() {
    if !slow_tests_are_asked_for() {
        return;
    }
    const NAMES: [&str; 2] = ["gate", "yard"];
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/alarm", listener.local_addr().unwrap());
    let received = webhook(listener);
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0\nalarm_window = 1") + &with_folders(&place, &NAMES);
    let start = || Service::with_cameras(&place, &settings, &["--webhook", &url]).unwrap();
    let fill = |round: u64, count: usize| {
        for i in 0..count {
            for (name, image) in NAMES.iter().flat_map(|name| [(name, "checkerboard"), (name, "six")]) {
                frame(&place, name, &format!("{round:02}-{i}-{image}.png"), &picture(image));
            }
        }
    };
    for round in 0..10 {
        let service = start();
        fill(round, 4);
        thread::sleep(Duration::from_millis(47 * round % 400));
        service.kill();
        for name in NAMES {
            std::fs::remove_dir_all(place.path(name)).unwrap();
            std::fs::create_dir(place.path(name)).unwrap();
        }
    }
    let service = start();
    fill(99, 1);
    let last = |name: &str| {
        let alarms = service.get(&format!("/api/cameras/{name}/alarms")).json();
        alarms[0]["number"].as_u64().filter(|_| alarms[0]["frame"] == "99-0-checkerboard.png")
    };
    eventually("each has raised its last", || NAMES.iter().all(|name| last(name).is_some()));
    let mut got: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let has_all = |got: &BTreeMap<String, Vec<u64>>| {
        NAMES.iter().all(|name| got.get(*name).is_some_and(|numbers| numbers.last() == last(name).as_ref()))
    };
    while !has_all(&got) {
        let alarm = received.recv_timeout(3 * PATIENCE).expect("an alarm");
        got.entry(alarm["camera"].as_str().unwrap().to_owned()).or_default().push(alarm["number"].as_u64().unwrap());
    }
    for (name, numbers) in &mut got {
        let (raised, delivered) = (last(name).unwrap() + 1, numbers.len());
        assert!(numbers.is_sorted(), "{name}: {numbers:?}");
        numbers.dedup();
        assert_eq!(*numbers, (0..raised).collect::<Vec<_>>(), "{name}");
        println!("{name}: raised {raised}, delivered {delivered}, lost 0");
    }
}

/// What an only camera left waits until it is moved, and that is said.
#[test]
fn an_only_camera_becomes_one_of_several_with_its_alarms() {
    let place = Place::new();
    let away = "http://127.0.0.1:9/alarm";
    std::fs::create_dir(place.path("gate")).unwrap();
    let source = format!("folder:{}", place.path("gate").display());
    let quick = ["--alarm-raise", "1", "--alarm-clear", "0"];
    let service = Service::start(&place.state(), &[&["--source", &source, "--webhook", away], &quick[..]].concat());
    frame(&place, "gate", "a.png", &picture("checkerboard"));
    eventually("the alarm is raised", || service.metric("nae_alarms_total") == 1.0);
    service.kill();

    std::fs::remove_file(place.path("gate/a.png")).unwrap();
    let settings = for_all("") + &with_folders(&place, &["gate", "yard"]);
    let own = place.state().join("cameras/gate");
    let service = Service::with_cameras(&place, &settings, &["--webhook", away]).unwrap();
    assert!(service.started.contains("alarms of an only camera may wait in"), "{}", service.started);
    assert_eq!(service.get("/api/cameras/gate/alarms").json(), json!([]));
    service.kill();

    std::fs::rename(place.state().join("alarms.journal"), own.join("alarms.journal")).unwrap();
    let service = Service::with_cameras(&place, &settings, &["--webhook", away]).unwrap();
    assert!(!service.started.contains("may wait in"), "{}", service.started);
    let alarms = service.get("/api/cameras/gate/alarms").json();
    assert_eq!((&alarms[0]["number"], &alarms[0]["frame"]), (&json!(0), &json!("a.png")));
    assert_eq!(service.metric("nae_alarms_waiting{camera=\"gate\",receiver=\"webhook http://127.0.0.1:9\"}"), 1.0);
    service.kill();

    // The camera gets another name.
    let settings = for_all("") + &with_folders(&place, &["door", "yard"]);
    let service = Service::with_cameras(&place, &settings, &["--webhook", away]).unwrap();
    let said = format!("alarms of a camera that is not in the settings may wait in {}", own.display());
    assert!(service.started.contains(&said) && !service.started.contains("cameras/yard: if"), "{}", service.started);
}

/// Each camera is told of as its own, and as gone when the process is.
#[test]
fn a_broker_retains_each_camera_and_home_assistant_finds_each() {
    let place = Place::new();
    let Some(broker) = Broker::open(&place) else { return };
    let address = broker.address();
    let (received, alarms) = (broker.listen("nae/#"), broker.listen("nae/alarms"));
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0\nmqtt_home_assistant = \"homeassistant\"")
        + &with_folders(&place, &["gate", "yard"])
        + &camera("shed", "source = \"http://127.0.0.1:9/video\"");
    let service = Service::with_cameras(&place, &settings, &["--mqtt", &address]).unwrap();
    let state = |camera: &'static str, field: &'static str, value: Value| {
        move |message: &Message| message.topic == format!("nae/{camera}/state") && message.json()[field] == value
    };
    received.wait("the third is lost", state("shed", "source", json!("lost")));
    for name in ["gate", "yard", "shed"] {
        eventually("it is connected", || service.metric(&format!("nae_mqtt_connected{{camera=\"{name}\"}}")) == 1.0);
    }
    frame(&place, "yard", "a.png", &picture("checkerboard"));
    received.wait("its alarm is raised", state("yard", "alarm", json!(true)));
    assert_eq!(alarms.wait("it is delivered", |_| true).json()["camera"], "yard");
    frame(&place, "gate", "b.png", &picture("checkerboard"));
    assert_eq!(alarms.wait("the next, too", |_| true).json()["camera"], "gate");
    let found = broker.listen("homeassistant/#");
    let mut devices: Vec<String> = (0..12)
        .map(|_| found.wait("an entity", |message| message.retain).json()["device"]["name"].to_string())
        .collect();
    devices.sort();
    devices.dedup();
    assert_eq!(devices, ["\"gate\"", "\"shed\"", "\"yard\""]);
    let later = broker.listen("nae/gate/state");
    assert_eq!(later.wait("it is retained", |message| message.retain).json()["source"], "connected");

    service.kill();
    let mut gone = Vec::new();
    while gone.len() < 3 {
        let offline = received.wait("each is gone", |message| message.text() == "offline");
        gone.push(offline.topic);
    }
    gone.sort();
    assert_eq!(gone, ["gate", "shed", "yard"].map(|name| format!("nae/{name}/availability")));
}
