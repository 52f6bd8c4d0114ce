//! Learning at the camera: each step by HTTP, what is refused, and that a kill at any step loses none. `nae-train` is a script here
//! that does what it is told, but for `digits`. What all of it needs is here.

mod digits;
mod frames;
mod page;
mod requests;
mod swapping;
mod training;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

pub(crate) use self::digits::{digits, digits_where, real_trainer};
use crate::harness::{Place, Service, eventually, model};

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

/// Makes the disk hang, on which a frame that is collected is written: the next one waits until somebody opens the pipe that
/// this gives.
fn hanging_disk(service: &Service, place: &Place) -> PathBuf {
    let frames = place.state().join("learn/frames");
    std::fs::create_dir_all(&frames).unwrap();
    let pipe = frames.join(".unfinished");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    place.frame("hangs.pgm", &grey(200));
    eventually("the disk hangs", || !service.answers("/api/learn", Duration::from_millis(500)));
    pipe
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

/// The script, which gives that model.
pub(crate) fn trainer_with_model(place: &Place) {
    trainer(place);
    std::fs::copy(other_model(), place.path("learned")).unwrap();
}

/// A service that has trained it.
fn trained(place: &Place) -> Service {
    trainer_with_model(place);
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
