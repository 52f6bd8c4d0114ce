//! Several cameras in one process: each has its own model, alarms and state, and one that fails is nothing to the others.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nae_core::contract::Contract;
use nae_infer::Shape;
use nae_onnx::builder::{Conv2d, GraphBuilder};
use nae_onnx::metadata::ModelMetadata;
use serde_json::{Value, json};

use crate::alarms::{Absent, webhook};
use crate::camera::jpeg;
use crate::harness::{PATIENCE, Place, Service, eventually, model, picture, slow_tests_are_asked_for};
use crate::mosquitto::{Broker, Message, mosquitto};

/// The beginning of a file of settings: the digits model for all.
pub(crate) fn for_all(more: &str) -> String {
    format!("model = \"{}\"\n{more}\n", model().display())
}

pub(crate) fn camera(name: &str, settings: &str) -> String {
    format!("[[camera]]\nname = \"{name}\"\n{settings}\n")
}

/// Cameras with a folder of frames each.
fn with_folders(place: &Place, names: &[&str]) -> String {
    let folder = |name: &&str| {
        std::fs::create_dir_all(place.path(name)).unwrap();
        camera(name, &format!("source = \"folder:{}\"", place.path(name).display()))
    };
    names.iter().map(folder).collect()
}

/// A frame comes to a camera with a folder, whole at once.
pub(crate) fn frame(place: &Place, camera: &str, name: &str, bytes: &[u8]) {
    let hidden = place.path(camera).join(format!(".{name}"));
    std::fs::write(&hidden, bytes).unwrap();
    std::fs::rename(hidden, place.path(camera).join(name)).unwrap();
}

/// How a camera of the network sends.
#[derive(Clone)]
struct Manner {
    image: Vec<u8>,
    pause: Duration,
    /// Frames after which it falls silent, or hangs up in the middle of one and may be asked again.
    frames: usize,
    flaps: bool,
}

/// A camera that sends Motion JPEG: its address.
fn network_camera(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, manner) = (stream.unwrap(), manner.clone());
            // The service may go away.
            thread::spawn(move || send(&mut stream, &manner).ok());
        }
    });
    format!("http://{address}/video")
}

fn send(stream: &mut TcpStream, manner: &Manner) -> std::io::Result<()> {
    let mut request = [0; 1000];
    assert!(stream.read(&mut request)? > 0);
    stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=cut\r\n\r\n")?;
    let part = |length: usize| format!("--cut\r\nContent-Length: {length}\r\n\r\n");
    let begin = Instant::now();
    for number in 0..manner.frames {
        // By the clock, so that what is late is made up for.
        thread::sleep((manner.pause * number as u32).saturating_sub(begin.elapsed()));
        stream.write_all(&[part(manner.image.len()).as_bytes(), &manner.image, b"\r\n"].concat())?;
    }
    if manner.flaps {
        stream.write_all(&[part(manner.image.len()).as_bytes(), &manner.image[..100]].concat())
    } else {
        stream.read(&mut request).map(|_| ())
    }
}

pub(crate) fn scored(service: &Service, camera: &str) -> f64 {
    service.metric(&format!("nae_frames_total{{camera=\"{camera}\",origin=\"Source\"}}"))
}

pub(crate) fn dropped(service: &Service, camera: &str) -> f64 {
    service.metric(&format!("nae_frames_dropped_total{{camera=\"{camera}\"}}"))
}

/// What `/api/cameras` says of each.
fn listed(service: &Service) -> BTreeMap<String, Value> {
    let all = service.get("/api/cameras").json();
    let named = |camera: &Value| (camera["name"].as_str().unwrap().to_owned(), camera.clone());
    all.as_array().unwrap().iter().map(named).collect()
}

