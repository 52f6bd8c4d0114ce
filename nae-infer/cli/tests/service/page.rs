//! The page in a browser, with a camera that shows something strange.

use std::io::Write as _;
use std::process::Command;

use crate::browser::{Browser, chromium};
use crate::camera::jpeg;
use crate::harness::{Place, Service, eventually, model, picture};

/// What the page at `url` has become after some seconds.
fn browse(url: &str) -> Option<String> {
    let chromium = chromium()?;
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=6000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(url)
        .output()
        .unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_browser_shows_frame_alarm_and_model() {
    let place = Place::new();
    // Room for all: a busy machine would drop one.
    let service = Service::start(&place.state(), &["--source", &place.source(), "--queue", "6"]);
    for i in 0..6 {
        place.frame(&format!("<b>{i}.png"), &picture(if i < 2 { "six" } else { "checkerboard" }));
    }
    eventually("the frames are scored", || service.get("/api/state").json()["latest"]["number"] == 6);
    let Some(page) = browse(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    for part in [
        ">Alarm</p>",
        ">camera connected</p>",
        "frame 6, &lt;b&gt;5.png",
        "The frame of alarm 0",
        "Conv×5",
        "The last hour would have had 4 anomalies",
        "img id=\"image\" alt=\"The last frame\" src=\"blob:",
    ] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
    assert!(!page.contains("<b>"), "a name is text");
}

/// All of them, and one by the part of the address after its #.
#[test]
fn a_browser_shows_several_cameras_and_each_of_them() {
    let place = Place::new();
    let folder = |name: &str| {
        std::fs::create_dir(place.path(name)).unwrap();
        format!("[[camera]]\nname = \"{name}\"\nsource = \"folder:{}\"\n", place.path(name).display())
    };
    let lost = "[[camera]]\nname = \"shed\"\nsource = \"http://127.0.0.1:9/video\"\n";
    let settings = format!(
        "model = \"{}\"\nalarm_raise = 1\nalarm_clear = 0\n{}{}{lost}",
        model().display(),
        folder("gate"),
        folder("yard")
    );
    std::fs::write(place.path("gate/a.png"), picture("six")).unwrap();
    std::fs::write(place.path("yard/b.png"), picture("checkerboard")).unwrap();
    let service = Service::with_cameras(&place, &settings, &[]).unwrap();
    eventually("the frames are scored", || {
        ["gate", "yard"].iter().all(|name| service.camera(name)["latest"]["number"] == 1)
    });
    eventually("the third is lost", || service.camera("shed")["source_state"] == "lost");
    let Some(page) = browse(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    for part in [
        ">1 alarm</p>",
        ">1 of 3 cameras lost</p>",
        "<a href=\"#gate\" class=\"card\">",
        "<a href=\"#yard\" class=\"card bad anomaly\">",
        "<img alt=\"The last frame of yard\" src=\"blob:",
        "<a href=\"#shed\" class=\"card lost\">",
        "<h2>shed</h2>",
        ">No frame yet</p></a>",
        "<main id=\"watch\" hidden=\"\">",
        "<main id=\"all\">",
    ] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
    let page = browse(&service.url("/#yard")).unwrap();
    for part in [
        ">Alarm</p>",
        "<p id=\"name\" class=\"name\">yard</p>",
        "<a id=\"back\" href=\"#\">",
        "frame 1, b.png",
        "The frame of alarm 0",
        "img id=\"image\" alt=\"The last frame\" src=\"blob:",
        "<main id=\"watch\">",
        "<main id=\"all\" hidden=\"\">",
    ] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
    assert!(!page.contains("a.png"), "that is the other camera's");
}

/// "Normal" is said only while frames are scored.
#[test]
fn a_browser_says_that_frames_are_not_scored() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source()]);
    let failure = || service.get("/api/state").json()["failure"].clone();
    place.frame("a.png", &picture("six"));
    eventually("a frame is scored", || service.get("/api/state").json()["latest"]["number"] == 1);
    assert!(failure().is_null());
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    page.wait_text("alarm", "Normal");
    place.frame("b.png", b"no image");
    page.wait_text("alarm", "not scored");
    page.wait_text("energy", "–");
    page.wait_text("reason", "not an image");
    assert!(failure().as_str().unwrap().contains("not an image"));
    assert_eq!(service.get("/api/cameras").json()[0]["failure"], failure());
    page.value("location.reload()");
    page.wait_text("alarm", "not scored");
    place.frame("c.png", &picture("six"));
    page.wait_text("alarm", "Normal");
    assert!(failure().is_null());
}

/// Nobody watches any more, and the last frame stays as it was.
#[test]
fn a_browser_says_that_a_source_has_ended() {
    let place = Place::new();
    let mut service = Service::start(&place.state(), &["--source", "-", "--source-timeout", "60"]);
    let mut input = service.stdin();
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    page.wait_text("alarm", "not watched");
    input.write_all(&jpeg("six")).unwrap();
    page.wait_text("alarm", "Normal");
    drop(input);
    page.wait_text("source", "camera ended");
    page.wait_text("alarm", "not watched");
    page.value("location.reload()");
    page.wait_text("alarm", "not watched");
    page.wait_text("reason", "The source has ended.");
    // The picture is not taken for the camera's view.
    assert_eq!(page.value("document.getElementById('live').className"), "old");
    page.value("state.taken -= 3600000");
    page.wait_text("age", "1 h ago");
}

/// Without a source nothing is watched.
#[test]
fn a_browser_says_that_there_is_no_source() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", "none"]);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    page.wait_text("alarm", "not watched");
    page.wait_text("reason", "no source");
}

