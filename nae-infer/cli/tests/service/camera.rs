//! Sources: a folder, a camera that goes away and comes back, damaged frames, standard input.

use std::io::{Cursor, Read, Write};
use std::net::TcpListener;
use std::thread;

use nae_infer::image::{ImageFormat, load_from_memory};
use serde_json::json;

use crate::harness::{PATIENCE, Place, Service, eventually, picture};

pub(crate) fn jpeg(name: &str) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    load_from_memory(&picture(name)).unwrap().write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
    bytes.into_inner()
}

#[test]
fn a_folder_is_watched_and_its_frames_are_shown() {
    let place = Place::new();
    place.frame("a.png", &picture("six"));
    let service = Service::start(&place.state(), &["--source", &place.source()]);
    eventually("the frame is scored", || service.get("/api/state").json()["latest"]["number"] == 1);
    place.frame("b.pgm", b"P5 8 8 255\n0123456789012345678901234567890123456789012345678901234567890123");
    place.frame("damaged.png", &picture("six")[..50]);
    place.frame("c.png", &picture("zero"));
    eventually("the others too", || service.get("/api/state").json()["latest"]["number"] == 3);
    let image = service.get("/api/latest/image");
    assert_eq!((image.kind.as_str(), image.body), ("image/png", picture("zero")));
    assert_eq!(service.get("/api/latest/heat-map").kind, "image/png");
    let history = service.get("/api/history?seconds=60").json();
    assert!((1..=3).contains(&history.as_array().unwrap().len()), "{history}");
    assert_eq!(service.metric("nae_frame_failures_total{origin=\"Source\"}"), 1.0);
    let state = service.get("/api/state").json();
    assert_eq!((&state["source_state"], &state["alarm"]), (&json!("connected"), &json!(false)));
}

/// It is not decoded, which could take more memory than there is.
#[test]
fn a_frame_of_too_many_pixels_is_passed_over_with_the_reason() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source(), "--max-megapixels", "1"]);
    let frame = |side: usize| [format!("P5 {side} 1000 255\n").as_bytes(), &vec![9; 1000 * side]].concat();
    place.frame("a.pgm", &frame(1001));
    let line = service.wait_log("a frame was not scored");
    assert!(line.contains("at most 1 million pixels") && line.contains("1001×1000"), "{line}");
    place.frame("b.pgm", &frame(1000));
    eventually("the next is scored", || service.get("/api/state").json()["latest"]["name"] == "b.pgm");
    assert_eq!(service.metric("nae_frame_failures_total{origin=\"Source\"}"), 1.0);
}

/// A camera of 25 frames a second would otherwise fill the disk.
#[test]
fn many_frames_that_cannot_be_scored_are_one_line_of_the_log() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source()]);
    for number in 100..150 {
        place.frame(&format!("{number}.png"), b"no image");
    }
    place.frame("good.png", &picture("six"));
    eventually("the last is scored", || service.get("/api/state").json()["latest"]["name"] == "good.png");
    assert_eq!(service.metric("nae_frame_failures_total{origin=\"Source\"}"), 50.0);
    service.change("/api/pause", "{}");
    let (lines, _) = service.log_until("no alarms are raised");
    let of_frames = lines.iter().filter(|line| line.contains("not scored"));
    assert_eq!(of_frames.count(), 1, "{lines:#?}");
}

#[test]
fn a_camera_that_goes_away_is_shown_as_lost_and_found_again() {
    let camera = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = camera.local_addr().unwrap();
    // Each time it is asked it sends three frames, of which one is cut short, and hangs up.
    thread::spawn(move || {
        for stream in camera.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1000];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream
                .write_all(b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=cut\r\n\r\n")
                .unwrap();
            for frame in [jpeg("six"), jpeg("six")[..200].to_vec(), jpeg("zero")] {
                stream.write_all(format!("--cut\r\nContent-Length: {}\r\n\r\n", frame.len()).as_bytes()).unwrap();
                stream.write_all(&frame).unwrap();
                stream.write_all(b"\r\n").unwrap();
            }
        }
    });
    let place = Place::new();
    let source = format!("http://{address}/video");
    let service = Service::start(&place.state(), &["--source", &source, "--queue", "100"]);
    let line = service.wait_log("the source is lost");
    assert!(line.contains("the camera ended its stream"), "{line}");
    eventually("frames of the second connection", || service.metric("nae_frames_total{origin=\"Source\"}") >= 4.0);
    assert!(service.metric("nae_frame_failures_total{origin=\"Source\"}") >= 2.0, "the frames cut short");
    assert_eq!(service.get("/readyz").status, 200);
}

#[test]
fn a_camera_that_is_not_there_is_no_reason_not_to_start() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", "http://127.0.0.1:9/video"]);
    eventually("it is shown as lost", || service.get("/api/state").json()["source_state"] == "lost");
    assert!(service.get("/api/state").json()["source_reason"].as_str().unwrap().contains("127.0.0.1:9"));
    assert_eq!(service.metric("nae_source_up"), 0.0);
    assert_eq!(service.post("/score", &picture("six")).status, 200);
}

/// It is tried again all the time.
#[test]
fn a_camera_that_stays_away_is_one_line_of_the_log() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", "http://127.0.0.1:9/video"]);
    let events = service.events();
    for _ in 0..3 {
        while events.recv_timeout(PATIENCE).unwrap()["state"] != "lost" {}
    }
    service.change("/api/pause", "{}");
    let (lines, _) = service.log_until("no alarms are raised");
    let lost = lines.iter().chain([&service.started]).map(|lines| lines.matches("the source is lost").count());
    assert_eq!(lost.sum::<usize>(), 1, "{}{lines:#?}", service.started);
}

