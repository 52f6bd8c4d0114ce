//! Tests of exchanges and rollbacks, with models that differ only in their names.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jiff::tz::TimeZone;
use nae_core::contract::Contract;
use nae_core::verdict::AlarmSettings;
use nae_infer::backend::{Backend, BackendError, Reconstructions};
use nae_infer::card::ScoringSettings;
use nae_infer::{BackendKind, Shape};

use super::super::config::{Config, Flags};
use super::super::metrics::Metrics;
use super::super::model::Current;
use super::super::quiet::{Moment, Quiet};
use super::super::zeros::Zeros;
use super::*;

/// The file of the settings.
const SETTINGS: &str = "model.onnx";

/// A model calibrated on energies up to 0.99.
fn model(name: &str) -> Arc<Model> {
    let mut energies: Vec<f32> = (1..=99).map(|k| k as f32 / 100.0).collect();
    let calibration = Calibration::from_energies(&mut energies).unwrap();
    let contract = Contract::new(Shape::new(1, 2, 2)).with_calibration(calibration, 0.01).unwrap();
    let detector = Detector::with_backend(ScoringSettings::new(contract), Arc::new(Zeros));
    Arc::new(Model {
        detector,
        card: Vec::new(),
        digest: name.to_owned(),
        condition: Condition::Day,
        bytes: Arc::new(name.as_bytes().to_vec()),
    })
}

struct Kept {
    folder: tempfile::TempDir,
    keeper: Keeper,
}

impl Kept {
    /// Starts with the model "old".
    fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    fn in_folder(folder: tempfile::TempDir) -> Self {
        let state = folder.path().to_str().unwrap();
        let environment =
            [("NAE_INFER_MODEL", SETTINGS), ("NAE_INFER_STATE", state), ("NAE_INFER_SCORE_TIMEOUT", "0.5")];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let config = Config::read(&Flags::default(), environment.into_iter()).unwrap().cameras.remove(0);
        let old = model("old");
        let metrics = Arc::new(Metrics::new().camera(&config.name));
        let quiet = Arc::new(Quiet::open(folder.path(), None, TimeZone::UTC, Moment::now()));
        let sight = Arc::new(Sight::open(folder.path(), config.regions.clone()));
        let alarm = AlarmSettings::new(3, 1, 5).unwrap();
        let monitor = Monitor::new(alarm, quiet, Arc::clone(&sight), Some(&old), metrics).unwrap();
        let current = Arc::new(Current::from(Some(Arc::clone(&old))));
        let old = Opened { model: old, path: SETTINGS.into() };
        let monitor = Arc::new(monitor);
        let in_use = Arc::new(InUse::new(current, Arc::clone(&monitor), None));
        let keeper = Keeper::start(config, Arc::default(), Some(old), Condition::Day, in_use, monitor, sight);
        Self { folder, keeper }
    }

    fn in_use(&self) -> String {
        self.keeper.model().map_or_else(|| "none".to_owned(), |model| model.digest.clone())
    }

    /// Records a frame that the model in use scored or failed on.
    fn scored(&self, failure: Option<&str>) -> bool {
        self.keeper.scored(&self.in_use(), failure)
    }

    /// Takes the model with this name into use, as if it were from that file.
    fn exchange(&self, name: &str, path: &str) {
        self.keeper.exchange(Opened { model: model(name), path: path.into() });
    }

    /// The copy that is used if the model's own file is damaged.
    fn copy(&self) -> String {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let copies: Vec<PathBuf> =
            files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("last-good")).collect();
        assert_eq!(copies.len(), 1, "{copies:?}");
        std::fs::read_to_string(&copies[0]).unwrap()
    }
}

/// After 0 to 99 good frames, a failure restores the old model; after a hundred, it is only a failure.
#[test]
fn a_failure_within_a_hundred_frames_brings_the_old_model_back() {
    for (good, in_use) in [(0, "old"), (1, "old"), (99, "old"), (100, "new"), (101, "new"), (1000, "new")] {
        let kept = Kept::new();
        kept.exchange("new", SETTINGS);
        assert_eq!((kept.in_use().as_str(), kept.copy().as_str()), ("new", "new"));
        (0..good).for_each(|_| assert!(!kept.scored(None)));
        assert_eq!(kept.in_use(), "new", "{good} good frames");
        kept.scored(Some("it panicked"));
        assert_eq!(kept.in_use(), in_use, "a failure after {good} good frames");
        // A copy of the failed model would be used if the file is damaged.
        assert_eq!(kept.copy(), in_use, "a failure after {good} good frames");
        // No earlier model is stored.
        kept.scored(Some("it panicked again"));
        assert_eq!(kept.in_use(), in_use);
    }
}

