//! A service that starts without a model: what it says until one is learned, and that what is learned is then its own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::harness::{Answer, PATIENCE, Place, Service, eventually, model, picture};
use crate::learn::{act, other_model, phase, show, status, trainer_with_model};
use crate::mosquitto::Broker;

/// What every refusal says, and what to do.
const SAID: &str = "there is no model yet: learn one here";

/// A service that has no model, with the folder of the place as its camera and the script as its nae-train.
fn start(place: &Place, more: &[&str]) -> Service {
    let (source, trainer) = (place.source(), place.path("trainer").display().to_string());
    let arguments = ["--source", &source, "--queue", "1000", "--nae-train", &trainer];
    Service::without_model(&place.state(), &[&arguments, more].concat()).unwrap()
}

fn state(service: &Service) -> Value {
    service.get("/api/state").json()
}

fn seen(service: &Service) -> u64 {
    state(service)["latest"]["number"].as_u64().unwrap_or(0)
}

/// A frame comes, and is shown.
fn frame(service: &Service, place: &Place, name: &str, bytes: &[u8]) -> u64 {
    let before = seen(service);
    place.frame(name, bytes);
    eventually("the frame is shown", || seen(service) > before);
    before + 1
}

/// The service has trained the model that the script gives.
fn train(service: &Service, place: &Place) {
    trainer_with_model(place);
    act(service, "collect", "{}");
    show(service, place, "a", (0..6).map(|i| 40 * i));
    act(service, "stop", "{}");
    act(service, "train", r#"{"minutes": 1}"#);
    eventually("it has trained", || phase(service) == "trained");
}

#[test]
fn without_a_model_frames_are_shown_and_all_that_needs_one_says_what_to_do() {
    let place = Place::new();
    let service = start(&place, &[]);
    assert!(service.started.contains("no model yet") && service.started.contains("Learn here"), "{}", service.started);
    let mut events = service.events();
    for number in 1..=4 {
        frame(&service, &place, &format!("{number}.png"), &picture("checkerboard"));
        let mut told = events.try_iter();
        assert!(told.all(|event| event["event"] != "frame" && event["event"] != "alarm"));
    }
    let now = state(&service);
    let latest = json!({"number": 4, "energy": null, "p_value": null, "anomaly": false, "name": "4.png"});
    assert_eq!((&now["model"], &now["threshold"], &now["latest"]), (&json!(null), &json!(null), &latest));
    assert_eq!((&now["card"], &now["source_state"], &now["alarm"]), (&json!([]), &json!("connected"), &json!(false)));
    let listed = service.get("/api/cameras").json()[0].clone();
    let found = ["model", "scoring", "energy", "threshold", "number"].map(|name| listed[name].clone());
    assert_eq!(found, [json!(null), json!(false), json!(null), json!(null), json!(4)]);
    // The frame is there for people, its heat map is not.
    assert_eq!(service.get("/api/latest/image").body, picture("checkerboard"));
    assert_eq!(service.get("/api/latest/thumbnail").status, 200);
    assert_eq!(service.get("/api/latest/heat-map").status, 404);
    assert_eq!(service.get("/api/history").json(), json!([]));
    assert_eq!(service.get("/api/alarms").json(), json!([]));

    let refused = |answer: Answer, code: u16, what: &str| {
        let (found, said) = answer.problem();
        assert!(found == code && said.starts_with(SAID) && said.contains("--model FILE"), "{what}: {found} {said}");
    };
    for path in ["/score", "/score/heat-map", "/v2/models/camera/infer"] {
        refused(service.post(path, &picture("six")), 503, path);
    }
    for path in ["/v2/health/ready", "/v2/models/camera", "/v2/models/camera/ready", "/v2/models/camera/config"] {
        refused(service.get(path), 503, path);
    }
    assert_eq!(service.get("/v2/models/digits/ready").problem(), (404, "there is no model of this name".into()));
    for (path, body) in [
        ("/api/false-positive-rate", r#"{"false_positive_rate": 0.1}"#),
        ("/api/recalibrate", r#"{"from": 60}"#),
        ("/api/undo", "{}"),
        ("/api/reload", "{}"),
    ] {
        refused(service.change(path, body), 409, path);
    }
    refused(service.get("/api/what-if?false_positive_rate=0.1"), 409, "what-if");
    // Nothing is learned yet that could be used.
    assert_eq!(service.change("/api/learn/swap", "{}").status, 409);
    // What is not ready is kept from browsers by some that stand before it.
    assert_eq!(["/healthz", "/readyz", "/v2/health/live"].map(|path| service.get(path).status), [200; 3]);
    let figures = ["nae_model_in_use", "nae_scoring", "nae_source_up", "nae_alarm"];
    assert_eq!(figures.map(|name| service.metric(&format!("{name}{{camera=\"camera\"}}"))), [0.0, 0.0, 1.0, 0.0]);
    assert_eq!(service.metric("nae_frames_total{camera=\"camera\",origin=\"Source\"}"), 0.0);
    assert!(service.metric("nae_threshold{camera=\"camera\"}").is_nan());
    // Alarms can be paused, and regions set, before there is a model.
    assert_eq!(service.change("/api/pause", "{}").status, 200);
    let half = r#"{"regions": [{"kind": "ignore", "vertices": [[0.5, 0], [1, 0], [1, 1], [0.5, 1]]}]}"#;
    let set = service.change("/api/regions", half);
    assert_eq!((set.status, set.json()["warning"].clone()), (200, json!(null)));
    events = service.events();
    frame(&service, &place, "5.png", &picture("six"));
    let told = events.recv_timeout(PATIENCE).unwrap();
    assert_eq!(told, json!({"camera": "camera", "event": "unscored", "number": 5, "name": "5.png"}));
}

/// From nothing but a camera to a model that is in use, and stays so; and the way back, to none.
#[test]
fn what_is_learned_without_a_model_is_tried_alone_used_and_kept_over_a_kill() {
    let place = Place::new();
    let service = start(&place, &[]);
    train(&service, &place);
    let learned = status(&service)["model"].clone();
    // There is nothing to compare it with.
    let shadowing = act(&service, "shadow", "{}");
    assert_eq!((&shadowing["phase"], &shadowing["back_to"]), (&json!("shadowing"), &json!(null)));
    frame(&service, &place, "b.png", &picture("checkerboard"));
    eventually("it has scored it", || status(&service)["shadow"]["frames"] == 1);
    let shadow = status(&service)["shadow"].clone();
    let counts = ["compared", "before", "after", "differ"].map(|name| shadow[name].clone());
    assert_eq!(counts, [json!(0), json!(0), json!(1), json!(0)]);
    let energies = service.get("/api/learn/energies?seconds=60").json();
    assert!(energies[0]["energy"].as_f64() > shadow["threshold"].as_f64(), "{energies} {shadow}");
    assert_eq!(state(&service)["model"], json!(null), "it is tried only");
    // Nobody has called the frames before normal, so that there is nothing that it could disagree with.
    let swapped = act(&service, "swap", "{}");
    assert_eq!((&swapped["phase"], &swapped["back_to"]), (&json!("swapped"), &json!("nothing")));
    let number = frame(&service, &place, "c.png", &picture("six"));
    let is_scored = |service: &Service| {
        let now = state(service);
        now["latest"]["energy"].is_number() && now["model"] == learned && now["threshold"].is_number()
    };
    assert!(is_scored(&service) && seen(&service) == number, "{}", state(&service));
    assert_eq!(service.post("/score", &picture("six")).status, 200);
    assert_eq!(
        ["/readyz", "/v2/health/ready", "/v2/models/camera/ready"].map(|path| service.get(path).status),
        [200; 3]
    );
    let figures = ["nae_model_in_use", "nae_scoring"];
    assert_eq!(figures.map(|name| service.metric(&format!("{name}{{camera=\"camera\"}}"))), [1.0, 1.0]);
    service.kill();

    let service = start(&place, &[]);
    assert!(!service.started.contains("no model yet"), "{}", service.started);
    eventually("what was there is scored again", || is_scored(&service));
    // It raises alarms, as any model.
    for number in 0..3 {
        frame(&service, &place, &format!("d{number}.png"), &picture("checkerboard"));
    }
    assert_eq!(service.get("/api/alarms").json().as_array().unwrap().len(), 1);
    assert_eq!(service.change("/api/reload", "{}").status, 200);
    // Back to none; what was learned can be used again.
    let back = act(&service, "roll-back", "{}");
    assert_eq!((&back["phase"], &back["back_to"]), (&json!("trained"), &json!(null)));
    let now = state(&service);
    assert_eq!((&now["model"], &now["alarm"], &now["threshold"]), (&json!(null), &json!(false), &json!(null)));
    frame(&service, &place, "e.png", &picture("checkerboard"));
    assert_eq!((service.post("/score", &picture("six")).status, seen(&service) > 0), (503, true));
    service.kill();
    let service = start(&place, &[]);
    assert!(service.started.contains("no model yet") && state(&service)["model"].is_null());
    // It can be used again.
    act(&service, "swap", "{}");
    assert_eq!(state(&service)["model"], learned);
}

#[test]
fn a_broker_is_told_of_a_camera_without_a_model_and_of_no_energy() {
    let place = Place::new();
    let Some(broker) = Broker::open(&place) else { return };
    let address = broker.address();
    let [found, available, energies] =
        ["homeassistant/#", "nae/camera/availability", "nae/camera/energy"].map(|topic| broker.listen(topic));
    let service = start(&place, &["--mqtt", &address, "--mqtt-home-assistant", "homeassistant"]);
    available.wait("it is there", |message| message.text() == "online");
    found.wait("Home Assistant is told of the energy to come", |message| message.topic.contains("energy"));
    frame(&service, &place, "a.png", &picture("six"));
    // Energies are told each second, if there are any.
    assert!(energies.is_quiet(Duration::from_secs(3)));
    let bytes = std::fs::read(other_model()).unwrap();
    let taken = service.post_with("/api/learn/take-model", &bytes, &[("content-type", "application/octet-stream")]);
    assert_eq!(taken.status, 200);
    act(&service, "swap", "{}");
    frame(&service, &place, "b.png", &picture("six"));
    energies.wait("an energy", |message| message.text().parse::<f32>().is_ok_and(|energy| energy > 0.0));
}

#[test]
fn a_learned_model_that_was_spoilt_leaves_a_service_that_can_learn() {
    let place = Place::new();
    let service = start(&place, &[]);
    train(&service, &place);
    act(&service, "swap", "{}");
    let learned = state(&service)["model"].as_str().unwrap().to_owned();
    service.kill();
    std::fs::write(place.state().join("learn/models").join(format!("{learned}.model")), "garbage").unwrap();
    let service = start(&place, &[]);
    for said in ["the model that was learned here cannot be opened", "no model yet"] {
        assert!(service.started.contains(said), "{}", service.started);
    }
    let now = status(&service);
    assert_eq!(now["note"], "the model learned here could not be opened: there is none in use");
    assert_eq!((&now["in_use"], &now["kept"], &state(&service)["model"]), (&json!(null), &json!(6), &json!(null)));
    service.kill();
    // One that the settings name is never passed over.
    let wrong = place.path("none.onnx");
    let said = Service::try_start(&wrong, &place.state(), &["--source", &place.source()]).err().unwrap();
    assert!(said.contains("cannot read") && said.contains("none.onnx"), "{said}");
}

#[test]
fn of_several_cameras_some_have_a_model_and_some_learn_one() {
    let place = Place::new();
    let camera = |name: &str, more: &str| {
        std::fs::create_dir_all(place.path(name)).unwrap();
        let source = place.path(name).display().to_string();
        format!("[[camera]]\nname = \"{name}\"\nsource = \"folder:{source}\"\n{more}\n")
    };
    let with = format!("model = \"{}\"\n", model().display());
    let settings = camera("gate", &with) + &camera("yard", "");
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    assert!(service.started.contains("/#yard and learn") && !service.started.contains("/#gate"), "{}", service.started);
    for name in ["gate", "yard"] {
        std::fs::write(place.path(name).join("a.png"), picture("six")).unwrap();
        eventually("the frame is shown", || service.camera(name)["latest"]["number"] == 1);
    }
    let energies = ["gate", "yard"].map(|name| service.camera(name)["latest"]["energy"].is_number());
    assert_eq!(energies, [true, false]);
    let scores = ["gate", "yard"].map(|name| service.post(&format!("/score?camera={name}"), &picture("six")).status);
    let ready = ["gate", "yard"].map(|name| service.get(&format!("/v2/models/{name}/ready")).status);
    assert_eq!((scores, ready), ([200, 503], [200, 503]));
    assert_eq!(["/readyz", "/v2/health/ready"].map(|path| service.get(path).status), [200; 2]);
    let figure = |name: &str| service.metric(&format!("nae_model_in_use{{camera=\"{name}\"}}"));
    assert_eq!((figure("gate"), figure("yard")), (1.0, 0.0));
    if let Some(mut page) = Browser::open(&service.url("/")) {
        page.wait_text("cameras", "No model yet: learn one here.");
        page.wait_text("cameras", "energy 0.0");
        page.wait_text("alarm", "1 without a model");
    }
    drop(service);
    // Where there is nothing to learn from, a model is missing.
    let settings = camera("gate", "learn_room = 0") + "[[camera]]\nname = \"yard\"\n";
    let said = Service::with_cameras(&place, &settings, &[]).err().unwrap();
    for part in ["camera `gate`: no `model`, and `learn_room` is 0", "camera `yard`: no `model`, and no `source`"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn the_page_leads_from_no_model_to_one_by_clicks() {
    let place = Place::new();
    trainer_with_model(&place);
    let service = start(&place, &[]);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let shown = |page: &mut Browser, selector: &str| {
        page.value(&format!("document.querySelector('{selector}').checkVisibility()")) == true
    };
    page.wait_text("alarm", "no model yet");
    page.wait_text("no-model", "No model yet: learn one here.");
    eventually("learning is open", || shown(&mut page, "[data-action=collect]"));
    assert!(shown(&mut page, "#no-model"));
    assert!(["#figures", "#tune", "#time"].iter().all(|part| !shown(&mut page, part)));
    // Before the history and the alarms, where it stands otherwise.
    let order = "document.getElementById('learn').compareDocumentPosition(document.getElementById('history'))";
    assert_eq!(page.value(order), 4);
    page.click("#to-learn");
    page.click("[data-action=collect]");
    page.wait_text("learn-phase", "0 frames kept of 0 seen.");
    show(&service, &place, "a", (0..4).map(|i| 60 * i));
    page.wait_text("frame", "frame 4, a-180.pgm");
    eventually("the frame is shown", || page.value("document.getElementById('image').hasAttribute('src')") == true);
    page.click("[data-action=stop]");
    page.click("[data-action=train]");
    page.wait_text("learn-phase", "There is a new model. Try it on live frames, or use it.");
    assert!(!shown(&mut page, "#learn-disagrees"), "with nothing");
    page.click("#learn-shadow");
    page.wait_text("learn-phase", "The new model scores live frames, and raises no alarm.");
    place.frame("b.png", &picture("checkerboard"));
    page.wait_text("learn-phase", "Of 1 frames it calls 1 anomalies.");
    page.wait_text("chart-note", "energies of the new model, with its threshold");
    eventually("its energy is on the chart", || page.value("learn.points.length") == 1);
    page.click("[data-action=swap]");
    page.wait_text("learn-phase", "The new model is in use.");
    page.wait_text("alarm", "Normal");
    place.frame("c.png", &picture("six"));
    page.wait_text("frame", "c.png");
    page.wait_text("energy", "0.0");
    eventually("the page is that of a camera with a model", || {
        !shown(&mut page, "#no-model") && shown(&mut page, "#tune") && shown(&mut page, "#time")
    });
    page.wait_text("learn-back", "Remove the model");
    page.click("#learn-back");
    page.wait_text("alarm", "no model yet");
    eventually("it is said again", || shown(&mut page, "#no-model"));
}
