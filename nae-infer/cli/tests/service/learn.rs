//! Learning at the camera: each step by HTTP, what is refused, and that a kill at any step loses none. `nae-train` is a script here
//! that does what it is told, but for the last test.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::changes::{four_pixels, fragile, in_use, suspicious};
use crate::harness::{Place, Service, SmallDisk, eventually, model, picture, runs, slow_tests_are_asked_for};

/// A frame of one grey.
fn grey(level: u8) -> Vec<u8> {
    [b"P5 16 16 255\n".as_slice(), &[level; 256]].concat()
}

/// A service whose camera is the folder of the place, and whose nae-train is the script.
fn start(place: &Place) -> Service {
    start_with(place, &[])
}

fn start_with(place: &Place, more: &[&str]) -> Service {
    let (source, trainer) = (place.source(), place.path("trainer").display().to_string());
    let arguments = ["--source", &source, "--queue", "1000", "--nae-train", &trainer];
    // A setting that is none of the child's business.
    let variables = [("NAE_INFER_MAX_BODY", Path::new("16"))];
    Service::start_with(&place.state(), &[&arguments, more].concat(), &variables)
}

pub(crate) fn status(service: &Service) -> Value {
    let answer = service.get("/api/learn");
    assert_eq!(answer.status, 200);
    answer.json()
}

pub(crate) fn phase(service: &Service) -> String {
    status(service)["phase"].as_str().unwrap().to_owned()
}

