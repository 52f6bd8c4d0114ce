//! The new model beside the one in use, in its place, and back; and that none of it is lost by a kill.

use std::io::Read as _;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{act, called, child, collected, other_model, phase, start, status, trained, trainer};
use crate::cameras::slow_model;
use crate::changes::{four_pixels, fragile, in_use, suspicious};
use crate::harness::{Place, Service, eventually, picture, runs};

#[test]
fn a_new_model_scores_beside_the_one_in_use_and_raises_no_alarm() {
    let place = Place::new();
    let service = collected(&place);
    // To it every frame is strange.
    let taken =
        service.post_with("/api/learn/take-model", &suspicious(), &[("content-type", "application/octet-stream")]);
    assert_eq!(taken.status, 200);
    act(&service, "shadow", "{}");
    let before = in_use(&service);
    // The greys before were anomalies.
    let alarms = || service.get("/api/alarms").json().as_array().unwrap().len();
    let raised = alarms();
    for number in 1..=6 {
        place.frame(&format!("b{number}.png"), &picture("six"));
        eventually("both have scored it", || status(&service)["shadow"]["frames"] == number);
    }
    let shadow = status(&service)["shadow"].clone();
    assert_eq!((&shadow["before"], &shadow["after"], &shadow["differ"]), (&json!(0), &json!(6), &json!(6)));
    assert_eq!(alarms(), raised, "none by the new model");
    let energies = service.get("/api/learn/energies?seconds=60").json();
    let energy = energies[0]["energy"].as_f64().unwrap();
    assert!(energy > shadow["threshold"].as_f64().unwrap(), "{energies} {shadow}");
    assert_eq!(in_use(&service), before);
    service.kill();
    let service = start(&place);
    assert_eq!((phase(&service).as_str(), in_use(&service)), ("shadowing", before));
    eventually("it scores again", || status(&service)["shadow"]["frames"].as_u64() > Some(0));
    let ended = act(&service, "end-shadow", "{}");
    assert_eq!((&ended["phase"], &ended["shadow"]), (&json!("trained"), &json!(null)));
    assert_eq!(service.get("/api/learn/energies").json(), json!([]));
}

#[test]
fn a_model_that_disagrees_takes_over_only_if_that_is_meant() {
    let place = Place::new();
    let service = start(&place);
    let first = in_use(&service);
    for i in 0..20 {
        place.frame(&format!("{i:02}.png"), &picture("six"));
    }
    eventually("the frames are scored", || service.get("/api/state").json()["latest"]["number"] == 20);
    let headers = [("content-type", "application/octet-stream")];
    assert_eq!(service.post_with("/api/learn/take-model", &suspicious(), &headers).status, 200);
    let (code, said) = service.change("/api/learn/swap", "{}").problem();
    assert!(code == 409 && said.contains("recent normal frames anomalies"), "{code} {said}");
    assert_eq!((phase(&service).as_str(), in_use(&service)), ("trained", first.clone()));
    act(&service, "swap", r#"{"anyway": true}"#);
    assert_ne!(in_use(&service), first);
    act(&service, "roll-back", "{}");
    assert_eq!((phase(&service).as_str(), in_use(&service)), ("trained", first));
}

#[test]
fn a_learned_model_that_fails_on_a_frame_is_rolled_back_and_that_is_said() {
    let place = Place::new();
    let service = start(&place);
    let first = in_use(&service);
    let headers = [("content-type", "application/octet-stream")];
    assert_eq!(service.post_with("/api/learn/take-model", &fragile(), &headers).status, 200);
    act(&service, "swap", "{}");
    assert_ne!(in_use(&service), first);
    place.frame("black.pgm", &four_pixels(0));
    place.frame("white.pgm", &four_pixels(255));
    eventually("that is said", || !status(&service)["note"].is_null());
    let note = status(&service)["note"].as_str().unwrap().to_owned();
    assert!(note.starts_with("the new model failed, and the one before is in use again: no energy"), "{note}");
    assert_eq!((phase(&service).as_str(), in_use(&service)), ("trained", first));
}

/// One after the other, each step and a kill.
#[test]
fn a_kill_at_any_step_loses_nothing() {
    let place = Place::new();
    trainer(&place);
    std::fs::write(place.path("hold"), "").unwrap();
    let service = collected(&place);
    let settings = in_use(&service);
    act(&service, "train", r#"{"minutes": 1}"#);
    eventually("it runs", || called(&place).len() == 1 && child(&place).is_some_and(runs));
    let child = child(&place).unwrap();
    service.kill();
    eventually("the child ends with the service", || !runs(child));

    // Where it was, which only nae-train knows.
    let service = start(&place);
    eventually("it runs again", || called(&place).len() == 2);
    let learn = place.state().join("learn");
    let expected = format!("--data {0}/frames --resume {0}/run --export {0}/new.onnx", learn.display());
    assert_eq!(called(&place)[1], expected);
    let training = status(&service);
    assert_eq!((&training["phase"], &training["training"]["manner"]), (&json!("training"), &json!("resumed")));
    // A stop in order is no cancellation.
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));

    // There is nothing to continue from: it starts again.
    std::fs::remove_file(learn.join("run/resume.bin")).unwrap();
    let service = start(&place);
    eventually("it runs again", || called(&place).len() == 3);
    assert!(called(&place)[2].contains("--time-budget 60s"), "{}", called(&place)[2]);
    assert_eq!(status(&service)["training"]["manner"], "started again");
    std::fs::copy(other_model(), place.path("learned")).unwrap();
    std::fs::remove_file(place.path("hold")).unwrap();
    eventually("it has trained", || phase(&service) == "trained");
    let learned = status(&service)["model"].clone();
    service.kill();

    let service = start(&place);
    assert_eq!((phase(&service).as_str(), &status(&service)["report"]), ("trained", &json!(true)));
    assert_eq!(in_use(&service), settings);
    act(&service, "swap", "{}");
    service.kill();

    let service = start(&place);
    assert_eq!((phase(&service).as_str(), json!(in_use(&service))), ("swapped", learned.clone()));
    // What is learned next does not take the way back.
    act(&service, "delete", "{}");
    service.kill();
    let service = start(&place);
    assert_eq!((phase(&service).as_str(), json!(in_use(&service))), ("idle", learned.clone()));
    act(&service, "roll-back", "{}");
    assert_eq!(in_use(&service), settings);
    service.kill();
    let service = start(&place);
    assert_eq!((phase(&service).as_str(), in_use(&service)), ("idle", settings.clone()));
    assert_eq!(std::fs::read_dir(learn.join("models")).unwrap().count(), 0, "no phase needs it");
}

