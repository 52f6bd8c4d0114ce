//! The service at an MQTT broker: encrypted, known to each other, and what the broker retains.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::alarms::{raise, start};
use crate::harness::{Place, Service, energy_of, eventually};
use crate::mosquitto::{Broker, Message, authority, certificate, mosquitto};

/// Whether a message is the state, and a field of it is this.
fn state(field: &'static str, value: impl Into<Value>) -> impl Fn(&Message) -> bool {
    let value = value.into();
    move |message| message.topic == "nae/gate/state" && message.json()[field] == value
}

fn availability(value: &'static str) -> impl Fn(&Message) -> bool {
    move |message| message.topic == "nae/gate/availability" && message.text() == value
}

/// Names of the clients that connected but for the test's own.
fn clients(broker: &Broker) -> Vec<String> {
    let log = broker.log();
    let names = log.lines().filter_map(|line| line.split_once("New client connected from ")?.1.split(' ').nth(2));
    names.filter(|name| !name.starts_with("test-")).map(str::to_owned).collect()
}

#[test]
fn a_broker_gets_alarms_once_it_is_there() {
    let place = Place::new();
    // From now on the broker keeps for the test what comes.
    let Some(mut broker) = Broker::open(&place) else { return };
    let received = broker.listen("line/4");
    broker.stop();
    let address = format!("127.0.0.1:{}", broker.port());
    let service = start(&place, &["--mqtt", &address, "--mqtt-topic", "line/4"]);
    raise(&service, &place, "down", 2);
    assert!(service.wait_log("alarm not delivered").contains("refused"));
    broker.start();
    assert_eq!(received.numbers(1), [0, 1]);
}

#[test]
fn what_a_broker_retains_follows_alarm_and_camera_and_service() {
    let place = Place::new();
    let Some(broker) = Broker::open(&place) else { return };
    let address = broker.address();
    let arguments = ["--mqtt", address.as_str(), "--camera-name", "gate"];
    let received = broker.listen("nae/#");
    let service = start(&place, &arguments);
    received.wait("the camera is there", state("source", "connected"));
    eventually("that is measured", || service.metric("nae_mqtt_connected") == 1.0);

    raise(&service, &place, "x", 1);
    let raised = received.wait("the alarm is raised", state("alarm", true));
    assert_eq!(raised.json()["reason"], Value::Null);
    assert!(raised.json()["time"].as_str().is_some_and(|time| time.ends_with('Z')));
    received.wait("the alarm is cleared", state("alarm", false));
    // The frame that cleared it is the last, and its energy is yet to come.
    let energy = received.wait("an energy", |message| message.topic == "nae/gate/energy");
    assert_eq!(energy.text().parse(), Ok(energy_of("six")));

    std::fs::remove_dir_all(place.path("frames")).unwrap();
    let lost = received.wait("the camera is lost", state("source", "lost"));
    assert!(lost.json()["reason"].as_str().unwrap().contains("frames"), "{}", lost.text());

    // Whoever comes later is told, too.
    let later = broker.listen("nae/#");
    assert!(later.wait("it is retained", state("source", "lost")).retain);
    let later = broker.listen("nae/#");
    assert!(later.wait("it is there", availability("online")).retain);
    std::fs::create_dir(place.path("frames")).unwrap();
    received.wait("the camera is found", state("source", "connected"));

    // The broker sees that the connection is gone, and publishes the will.
    service.kill();
    received.wait("the service is gone", availability("offline"));

    let service = start(&place, &arguments);
    received.wait("it is there again", availability("online"));
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    received.wait("it says goodbye", availability("offline"));
    let later = broker.listen("nae/#");
    assert!(later.wait("that is retained", availability("offline")).retain);

    let clients = clients(&broker);
    assert_eq!(clients.len(), 2, "{clients:?}");
    assert_eq!(clients[0], clients[1], "the same service");
    assert!(clients[0].starts_with("nae-gate-"), "{clients:?}");
    let log = broker.log();
    let line = log.lines().find(|line| line.contains(&format!("as {} (", clients[0]))).unwrap();
    assert!(line.contains(", c0, "), "a session that persists: {line}");
}

/// As two containers have: the same settings and the same process number, but each its own state.
#[test]
fn two_services_at_a_broker_are_two_clients() {
    let places = [Place::new(), Place::new()];
    let Some(broker) = Broker::open(&places[0]) else { return };
    let address = broker.address();
    let services = places.each_ref().map(|place| start(place, &["--mqtt", &address, "--camera-name", "gate"]));
    for service in &services {
        eventually("it is connected", || service.metric("nae_mqtt_connected") == 1.0);
    }
    // A broker that takes two for the same throws out the first.
    std::thread::sleep(Duration::from_secs(2));
    for service in &services {
        assert_eq!(service.metric("nae_mqtt_connected"), 1.0);
    }
    let clients = clients(&broker);
    assert!(clients.len() == 2 && clients[0] != clients[1], "{clients:?}");
}

