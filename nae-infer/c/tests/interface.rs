//! The header is what cbindgen makes of the source; a program in C and one in Python give the library's scores.
#![allow(unsafe_code, clippy::unwrap_used, missing_docs)]

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr::{null, null_mut};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn digits() -> PathBuf {
    here().join("../../models/digits")
}

/// The folder that has the built libraries, and this test.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn images() -> Vec<PathBuf> {
    ["six", "zero", "checkerboard", "half-three"].map(|name| digits().join(format!("images/{name}.png"))).into()
}

/// What the library says of each image: name, energy, p-value, verdict.
fn expected() -> Vec<(String, f32, f32, String)> {
    let detector = nae_infer::Detector::open(digits().join("digits.onnx")).unwrap();
    let scored = |path: &PathBuf| {
        let scored = detector.score(&nae_infer::image::open(path).unwrap()).unwrap();
        let verdict = scored.verdict.unwrap().to_string();
        (path.display().to_string(), scored.energy, scored.p_value.unwrap(), verdict)
    };
    images().iter().map(scored).collect()
}

fn compare(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let found: Vec<_> = text
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].to_owned(), words[1].parse().unwrap(), words[2].parse().unwrap(), words[3].to_owned())
        })
        .collect();
    assert_eq!(found, expected());
}

#[test]
fn the_header_is_the_sources() {
    // By the build script, from the source this test was built with.
    let built = include_str!(concat!(env!("OUT_DIR"), "/nae_infer.h"));
    let path = here().join("nae_infer.h");
    if std::env::var_os("NAE_WRITE_HEADER").is_some() {
        std::fs::write(&path, built).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert_eq!(built, committed, "nae_infer.h is stale: run this test with NAE_WRITE_HEADER=1");
}

#[test]
fn null_is_refused_everywhere() {
    use nae_infer_c as c;
    let mut error = [1; 64];
    let message = |error: &[c_char]| {
        // SAFETY: the library ends its messages in a zero, within the length it was given.
        unsafe { CStr::from_ptr(error.as_ptr()) }.to_str().unwrap().to_owned()
    };
    let model = CString::new(digits().join("digits.onnx").to_str().unwrap()).unwrap();
    let image = CString::new(images()[0].to_str().unwrap()).unwrap();
    let mut score = c::Score { energy: 0.0, p_value: 0.0, threshold: 0.0, anomaly: 0 };
    let [mut channels, mut height, mut width] = [7usize; 3];
    // SAFETY: every pointer is null, or to something that outlives the call; the length of `error` is its own.
    unsafe {
        assert!(c::nae_detector_open(null(), null(), 0.0, error.as_mut_ptr(), error.len()).is_null());
        assert_eq!(message(&error), "the path is NULL");
        // Nowhere to put the reason.
        assert!(c::nae_detector_open(null(), null(), 0.0, null_mut(), 64).is_null());
        // Room for one byte: the zero.
        assert!(c::nae_detector_open(null(), null(), 0.0, error.as_mut_ptr(), 1).is_null());
        assert_eq!(message(&error), "");
        c::nae_detector_free(null_mut());

        assert_eq!(c::nae_detector_input(null(), &mut channels, &mut height, &mut width), 0);
        assert_eq!([channels, height, width], [7; 3]);
        let detector = c::nae_detector_open(model.as_ptr(), null(), 0.0, error.as_mut_ptr(), error.len());
        assert!(!detector.is_null());
        assert_eq!(c::nae_detector_input(detector, null_mut(), &mut height, null_mut()), 1);
        assert_eq!([channels, height, width], [7, 16, 7]);

        let file = |detector, path, score| {
            let mut error = [1; 64];
            let done = c::nae_detector_score_file(detector, path, score, null_mut(), error.as_mut_ptr(), error.len());
            (done, if done == 1 { String::new() } else { message(&error) })
        };
        assert_eq!(file(detector, image.as_ptr(), &mut score), (1, String::new()));
        let (_, energy, p_value, verdict) = &expected()[0];
        assert_eq!((score.energy, score.p_value, score.anomaly, verdict.as_str()), (*energy, *p_value, 0, "normal"));
        let (none, said) = file(null(), image.as_ptr(), &mut score);
        assert_eq!((none, said.as_str()), (0, "the detector or the score is NULL"));
        let (none, said) = file(detector, image.as_ptr(), null_mut());
        assert_eq!((none, said.as_str()), (0, "the detector or the score is NULL"));
        let (none, said) = file(detector, null(), &mut score);
        assert_eq!((none, said.as_str()), (0, "the path is NULL"));
        let (no_map, no_error) = (null_mut(), null_mut());
        assert_eq!(c::nae_detector_score_encoded(detector, null(), 9, &mut score, no_map, no_error, 0), 0);
        let mut pixels = |pixels, width, height, channels| {
            let (stride, mut error) = (width * channels, [1; 96]);
            let (to, room) = (error.as_mut_ptr(), error.len());
            let done = c::nae_detector_score_pixels(
                detector, pixels, width, height, channels, stride, &mut score, no_map, to, room,
            );
            (done, message(&error))
        };
        let four = [0_u8; 4].as_ptr();
        assert_eq!(pixels(null(), 4, 1, 1), (0, "the image is NULL".to_owned()));
        let sides = "expected a width and a height of 1 to 32767, found";
        assert_eq!(pixels(four, 32_768, 1, 1), (0, format!("{sides} 32768×1")));
        assert_eq!(pixels(four, 4, 0, 1), (0, format!("{sides} 4×0")));
        assert_eq!(pixels(four, 2, 1, 2), (0, "expected pixels of 1 or 3 channels, found 2".to_owned()));
        c::nae_detector_free(detector);
        assert!(!c::nae_version().is_null());
    }
}

/// The header of a `.npy` file of `shape`, and zeros.
fn npy(shape: &str, length: usize) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(118u16.to_le_bytes());
    bytes.extend(format!("{header:<117}\n").as_bytes());
    bytes.resize(bytes.len() + length, 0);
    bytes
}

