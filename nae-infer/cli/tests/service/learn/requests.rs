//! Who may do what, when, and with which numbers.

use super::{act, hanging_disk, phase, start, start_with};
use crate::harness::{PATIENCE, Place, eventually};

#[test]
fn what_cannot_be_done_now_is_refused_with_what_can() {
    let place = Place::new();
    let service = start(&place);
    for action in ["stop", "train", "cancel", "delete", "shadow", "end-shadow", "swap", "roll-back"] {
        let body = if action == "train" { r#"{"minutes": 1}"# } else { "{}" };
        let (code, said) = service.change(&format!("/api/learn/{action}"), body).problem();
        assert_eq!(code, 409, "{action}");
        let possible = "is not possible while learning is `idle`; possible now: collect, take-model";
        assert_eq!(said, format!("`{action}` {possible}"));
    }
    for (action, body, part) in [
        ("collect", r#"{"minutes": -1}"#, "`minutes`: expected a number from 0.01"),
        ("collect", r#"{"frames": 0}"#, "`frames`"),
        ("collect", r#"{"min_distance": 1e99}"#, ""),
        ("collect", r#"{"hours": 1}"#, "unknown field"),
        ("train", r#"{"minutes": 1e9}"#, "`minutes`"),
        ("throw-out", r#"{"frames": ["../x"]}"#, ""),
    ] {
        let (code, said) = service.change(&format!("/api/learn/{action}"), body).problem();
        assert!(code == 400 && said.contains(part), "{action} {body}: {code} {said}");
    }
    // What a form of another site's page could send.
    assert_eq!(service.post("/api/learn/collect", b"{}").status, 415);
    assert_eq!(service.post_with("/api/learn/take-model", b"x", &[("content-type", "text/plain")]).status, 415);
    let garbage = [("content-type", "application/octet-stream")];
    assert_eq!(service.post_with("/api/learn/take-model", b"garbage", &garbage).status, 422);
    assert_eq!(phase(&service), "idle");
    assert_eq!(service.get("/api/learn/report").status, 404);
}

#[test]
fn looking_at_frames_is_for_who_may_look_and_the_rest_for_who_may_change() {
    let place = Place::new();
    let tokens = place.three_tokens();
    let service = start_with(&place, &tokens.iter().map(String::as_str).collect::<Vec<_>>());
    let with =
        |token: &str| [("authorization", format!("Bearer {token}")), ("content-type", "application/json".into())];
    let ask = |token: &str, path: &str| {
        let headers = with(token);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let looks = !["collect", "stop", "throw-out", "bring-back", "delete", "train", "cancel", "take-model"]
            .into_iter()
            .chain(["shadow", "end-shadow", "swap", "roll-back"])
            .any(|action| path.ends_with(action));
        let path = format!("/api/learn{path}");
        if looks { service.get_with(&path, &headers).status } else { service.post_with(&path, b"!", &headers).status }
    };
    for path in ["", "/frames", "/frames.tar", "/frames/1/image", "/frames/1/thumbnail", "/report", "/energies"] {
        let expected = if path.contains("/1/") || path == "/report" { 404 } else { 200 };
        let found = ["token", "look-token", "score-token", "wrong"].map(|token| ask(token, path));
        assert_eq!(found, [expected, expected, 403, 401], "{path}");
    }
    for path in ["/collect", "/stop", "/throw-out", "/bring-back", "/delete", "/train", "/cancel", "/take-model"]
        .into_iter()
        .chain(["/shadow", "/end-shadow", "/swap", "/roll-back"])
    {
        let expected = if path == "/take-model" { 415 } else { 400 };
        let found = ["token", "look-token", "score-token", "wrong"].map(|token| ask(token, path));
        assert_eq!(found, [expected, 403, 403, 401], "{path}");
    }
}

/// Whoever wants a change of which nobody can say where it came from would only have to hang up.
#[test]
fn a_change_is_in_the_log_also_if_its_client_does_not_wait_for_the_answer() {
    let place = Place::new();
    let service = start(&place);
    act(&service, "collect", "{}");
    service.wait_log("/api/learn/collect");
    let pipe = hanging_disk(&service, &place);
    let client = service.send("POST /api/learn/stop", "{}");
    let record = place.state().join("learn/state.json");
    let is_stopped = || std::fs::read_to_string(&record).unwrap().contains("collected");
    eventually("the change is made, and waits for the frame", is_stopped);
    drop(client);
    assert!(service.answers("/healthz", PATIENCE), "it sees that the client is gone");
    std::fs::read(pipe).unwrap();
    let line = service.wait_log("/api/learn/stop");
    assert!(line.contains("a change was requested address=127.0.0.1") && line.contains("status=200"), "{line}");
}