#[test]
fn of_eight_cameras_of_which_four_flap_the_others_lose_no_frame() {
    const FRAMES: usize = 100;
    const STEADY: [&str; 4] = ["a", "c", "e", "g"];
    const FLAPPING: [&str; 4] = ["b", "d", "f", "h"];
    let place = Place::new();
    let image = |name| if name == "c" { "half-three" } else { "six" };
    let steady =
        |name| Manner { image: jpeg(image(name)), pause: Duration::from_millis(50), frames: FRAMES, flaps: false };
    let flapping = |frames| Manner { image: jpeg("six"), pause: Duration::from_millis(10), frames, flaps: true };
    // A queue that a busy machine does not fill.
    let mut settings = for_all("queue = 40");
    let manners = STEADY.map(|name| (name, steady(name))).into_iter();
    // Two break off after three frames, two after one.
    for (name, manner) in manners.chain(FLAPPING.into_iter().zip([3, 1, 3, 1].map(flapping))) {
        settings += &camera(name, &format!("source = \"{}\"", network_camera(manner)));
    }
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    let mut lost = BTreeMap::new();
    eventually("all steady frames are scored", || {
        let listed = listed(&service);
        for name in FLAPPING {
            *lost.entry(name).or_insert(0) += usize::from(listed[name]["source_state"] == "lost");
        }
        STEADY.iter().all(|name| scored(&service, name) + dropped(&service, name) >= FRAMES as f64)
    });
    for name in STEADY {
        assert_eq!((scored(&service, name), dropped(&service, name)), (FRAMES as f64, 0.0), "{name}");
        assert_eq!(service.get(&format!("/api/cameras/{name}/latest/image")).body, jpeg(image(name)), "{name}");
        let (listed, anomaly) = (&listed(&service)[name], image(name) != "six");
        assert_eq!((&listed["anomaly"], &listed["alarm"]), (&json!(anomaly), &json!(anomaly)), "{name}");
        assert_eq!(listed["source_state"], "connected", "{name}");
    }
    assert!(lost.values().all(|times| *times > 0), "they flapped: {lost:?}");
    // Again and again, as often as the pauses between attempts allow.
    for (name, least) in FLAPPING.into_iter().zip([9.0, 3.0, 9.0, 3.0]) {
        assert!(scored(&service, name) >= least, "{name}: {}", scored(&service, name));
    }
    assert_eq!(service.get("/readyz").status, 200, "a camera that is lost is not the service's end");
}

/// A model that takes a good part of a second for an image.
pub(crate) fn slow_model(path: &Path) {
    const SIDE: usize = 384;
    const CHANNELS: usize = 32;
    let mut graph = GraphBuilder::new("slow");
    ModelMetadata::new(Contract::new(Shape::new(1, SIDE, SIDE))).add_to(&mut graph);
    let mut value = graph.image_input("image", [1, SIDE, SIDE]).unwrap();
    let widths = [1].into_iter().chain([CHANNELS; 12]).chain([1]).collect::<Vec<_>>();
    for (layer, pair) in widths.windows(2).enumerate() {
        let weight = vec![0.01; pair[0] * pair[1] * 9];
        let conv = Conv2d { padding: [1; 4], ..Conv2d::new(pair[1], [3, 3], &weight, None) };
        value = graph.conv2d(&format!("conv{layer}"), value, &conv).unwrap();
    }
    graph.output("reconstruction", value).unwrap();
    std::fs::write(path, graph.finish_bytes().unwrap()).unwrap();
}