/// Adjustments of the old model belong to it: they are removed and restored with it.
#[test]
fn the_old_model_comes_back_with_its_adjustments() {
    let kept = Kept::new();
    let threshold = || kept.keeper.model().unwrap().detector.threshold().unwrap();
    let first = threshold();
    kept.keeper.set_rate(0.5).unwrap();
    let adjusted = threshold();
    // For 99 energies in hundredths, 1% of normal images are above the largest, and half are above the
    // fiftieth.
    assert_eq!((first, adjusted), (0.99, 0.5));
    kept.exchange("new", SETTINGS);
    assert_eq!(threshold(), first);
    kept.scored(Some("it panicked"));
    assert_eq!((kept.in_use().as_str(), threshold()), ("old", adjusted));
}

/// The model before the last exchange is restored, not the one before that.
#[test]
fn each_exchange_is_on_probation_anew() {
    let kept = Kept::new();
    kept.exchange("second", SETTINGS);
    (0..60).for_each(|_| assert!(!kept.scored(None)));
    kept.exchange("third", SETTINGS);
    (0..60).for_each(|_| assert!(!kept.scored(None)));
    kept.scored(Some("it panicked"));
    assert_eq!(kept.in_use(), "second");
}

/// All cameras are asked to open their files again when one file is exchanged.
#[test]
fn a_reload_of_an_unchanged_file_changes_nothing() {
    let kept = Kept::new();
    let path = kept.folder.path().join("new.nae");
    let valid = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/digits/digits.nae");
    std::fs::copy(valid, &path).unwrap();
    let new = kept.keeper.fit(path, false).unwrap();
    let digest = new.model.digest.clone();
    kept.keeper.exchange(new);
    assert!(!kept.scored(None));
    kept.keeper.reload().unwrap();
    assert_eq!(kept.in_use(), digest);
    kept.scored(Some("it panicked"));
    assert_eq!(kept.in_use(), "old", "the reload is no exchange");
}

/// A change that was computed for one model is not stored for the next.
#[test]
fn a_rate_is_not_set_for_a_model_that_came_meanwhile() {
    let kept = Kept::new();
    let writing = kept.keeper.file();
    thread::scope(|scope| {
        let change = scope.spawn(|| kept.keeper.set_rate(0.5));
        thread::sleep(Duration::from_millis(200));
        kept.exchange("new", SETTINGS);
        drop(writing);
        let changed = change.join().unwrap();
        assert!(matches!(changed, Err(ChangeError::Exchanged)), "{changed:?}");
    });
    assert_eq!(kept.keeper.adjustments().len(), 0);
}

/// The previous model scored it, or failed on it.
#[test]
fn a_frame_that_was_on_its_way_says_nothing_of_the_new_model() {
    let kept = Kept::new();
    kept.exchange("new", SETTINGS);
    for failure in [Some("it panicked"), None] {
        (0..100).for_each(|_| assert!(!kept.keeper.scored("old", failure)));
        assert_eq!(kept.in_use(), "new");
    }
    kept.scored(Some("it panicked"));
    assert_eq!(kept.in_use(), "old", "on probation until then");
}

/// The learning is notified that the model was taken back; the service's own copy of it is enough.
#[test]
fn a_learned_model_that_fails_gives_way_to_the_file_before() {
    let kept = Kept::new();
    kept.exchange("learned", "learn/models/learned.model");
    assert_eq!((kept.in_use().as_str(), kept.copy().as_str()), ("learned", "old"));
    assert!(!kept.scored(None));
    assert!(kept.scored(Some("it panicked")));
    assert_eq!((kept.in_use().as_str(), kept.copy().as_str()), ("old", "old"));
    // A rollback is not on probation: the replaced model is not restored.
    kept.exchange("learned", "learn/models/learned.model");
    kept.keeper.go_back(Some(Opened { model: model("old"), path: SETTINGS.into() }));
    assert_eq!((kept.scored(Some("it panicked")), kept.in_use().as_str()), (false, "old"));
    // A model of the same file is not reported.
    kept.exchange("new", SETTINGS);
    assert!(!kept.scored(Some("it panicked")));
    assert_eq!(kept.in_use(), "old");
}

