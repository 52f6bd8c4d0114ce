//! What the process as such survives: a log that cannot be written, a signal while it starts, and a second one with the same
//! state.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::alarms::Absent;
use crate::cameras::{camera, for_all};
use crate::harness::{Place, Service, comes, command, eventually, model, picture, program};

/// As where a program that gathers logs has crashed. Each of the first frames is logged, since it has a reason of its own.
#[test]
fn frames_are_scored_also_if_nobody_reads_the_log() {
    let place = Place::new();
    let mut service = Service::start(&place.state(), &["--source", &place.source(), "--max-megapixels", "1"]);
    service.leave_log();
    for count in 1..=4 {
        place.frame(&format!("{count}.pgm"), format!("P5 {} 1000 255\n", 2000 + count).as_bytes());
        let failures = || service.metric("nae_frame_failures_total{origin=\"Source\"}");
        eventually("it is passed over", || failures() == f64::from(count));
    }
    place.frame("good.png", &picture("six"));
    eventually("the next is scored", || service.get("/api/state").json()["latest"]["name"] == "good.png");
    assert_eq!(service.change("/api/pause", "{}").status, 200);
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
}

#[test]
fn a_log_on_a_full_disk_is_no_reason_to_end() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: there is no /dev/full");
        return;
    }
    let place = Place::new();
    let absent = Absent::new();
    let address = absent.address().to_string();
    let model = model();
    let arguments = ["--model", model.to_str().unwrap(), "--listen", &address];
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut service = command(&place.state(), &arguments).stderr(full).spawn().unwrap();
    let url = format!("http://{address}");
    let is_ready = || {
        let mut health = Command::new(program());
        health.args(["health", &url]).stderr(Stdio::null()).status().unwrap().success()
    };
    eventually("it is ready", || is_ready() || service.try_wait().unwrap().is_some());
    let ended = service.try_wait().unwrap();
    service.kill().unwrap();
    service.wait().unwrap();
    assert_eq!(ended, None);
}

/// Here it waits for its settings, which come from a pipe.
#[test]
fn a_signal_to_reload_while_it_starts_does_not_end_it() {
    let place = Place::new();
    let settings = place.path("serve.toml");
    assert!(Command::new("mkfifo").arg(&settings).status().unwrap().success());
    let model = model();
    let arguments = ["--model", model.to_str().unwrap(), "--config", settings.to_str().unwrap()];
    let process = command(&place.state(), &arguments).spawn().unwrap();
    // Waits until the service opens it, too.
    let mut pipe = File::options().write(true).open(&settings).unwrap();
    assert!(Command::new("kill").args(["-HUP", &process.id().to_string()]).status().unwrap().success());
    // The signal comes before what is written.
    let _ = pipe.write_all(b"camera_name = \"gate\"\n");
    drop(pipe);
    let service = Service::of(process).unwrap();
    service.wait_log("file is unchanged");
    assert_eq!(service.get("/readyz").status, 200);
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
}

/// Starts a service with the state in `state`, which is expected to end at once: its exit status, and what it said.
fn refused(state: &Path) -> (Option<i32>, String) {
    let model = model();
    let mut process = command(state, &["--model", model.to_str().unwrap()]).spawn().unwrap();
    comes(|| process.try_wait().unwrap().is_some());
    // If it has ended by itself, this changes nothing.
    let _ = process.kill();
    let output = process.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Each would write its alarms over those of the other in the journal, under the same ids.
#[test]
fn a_second_service_with_the_same_state_is_refused_until_the_first_has_ended() {
    let place = Place::new();
    let is_refused = || {
        let (code, said) = refused(&place.state());
        let line = said.lines().find(|line| line.starts_with("error:")).unwrap_or_else(|| panic!("{code:?} {said}"));
        for part in [place.state().to_str().unwrap(), "another service", "--state DIR"] {
            assert!(line.contains(part), "no {part} in {line}");
        }
        assert_eq!(code, Some(1), "{said}");
    };
    let service = Service::start(&place.state(), &[]);
    is_refused();
    assert_eq!(service.get("/readyz").status, 200);
    // With a folder of its own, it starts.
    drop(Service::start(&place.path("other"), &[]));
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));

    let service = Service::start(&place.state(), &[]);
    is_refused();
    service.kill();
    let service = Service::with_cameras(&place, &(for_all("") + &camera("gate", "")), &[]).unwrap();
    is_refused();
    assert_eq!(service.get("/readyz").status, 200);
}

/// As on a full disk, where the journal has its room already.
#[test]
fn a_lock_that_cannot_be_made_does_not_prevent_a_start() {
    let place = Place::new();
    std::fs::create_dir_all(place.state().join("lock")).unwrap();
    let service = Service::start(&place.state(), &[]);
    assert!(service.started.contains("it is not checked whether another service uses"), "{}", service.started);
    assert_eq!(service.get("/readyz").status, 200);
}