/// It is down for two seconds, or for as many as `NAE_BROKER_DOWN` says.
#[test]
fn no_alarm_is_lost_while_a_broker_goes_and_comes() {
    let place = Place::new();
    let Some(mut broker) = Broker::open(&place) else { return };
    let address = broker.address();
    let received = broker.listen("nae/alarms");
    let arguments = ["--mqtt", address.as_str(), "--camera-name", "gate"];
    let service = start(&place, &arguments);
    raise(&service, &place, "a", 1);
    assert_eq!(received.numbers(0), [0]);

    broker.stop();
    raise(&service, &place, "b", 1);
    service.wait_log("no connection to the MQTT broker");
    let down = std::env::var("NAE_BROKER_DOWN").map_or(2.0, |seconds| seconds.parse().unwrap());
    std::thread::sleep(Duration::from_secs_f64(down));
    raise(&service, &place, "b2", 1);
    broker.start();
    let mut got = received.numbers(2);
    // At least once each, and in order.
    got.dedup();
    assert_eq!(got, [1, 2]);
    raise(&service, &place, "c", 1);
    assert_eq!(received.numbers(3), [3]);

    // Down again, and the service is killed meanwhile: its folder of frames is read again.
    broker.stop();
    raise(&service, &place, "d", 1);
    service.kill();
    std::fs::remove_dir_all(place.path("frames")).unwrap();
    std::fs::create_dir(place.path("frames")).unwrap();
    let service = start(&place, &arguments);
    broker.start();
    assert_eq!(received.numbers(4), [4], "raised 5, delivered 5, lost 0");
    eventually("it is acknowledged", || {
        service.metric(&format!("nae_alarms_waiting{{receiver=\"mqtt 127.0.0.1:{} nae/alarms\"}}", broker.port()))
            == 0.0
    });
}