/// To the camera whose time limit it exceeds with every frame, the model is one that hangs.
#[test]
fn a_camera_whose_model_hangs_or_fails_does_not_stop_another() {
    let place = Place::new();
    slow_model(&place.path("slow.onnx"));
    let quick = Manner { image: jpeg("six"), pause: Duration::from_millis(100), frames: 100, flaps: false };
    let broken = Manner { image: jpeg("six")[..200].to_vec(), ..quick.clone() };
    let slow = format!("model = \"{}\"\nscore_timeout = 0.05\n", place.path("slow.onnx").display());
    let settings = for_all("queue = 40")
        + &camera("slow", &format!("{slow}source = \"{}\"", network_camera(quick.clone())))
        + &camera("broken", &format!("source = \"{}\"", network_camera(broken)))
        + &camera("quick", &format!("source = \"{}\"", network_camera(quick)));
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    eventually("the slow model is given up", || listed(&service)["slow"]["scoring"] == false);
    eventually("all frames of the quick one are scored", || {
        scored(&service, "quick") + dropped(&service, "quick") >= 100.0
    });
    assert_eq!((scored(&service, "quick"), dropped(&service, "quick")), (100.0, 0.0));
    assert_eq!((scored(&service, "slow"), scored(&service, "broken")), (0.0, 0.0));
    assert!(service.metric("nae_frame_failures_total{camera=\"broken\",origin=\"Source\"}") > 0.0);
    // Four for each of two threads, and the one that was too many.
    assert_eq!(service.metric("nae_backend_threads_lost{camera=\"slow\"}"), 9.0);
    assert_eq!(service.metric("nae_backend_threads_lost{camera=\"quick\"}"), 0.0);
    assert_eq!(["slow", "quick"].map(|name| service.metric(&format!("nae_scoring{{camera=\"{name}\"}}"))), [0.0, 1.0]);
    let (status, said) = service.post("/score?camera=slow", &picture("six")).problem();
    assert!(status == 503 && said.contains("given up"), "{status} {said}");
    assert_eq!(service.post("/score?camera=quick", &picture("six")).status, 200);
    assert_eq!((service.get("/readyz").status, service.get("/v2/models/slow/ready").status), (200, 503));

    // Another model in its file is tried.
    std::fs::copy(model(), place.path("slow.onnx")).unwrap();
    assert_eq!(service.change("/api/cameras/slow/reload", "{}").status, 200);
    assert_eq!(service.post("/score?camera=slow", &picture("six")).status, 200);
    assert_eq!(listed(&service)["slow"]["scoring"], true);
}

/// Frames as fast as they can be read and requests of which some always wait, and five frames a second.
#[test]
fn a_camera_of_many_frames_leaves_time_for_one_of_few() {
    const IMAGES: usize = 256;
    let place = Place::new();
    let many = Manner { image: jpeg("six"), pause: Duration::ZERO, frames: 1_000_000, flaps: false };
    let few = Manner { image: jpeg("zero"), pause: Duration::from_millis(200), frames: 25, flaps: false };
    let settings = for_all("queue = 10")
        + &camera("many", &format!("source = \"{}\"", network_camera(many)))
        + &camera("few", &format!("source = \"{}\"", network_camera(few)));
    let service = Service::with_cameras(&place, &settings, &["--threads", "1"]).unwrap();
    let size = IMAGES * 256;
    let tensor = json!({"name": "image", "shape": [IMAGES, 1, 16, 16], "datatype": "UINT8", "parameters": {"binary_data_size": size}});
    let text = json!({"inputs": [tensor], "outputs": [{"name": "energy"}]}).to_string();
    let length = text.len().to_string();
    let body = [text.as_bytes(), &vec![0; size]].concat();
    let (stop, url) = (AtomicBool::new(false), service.url("/v2/models/many/infer"));
    let answered = thread::scope(|scope| {
        let client = || {
            let mut answered = 0;
            while !stop.load(Ordering::Relaxed) {
                let request = ureq::post(&url).header("Inference-Header-Content-Length", &length);
                assert_eq!(request.send(&body).unwrap().status(), 200);
                answered += 1;
            }
            answered
        };
        // As many as there is room for in a lane.
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(client)).collect();
        eventually("the few are scored", || scored(&service, "few") + dropped(&service, "few") >= 25.0);
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
    });
    assert_eq!((scored(&service, "few"), dropped(&service, "few")), (25.0, 0.0));
    // Its own frames wait behind its own requests.
    assert!(scored(&service, "many") > 0.0 && answered > 0, "{answered}");
}

