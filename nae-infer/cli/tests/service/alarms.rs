//! Alarms: raised once, delivered at least once, whatever happens in between.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::harness::{
    Clock, PATIENCE, Place, Service, SmallDisk, detector, energy_of, eventually, number, picture,
    slow_tests_are_asked_for,
};

/// Two anomalies in a row raise an alarm, a normal frame takes it back.
const QUICK: [&str; 6] = ["--alarm-raise", "2", "--alarm-clear", "0", "--alarm-window", "2"];

/// Raises `count` alarms, by frames whose names begin with `name`; waits until they are known.
pub(crate) fn raise(service: &Service, place: &Place, name: &str, count: usize) {
    for i in 0..count {
        for (j, image) in ["checkerboard", "checkerboard", "six", "six"].into_iter().enumerate() {
            let before = scored(service);
            place.frame(&format!("{name}-{i:03}-{j}.png"), &picture(image));
            eventually("the frame is scored", || scored(service) > before);
        }
    }
}

pub(crate) fn scored(service: &Service) -> f64 {
    service.metric("nae_frames_total{origin=\"Source\"}")
}

pub(crate) fn start(place: &Place, arguments: &[&str]) -> Service {
    let source = place.source();
    Service::start(&place.state(), &[&["--source", &source], &QUICK[..], arguments].concat())
}

/// An address where nobody listens yet, and that nobody else is given: a port set free could go to another test, or to
/// the service's own end of a connection it tries to make.
pub(crate) struct Absent(Socket);

impl Absent {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // So that another program can listen there.
        socket.set_reuse_address(true).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }

    pub(crate) fn appear(self) -> TcpListener {
        self.0.listen(16).unwrap();
        self.0.into()
    }
}

/// A webhook on this address that acknowledges, and hands out what it got.
pub(crate) fn webhook(listener: TcpListener) -> Receiver<Value> {
    let (sender, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            // A service killed in the middle of its request breaks it off; it has to send that again.
            let Ok((_, body)) = request(&mut stream) else { continue };
            // First what came, then the acknowledgement.
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
            let _ = stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
    });
    received
}

/// Head and body of one request.
fn request(stream: &mut impl BufRead) -> io::Result<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), None);
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok();
        }
        head.push_str(&line);
        line.clear();
    }
    let mut body = vec![0; length.ok_or(io::ErrorKind::UnexpectedEof)?];
    stream.read_exact(&mut body)?;
    Ok((head, body))
}

/// Numbers of the alarms that come, until the last is `last`.
pub(crate) fn numbers(received: &Receiver<Value>, last: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        let alarm = received.recv_timeout(3 * PATIENCE).expect("an alarm");
        numbers.push(alarm["number"].as_u64().unwrap());
    }
    numbers
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_alarm_comes_with_its_pictures_and_goes_to_a_file() {
    let place = Place::new();
    let log = place.path("alarms.jsonl");
    let service = start(&place, &["--alarm-log", log.to_str().unwrap()]);
    raise(&service, &place, "x", 2);
    eventually("both are in the file", || lines(&log).len() == 2);
    let alarm = &lines(&log)[0];
    assert_eq!((alarm["number"].as_u64(), alarm["frame"].as_str()), (Some(0), Some("x-000-1.png")));
    assert_eq!(number(&alarm["energy"]), energy_of("checkerboard"));
    assert_eq!(Some(number(&alarm["threshold"])), detector().threshold());
    let listed = service.get("/api/alarms").json();
    assert_eq!(listed[1]["id"], alarm["id"], "the newest is first");
    let image = service.get(alarm["picture"].as_str().unwrap());
    assert_eq!((image.status, image.body), (200, picture("checkerboard")));
    assert_eq!(service.get("/api/alarms/0/heat-map").kind, "image/png");
    assert_eq!(service.metric("nae_alarms_total"), 2.0);
}

