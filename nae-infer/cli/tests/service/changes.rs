//! Threshold, calibration and model, changed while the service runs.

use std::path::PathBuf;

use nae_core::calibration::Calibration;
use nae_core::contract::Contract;
use nae_infer::Shape;
use nae_onnx::builder::{Conv2d, GraphBuilder};
use nae_onnx::metadata::ModelMetadata;
use nae_onnx::proto::{ModelProto, StringStringEntryProto};
use prost::Message;
use serde_json::json;

use crate::alarms::scored;
use crate::cameras::slow_model;
use crate::harness::{Place, Service, eventually, model, picture};

/// The digits model, calibrated as if all energies were far lower: to it, every frame is strange.
pub(crate) fn suspicious() -> Vec<u8> {
    let mut proto = ModelProto::decode(std::fs::read(model()).unwrap().as_slice()).unwrap();
    let entries = proto.metadata_props.iter().map(|e| (e.key.as_deref().unwrap(), e.value.as_deref().unwrap()));
    let mut metadata = ModelMetadata::from_entries(entries).unwrap().unwrap();
    let table: Vec<f32> = (0..200).map(|i| 1e-9 * (1.0 + i as f32)).collect();
    let calibration = Calibration::from_sorted(&table).unwrap();
    metadata.contract = metadata.contract.with_calibration(calibration, 0.01).unwrap();
    let entry = |(key, value)| StringStringEntryProto { key: Some(key), value: Some(value) };
    proto.metadata_props = metadata.to_entries().into_iter().map(entry).collect();
    proto.encode_to_vec()
}

/// A model of images of 2×2 pixels, times the largest number there is: that of black ones is their reconstruction, and that of
/// white ones is so far from them that they have no energy.
pub(crate) fn fragile() -> Vec<u8> {
    let mut graph = GraphBuilder::new("fragile");
    ModelMetadata::new(Contract::new(Shape::new(1, 2, 2))).add_to(&mut graph);
    let image = graph.image_input("image", [1, 2, 2]).unwrap();
    let times = graph.conv2d("times", image, &Conv2d::new(1, [1, 1], &[f32::MAX], None)).unwrap();
    graph.output("reconstruction", times).unwrap();
    graph.finish_bytes().unwrap()
}

/// A frame of four pixels of this level.
pub(crate) fn four_pixels(level: u8) -> Vec<u8> {
    [b"P5 2 2 255\n".as_slice(), &[level; 4]].concat()
}

/// Which model is in use.
pub(crate) fn in_use(service: &Service) -> String {
    service.get("/api/state").json()["model"].as_str().unwrap().to_owned()
}

fn threshold(service: &Service) -> f64 {
    service.get("/api/state").json()["threshold"].as_f64().unwrap()
}

