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

        assert_eq!(c::nae_detector_samples(null()), 0);
        assert_eq!(c::nae_detector_input(null(), &mut channels, &mut height, &mut width), 0);
        assert_eq!([channels, height, width], [7; 3]);
        let detector = c::nae_detector_open(model.as_ptr(), null(), 0.0, error.as_mut_ptr(), error.len());
        assert!(!detector.is_null());
        assert_eq!(c::nae_detector_input(detector, null_mut(), &mut height, null_mut()), 1);
        assert_eq!(c::nae_detector_samples(detector), 1);
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

/// The text of an error.
fn said(error: &[c_char]) -> String {
    // SAFETY: the library ends its messages in a zero, within the length it was given.
    unsafe { CStr::from_ptr(error.as_ptr()) }.to_str().unwrap().to_owned()
}

fn c_text(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// A detector of the interface, freed at the end.
struct Opened(*mut nae_infer_c::Detector);

impl Opened {
    fn new(model: &Path, false_positive_rate: f32) -> Self {
        let (model, mut error) = (c_text(model), [1; 256]);
        let (at, room) = (error.as_mut_ptr(), error.len());
        // SAFETY: the texts outlive the call, and the length of `error` is its own.
        let detector = unsafe { nae_infer_c::nae_detector_open(model.as_ptr(), null(), false_positive_rate, at, room) };
        assert!(!detector.is_null(), "{}", said(&error));
        Self(detector)
    }

    fn file(&self, path: &Path, map: Option<&mut [f32]>) -> Result<nae_infer_c::Score, String> {
        let path = c_text(path);
        scored(map, |score, map, error, room| {
            // SAFETY: the pointers outlive the call; the map has as many values as the network's input has pixels.
            unsafe { nae_infer_c::nae_detector_score_file(self.0, path.as_ptr(), score, map, error, room) }
        })
    }

    /// Scores `bytes`, which are as many as the other arguments say.
    fn pixels(
        &self,
        bytes: &[u8],
        (width, height): (usize, usize),
        channels: usize,
        stride: usize,
        map: Option<&mut [f32]>,
    ) -> Result<nae_infer_c::Score, String> {
        assert_eq!(bytes.len(), (height - 1) * stride + width * channels);
        let at = bytes.as_ptr();
        scored(map, |score, map, error, room| {
            // SAFETY: as above; the length of `bytes` was checked.
            unsafe {
                nae_infer_c::nae_detector_score_pixels(
                    self.0, at, width, height, channels, stride, score, map, error, room,
                )
            }
        })
    }

    /// Scores encoded bytes with a length of their own choice, which has to be refused if it is not theirs.
    fn encoded(&self, bytes: &[u8], length: usize) -> Result<nae_infer_c::Score, String> {
        let at = bytes.as_ptr();
        scored(None, |score, map, error, room| {
            // SAFETY: as above; a length that is not that of `bytes` is beyond the limit, and refused.
            unsafe { nae_infer_c::nae_detector_score_encoded(self.0, at, length, score, map, error, room) }
        })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: it is from `nae_detector_open`, and freed once.
        unsafe { nae_infer_c::nae_detector_free(self.0) }
    }
}

/// Calls a scoring function, and checks that it writes the error or the score, and not both.
fn scored(
    map: Option<&mut [f32]>,
    call: impl FnOnce(*mut nae_infer_c::Score, *mut f32, *mut c_char, usize) -> i32,
) -> Result<nae_infer_c::Score, String> {
    let mut score = nae_infer_c::Score { energy: -7.0, p_value: -7.0, threshold: -7.0, anomaly: -7 };
    let mut error = [1; 256];
    let map = map.map_or(null_mut(), <[f32]>::as_mut_ptr);
    let done = call(&mut score, map, error.as_mut_ptr(), error.len());
    if done == 1 {
        assert_eq!(error, [1; 256], "an error is only written where there is one");
        return Ok(score);
    }
    assert_eq!((done, score.energy, score.anomaly), (0, -7.0, -7), "a score is only written where there is one");
    Err(said(&error))
}

/// Bits, so that NaN is equal to NaN.
fn bits(score: &nae_infer_c::Score) -> (u32, u32, u32, i32) {
    (score.energy.to_bits(), score.p_value.to_bits(), score.threshold.to_bits(), score.anomaly)
}

fn library(detector: &nae_infer::Detector, path: &Path) -> (nae_infer_c::Score, Vec<f32>) {
    let images = nae_infer::input::read(path).unwrap();
    let scored = detector.score_pixels(&images[0].pixels).unwrap();
    let anomaly = scored.verdict.map_or(-1, |verdict| i32::from(verdict.is_anomaly()));
    let [p_value, threshold] = [scored.p_value, detector.threshold()].map(|value| value.unwrap_or(f32::NAN));
    (nae_infer_c::Score { energy: scored.energy, p_value, threshold, anomaly }, scored.error_map)
}

/// An image of 20×18 pixels whose channels differ, as a file, and as bytes.
fn image_of(channels: usize, folder: &Path) -> (PathBuf, Vec<u8>) {
    use nae_infer::image::{GrayImage, Luma, Rgb, RgbImage};
    let path = folder.join(format!("{channels}.png"));
    let value = |x: u32, y: u32, c: u32| ((x * 13 + y * y * 7 + c * 60) % 256) as u8;
    if channels == 1 {
        let image = GrayImage::from_fn(20, 18, |x, y| Luma([value(x, y, 0)]));
        image.save(&path).unwrap();
        return (path, image.into_raw());
    }
    let image = RgbImage::from_fn(20, 18, |x, y| Rgb([0, 1, 2].map(|c| value(x, y, c))));
    image.save(&path).unwrap();
    (path, image.into_raw())
}

#[test]
fn files_and_pixels_have_the_librarys_score_and_map() {
    let folder = tempfile::tempdir().unwrap();
    let model = digits().join("digits.onnx");
    let (detector, theirs) = (nae_infer::Detector::open(&model).unwrap(), Opened::new(&model, 0.0));
    // One value more than the map has, which must stay.
    let buffer = || vec![-7.0_f32; 16 * 16 + 1];
    for channels in [1, 3] {
        let (path, bytes) = image_of(channels, folder.path());
        let (expected, mut map) = library(&detector, &path);
        assert!(expected.threshold.is_finite() && expected.p_value > 0.0);
        let mean = map.iter().map(|&v| f64::from(v)).sum::<f64>() / map.len() as f64;
        assert!((mean - f64::from(expected.energy)).abs() < 1e-5 * mean, "{mean} {}", expected.energy);
        map.push(-7.0);
        let mut found = buffer();
        assert_eq!(bits(&theirs.file(&path, Some(&mut found)).unwrap()), bits(&expected), "{channels} channels, file");
        assert_eq!(found, map, "{channels} channels, file");
        let encoded = std::fs::read(&path).unwrap();
        assert_eq!(bits(&theirs.encoded(&encoded, encoded.len()).unwrap()), bits(&expected));
        for gap in [0, 5] {
            let rows: Vec<Vec<u8>> = bytes.chunks(20 * channels).map(<[u8]>::to_vec).collect();
            let rows = rows.join(&vec![255; gap][..]);
            let (mut found, stride) = (buffer(), 20 * channels + gap);
            let score = theirs.pixels(&rows, (20, 18), channels, stride, Some(&mut found)).unwrap();
            assert_eq!(bits(&score), bits(&expected), "{channels} channels, a gap of {gap}");
            assert_eq!(found, map, "{channels} channels, a gap of {gap}");
        }
    }
}

#[test]
fn a_false_positive_rate_selects_the_threshold() {
    let model = digits().join("digits.onnx");
    let usual = Opened::new(&model, 0.0).file(&images()[1], None).unwrap();
    assert_eq!(usual.anomaly, 0);
    // Well above the share of normal images with this energy: the digit is above the threshold.
    let rate = f32::midpoint(usual.p_value, 1.0);
    let detector = nae_infer::Detector::builder().false_positive_rate(rate).open(&model).unwrap();
    let (expected, _) = library(&detector, &images()[1]);
    let score = Opened::new(&model, rate).file(&images()[1], None).unwrap();
    assert_eq!(bits(&score), bits(&expected));
    assert!(score.threshold < usual.threshold && score.anomaly == 1, "{} {}", score.threshold, score.anomaly);
}

#[test]
fn a_model_without_a_threshold_has_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(digits().join("digits.onnx")).unwrap();
    let file = nae_infer::card::ModelFile::parse(bytes, &nae_infer::Limits::default()).unwrap();
    let mut metadata = file.metadata().unwrap().clone();
    metadata.contract = metadata.contract.without_calibration();
    let path = folder.path().join("bare.onnx");
    std::fs::write(&path, metadata.attach(file.bytes()).unwrap()).unwrap();
    let score = Opened::new(&path, 0.0).file(&images()[2], None).unwrap();
    assert_eq!(score.anomaly, -1);
    assert!(score.p_value.is_nan() && score.threshold.is_nan() && score.energy > 0.0);
}