/// A failure on a frame restores the model before while the file of the failed one is read: the frame's end of it stays.
#[test]
#[cfg(unix)]
fn a_reload_takes_nothing_into_use_if_the_model_was_taken_back_meanwhile() {
    let kept = Kept::new();
    let pipe = kept.folder.path().join("learned.model");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    kept.exchange("learned", pipe.to_str().unwrap());
    let valid = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/digits/digits.nae");
    thread::scope(|scope| {
        let reload = scope.spawn(|| kept.keeper.reload());
        // Waits until the reload has opened the other end.
        let mut file = std::fs::File::options().write(true).open(&pipe).unwrap();
        assert!(kept.scored(Some("it panicked")));
        std::io::Write::write_all(&mut file, &std::fs::read(valid).unwrap()).unwrap();
        drop(file);
        let reloaded = reload.join().unwrap();
        assert!(matches!(reloaded, Err(ChangeError::Exchanged)), "{reloaded:?}");
    });
    assert_eq!(kept.in_use(), "old");
}

/// The disk hangs while an adjustment is written.
#[test]
fn frames_do_not_wait_for_the_file_of_adjustments() {
    let kept = Kept::new();
    kept.exchange("new", SETTINGS);
    let writing = kept.keeper.file();
    thread::scope(|scope| {
        let change = scope.spawn(|| kept.keeper.set_rate(0.5));
        // Before the change waits for the file, and while it does.
        for _ in 0..20 {
            let ((sender, scored), kept) = (channel(), &kept);
            scope.spawn(move || sender.send(kept.scored(None)));
            scored.recv_timeout(Duration::from_secs(30)).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
        assert!(!change.is_finished());
        drop(writing);
        change.join().unwrap().unwrap();
    });
    assert_eq!(Kept::in_folder(kept.folder).keeper.adjustments().len(), 1);
}

/// The first model of a camera that had none.
#[test]
fn a_first_model_that_fails_leaves_none_and_one_that_works_can_be_left_again() {
    let kept = Kept::new();
    kept.keeper.go_back(None);
    assert_eq!(kept.in_use(), "none");
    assert!(matches!(kept.keeper.set_rate(0.5), Err(ChangeError::NoModel(_))));
    assert!(matches!(kept.keeper.recalibrate(60.0, 0.0), Err(ChangeError::NoModel(_))));
    assert!(matches!(kept.keeper.undo(), Err(ChangeError::NoModel(_))));
    // Here, the settings name a file that does not exist.
    assert!(matches!(kept.keeper.reload(), Err(ChangeError::Open(_))));
    kept.exchange("learned", "learn/models/learned.model");
    assert_eq!(kept.in_use(), "learned");
    assert!(kept.scored(Some("it panicked")));
    assert_eq!(kept.in_use(), "none");
    kept.exchange("learned", "learn/models/learned.model");
    kept.keeper.go_back(None);
    assert_eq!((kept.scored(Some("it panicked")), kept.in_use().as_str()), (false, "none"));
}

/// Reconstructs zeros, slowly.
struct Slow(Duration);

impl Backend for Slow {
    fn kind(&self) -> BackendKind {
        BackendKind::Native
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        thread::sleep(self.0);
        Zeros.reconstruct(batch)
    }
}

/// The limit for each of the 32 frames is that of a single one.
#[test]
fn a_slow_model_is_tried_to_the_end_and_one_that_hangs_is_refused() {
    let kept = Kept::new();
    let timeout = kept.keeper.config.score_timeout;
    let recent = |frames| vec![Recent { image: b"P5 2 2 255\n\0\0\0\0".as_slice().into(), normal: true }; frames];
    let slow = |time| {
        let detector = Detector::with_backend(model("slow").detector.settings().clone(), Arc::new(Slow(time)));
        Arc::new(model("slow").for_condition(Condition::Day, detector))
    };
    kept.keeper.try_on(&slow(timeout / 8), recent(32)).unwrap();
    for frames in [1, 2] {
        let tried = kept.keeper.try_on(&slow(timeout * 6), recent(frames));
        assert!(matches!(tried, Err(ChangeError::Hangs)), "{tried:?}");
    }
}

/// A camera without a model remembers all frames, also damaged ones.
#[test]
fn a_damaged_frame_is_no_failure_of_the_new_model() {
    let kept = Kept::new();
    let recent = |image: &'static [u8]| Recent { image: image.into(), normal: false };
    let (damaged, whole) = (recent(b"P5 2 2 255\n\0"), recent(b"P5 2 2 255\n\0\0\0\0"));
    kept.keeper.try_on(&model("new"), vec![damaged.clone(), whole.clone()]).unwrap();
    let detector = Detector::with_backend(model("new").detector.settings().clone(), Arc::new(Broken));
    let broken = Arc::new(model("new").for_condition(Condition::Day, detector));
    kept.keeper.try_on(&broken, vec![damaged.clone()]).unwrap();
    let tried = kept.keeper.try_on(&broken, vec![damaged, whole]);
    assert!(matches!(&tried, Err(ChangeError::Fails(reason)) if reason.contains("broken")), "{tried:?}");
}

struct Broken;

impl Backend for Broken {
    fn kind(&self) -> BackendKind {
        BackendKind::Native
    }

    fn reconstruct(&self, _: &[f32]) -> Result<Reconstructions, BackendError> {
        Err(BackendError::Run { backend: self.kind(), reason: "broken".into() })
    }
}

#[test]
fn a_calibration_on_few_frames_does_not_change_the_rate_that_is_wanted() {
    let kept = Kept::new();
    let wanted = || kept.keeper.wanted_rate("old");
    assert_eq!(wanted(), 0.01);
    let mut energies: Vec<f32> = (1..=50).map(|k| k as f32).collect();
    let calibration = Calibration::from_energies(&mut energies).unwrap();
    let (count, spacing, table) = (calibration.count(), calibration.spacing(), calibration.table().to_vec());
    kept.keeper.add(Change::Calibration { count, spacing, table, false_positive_rate: 0.02 }, "old").unwrap();
    assert_eq!(wanted(), 0.01);
    kept.keeper.set_rate(0.3).unwrap();
    assert_eq!(wanted(), 0.3);
    kept.keeper.undo().unwrap();
    assert_eq!(wanted(), 0.01);
}

#[test]
fn adjustments_that_cannot_be_read_are_put_aside() {
    for text in ["garbage", "{}", "[1]", ""] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adjustments.json");
        std::fs::write(&path, text).unwrap();
        let kept = Kept::in_folder(folder);
        assert_eq!((kept.keeper.adjustments(), kept.in_use().as_str()), (Vec::new(), "old"));
        assert_eq!(std::fs::read_to_string(path.with_extension("json.damaged")).unwrap(), text);
        kept.keeper.set_rate(0.5).unwrap();
        assert_eq!(Kept::in_folder(kept.folder).keeper.adjustments().len(), 1, "what is changed then is kept");
    }
}

