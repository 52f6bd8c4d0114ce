//! Alarms that are paused, snoozed, or off by the hours of the settings: frames are scored all the same.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::alarms::{raise, scored, start};
use crate::browser::Browser;
use crate::harness::{Place, Service, eventually, model, picture};
use crate::mosquitto::Broker;

fn state(service: &Service) -> Value {
    service.get("/api/state").json()
}

/// Whether alarms are raised, in a word.
fn alarms(service: &Service) -> String {
    state(service)["alarms"]["state"].as_str().unwrap().to_owned()
}

fn raised(service: &Service) -> f64 {
    service.metric("nae_alarms_total")
}

/// A frame comes and is scored.
fn show(service: &Service, place: &Place, name: &str, image: &str) {
    let before = scored(service);
    place.frame(&format!("{name}.png"), &picture(image));
    eventually("the frame is scored", || scored(service) > before);
}

#[test]
fn a_pause_clears_the_alarm_and_raises_none_until_it_is_ended() {
    let place = Place::new();
    let service = start(&place, &[]);
    show(&service, &place, "a1", "checkerboard");
    show(&service, &place, "a2", "checkerboard");
    eventually("the alarm is up", || state(&service)["alarm"] == true);
    assert_eq!((raised(&service), service.metric("nae_alarms_on"), alarms(&service)), (1.0, 1.0, "on".into()));

    let events = service.events();
    let answer = service.change("/api/pause", "{}");
    assert_eq!((answer.status, answer.json()), (200, json!({"alarms": {"state": "paused"}})));
    assert_eq!(
        events.recv_timeout(Duration::from_secs(10)).unwrap(),
        json!({"camera": "camera", "event": "alarms", "alarms": {"state": "paused"}})
    );
    let now = state(&service);
    assert_eq!((&now["alarm"], &now["alarms"]), (&json!(false), &json!({"state": "paused"})));
    assert_eq!(["nae_alarm", "nae_alarms_on"].map(|name| service.metric(name)), [0.0, 0.0]);
    assert_eq!(service.get("/api/cameras").json()[0]["alarms"], json!({"state": "paused"}));

    // Scored, shown and counted like any other.
    raise(&service, &place, "b", 2);
    show(&service, &place, "c1", "checkerboard");
    let now = state(&service);
    assert_eq!(
        (&now["latest"]["name"], &now["latest"]["anomaly"], &now["alarm"]),
        (&json!("c1.png"), &json!(true), &json!(false))
    );
    assert_eq!(service.metric("nae_anomalies_total{origin=\"Source\"}"), 7.0);
    let hour = service.get("/api/what-if?false_positive_rate=0.01").json();
    assert_eq!((&hour["frames"], &hour["anomalies"]), (&json!(11), &json!(7)), "the history has them");
    assert_eq!((raised(&service), service.get("/api/alarms").json().as_array().unwrap().len()), (1.0, 1));

    let answer = service.change("/api/resume", "{}");
    assert_eq!((answer.status, answer.json()), (200, json!({"alarms": {"state": "on"}})));
    assert_eq!(service.metric("nae_alarms_on"), 1.0);
    // With the anomaly of before it would be the second in a row.
    show(&service, &place, "c2", "checkerboard");
    assert_eq!((raised(&service), &state(&service)["alarm"]), (1.0, &json!(false)));
    show(&service, &place, "c3", "checkerboard");
    eventually("the alarm is raised", || raised(&service) == 2.0);
    assert_eq!(state(&service)["alarm"], true);
}