#[test]
fn another_rate_is_kept_over_a_restart_and_undone() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let first = threshold(&service);
    let changed = service.change("/api/false-positive-rate", r#"{"false_positive_rate": 0.1}"#);
    assert_eq!(changed.status, 200);
    let second = threshold(&service);
    assert!(second < first, "{second} {first}");
    assert_eq!(changed.json()["threshold"].as_f64(), Some(second));
    for wrong in [r#"{"false_positive_rate": 0}"#, r#"{"false_positive_rate": 1e-9}"#] {
        assert_eq!(service.change("/api/false-positive-rate", wrong).status, 409, "{wrong}");
    }
    assert_eq!(service.change("/api/false-positive-rate", r#"{"rate": 0.1}"#).status, 400);
    service.kill();

    let service = Service::start(&place.state(), &[]);
    assert_eq!(threshold(&service), second);
    assert!(service.started.contains("whatever the settings say; /api/undo"), "{}", service.started);
    assert_eq!(service.change("/api/undo", "{}").status, 200);
    assert_eq!(threshold(&service), first);
    assert_eq!(service.change("/api/undo", "{}").problem(), (409, "there is no change to undo".into()));
    assert_eq!(service.get("/api/adjustments").json()[0]["undone"], true, "the history stays");
}

#[test]
fn normal_frames_make_a_new_threshold() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source(), "--queue", "1000"]);
    let first = threshold(&service);
    assert_eq!(service.change("/api/recalibrate", r#"{"from": 3600}"#).status, 409, "no frame yet");
    // A camera that sees something else: to the model all of it is strange.
    for i in 0..60 {
        place.frame(&format!("{i:02}.png"), &picture(if i % 2 == 0 { "checkerboard" } else { "half-three" }));
    }
    eventually("the frames are scored", || service.get("/api/state").json()["latest"]["number"] == 60);
    let what_if = |rate: f64| service.get(&format!("/api/what-if?false_positive_rate={rate}")).json();
    assert_eq!(what_if(0.01)["anomalies"], what_if(0.01)["frames"]);
    assert_eq!(what_if(0.01)["alarms"], 1);
    assert_eq!(service.change("/api/recalibrate", r#"{"from": 0, "to": 5}"#).status, 400);
    let recalibrate = || {
        let changed = service.change("/api/recalibrate", r#"{"from": 3600}"#);
        assert_eq!(changed.status, 200);
        changed.json()["false_positive_rate"].as_f64().unwrap()
    };
    // Sixty frames give no threshold for one in a hundred. The rate that they give is not the one that was asked for.
    assert!((recalibrate() - 1.01 / 61.0).abs() < 1e-6);
    let second = threshold(&service);
    assert!(second > first);
    let answer = service.post("/score", &picture("checkerboard")).json();
    assert_eq!(answer["verdict"], "normal");
    assert_eq!(service.get("/api/state").json()["alarm"], false);
    for i in 60..120 {
        place.frame(&format!("{i:03}.png"), &picture(if i % 2 == 0 { "checkerboard" } else { "half-three" }));
    }
    eventually("the frames are scored", || service.get("/api/state").json()["latest"]["number"] == 120);
    assert!((recalibrate() - 0.01).abs() < 1e-6);
    assert_eq!(service.change("/api/undo", "{}").status, 200);
    assert_eq!(service.change("/api/undo", "{}").status, 200);
    assert_eq!(threshold(&service), first);
}

#[test]
fn a_model_is_exchanged_only_for_one_that_works() {
    let place = Place::new();
    let path = place.path("model.onnx");
    std::fs::copy(model(), &path).unwrap();
    let service = Service::try_start(&path, &place.state(), &["--source", &place.source(), "--queue", "100"]).unwrap();
    let first = in_use(&service);
    for i in 0..20 {
        place.frame(&format!("{i:02}.png"), &picture("six"));
    }
    eventually("the frames are scored", || service.get("/api/state").json()["latest"]["number"] == 20);

    std::fs::write(&path, b"garbage").unwrap();
    let (status, reason) = service.change("/api/reload", "{}").problem();
    assert!(status == 409 && reason.contains("model.onnx"), "{status} {reason}");
    service.signal("HUP");
    service.wait_log("the model was not exchanged");
    std::fs::write(&path, suspicious()).unwrap();
    let (status, reason) = service.change("/api/reload", "{}").problem();
    assert!(status == 409 && reason.contains("the old one stays"), "{status} {reason}");
    assert_eq!(in_use(&service), first);
    assert_eq!(service.post("/score", &picture("six")).json()["verdict"], "normal");

    // The same network, lowered: works, and takes over.
    std::fs::copy(model().with_file_name("digits.nae"), &path).unwrap();
    assert_eq!(service.change("/api/reload", "{}").status, 200);
    let second = in_use(&service);
    assert_ne!(second, first);
    assert_eq!(service.post("/score", &picture("six")).json()["verdict"], "normal");
    service.kill();

    // Spoilt while the service is down: the copy of the last good one serves.
    std::fs::write(&path, b"garbage").unwrap();
    let service = Service::try_start(&path, &place.state(), &[]).unwrap();
    assert_eq!(in_use(&service), second);
    let scored = service.post("/score", &picture("six"));
    assert_eq!((scored.status, &scored.json()["verdict"]), (200, &json!("normal")));
}

/// The service of a camera, with a copy of the model for its file.
fn with_a_copy(place: &Place, more: &[&str]) -> (Service, PathBuf) {
    let path = place.path("model.onnx");
    std::fs::copy(model(), &path).unwrap();
    let source = place.source();
    let arguments = [&["--source", &source, "--queue", "1000"], more].concat();
    (Service::try_start(&path, &place.state(), &arguments).unwrap(), path)
}

/// After a hundred frames that it could score, a failure is the frame's.
#[test]
fn a_model_that_fails_within_a_hundred_frames_gives_way_to_the_one_before() {
    let place = Place::new();
    let (service, path) = with_a_copy(&place, &[]);
    let first = in_use(&service);
    std::fs::write(&path, fragile()).unwrap();
    for (failed, good, stays) in [(1.0, 99, false), (2.0, 100, true)] {
        assert_eq!(service.change("/api/reload", "{}").status, 200);
        let second = in_use(&service);
        assert_ne!(second, first);
        let before = scored(&service);
        for i in 0..good {
            place.frame(&format!("{failed}-{i:03}.pgm"), &four_pixels(0));
        }
        eventually("the frames are scored", || scored(&service) == before + f64::from(good));
        assert_eq!(in_use(&service), second);
        place.frame(&format!("{failed}-white.pgm"), &four_pixels(255));
        let failures = "nae_frame_failures_total{origin=\"Source\"}";
        eventually("it fails", || service.metric(failures) == failed);
        assert_eq!(in_use(&service), if stays { second } else { first.clone() }, "after {good} frames");
    }
    assert!(service.wait_log("the new model fails: the old one is in use again").contains("no energy"));
}

#[test]
fn a_model_that_does_not_return_gives_way_to_the_one_before() {
    let place = Place::new();
    let (service, path) = with_a_copy(&place, &["--score-timeout", "0.05"]);
    let first = in_use(&service);
    slow_model(&path);
    // To be tried on no frame takes that long, too, where the processor is not to be had.
    eventually("it is taken", || service.change("/api/reload", "{}").status == 200);
    assert_ne!(in_use(&service), first);
    place.frame("a.png", &picture("six"));
    assert!(service.wait_log("the new model fails: the old one is in use again").contains("it does not return"));
    eventually("that is done", || in_use(&service) == first);
}

/// What a request leaves behind shows by their number: ten bytes each would be found.
#[test]
fn memory_stays_where_it_is() {
    let slow = std::env::var_os("NAE_SLOW_TESTS").is_some();
    let (count, most) = if slow { (50_000, 512) } else { (2_000, 4096) };
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let run = |count| (0..count).for_each(|_| assert_eq!(service.post("/score", &picture("six")).status, 200));
    run(count / 5);
    let before = service.memory();
    run(count);
    let after = service.memory();
    println!("{count} requests: from {before} to {after} KiB");
    assert!(after < before + most, "from {before} to {after} KiB in {count} requests");
}
