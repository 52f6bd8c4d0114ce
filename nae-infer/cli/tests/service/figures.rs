//! Figures of docs/camera.md that are of a service as a whole, and that it keeps what is promised. By the program that was built with
//! the tests, or by that of `NAE_SERVED_PROGRAM`.

use std::time::{Duration, Instant};

use crate::alarms::webhook;
use crate::broker::{certificates, encrypted};
use crate::cameras::{camera, dropped, for_all, scored};
use crate::harness::{Place, Service, eventually, memory, models, picture, processor_time, slow_tests_are_asked_for};
use crate::learn::{digits, digits_where};
use crate::mosquitto::{Broker, mosquitto};
use crate::stream_camera::{Camera, Manner, Pictures};
use crate::streams::{can_run, video};

/// A number that a variable says.
fn set<T: std::str::FromStr>(variable: &str, else_: T) -> T {
    std::env::var(variable).ok().map_or(else_, |value| value.parse().ok().unwrap())
}

/// What the whole machine does, as its one-minute average.
fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap().split(' ').next().unwrap().to_owned()
}

/// Ten cameras by RTSP: eight of 5 frames a second for the digits model, two of 10 for the paper's network for 28 × 28 pixels at half
/// its width. `NAE_FIGURE_SECONDS` says for how long, `NAE_FIGURE_SIZE` how many pixels wide and high.
#[test]
fn of_ten_cameras_by_rtsp_no_frame_is_dropped() {
    if !slow_tests_are_asked_for() || !can_run() {
        return;
    }
    let (seconds, size) = (set("NAE_FIGURE_SECONDS", 20.0), set("NAE_FIGURE_SIZE", 64));
    let place = Place::new();
    let video = Pictures::images("H264", &digits(0, 100, |value| 15 * value), size);
    let (mut settings, mut cameras) = (for_all(""), Vec::new());
    for number in 0..10 {
        let (rate, network) = if number < 8 { (5, "digits") } else { (10, "mnist-ood") };
        let camera_of_it = Camera::every(Duration::from_secs(1) / rate, video.clone());
        let name = format!("{network}-{number}");
        let model = models().join(format!("../{network}/{network}.onnx"));
        let source = format!("source = \"rtsp://{}/live\"\nmodel = \"{}\"", camera_of_it.place(), model.display());
        settings += &camera(&name, &source);
        cameras.push((name, camera_of_it));
    }
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    eventually("each is watched", || cameras.iter().all(|(name, _)| scored(&service, name) >= 2.0));
    // Of H.264 `ffmpeg` gives the first seven frames at once: there is room for them, but on a busy machine not for more.
    std::thread::sleep(Duration::from_secs(2));
    let at_first: Vec<usize> = cameras.iter().map(|(name, _)| dropped(&service, name) as usize).collect();
    let programs = || service.children().into_iter().map(processor_time).sum::<Duration>();
    let (begin, own, others) = (Instant::now(), processor_time(service.id()), programs());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let gone = begin.elapsed().as_secs_f64();
    let share = |before: Duration, after: Duration| 100.0 * (after - before).as_secs_f64() / gone;
    let (own, others) = (share(own, processor_time(service.id())), share(others, programs()));
    let (load, kib) = (load(), service.children().into_iter().map(memory).sum::<u64>());
    for (_, camera) in &cameras {
        camera.be(Manner::Silent);
    }
    // What has been sent is decoded and scored.
    std::thread::sleep(Duration::from_secs(2));
    let (mut all, mut in_ffmpeg) = ([0; 3], 0);
    for ((name, camera), at_first) in cameras.iter().zip(&at_first) {
        let (sent, scored) = (camera.sent(), scored(&service, name) as usize);
        let dropped = dropped(&service, name) as usize;
        println!(
            "{name:12} {sent:6} sent {scored:6} scored {dropped:3} dropped, {at_first} of them in the first seconds"
        );
        in_ffmpeg = in_ffmpeg.max(sent.saturating_sub(scored + dropped));
        for (sum, number) in all.iter_mut().zip([sent, scored, dropped - at_first]) {
            *sum += number;
        }
        assert_eq!(camera.connections(), 1, "{name} was not lost");
    }
    let [sent, scored, dropped] = all;
    println!(
        "{gone:.0} s, {size} x {size}: {sent} sent, {scored} scored, {dropped} dropped after the first seconds; at most {in_ffmpeg} of a camera in ffmpeg still\n\
         service: {own:.1}% of a core, {:.1} MiB; its ten ffmpeg: {others:.1}% of a core, {:.0} MiB; load of the machine {load}",
        service.memory() as f64 / 1024.0,
        kib as f64 / 1024.0
    );
    assert_eq!(dropped, 0);
    // The last, which is whole when another begins.
    assert!(in_ffmpeg <= 1, "{in_ffmpeg} frames of a camera are missing");
    assert!(sent as f64 >= 0.9 * 60.0 * gone, "{sent} in {gone} s");
}