#[test]
fn what_is_wrong_is_said_with_what_is_known() {
    use nae_infer_c as c;
    let folder = tempfile::tempdir().unwrap();
    let text = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
    let model = text(&digits().join("digits.onnx"));
    let mut error = [1; 1024];
    let message = |error: &[c_char]| {
        // SAFETY: the library ends its messages in a zero, within the length it was given.
        unsafe { CStr::from_ptr(error.as_ptr()) }.to_str().unwrap().to_owned()
    };
    for name in ["auto", "abacus"] {
        let backend = CString::new(name).unwrap();
        // SAFETY: the texts outlive the call, and the length of `error` is its own.
        let detector =
            unsafe { c::nae_detector_open(model.as_ptr(), backend.as_ptr(), 0.0, error.as_mut_ptr(), error.len()) };
        assert!(detector.is_null());
        let expected = format!("there is no backend `{name}`; expected one of tract, ort, simd, native");
        assert_eq!(message(&error), expected);
    }
    // SAFETY: as above; the detector is freed once, below.
    let detector = unsafe { c::nae_detector_open(model.as_ptr(), null(), 0.0, error.as_mut_ptr(), error.len()) };
    let mut score = c::Score { energy: 0.0, p_value: 0.0, threshold: 0.0, anomaly: 0 };
    for (shape, length, expected) in [
        ("(0, 16, 16)", 0, "expected at least one image, found [0, 16, 16]"),
        ("(2, 16, 16)", 512, "expected one image, found 2"),
    ] {
        let path = folder.path().join("batch.npy");
        std::fs::write(&path, npy(shape, length)).unwrap();
        let (path, room) = (text(&path), error.len());
        // SAFETY: as above.
        let done = unsafe {
            c::nae_detector_score_file(detector, path.as_ptr(), &mut score, null_mut(), error.as_mut_ptr(), room)
        };
        assert_eq!(done, 0);
        let found = message(&error);
        assert!(found.ends_with(&format!("batch.npy: {expected}")), "{found}");
    }
    // SAFETY: it is the detector of above, and not used any more.
    unsafe { c::nae_detector_free(detector) };
}

