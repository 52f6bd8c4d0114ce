//! Combines the cells and seeds of one experiment from several folders.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use nae_data::Source;
use nae_train::engine::EngineChoice;

use super::{GatherError, Gathered, difference, inner, is_unfinished, once};
use crate::Seeds;
use crate::experiments::detection::{self, DetectionError, DetectionSettings, run_folder};
use crate::experiments::gaussians8::{self, DensitySettings};
use crate::experiments::record::{RECORD, Record};

/// The table of the experiment to which all of `folders` belong.
pub(super) fn gather(folders: &[PathBuf]) -> Result<Gathered, GatherError> {
    let mut records = Vec::new();
    for folder in folders {
        if let Some(record) = Record::read(folder)? {
            records.push((folder, record));
        }
    }
    let Some(((first_folder, first), others)) = records.split_first() else {
        return Err(GatherError::Nothing(folders.first().cloned().unwrap_or_default()));
    };
    for (folder, record) in others {
        let settings = || {
            let (key, one, other) = difference(&first.recorded, &record.recorded)?;
            Some((if key.is_empty() { "settings".to_owned() } else { key }, one, other))
        };
        let apart = first.difference(record).map(|(what, one, other)| (what.to_owned(), one, other)).or_else(settings);
        if let Some((what, one, other)) = apart {
            let folders = [first_folder.to_path_buf(), folder.to_path_buf()];
            return Err(GatherError::Apart { folders, what, one, other });
        }
    }
    let origin = first_folder.join(RECORD).display().to_string();
    if first.experiment == gaussians8::NAME {
        return densities(folders, first, &origin);
    }
    detection(folders, first, &origin)
}

fn detection(folders: &[PathBuf], record: &Record, origin: &str) -> Result<Gathered, GatherError> {
    let settings = DetectionSettings::parse(&record.settings, origin, record.scale, record.search)?;
    let mut experiment = detection::Experiment {
        name: record.experiment.clone(),
        settings,
        scale: record.scale,
        // A placeholder until the seeds are known.
        seeds: one_seed(),
        only: Vec::new(),
        engine: EngineChoice::Auto,
        device: record.device,
        data: PathBuf::new(),
        checkpoint_every: Duration::MAX,
        trace_outliers: false,
    };
    // The set by which states were selected there, even if its data are not available here.
    let selection = record.recorded.get("selection").and_then(|name| name.as_str()).map(str::to_owned);
    let mut all = Vec::new();
    for folder in folders {
        for model in experiment.finished_by(selection.as_deref(), folder)? {
            all.push((folder, model));
        }
    }
    check_data(&experiment, &all)?;
    // Equal except for the time, for what made them, and for what was found about the data: digests were checked and need not be
    // recorded, and warnings name files of a machine.
    let same = |a: &detection::Finished, b: &detection::Finished| {
        let (processor_seconds, data_sha256, origin) = (b.processor_seconds, b.data_sha256.clone(), b.origin.clone());
        let (outliers_sha256, warnings) = (b.outliers_sha256.clone(), b.warnings.clone());
        detection::Finished { processor_seconds, data_sha256, outliers_sha256, warnings, origin, ..a.clone() } == *b
    };
    let name = |model: &detection::Finished| format!("{}, seed {}", model.cell, model.seed);
    let finished = once(all, name, same)?;
    experiment.seeds = seeds(finished.iter().map(|model| model.seed));
    let rows = detection::summary::rows(&experiment, &finished);
    Ok(Gathered {
        json: detection::summary::json(&experiment, selection.as_deref(), &rows, &finished),
        text: detection::summary::terminal(&experiment, &rows, &finished),
        unfinished: unfinished(folders)?,
    })
}