#[test]
fn alarms_wait_for_a_receiver_that_is_down_also_across_a_kill() {
    let place = Place::new();
    let receiver = Absent::new();
    let address = receiver.address();
    let url = format!("http://{address}/alarm");
    let service = start(&place, &["--webhook", &url]);
    raise(&service, &place, "down", 3);
    service.kill();

    let service = start(&place, &["--webhook", &url]);
    // The folder is read again, with the three of before: six alarms.
    eventually("the alarms are raised", || {
        service.get("/api/alarms").json().as_array().is_some_and(|alarms| alarms.len() == 6)
    });
    let received = webhook(receiver.appear());
    assert_eq!(numbers(&received, 5), [0, 1, 2, 3, 4, 5], "raised 6, delivered 6, lost 0");
    raise(&service, &place, "up", 1);
    assert_eq!(numbers(&received, 6), [6]);
    let label = format!("{{receiver=\"webhook http://{address}\"}}");
    eventually("all are acknowledged", || service.metric(&format!("nae_alarms_waiting{label}")) == 0.0);
    assert_eq!(service.metric(&format!("nae_alarms_lost{label}")), 0.0);
    service.kill();

    let service = start(&place, &["--webhook", &url]);
    eventually("it has started", || service.get("/readyz").status == 200);
    let again = received.recv_timeout(Duration::from_secs(2)).map(|alarm| alarm["number"].as_u64().unwrap());
    assert!(again.is_err() || again == Ok(7), "what was acknowledged does not come again: {again:?}");
}

/// Neither in the log nor in figures and answers that need no token; the receiver gets it.
#[test]
fn what_is_secret_in_a_receivers_address_is_shown_to_nobody() {
    let place = Place::new();
    let receiver = Absent::new();
    let address = receiver.address();
    let url = format!("http://me:secret%2Fword@{address}/covert-path?key=covert-key");
    let service = start(&place, &["--webhook", &url, "--mqtt", "me:secret@127.0.0.1:9"]);
    raise(&service, &place, "x", 1);
    for receiver in ["receiver=\"webhook", "receiver=\"mqtt"] {
        let text = service.wait_log(receiver);
        assert!(!text.contains("secret") && !text.contains("covert"), "{text}");
    }
    for path in ["/metrics", "/api/state", "/api/alarms", "/"] {
        let text = String::from_utf8_lossy(&service.get(path).body).into_owned();
        assert!(!text.contains("secret") && !text.contains("covert"), "{path}: {text}");
    }
    let listener = receiver.appear();
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = Vec::new();
    let mut bytes = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = io::Read::read(&mut stream, &mut bytes).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&head));
        head.extend_from_slice(&bytes[..count]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(head.starts_with("post /covert-path?key=covert-key http/1.1\r\n"), "{head}");
    // me:secret/word
    assert!(head.contains("\r\nauthorization: basic bwu6c2vjcmv0l3dvcmq="), "{head}");
}

/// As the receiver of a webhook sees it: by its own means, openssl, from what came over the connection.
#[test]
fn a_receiver_can_tell_who_sent_an_alarm_and_that_it_is_whole() {
    let place = Place::new();
    let key: Vec<u8> = (0..32).collect();
    // base64 of these bytes.
    std::fs::write(place.path("secret"), "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/alarm", listener.local_addr().unwrap());
    let secret = place.path("secret").display().to_string();
    let service = start(&place, &["--webhook", &url, "--webhook-secret-file", &secret]);
    raise(&service, &place, "x", 1);
    // The first attempt is refused, so that there is a second.
    let attempts = ["500 Internal Server Error", "204 No Content"].map(|answer| {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let (head, body) = request(&mut stream).unwrap();
        write!(stream.get_mut(), "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        let header = |name: &str| {
            let line = head.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| *key == name));
            line.unwrap_or_else(|| panic!("no {name} in {head}")).1.to_owned()
        };
        let (id, seconds) = (header("webhook-id"), header("webhook-timestamp"));
        let signed = [format!("{id}.{seconds}.").as_bytes(), &body].concat();
        assert_eq!(header("webhook-signature"), format!("v1,{}", hmac(&key, &signed)));
        let alarm: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(alarm["id"], id.as_str());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!(now - seconds.parse::<u64>().unwrap() < 30, "{seconds}, now {now}");
        (id, seconds)
    });
    let [(first_id, first), (second_id, second)] = &attempts;
    assert_eq!(first_id, second_id, "the same alarm");
    assert!(second > first, "the time is the attempt's: {second}, {first}");
}

/// HMAC-SHA256 in base64, by openssl.
fn hmac(key: &[u8], message: &[u8]) -> String {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let run = |arguments: &[&str], input: &[u8]| {
        let mut process =
            Command::new("openssl").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        process.stdin.take().unwrap().write_all(input).unwrap();
        process.wait_with_output().unwrap().stdout
    };
    let hash = run(&["dgst", "-sha256", "-mac", "HMAC", "-macopt", &format!("hexkey:{hex}"), "-binary"], message);
    String::from_utf8(run(&["base64", "-A"], &hash)).unwrap()
}

