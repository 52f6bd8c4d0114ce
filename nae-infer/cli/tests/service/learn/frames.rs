//! Frames are collected, looked through and kept.

use std::os::unix::fs::PermissionsExt as _;
use std::thread::available_parallelism;

use serde_json::json;

use super::{act, grey, hanging_disk, numbers, phase, show, start, start_with, status};
use crate::harness::{PATIENCE, Place, Service, SmallDisk, eventually, picture};

#[test]
fn different_frames_are_collected_looked_through_and_kept_over_a_kill() {
    let place = Place::new();
    let service = start(&place);
    assert_eq!((phase(&service).as_str(), status(&service)["may"].clone()), ("idle", json!(["collect", "take-model"])));
    act(&service, "collect", r#"{"minutes": 60, "min_distance": 2}"#);
    show(&service, &place, "a", [10, 11, 60, 61, 110]);
    let collecting = status(&service);
    assert_eq!((&collecting["phase"], &collecting["kept"]), (&json!("collecting"), &json!(3)), "11 and 61 are alike");
    assert!(collecting["collecting"]["left"].as_f64().unwrap() < 3600.0);
    service.kill();

    // It goes on; the frames of the folder come again, and are alike.
    let service = start(&place);
    show(&service, &place, "b", [160, 111]);
    eventually("all are looked at again", || status(&service)["seen"].as_u64().unwrap() >= 7);
    let left = status(&service)["collecting"]["left"].as_f64().unwrap();
    assert!(left > 3000.0 && left < 3600.0, "{left}");
    assert_eq!(status(&service)["kept"], 4);
    let stopped = act(&service, "stop", "{}");
    assert_eq!((&stopped["phase"], &stopped["kept"]), (&json!("collected"), &json!(4)));

    act(&service, "throw-out", r#"{"frames": [1, 3, 77]}"#);
    act(&service, "bring-back", r#"{"frames": [1]}"#);
    service.kill();
    let service = start(&place);
    let now = status(&service);
    assert_eq!((&now["phase"], &now["kept"], &now["thrown_out"]), (&json!("collected"), &json!(3), &json!(1)));
    assert_eq!(numbers(&service, 2, 2), json!([{"number": 2, "thrown_out": false}, {"number": 3, "thrown_out": true}]));
    for kind in ["image", "thumbnail"] {
        let shown = service.get(&format!("/api/learn/frames/3/{kind}"));
        assert!(shown.status == 200 && shown.kind.starts_with("image/"), "{kind} {}", shown.kind);
    }
    assert_eq!(service.get("/api/cameras/camera/learn/frames/99/image").status, 404);
    assert_eq!(service.get("/api/learn/frames/..%2Fstate/image").status, 400);

    // The frames of others are no one's to read.
    let folder = std::fs::metadata(place.state().join("learn")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    let deleted = act(&service, "delete", "{}");
    assert_eq!((&deleted["phase"], &deleted["kept"], &deleted["bytes"]), (&json!("idle"), &json!(0), &json!(0)));
    assert!(!place.state().join("learn/frames").exists() && !place.state().join("learn/thrown-out").exists());
}

#[test]
fn collecting_ends_by_itself_and_goes_on_where_it_is_asked_to() {
    let place = Place::new();
    let service = start(&place);
    act(&service, "collect", r#"{"frames": 2, "min_distance": 50}"#);
    show(&service, &place, "a", [10, 55, 100]);
    eventually("there are enough", || phase(&service) == "collected");
    assert_eq!(status(&service)["note"], "2 frames were collected, as many as requested");
    act(&service, "collect", r#"{"minutes": 0.01, "min_distance": 0}"#);
    eventually("the time is up", || phase(&service) == "collected");
    assert_eq!(status(&service)["note"], "the time was up after 2 frames");
    act(&service, "collect", r#"{"frames": 1}"#);
    eventually("there are more already", || phase(&service) == "collected");
    assert_eq!(status(&service)["note"], "2 frames are kept, more than the 1 requested");
    drop(service);
    let service = start_with(&place, &["--learn-room", "0"]);
    let (code, said) = service.change("/api/learn/collect", "{}").problem();
    assert!(code == 409 && said.contains("learn_room"), "{code} {said}");
}

#[test]
fn a_full_disk_ends_collecting_and_nothing_else() {
    let place = Place::new();
    // Room for the journal and little more.
    let Some(_disk) = SmallDisk::mount(&place.state()) else { return };
    let service = start(&place);
    act(&service, "collect", "{}");
    show(&service, &place, "a", [0, 50]);
    assert!(std::fs::write(place.state().join("filler"), vec![1; 8 << 20]).is_err());
    place.frame("b.pgm", &grey(100));
    eventually("collecting has ended", || phase(&service) == "collected");
    let ended = status(&service);
    assert_eq!((&ended["note"], &ended["kept"]), (&json!("the disk was full after 2 frames"), &json!(2)));
    // The camera is scored as before.
    let number = |service: &Service| service.get("/api/state").json()["latest"]["number"].as_u64().unwrap_or(0);
    eventually("the frame is scored", || number(&service) == 3);
    place.frame("c.png", &picture("six"));
    eventually("the next, too", || number(&service) == 4);
    // With room again it can go on.
    std::fs::remove_file(place.state().join("filler")).unwrap();
    act(&service, "collect", "{}");
    show(&service, &place, "d", [150]);
    assert_eq!(act(&service, "stop", "{}")["kept"], 3);
}

/// Whoever asks for the frames waits for the disk, and nobody else.
#[test]
fn a_disk_that_hangs_while_frames_are_listed_does_not_stop_the_service() {
    let place = Place::new();
    let service = start(&place);
    act(&service, "collect", "{}");
    hanging_disk(&service, &place);
    // More than the service has threads for all its clients.
    let threads = available_parallelism().unwrap().get();
    let waiting: Vec<_> = (0..=threads).map(|_| service.send("GET /api/learn/frames", "")).collect();
    for path in ["/healthz", "/api/state", "/api/adjustments", "/api/regions"] {
        assert!(service.answers(path, PATIENCE), "{path} with {} that wait", waiting.len());
    }
    let number = || service.get("/api/state").json()["latest"]["number"].as_u64();
    let before = number();
    place.frame("next.png", &picture("six"));
    eventually("the next frame is scored", || number() > before);
}