/// Images one after the other, with what `ffmpeg` may put between them, each scored as a request's is.
#[test]
fn images_on_standard_input_are_scored_in_order_and_told_as_events() {
    let place = Place::new();
    let mut service = Service::start(&place.state(), &["--source", "-", "--alarm-raise", "1", "--alarm-clear", "0"]);
    let mut input = service.stdin();
    let events = service.events();
    let threshold = service.get("/api/state").json()["threshold"].as_f64().unwrap();
    let next = |kind: &str| loop {
        let event = events.recv_timeout(PATIENCE).unwrap();
        if event["event"] == kind {
            return event;
        }
    };
    for (number, name) in (1..).zip(["six", "half-three", "zero"]) {
        let image = jpeg(name);
        // Half of it, and the rest: an image is whole only with its end.
        let (first, rest) = image.split_at(image.len() / 2);
        input.write_all(first).unwrap();
        input.flush().unwrap();
        input.write_all(rest).unwrap();
        input.flush().unwrap();
        let frame = next("frame");
        let scored = service.post("/score", &image).json();
        let anomaly = name == "half-three";
        assert_eq!(frame["energy"], scored["energy"], "{name}");
        assert_eq!(frame["p_value"], scored["p_value"], "{name}");
        assert_eq!((&frame["number"], &frame["anomaly"]), (&json!(number), &json!(anomaly)), "{name}");
        assert_eq!((&frame["threshold"], &frame["name"]), (&json!(threshold), &json!(null)), "{name}");
        assert_eq!((&frame["alarm"], &frame["drift"]), (&json!(number > 1), &json!("steady")), "{name}");
        if anomaly {
            // The alarm's number, not the frame's: it is the first.
            assert_eq!(next("alarm"), json!({"camera": "camera", "event": "alarm", "number": 0}));
        }
        assert_eq!(service.get("/api/latest/image").body, image, "{name}");
    }
    drop(input);
    let ended = next("source");
    assert_eq!((&ended["state"], &ended["reason"]), (&json!("ended"), &json!(null)));
    assert_eq!(service.get("/api/state").json()["latest"]["number"], 3, "what came is still shown");
}

/// A pipe whose writer hangs does not end.
#[test]
fn standard_input_that_falls_silent_is_lost_and_found_again() {
    let place = Place::new();
    let mut service = Service::start(&place.state(), &["--source", "-", "--source-timeout", "0.5"]);
    let mut input = service.stdin();
    let state = || service.get("/api/state").json()["source_state"].clone();
    input.write_all(&jpeg("six")).unwrap();
    eventually("it is connected", || state() == "connected");
    let line = service.wait_log("the source is lost");
    assert!(line.contains("standard input: no frame for 500ms"), "{line}");
    eventually("that is measured", || service.metric("nae_source_up") == 0.0);
    assert_eq!(state(), "lost");
    // What comes then is not lost, in one piece or in two.
    let image = jpeg("zero");
    let (first, rest) = image.split_at(image.len() / 2);
    input.write_all(&[&jpeg("six"), first].concat()).unwrap();
    service.wait_log("connected");
    input.write_all(rest).unwrap();
    eventually("all are scored", || service.metric("nae_frames_total{origin=\"Source\"}") == 3.0);
    assert_eq!(service.get("/api/latest/image").body, image);
}

/// A stream of another form looked as if nothing came.
#[test]
fn standard_input_without_jpeg_images_says_what_came() {
    let place = Place::new();
    let mut service = Service::start(&place.state(), &["--source", "-", "--source-timeout", "0.5"]);
    let mut input = service.stdin();
    input.write_all(&picture("six")).unwrap();
    let line = service.wait_log("the source is lost");
    assert!(line.contains("no frame for 500ms; ") && line.contains("bytes came without a whole JPEG image"), "{line}");
    drop(input);
    let line = service.wait_log("standard input had no image");
    assert!(line.contains("expected JPEG images, one after the other"), "{line}");
}

/// A camera that changes the form of its files would look as if it took none.
#[test]
fn a_file_whose_name_is_not_that_of_an_image_is_said_once() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source()]);
    service.wait_log("connected");
    for name in ["one.heic", "two.heic", "three.png"] {
        place.frame(name, &picture("six"));
    }
    assert!(service.wait_log("is left out").contains("one.heic"));
    eventually("the third is scored", || service.metric("nae_frames_total{origin=\"Source\"}") == 1.0);
    place.frame("four.png", b"no image");
    let (before, _) = service.log_until("four.png");
    assert!(!before.iter().any(|line| line.contains("two.heic")), "{before:?}");
}

/// The name of a file is its writer's.
#[test]
fn a_name_of_a_file_writes_no_line_of_the_log() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source()]);
    for (name, seen) in [("a\nWARN forged one.png", "forged one"), ("b\nWARN forged two.png", "forged two")] {
        if seen == "forged one" {
            std::fs::create_dir(place.path("frames/.new")).unwrap();
            std::fs::rename(place.path("frames/.new"), place.path("frames").join(name)).unwrap();
        } else {
            place.frame(name, b"no image");
        }
        let line = service.wait_log(seen);
        assert!(line.contains(&format!("\\nWARN {seen}")), "{line}");
    }
}