/// Does something that is to be possible.
pub(crate) fn act(service: &Service, action: &str, body: &str) -> Value {
    let answer = service.change(&format!("/api/learn/{action}"), body);
    assert_eq!(answer.status, 200, "{action}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

/// Collects frames of these greys, which the camera shows one after the other.
pub(crate) fn show(service: &Service, place: &Place, round: &str, levels: impl IntoIterator<Item = u8>) {
    for level in levels {
        let before = status(service)["seen"].as_u64().unwrap();
        place.frame(&format!("{round}-{level:03}.pgm"), &grey(level));
        eventually("the frame is looked at", || status(service)["seen"].as_u64().unwrap() > before);
    }
}

/// A service that has collected six frames.
fn collected(place: &Place) -> Service {
    let service = start(place);
    act(&service, "collect", "{}");
    show(&service, place, "a", (0..6).map(|i| 40 * i));
    act(&service, "stop", "{}");
    service
}

/// The script: it says how far it is, waits while `hold` is there, and gives `learned` as the model, or fails where that is not.
pub(crate) fn trainer(place: &Place) {
    let script = r#"#!/bin/sh
echo "$@" >> PLACE/called
while [ $# -gt 0 ]; do
  case "$1" in --data) data=$2;; --out|--resume) run=$2;; --export) model=$2;; esac
  shift
done
mkdir -p "$run"
: > "$run/resume.bin"
ls "$data" > PLACE/trained-on
nice >> PLACE/nice
env | grep NAE_INFER_ >> PLACE/settings
echo "data: some images" >&2
echo "NAE training: 3 of 100 updates, 2 minutes gone, about 60 minutes left; E+ 0.01" >&2
echo $$ > PLACE/pid
while [ -e PLACE/hold ]; do sleep 0.05; done
cp /proc/self/oom_score_adj PLACE/oom
if [ ! -e PLACE/learned ]; then echo "no room for the network" >&2; exit 3; fi
echo '<p>how it went</p>' > "$run/report.html"
cp PLACE/learned "$model"
"#;
    let path = place.path("trainer");
    std::fs::write(&path, script.replace("PLACE", place.path("").to_str().unwrap().trim_end_matches('/'))).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The model that the script gives: the digits network lowered, which is another file.
pub(crate) fn other_model() -> PathBuf {
    model().with_file_name("digits.nae")
}

/// A service that has trained that model.
fn trained(place: &Place) -> Service {
    trainer(place);
    std::fs::copy(other_model(), place.path("learned")).unwrap();
    let service = collected(place);
    act(&service, "train", r#"{"minutes": 1}"#);
    eventually("it has trained", || phase(&service) == "trained");
    service
}

fn called(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path("called")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The process of the script, once it has said so.
fn child(place: &Place) -> Option<u32> {
    std::fs::read_to_string(place.path("pid")).ok()?.trim().parse().ok()
}

fn numbers(service: &Service, from: u32, count: u32) -> Value {
    service.get(&format!("/api/learn/frames?from={from}&count={count}")).json()
}

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
    assert_eq!(status(&service)["note"], "2 frames were collected, as many as were asked for");
    act(&service, "collect", r#"{"minutes": 0.01, "min_distance": 0}"#);
    eventually("the time is up", || phase(&service) == "collected");
    assert_eq!(status(&service)["note"], "the time was up after 2 frames");
    drop(service);
    let service = start_with(&place, &["--learn-room", "0"]);
    let (code, said) = service.change("/api/learn/collect", "{}").problem();
    assert!(code == 409 && said.contains("learn_room"), "{code} {said}");
}

#[test]
fn what_cannot_be_done_now_is_refused_with_what_can() {
    let place = Place::new();
    let service = start(&place);
    for action in ["stop", "train", "cancel", "delete", "shadow", "end-shadow", "swap", "roll-back"] {
        let body = if action == "train" { r#"{"minutes": 1}"# } else { "{}" };
        let (code, said) = service.change(&format!("/api/learn/{action}"), body).problem();
        assert_eq!(code, 409, "{action}");
        let possible = "is not possible while learning is `idle`; possible now: collect, take-model";
        assert_eq!(said, format!("`{action}` {possible}"));
    }
    for (action, body, part) in [
        ("collect", r#"{"minutes": -1}"#, "`minutes`: expected a number from 0.01"),
        ("collect", r#"{"frames": 0}"#, "`frames`"),
        ("collect", r#"{"min_distance": 1e99}"#, ""),
        ("collect", r#"{"hours": 1}"#, "unknown field"),
        ("train", r#"{"minutes": 1e9}"#, "`minutes`"),
        ("throw-out", r#"{"frames": ["../x"]}"#, ""),
    ] {
        let (code, said) = service.change(&format!("/api/learn/{action}"), body).problem();
        assert!(code == 400 && said.contains(part), "{action} {body}: {code} {said}");
    }
    // What a form of another site's page could send.
    assert_eq!(service.post("/api/learn/collect", b"{}").status, 415);
    assert_eq!(service.post_with("/api/learn/take-model", b"x", &[("content-type", "text/plain")]).status, 415);
    let garbage = [("content-type", "application/octet-stream")];
    assert_eq!(service.post_with("/api/learn/take-model", b"garbage", &garbage).status, 422);
    assert_eq!(phase(&service), "idle");
    assert_eq!(service.get("/api/learn/report").status, 404);
}

#[test]
fn looking_at_frames_is_for_who_may_look_and_the_rest_for_who_may_change() {
    let place = Place::new();
    let tokens = place.three_tokens();
    let service = start_with(&place, &tokens.iter().map(String::as_str).collect::<Vec<_>>());
    let with =
        |token: &str| [("authorization", format!("Bearer {token}")), ("content-type", "application/json".into())];
    let ask = |token: &str, path: &str| {
        let headers = with(token);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let looks = !["collect", "stop", "throw-out", "bring-back", "delete", "train", "cancel", "take-model"]
            .into_iter()
            .chain(["shadow", "end-shadow", "swap", "roll-back"])
            .any(|action| path.ends_with(action));
        let path = format!("/api/learn{path}");
        if looks { service.get_with(&path, &headers).status } else { service.post_with(&path, b"!", &headers).status }
    };
    for path in ["", "/frames", "/frames.tar", "/frames/1/image", "/frames/1/thumbnail", "/report", "/energies"] {
        let expected = if path.contains("/1/") || path == "/report" { 404 } else { 200 };
        let found = ["token", "look-token", "score-token", "wrong"].map(|token| ask(token, path));
        assert_eq!(found, [expected, expected, 403, 401], "{path}");
    }
    for path in ["/collect", "/stop", "/throw-out", "/bring-back", "/delete", "/train", "/cancel", "/take-model"]
        .into_iter()
        .chain(["/shadow", "/end-shadow", "/swap", "/roll-back"])
    {
        let expected = if path == "/take-model" { 415 } else { 400 };
        let found = ["token", "look-token", "score-token", "wrong"].map(|token| ask(token, path));
        assert_eq!(found, [expected, 403, 403, 401], "{path}");
    }
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

#[test]
fn frames_are_trained_on_by_a_child_process_whose_report_is_shown() {
    let place = Place::new();
    trainer(&place);
    std::fs::copy(other_model(), place.path("learned")).unwrap();
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
    trainer(&place);
    std::fs::copy(other_model(), place.path("learned")).unwrap();
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

    // There is nothing to go on from: anew.
    std::fs::remove_file(learn.join("run/resume.bin")).unwrap();
    let service = start(&place);
    eventually("it runs anew", || called(&place).len() == 3);
    assert!(called(&place)[2].contains("--time-budget 60s"), "{}", called(&place)[2]);
    assert_eq!(status(&service)["training"]["manner"], "begun anew");
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

/// Scans of digits, 8×8 pixels of 17 levels: `count` of them, every eighth from line `from` on, since neighbours are of one hand.
pub(crate) fn digits(from: usize, count: usize, pixel: impl Fn(u8) -> u8) -> Vec<Vec<u8>> {
    digits_where(|_| true, from, count, pixel)
}

/// Those that stand for one of these numbers.
pub(crate) fn digits_where(
    wanted: impl Fn(&str) -> bool,
    from: usize,
    count: usize,
    pixel: impl Fn(u8) -> u8,
) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/nae-data/digits.csv.gz");
    let output = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let image = |line: &str| {
        let pixels = line.split(',').take(64).map(|value| pixel(value.parse().unwrap()));
        [b"P5 8 8 255\n".to_vec(), pixels.collect()].concat()
    };
    let is_wanted = |line: &&str| wanted(line.rsplit(',').next().unwrap());
    text.lines().skip(from).step_by(8).filter(is_wanted).take(count).map(image).collect()
}

/// The real `nae-train`, where slow tests are asked for.
pub(crate) fn real_trainer() -> Option<PathBuf> {
    if !slow_tests_are_asked_for() {
        return None;
    }
    let beside = || Path::new(env!("CARGO_BIN_EXE_nae-infer")).with_file_name("nae-train");
    let program = std::env::var_os("NAE_TRAIN").map_or_else(beside, PathBuf::from);
    if !program.is_file() {
        eprintln!("not run: {} is not there; build nae-train-cli, or set NAE_TRAIN", program.display());
        return None;
    }
    Some(program)
}

/// From nothing but a camera to a model of what it sees, with the real `nae-train`.
#[test]
fn a_camera_that_sees_digits_has_a_model_of_digits_in_the_end() {
    let Some(program) = real_trainer() else { return };
    let ink = |value: u8| 15 * value;
    let place = Place::new();
    let arguments = ["--source", &place.source(), "--queue", "1000", "--nae-train", program.to_str().unwrap()];
    let service = Service::start(&place.state(), &arguments);
    act(&service, "collect", "{}");
    for (number, image) in (1..).zip(digits(0, 200, ink)) {
        place.frame(&format!("{number:04}.pgm"), &image);
        eventually("it is looked at", || status(&service)["seen"].as_u64() >= Some(number));
    }
    let collected = act(&service, "stop", "{}");
    let kept = collected["kept"].as_u64().unwrap();
    assert!(kept > 150, "digits differ: {kept} of 200");
    act(&service, "train", r#"{"minutes": 0.75}"#);
    let begin = std::time::Instant::now();
    while phase(&service) == "training" {
        assert!(begin.elapsed().as_secs() < 600, "{}", status(&service));
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let trained = status(&service);
    assert_eq!((&trained["phase"], &trained["report"]), (&json!("trained"), &json!(true)), "{trained}");
    let report = String::from_utf8(service.get("/api/learn/report").body).unwrap();
    assert!(report.contains("<html") && !report.contains("<script"), "its policy allows no script");
    act(&service, "shadow", "{}");
    place.frame("shadow.pgm", &digits(7, 1, ink)[0]);
    eventually("both have scored it", || status(&service)["shadow"]["frames"] == 1);
    act(&service, "swap", r#"{"anyway": true}"#);
    let anomalies = |images: &[Vec<u8>]| {
        let is_one = |image: &&Vec<u8>| service.post("/score", image).json()["verdict"] == "anomaly";
        images.iter().filter(is_one).count()
    };
    let (normal, inverted) = (anomalies(&digits(4, 200, ink)), anomalies(&digits(4, 200, |v| 240 - 15 * v)));
    println!(
        "{kept} frames, {} s: anomalies among 200 other digits {normal}, among 200 inverted ones {inverted}",
        begin.elapsed().as_secs()
    );
    assert!(normal <= 60 && inverted >= 180, "{normal} {inverted}");
    act(&service, "roll-back", "{}");
}

/// The same steps as by HTTP, by the buttons of the page.
#[test]
fn a_camera_learns_by_clicks_on_the_page() {
    let place = Place::new();
    trainer(&place);
    std::fs::copy(other_model(), place.path("learned")).unwrap();
    std::fs::write(place.path("hold"), "").unwrap();
    let service = start(&place);
    let settings = in_use(&service);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    page.click("[data-action=collect]");
    page.wait_text("learn-phase", "0 frames kept of 0 seen. 30 min left.");
    show(&service, &place, "a", (0..4).map(|i| 60 * i));
    page.wait_text("learn-phase", "4 frames kept of 4 seen");
    page.click("[data-action=stop]");
    page.click("#learn-frames li:nth-child(2) button");
    page.wait_text("learn-phase", "3 frames kept of 4 seen");
    assert_eq!(numbers(&service, 2, 1), json!([{"number": 2, "thrown_out": true}]));
    page.click("#learn-frames li:nth-child(1) button");
    page.wait_text("learn-phase", "2 thrown out.");
    page.click("#learn-frames .out");
    page.wait_text("learn-phase", "1 thrown out.");
    page.click("[data-action=train]");
    page.wait_text("learn-phase", "NAE training: 3 of 100 updates.");
    page.wait_text("learn-lines", "data: some images");
    page.click("[data-action=cancel]");
    page.wait_text("learn-note", "training was cancelled");
    std::fs::remove_file(place.path("hold")).unwrap();
    page.click("[data-action=train]");
    page.wait_text("learn-phase", "There is a new model.");
    assert_eq!(page.value("document.getElementById('learn-report').hidden"), false);
    page.click("[data-action=shadow]");
    page.wait_text("learn-phase", "The new model scores beside the one in use");
    place.frame("b.png", &picture("six"));
    page.wait_text("learn-phase", "Of 1 frames the model in use calls 0 anomalies, the new one 0; on 0 they differ.");
    eventually("its energy is on the chart", || page.value("learn.points.length") == 1);
    page.click("[data-action=end-shadow]");
    page.click("[data-action=swap]");
    page.wait_text("learn-phase", "The new model is in use.");
    assert_ne!(in_use(&service), settings);
    page.click("[data-action=roll-back]");
    page.wait_text("learn-phase", "There is a new model.");
    assert_eq!(in_use(&service), settings);
    page.click("[data-action=delete]");
    page.wait_text("learn-phase", "No frames yet.");
    assert_eq!(
        (phase(&service).as_str(), page.value("document.getElementById('learn-problem').textContent")),
        ("idle", json!(""))
    );
}

#[test]
fn who_may_only_look_sees_frames_and_no_buttons() {
    let place = Place::new();
    // Collected before there were tokens.
    collected(&place).kill();
    let files = ["token", "look-token"].map(|name| {
        std::fs::write(place.path(name), name).unwrap();
        place.path(name).display().to_string()
    });
    let service = start_with(&place, &["--token-file", &files[0], "--look-token-file", &files[1]]);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let seen = "[...document.querySelectorAll('#learn button')].filter(b => b.offsetParent && !b.disabled).length";
    let mut with = |token: &str| {
        eventually("the page is there", || page.value("location.pathname") == "/");
        page.value(&format!("sessionStorage.setItem('token', '{token}'); window.before = true; location.reload();"));
        let another = "document.readyState === 'complete' && window.before === undefined";
        eventually("another page is there", || page.value(another) == true);
        page.wait_text("learn-phase", "6 frames kept of 6 seen");
        eventually("its frames too", || page.value("document.querySelectorAll('#learn-frames img[src]').length") == 6);
        page.value(seen).as_u64().unwrap()
    };
    assert_eq!(with("look-token"), 0);
    // A button for each frame, and those to collect and to delete; there is no nae-train.
    assert_eq!(with("token"), 8);
}