/// Bytes that, after an ONNX file, are one more entry of its metadata.
fn entry(key: &str, value: &str) -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| {
        let length = [bytes.len() as u8 | 0x80, (bytes.len() >> 7) as u8];
        [&[tag << 3 | 2][..], &length, bytes].concat()
    };
    field(14, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
}

#[test]
fn a_model_of_tables_does_not_score_images() {
    use nae_infer_c as c;
    let folder = tempfile::tempdir().unwrap();
    // The 16 × 16 inputs: 4 rows of 64 columns.
    let names: Vec<String> = (0..64).map(|n| format!("\"c{n}\"")).collect();
    let ones = ["1.0"; 64].join(" ");
    let entries = [
        ("nae.table.columns", format!("[{}]", names.join(","))),
        ("nae.table.mean", ones.clone()),
        ("nae.table.deviation", ones.clone()),
        ("nae.table.span", ones),
        ("nae.table.missing", "refuse".to_owned()),
        ("nae.table.window", "4".to_owned()),
        ("nae.table.window_stride", "4".to_owned()),
    ];
    let mut bytes = std::fs::read(digits().join("digits.onnx")).unwrap();
    entries.iter().for_each(|(key, value)| bytes.extend(entry(key, value)));
    let path = folder.path().join("table.onnx");
    std::fs::write(&path, bytes).unwrap();
    let text = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
    let (model, missing) = (text(&path), text(&folder.path().join("missing.png")));
    let mut score = c::Score { energy: 0.0, p_value: 0.0, threshold: 0.0, anomaly: 0 };
    let mut error: [c_char; 256] = [1; 256];
    let (at, room, pixels) = (error.as_mut_ptr(), error.len(), [0u8; 256]);
    // SAFETY: every pointer is null, or to something that outlives the call; the length of `error` is its own. The
    // detector is freed once.
    unsafe {
        let detector = c::nae_detector_open(model.as_ptr(), null(), 0.0, at, room);
        assert!(!detector.is_null(), "{:?}", CStr::from_ptr(at));
        // Before anything is read: there is no such file, and those are no image.
        let calls = [
            c::nae_detector_score_file(detector, missing.as_ptr(), &mut score, null_mut(), at, room),
            c::nae_detector_score_encoded(detector, pixels.as_ptr(), 9, &mut score, null_mut(), at, room),
            c::nae_detector_score_pixels(detector, pixels.as_ptr(), 16, 16, 1, 16, &mut score, null_mut(), at, room),
        ];
        assert_eq!(calls, [0; 3]);
        assert_eq!(CStr::from_ptr(at).to_str().unwrap(), "a model of tables, not of images");
        let file = c::nae_detector_score_file(detector, missing.as_ptr(), &mut score, null_mut(), at, room);
        assert_eq!((file, CStr::from_ptr(at).to_str().unwrap()), (0, "a model of tables, not of images"));
        c::nae_detector_free(detector);
    }
}

#[test]
fn a_program_in_c_scores_as_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("score");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(here())
        .arg(here().join("examples/score.c"))
        .arg(built().join("libnae_infer_c.a"))
        .args(["-lm", "-lpthread", "-ldl", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = |arguments: &[PathBuf]| Command::new(&program).args(arguments).output().unwrap();
    let arguments: Vec<PathBuf> = [digits().join("digits.onnx")].into_iter().chain(images()).collect();
    compare(&run(&arguments));
    let failed = run(&[digits().join("README.md"), images()[0].clone()]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("README.md"));
    let failed = run(&[digits().join("digits.onnx"), digits().join("README.md")]);
    assert_eq!(failed.status.code(), Some(1));
}

#[test]
fn python_scores_as_the_library_and_cannot_bring_it_down() {
    let library = built().join("libnae_infer_c.so");
    let output = Command::new("python3")
        .arg(here().join("tests/interface.py"))
        .arg(library)
        .arg(digits().join("digits.onnx"))
        .args(images())
        .output()
        .unwrap();
    compare(&output);
}
