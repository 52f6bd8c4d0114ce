//! Errors are whole and say nothing twice: what an error prints, it does not give as its source.
#![allow(clippy::unwrap_used)]

use std::error::Error;
use std::path::Path;

use nae_infer::Detector;
use nae_infer::input;

/// The error's text; fails where a source's text is part of it.
fn text(error: &dyn Error) -> String {
    let text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        assert!(!text.contains(&cause.to_string()), "{text} repeats {cause}");
        source = cause.source();
    }
    text
}

#[test]
fn every_error_names_the_file_and_the_cause_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let open = |path: &Path| text(&Detector::open(path).map(drop).unwrap_err());
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/digits");
    let whole = std::fs::read(models.join("digits-int8.nae")).unwrap();

    for (said, name, cause) in [
        (open(&folder.path().join("none.onnx")), "none.onnx", "No such file"),
        (open(&file("text.onnx", b"no model")), "text.onnx", "not"),
        (open(&file("cut.nae", &whole[..whole.len() - 4])), "cut.nae", "length"),
        (text(&input::read(&file("cut.png", b"\x89PNG\r\n\x1a\n")).unwrap_err()), "cut.png", "expected a PNG"),
        (
            text(&input::read(folder.path()).unwrap_err()),
            folder.path().file_name().unwrap().to_str().unwrap(),
            "directory",
        ),
    ] {
        assert_eq!((said.matches(name).count(), said.matches(cause).count()), (1, 1), "{said}");
    }

    let detector = Detector::open(models.join("digits.onnx")).unwrap();
    let nan = vec![f32::NAN; detector.contract().input.len()];
    let said = text(&detector.score_prepared(&nan).unwrap_err());
    assert!(said.contains("NaN or infinite"), "{said}");
}