/// Home Assistant's side: what it makes of a camera's entities is tried by `tests/python/home_assistant.py`.
#[test]
fn home_assistant_is_told_of_the_camera_once_and_for_all() {
    let place = Place::new();
    let Some(broker) = Broker::open(&place) else { return };
    let address = broker.address();
    let arguments = ["--mqtt", address.as_str(), "--camera-name", "gate", "--mqtt-home-assistant", "homeassistant"];
    let service = start(&place, &arguments);
    eventually("it is connected", || service.metric("nae_mqtt_connected") == 1.0);
    let received = broker.listen("nae/gate/image");
    raise(&service, &place, "x", 1);
    let picture = received.wait("a picture", |_| true);
    assert!(picture.payload.starts_with(&[0xFF, 0xD8, 0xFF]), "a JPEG");
    let all = |broker: &Broker| {
        let received = broker.listen("homeassistant/#");
        let mut all: Vec<(String, String)> = (0..4)
            .map(|_| received.wait("an entity", |message| message.retain))
            .map(|message| (message.topic.clone(), message.text()))
            .collect();
        assert!(received.is_quiet(Duration::from_millis(500)), "four and no more");
        all.sort();
        all
    };
    let before = all(&broker);
    let topics: Vec<&str> = before.iter().map(|(topic, _)| topic.as_str()).collect();
    assert_eq!(
        topics,
        [
            "homeassistant/binary_sensor/nae_gate/anomaly/config",
            "homeassistant/binary_sensor/nae_gate/camera/config",
            "homeassistant/image/nae_gate/last_alarm/config",
            "homeassistant/sensor/nae_gate/energy/config",
        ]
    );
    // Required by Home Assistant, or else an entity has no device, cannot be told from another, or never goes away.
    let mut ids = Vec::new();
    for (topic, text) in &before {
        let entity: Value = serde_json::from_str(text).unwrap();
        let subject = if topic.contains("/image/") { "image_topic" } else { "state_topic" };
        assert!(entity[subject].as_str().unwrap().starts_with("nae/gate/"), "{text}");
        assert_eq!(entity["device"]["identifiers"], serde_json::json!(["nae_gate"]));
        assert_eq!(entity["availability"][0]["topic"], "nae/gate/availability");
        assert_eq!(entity["origin"]["name"], "nae-infer");
        ids.push(entity["unique_id"].as_str().unwrap().to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
    drop(service);

    // Another container, with a state of its own, but the same camera.
    std::fs::remove_dir_all(place.state()).unwrap();
    let service = start(&place, &arguments);
    eventually("it is connected", || service.metric("nae_mqtt_connected") == 1.0);
    assert_eq!(all(&broker), before, "nothing else stays at the broker");
}

/// What comes in at a broker that a program makes of packets: the type of the next packet, and what is in it.
fn packet(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    let kind = byte[0] >> 4;
    let (mut length, mut shift) = (0, 0);
    loop {
        stream.read_exact(&mut byte)?;
        length |= usize::from(byte[0] & 0x7F) << shift;
        shift += 7;
        if byte[0] < 0x80 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((kind, body))
}

/// A broker that has taken an alarm but not said so does not have it: it may have been killed.
#[test]
fn an_alarm_that_is_not_acknowledged_is_sent_again() {
    const CONNECT: u8 = 1;
    const PUBLISH: u8 = 3;
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let service = start(&place, &["--mqtt", &address]);
    raise(&service, &place, "a", 1);
    let waiting = format!("nae_alarms_waiting{{receiver=\"mqtt {address} nae/alarms\"}}");
    // At first it stays silent, then it ends after the alarm, and at last it does as it should.
    for manner in ["silent", "ends", "acknowledges"] {
        let (mut stream, _) = listener.accept().unwrap();
        loop {
            let Ok((kind, body)) = packet(&mut stream) else {
                assert_eq!(manner, "silent", "the service ends the connection where there is no acknowledgement");
                break;
            };
            if kind == CONNECT {
                stream.write_all(&[0x20, 2, 0, 0]).unwrap();
            }
            let length = body.first_chunk().map_or(0, |first| usize::from(u16::from_be_bytes(*first)));
            if kind != PUBLISH || body.get(2..2 + length) != Some(b"nae/alarms") {
                continue;
            }
            let alarm: Value = serde_json::from_slice(&body[2 + length + 2..]).unwrap();
            assert_eq!(alarm["number"], 0);
            match manner {
                "silent" => {}
                "ends" => break,
                _ => {
                    let identifier = [body[2 + length], body[3 + length]];
                    stream.write_all(&[[0x40, 2], identifier].concat()).unwrap();
                    eventually("it is delivered", || service.metric(&waiting) == 0.0);
                    return;
                }
            }
        }
        assert_eq!(service.metric(&waiting), 1.0, "{manner}");
    }
    unreachable!("the last connection is returned from");
}

/// It answers the pings, so that the connection seems alive, but what it has not acknowledged fills the window.
#[test]
fn a_broker_that_acknowledges_nothing_is_left() {
    const CONNECT: u8 = 1;
    const PING: u8 = 12;
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = start(&place, &["--mqtt", &listener.local_addr().unwrap().to_string()]);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while let Ok((kind, _)) = packet(&mut stream) {
            let answer: &[u8] = match kind {
                CONNECT => &[0x20, 2, 0, 0],
                PING => &[0xD0, 0],
                _ => continue,
            };
            stream.write_all(answer).unwrap();
        }
    });
    service.wait_log("connected to the MQTT broker");
    // Each is another state of the camera; the client of MQTT lets 100 be without an acknowledgement, and 16 wait.
    for _ in 0..80 {
        for change in ["pause", "resume"] {
            assert_eq!(service.change(&format!("/api/{change}"), "{}").status, 200);
        }
    }
    let line = service.wait_log("no connection to the MQTT broker");
    assert!(line.contains("the broker acknowledges nothing"), "{line}");
    eventually("that is measured", || service.metric("nae_mqtt_connected") == 0.0);
}

/// Between the two, the service was connected.
#[test]
fn a_broker_that_hangs_up_twice_is_in_the_log_twice() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = start(&place, &["--mqtt", &listener.local_addr().unwrap().to_string()]);
    let reasons = [1, 2].map(|_| {
        let (mut stream, _) = listener.accept().unwrap();
        packet(&mut stream).unwrap();
        stream.write_all(&[0x20, 2, 0, 0]).unwrap();
        while !packet(&mut stream).unwrap().1.ends_with(b"online") {}
        stream.shutdown(Shutdown::Write).unwrap();
        // Data that was not read would be another reason: a reset.
        while packet(&mut stream).is_ok() {}
        service.wait_log("connected to the MQTT broker");
        let line = service.wait_log("no connection to the MQTT broker");
        line.split_once("reason=").unwrap().1.split_once(" again_in=").unwrap().0.to_owned()
    });
    assert_eq!(reasons[0], reasons[1]);
}

/// The settings of a broker that asks clients for certificates of the authority `ours`.
pub(crate) fn encrypted(place: &Place) -> String {
    let path = |name: &str| place.path(name).display().to_string();
    format!(
        "cafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\nallow_anonymous false\npassword_file {}",
        path("ours.pem"),
        path("broker.pem"),
        path("broker.key"),
        path("passwords")
    )
}

