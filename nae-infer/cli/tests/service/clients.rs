//! Requests of all kinds, good, bad, slow and many.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nae_infer::image::ImageFormat;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::harness::{PATIENCE, Place, Service, eventually, models, picture, slow_tests_are_asked_for};

#[test]
fn an_image_is_scored_as_on_the_command_line() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let detector = nae_infer::Detector::open(models().join("digits.onnx")).unwrap();
    for (name, verdict) in [("six", "normal"), ("checkerboard", "anomaly")] {
        let answer = service.post("/score", &picture(name));
        assert_eq!((answer.status, answer.kind.as_str()), (200, "application/json"));
        let answer = answer.json();
        let expected = detector.score(&nae_infer::image::load_from_memory(&picture(name)).unwrap()).unwrap();
        assert_eq!(answer["verdict"], verdict);
        assert_eq!(answer["energy"].as_f64().unwrap() as f32, expected.energy);
        assert_eq!(answer["p_value"].as_f64().unwrap() as f32, expected.p_value.unwrap());
        assert_eq!(answer["regions"].as_array().unwrap().is_empty(), verdict == "normal");
    }
    for format in [ImageFormat::Bmp, ImageFormat::Tiff, ImageFormat::WebP] {
        let mut bytes = std::io::Cursor::new(Vec::new());
        nae_infer::image::load_from_memory(&picture("six")).unwrap().to_rgb8().write_to(&mut bytes, format).unwrap();
        let answer = service.post("/score", &bytes.into_inner());
        assert_eq!((answer.status, &answer.json()["verdict"]), (200, &json!("normal")), "{format:?}");
    }
    let heat = service.post("/score/heat-map", &picture("checkerboard"));
    assert_eq!(heat.kind, "image/png");
    assert_eq!(nae_infer::image::load_from_memory(&heat.body).unwrap().width(), 16);
    assert_eq!(service.metric("nae_frames_total{origin=\"Request\"}"), 6.0);
    assert_eq!(service.metric("nae_anomalies_total{origin=\"Request\"}"), 2.0);
}

