//! TLS of the service's own: certificates that expire and are replaced, clients that do not speak it, slow ones.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::clients::connect_from;
use crate::harness::{Clock, PATIENCE, Place, Service, eventually, picture, slow_tests_are_asked_for};
use crate::mosquitto::{authority, certificate};

/// A folder with an authority `ca`, and its certificate for `name`.
fn files(place: &Place, name: &str, days: u32) {
    authority(&place.path(""), "ca");
    certificate(&place.path(""), "ca", name, days);
}

/// A service with the certificate, and these variables.
fn start_with(place: &Place, name: &str, variables: &[(&str, &Path)]) -> Service {
    let [certificate, key] = ["pem", "key"].map(|end| place.path(&format!("{name}.{end}")).display().to_string());
    let arguments = ["--tls-certificate-file", &certificate, "--tls-key-file", &key];
    Service::start_with(&place.state(), &arguments, variables)
}

fn start(place: &Place, name: &str) -> Service {
    start_with(place, name, &[])
}

/// Someone who believes the authority `ca` of the folder, with a connection for each request.
fn client(place: &Place) -> ureq::Agent {
    let authority = Certificate::from_pem(&fs::read(place.path("ca.pem")).unwrap()).unwrap();
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .max_idle_connections(0)
        .tls_config(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[authority])).build())
        .build()
        .into()
}

/// What is answered, or why not.
fn get(client: &ureq::Agent, service: &Service, path: &str) -> Result<String, String> {
    let answer = client.get(format!("https://{}{path}", service.address)).call();
    let mut answer = answer.map_err(|error| error.to_string())?;
    answer.body_mut().read_to_string().map_err(|error| error.to_string())
}

fn is_answered(client: &ureq::Agent, service: &Service) -> bool {
    get(client, service, "/readyz").is_ok()
}

/// Puts a file in another's place, as programs that renew certificates do.
fn replace(place: &Place, new: &str, old: &str) {
    fs::copy(place.path(new), place.path("in-between")).unwrap();
    fs::rename(place.path("in-between"), place.path(old)).unwrap();
}

