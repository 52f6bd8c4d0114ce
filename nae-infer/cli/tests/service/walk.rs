//! The whole walk of somebody who has a camera of the network and nothing else: from a service without a model, by clicks on its page,
//! to an alarm with its picture at a broker. Each step is tried for itself in the other files.

use std::path::Path;
use std::time::{Duration, Instant};

use nae_infer::Detector;
use serde_json::json;

use crate::broker::{certificates, encrypted};
use crate::browser::{Browser, chromium};
use crate::harness::{Place, Service, eventually, number};
use crate::learn::{digits, phase, real_trainer, status, trainer_with_model};
use crate::mosquitto::{Broker, mosquitto};
use crate::stream_camera::{Camera, Pictures};
use crate::streams::{can_run, video};

/// The camera shows `normal` pictures, of which `frames` are collected, and then `strange` ones.
fn walk(place: &Place, [normal, strange]: [Pictures; 2], frames: u64, trainer: &Path) {
    let Some(program) = mosquitto().filter(|_| chromium().is_some() && certificates(place, 2)) else { return };
    let mut broker = Broker::new(program, place, &encrypted(place));
    broker.start();
    let [alarms, pictures] = ["nae/alarms", "nae/gate/image"].map(|topic| broker.listen(topic));
    let (then, all) = (normal.len(), normal.then(strange));
    let end = all.len();
    let camera = Camera::start(all);
    camera.play(0..then);

    // The service starts without a model.
    let path = |name: &str| place.path(name).display().to_string();
    let (source, address) = (format!("rtsp://{}/live", camera.place()), format!("mqtts://localhost:{}", broker.port()));
    let files = ["ours.pem", "password", "service.pem", "service.key"].map(path);
    let arguments = [
        ["--source", &source, "--camera-name", "gate"],
        ["--mqtt", &address, "--mqtt-home-assistant", "homeassistant"],
        ["--mqtt-ca-file", &files[0], "--mqtt-user", "me"],
        ["--mqtt-password-file", &files[1], "--mqtt-certificate-file", &files[2]],
        ["--mqtt-key-file", &files[3], "--nae-train", trainer.to_str().unwrap()],
        // So few frames allow a threshold for a false-positive rate of 10% on average, of more than 20% for some models: 3 of 5
        // frames above it are no rare event.
        ["--alarm-raise", "12", "--alarm-window", "12"],
    ];
    let service = Service::without_model(&place.state(), &arguments.concat()).unwrap();
    assert!(service.started.contains("no model yet"), "{}", service.started);
    let mut page = Browser::open(&service.url("/")).unwrap();
    page.wait_text("alarm", "no model yet");
    page.wait_text("source", "camera connected");
    page.wait_text("frame", "frame ");

    // Frames are collected, and learned. Neighbours are alike, and all are wanted here.
    page.click("#to-learn");
    page.value("document.getElementById('learn-distance').value = 0");
    page.value("document.getElementById('learn-budget').value = 0.75");
    page.click("[data-action=collect]");
    eventually("there are frames", || status(&service)["kept"].as_u64() >= Some(frames));
    page.click("[data-action=stop]");
    page.wait_text("learn-phase", "Frames are collected.");
    page.click("[data-action=train]");
    let begin = Instant::now();
    while phase(&service) != "trained" {
        assert!(begin.elapsed().as_secs() < 600 && status(&service)["note"].is_null(), "{}", status(&service));
        std::thread::sleep(Duration::from_millis(200));
    }

    // The model is tried on what the camera sees, and used.
    page.click("#learn-shadow");
    eventually("it scores", || status(&service)["shadow"]["frames"].as_u64() > Some(5));
    page.click("[data-action=swap]");
    page.wait_text("learn-phase", "The new model is in use.");
    let scored = || service.metric("nae_frames_total{camera=\"gate\",origin=\"Source\"}");
    eventually("frames are scored", || scored() > 20.0);
    page.wait_text("alarm", "Normal");
    assert!(alarms.is_quiet(Duration::ZERO), "nothing is strange yet");

    // The camera sees something else: the alarm is at the broker, with its picture.
    camera.play(then..end);
    let alarm = alarms.wait("an alarm", |_| true).json();
    let model = status(&service)["model"].clone();
    assert_eq!((&alarm["number"], &alarm["camera"], &alarm["model"]), (&json!(0), &json!("gate"), &model), "{alarm}");
    let learned = place.state().join(format!("learn/models/{}.model", model.as_str().unwrap()));
    let threshold = Detector::open(learned).unwrap().threshold();
    // What the frames' energies are is the video's codec's to say.
    assert_eq!(Some(number(&alarm["threshold"])), threshold, "{alarm}");
    assert!(Some(number(&alarm["energy"])) > threshold, "{alarm}");
    let is_jpeg = |bytes: &[u8]| bytes.starts_with(&[0xFF, 0xD8, 0xFF]);
    assert!(is_jpeg(&pictures.wait("its picture", |_| true).payload));
    let picture = service.get(alarm["picture"].as_str().unwrap());
    assert!(picture.status == 200 && is_jpeg(&picture.body), "{alarm}");
    eventually("the page has it", || page.value("document.querySelectorAll('#alarms img[src]').length") == 2);
}

/// With the script in place of `nae-train`, which gives a model of digits.
#[test]
fn from_a_camera_and_nothing_else_to_an_alarm_at_a_broker() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    trainer_with_model(&place);
    let pictures = ["six", "checkerboard"].map(|name| video("H264", name, 64));
    walk(&place, pictures, 10, &place.path("trainer"));
}

/// With the real one: handwritten digits are what is normal, and their negatives are not.
#[test]
fn the_same_with_what_nae_train_has_learned_of_the_stream() {
    let Some(trainer) = real_trainer().filter(|_| can_run()) else { return };
    let place = Place::new();
    let pixels: [fn(u8) -> u8; 2] = [|value| 15 * value, |value| 240 - 15 * value];
    let pictures = pixels.map(|pixel| Pictures::images("H264", &digits(0, 100, pixel), 32));
    walk(&place, pictures, 150, &trainer);
}