/// Files for a broker that knows `me` with the password `se cret@`.
pub(crate) fn certificates(place: &Place, days: u32) -> bool {
    let folder = place.path("");
    for name in ["ours", "theirs"] {
        authority(&folder, name);
    }
    certificate(&folder, "ours", "broker", days);
    certificate(&folder, "ours", "service", 2);
    std::fs::write(place.path("password"), "se cret@\n").unwrap();
    std::fs::write(place.path("wrong-password"), "another\n").unwrap();
    let made = std::process::Command::new("mosquitto_passwd")
        .args(["-b", "-c"])
        .arg(place.path("passwords"))
        .args(["me", "se cret@"])
        .status();
    let made = made.is_ok_and(|status| status.success());
    if !made {
        eprintln!("skipped: mosquitto_passwd is not installed");
    }
    made
}

/// The service, at the broker with these files.
fn start_encrypted(place: &Place, broker: &Broker, authority: &str, identity: bool, password: &str) -> Service {
    let path = |name: &str| place.path(name).display().to_string();
    let address = format!("mqtts://localhost:{}", broker.port());
    let files = [authority, "service.pem", "service.key", password].map(path);
    let mut arguments = vec!["--mqtt", &address, "--camera-name", "gate", "--mqtt-ca-file", &files[0]];
    arguments.extend(["--mqtt-user", "me", "--mqtt-password-file", &files[3]]);
    if identity {
        arguments.extend(["--mqtt-certificate-file", &files[1], "--mqtt-key-file", &files[2]]);
    }
    start(place, &arguments)
}

#[test]
fn broker_and_service_have_to_know_each_other() {
    let Some(program) = mosquitto() else { return };
    let place = Place::new();
    if !certificates(&place, 2) {
        return;
    }
    let mut broker = Broker::new(program, &place, &encrypted(&place));
    broker.start();
    let received = broker.listen("nae/alarms");

    // The broker is somebody else's.
    let service = start_encrypted(&place, &broker, "theirs.pem", true, "password");
    raise(&service, &place, "a", 1);
    let said = service.wait_log("alarm not delivered");
    assert!(said.contains("UnknownIssuer") && said.contains("mqtt_ca_file"), "{said}");
    assert_eq!(service.metric("nae_mqtt_connected"), 0.0);
    assert!(clients(&broker).is_empty(), "{:?}", clients(&broker));
    // Its authority is put right while the service runs.
    std::fs::copy(place.path("ours.pem"), place.path("theirs.pem")).unwrap();
    assert_eq!(received.numbers(0), [0], "the alarm was kept");
    drop(service);
    let known = clients(&broker).len();

    // The service is somebody else.
    let service = start_encrypted(&place, &broker, "ours.pem", false, "password");
    raise(&service, &place, "b", 1);
    let said = service.wait_log("alarm not delivered");
    assert!(said.to_lowercase().contains("certificate"), "{said}");
    drop(service);
    let service = start_encrypted(&place, &broker, "ours.pem", true, "wrong-password");
    let said = service.wait_log("alarm not delivered");
    assert!(said.contains("mqtt_password_file") && !said.contains("another"), "{said}");
    drop(service);
    assert_eq!(clients(&broker).len(), known, "{:?}", clients(&broker));
}

#[test]
fn a_certificate_that_expired_is_refused_until_it_is_replaced() {
    let Some(program) = mosquitto() else { return };
    let place = Place::new();
    if !certificates(&place, 0) {
        return;
    }
    let mut broker = Broker::new(program, &place, &encrypted(&place));
    std::thread::sleep(Duration::from_secs(2));
    broker.start();
    let received = broker.listen("nae/alarms");
    let service = start_encrypted(&place, &broker, "ours.pem", true, "password");
    raise(&service, &place, "a", 2);
    let said = service.wait_log("alarm not delivered");
    assert!(said.contains("expired"), "{said}");

    certificate(&place.path(""), "ours", "broker", 2);
    broker.stop();
    broker.start();
    let mut got = received.numbers(1);
    got.dedup();
    assert_eq!(got, [0, 1], "raised 2, delivered 2, lost 0");

    // The same of the service's own: it is taken without a restart of the service.
    certificate(&place.path(""), "ours", "service", 0);
    std::thread::sleep(Duration::from_secs(2));
    broker.stop();
    broker.start();
    let said = service.wait_log("ertificate");
    assert!(said.contains("no connection"), "{said}");
    raise(&service, &place, "b", 1);
    certificate(&place.path(""), "ours", "service", 2);
    assert_eq!(received.numbers(2), [2]);
}