/// When the certificate in use ends, by its figure.
fn expires(client: &ureq::Agent, service: &Service) -> f64 {
    let metrics = get(client, service, "/metrics").unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("nae_tls_certificate_expires_timestamp_seconds "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_certificate_is_replaced_without_a_restart_and_only_by_one_that_works() {
    let place = Place::new();
    files(&place, "own", 0);
    certificate(&place.path(""), "ca", "new", 2);
    // Of 0 days: it is over with the second in which it was made.
    thread::sleep(Duration::from_millis(1500));
    let service = start(&place, "own");
    let client = client(&place);
    let error = get(&client, &service, "/readyz").unwrap_err();
    assert!(error.to_lowercase().contains("expired"), "{error}");
    let line = service.started.lines().find(|line| line.contains("the certificate has expired")).unwrap();
    assert!(line.contains("own.pem"), "{line}");
    for end in ["pem", "key"] {
        replace(&place, &format!("new.{end}"), &format!("own.{end}"));
    }
    service.wait_log("the certificate was read again and is in use");
    assert!(is_answered(&client, &service));
    let (now, ends) = (SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64(), expires(&client, &service));
    assert!((now + 170_000.0..now + 172_900.0).contains(&ends), "two days from {now}: {ends}");

    let refused = || {
        let metrics = get(&client, &service, "/metrics").unwrap();
        metrics.lines().any(|line| line == "nae_tls_certificate_refused 1")
    };
    assert!(!refused());
    fs::write(place.path("own.pem"), "no certificate").unwrap();
    let line = service.wait_log("the certificate cannot be used");
    assert!(line.contains("own.pem: expected certificates in PEM, found none"), "{line}");
    assert!(refused(), "and it goes on with the one before");
    // One of another key.
    certificate(&place.path(""), "ca", "other", 2);
    replace(&place, "other.pem", "own.pem");
    let line = service.wait_log("the certificate cannot be used");
    assert!(line.contains("own.key is not the key of the first certificate in ") && line.contains("own.pem"), "{line}");
    fs::remove_file(place.path("own.key")).unwrap();
    assert!(service.wait_log("the certificate cannot be used").contains("own.key"));
    assert!(refused());
    replace(&place, "other.key", "own.key");
    service.wait_log("the certificate was read again and is in use");
    assert!(!refused());
}

/// Of ninety days, by a clock that is put ahead.
#[test]
fn that_a_certificate_expires_is_said_before_it_does() {
    const DAY: i64 = 86_400;
    let place = Place::new();
    let Some(clock) = Clock::new(&place) else { return };
    files(&place, "own", 90);
    let service = start_with(&place, "own", &clock.variables());
    assert!(service.started.contains("the certificate holds"), "{}", service.started);
    for (days, said) in [
        (77, "the certificate expires soon"),
        (78, "the certificate expires soon"),
        (91, "the certificate has expired"),
        (0, "the certificate holds"),
        (-1, "the certificate does not hold yet"),
    ] {
        clock.is_wrong_by(days * DAY);
        let line = service.wait_log("the certificate ");
        assert!(line.contains(said), "after {days} days: {line}");
    }
    clock.is_wrong_by(77 * DAY);
    service.wait_log("the certificate expires soon");
    // A renewed one is the end of it.
    certificate(&place.path(""), "ca", "new", 180);
    for end in ["pem", "key"] {
        replace(&place, &format!("new.{end}"), &format!("own.{end}"));
    }
    assert!(service.wait_log("the certificate ").contains("was read again"));
    assert!(service.wait_log("the certificate ").contains("holds"));
}

#[test]
fn the_service_speaks_two_versions_of_tls_and_tells_who_speaks_none() {
    let place = Place::new();
    files(&place, "own", 2);
    let service = start(&place, "own");
    let speaks = |version: &str| {
        Command::new("openssl")
            .args(["s_client", "-connect", &service.address, "-verify_return_error", version, "-CAfile"])
            .arg(place.path("ca.pem"))
            // Else openssl itself would refuse old versions.
            .args(["-cipher", "ALL:@SECLEVEL=0"])
            .stdin(Stdio::null())
            .output()
            .unwrap()
            .status
            .success()
    };
    assert_eq!(["-tls1_3", "-tls1_2", "-tls1_1"].map(speaks), [true, true, false]);

    let mut plain = TcpStream::connect(&service.address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("ask https:// in place of http://"), "{answer}");
    assert!(!answer.to_lowercase().contains("location:"), "{answer}");

    let health = |url: String| Command::new(env!("CARGO_BIN_EXE_nae-infer")).args(["health", &url]).status().unwrap();
    assert!(health(format!("https://{}", service.address)).success());
    assert!(!health(format!("http://{}", service.address)).success());
    // Scored, and all else, as without.
    let image = picture("six");
    let mut answer = client(&place).post(format!("https://{}/score", service.address)).send(&image).unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    assert!(answer.status() == 200 && text.contains("\"verdict\":\"normal\""), "{text}");
    assert!(answer.headers().get("strict-transport-security").is_none());
}

/// Connections that begin TLS and say no more: nothing, or the beginning of a record.
fn begin(service: &Service, number: usize) -> Vec<TcpStream> {
    let one = |i: usize| {
        // No address may have all places.
        let mut stream = connect_from(Ipv4Addr::new(127, 0, 0, 2 + (i % 4) as u8), service);
        if i.is_multiple_of(2) {
            stream.write_all(&[22, 3, 1]).unwrap();
        }
        stream
    };
    (0..number).map(one).collect()
}

#[test]
fn slow_handshakes_keep_nobody_waiting() {
    let place = Place::new();
    files(&place, "own", 2);
    let service = start(&place, "own");
    let client = client(&place);
    let mut idle = begin(&service, 100);
    let started = Instant::now();
    for _ in 0..20 {
        assert!(is_answered(&client, &service));
    }
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    // Who says no more is sent away.
    for mut first in idle.drain(..2) {
        first.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(first.read_to_end(&mut Vec::new()).is_ok(), "the connection is closed");
    }
    let failed = |text: &str| text.lines().any(|line| line == "nae_tls_handshakes_failed_total 100");
    eventually("all are counted", || failed(&get(&client, &service, "/metrics").unwrap()));
    // Nor does the service wait for such to stop.
    let _idle = begin(&service, 10);
    let started = Instant::now();
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[test]
fn handshakes_have_places_of_the_connections() {
    if !slow_tests_are_asked_for() {
        return;
    }
    let place = Place::new();
    files(&place, "own", 2);
    let service = start(&place, "own");
    let started = Instant::now();
    let _idle = begin(&service, 512);
    assert!(is_answered(&client(&place), &service));
    // The first had been sent away by then.
    assert!(started.elapsed() > Duration::from_secs(9), "{:?}", started.elapsed());
}

#[test]
fn files_that_are_no_certificate_are_told_at_the_start() {
    let place = Place::new();
    files(&place, "own", 2);
    certificate(&place.path(""), "ca", "other", 2);
    let error = |certificate: &Path, key: &Path| {
        let [certificate, key] = [certificate, key].map(|path| path.display().to_string());
        let arguments = ["--tls-certificate-file", &certificate, "--tls-key-file", &key];
        Service::without_model(&place.state(), &arguments).map(drop).unwrap_err()
    };
    let said = error(&place.path("own.pem"), &place.path("other.key"));
    assert!(said.contains("other.key is not the key of the first certificate in "), "{said}");
    let said = error(&place.path("own.key"), &place.path("own.key"));
    assert!(said.contains("own.key: expected certificates in PEM, found none"), "{said}");
    let said = error(&place.path("own.pem"), &place.path("own.pem"));
    assert!(said.contains("own.pem: expected a private key in PEM"), "{said}");
    assert!(error(&place.path("none.pem"), &place.path("own.key")).contains("none.pem"));
    let certificate = place.path("own.pem").display().to_string();
    let said = Service::without_model(&place.state(), &["--tls-certificate-file", &certificate]).map(drop).unwrap_err();
    assert!(said.contains("`tls_certificate_file` and `tls_key_file`: give both or none"), "{said}");
}