#[test]
fn what_was_spoilt_while_the_service_was_down_is_said_and_passed_over() {
    let place = Place::new();
    let service = trained(&place);
    let settings = in_use(&service);
    act(&service, "swap", "{}");
    let learned = in_use(&service);
    service.kill();
    let file = place.state().join("learn/models").join(format!("{learned}.model"));
    std::fs::write(&file, "garbage").unwrap();
    let service = start(&place);
    assert!(service.started.contains("the model that was learned here cannot be opened"), "{}", service.started);
    assert_eq!(in_use(&service), settings);
    let now = status(&service);
    assert!(now["note"].as_str().unwrap().contains("that of the settings is used") && now["in_use"].is_null(), "{now}");
    service.kill();
    std::fs::write(place.state().join("learn/state.json"), "{").unwrap();
    let service = start(&place);
    let now = status(&service);
    assert_eq!((&now["phase"], &now["kept"]), (&json!("collected"), &json!(6)), "the frames are there");
    assert!(place.state().join("learn/state.json.damaged").exists());
}

/// The reload read which file is in use before the swap, and ends after it.
#[test]
fn a_reload_does_not_put_the_model_before_a_swap_back() {
    let place = Place::new();
    let path = place.path("model.onnx");
    slow_model(&path);
    // Reconstructs nothing in time, which is no matter here: that takes its part of a second for each of the frames.
    let arguments = ["--source", &place.source(), "--queue", "100", "--score-timeout", "60"];
    let service = Service::try_start(&path, &place.state(), &arguments).unwrap();
    for i in 0..8 {
        place.frame(&format!("{i}.png"), &picture("six"));
    }
    eventually("the frames are scored", || service.get("/api/state").json()["latest"]["number"] == 8);
    let headers = [("content-type", "application/octet-stream")];
    let learned = std::fs::read(other_model()).unwrap();
    assert_eq!(service.post_with("/api/learn/take-model", &learned, &headers).status, 200);
    let mut reload = service.send("POST /api/reload", "{}");
    thread::sleep(Duration::from_millis(300));
    act(&service, "swap", "{}");
    let mut reloaded = String::new();
    reload.read_to_string(&mut reloaded).unwrap();
    assert!(reloaded.starts_with("HTTP/1.1 200"), "{reloaded}");
    let now = status(&service);
    assert_eq!((&now["phase"], &now["in_use"]), (&json!("swapped"), &json!(in_use(&service))));
}
