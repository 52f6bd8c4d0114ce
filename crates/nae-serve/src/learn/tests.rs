//! Tests of events that are not actions. Actions are tested by HTTP, in `nae-infer/cli/tests/service/learn`.
#![allow(clippy::unwrap_used)]

use super::super::config::{Config, Flags};
use super::super::model::digest;
use super::*;

/// Learning in this folder, with this record.
fn learn(folder: &Path, record: &Record) -> Arc<Learn> {
    let state = folder.to_str().unwrap();
    let environment = [("NAE_INFER_MODEL", "model.onnx"), ("NAE_INFER_STATE", state)];
    let environment = environment.map(|(name, value)| (name.into(), value.into()));
    let config = Config::read(&Flags::default(), environment.into_iter()).unwrap().cameras.remove(0);
    std::fs::create_dir_all(folder_in(folder)).unwrap();
    record.write(&record_in(&folder_in(folder))).unwrap();
    let trainer = Arc::new(Trainer::new("no-such-program".into()));
    let sight = Arc::new(Sight::open(folder, config.regions.clone()));
    Arc::new(Learn::open(config, Arc::default(), trainer, sight, Span::none()).unwrap())
}

/// The same after a restart.
fn opened_again(own: &Learn) -> Arc<Learn> {
    let (config, trainer, sight) = (own.config.clone(), Arc::clone(&own.trainer), Arc::clone(&own.sight));
    Arc::new(Learn::open(config, Arc::default(), trainer, sight, Span::none()).unwrap())
}

fn phase(learn: &Learn) -> &'static str {
    learn.lock().record.phase.name()
}

#[test]
fn a_model_that_is_taken_back_is_in_use_no_more_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::default();
    record.swapped("0000000a".into());
    let learn = learn(folder.path(), &record);
    assert_eq!(model_in_use(&learn.config), Some(model_in(&learn.folder, "0000000a")));
    learn.taken_back("it panicked");
    assert_eq!(phase(&learn), "trained");
    assert!(learn.status().note.unwrap().ends_with("it panicked"));
    assert_eq!(model_in_use(&learn.config), None);
    // A failure of a model of the settings does not concern learning.
    learn.taken_back("again");
    assert!(learn.status().note.unwrap().ends_with("it panicked"));
}

