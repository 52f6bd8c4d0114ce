//! Regions: what of a frame a camera's model sees, by the settings and by HTTP; what hides a part from it hides it from scoring and
//! learning alike, and from nobody who looks.

use std::io::{BufRead as _, BufReader, Cursor, Write as _};
use std::net::TcpStream;

use image::{DynamicImage, GrayImage, ImageFormat, Luma, imageops};
use serde_json::{Value, json};

use crate::alarms::start;
use crate::browser::Browser;
use crate::harness::{Answer, PATIENCE, Place, Service, eventually, model, picture};
use crate::learn::{act, trainer_with_model};

/// The left half of a picture.
const LEFT: &str = r#"{"kind": "include", "vertices": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]}"#;
/// Its right quarter.
const RIGHT: &str = r#"{"kind": "ignore", "name": "road", "vertices": [[0.75, 0], [1, 0], [1, 1], [0.75, 1]]}"#;

fn list(regions: &[&str]) -> String {
    format!(r#"{{"regions": [{}]}}"#, regions.join(", "))
}

fn set(service: &Service, regions: &[&str]) -> Value {
    let answer = service.change("/api/regions", &list(regions));
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

fn six() -> GrayImage {
    image::load_from_memory(&picture("six")).unwrap().to_luma8()
}

fn png(picture: &GrayImage) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::from(picture.clone()).write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// The six, and on its right as much again, of this grey.
fn beside(level: u8) -> GrayImage {
    let six = six();
    let mut frame = GrayImage::from_pixel(2 * six.width(), six.height(), Luma([level]));
    imageops::replace(&mut frame, &six, 0, 0);
    frame
}

/// The six with a white square, whose left upper corner is at these shares of it.
fn with_blob(x: f64, y: f64) -> GrayImage {
    let mut frame = six();
    let at = |share: f64, side: u32| (share * f64::from(side)) as u32;
    let (left, top) = (at(x, frame.width()), at(y, frame.height()));
    let side = frame.width() / 4;
    for (x, y) in (left..left + side).flat_map(|x| (top..top + side).map(move |y| (x, y))) {
        frame.put_pixel(x, y, Luma([255]));
    }
    frame
}

/// A frame comes, is scored, and is the one that is shown.
fn show(service: &Service, place: &Place, name: &str, frame: &[u8]) {
    let name = format!("{name}.png");
    place.frame(&name, frame);
    eventually("the frame is scored", || service.get("/api/state").json()["latest"]["name"] == name);
}

/// The energy, as it is written.
fn energy(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()["energy"].to_string()
}

#[test]
fn a_blob_in_an_ignored_region_raises_no_alarm_and_outside_of_it_does() {
    let place = Place::new();
    let service = start(&place, &["--queue", "100"]);
    let in_use = set(&service, &[RIGHT]);
    // The model has not learned from frames with a grey edge: their energies are made the normal ones.
    (0..50).for_each(|number| place.frame(&format!("a{number:02}.png"), &png(&six())));
    eventually("the frames are scored", || service.get("/api/state").json()["latest"]["number"] == 50);
    assert_eq!(service.change("/api/recalibrate", r#"{"from": 600}"#).status, 200);
    assert_eq!(service.get("/api/state").json()["alarm"], false);
    let raised = service.metric("nae_alarms_total");

    for (number, y) in [0.0, 0.2, 0.4, 0.6, 0.75].into_iter().enumerate() {
        show(&service, &place, &format!("b{number}"), &png(&with_blob(0.75, y)));
        let latest = service.get("/api/state").json()["latest"].clone();
        assert_eq!(latest["anomaly"], false, "{latest}");
    }
    assert_eq!(service.metric("nae_alarms_total"), raised);
    let last = png(&with_blob(0.0, 0.0));
    for name in ["c1", "c2"] {
        show(&service, &place, name, &last);
    }
    eventually("the alarm is raised", || service.metric("nae_alarms_total") > raised);

    // The picture is the whole frame as it came; the heat map fits it, and the alarm says which regions it is of.
    let alarm = service.get("/api/alarms").json()[0].clone();
    assert_eq!(alarm["regions"], in_use["digest"]);
    assert_eq!(service.get(&format!("/api/alarms/{}/image", alarm["number"])).body, last);
    set(&service, &[]);
    assert_eq!(service.get("/api/state").json()["alarm"], false, "other regions start over");
}

/// The model sees the same: nothing starts over, and whoever shows the names is told of the new ones.
#[test]
fn another_name_of_a_region_clears_no_alarm() {
    let place = Place::new();
    let service = start(&place, &["--queue", "100"]);
    set(&service, &[RIGHT]);
    for name in ["a1", "a2"] {
        show(&service, &place, name, &png(&with_blob(0.0, 0.0)));
    }
    eventually("the alarm is raised", || service.metric("nae_alarms_total") == 1.0);
    let events = service.events();
    let next = || loop {
        let event = events.recv_timeout(PATIENCE).unwrap();
        if event["event"] == "regions" {
            return event;
        }
    };
    let digest = service.get("/api/regions").json()["digest"].clone();
    let renamed = set(&service, &[&RIGHT.replace("road", "street")]);
    assert_eq!(next(), json!({"camera": "camera", "event": "regions", "alarm": true}));
    assert_eq!((&renamed["digest"], &renamed["regions"][0]["name"]), (&digest, &json!("street")));
    let state = service.get("/api/state").json();
    assert_eq!((&state["alarm"], service.metric("nae_alarm")), (&json!(true), 1.0));
    set(&service, &[LEFT]);
    assert_eq!(next(), json!({"camera": "camera", "event": "regions", "alarm": false}));
    assert_eq!(service.get("/api/state").json()["alarm"], false);
}

#[test]
fn what_is_not_seen_changes_no_energy() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--regions", &format!("[{LEFT}]")]);
    let score = |frame: &GrayImage, query: &str| service.post(&format!("/score{query}"), &png(frame));
    let six = service.post("/score", &picture("six"));
    for level in [0, 1, 127, 255] {
        let seen = energy(&score(&beside(level), "?regions=true"));
        assert_eq!(seen, energy(&six), "the half that is seen is the six, to the bit");
    }
    assert_ne!(energy(&score(&beside(0), "")), energy(&score(&beside(255), "")), "images are scored whole otherwise");
    assert_eq!(energy(&score(&beside(0), "?regions=false")), energy(&score(&beside(0), "")));
    let (status, said) = score(&beside(0), "?regions=yes").problem();
    assert!(status == 400 && said.starts_with("`regions`: expected `true`"), "{status} {said}");
    // Where the energy lies is told of the whole image.
    let mut checkers = image::load_from_memory(&picture("checkerboard")).unwrap().to_luma8();
    checkers = imageops::resize(&checkers, 28, 28, imageops::FilterType::Nearest);
    let mut frame = GrayImage::new(56, 28);
    imageops::replace(&mut frame, &checkers, 0, 0);
    let found = score(&frame, "?regions=true").json();
    let right = |region: &Value| region["left"].as_f64().unwrap() + region["width"].as_f64().unwrap();
    let regions = found["regions"].as_array().unwrap();
    assert!(!regions.is_empty() && regions.iter().all(|region| right(region) <= 0.501), "{found}");
    let map = service.post("/score/heat-map?regions=true", &png(&frame));
    let map = image::load_from_memory(&map.body).unwrap().to_rgba8();
    assert_eq!(map.dimensions(), (56, 28));
    assert!(map.enumerate_pixels().all(|(x, _, pixel)| x < 28 || pixel[3] == 0), "clear where nothing is seen");
    assert!(map.pixels().any(|pixel| pixel[3] > 0));
}

#[test]
fn what_was_set_is_kept_over_a_kill_and_goes_over_the_settings() {
    let place = Place::new();
    let settings = |regions: &str| {
        format!(
            "model = \"{}\"\nsource = \"{}\"\n[[regions]]\nkind = \"include\"\nname = \"{regions}\"\nvertices = [[0, 0], [1, 0], [1, 0.5]]\n",
            model().display(),
            place.source()
        )
    };
    let start = |regions: &str| Service::with_cameras(&place, &settings(regions), &[]).unwrap();
    let regions = |service: &Service| service.get("/api/regions").json();
    let service = start("upper");
    let first = regions(&service);
    assert_eq!(
        (&first["from"], &first["regions"]),
        (
            &json!("settings"),
            &json!([{"kind": "include", "name": "upper", "vertices": [[0.0, 0.0], [1.0, 0.0], [1.0, 0.5]]}])
        )
    );
    assert_eq!(first["warning"], Value::Null);
    let events = service.events();
    let changed = set(&service, &[LEFT, RIGHT]);
    assert_eq!((&changed["from"], changed["regions"].as_array().unwrap().len()), (&json!("kept"), 2));
    let warning = changed["warning"].as_str().unwrap();
    assert!(warning.contains("learn again"), "{warning}");
    service.wait_log("learn again");
    let told = |event: Value| event == json!({"camera": "camera", "event": "regions", "alarm": false});
    eventually("pages are told", || events.try_iter().any(told));
    service.kill();

    let service = start("another");
    assert!(service.started.contains("whatever the settings say"), "{}", service.started);
    assert!(service.started.contains("learn again"), "{}", service.started);
    assert_eq!(regions(&service), changed);
    show(&service, &place, "a", &png(&beside(255)));
    let state = service.get("/api/state").json();
    assert_eq!(state["latest"]["anomaly"], false, "the left half is a six: {state}");
    // None at all is something that was set, too.
    let none = set(&service, &[]);
    assert_eq!((&none["from"], &none["regions"]), (&json!("kept"), &json!([])));
    service.kill();
    let service = start("another");
    assert_eq!(regions(&service), none);
    let back = service.change("/api/regions/reset", "{}").json();
    assert_eq!((&back["from"], &back["regions"][0]["name"]), (&json!("settings"), &json!("another")));
    assert_eq!(back["warning"], Value::Null, "as it was when the model came: {back}");
    service.kill();
    let service = start("third");
    assert_eq!(regions(&service)["regions"][0]["name"], "third");
    service.kill();
    std::fs::write(place.state().join("regions.json"), "garbage").unwrap();
    let service = start("fourth");
    assert!(service.started.contains("the regions that were set are not known"), "{}", service.started);
    assert_eq!(regions(&service)["regions"][0]["name"], "fourth");
    let wrong = settings("x").replace("[1, 0.5]", "[1, 1.5]");
    let error = Service::with_cameras(&place, &wrong, &[]).err().unwrap();
    assert!(error.contains("`regions`: region 1 (`x`): vertex 3: expected two numbers from 0 to 1"), "{error}");
}

#[test]
fn each_of_several_cameras_has_its_own() {
    let place = Place::new();
    let camera = |name: &str, regions: &str| {
        std::fs::create_dir(place.path(name)).unwrap();
        format!("[[camera]]\nname = \"{name}\"\nsource = \"folder:{}\"\n{regions}\n", place.path(name).display())
    };
    let settings = format!(
        "model = \"{}\"\nregions = '[{RIGHT}]'\n{}{}",
        model().display(),
        camera("gate", &format!("regions = '[{LEFT}]'")),
        camera("yard", "")
    );
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    let regions = |name: &str| service.get(&format!("/api/cameras/{name}/regions")).json();
    assert_eq!(
        (&regions("gate")["regions"][0]["kind"], &regions("yard")["regions"][0]["name"]),
        (&json!("include"), &json!("road"))
    );
    assert_eq!(service.change("/api/cameras/yard/regions", &list(&[])).status, 200);
    assert_eq!((regions("gate")["regions"].as_array().unwrap().len(), &regions("yard")["regions"]), (1, &json!([])));
    assert!(
        place.state().join("cameras/yard/regions.json").exists()
            && !place.state().join("cameras/gate/regions.json").exists()
    );
    let (status, said) = service.get("/api/regions").problem();
    assert!(status == 404 && said.contains("/api/cameras/CAMERA/regions"), "{status} {said}");
}

#[test]
fn who_may_only_look_changes_no_regions_and_nor_do_other_sites() {
    let place = Place::new();
    let files = ["token", "look-token"].map(|name| {
        std::fs::write(place.path(name), name).unwrap();
        place.path(name).display().to_string()
    });
    let service = Service::start(&place.state(), &["--token-file", &files[0], "--look-token-file", &files[1]]);
    let post = |path: &str, token: &str, kind: &str| {
        let body = if path.ends_with("reset") { "{}".to_owned() } else { list(&[LEFT]) };
        service
            .post_with(path, body.as_bytes(), &[("authorization", &format!("Bearer {token}")), ("content-type", kind)])
            .status
    };
    for path in ["/api/regions", "/api/regions/reset", "/api/cameras/camera/regions"] {
        assert_eq!(post(path, "look-token", "application/json"), 403, "{path}");
        assert_eq!(post(path, "none", "application/json"), 401, "{path}");
        // What a form of another site can send.
        assert_eq!(post(path, "token", "text/plain"), 415, "{path}");
    }
    let look = || service.get_with("/api/regions", &[("authorization", "Bearer look-token")]).json();
    assert_eq!(look()["regions"], json!([]));
    assert_eq!(post("/api/regions", "token", "application/json"), 200);
    assert_eq!(look()["regions"].as_array().unwrap().len(), 1);
    drop(service);
    let service = Service::start(&place.path("other"), &[]);
    let foreign = [("content-type", "application/json"), ("origin", "http://evil.example")];
    assert_eq!(service.post_with("/api/regions", list(&[LEFT]).as_bytes(), &foreign).status, 403);
}

#[test]
fn hostile_lists_are_refused_and_change_nothing() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let before = set(&service, &[LEFT]);
    let of = |vertices: &str| list(&[&format!(r#"{{"kind": "ignore", "vertices": {vertices}}}"#)]);
    let many = |count: usize| of(&format!("[{}]", vec!["[0.5, 0.5]"; count].join(",")));
    for (body, status, part) in [
        (many(5000), 400, "region 1: expected 3 to 64 vertices, found 5000"),
        (of("[[0, 0], [1e999, 0], [1, 1]]"), 400, "number out of range"),
        (of("[[0, 0], [1e308, 0], [1, 1]]"), 400, "vertex 2: expected two numbers from 0 to 1"),
        (of("[[0, 0], [NaN, 0], [1, 1]]"), 400, "expected value"),
        (of("[[0, 0], [null, 0], [1, 1]]"), 400, "null"),
        (of("[[0, 0], [1, 1], [1, 0], [0, 1]]"), 400, "cross or touch"),
        (of(&format!("{}{}", "[".repeat(30_000), "]".repeat(30_000))), 400, ""),
        (format!("{}{}", "[".repeat(60_000), "]".repeat(60_000)), 400, ""),
        (r#"{"regions": null}"#.to_owned(), 400, "null"),
        (r#"{"regions": [], "more": 1}"#.to_owned(), 400, "unknown field `more`"),
        (list(&[LEFT; 33]), 400, "expected at most 32 regions, found 33"),
        (String::new(), 400, ""),
    ] {
        let (found, said) = service.change("/api/regions", &body).problem();
        assert!(found == status && said.contains(part), "{found} {said}, expected {status} {part}");
    }
    // It is not waited for the rest, nor is it read.
    let large = many(1_000_000);
    let mut client = TcpStream::connect(&service.address).unwrap();
    let head = "POST /api/regions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    write!(client, "{head}\r\nContent-Length: {}\r\n\r\n{}", large.len(), &large[..1000]).unwrap();
    let mut answer = String::new();
    BufReader::new(&client).read_line(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(service.get("/api/regions").json(), before);
    // As many as there may be.
    let star: Vec<String> = (0..64)
        .map(|i| {
            let (sin, cos) = (f64::from(i) / 64.0 * std::f64::consts::TAU).sin_cos();
            format!("[{:.17}, {:.17}]", 0.5 + 0.4 * cos, 0.5 + 0.4 * sin)
        })
        .collect();
    let region = format!(r#"{{"kind": "ignore", "vertices": [{}]}}"#, star.join(","));
    assert_eq!(set(&service, &vec![region.as_str(); 32])["regions"].as_array().unwrap().len(), 32);
    service.kill();
    let service = Service::start(&place.state(), &[]);
    assert_eq!(service.get("/api/regions").json()["regions"].as_array().unwrap().len(), 32);
}

#[test]
fn a_frame_of_another_size_is_seen_by_the_same_shares_and_one_of_which_nothing_is_left_is_said() {
    let place = Place::new();
    let service = start(&place, &[]);
    set(&service, &[r#"{"kind": "include", "vertices": [[0, 0], [0.05, 0], [0.05, 0.05], [0, 0.05]]}"#]);
    let events = service.events();
    // Of 8 × 8 pixels no centre is in a twentieth.
    place.frame("a.png", &png(&GrayImage::new(8, 8)));
    let mut said = String::new();
    eventually("it is said", || {
        let reason =
            |event: Value| (event["event"] == "unreadable").then(|| event["reason"].as_str().unwrap().to_owned());
        said = events.try_iter().find_map(reason).unwrap_or_default();
        !said.is_empty()
    });
    assert!(said.starts_with("the regions leave no pixel of a frame of 8×8: make"), "{said}");
    let answer = service.post("/score?regions=true", &png(&GrayImage::new(8, 8)));
    assert_eq!((answer.status, answer.problem().1), (422, said));
    show(&service, &place, "b", &png(&GrayImage::new(100, 100)));
    assert_eq!(service.get("/api/state").json()["latest"]["name"], "b.png");
    set(&service, &[LEFT]);
    let large = imageops::resize(&beside(255), 560, 560, imageops::FilterType::Nearest);
    let energies = [beside(9), large].map(|frame| energy(&service.post("/score?regions=true", &png(&frame))));
    let [first, second] = energies.map(|energy| energy.parse::<f64>().unwrap());
    assert!((first - second).abs() < 0.5 * first, "{first} {second}");
}

/// The frames to learn from are what the model will see, and all of one kind.
#[test]
fn frames_are_collected_as_the_model_sees_them() {
    let place = Place::new();
    let service = start(&place, &["--queue", "100"]);
    set(&service, &[LEFT]);
    act(&service, "collect", r#"{"min_distance": 1}"#);
    let (status, said) = service.change("/api/regions", &list(&[RIGHT])).problem();
    assert!(status == 409 && said.contains("/api/learn/stop"), "{status} {said}");
    let seen = || service.get("/api/learn").json()["seen"].as_u64().unwrap();
    for (number, level) in [(1, 0), (2, 255), (3, 90)] {
        place.frame(&format!("a{number}.png"), &png(&beside(level)));
        eventually("it is looked at", || seen() >= number);
    }
    act(&service, "stop", "{}");
    assert_eq!(service.get("/api/learn").json()["kept"], 1, "they differ in what is not seen only");
    let kept = service.get("/api/learn/frames/1/image");
    assert_eq!((kept.status, kept.kind.as_str()), (200, "image/png"));
    assert_eq!(image::load_from_memory(&kept.body).unwrap().to_luma8(), six());
    // With others, frames of both kinds would be taught to one model.
    set(&service, &[RIGHT]);
    let (status, said) = service.change("/api/learn/collect", "{}").problem();
    assert!(status == 409 && said.contains("collected by other regions: delete them"), "{status} {said}");
    service.kill();
    let service = start(&place, &["--queue", "100"]);
    assert_eq!(service.change("/api/learn/collect", "{}").status, 409, "also after a kill");
    act(&service, "delete", "{}");
    act(&service, "collect", r#"{"min_distance": 0}"#);
    place.frame("b.png", &png(&beside(200)));
    let mut expected = beside(200);
    let (width, height) = expected.dimensions();
    (width * 3 / 4..width).for_each(|x| (0..height).for_each(|y| expected.put_pixel(x, y, Luma([128]))));
    // Those of before may come first.
    eventually("it is kept", || {
        let last = service.get("/api/learn").json()["kept"].as_u64().unwrap();
        let kept = service.get(&format!("/api/learn/frames/{last}/image"));
        kept.status == 200 && image::load_from_memory(&kept.body).unwrap().to_luma8() == expected
    });
    act(&service, "stop", "{}");
}

/// What a model was learned with is known, so that it is said when it sees other pictures.
#[test]
fn a_model_that_was_learned_with_other_regions_is_said_to_be() {
    let place = Place::new();
    trainer_with_model(&place);
    let program = place.path("trainer").display().to_string();
    let service = start(&place, &["--queue", "100", "--nae-train", &program]);
    let warning = |service: &Service| service.get("/api/regions").json()["warning"].clone();
    assert!(!set(&service, &[LEFT])["warning"].is_null(), "the model of the settings knows whole frames");
    act(&service, "collect", r#"{"min_distance": 0}"#);
    place.frame("a.png", &png(&beside(0)));
    eventually("it is kept", || service.get("/api/learn").json()["kept"] == 1);
    act(&service, "stop", "{}");
    act(&service, "train", r#"{"minutes": 1}"#);
    eventually("it has trained", || service.get("/api/learn").json()["phase"] == "trained");
    // Beside the one in use it sees the same.
    act(&service, "shadow", "{}");
    show(&service, &place, "b", &png(&beside(255)));
    eventually("it has scored it", || service.get("/api/learn").json()["shadow"]["frames"] == 1);
    let shadow = service.get("/api/learn/energies").json()[0]["energy"].as_f64().unwrap();
    let alone = |service: &Service| energy(&service.post("/score", &picture("six"))).parse::<f64>().unwrap();
    let scored = |service: &Service| service.get("/api/learn").json()["shadow"]["frames"].clone();
    set(&service, &[&LEFT.replace("\"kind\"", "\"name\": \"lane\", \"kind\"")]);
    assert_eq!(scored(&service), 1, "it sees the same");
    set(&service, &[RIGHT]);
    assert_eq!((scored(&service), service.get("/api/learn/energies").json()), (json!(0), json!([])), "it starts over");
    act(&service, "swap", r#"{"anyway": true}"#);
    assert!((shadow - alone(&service)).abs() < 1e-6 * shadow, "{shadow}, of the six alone {}", alone(&service));
    assert!(!warning(&service).is_null(), "the new one has learned with others");
    act(&service, "delete", "{}");
    assert!(!warning(&service).is_null(), "also where the frames are gone");
    assert_eq!(set(&service, &[LEFT])["warning"], Value::Null, "with these it has learned");
    assert!(!set(&service, &[RIGHT])["warning"].is_null());
    service.kill();
    let service = start(&place, &["--queue", "100", "--nae-train", &program]);
    assert!(service.started.contains("learn again"), "{}", service.started);
    assert_eq!(set(&service, &[LEFT])["warning"], Value::Null);
    act(&service, "roll-back", "{}");
    assert!(!warning(&service).is_null(), "the one before does not know them");
}

/// What was normal by what was seen is not called an anomaly because of what was not.
#[test]
fn a_model_is_tried_on_frames_as_it_will_see_them() {
    let place = Place::new();
    let service = start(&place, &["--queue", "100"]);
    set(&service, &[LEFT]);
    (0..10).for_each(|number| place.frame(&format!("a{number}.png"), &png(&beside(255))));
    eventually("the frames are scored", || service.get("/api/state").json()["latest"]["number"] == 10);
    assert_eq!(service.get("/api/what-if?false_positive_rate=0.01").json()["anomalies"], 0);
    let whole = service.post("/score", &png(&beside(255))).json();
    assert_eq!(whole["verdict"], "anomaly", "{whole}");
    let answer = service.change("/api/reload", "{}");
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
}

/// Vertices of the only region, as the service has them.
fn vertices(service: &Service) -> Vec<[f64; 2]> {
    let found = service.get("/api/regions").json();
    let [region] = found["regions"].as_array().unwrap().as_slice() else { panic!("not one region in {found}") };
    let vertex = |vertex: &Value| [0, 1].map(|axis| vertex[axis].as_f64().unwrap());
    region["vertices"].as_array().unwrap().iter().map(vertex).collect()
}

/// To a pixel or so of the page.
fn assert_near(found: &[[f64; 2]], expected: &[[f64; 2]]) {
    let near = |(a, b): (&[f64; 2], &[f64; 2])| (0..2).all(|axis| (a[axis] - b[axis]).abs() < 0.02);
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?}, expected {expected:?}");
}

/// By the mouse, the finger and the keyboard, as people do.
#[test]
fn regions_are_drawn_on_the_page() {
    let place = Place::new();
    let service = start(&place, &[]);
    show(&service, &place, "a", &png(&six()));
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    eventually("the frame is there", || page.value("document.getElementById('image')?.naturalWidth") == 16);
    let count = |page: &mut Browser, selector: &str| {
        page.value(&format!("document.querySelectorAll('{selector}').length")).as_u64().unwrap()
    };
    page.click("#regions-edit");
    let at = |page: &mut Browser, [x, y]: [f64; 2]| {
        let [left, top, width, height] = page.place("#outlines");
        (left + x * width, top + y * height)
    };
    let corners = [[0.5, 0.1], [0.9, 0.1], [0.9, 0.8], [0.5, 0.8]];
    for corner in &corners[..3] {
        let corner = at(&mut page, *corner);
        page.click_at(corner, 1);
    }
    assert_eq!((count(&mut page, "#outlines polyline"), count(&mut page, ".handle")), (1, 3));
    // The last is by a double click, which closes the polygon.
    let last = at(&mut page, corners[3]);
    page.click_at(last, 2);
    assert_eq!((count(&mut page, "#outlines polygon.ignore"), count(&mut page, "#regions-list li")), (1, 1));
    // A vertex is dragged, and another moved by a finger.
    let [from, to] = [corners[0], [0.3, 0.2]].map(|corner| at(&mut page, corner));
    page.drag(from, to);
    let [from, to] = [corners[1], [0.7, 0.3]].map(|corner| at(&mut page, corner));
    page.touch(from, to);
    page.value("document.querySelector('#regions-list input').value = 'door'");
    page.value("document.querySelector('#regions-list input').dispatchEvent(new Event('input'))");
    assert_eq!(service.get("/api/regions").json()["regions"], json!([]), "nothing is set before it is saved");
    page.click("#regions-save");
    eventually("it is saved", || service.get("/api/regions").json()["regions"].as_array().unwrap().len() == 1);
    let drawn = service.get("/api/regions").json();
    assert_eq!((&drawn["regions"][0]["kind"], &drawn["regions"][0]["name"]), (&json!("ignore"), &json!("door")));
    assert_near(&vertices(&service), &[[0.3, 0.2], [0.7, 0.3], [0.9, 0.8], [0.5, 0.8]]);
    page.wait_text("regions-warning", "learn again");
    eventually("the editor is closed", || count(&mut page, ".handle") == 0);
    assert_eq!(count(&mut page, "#outlines polygon"), 1);

    // By the keyboard: a vertex less, another to the left; Escape ends what was begun.
    page.click("#regions-edit");
    page.click("#regions-list button");
    assert_eq!(page.value("document.activeElement.ariaLabel"), "Move region 1", "the keyboard stays where it was");
    page.value("document.querySelectorAll('.handle')[3].focus()");
    page.key("Delete");
    assert_eq!(count(&mut page, ".handle"), 3);
    page.value("document.querySelectorAll('.handle')[2].focus()");
    (0..50).for_each(|_| page.key("ArrowLeft"));
    let begun = at(&mut page, [0.1, 0.9]);
    page.click_at(begun, 1);
    assert_eq!(count(&mut page, "#outlines polyline"), 1);
    page.key("Escape");
    assert_eq!(count(&mut page, "#outlines polyline"), 0);
    page.value("document.getElementById('regions-save').focus()");
    page.key("Enter");
    eventually("it is saved", || vertices(&service).len() == 3);
    assert_near(&vertices(&service), &[[0.3, 0.2], [0.7, 0.3], [0.8, 0.8]]);

    // What cannot be is said, and stays to be mended; a click on the first vertex closes.
    page.click("#regions-edit");
    page.click("#regions-list button:last-child");
    for corner in [[0.1, 0.1], [0.9, 0.9], [0.9, 0.1], [0.1, 0.9], [0.1, 0.1]] {
        let corner = at(&mut page, corner);
        page.click_at(corner, 1);
    }
    assert_eq!(count(&mut page, "#outlines polygon"), 1);
    page.click("#regions-save");
    page.wait_text("regions-problem", "region 1: its edges from vertex 1 to 2 and from 3 to 4 cross or touch");
    assert_eq!((count(&mut page, "#outlines polygon"), vertices(&service).len()), (1, 3));
    page.click("#regions-cancel");
    // Somebody else changes them.
    set(&service, &[LEFT, RIGHT]);
    eventually("the page follows", || count(&mut page, "#outlines polygon") == 2);
    page.click("#regions-edit");
    page.click("#regions-reset");
    eventually("as in the settings", || service.get("/api/regions").json()["from"] == "settings");
    eventually("there are none", || count(&mut page, "#outlines polygon") == 0);
    // For whoever has the keyboard only.
    page.click("#regions-edit");
    page.value("document.getElementById('regions-kind').value = 'include'");
    page.value("document.getElementById('regions-kind').dispatchEvent(new Event('change'))");
    page.click("#regions-rectangle");
    assert_eq!(page.value("document.activeElement.className"), "handle");
    page.click("#regions-save");
    eventually("it is saved", || service.get("/api/regions").json()["regions"][0]["kind"] == "include");
    assert_near(&vertices(&service), &[[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]]);
}

#[test]
fn who_may_only_look_sees_outlines_and_no_buttons() {
    let place = Place::new();
    let files = ["token", "look-token"].map(|name| {
        std::fs::write(place.path(name), name).unwrap();
        place.path(name).display().to_string()
    });
    let regions = format!("[{LEFT}]");
    let arguments = ["--token-file", &files[0], "--look-token-file", &files[1], "--regions", &regions];
    let service = Service::start(
        &place.state(),
        &[&arguments[..], &["--source", &place.source(), "--alarm-raise", "1", "--alarm-clear", "0"]].concat(),
    );
    place.frame("a.png", &png(&imageops::flip_horizontal(&beside(255))));
    eventually("an alarm is raised", || service.metric("nae_alarms_total") == 1.0);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let visible =
        "[...document.querySelectorAll('#regions-edit, #regions-editor button')].filter(b => b.offsetParent).length";
    for (token, count) in [("look-token", 0), ("token", 1)] {
        eventually("the page is there", || page.value("location.pathname") == "/");
        page.value(&format!("sessionStorage.setItem('token', '{token}'); window.before = true; location.reload();"));
        let another = "document.readyState === 'complete' && window.before === undefined";
        eventually("another page is there", || page.value(another) == true);
        let drawn = "document.querySelectorAll('#outlines polygon.include, #alarms .outlines polygon.include').length";
        eventually("it has the outlines, the alarm's picture, too", || page.value(drawn) == 2);
        assert_eq!(page.value(visible), count, "{token}");
    }
}