/// What models of one table have in common.
#[derive(PartialEq)]
enum Common<'a> {
    /// The data of a source.
    Data(Option<&'a Source>),
    /// A set of outliers in files.
    Outliers(&'a str),
}

/// Checks that all models of a data set have the same data, and all models the same outliers.
fn check_data(
    experiment: &detection::Experiment,
    models: &[(&PathBuf, detection::Finished)],
) -> Result<(), GatherError> {
    // The digest of each, and the first run that has it.
    let mut first: Vec<(Common<'_>, PathBuf, String)> = Vec::new();
    for (folder, model) in models {
        let run = run_folder(folder, &model.cell, model.seed);
        let data = model.data_sha256(folder).map_err(DetectionError::from)?;
        let data = data.map(|sha256| (Common::Data(experiment.source(&model.cell)), sha256));
        let outliers = model.outliers_sha256.iter().map(|(set, sha256)| (Common::Outliers(set), sha256.clone()));
        for (of, other) in data.into_iter().chain(outliers) {
            match first.iter().find(|(known, ..)| *known == of) {
                None => first.push((of, run.clone(), other)),
                Some((_, _, one)) if *one == other => {}
                Some((_, one_run, one)) => {
                    let what = match of {
                        Common::Data(_) => "the data's SHA-256".to_owned(),
                        Common::Outliers(set) => format!("the SHA-256 of the outliers `{set}`"),
                    };
                    let folders = [one_run.clone(), run];
                    return Err(GatherError::Apart { folders, what, one: one.clone(), other });
                }
            }
        }
    }
    Ok(())
}

fn densities(folders: &[PathBuf], record: &Record, origin: &str) -> Result<Gathered, GatherError> {
    let settings = DensitySettings::parse(&record.settings, origin).map_err(gaussians8::SettingsError::from)?;
    let of = |seeds| gaussians8::Experiment::new(settings.clone(), record.scale, seeds);
    let experiment = of(one_seed())?;
    let mut all = Vec::new();
    for folder in folders {
        all.extend(experiment.finished(folder)?.into_iter().map(|model| (folder, model)));
    }
    let name = |model: &gaussians8::Finished| model.cell.to_string();
    let finished = once(all, name, |a, b| gaussians8::Finished { origin: b.origin.clone(), ..a.clone() } == *b)?;
    let experiment = of(seeds(finished.iter().map(|model| model.cell.seed)))?;
    let rows = gaussians8::summary::rows(&experiment, &finished);
    Ok(Gathered {
        json: gaussians8::summary::json(&experiment, &rows, &finished),
        text: gaussians8::summary::terminal(&experiment, &rows, &finished),
        unfinished: unfinished(folders)?,
    })
}

/// All of `found`, in order; if nothing is finished yet, the table is empty, whatever the seeds are.
fn seeds(found: impl Iterator<Item = u64>) -> Seeds {
    let found: BTreeSet<u64> = found.collect();
    Seeds::list(found.into_iter().collect()).unwrap_or_else(|_| one_seed())
}

fn one_seed() -> Seeds {
    Seeds::first(1).expect("one is a number of seeds")
}

/// The runs in the folders of an experiment that have not ended.
fn unfinished(folders: &[PathBuf]) -> Result<Vec<PathBuf>, GatherError> {
    let mut found = Vec::new();
    for folder in folders {
        found.extend(inner(folder)?.into_iter().filter(|run: &PathBuf| is_unfinished(run)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use nae_train::device::DeviceChoice;
    use nae_train::report::journal::Journal;
    use nae_train::report::{Facts, RESUME, RunFolder};

    use super::*;
    use crate::experiments::Scale;
    use crate::experiments::detection::{CELLS, EXPERIMENTS, Finished};
    use crate::experiments::pictures;

    fn experiment(data: &Path) -> detection::Experiment {
        let known = EXPERIMENTS.iter().find(|known| known.name == "mnist-holdout").expect("comes with the program");
        let settings = DetectionSettings::parse(known.text, known.name, Scale::Smoke, false).expect("valid");
        detection::Experiment {
            name: known.name.to_owned(),
            settings,
            scale: Scale::Smoke,
            seeds: one_seed(),
            only: vec!["digit-1".to_owned()],
            engine: EngineChoice::Auto,
            device: DeviceChoice::Cpu,
            data: data.to_owned(),
            checkpoint_every: Duration::MAX,
            trace_outliers: false,
        }
    }

    /// The folder of an experiment with one finished model.
    fn write(folder: &Path, seed: u64, data_sha256: Option<&str>) -> PathBuf {
        let experiment = experiment(Path::new(""));
        let finished = Finished {
            cell: "digit-1".to_owned(),
            seed,
            data_sha256: data_sha256.map(str::to_owned),
            outliers_sha256: Default::default(),
            warnings: Vec::new(),
            auroc: serde_json::from_value(serde_json::json!({ "normal_count": 0, "rows": [] })).expect("a table"),
            selection_auroc: Default::default(),
            kept_update: 0,
            diverged: false,
            processor_seconds: 0.0,
            origin: Default::default(),
        };
        std::fs::create_dir_all(folder).expect("makes");
        experiment.record().write(folder).expect("writes");
        let journal = Journal::open(&folder.join(CELLS), experiment.digest_of("digit-1").expect("there"));
        journal.expect("opens").append(&finished).expect("writes");
        folder.to_owned()
    }

    fn facts_of(data_sha256: &str) -> Facts {
        Facts {
            data_sha256: data_sha256.to_owned(),
            engine: nae_train::engine::Engine::Cpu,
            device: DeviceChoice::Cpu,
            choices: Vec::new(),
            selection: None,
            outliers: None,
            outliers_sha256: None,
        }
    }

    #[test]
    fn models_of_other_data_do_not_belong_in_one_table() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (a, b) = (write(&at("a"), 0, Some("abc")), write(&at("b"), 1, Some("def")));
        let message = gather(&[a.clone(), b]).expect_err("other data").to_string();
        assert!(message.contains("digit-1-0 and") && message.contains("b/digit-1-1 do not belong"), "{message}");
        assert!(message.contains("the data's SHA-256 is abc in the first and def in the second"), "{message}");
        assert!(gather(&[a.clone(), write(&at("c"), 1, Some("abc"))]).is_ok());
        // Models of earlier versions have the digest in their run folders, or none; the same model counts once.
        let older = write(&at("d"), 0, None);
        assert_eq!(
            gather(&[a.clone(), older.clone()]).expect("may be the same data").json["seeds"],
            serde_json::json!([0])
        );
        let config = experiment(Path::new("")).settings.cells[1].config.clone();
        RunFolder::create(&older.join("digit-1-0"), &config, 0, facts_of("def"), Duration::MAX).expect("writes");
        let message = gather(&[a, older]).expect_err("other data").to_string();
        assert!(message.contains("SHA-256 is abc in the first and def"), "{message}");
    }

    #[test]
    fn models_of_other_outliers_do_not_belong_in_one_table() {
        let folder = tempfile::tempdir().expect("a folder");
        let with = |name: &str, seed, outliers: &[(&str, &str)]| {
            let path = write(&folder.path().join(name), seed, Some("abc"));
            let text = std::fs::read_to_string(path.join(CELLS)).expect("reads");
            let mut line: serde_json::Value = serde_json::from_str(text.trim()).expect("a line");
            line["outliers_sha256"] =
                outliers.iter().map(|&(set, sha256)| (set.to_owned(), serde_json::json!(sha256))).collect();
            std::fs::write(path.join(CELLS), format!("{line}\n")).expect("writes");
            path
        };
        let one = with("a", 0, &[("Omniglot", "abc"), ("SVHN", "def")]);
        let message =
            gather(&[one.clone(), with("b", 1, &[("Omniglot", "ghi")])]).expect_err("other outliers").to_string();
        let said = "the SHA-256 of the outliers `Omniglot` is abc in the first and ghi in the second";
        assert!(message.contains(said), "{message}");
        assert!(gather(&[one.clone(), with("c", 1, &[("Omniglot", "abc")])]).is_ok());
        // Earlier versions did not record them; the same model counts once.
        let older = gather(&[one, with("d", 0, &[])]).expect("may be the same outliers");
        assert_eq!(older.json["seeds"], serde_json::json!([0]));
    }

    #[test]
    fn illustrations_are_passed_over_and_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let picture = folder.path().join("picture");
        drop(pictures::claim("bimodal", Scale::Smoke, DeviceChoice::Cpu, &picture).expect("free"));
        write(&folder.path().join("a"), 0, Some("abc"));
        let gathered = crate::gather::gather(&[folder.path().to_owned()]).expect("one experiment");
        assert_eq!(gathered.json["seeds"], serde_json::json!([0]));
        let message = crate::gather::gather(&[picture]).expect_err("no cells").to_string();
        assert!(
            message.contains("picture: expected an experiment with cells or seeds, found the illustration bimodal"),
            "{message}"
        );
    }

    /// A finished model is not trained again, and with other data its result would stand for theirs.
    #[test]
    fn a_folder_is_of_one_data_set() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let mnist = data.join("mnist");
        std::fs::create_dir_all(&mnist).expect("makes");
        crate::one_image_mnist::write(&mnist, 7);
        let run = |out: &Path, data: &Path| {
            let (device, stop) = (burn::tensor::Device::flex(), std::sync::atomic::AtomicBool::new(false));
            experiment(data).run(out, &device, &stop, |job, _| -> nae_train::train::Silent {
                panic!("{} is finished", job.cell.name)
            })
        };
        let other = write(&folder.path().join("other"), 0, Some("abc"));
        let message = run(&other, &data).expect_err("other data").to_string();
        assert!(message.contains("other/digit-1-0") && message.contains("SHA-256 abc"), "{message}");
        let Err(DetectionError::OtherData { found, .. }) = run(&other, &data) else { panic!("other data") };
        let same = write(&folder.path().join("same"), 0, Some(&found));
        assert_eq!(run(&same, &data).expect("the same data").len(), 1);
        // Also if the finished one comes last: nothing is trained before it is known.
        let last = write(&folder.path().join("last"), 1, Some("abc"));
        let message = run(&last, &data).expect_err("other data").to_string();
        assert!(message.contains("last/digit-1-1"), "{message}");
        // An interrupted one, even if it is not asked for.
        let begun = folder.path().join("begun");
        let config = experiment(&data).settings.cells[2].config.clone();
        experiment(&data).record().write(&begun).expect_err("no folder yet");
        std::fs::create_dir(&begun).expect("makes");
        experiment(&data).record().write(&begun).expect("writes");
        let facts = facts_of("def");
        drop(RunFolder::create(&begun.join("digit-2-0"), &config, 0, facts, Duration::MAX).expect("makes"));
        std::fs::write(begun.join("digit-2-0").join(RESUME), "").expect("writes");
        let message = run(&begun, &data).expect_err("other data").to_string();
        assert!(message.contains("begun/digit-2-0") && message.contains("SHA-256 def"), "{message}");
        // Data that change while models are trained.
        let models = experiment(&data).finished(&other).expect("reads");
        let joins = |sha256: &str| {
            let experiment = experiment(&data);
            experiment.check_joins(
                &experiment.settings.cells[2],
                sha256,
                &BTreeMap::new(),
                &models,
                &other.join("digit-2-0"),
            )
        };
        assert!(joins("abc").is_ok());
        let message = joins("def").expect_err("other data").to_string();
        assert!(message.contains("other/digit-1-0") && message.contains("SHA-256 abc; found def"), "{message}");
        // Without the data, nothing contradicts the results.
        assert_eq!(run(&other, &folder.path().join("absent")).expect("no data").len(), 1);
    }
}
