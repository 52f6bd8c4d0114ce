//! With the real `nae-train`, by scans of digits.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::{act, phase, status};
use crate::harness::{Place, Service, eventually, slow_tests_are_asked_for};

/// Scans of digits, 8×8 pixels of 17 levels: `count` of them, every eighth from line `from` on, since neighbours are of one hand.
pub(crate) fn digits(from: usize, count: usize, pixel: impl Fn(u8) -> u8) -> Vec<Vec<u8>> {
    digits_where(|_| true, from, count, pixel)
}

/// Those that stand for one of these numbers.
pub(crate) fn digits_where(
    wanted: impl Fn(&str) -> bool,
    from: usize,
    count: usize,
    pixel: impl Fn(u8) -> u8,
) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/nae-data/digits.csv.gz");
    let output = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let image = |line: &str| {
        let pixels = line.split(',').take(64).map(|value| pixel(value.parse().unwrap()));
        [b"P5 8 8 255\n".to_vec(), pixels.collect()].concat()
    };
    let is_wanted = |line: &&str| wanted(line.rsplit(',').next().unwrap());
    text.lines().skip(from).step_by(8).filter(is_wanted).take(count).map(image).collect()
}

/// The real `nae-train`, where slow tests are asked for.
pub(crate) fn real_trainer() -> Option<PathBuf> {
    if !slow_tests_are_asked_for() {
        return None;
    }
    let beside = || Path::new(env!("CARGO_BIN_EXE_nae-infer")).with_file_name("nae-train");
    let program = std::env::var_os("NAE_TRAIN").map_or_else(beside, PathBuf::from);
    if !program.is_file() {
        eprintln!("not run: {} is not there; build nae-train-cli, or set NAE_TRAIN", program.display());
        return None;
    }
    Some(program)
}

/// From nothing but a camera to a model of what it sees, with the real `nae-train`.
#[test]
fn a_camera_that_sees_digits_has_a_model_of_digits_in_the_end() {
    let Some(program) = real_trainer() else { return };
    let ink = |value: u8| 15 * value;
    let place = Place::new();
    let arguments = ["--source", &place.source(), "--queue", "1000", "--nae-train", program.to_str().unwrap()];
    let service = Service::start(&place.state(), &arguments);
    act(&service, "collect", "{}");
    for (number, image) in (1..).zip(digits(0, 200, ink)) {
        place.frame(&format!("{number:04}.pgm"), &image);
        eventually("it is looked at", || status(&service)["seen"].as_u64() >= Some(number));
    }
    let collected = act(&service, "stop", "{}");
    let kept = collected["kept"].as_u64().unwrap();
    assert!(kept > 150, "digits differ: {kept} of 200");
    act(&service, "train", r#"{"minutes": 0.75}"#);
    let begin = std::time::Instant::now();
    while phase(&service) == "training" {
        assert!(begin.elapsed().as_secs() < 600, "{}", status(&service));
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let trained = status(&service);
    assert_eq!((&trained["phase"], &trained["report"]), (&json!("trained"), &json!(true)), "{trained}");
    let report = String::from_utf8(service.get("/api/learn/report").body).unwrap();
    assert!(report.contains("<html") && !report.contains("<script"), "its policy allows no script");
    act(&service, "shadow", "{}");
    place.frame("shadow.pgm", &digits(7, 1, ink)[0]);
    eventually("both have scored it", || status(&service)["shadow"]["frames"] == 1);
    act(&service, "swap", r#"{"anyway": true}"#);
    let anomalies = |images: &[Vec<u8>]| {
        let is_one = |image: &&Vec<u8>| service.post("/score", image).json()["verdict"] == "anomaly";
        images.iter().filter(is_one).count()
    };
    let (normal, inverted) = (anomalies(&digits(4, 200, ink)), anomalies(&digits(4, 200, |v| 240 - 15 * v)));
    println!(
        "{kept} frames, {} s: anomalies among 200 other digits {normal}, among 200 inverted ones {inverted}",
        begin.elapsed().as_secs()
    );
    assert!(normal <= 60 && inverted >= 180, "{normal} {inverted}");
    act(&service, "roll-back", "{}");
}