#[test]
fn addresses_name_the_camera_or_say_that_they_have_to() {
    let place = Place::new();
    let settings = for_all("") + &with_folders(&place, &["gate", "yard"]);
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    let events = service.events();
    frame(&place, "gate", "a.png", &picture("six"));
    frame(&place, "yard", "b.png", &picture("checkerboard"));
    let mut told = BTreeMap::new();
    while told.len() < 2 {
        let event = events.recv_timeout(PATIENCE).unwrap();
        if event["event"] == "frame" {
            told.insert(event["camera"].as_str().unwrap().to_owned(), event["name"].as_str().unwrap().to_owned());
        }
    }
    let expected = [("gate", "a.png"), ("yard", "b.png")].map(|(camera, name)| (camera.to_owned(), name.to_owned()));
    assert_eq!(told, BTreeMap::from(expected));

    for (path, status, said) in [
        (
            "/api/state",
            404,
            "there are 2 cameras: ask for /api/cameras/CAMERA/state, where CAMERA is one of gate, yard",
        ),
        ("/api/alarms/0/image", 404, "/api/cameras/CAMERA/alarms/0/image"),
        ("/api/cameras/shed/state", 404, "there is no camera of this name; there are gate, yard"),
        ("/api/cameras/..%2fgate/state", 404, "there is no camera of this name"),
        ("/api/cameras/gate/nothing", 404, "there is nothing here"),
        ("/events?camera=shed", 404, "there is no camera of this name"),
        ("/v2/models/digits", 404, "models are called as their cameras: gate, yard"),
    ] {
        let (found, text) = service.get(path).problem();
        assert!(found == status && text.contains(said), "{path}: {found} {text}");
    }
    for (path, status) in [("/score", 400), ("/score?camera=shed", 404), ("/score/heat-map", 400)] {
        let (found, text) = service.post(path, &picture("six")).problem();
        assert!(found == status && text.contains("gate, yard"), "{path}: {found} {text}");
    }
    let (status, text) = service.change("/api/reload", "{}").problem();
    assert!(status == 404 && text.contains("/api/cameras/CAMERA/reload"), "{status} {text}");

    // Of each its own.
    assert_eq!(service.camera("gate")["latest"]["name"], "a.png");
    assert_eq!(service.camera("yard")["latest"]["name"], "b.png");
    let listed = listed(&service);
    assert_eq!((&listed["gate"]["anomaly"], &listed["yard"]["anomaly"]), (&json!(false), &json!(true)));
    assert_eq!((&listed["gate"]["number"], &listed["gate"]["dropped"]), (&json!(1), &json!(0)));
    assert!((0.0..60.0).contains(&listed["gate"]["age"].as_f64().unwrap()), "{}", listed["gate"]);
    assert_eq!(service.get("/api/cameras/gate/latest/heat-map").kind, "image/png");
    assert_eq!(service.get("/api/cameras/gate/latest/thumbnail").body, picture("six"), "it is small");
    assert_eq!(service.get("/api/cameras/yard/history?seconds=60").json().as_array().unwrap().len(), 1);
    let rate = r#"{"false_positive_rate": 0.1}"#;
    assert_eq!(service.change("/api/cameras/gate/false-positive-rate", rate).status, 200);
    let threshold = |name: &str| service.camera(name)["threshold"].as_f64().unwrap();
    assert!(threshold("gate") < threshold("yard"));
    assert_eq!(service.post("/score?camera=yard", &picture("six")).json()["threshold"], threshold("yard"));
    assert_eq!(service.post("/score?camera=gate", &picture("six")).json()["threshold"], threshold("gate"));
    assert_eq!(service.get("/v2/models/gate").json()["name"], "gate");
    let tensor =
        json!({"inputs": [{"name": "image", "shape": [1, 1, 16, 16], "datatype": "FP32", "data": vec![0.5; 256]}]});
    let answer = service.post("/v2/models/yard/infer", tensor.to_string().as_bytes()).json();
    assert_eq!(answer["model_name"], "yard");
    assert_eq!(service.metric("nae_frames_total{camera=\"yard\",origin=\"Request\"}"), 2.0);

    let one = service.events_of("/events?camera=yard");
    frame(&place, "gate", "c.png", &picture("six"));
    eventually("it is scored", || scored(&service, "gate") == 2.0);
    frame(&place, "yard", "d.png", &picture("six"));
    assert_eq!(one.recv_timeout(PATIENCE).unwrap()["name"], "d.png", "and not c.png");
}