#[test]
fn what_is_not_an_image_is_refused_with_the_reason() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--max-body", "1"]);
    let six = picture("six");
    for (body, status, reason) in [
        (b"".as_slice(), 415, "not an image"),
        (b"GIF89a and so on", 415, "not an image"),
        // A bitmap of 30,000 x 30,000 pixels that has none.
        (b"BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x30\x75\0\0\x30\x75\0\0\x01\0\x18\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 413, "30000×30000"),
        (&six[..40], 415, "not an image"),
        (b"P5 0 0 255\n", 422, "expected an image from 1×1"),
        // A kilobyte that claims to be a picture of gigabytes.
        (b"P6 30000 30000 255\n", 413, "at most 36 million pixels"),
        (b"P5 6001 6000 255\n", 413, "`max_megapixels`"),
        (b"P5 6000 6000 255\n", 415, "not an image"),
    ] {
        let (found, said) = service.post("/score", body).problem();
        assert!(found == status && said.contains(reason), "{found} {said}");
    }
    assert_eq!(service.post("/score/heat-map", b"P5 6001 6000 255\n").status, 413);
    let mut client = TcpStream::connect(&service.address).unwrap();
    client.write_all(b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("larger than 1024 KiB"), "{answer}");
    // Neither too large nor whole.
    let mut client = TcpStream::connect(&service.address).unwrap();
    client
        .write_all(b"POST /score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("the request broke off: "), "{answer}");
    assert_eq!(service.get("/score").status, 405);
    assert_eq!(service.get("/nothing").problem(), (404, "there is nothing here; see /openapi.json".into()));
    for path in [
        "/api/alarms/1/image",
        "/api/latest/image",
        "/api/alarms/..%2f..%2fetc/image",
        "/api/alarms/x/image",
        "/api/alarms/-1/heat-map",
        "/api/cameras/camera/alarms/%FF/image",
        "/api/learn/frames/x/image",
        "/api/learn/frames/99999999999/thumbnail",
        "/v2/models/%FF",
        "/v2/models/%FF/ready",
        "/v2/models/digits/versions/%FF/config",
    ] {
        let answer = service.get(path);
        assert_eq!(answer.kind, "application/json", "{path}");
        let (status, said) = answer.problem();
        assert!(matches!(status, 400 | 404) && !said.is_empty(), "{path}: {status} {said}");
    }
    assert_eq!(service.post("/score", &six).status, 200, "and it goes on");
}

/// A client that still sends its body when it is refused gets the reason, not a broken connection, and may go on by the same one.
#[test]
fn who_is_refused_before_everything_is_sent_is_told_why() {
    const LENGTH: usize = 300_000;
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    for (path, host, status) in [("/nothing", "localhost", 404), ("/score", "evil.example", 421)] {
        let mut client = TcpStream::connect(&service.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {LENGTH}\r\n");
        client.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        for _ in 0..30 {
            thread::sleep(Duration::from_millis(10));
            client.write_all(&[b'P'; LENGTH / 30]).unwrap();
        }
        client.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        let refused = format!("HTTP/1.1 {status}");
        assert!(answers.starts_with(&refused) && answers.contains("HTTP/1.1 200"), "{answers}");
        // Who asks first whether to send it is told not to.
        let mut client = TcpStream::connect(&service.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&refused), "{answer}");
    }
}

/// Where a JSON value is not as a schema of the description says. Without that, each field has to be there that a schema
/// requires, and in the schema each that is there: the description would not tell of it otherwise.
fn differences(value: &Value, schema: &Value, description: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = description.pointer(name.trim_start_matches('#')).unwrap();
        return differences(value, schema, description, at);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let of_each = options.iter().map(|option| differences(value, option, description, at));
        return of_each.min_by_key(Vec::len).unwrap_or_default();
    }
    let mut found = Vec::new();
    let kinds: &[&str] = match value {
        Value::Null => &["null"],
        Value::Bool(_) => &["boolean"],
        Value::Number(number) if number.is_f64() => &["number"],
        Value::Number(_) => &["number", "integer"],
        Value::String(_) => &["string"],
        Value::Array(_) => &["array"],
        Value::Object(_) => &["object"],
    };
    let types = match &schema["type"] {
        Value::Null => Vec::new(),
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    if !types.is_empty() && !types.iter().any(|kind| kinds.contains(kind)) {
        found.push(format!("{at}: {value} is not of {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        found.push(format!("{at}: {value} is not of {}", schema["enum"]));
    }
    let items = value.as_array().into_iter().flatten();
    found.extend(items.flat_map(|item| differences(item, &schema["items"], description, &format!("{at}[]"))));
    let (Some(fields), Some(properties)) = (value.as_object(), schema["properties"].as_object()) else { return found };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            found.push(format!("{at}: there is no `{name}`"));
        }
    }
    for (name, value) in fields {
        match properties.get(name) {
            Some(schema) => found.extend(differences(value, schema, description, &format!("{at}.{name}"))),
            None => found.push(format!("{at}: the description does not have `{name}`")),
        }
    }
    found
}

#[test]
fn answers_and_events_are_as_they_are_described() {
    let place = Place::new();
    let regions = r#"[{"kind": "ignore", "name": "road", "vertices": [[0, 0], [0.1, 0], [0.1, 0.1]]}]"#;
    let source = place.source();
    let arguments =
        ["--source", &source, "--alarm-raise", "1", "--alarm-clear", "0", "--queue", "100", "--regions", regions];
    let service = Service::start(&place.state(), &[&arguments[..], &["--night-brightness", "0.5-1"]].concat());
    let description = service.get("/openapi.json").json();
    let events = service.events();
    assert_eq!(service.change("/api/learn/collect", r#"{"min_distance": 0}"#).status, 200);
    place.frame("a.png", b"no image");
    for name in ["six", "checkerboard"] {
        place.frame(&format!("{name}.png"), &picture(name));
    }
    eventually("an alarm is raised", || service.metric("nae_alarms_total") == 1.0);
    eventually("they are collected", || service.get("/api/learn").json()["kept"] == 2);
    for (path, body) in [
        ("/api/false-positive-rate", r#"{"false_positive_rate": 0.02}"#),
        ("/api/undo", "{}"),
        ("/api/reload", "{}"),
        ("/api/pause", r#"{"minutes": 1}"#),
        ("/api/resume", "{}"),
        ("/api/learn/stop", "{}"),
        ("/api/learn/throw-out", r#"{"frames": [1]}"#),
        ("/api/regions", r#"{"regions": []}"#),
        ("/api/regions/reset", "{}"),
        ("/api/day-night", r#"{"by": "schedule", "night": "22:00-06:00"}"#),
        ("/api/day-night/reset", "{}"),
    ] {
        let answer = service.change(path, body);
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        let schema = &description["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{path}");
        assert_eq!(differences(&answer.json(), schema, &description, path), [""; 0]);
    }
    eventually("the history has it", || {
        !service.get("/api/history/interval").json()["alarms"].as_array().unwrap().is_empty()
    });
    let mut looked = 0;
    for (path, operations) in description["paths"].as_object().unwrap() {
        let schema = &operations["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        if !schema.is_object() {
            continue;
        }
        let asked = path.replace("{camera}", "camera").replace("{model}", "digits");
        let version = || service.get("/v2/models/digits").json()["versions"][0].as_str().unwrap().to_owned();
        let asked = if asked.contains("{version}") { asked.replace("{version}", &version()) } else { asked };
        let query = if path.ends_with("what-if") { "?false_positive_rate=0.02" } else { "" };
        let answer = service.get(&format!("{asked}{query}"));
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(differences(&answer.json(), schema, &description, path), [""; 0]);
        looked += 1;
    }
    assert!(looked > 30, "{looked}");
    let told: Vec<_> = events.try_iter().collect();
    let kinds = ["frame", "unreadable", "alarm", "alarms", "regions", "model", "day_night"];
    let missing = kinds.iter().filter(|kind| told.iter().all(|event| event["event"] != **kind));
    assert_eq!(missing.collect::<Vec<_>>(), [&""; 0]);
    for event in told {
        let schema = &description["components"]["schemas"]["Event"];
        assert_eq!(differences(&event, schema, &description, "/events"), [""; 0]);
    }
}

#[test]
fn everything_of_the_description_is_there() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let description = service.get("/openapi.json").json();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            if path == "/events" {
                continue;
            }
            let path = path.replace("{number}", "0").replace("{model}", "digits").replace("{version}", "0");
            let path = path.replace("{camera}", "camera");
            if method == "parameters" {
                continue;
            }
            let answer = if method == "get" { service.get(&path) } else { service.post(&path, b"") };
            let missing = answer.status == 404 && answer.body.windows(13).any(|w| w == b"/openapi.json");
            assert!(!missing && answer.status != 405, "{method} {path}: {}", answer.status);
        }
    }
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/learn.js", "text/javascript"),
        ("/quiet.js", "text/javascript"),
        ("/regions.js", "text/javascript"),
        ("/history.js", "text/javascript"),
    ] {
        let answer = service.get(path);
        assert!(answer.status == 200 && answer.kind.starts_with(kind), "{path}");
        let text = String::from_utf8(answer.body).unwrap();
        assert!(!text.contains("https://") && !text.contains("http://"), "{path} asks somebody else");
    }
}

#[test]
fn pages_of_other_sites_are_kept_out() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    assert_eq!(service.get_with("/api/state", &[("host", "evil.example:8080")]).status, 421);
    assert_eq!(service.get_with("/api/state", &[("sec-fetch-site", "cross-site")]).status, 403);
    assert_eq!(service.get_with("/api/state", &[("origin", "http://evil.example")]).status, 403);
    assert_eq!(service.post_with("/api/undo", b"{}", &[("content-type", "text/plain")]).status, 415);
    assert_eq!(service.get_with("/api/state", &[("sec-fetch-site", "same-origin")]).status, 200);
}

/// What SECURITY.md says of the page.
#[test]
fn a_browser_runs_nothing_on_the_page_that_is_not_its_own() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    for path in ["/", "/page.js", "/api/state", "/not-there"] {
        let mut stream = TcpStream::connect(&service.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let header = |name: &str| {
            let line = answer.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| *key == name));
            line.unwrap_or_else(|| panic!("{path}: no {name}")).1.to_owned()
        };
        let policy = header("content-security-policy");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"] {
            assert!(policy.split("; ").any(|found| found == part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("x-frame-options"), "DENY", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
    }
}

#[test]
fn with_a_token_only_who_has_it_gets_in() {
    let place = Place::new();
    std::fs::write(place.path("token"), "open sesame\n").unwrap();
    let token = place.path("token").display().to_string();
    let service = Service::start(&place.state(), &["--token-file", &token]);
    let with = |text| service.get_with("/api/state", &[("authorization", text)]).status;
    assert_eq!((with("Bearer open sesame"), with("Bearer open"), with("open sesame")), (200, 401, 401));
    assert_eq!((with("bearer open sesame"), with("bearer open")), (200, 401));
    let kind = ("content-type", "Application/JSON; charset=utf-8");
    let headers = [("authorization", "BEARER open sesame"), kind];
    assert_eq!(service.post_with("/api/resume", b"{}", &headers).status, 200);
    for path in [
        "/api/state",
        "/api/latest/image",
        "/api/alarms",
        "/events",
        "/v2/models/digits",
        "/v2/models/digits/versions/0",
    ] {
        assert_eq!(service.get(path).status, 401, "{path}");
    }
    assert_eq!(service.post("/score", &picture("six")).status, 401);
    assert_eq!(service.change("/api/reload", "{}").status, 401);
    for path in ["/", "/page.js", "/healthz", "/readyz", "/metrics", "/openapi.json"] {
        assert_eq!(service.get(path).status, 200, "{path}");
    }
}

#[test]
fn a_token_does_what_it_is_for_and_nothing_else() {
    let place = Place::new();
    let file = |name: &str| {
        std::fs::write(place.path(name), format!("to {name}\n")).unwrap();
        place.path(name).display().to_string()
    };
    let (operate, score, look) = (file("operate"), file("score"), file("look"));
    let arguments = ["--token-file", &operate, "--score-token-file", &score, "--look-token-file", &look];
    let service = Service::start(&place.state(), &[&arguments[..], &["--source", &place.source()]].concat());
    let status = |method: &str, path: &str, who: &str, body: &[u8]| {
        let authorization = format!("Bearer to {who}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        match method {
            "GET" => service.get_with(path, &headers),
            _ => service.post_with(path, body, &headers),
        }
        .status
    };
    let image = picture("six");
    // What one looks at, what is scored, what changes something; and who may.
    let cases: [(&str, &str, &[u8], &str); 14] = [
        ("GET", "/api/state", b"", "look"),
        ("GET", "/api/cameras", b"", "look"),
        ("GET", "/api/history", b"", "look"),
        ("GET", "/api/alarms", b"", "look"),
        ("GET", "/api/adjustments", b"", "look"),
        ("POST", "/score", &image, "score"),
        ("POST", "/score/heat-map", &image, "score"),
        ("GET", "/v2", b"", "score"),
        ("POST", "/v2/models/digits/infer", b"", "score"),
        ("POST", "/api/reload", b"{}", "operate"),
        ("POST", "/api/false-positive-rate", b"", "operate"),
        ("POST", "/api/undo", b"", "operate"),
        ("POST", "/api/pause", b"{}", "operate"),
        ("POST", "/api/resume", b"{}", "operate"),
    ];
    for (method, path, body, needed) in cases {
        for who in ["look", "score", "operate"] {
            let refused = status(method, path, who, body) == 403;
            assert_eq!(refused, who != needed && who != "operate", "{method} {path} with the token to {who}");
        }
        assert_eq!(status(method, path, "nothing", body), 401, "{method} {path}");
    }
    let may_change = |who: &str| {
        let answer = service.get_with("/api/state", &[("authorization", &format!("Bearer to {who}"))]);
        answer.json()["may_change"].as_bool().unwrap()
    };
    assert!(may_change("operate") && !may_change("look"));
}

#[test]
fn slow_clients_and_deaf_ones_keep_nobody_waiting() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source()]);
    // A hundred that begin a request and say no more, and some that ask for events and never read.
    let mut idle = Vec::new();
    for i in 0..110 {
        let mut client = TcpStream::connect(&service.address).unwrap();
        let begin: &[u8] = match i {
            0..50 => b"POST /score HT",
            50..100 => b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nP5",
            _ => b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n",
        };
        client.write_all(begin).unwrap();
        idle.push(client);
    }
    let started = Instant::now();
    for _ in 0..20 {
        assert_eq!(service.post("/score", &picture("six")).status, 200);
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    for i in 0..50 {
        place.frame(&format!("{i:03}.png"), &picture("six"));
    }
    let scored = || service.metric("nae_frames_total{origin=\"Source\"}") + service.metric("nae_frames_dropped_total");
    eventually("the frames are scored, or dropped for newer ones", || scored() >= 50.0);
    // Whoever does not finish the head of a request is sent away.
    let mut first = idle.swap_remove(0);
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    assert!(first.read_to_end(&mut rest).is_ok(), "the connection is closed");
}

/// A connection that comes from this address of loopback.
pub(crate) fn connect_from(address: Ipv4Addr, service: &Service) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&service.address.parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.into()
}

