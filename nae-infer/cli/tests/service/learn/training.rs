//! Training on the frames: by a child process, elsewhere, broken off, and that one camera trains at a time.

use std::process::Command;

use serde_json::json;

use super::{act, called, child, collected, grey, other_model, phase, start, status, trainer, trainer_with_model};
use crate::changes::in_use;
use crate::harness::{Place, Service, SmallDisk, eventually, model, picture, runs};

#[test]
fn frames_are_trained_on_by_a_child_process_whose_report_is_shown() {
    let place = Place::new();
    trainer_with_model(&place);
    std::fs::write(place.path("hold"), "").unwrap();
    let service = collected(&place);
    act(&service, "throw-out", r#"{"frames": [2]}"#);
    let training = act(&service, "train", r#"{"minutes": 2.5}"#);
    assert_eq!((&training["phase"], &training["seconds"]), (&json!("training"), &json!(150.0)));
    eventually("its progress is shown", || {
        status(&service)["training"]["progress"]
            == json!({"doing": "NAE training", "done": 3, "total": 100, "unit": "updates"})
    });
    assert_eq!(status(&service)["training"]["manner"], "begun");
    assert_eq!(status(&service)["may"], json!(["cancel"]));
    // Scoring goes on meanwhile.
    assert_eq!(service.post("/score", &picture("six")).status, 200);
    let learn = place.state().join("learn");
    let expected = format!("--data {0}/frames --out {0}/run --time-budget 150s --export {0}/new.onnx", learn.display());
    assert_eq!(called(&place), [expected]);
    assert_eq!(std::fs::read_to_string(place.path("nice")).unwrap(), "19\n");
    assert_eq!(std::fs::read_to_string(place.path("settings")).unwrap(), "", "settings, passwords among them");
    let trained_on = std::fs::read_to_string(place.path("trained-on")).unwrap();
    assert_eq!(trained_on.lines().collect::<Vec<_>>(), [1, 3, 4, 5, 6].map(|n| format!("{n:06}.png")));
    std::fs::remove_file(place.path("hold")).unwrap();
    eventually("it has trained", || phase(&service) == "trained");
    let now = status(&service);
    assert_eq!(std::fs::read_to_string(place.path("oom")).unwrap(), "1000\n", "the service is not what is to end");
    assert_eq!((&now["report"], &now["note"], &now["training"]), (&json!(true), &json!(null), &json!(null)));
    assert!(!learn.join("run").exists() && !learn.join("new.onnx").exists(), "what only training needs");
    let report = service.get("/api/learn/report");
    assert_eq!(
        (report.kind.as_str(), report.body.as_slice()),
        ("text/html; charset=utf-8", b"<p>how it went</p>\n".as_slice())
    );
    let policy = report.header("content-security-policy").unwrap();
    assert!(policy.starts_with("sandbox; default-src 'none';") && !policy.contains("script"), "{policy}");
    assert_eq!(report.header("x-frame-options"), Some("DENY"));
    assert!(
        service.get("/").header("content-security-policy").unwrap().contains("script-src 'self'"),
        "the page has its own"
    );
    // The model in use is as before.
    assert_ne!(now["model"], in_use(&service));
}

#[test]
fn a_training_is_cancelled_and_one_that_fails_says_why() {
    let place = Place::new();
    trainer(&place);
    std::fs::write(place.path("hold"), "").unwrap();
    let service = collected(&place);
    act(&service, "train", r#"{"minutes": 1}"#);
    eventually("it runs", || child(&place).is_some_and(runs));
    let child = child(&place).unwrap();
    let cancelled = act(&service, "cancel", "{}");
    assert_eq!((&cancelled["phase"], &cancelled["note"]), (&json!("collected"), &json!("training was cancelled")));
    assert!(!runs(child), "the child has ended");
    std::fs::remove_file(place.path("hold")).unwrap();
    act(&service, "train", r#"{"minutes": 1}"#);
    eventually("it has failed", || phase(&service) == "collected");
    let note = status(&service)["note"].as_str().unwrap().to_owned();
    assert!(note.contains("exit status: 3") && note.contains("no room for the network"), "{note}");
    // A file that is no model is none.
    std::fs::write(place.path("learned"), "garbage").unwrap();
    act(&service, "train", r#"{"minutes": 1}"#);
    eventually("it has failed again", || {
        status(&service)["note"].as_str().is_some_and(|note| note.contains("new.onnx"))
            && phase(&service) == "collected"
    });
}

/// The child has no room for its model, nor the service for saying so on disk.
#[test]
fn a_full_disk_ends_a_training_and_nothing_else() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::mount(&place.state()) else { return };
    trainer_with_model(&place);
    std::fs::write(place.path("hold"), "").unwrap();
    let service = collected(&place);
    let before = in_use(&service);
    act(&service, "train", r#"{"minutes": 1}"#);
    eventually("it runs", || child(&place).is_some_and(runs));
    let filler = place.state().join("filler");
    assert!(std::fs::write(&filler, vec![1; 8 << 20]).is_err());
    std::fs::remove_file(place.path("hold")).unwrap();
    eventually("it has failed", || phase(&service) == "collected");
    let failed = status(&service);
    let note = failed["note"].as_str().unwrap();
    assert!(note.contains("No space left on device"), "{note}");
    assert_eq!((&failed["kept"], in_use(&service)), (&json!(6), before));
    place.frame("z.png", &picture("six"));
    eventually("frames are scored", || service.get("/api/state").json()["latest"]["name"] == "z.png");
    // With room again it works, also for a service that was killed meanwhile.
    std::fs::remove_file(&filler).unwrap();
    service.kill();
    let service = start(&place);
    eventually("it has ended, or goes on to its end", || ["collected", "trained"].contains(&phase(&service).as_str()));
    if phase(&service) == "collected" {
        act(&service, "train", r#"{"minutes": 1}"#);
    }
    eventually("it has trained", || phase(&service) == "trained");
}

#[test]
fn where_there_is_no_nae_train_the_frames_go_elsewhere_and_the_model_comes_back() {
    let place = Place::new();
    let service = collected(&place);
    assert_eq!(status(&service)["nae_train"], false);
    let (code, said) = service.change("/api/learn/train", r#"{"minutes": 5}"#).problem();
    assert!(
        code == 409 && said.contains("nae-train --data frames.tar --time-budget 300s --export model.onnx"),
        "{said}"
    );
    assert_eq!(phase(&service), "collected");
    act(&service, "throw-out", r#"{"frames": [2]}"#);
    let archive = service.get("/api/learn/frames.tar");
    assert_eq!(archive.kind, "application/x-tar");
    std::fs::write(place.path("frames.tar"), archive.body).unwrap();
    let listed = Command::new("tar").arg("-tf").arg(place.path("frames.tar")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(listed.lines().collect::<Vec<_>>(), [1, 3, 4, 5, 6].map(|n| format!("frames/{n:06}.png")));
    let bytes = std::fs::read(other_model()).unwrap();
    let taken = service.post_with("/api/learn/take-model", &bytes, &[("content-type", "application/octet-stream")]);
    assert_eq!(
        (taken.status, &taken.json()["phase"], &taken.json()["report"]),
        (200, &json!("trained"), &json!(false))
    );
    act(&service, "swap", "{}");
    assert_eq!(in_use(&service), taken.json()["model"]);
}

#[test]
fn each_camera_learns_for_itself_and_one_trains_at_a_time() {
    let place = Place::new();
    trainer(&place);
    std::fs::write(place.path("hold"), "").unwrap();
    let mut settings =
        format!("model = \"{}\"\nnae_train = \"{}\"\n", model().display(), place.path("trainer").display());
    for name in ["gate", "yard"] {
        std::fs::create_dir(place.path(name)).unwrap();
        let source = place.path(name).display().to_string();
        settings += &format!("[[camera]]\nname = \"{name}\"\nsource = \"folder:{source}\"\n");
    }
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    let of = |camera: &str| service.get(&format!("/api/cameras/{camera}/learn")).json();
    let act =
        |camera: &str, action: &str, body: &str| service.change(&format!("/api/cameras/{camera}/learn/{action}"), body);
    for (camera, level) in [("gate", 10), ("yard", 200)] {
        assert_eq!(act(camera, "collect", r#"{"frames": 1}"#).status, 200);
        std::fs::write(place.path(camera).join("a.pgm"), grey(level)).unwrap();
        eventually("its frame is kept", || of(camera)["phase"] == "collected");
        assert!(place.state().join("cameras").join(camera).join("learn/frames/000001.png").exists());
    }
    assert_eq!(act("gate", "train", r#"{"minutes": 1}"#).status, 200);
    let (code, said) = act("yard", "train", r#"{"minutes": 1}"#).problem();
    assert!(code == 409 && said.contains("the camera gate is training"), "{code} {said}");
    assert_eq!(of("yard")["phase"], "collected");
    assert_eq!(act("gate", "cancel", "{}").status, 200);
    assert_eq!(act("yard", "train", r#"{"minutes": 1}"#).status, 200);
    assert_eq!(service.get("/api/learn").status, 404, "whose is not said");
}