/// The only camera has its name, too.
#[test]
fn the_only_camera_is_found_by_its_name_and_without() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--camera-name", "gate", "--source", &place.source()]);
    place.frame("a.png", &picture("six"));
    eventually("it is scored", || scored(&service, "gate") == 1.0);
    assert_eq!(service.get("/api/cameras/gate/state").json(), service.get("/api/state").json());
    assert_eq!(
        service.post("/score?camera=gate", &picture("six")).json(),
        service.post("/score", &picture("six")).json()
    );
    assert_eq!(service.get("/v2/models/gate").status, 200);
    assert_eq!(service.get("/v2/models/digits").status, 200);
    assert!(place.state().join("alarms.journal").exists() && !place.state().join("cameras").exists());

    // One of the settings file is the only one, too, and has its own folder.
    let place = Place::new();
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0") + &with_folders(&place, &["gate"]);
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    frame(&place, "gate", "a.png", &picture("checkerboard"));
    eventually("its alarm is raised", || service.get("/api/alarms").json()[0]["camera"] == "gate");
    assert_eq!(service.get("/api/state").json()["name"], "gate");
    assert_eq!(service.get("/api/alarms").json()[0]["picture"], "/api/cameras/gate/alarms/0/image");
    assert_eq!(service.post("/score", &picture("six")).status, 200);
    assert_eq!(service.get("/v2/models/digits").status, 200);
    assert!(
        place.state().join("cameras/gate/alarms.journal").exists() && !place.state().join("alarms.journal").exists()
    );
}

#[test]
fn figures_say_of_which_camera_they_are() {
    let place = Place::new();
    let log = place.path("alarms.jsonl");
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0") + &with_folders(&place, &["gate", "yard"]);
    let service = Service::with_cameras(&place, &settings, &["--alarm-log", log.to_str().unwrap()]).unwrap();
    frame(&place, "gate", "a.png", &picture("checkerboard"));
    eventually("its alarm is in the file", || {
        service.metric(&format!("nae_alarms_waiting{{camera=\"gate\",receiver=\"file {}\"}}", log.display())) == 0.0
            && service.metric("nae_alarms_total{camera=\"gate\"}") == 1.0
            && std::fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n'))
    });
    assert_eq!(service.metric("nae_alarms_total{camera=\"yard\"}"), 0.0);
    let text = String::from_utf8(service.get("/metrics").body).unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let labelled = line.contains("camera=\"gate\"") || line.contains("camera=\"yard\"");
        let of_service = [
            "nae_requests_total",
            "nae_history_writing",
            "nae_history_bytes",
            "nae_limited_total",
            "nae_wrong_tokens_total",
            "nae_tls_",
        ];
        assert!(labelled || of_service.iter().any(|name| line.starts_with(name)), "{line}");
    }
    // One description for each, as the format asks for.
    let mut described: Vec<&str> = text.lines().filter(|line| line.starts_with("# HELP")).collect();
    let all = described.len();
    described.dedup();
    assert_eq!(described.len(), all);
    let alarm: Value = serde_json::from_str(std::fs::read_to_string(&log).unwrap().trim()).unwrap();
    assert!(alarm["id"].as_str().unwrap().starts_with("gate-"), "{alarm}");
    assert_eq!((&alarm["camera"], &alarm["picture"]), (&json!("gate"), &json!("/api/cameras/gate/alarms/0/image")));
    assert_eq!(service.get(alarm["picture"].as_str().unwrap()).body, picture("checkerboard"));
}