/// Median and longest.
fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    println!(
        "{what}: median {:.1?}, longest {:.1?} of {}",
        times[times.len() / 2],
        times[times.len() - 1],
        times.len()
    );
}

/// From the moment a frame is there to the moment its alarm is received: of a folder at a webhook, of a camera by RTSP at a broker with
/// TLS.
#[test]
fn an_alarm_is_received_soon_after_its_frame() {
    const TIMES: usize = 20;
    if !slow_tests_are_asked_for() {
        return;
    }
    const QUICK: [&str; 6] = ["--alarm-raise", "1", "--alarm-clear", "0", "--alarm-window", "1"];
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, source) = (format!("http://{}/alarm", listener.local_addr().unwrap()), place.source());
    let received = webhook(listener);
    let service = Service::start(&place.state(), &[&["--source", &source, "--webhook", &url], &QUICK[..]].concat());
    let mut times = Vec::new();
    for number in 0..TIMES {
        let begin = Instant::now();
        place.frame(&format!("{number:02}-a.png"), &picture("checkerboard"));
        received.recv_timeout(Duration::from_secs(10)).unwrap();
        times.push(begin.elapsed());
        place.frame(&format!("{number:02}-b.png"), &picture("six"));
        eventually("it is cleared", || service.get("/api/state").json()["alarm"] == false);
    }
    assert!(times.iter().all(|time| *time < Duration::from_secs(5)), "{times:?}");
    print("a frame of a folder to its alarm at a webhook", times);

    let Some(program) = mosquitto().filter(|_| can_run() && certificates(&place, 2)) else { return };
    let mut broker = Broker::new(program, &place, &encrypted(&place));
    broker.start();
    let alarms = broker.listen("nae/alarms");
    let normal = video("H264", "six", 64);
    let (then, all) = (normal.len(), normal.then(video("H264", "checkerboard", 64)));
    let (end, camera) = (all.len(), Camera::start(all));
    camera.play(0..then);
    let path = |name: &str| place.path(name).display().to_string();
    let (source, address) = (format!("rtsp://{}/live", camera.place()), format!("mqtts://localhost:{}", broker.port()));
    let files = ["ours.pem", "password", "service.pem", "service.key"].map(path);
    let arguments = [
        ["--source", &source, "--mqtt", &address],
        ["--mqtt-ca-file", &files[0], "--mqtt-user", "me"],
        ["--mqtt-password-file", &files[1], "--mqtt-certificate-file", &files[2]],
        ["--mqtt-key-file", &files[3], QUICK[0], QUICK[1]],
    ];
    let arguments = [&arguments.concat(), &QUICK[2..]].concat();
    let service = Service::start(&place.path("other"), &arguments);
    let is_normal = || {
        let state = service.get("/api/state").json();
        state["latest"]["anomaly"] == false && state["alarm"] == false
    };
    eventually("it is connected", || service.metric("nae_mqtt_connected") == 1.0);
    let mut times = Vec::new();
    for _ in 0..TIMES {
        eventually("normal frames come", is_normal);
        std::thread::sleep(Duration::from_millis(200));
        let begin = Instant::now();
        camera.play(then..end);
        alarms.wait("the alarm", |_| true);
        times.push(begin.elapsed());
        camera.play(0..then);
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(times.iter().all(|time| *time < Duration::from_secs(5)), "{times:?}");
    print("a picture by RTSP, up to 40 ms before it is sent, to its alarm at a broker by TLS", times);
}

/// A service that has a model and nothing to do, and how many frames a second it takes from a folder.
#[test]
fn an_idle_service_is_small_and_a_busy_one_quick() {
    const FRAMES: usize = 5000;
    if !slow_tests_are_asked_for() {
        return;
    }
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    std::thread::sleep(Duration::from_secs(5));
    let before = processor_time(service.id());
    std::thread::sleep(Duration::from_secs(10));
    let share = (processor_time(service.id()) - before).as_secs_f64() * 10.0;
    println!("idle: {:.1} MiB, {share:.1}% of a core", service.memory() as f64 / 1024.0);
    assert!(service.memory() < 64 << 10, "{} KiB", service.memory());
    drop(service);

    for (number, digit) in digits_where(|_| true, 0, 200, |value| 15 * value).iter().cycle().take(FRAMES).enumerate() {
        place.frame(&format!("{number:05}.pgm"), digit);
    }
    let begin = Instant::now();
    let service = Service::start(&place.path("other"), &["--source", &place.source()]);
    let taken = || service.metric("nae_frames_total{origin=\"Source\"}");
    eventually("all are scored", || taken() >= FRAMES as f64);
    let (seconds, processor) = (begin.elapsed().as_secs_f64(), processor_time(service.id()));
    println!(
        "{FRAMES} frames of a folder, each read, scored, shown and kept in the history, from the start on: {:.0} a second, {:.0} µs of \
         a core each; load of the machine {}",
        FRAMES as f64 / seconds,
        processor.as_secs_f64() * 1e6 / FRAMES as f64,
        load()
    );
    assert_eq!((taken(), service.metric("nae_frames_dropped_total")), (FRAMES as f64, 0.0));
}