/// A slice of such a length would be undefined behaviour.
#[test]
fn a_length_that_no_encoded_image_has_is_refused() {
    let detector = Opened::new(&digits().join("digits.onnx"), 0.0);
    for length in [usize::MAX, isize::MAX as usize + 1, (1 << 30) + 1] {
        let error = detector.encoded(b"no image", length).err().unwrap();
        let expected = format!("expected an encoded image of at most 1073741824 bytes, found a length of {length}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

/// What a file of these sides would be refused for.
#[test]
fn pixels_have_the_limit_of_files() {
    let detector = Opened::new(&digits().join("digits.onnx"), 0.0);
    // 2^28 bytes and a little more. Its memory is not touched.
    let (width, height) = (32_767, 8_193);
    let header = format!("P5 {width} {height} 255\n");
    let file = detector.encoded(header.as_bytes(), header.len()).err().unwrap();
    let limit = "expected an image that is decoded in at most 256 MiB";
    assert!(file.starts_with(limit), "{file}");
    let error = detector.pixels(&vec![0; width * height], (width, height), 1, width, None).err().unwrap();
    assert!(error.starts_with(limit) && error.contains("found one of 32767×8193×1"), "{error}");
}

#[test]
fn a_text_that_is_not_utf8_is_named() {
    let (latin, model) = (c"\xff", c_text(&digits().join("digits.onnx")));
    let mut error = [1; 256];
    let (at, room) = (error.as_mut_ptr(), error.len());
    for (path, backend, expected) in [
        (latin.as_ptr(), null(), "the path is not UTF-8"),
        (model.as_ptr(), latin.as_ptr(), "the backend is not UTF-8"),
    ] {
        // SAFETY: the texts outlive the call, and the length of `error` is its own.
        assert!(unsafe { nae_infer_c::nae_detector_open(path, backend, 0.0, at, room) }.is_null());
        assert_eq!(said(&error), expected);
    }
}

/// The digits' model as one of tiles, and an image of several tiles.
fn of_tiles(folder: &Path) -> [PathBuf; 2] {
    let [model, image] = ["tiles.onnx", "large.png"].map(|name| folder.join(name));
    let bytes = std::fs::read(digits().join("digits.onnx")).unwrap();
    let entries = [entry("nae.tiles.stride", "8"), entry("nae.tiles.top_k", "1")].concat();
    std::fs::write(&model, [bytes, entries].concat()).unwrap();
    let large = nae_infer::image::GrayImage::from_fn(40, 24, |x, y| nae_infer::image::Luma([(5 * x + y) as u8]));
    large.save(&image).unwrap();
    [model, image]
}

#[test]
fn a_model_of_tiles_has_a_score_and_no_map() {
    let folder = tempfile::tempdir().unwrap();
    let [model, image] = of_tiles(folder.path());
    let (expected, _) = library(&nae_infer::Detector::open(&model).unwrap(), &image);
    let detector = Opened::new(&model, 0.0);
    // SAFETY: it is open.
    assert_eq!(unsafe { nae_infer_c::nae_detector_samples(detector.0) }, 2);
    assert_eq!(bits(&detector.file(&image, None).unwrap()), bits(&expected));
    let error = detector.file(&image, Some(&mut [0.0; 256])).err().unwrap();
    assert_eq!(error, "a model of tiles has no error map of one size: pass NULL");
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
        assert_eq!(c::nae_detector_samples(detector), 3);
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
    let tiles = run(&of_tiles(folder.path()));
    assert!(tiles.status.success(), "{}", String::from_utf8_lossy(&tiles.stderr));
    let line = String::from_utf8(tiles.stdout).unwrap();
    assert!(line.contains("large.png ") && !line.contains(" at "), "{line}");
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