#[test]
fn what_cannot_go_on_after_a_restart_is_said() {
    let model = "0000000a".to_owned();
    let collecting = Collecting { left: None, most: 10, min_distance: 1.0 };
    for (before, after, part) in [
        // The regions of the settings have changed.
        (Phase::Collecting(collecting), "collected", "collected by other regions"),
        (Phase::Training { seconds: 60.0, starts: 1 }, "collected", "no-such-program"),
        (Phase::Shadowing { model }, "trained", "0000000a.model"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let learn = learn(folder.path(), &Record { phase: before, regions: "0000000c".into(), ..Record::default() });
        learn.start(Some(Path::new("model.onnx")));
        assert_eq!(phase(&learn), after);
        let note = learn.status().note.unwrap();
        assert!(note.starts_with("it could not go on after a restart") && note.contains(part), "{note}");
    }
}

#[test]
fn an_activity_that_was_ended_changes_nothing_any_more_but_the_frames_that_were_seen() {
    let folder = tempfile::tempdir().unwrap();
    let learn = learn(folder.path(), &Record { phase: Phase::Collected, ..Record::default() });
    let activity = learn.lock().activity;
    learn.change(|record| record.note = Some("another".into())).unwrap();
    learn.ended(activity, |record| record.phase = Phase::Idle);
    assert_eq!(phase(&learn), "collected");
    assert!(!learn.looked(activity, collect::Looked { seen: 1, left: Some(5.0) }));
    let status = learn.status();
    assert_eq!((status.seen, status.note.as_deref()), (1, Some("another")));
}

#[test]
fn a_deletion_that_was_killed_is_finished_and_frames_without_a_record_stay() {
    let folder = tempfile::tempdir().unwrap();
    let frames = folder_in(folder.path()).join("frames");
    std::fs::create_dir_all(&frames).unwrap();
    std::fs::write(frames.join("000001.png"), "x").unwrap();
    let own = learn(folder.path(), &Record { phase: Phase::Collected, ..Record::default() });
    std::fs::remove_file(record_in(&own.folder)).unwrap();
    let found = opened_again(&own);
    assert_eq!((phase(&found), found.status().counts.kept), ("collected", 1));
    let own = learn(folder.path(), &Record::default());
    own.start(Some(Path::new("model.onnx")));
    assert_eq!((phase(&own), own.status().counts.kept, frames.exists()), ("idle", 0, false));
}

/// Learning whose record contains the model `digest` as the one in use, and the path of that model's file.
fn with_learned(folder: &Path, digest: &str) -> (Arc<Learn>, PathBuf) {
    let mut record = Record::default();
    record.swapped(digest.into());
    let own = learn(folder, &record);
    let file = model_in(&own.folder, digest);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    (own, file)
}

/// A start with too few file descriptors, without ONNX Runtime, or with another setting may fail although the model is
/// valid.
#[test]
fn a_model_that_cannot_be_opened_at_one_start_is_kept_and_tried_again_at_the_next() {
    const A: &str = "0000000a";
    let folder = tempfile::tempdir().unwrap();
    let (own, file) = with_learned(folder.path(), A);
    std::fs::write(&file, "a model").unwrap();
    std::fs::write(report_in(&own.folder, A), "its report").unwrap();
    for in_use in [None, Some(Path::new("model.onnx"))] {
        let learn = opened_again(&own);
        learn.start(in_use);
        assert!(file.exists() && report_in(&own.folder, A).exists());
        assert_eq!((phase(&learn), learn.status().in_use), ("trained", None));
        assert!(learn.status().note.unwrap().contains("could not be opened"));
        assert_eq!(model_in_use(&own.config), Some(file.clone()), "tried again");
    }
    let learn = opened_again(&own);
    learn.start(Some(&file));
    assert_eq!((phase(&learn), learn.status().in_use.as_deref()), ("swapped", Some(A)));
    assert_eq!(learn.lock().record.passed_over, [""; 0]);
    // Also if it is no longer the model of the phase.
    learn.change(|record| record.phase = Phase::Idle).unwrap();
    let learn = opened_again(&own);
    learn.start(None);
    assert!(file.exists());
    // Another model that is taken into use replaces it.
    learn.swapped("0000000b".to_owned()).unwrap();
    assert!(!file.exists());
}

#[test]
fn what_was_learned_outlives_a_damaged_record() {
    const A: &str = "0000000a";
    let folder = tempfile::tempdir().unwrap();
    let (own, file) = with_learned(folder.path(), A);
    for name in [&file, &file.with_file_name("no-digest.model")] {
        std::fs::write(name, "a model").unwrap();
    }
    std::fs::write(record_in(&own.folder), "{").unwrap();
    for _ in 0..3 {
        let learn = opened_again(&own);
        learn.start(None);
        assert!(file.exists() && !file.with_file_name("no-digest.model").exists());
        assert_eq!((phase(&learn), model_in_use(&own.config)), ("idle", None), "nobody knows that it was in use");
        learn.stop();
    }
    assert!(own.folder.join("state.json.damaged").exists());
}

/// Nobody knows which of them was in use, and somebody may want to take it again.
#[test]
fn models_that_a_damaged_record_left_stay_when_the_frames_are_deleted() {
    const A: &str = "0000000a";
    let folder = tempfile::tempdir().unwrap();
    let (own, file) = with_learned(folder.path(), A);
    std::fs::write(&file, "a model").unwrap();
    std::fs::create_dir_all(own.folder.join("frames")).unwrap();
    std::fs::write(own.folder.join("frames/000001.png"), "x").unwrap();
    std::fs::write(record_in(&own.folder), "{").unwrap();
    let learn = opened_again(&own);
    learn.start(None);
    assert_eq!(phase(&learn), "collected");
    learn.delete().unwrap();
    assert_eq!((phase(&learn), learn.status().counts.kept), ("idle", 0));
    assert!(file.exists());
    let learn = opened_again(&own);
    learn.start(None);
    assert!(file.exists(), "also after a restart");
}

/// The thread of a training keeps the new model first, and records it then.
#[test]
fn a_roll_back_leaves_the_model_of_a_training_that_is_just_ending() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = Record::default();
    record.swapped("0000000a".into());
    record.phase = Phase::Training { seconds: 60.0, starts: 1 };
    let own = learn(folder.path(), &record);
    let new = model_in(&own.folder, "0000000b");
    std::fs::create_dir_all(new.parent().unwrap()).unwrap();
    std::fs::write(&new, "a model").unwrap();
    own.rolled_back().unwrap();
    assert!(new.exists());
    own.change(|record| record.phase = Phase::Collected).unwrap();
    own.tidy();
    assert!(!new.exists());
}

/// It would be in use after the next start without a trial.
#[test]
fn a_model_with_the_checksum_of_another_does_not_replace_it() {
    let folder = tempfile::tempdir().unwrap();
    let own = learn(folder.path(), &Record::default());
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");
    let bytes = std::fs::read(model).unwrap();
    let mut other = bytes.clone();
    // The polynomial of CRC-32, the bits of each byte from the lowest on: its multiples change no checksum.
    let half = other.len() / 2;
    other[half..].iter_mut().zip([0x41, 0x06, 0x71, 0xDB, 0x01]).for_each(|(byte, change)| *byte ^= change);
    let digest = digest(&bytes);
    let kept = model_in(&own.folder, &digest);
    std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
    std::fs::write(&kept, &other).unwrap();
    let error = own.take(Path::new(model), None).unwrap_err().to_string();
    assert!(error.contains(&format!("it has the checksum {digest} of another model")), "{error}");
    assert_eq!(std::fs::read(&kept).unwrap(), other);
    // A damaged file is replaced.
    std::fs::write(&kept, "garbage").unwrap();
    assert_eq!(own.take(Path::new(model), None).unwrap(), digest);
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
}