/// One address has a thousand connections and sends a byte a second by each, of a head or a body.
#[test]
fn a_thousand_requests_of_a_byte_a_second_keep_no_other_address_waiting() {
    if !slow_tests_are_asked_for() {
        return;
    }
    const MANY: usize = 1000;
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source()]);
    for _ in 0..100 {
        assert_eq!(service.post("/score", &picture("six")).status, 200);
    }
    let before = service.memory();
    let body = [b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n".as_slice(), &[b'P'; 9000]];
    let texts = [[b"GET /readyz HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 9000]].concat(), body.concat()];
    // The head of the second is whole at once, so that its body is waited for.
    let heads = [5, body[0].len()];
    let begin = Instant::now();
    let mut clients: Vec<_> = (0..MANY)
        .map(|i| {
            let mut client = connect_from(Ipv4Addr::new(127, 0, 0, 2), &service);
            let _ = client.write_all(&texts[i % 2][..heads[i % 2]]);
            client.set_nonblocking(true).unwrap();
            Some(client)
        })
        .collect();
    let (mut answered, mut slowest, mut most) = (0, Duration::ZERO, 0);
    for second in 0..45 {
        thread::sleep(Duration::from_secs(second).saturating_sub(begin.elapsed()));
        for (i, client) in clients.iter_mut().enumerate() {
            let at = heads[i % 2] + second as usize;
            let is_open = client.as_mut().is_some_and(|client| {
                // What is answered, or an end.
                let read = client.read(&mut [0; 1000]);
                read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
                    && client.write_all(&texts[i % 2][at..=at]).is_ok()
            });
            if !is_open {
                *client = None;
            }
        }
        place.frame(&format!("{second:02}.png"), &picture("six"));
        for _ in 0..4 {
            let asked = Instant::now();
            assert_eq!(service.post("/score", &picture("six")).status, 200);
            slowest = slowest.max(asked.elapsed());
            answered += 1;
        }
        most = most.max(service.memory());
    }
    let left = clients.iter().flatten().count();
    // The last frame was written some milliseconds ago: it may not have been looked at yet.
    let frames = || service.metric("nae_frames_total{origin=\"Source\"}");
    let dropped = || service.metric("nae_frames_dropped_total");
    eventually("the frames are scored, or dropped for newer ones", || frames() + dropped() >= 45.0);
    let (frames, dropped) = (frames(), dropped());
    println!(
        "{MANY} slow requests: {answered} others answered, the slowest in {slowest:?}; {frames} frames scored, {dropped} dropped; \
         memory from {before} to {most} KiB"
    );
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert_eq!((left, frames), (0, 45.0), "all slow ones have been sent away");
    assert!(most < before + 32_768, "{before} to {most} KiB");
    // Half of the places.
    assert_eq!(service.metric("nae_limited_total{limit=\"Connections\"}"), (MANY - 256) as f64);
}

/// Whoever asks for more and more and takes none of it would have a place for ever.
#[test]
fn who_takes_no_answer_is_sent_away() {
    if !slow_tests_are_asked_for() {
        return;
    }
    const REQUESTS: usize = 2000;
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let size = service.get("/openapi.json").body.len();
    let mut client = connect_from(Ipv4Addr::LOCALHOST, &service);
    client.write_all(&b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(REQUESTS)).unwrap();
    thread::sleep(Duration::from_secs(35));
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut got = Vec::new();
    // The connection is cut.
    let _ = client.read_to_end(&mut got);
    assert!(got.len() < REQUESTS * size / 2, "{} of {} bytes", got.len(), REQUESTS * size);
}

#[test]
fn what_has_begun_is_done_when_the_service_stops() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let address = service.address.clone();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let address = address.clone();
            thread::spawn(move || {
                let (mut answered, mut cut) = (0, 0);
                while let Ok(mut stream) = TcpStream::connect(&address) {
                    let body = picture("six");
                    let head = format!(
                        "POST /score HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    );
                    // The connection may have been waiting to be taken when the service stopped.
                    if stream.write_all(&[head.as_bytes(), &body].concat()).is_err() {
                        break;
                    }
                    let mut answer = Vec::new();
                    match stream.read_to_end(&mut answer) {
                        Ok(_) if answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"}") => answered += 1,
                        Ok(0) | Err(_) => break,
                        _ => cut += 1,
                    }
                }
                (answered, cut)
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    let (mut answered, mut cut) = (0, 0);
    for client in clients {
        let (more_answered, more_cut) = client.join().unwrap();
        answered += more_answered;
        cut += more_cut;
    }
    assert!(answered > 8, "{answered} answered");
    assert_eq!(cut, 0, "answers that broke off, of {answered}");
}

#[test]
fn wrong_settings_are_told_all_at_once_and_nothing_is_started() {
    let place = Place::new();
    let error = |arguments: &[&str]| {
        Service::try_start(&models().join("digits.onnx"), &place.state(), arguments).map(drop).unwrap_err()
    };
    let said = error(&["--source", "ftp://x", "--queue", "0", "--alarm-hours", "Mon-Fri 7-19"]);
    assert!(said.contains("3 settings are wrong") && said.contains("folder:DIR"), "{said}");
    assert!(said.contains("flag --alarm-hours: `alarm_hours`: expected days and hours such as"), "{said}");
    assert!(error(&["--listen", "0.0.0.0:0"]).contains("token_file"));
    let said = Service::try_start(&place.path("none.onnx"), &place.state(), &[]).map(drop).unwrap_err();
    assert!(said.contains("none.onnx"), "{said}");
}

#[test]
fn an_address_that_is_taken_is_named_with_the_cause() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = Service::try_start(&models().join("digits.onnx"), &place.state(), &["--listen", &address])
        .map(drop)
        .unwrap_err();
    let line = said.lines().find(|line| line.starts_with("error:")).unwrap_or_else(|| panic!("{said}"));
    for part in [address.as_str(), "in use"] {
        assert_eq!(line.matches(part).count(), 1, "{part}: {line}");
    }
}

#[test]
fn health_is_asked_from_the_command_line() {
    let ask = |url: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_nae-infer")).args(["health", url]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let url = service.url("/");
    assert_eq!(ask(&url), (Some(0), String::new()));
    drop(service);
    let (code, said) = ask(&url);
    assert!(code == Some(1) && said.contains(&format!("{url}readyz")), "{said}");

    // One that answers, and is not ready.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 512];
        let read = client.read(&mut request).unwrap();
        assert!(request[..read].starts_with(b"GET /readyz "));
        client.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy").unwrap();
    });
    let (code, said) = ask(&url);
    answering.join().unwrap();
    assert!(code == Some(1) && said.ends_with("503 Service Unavailable: busy\n"), "{said}");
}
