//! The same steps by the buttons of the page.

use serde_json::json;

use super::{collected, numbers, phase, show, start, start_with, trainer_with_model};
use crate::browser::Browser;
use crate::changes::in_use;
use crate::harness::{Place, eventually, picture};

/// The same steps as by HTTP, by the buttons of the page.
#[test]
fn a_camera_learns_by_clicks_on_the_page() {
    let place = Place::new();
    trainer_with_model(&place);
    std::fs::write(place.path("hold"), "").unwrap();
    let service = start(&place);
    let settings = in_use(&service);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    page.click("[data-action=collect]");
    page.wait_text("learn-phase", "0 frames kept of 0 seen. 30 min left.");
    show(&service, &place, "a", (0..4).map(|i| 60 * i));
    page.wait_text("learn-phase", "4 frames kept of 4 seen");
    page.click("[data-action=stop]");
    page.click("#learn-frames li:nth-child(2) button");
    page.wait_text("learn-phase", "3 frames kept of 4 seen");
    assert_eq!(numbers(&service, 2, 1), json!([{"number": 2, "thrown_out": true}]));
    page.click("#learn-frames li:nth-child(1) button");
    page.wait_text("learn-phase", "2 thrown out.");
    page.click("#learn-frames .out");
    page.wait_text("learn-phase", "1 thrown out.");
    page.click("[data-action=train]");
    page.wait_text("learn-phase", "NAE training: 3 of 100 updates.");
    page.wait_text("learn-lines", "data: some images");
    page.click("[data-action=cancel]");
    page.wait_text("learn-note", "training was cancelled");
    std::fs::remove_file(place.path("hold")).unwrap();
    page.click("[data-action=train]");
    page.wait_text("learn-phase", "There is a new model.");
    assert_eq!(page.value("document.getElementById('learn-report').hidden"), false);
    page.click("[data-action=shadow]");
    page.wait_text("learn-phase", "The new model scores beside the model in use");
    place.frame("b.png", &picture("six"));
    page.wait_text("learn-phase", "Of 1 frames the model in use calls 0 anomalies, the new one 0; on 0 they differ.");
    eventually("its energy is on the chart", || page.value("learn.points.length") == 1);
    page.click("[data-action=end-shadow]");
    page.click("[data-action=swap]");
    page.wait_text("learn-phase", "The new model is in use.");
    assert_ne!(in_use(&service), settings);
    page.click("[data-action=roll-back]");
    page.wait_text("learn-phase", "There is a new model.");
    assert_eq!(in_use(&service), settings);
    page.click("[data-action=delete]");
    page.wait_text("learn-phase", "No frames yet.");
    assert_eq!(
        (phase(&service).as_str(), page.value("document.getElementById('learn-problem').textContent")),
        ("idle", json!(""))
    );
}

#[test]
fn who_may_only_look_sees_frames_and_no_buttons() {
    let place = Place::new();
    // Collected before there were tokens.
    collected(&place).kill();
    let files = ["token", "look-token"].map(|name| {
        std::fs::write(place.path(name), name).unwrap();
        place.path(name).display().to_string()
    });
    let service = start_with(&place, &["--token-file", &files[0], "--look-token-file", &files[1]]);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let seen = "[...document.querySelectorAll('#learn button')].filter(b => b.offsetParent && !b.disabled).length";
    let mut with = |token: &str| {
        eventually("the page is there", || page.value("location.pathname") == "/");
        page.value(&format!("sessionStorage.setItem('token', '{token}'); window.before = true; location.reload();"));
        let another = "document.readyState === 'complete' && window.before === undefined";
        eventually("another page is there", || page.value(another) == true);
        page.wait_text("learn-phase", "6 frames kept of 6 seen");
        eventually("its frames too", || page.value("document.querySelectorAll('#learn-frames img[src]').length") == 6);
        page.value(seen).as_u64().unwrap()
    };
    assert_eq!(with("look-token"), 0);
    // A button for each frame, and those to collect and to delete; there is no nae-train.
    assert_eq!(with("token"), 8);
}
