//! Clients that come by a proxy: who is believed to ask for them, and nginx with the settings of the guide.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::alarms::Absent;
use crate::harness::{PATIENCE, Place, Service, eventually, picture};
use crate::limits::ask_from;

fn token(place: &Place) -> String {
    fs::write(place.path("token"), "right").unwrap();
    place.path("token").display().to_string()
}

#[test]
fn only_a_trusted_proxy_is_believed_whom_it_asks_for() {
    let place = Place::new();
    let token = token(&place);
    let arguments = ["--token-file", &token, "--changes-per-minute", "1", "--trusted-proxies", "127.0.0.1, 10.0.0.0/8"];
    let service = Service::start(&place.state(), &arguments);
    let resume = |peer: &str, headers: &str| {
        let head = format!(
            "POST /api/resume HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer right\r\n{headers}"
        );
        ask_from(peer, &service.address, &head, "{}")
    };
    assert_eq!(resume("127.0.0.1", "X-Forwarded-For: 203.0.113.1").status, 200);
    let line = service.wait_log("a change was requested");
    assert!(line.contains("203.0.113.1") && line.contains("/api/resume") && line.contains("200"), "{line}");
    let again = resume("127.0.0.1", "X-Forwarded-For: 203.0.113.1");
    assert!(
        again.status == 429 && again.text.contains("too many changes from 203.0.113.1: 1 a minute"),
        "{}",
        again.text
    );
    // Whatever it says itself, and by however many proxies of ours.
    for headers in [
        "X-Forwarded-For: 198.51.100.7, 203.0.113.1",
        "X-Forwarded-For: 198.51.100.7\r\nX-Forwarded-For: 203.0.113.1, 10.2.3.4",
        "Forwarded: for=198.51.100.7, for=\"203.0.113.1:80\"",
    ] {
        assert_eq!(resume("127.0.0.1", headers).status, 429, "{headers}");
    }
    assert_eq!(resume("127.0.0.1", "X-Forwarded-For: 203.0.113.2").status, 200, "that is somebody else");
    let both = resume("127.0.0.1", "X-Forwarded-For: 203.0.113.3\r\nForwarded: for=203.0.113.4");
    assert!(both.status == 400 && both.text.contains("name different clients"), "{}", both.text);
    // Who is no proxy of ours is himself.
    assert_eq!(resume("127.0.0.9", "X-Forwarded-For: 203.0.113.5").status, 200);
    let line = service.wait_log("not among `trusted_proxies`");
    assert!(line.contains("127.0.0.9"), "{line}");
    assert_eq!(resume("127.0.0.9", "X-Forwarded-For: 203.0.113.6").status, 429);
}

#[test]
fn without_a_token_a_proxy_brings_nobody_in() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--trusted-proxies", "127.0.0.1"]);
    let status = |headers: &str| {
        ask_from("127.0.0.1", &service.address, &format!("GET /api/state HTTP/1.1{headers}"), "").status
    };
    assert_eq!(status("\r\nX-Forwarded-For: 203.0.113.1"), 403);
    assert_eq!(status("\r\nForwarded: for=\"[2001:db8::1]\""), 403);
    assert_eq!(status("\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: cams.example"), 421);
    assert_eq!(status("\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: localhost"), 200);
    assert_eq!(status(""), 200);

    // Of a proxy that is not known, nothing that it says is believed; not even that the client is on this machine.
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let ask = |headers: &str| ask_from("127.0.0.1", &service.address, &format!("GET /api/state HTTP/1.1{headers}"), "");
    for header in ["X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 127.0.0.1", "X-Real-IP: 203.0.113.1", "Via: 1.1 p"]
    {
        let refused = ask(&format!("\r\n{header}"));
        assert!(refused.status == 403 && refused.text.contains("`trusted_proxies`"), "{header}: {}", refused.text);
    }
    assert_eq!(ask("").status, 200);
}

/// nginx, with a block of the guide for the service.
struct Nginx {
    process: Child,
    address: String,
    /// Keeps it from being another's.
    _port: Absent,
}

impl Nginx {
    /// `None` where Debian's is not installed.
    fn start(place: &Place, service: &Service) -> Option<Self> {
        let program = Path::new("/usr/sbin/nginx");
        if !program.exists() {
            eprintln!("skipped: nginx is not installed");
            return None;
        }
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/camera.md");
        let guide = fs::read_to_string(guide).unwrap();
        let server = guide.split("```nginx\n").nth(1).unwrap().split("```").next().unwrap();
        // What the test has none of: a name that others know, and its certificate.
        let server: String =
            server.lines().filter(|line| !line.contains("ssl_")).flat_map(|line| [line, "\n"]).collect();
        let port = Absent::new();
        let address = port.address().to_string();
        let put = |text: String, old: &str, new: &str| {
            assert_eq!(text.matches(old).count(), 1, "{old} in\n{text}");
            text.replace(old, new)
        };
        let server = put(server, "443 ssl", &address);
        let server = put(server, "127.0.0.1:8080", &service.address);
        let folder = place.path("nginx");
        fs::create_dir(&folder).unwrap();
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {}/{name};\n", folder.display()));
        let settings = format!(
            "daemon off;\nmaster_process off;\nuser root;\npid {0}/pid;\nerror_log {0}/errors;\nevents {{}}\n\
             http {{\naccess_log off;\n{1}{server}}}\n",
            folder.display(),
            folders.concat()
        );
        let path = folder.join("nginx.conf");
        fs::write(&path, settings).unwrap();
        let mut nginx = Command::new(program);
        nginx.arg("-e").arg(folder.join("errors")).arg("-p").arg(&folder).arg("-c").arg(&path);
        let this = Self { process: nginx.stderr(Stdio::null()).spawn().unwrap(), address, _port: port };
        eventually("nginx listens", || TcpStream::connect(&this.address).is_ok());
        Some(this)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_client_of_nginx_is_limited_by_its_own_address_whatever_it_says() {
    let place = Place::new();
    let token = token(&place);
    let arguments = ["--token-file", &token, "--changes-per-minute", "1", "--trusted-proxies", "127.0.0.1"];
    let service = Service::start(&place.state(), &[&arguments[..], &["--source", &place.source()]].concat());
    let Some(nginx) = Nginx::start(&place, &service) else { return };
    let resume = |source: &str, made_up: &str| {
        let head = format!(
            "POST /api/resume HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer right\r\n\
             X-Forwarded-For: {made_up}\r\nForwarded: for={made_up}\r\nX-Forwarded-Host: {made_up}"
        );
        ask_from(source, &nginx.address, &head, "{}")
    };
    assert_eq!(resume("127.0.0.4", "203.0.113.1").status, 200);
    let again = resume("127.0.0.4", "203.0.113.2");
    assert!(again.status == 429 && again.text.contains("too many changes from 127.0.0.4"), "{}", again.text);
    assert!(again.header("Retry-After").or(again.header("retry-after")).is_some(), "{}", again.text);
    assert_eq!(resume("127.0.0.5", "127.0.0.4").status, 200, "that is somebody else");

    // An event comes when it happens, not with many others.
    let mut events = TcpStream::connect(&nginx.address).unwrap();
    events.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(events, "GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\n\r\n").unwrap();
    let mut lines = BufReader::new(events).lines().map_while(Result::ok);
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    place.frame("a.png", &picture("six"));
    assert!(lines.any(|line| line.contains("\"event\":\"frame\"")));
}