/// A clock that is put right backwards, in the middle of it and before a start.
#[test]
fn a_clock_that_jumps_back_loses_and_repeats_nothing() {
    let place = Place::new();
    let Some(clock) = Clock::new(&place) else { return };
    let (variables, log) = (clock.variables(), place.path("alarms.jsonl"));
    let receiver = Absent::new();
    let address = receiver.address();
    let url = format!("http://{address}/alarm");
    let source = place.source();
    let arguments = ["--source", &source, "--alarm-log", log.to_str().unwrap(), "--webhook", &url];
    let arguments = [&arguments[..], &QUICK].concat();

    let service = Service::start_with(&place.state(), &arguments, &variables);
    raise(&service, &place, "before", 2);
    // A day back, while two alarms wait for the webhook.
    clock.is_wrong_by(-86_400);
    raise(&service, &place, "after", 2);
    let received = webhook(receiver.appear());
    assert_eq!(numbers(&received, 3), [0, 1, 2, 3], "raised 4, delivered 4, lost 0");
    eventually("all are in the file", || lines(&log).len() == 4);
    let time = |alarm: &Value| alarm["time"].as_str().unwrap().to_owned();
    let (first, third) = (time(&lines(&log)[0]), time(&lines(&log)[2]));
    assert!(third < first, "the clock did jump: {first}, then {third}");
    assert_eq!(service.get("/readyz").status, 200);
    // Four alarms of four frames each, of which two are anomalies, are in the energies of the last hour.
    let if_so = service.get("/api/what-if?false_positive_rate=0.05").json();
    let counted = ["frames", "anomalies", "alarms"].map(|name| if_so[name].as_u64());
    assert_eq!(counted, [Some(16), Some(8), Some(4)]);
    let waiting = format!("nae_alarms_waiting{{receiver=\"webhook http://{address}\"}}");
    eventually("all are acknowledged", || service.metric(&waiting) == 0.0);
    service.kill();

    // A day more.
    clock.is_wrong_by(-172_800);
    std::fs::remove_dir_all(place.path("frames")).unwrap();
    std::fs::create_dir(place.path("frames")).unwrap();
    let service = Service::start_with(&place.state(), &arguments, &variables);
    raise(&service, &place, "again", 1);
    eventually("the file has the fifth", || lines(&log).len() == 5);
    let mut ids: Vec<String> = lines(&log).iter().map(|alarm| alarm["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "{ids:?}");
    assert_eq!(numbers(&received, 4), [4]);
}

/// The tenth of a second matters less than that whatever was raised arrives.
#[test]
fn no_alarm_is_lost_over_many_kills() {
    if !slow_tests_are_asked_for() {
        return;
    }
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/alarm", listener.local_addr().unwrap());
    let received = webhook(listener);
    let mut kills = 0u64;
    for round in 0..20 {
        let service = start(&place, &["--webhook", &url]);
        for i in 0..4 {
            for (j, image) in ["checkerboard", "checkerboard", "six", "six"].into_iter().enumerate() {
                place.frame(&format!("{round:02}-{i}-{j}.png"), &picture(image));
            }
        }
        thread::sleep(Duration::from_millis(37 * round % 400));
        service.kill();
        kills += 1;
        std::fs::remove_dir_all(place.path("frames")).unwrap();
        std::fs::create_dir(place.path("frames")).unwrap();
    }
    let service = start(&place, &["--webhook", &url]);
    raise(&service, &place, "last", 1);
    let alarms = service.get("/api/alarms").json();
    let last = alarms[0]["number"].as_u64().unwrap();
    let mut got = numbers(&received, last);
    let deliveries = got.len();
    got.sort_unstable();
    got.dedup();
    assert_eq!(got, (0..=last).collect::<Vec<_>>(), "every number has arrived");
    println!("kills {kills}: raised {}, delivered {deliveries}, lost 0", last + 1);
}

#[test]
fn a_full_disk_refuses_no_alarm() {
    let place = Place::new();
    // Room for the journal and little more.
    let Some(_disk) = SmallDisk::mount(&place.state()) else { return };
    let log = place.path("alarms.jsonl");
    let service = start(&place, &["--alarm-log", log.to_str().unwrap()]);
    raise(&service, &place, "room", 1);
    // Whatever room is left is taken.
    let filler = place.state().join("filler");
    assert!(std::fs::write(&filler, vec![1; 8 << 20]).is_err());
    raise(&service, &place, "full", 3);
    eventually("all are in the file", || lines(&log).len() == 4);
    assert_eq!(service.metric("nae_alarm_pictures_dropped_total"), 3.0);
    service.kill();
    let service = start(&place, &["--alarm-log", log.to_str().unwrap()]);
    assert!(service.get("/api/alarms").json().as_array().unwrap().len() >= 4, "they are on disk");
}