/// Alarms are raised while nobody takes them, the service is killed, and all arrive after the next start.
#[test]
fn alarms_of_each_camera_arrive_once_after_a_kill() {
    const NAMES: [&str; 3] = ["gate", "yard", "shed"];
    let place = Place::new();
    let receiver = Absent::new();
    let address = receiver.address();
    let url = format!("http://{address}/alarm");
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0\nalarm_window = 1") + &with_folders(&place, &NAMES);
    let start = || Service::with_cameras(&place, &settings, &["--webhook", &url]).unwrap();
    let raise = |service: &Service, camera: &str, name: &str, count: usize| {
        for i in 0..count {
            for image in ["checkerboard", "six"] {
                let before = scored(service, camera);
                frame(&place, camera, &format!("{name}-{i}-{image}.png"), &picture(image));
                eventually("the frame is scored", || scored(service, camera) > before);
            }
        }
    };
    let service = start();
    for (camera, count) in NAMES.into_iter().zip([3, 1, 2]) {
        raise(&service, camera, "before", count);
    }
    service.kill();
    for name in NAMES {
        std::fs::remove_dir_all(place.path(name)).unwrap();
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let service = start();
    let received = webhook(receiver.appear());
    raise(&service, "yard", "after", 1);
    let mut got: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut ids = Vec::new();
    for _ in 0..7 {
        let alarm = received.recv_timeout(3 * PATIENCE).expect("an alarm");
        got.entry(alarm["camera"].as_str().unwrap().to_owned()).or_default().push(alarm["number"].as_u64().unwrap());
        ids.push(alarm["id"].to_string());
    }
    let expected = [("gate", vec![0, 1, 2]), ("shed", vec![0, 1]), ("yard", vec![0, 1])];
    assert_eq!(got, expected.map(|(camera, numbers)| (camera.to_owned(), numbers)).into(), "in order, of each camera");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 7);
    for name in NAMES {
        eventually("all are acknowledged", || {
            let label = format!("camera=\"{name}\",receiver=\"webhook http://{address}\"");
            service.metric(&format!("nae_alarms_waiting{{{label}}}")) == 0.0
        });
        assert!(place.state().join("cameras").join(name).join("alarms.journal").exists());
    }
    service.kill();
    for name in NAMES {
        std::fs::remove_dir_all(place.path(name)).unwrap();
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let service = start();
    assert!(received.recv_timeout(Duration::from_secs(2)).is_err(), "once each, also after another start");
    assert_eq!(service.get("/api/cameras/gate/alarms").json().as_array().unwrap().len(), 3);
}

#[test]
fn no_alarm_of_any_camera_is_lost_over_many_kills() {
    if !slow_tests_are_asked_for() {
        return;
    }
    const NAMES: [&str; 2] = ["gate", "yard"];
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/alarm", listener.local_addr().unwrap());
    let received = webhook(listener);
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0\nalarm_window = 1") + &with_folders(&place, &NAMES);
    let start = || Service::with_cameras(&place, &settings, &["--webhook", &url]).unwrap();
    let fill = |round: u64, count: usize| {
        for i in 0..count {
            for (name, image) in NAMES.iter().flat_map(|name| [(name, "checkerboard"), (name, "six")]) {
                frame(&place, name, &format!("{round:02}-{i}-{image}.png"), &picture(image));
            }
        }
    };
    for round in 0..10 {
        let service = start();
        fill(round, 4);
        thread::sleep(Duration::from_millis(47 * round % 400));
        service.kill();
        for name in NAMES {
            std::fs::remove_dir_all(place.path(name)).unwrap();
            std::fs::create_dir(place.path(name)).unwrap();
        }
    }
    let service = start();
    fill(99, 1);
    let last = |name: &str| {
        let alarms = service.get(&format!("/api/cameras/{name}/alarms")).json();
        alarms[0]["number"].as_u64().filter(|_| alarms[0]["frame"] == "99-0-checkerboard.png")
    };
    eventually("each has raised its last", || NAMES.iter().all(|name| last(name).is_some()));
    let mut got: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let has_all = |got: &BTreeMap<String, Vec<u64>>| {
        NAMES.iter().all(|name| got.get(*name).is_some_and(|numbers| numbers.last() == last(name).as_ref()))
    };
    while !has_all(&got) {
        let alarm = received.recv_timeout(3 * PATIENCE).expect("an alarm");
        got.entry(alarm["camera"].as_str().unwrap().to_owned()).or_default().push(alarm["number"].as_u64().unwrap());
    }
    for (name, numbers) in &mut got {
        let (raised, delivered) = (last(name).unwrap() + 1, numbers.len());
        assert!(numbers.is_sorted(), "{name}: {numbers:?}");
        numbers.dedup();
        assert_eq!(*numbers, (0..raised).collect::<Vec<_>>(), "{name}");
        println!("{name}: raised {raised}, delivered {delivered}, lost 0");
    }
}

/// What an only camera left waits until it is moved, and that is said.
#[test]
fn an_only_camera_becomes_one_of_several_with_its_alarms() {
    let place = Place::new();
    let away = "http://127.0.0.1:9/alarm";
    std::fs::create_dir(place.path("gate")).unwrap();
    let source = format!("folder:{}", place.path("gate").display());
    let quick = ["--alarm-raise", "1", "--alarm-clear", "0"];
    let service = Service::start(&place.state(), &[&["--source", &source, "--webhook", away], &quick[..]].concat());
    frame(&place, "gate", "a.png", &picture("checkerboard"));
    eventually("the alarm is raised", || service.metric("nae_alarms_total") == 1.0);
    service.kill();

    std::fs::remove_file(place.path("gate/a.png")).unwrap();
    let settings = for_all("") + &with_folders(&place, &["gate", "yard"]);
    let own = place.state().join("cameras/gate");
    let service = Service::with_cameras(&place, &settings, &["--webhook", away]).unwrap();
    assert!(service.started.contains("alarms of an only camera may wait in"), "{}", service.started);
    assert_eq!(service.get("/api/cameras/gate/alarms").json(), json!([]));
    service.kill();

    std::fs::rename(place.state().join("alarms.journal"), own.join("alarms.journal")).unwrap();
    let service = Service::with_cameras(&place, &settings, &["--webhook", away]).unwrap();
    assert!(!service.started.contains("may wait in"), "{}", service.started);
    let alarms = service.get("/api/cameras/gate/alarms").json();
    assert_eq!((&alarms[0]["number"], &alarms[0]["frame"]), (&json!(0), &json!("a.png")));
    assert_eq!(service.metric("nae_alarms_waiting{camera=\"gate\",receiver=\"webhook http://127.0.0.1:9\"}"), 1.0);
}

#[test]
fn reloading_is_each_cameras_own() {
    let place = Place::new();
    for name in ["gate", "yard", "shed"] {
        std::fs::copy(model(), place.path(&format!("{name}.onnx"))).unwrap();
    }
    let own = |name: &str| camera(name, &format!("model = \"{}\"", place.path(&format!("{name}.onnx")).display()));
    let settings = ["gate", "yard", "shed"].map(own).concat();
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    let digest = |name: &str| service.camera(name)["model"].as_str().unwrap().to_owned();
    let before = digest("gate");
    std::fs::write(place.path("gate.onnx"), b"garbage").unwrap();
    for name in ["yard", "shed"] {
        std::fs::copy(model().with_file_name("digits.nae"), place.path(&format!("{name}.onnx"))).unwrap();
    }
    service.signal("HUP");
    eventually("the others are exchanged", || digest("yard") != before && digest("shed") != before);
    let line = service.wait_log("the model was not exchanged");
    assert!(line.contains("gate") && line.contains("gate.onnx"), "{line}");
    assert_eq!(digest("gate"), before);
    assert_eq!(service.post("/score?camera=gate", &picture("six")).json()["verdict"], "normal");
}

/// Each camera is told of as its own, and as gone when the process is.
#[test]
fn a_broker_retains_each_camera_and_home_assistant_finds_each() {
    let Some(program) = mosquitto() else { return };
    let place = Place::new();
    let mut broker = Broker::new(program, &place, "allow_anonymous true");
    broker.start();
    let address = format!("mqtt://127.0.0.1:{}", broker.port());
    let (received, alarms) = (broker.listen("nae/#"), broker.listen("nae/alarms"));
    let settings = for_all("alarm_raise = 1\nalarm_clear = 0\nmqtt_home_assistant = \"homeassistant\"")
        + &with_folders(&place, &["gate", "yard"])
        + &camera("shed", "source = \"http://127.0.0.1:9/video\"");
    let service = Service::with_cameras(&place, &settings, &["--mqtt", &address]).unwrap();
    let state = |camera: &'static str, field: &'static str, value: Value| {
        move |message: &Message| message.topic == format!("nae/{camera}/state") && message.json()[field] == value
    };
    received.wait("the third is lost", state("shed", "source", json!("lost")));
    for name in ["gate", "yard", "shed"] {
        eventually("it is connected", || service.metric(&format!("nae_mqtt_connected{{camera=\"{name}\"}}")) == 1.0);
    }
    frame(&place, "yard", "a.png", &picture("checkerboard"));
    received.wait("its alarm is raised", state("yard", "alarm", json!(true)));
    assert_eq!(alarms.wait("it is delivered", |_| true).json()["camera"], "yard");
    frame(&place, "gate", "b.png", &picture("checkerboard"));
    assert_eq!(alarms.wait("the next, too", |_| true).json()["camera"], "gate");
    let found = broker.listen("homeassistant/#");
    let mut devices: Vec<String> = (0..12)
        .map(|_| found.wait("an entity", |message| message.retain).json()["device"]["name"].to_string())
        .collect();
    devices.sort();
    devices.dedup();
    assert_eq!(devices, ["\"gate\"", "\"shed\"", "\"yard\""]);
    let later = broker.listen("nae/gate/state");
    assert_eq!(later.wait("it is retained", |message| message.retain).json()["source"], "connected");

    service.kill();
    let mut gone = Vec::new();
    while gone.len() < 3 {
        let offline = received.wait("each is gone", |message| message.text() == "offline");
        gone.push(offline.topic);
    }
    gone.sort();
    assert_eq!(gone, ["gate", "shed", "yard"].map(|name| format!("nae/{name}/availability")));
}

/// Exit status and what is said.
fn refused(place: &Place, settings: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let path = place.path("serve.toml");
    std::fs::write(&path, settings).unwrap();
    let said = place.path("said");
    let mut process = Command::new(env!("CARGO_BIN_EXE_nae-infer"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(path)
        .arg("--state")
        .arg(place.state())
        .args(arguments)
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let end = Instant::now() + PATIENCE;
    while process.try_wait().unwrap().is_none() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    // Where it has ended by itself this changes nothing.
    let _ = process.kill();
    (process.wait().unwrap().code(), std::fs::read_to_string(said).unwrap())
}

#[test]
fn wrong_settings_of_cameras_are_wrong_usage() {
    let place = Place::new();
    for (settings, arguments, said) in [
        (camera("gate", "") + &camera("gate", ""), [].as_slice(), "two [[camera]] have the name `gate`"),
        (camera("gate", "sorce = \"none\""), &[], "camera `gate`: there is no setting `sorce` of a camera"),
        (camera("a/b", ""), &[], "`name`: expected 1 to 64 of letters"),
        (camera("..", ""), &[], "`name`: expected 1 to 64 of letters"),
        (camera("gate", "") + &camera("yard", ""), &["--source", "none"], "flag --source: `source` is a camera's own"),
        (camera("gate", "queue = 0") + &camera("yard", "max_fps = 0"), &[], "2 settings are wrong"),
    ] {
        let (code, text) = refused(&place, &(for_all("") + &settings), arguments);
        assert!(code == Some(2) && text.contains(said) && text.contains("serve.toml"), "{code:?} {text}");
        assert!(!place.state().exists(), "nothing is begun");
    }
}

#[test]
fn a_camera_without_a_model_that_can_be_read_is_named_at_the_start() {
    let place = Place::new();
    std::fs::write(place.path("garbage.onnx"), b"garbage").unwrap();
    let with = |name: &str, file: &str| camera(name, &format!("model = \"{}\"", place.path(file).display()));
    let settings = for_all("") + &camera("gate", "") + &with("yard", "none.onnx") + &with("shed", "garbage.onnx");
    let (code, text) = refused(&place, &settings, &[]);
    assert_eq!(code, Some(1), "{text}");
    for part in ["camera `yard`: ", "none.onnx", "camera `shed`: ", "garbage.onnx"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("camera `gate`: "), "{text}");
}