/// Otherwise, the file would grow until it cannot be read. Removed adjustments do not change the
/// threshold.
#[test]
fn of_many_adjustments_the_last_are_kept() {
    let kept = Kept::new();
    let threshold = || kept.keeper.model().unwrap().detector.threshold().unwrap();
    kept.keeper.set_rate(0.1).unwrap();
    let mut energies: Vec<f32> = (1..=99).map(|k| k as f32 / 10.0).collect();
    let calibration = Calibration::from_energies(&mut energies).unwrap();
    let (count, spacing, table) = (calibration.count(), calibration.spacing(), calibration.table().to_vec());
    kept.keeper.add(Change::Calibration { count, spacing, table, false_positive_rate: 0.01 }, "old").unwrap();
    assert_eq!(threshold(), 9.9);
    kept.keeper.set_rate(0.2).unwrap();
    kept.keeper.undo().unwrap();
    for _ in 0..2 * MOST {
        kept.keeper.set_rate(0.5).unwrap();
    }
    let adjustments = kept.keeper.adjustments();
    let is_calibration = |a: &Adjustment| matches!(a.change, Change::Calibration { .. });
    assert_eq!((adjustments.len(), adjustments.iter().any(|a| a.undone)), (MOST, false));
    assert!(is_calibration(&adjustments[0]), "the rates are of it");
    assert_eq!(threshold(), 5.0);
    // Another model has its own.
    kept.exchange("new", SETTINGS);
    kept.keeper.set_rate(0.5).unwrap();
    assert_eq!(kept.keeper.adjustments().len(), MOST + 1);
}
