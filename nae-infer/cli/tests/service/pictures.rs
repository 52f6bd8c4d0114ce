//! Makes the pictures of the page that are in docs/, from the page as it is:
//!
//! ```sh
//! cargo test --test service -- --ignored the_pictures_of_the_documents
//! ```

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::browser::Browser;
use crate::cameras::{camera, for_all, frame, scored};
use crate::harness::{Clock, Place, Service, eventually, picture};
use crate::learn::{act, digits_where, other_model, phase, status, trainer_with_model};

/// The width of a desktop's window, and of a phone's.
const DESKTOP: u32 = 1100;
const PHONE: u32 = 390;

/// Scans of digits that the model knows. Not enlarged: smooth ones are strange to it.
fn frames(from: usize, count: usize) -> Vec<Vec<u8>> {
    digits_where(|digit| digit != "1", from, count, |value| 15 * value)
}

/// Keeps a picture, in few colours, which are enough for a page.
fn keep(name: &str, png: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.png");
    std::fs::write(&whole, png).unwrap();
    let few = "split[a][b];[a]palettegen=max_colors=128:reserve_transparent=0[p];[b][p]paletteuse=dither=none";
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-y", "-i"])
        .arg(&whole)
        .args(["-vf", few])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name))
        .status();
    assert!(made.unwrap().success());
}

/// Waits until what has come is shown.
fn settle() {
    std::thread::sleep(Duration::from_millis(2500));
}

fn several_cameras() {
    let place = Place::new();
    let mut settings = for_all("alarm_raise = 1\nalarm_clear = 0");
    for name in ["gate", "yard", "dock", "shed"] {
        std::fs::create_dir(place.path(name)).unwrap();
        settings += &camera(name, &format!("source = \"folder:{}\"", place.path(name).display()));
    }
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    let show = |number: usize, cameras: &[&str]| {
        for (at, name) in cameras.iter().enumerate() {
            let image = if *name == "yard" { picture("half-three") } else { frames(number + 40 * at, 1).remove(0) };
            frame(&place, name, &format!("{number}.pgm"), &image);
        }
    };
    show(1, &["gate", "yard", "dock", "shed"]);
    eventually("each has its frame", || {
        ["gate", "yard", "dock", "shed"].iter().all(|name| scored(&service, name) == 1.0)
    });
    std::fs::remove_dir_all(place.path("dock")).unwrap();
    eventually("it is lost", || service.camera("dock")["source_state"] == "lost");
    for (name, width, height) in [("cameras.png", 1280, 390.0), ("cameras-phone.png", PHONE, 600.0)] {
        let mut page = Browser::open(&service.url("/")).unwrap();
        page.widen(width);
        page.wait_text("cameras", "shed");
        settle();
        show(width as usize, &["gate", "yard", "shed"]);
        settle();
        keep(name, &page.shot(width, height, None));
    }
}

/// A day of frames, by a clock that is put ahead, of which some minutes are strange.
fn one_camera() {
    const STEP: i64 = 140;
    const STEPS: i64 = 640;
    let place = Place::new();
    let clock = Clock::new(&place).unwrap();
    clock.is_wrong_by(-STEP * STEPS);
    trainer_with_model(&place);
    let (source, program) = (place.source(), place.path("trainer").display().to_string());
    let night = other_model().display().to_string();
    let arguments = [
        ["--source", &source, "--camera-name", "gate", "--queue", "100"],
        ["--nae-train", &program, "--night-model", &night, "--night-brightness=20-30", "--alarm-window=3"],
    ];
    let arguments: Vec<&str> =
        arguments.iter().flatten().copied().chain(["--alarm-raise", "2", "--alarm-clear", "0"]).collect();
    let service = Service::start_with(&place.state(), &arguments, &clock.variables());
    let taken = || service.metric("nae_frames_total{origin=\"Source\"}");
    let images = frames(0, 200);
    for step in 0..STEPS {
        clock.is_wrong_by(STEP * (step - STEPS + 1));
        let image = match step {
            210..213 => &picture("half-three"),
            480..482 => &picture("checkerboard"),
            _ => &images[step as usize % images.len()],
        };
        place.frame(&format!("{step:04}.pgm"), image);
        eventually("it is scored", || taken() > step as f64);
    }
    let mut page = Browser::open(&service.url("/")).unwrap();
    page.widen(DESKTOP);
    page.wait_text("frame", "frame ");
    page.value("document.getElementById('span').value = '60'; document.getElementById('span').dispatchEvent(new Event('change'))");
    page.click("[data-history=\"86400\"]");
    settle();
    let tall = page.value("document.getElementById('day-night').getBoundingClientRect().top + scrollY - 8");
    keep("serve.png", &page.shot(DESKTOP, tall.as_f64().unwrap().min(1400.0), None));
    page.widen(PHONE);
    settle();
    keep("serve-phone.png", &page.shot(PHONE, 1500.0, None));
    page.widen(DESKTOP);

    let regions = r#"{"regions": [{"kind": "include", "name": "lane", "vertices": [[0.05, 0.1], [0.95, 0.05], [0.9, 0.95], [0.1, 0.9]]},
        {"kind": "ignore", "name": "road", "vertices": [[0, 0], [0.45, 0], [0.25, 0.3], [0, 0.35]]}]}"#;
    assert_eq!(service.change("/api/regions", regions).status, 200);
    page.click("#regions-edit");
    settle();
    keep("regions.png", &page.shot(DESKTOP, 0.0, Some("#live")));
    page.click("#regions-cancel");
    assert_eq!(service.change("/api/regions/reset", "{}").status, 200);
    settle();
    keep("day-night.png", &page.shot(DESKTOP, 0.0, Some("#day-night")));

    act(&service, "collect", r#"{"minutes": 30, "min_distance": 0}"#);
    let seen = || status(&service)["seen"].as_u64().unwrap();
    for (number, image) in frames(3, 80).iter().enumerate() {
        let image = if number == 17 { &picture("half-three") } else { image };
        place.frame(&format!("a-{number:03}.pgm"), image);
        eventually("it is looked at", || seen() > number as u64);
    }
    act(&service, "stop", "{}");
    act(&service, "throw-out", r#"{"frames": [18]}"#);
    act(&service, "train", r#"{"minutes": 10}"#);
    eventually("it has trained", || phase(&service) == "trained");
    act(&service, "shadow", "{}");
    for (number, image) in frames(5, 120).iter().enumerate() {
        place.frame(&format!("b-{number:03}.pgm"), image);
        std::thread::sleep(Duration::from_millis(150));
    }
    // What the picture is about.
    page.value("for (const id of ['history', 'past', 'day-night', 'about']) document.getElementById(id).hidden = true");
    settle();
    keep("learn.png", &page.shot(DESKTOP, 1250.0, None));
}

#[test]
#[ignore = "makes the pictures of docs/"]
fn the_pictures_of_the_documents() {
    several_cameras();
    one_camera();
}
