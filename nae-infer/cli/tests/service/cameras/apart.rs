//! A camera that flaps, hangs, fails or has too many frames takes nothing from another.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nae_core::contract::Contract;
use nae_infer::Shape;
use nae_onnx::builder::{Conv2d, GraphBuilder};
use nae_onnx::metadata::ModelMetadata;
use serde_json::json;

use super::{camera, dropped, for_all, listed, scored};
use crate::camera::jpeg;
use crate::harness::{Place, Service, eventually, model, picture};

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