/// Other names of the same regions do not end an alarm, and the page does not say that they do.
#[test]
fn a_browser_shows_an_alarm_until_it_ends() {
    let place = Place::new();
    let service =
        Service::start(&place.state(), &["--source", &place.source(), "--alarm-raise", "1", "--alarm-clear", "0"]);
    place.frame("a.png", &picture("checkerboard"));
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    page.wait_text("alarm", "Alarm");
    // As the service says that regions have changed.
    page.value("happened({event: 'regions'})");
    assert_eq!(service.change("/api/regions", r#"{"regions": []}"#).status, 200);
    place.frame("b.png", b"no image");
    page.wait_text("energy", "–");
    assert_eq!(service.get("/api/state").json()["alarm"], true);
    assert_eq!(page.value("document.getElementById('alarm').textContent"), "Alarm");
    // A file that cannot be had is not saved as if it were one.
    page.value("token.value = 'unused'");
    page.value("save(new Event('click'), own('/learn/report'), 'report.html', 'learn-problem').catch(console.warn)");
    page.wait_text("learn-problem", "report.html was not saved: ");
}

/// A computer that is switched off, or a process that hangs, does not close a connection.
#[test]
fn a_browser_notices_that_the_service_is_silent() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source()]);
    place.frame("a.png", &picture("six"));
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    page.wait_text("alarm", "Normal");
    page.value("Object.assign(patience, { answer: 1500, event: 3000 })");
    // From this event on, the page waits no longer than that.
    place.frame("b.png", &picture("six"));
    page.wait_text("frame", "frame 2");
    service.signal("STOP");
    page.wait_text("alarm", "no connection");
    let shown = "['source', 'energy'].map((id) => element(id).textContent).concat(document.title, element('live').className).join()";
    assert_eq!(page.value(shown), ",–,no connection – nae-infer,old");
    service.signal("CONT");
    page.wait_text("alarm", "Normal");
    assert_eq!(page.value("element('live').className"), "");
    page.wait_text("source", "camera connected");
}

#[test]
fn a_browser_asks_for_the_token() {
    let place = Place::new();
    std::fs::write(place.path("token"), "secret").unwrap();
    let token = place.path("token").display().to_string();
    let service = Service::start(&place.state(), &["--token-file", &token]);
    let Some(page) = browse(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    assert!(page.contains("<form id=\"login\">"), "{page}");
    assert!(page.contains("<main id=\"watch\" hidden=\"\">"), "{page}");
}

/// The token is right, and there is nothing that the page could show with it.
#[test]
fn a_browser_says_that_a_token_is_for_scoring_only() {
    let place = Place::new();
    let flags = place.three_tokens();
    let service = Service::start(&place.state(), &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    eventually("the form", || page.value("document.getElementById('login')?.hidden ?? true") == false);
    page.value("element('token').value = 'score-token'");
    page.value("element('login').requestSubmit()");
    page.wait_text("login-problem", "this token is not for looking at cameras");
    assert_eq!(page.value("element('login').hidden"), false);
    page.value("element('token').value = 'look-token'");
    page.value("element('login').requestSubmit()");
    eventually("the camera", || page.value("element('watch').hidden") == false);
    assert_eq!(page.value("element('login').hidden"), true);
}

/// Frames, one of them thrown out, and two models side by side.
#[test]
fn a_browser_shows_what_is_learned() {
    let place = Place::new();
    let service = Service::start(&place.state(), &["--source", &place.source(), "--nae-train", "no-such-program"]);
    let learning = || service.get("/api/learn").json();
    let act = |action: &str, body: &str| {
        let answer = service.change(&format!("/api/learn/{action}"), body);
        assert_eq!(answer.status, 200, "{action}: {}", String::from_utf8_lossy(&answer.body));
    };
    act("collect", r#"{"minutes": 10}"#);
    for (number, name) in (1..).zip(["six", "checkerboard", "zero"]) {
        place.frame(&format!("{number}.png"), &picture(name));
        eventually("it is kept", || learning()["kept"] == number);
    }
    act("stop", "{}");
    act("throw-out", r#"{"frames": [2]}"#);
    let Some(page) = browse(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    for part in [
        "Frames are collected. Look through them",
        "2 frames kept of 3 seen",
        "1 thrown out.",
        "<button type=\"button\" class=\"out\" title=\"thrown out: bring back\" aria-pressed=\"true\"><img alt=\"Frame 2\" src=\"blob:",
        "<img alt=\"Frame 3\" src=\"blob:",
        "<button id=\"learn-train\" type=\"button\" data-action=\"train\" disabled=\"\">",
        "<span id=\"learn-here\">nae-train is not on this machine.",
        "nae-train --data frames.tar --time-budget 600s --export model.onnx",
        "href=\"/api/cameras/camera/learn/frames.tar\"",
        "<p class=\"row\" data-learn=\"stop\" hidden=\"\">",
        "<p id=\"chart-note\" class=\"faint\" hidden=\"\">",
    ] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
    let other = std::fs::read(model().with_file_name("digits.nae")).unwrap();
    let taken = service.post_with("/api/learn/take-model", &other, &[("content-type", "application/octet-stream")]);
    assert_eq!(taken.status, 200);
    act("shadow", "{}");
    place.frame("4.png", &picture("checkerboard"));
    eventually("both have scored it", || learning()["shadow"]["frames"] == 1);
    let page = browse(&service.url("/")).unwrap();
    for part in [
        "The new model scores beside the model in use, and raises no alarm.",
        "Of 1 frames the model in use calls 1 anomalies, the new one 1; on 0 they differ.",
        "Each energy is shown as a multiple of its own model's threshold.",
        "<span data-learn=\"end-shadow\"><button",
        "<span data-learn=\"shadow\" hidden=\"\">",
        "<p class=\"row\" data-learn=\"delete\" hidden=\"\">",
    ] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
}