#[test]
fn a_snooze_ends_by_itself() {
    let place = Place::new();
    let service = start(&place, &[]);
    let events = service.events();
    for wrong in [r#"{"minutes": 0}"#, r#"{"minutes": -5}"#, r#"{"minutes": 10081}"#] {
        let (status, said) = service.change("/api/pause", wrong).problem();
        assert!(
            status == 400 && said.contains("expected a number from 0.01 to 10080 (7 days), found"),
            "{status} {said}"
        );
    }
    for wrong in [r#"{"minutes": "5"}"#, r#"{"hours": 5}"#, r#"{"minutes": 1e999}"#, "5", ""] {
        assert_eq!(service.change("/api/pause", wrong).status, 400, "{wrong}");
    }
    assert_eq!((service.change("/api/resume", r#"{"minutes": 5}"#).status, alarms(&service)), (400, "on".into()));

    let answer = service.change("/api/pause", r#"{"minutes": 10080}"#).json();
    assert!(
        answer["alarms"]["seconds_left"].as_f64().is_some_and(|left| left > 604_000.0 && left <= 604_800.0),
        "{answer}"
    );
    let answer = service.change("/api/pause", r#"{"minutes": 0.1}"#).json();
    let left = answer["alarms"]["seconds_left"].as_f64().unwrap();
    assert!(answer["alarms"]["state"] == "snoozed" && left > 0.0 && left <= 6.0, "{answer}");
    show(&service, &place, "a1", "checkerboard");
    show(&service, &place, "a2", "checkerboard");
    // A busy machine may take longer than the snooze for the two frames.
    if alarms(&service) == "snoozed" {
        assert_eq!(raised(&service), 0.0);
    }
    // Clients are told without a frame.
    let told = |event: Value| event["event"] == "alarms" && event["alarms"]["state"] == "on";
    eventually("clients are told", || events.try_iter().any(told));
    assert_eq!((alarms(&service), service.metric("nae_alarms_on")), ("on".into(), 1.0));
    raise(&service, &place, "b", 1);
    eventually("an alarm is raised", || raised(&service) >= 1.0);
}

#[test]
fn a_kill_ends_no_pause_and_a_snooze_goes_on_by_the_clock() {
    let place = Place::new();
    let service = start(&place, &[]);
    assert_eq!(service.change("/api/pause", "{}").status, 200);
    service.kill();
    let service = start(&place, &[]);
    assert_eq!((alarms(&service), service.metric("nae_alarms_on")), ("paused".into(), 0.0));
    raise(&service, &place, "a", 1);
    assert_eq!(raised(&service), 0.0);

    assert_eq!(service.change("/api/pause", r#"{"minutes": 60}"#).status, 200);
    service.kill();
    std::thread::sleep(Duration::from_secs(1));
    let service = start(&place, &[]);
    let left = state(&service)["alarms"]["seconds_left"].as_f64().unwrap();
    assert!(left > 3000.0 && left < 3599.0, "{left}");
    assert_eq!(service.change("/api/pause", r#"{"minutes": 0.01}"#).status, 200);
    service.kill();
    std::thread::sleep(Duration::from_secs(1));
    let service = start(&place, &[]);
    assert_eq!(alarms(&service), "on", "it ended while the service was down");

    assert_eq!(service.change("/api/pause", "{}").status, 200);
    assert_eq!(service.change("/api/resume", "{}").status, 200);
    service.kill();
    let service = start(&place, &[]);
    assert_eq!(alarms(&service), "on");
    service.kill();
    std::fs::write(place.state().join("alarms-paused.json"), "garbage").unwrap();
    let service = start(&place, &[]);
    assert!(service.started.contains("whether alarms were paused is not known"), "{}", service.started);
    assert_eq!(alarms(&service), "on");
}

/// Of a zone five hours and a half ahead, whose hours are not those of UTC.
#[test]
fn alarms_are_raised_in_their_hours_only_which_are_of_local_time() {
    let place = Place::new();
    let utc = |text: &str| -> u64 {
        let output = std::process::Command::new("date").args(["-u", text]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    let source = place.source();
    let quick = ["--source", &source, "--alarm-raise", "2", "--alarm-clear", "0", "--alarm-window", "2"];
    let with = |hours: &str, zone: &str| {
        Service::start_with(
            &place.state(),
            &[&quick[..], &["--alarm-hours", hours]].concat(),
            &[("TZ", Path::new(zone))],
        )
    };
    // Two hours around now, there.
    let minute = (utc("+%s") / 60 + 330) % 1440;
    let text = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    let hours = format!("{}-{}", text(minute + 1380), text(minute + 60));
    let service = with(&hours, "XYZ-5:30");
    assert_eq!((alarms(&service), service.metric("nae_alarms_on")), ("on".into(), 1.0), "{hours}");
    assert!(service.started.contains("alarms are raised in the hours of the settings"), "{}", service.started);
    raise(&service, &place, "a", 1);
    assert_eq!(raised(&service), 1.0);
    service.kill();
    std::fs::remove_dir_all(place.path("frames")).unwrap();
    std::fs::create_dir(place.path("frames")).unwrap();

    let service = with(&hours, "UTC0");
    let now = state(&service)["alarms"].clone();
    assert_eq!(now["state"], "off_by_schedule", "{hours}: {now}");
    let begin = now["on_at"].as_str().unwrap();
    assert!(begin.ends_with(&format!("T{}:00+00:00", text(minute + 1380))), "{hours}: {begin}");
    raise(&service, &place, "b", 1);
    assert_eq!((raised(&service), service.metric("nae_alarms_on")), (0.0, 0.0));
    // What someone asks for comes first, and goes.
    assert_eq!(service.change("/api/pause", "{}").json()["alarms"]["state"], "paused");
    assert_eq!(service.change("/api/resume", "{}").json()["alarms"]["state"], "off_by_schedule");
    service.kill();

    let service = with(&hours, "No/Where");
    assert!(service.started.contains("the time zone is not known"), "{}", service.started);
    assert_eq!(alarms(&service), "off_by_schedule", "as of UTC");
}

#[test]
fn a_broker_is_told_that_an_alarm_is_cleared_by_a_pause() {
    let place = Place::new();
    let Some(broker) = Broker::open(&place) else { return };
    let address = broker.address();
    let received = broker.listen("nae/gate/state");
    let service = start(&place, &["--mqtt", &address, "--camera-name", "gate"]);
    received.wait("alarms are raised", |message| message.json()["alarms"] == "on");
    show(&service, &place, "a1", "checkerboard");
    show(&service, &place, "a2", "checkerboard");
    received.wait("the alarm is raised", |message| message.json()["alarm"] == true);
    assert_eq!(service.change("/api/cameras/gate/pause", r#"{"minutes": 5}"#).status, 200);
    let cleared = received.wait("the alarm is cleared", |message| message.json()["alarm"] == false);
    assert_eq!(cleared.json()["alarms"], "snoozed");
    let later = broker.listen("nae/gate/state");
    assert!(later.wait("that is retained", |message| message.json()["alarms"] == "snoozed").retain);
    assert_eq!(service.change("/api/cameras/gate/resume", "{}").status, 200);
    received.wait("alarms are raised again", |message| message.json()["alarms"] == "on");
}

/// By a click on the page of one of two cameras, and as the page of both shows it.
#[test]
fn alarms_are_paused_and_resumed_by_clicks() {
    let place = Place::new();
    let camera = |name: &str| {
        std::fs::create_dir(place.path(name)).unwrap();
        format!("[[camera]]\nname = \"{name}\"\nsource = \"folder:{}\"\n", place.path(name).display())
    };
    let settings = format!(
        "model = \"{}\"\nalarm_raise = 1\nalarm_clear = 0\nalarm_window = 1\n{}{}",
        model().display(),
        camera("gate"),
        camera("yard")
    );
    std::fs::write(place.path("gate/a.png"), picture("checkerboard")).unwrap();
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    eventually("the alarm is up", || service.camera("gate")["alarm"] == true);
    let Some(mut page) = Browser::open(&service.url("/#gate")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let text = |page: &mut Browser, id: &str| page.value(&format!("document.getElementById('{id}').textContent"));
    let shown = |page: &mut Browser| {
        let seen = "[...document.querySelectorAll('#quiet-buttons button')].filter(b => b.offsetParent).map(b => b.id).join(' ')";
        page.value(seen).as_str().unwrap().to_owned()
    };
    page.wait_text("alarm", "Alarm");
    assert_eq!(shown(&mut page), "pause pause-15 pause-60");
    page.click("#pause-15");
    page.wait_text("quiet", "alarms paused for 15 min");
    // The answer to the click says that alarms are paused; the state, which is asked for once a second, that there is none.
    eventually("there is none", || text(&mut page, "alarm") == "");
    assert_eq!(shown(&mut page), "pause pause-15 pause-60 resume");
    assert_eq!(service.camera("gate")["alarm"], false);
    let left = service.camera("gate")["alarms"]["seconds_left"].as_f64().unwrap();
    assert!(left > 800.0 && left <= 900.0, "{left}");
    page.click("#pause-60");
    // A moment later it is less than an hour.
    let hour = ["alarms paused for 1 h", "alarms paused for 60 min"];
    eventually("it is paused for an hour", || hour.iter().any(|hour| text(&mut page, "quiet") == *hour));
    page.click("#pause");
    eventually("until it is ended", || text(&mut page, "quiet") == "alarms paused");
    assert_eq!(shown(&mut page), "pause-15 pause-60 resume");
    assert_eq!(
        (&service.camera("gate")["alarms"], &service.camera("yard")["alarms"]),
        (&json!({"state": "paused"}), &json!({"state": "on"}))
    );

    page.value("location.hash = ''");
    let chips = "[...document.querySelectorAll('.card')].map(c => [...c.querySelectorAll('.chip')].map(c => c.textContent).join()).join(';')";
    eventually("the page of both has it", || page.value(chips) == "alarms paused;");
    page.value("location.hash = '#gate'");
    page.wait_text("quiet", "alarms paused");
    page.click("#resume");
    page.wait_text("alarm", "Normal");
    assert_eq!((text(&mut page, "quiet"), shown(&mut page)), (json!(""), "pause pause-15 pause-60".into()));
    assert_eq!(service.camera("gate")["alarms"], json!({"state": "on"}));
}

#[test]
fn who_may_only_look_sees_a_pause_and_no_buttons() {
    let place = Place::new();
    let files = ["token", "look-token"].map(|name| {
        std::fs::write(place.path(name), name).unwrap();
        place.path(name).display().to_string()
    });
    let service = start(&place, &["--token-file", &files[0], "--look-token-file", &files[1]]);
    let paused = service.post_with(
        "/api/pause",
        b"{}",
        &[("authorization", "Bearer token"), ("content-type", "application/json")],
    );
    assert_eq!(paused.status, 200);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let buttons = "[...document.querySelectorAll('#quiet-buttons button')].filter(b => b.offsetParent).length";
    for (token, count) in [("look-token", 0), ("token", 3)] {
        eventually("the page is there", || page.value("location.pathname") == "/");
        page.value(&format!("sessionStorage.setItem('token', '{token}'); window.before = true; location.reload();"));
        let another = "document.readyState === 'complete' && window.before === undefined";
        eventually("another page is there", || page.value(another) == true);
        page.wait_text("quiet", "alarms paused");
        assert_eq!(page.value(buttons), count, "{token}");
    }
}
