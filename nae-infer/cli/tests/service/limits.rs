//! How often one address may guess, change and have images scored, and that nobody else is held back by it.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};

use crate::harness::{Place, Service, eventually, picture};

/// An answer: its status and all of it.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Told {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Asks from an address of this machine: all that begin with 127 are.
pub(crate) fn ask_from(source: &str, address: &str, head: &str, body: &str) -> Told {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(source.parse::<IpAddr>().unwrap(), 0).into()).unwrap();
    socket.connect(&address.parse::<SocketAddr>().unwrap().into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let length = body.len();
    let request = format!("{head}\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    // At once: the answer may come, and the connection end, before what is sent later.
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    Told { status, text }
}

#[test]
fn who_guesses_has_to_wait_also_with_the_right_token_and_nobody_else_has_to() {
    let place = Place::new();
    std::fs::write(place.path("token"), "right").unwrap();
    let token = place.path("token").display().to_string();
    let service = Service::start(&place.state(), &["--token-file", &token, "--wrong-tokens", "3"]);
    let look = |source: &str, token: &str| {
        let head = format!("GET /api/cameras HTTP/1.1\r\nAuthorization: Bearer {token}");
        ask_from(source, &service.address, &head, "")
    };
    // A program with an old token, and a browser without one, guess nothing.
    for _ in 0..20 {
        assert_eq!(look("127.0.0.5", "old").status, 401);
        assert_eq!(ask_from("127.0.0.5", &service.address, "GET /api/cameras HTTP/1.1", "").status, 401);
    }
    assert_eq!(look("127.0.0.5", "right").status, 200);
    for guess in ["a", "b", "c"] {
        assert_eq!(look("127.0.0.4", guess).status, 401, "{guess}");
    }
    let line = service.wait_log("too many wrong tokens");
    assert!(line.contains("127.0.0.4") && !line.contains("right"), "{line}");
    let mut locked = look("127.0.0.4", "right");
    let mut more = 0_u32;
    // On a machine that is so busy that the second is over.
    while locked.status != 429 {
        more += 1;
        assert!(more < 10, "the right token never waits: {}", locked.text);
        assert_eq!(look("127.0.0.4", &format!("d{more}")).status, 401);
        locked = look("127.0.0.4", "right");
    }
    let wait: u64 = locked.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=1_u64 << more).contains(&wait), "{}", locked.text);
    assert!(locked.text.contains("{\"error\":\"too many wrong tokens from 127.0.0.4: "), "{}", locked.text);
    assert_eq!(look("127.0.0.5", "right").status, 200);
    // What needs no token is not kept from anybody.
    assert_eq!(ask_from("127.0.0.4", &service.address, "GET /readyz HTTP/1.1", "").status, 200);
    eventually("the time is over", || look("127.0.0.4", "right").status == 200);
    assert!(service.metric("nae_limited_total{limit=\"WrongTokens\"}") >= 1.0);
    assert_eq!(service.metric("nae_wrong_tokens_total"), 23.0 + f64::from(more));
}

#[test]
fn changes_and_scores_of_one_address_have_a_limit_and_cameras_have_none() {
    let place = Place::new();
    let arguments = ["--source", &place.source(), "--changes-per-minute", "2", "--scores-per-second", "2"];
    let service = Service::start(&place.state(), &[&arguments[..], &["--queue", "100"]].concat());
    let resume = |source: &str| {
        ask_from(source, &service.address, "POST /api/resume HTTP/1.1\r\nContent-Type: application/json", "{}")
    };
    assert_eq!([resume("127.0.0.4").status, resume("127.0.0.4").status], [200, 200]);
    let refused = resume("127.0.0.4");
    assert_eq!(refused.status, 429);
    let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{}", refused.text);
    let reason = "{\"error\":\"too many changes from 127.0.0.4: 2 a minute are answered; try again in ";
    assert!(refused.text.contains(reason), "{}", refused.text);
    assert_eq!(resume("127.0.0.5").status, 200, "that is somebody else");

    let image = format!("P2 8 8 255\n{}", "0 ".repeat(64));
    let score = |source: &str| ask_from(source, &service.address, "POST /score HTTP/1.1", &image).status;
    // Faster than two a second, however busy the machine is.
    eventually("one is too many", || score("127.0.0.4") == 429);
    assert_eq!(score("127.0.0.5"), 200);
    for i in 0..20 {
        place.frame(&format!("{i:02}.png"), &picture("six"));
    }
    eventually("the camera's frames are scored", || service.metric("nae_frames_total{origin=\"Source\"}") >= 20.0);
    assert_eq!(service.metric("nae_frames_dropped_total"), 0.0);
    // To look is not limited.
    for _ in 0..50 {
        assert_eq!(ask_from("127.0.0.4", &service.address, "GET /api/state HTTP/1.1", "").status, 200);
    }
    assert_eq!(service.metric("nae_limited_total{limit=\"Changes\"}"), 1.0);
    assert!(service.metric("nae_limited_total{limit=\"Scores\"}") >= 1.0);
}

/// Where no token is asked for, everything is of this machine, and goes on as fast as it can.
#[test]
fn without_a_token_there_is_no_limit_unless_one_is_set() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    for _ in 0..300 {
        assert_eq!(service.change("/api/resume", "{}").status, 200);
    }
    for _ in 0..300 {
        assert_eq!(service.post("/score", &picture("six")).status, 200);
    }
    assert_eq!(service.metric("nae_limited_total{limit=\"Scores\"}"), 0.0);
}
