//! `nae-train eval`: measures how well any model detects outliers, on any data.

use std::path::Path;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_data::ImageSet;
use nae_data::own::{self, Corrupt};
use nae_data::own_table::OwnTable;
use nae_data::{Form, ImageForm};
use nae_infer::card::ModelFile;
use nae_infer::{BackendKind, Detector, Limits};
use nae_onnx::file;
use nae_train::engine::{Engine, EngineChoice};
use nae_train::eval::{Column, OutlierKind, Table};
use nae_train::eval::{Evaluation, ScoredSet};
use nae_train::eval::{decided, share_above};
use nae_train::methods::{self, Decision};
use nae_train::recorded;
use nae_train::report::{CHECKPOINT, CONFIG, RESULT, RunFolder};
use nae_train::run::Prepared;
use serde_json::json;

use crate::Done;
use crate::args::EvalArgs;
use crate::output::{errln, outln};

pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<Done> {
    let Scored { evaluation, threshold, rate } = if args.model.is_dir() { of_run(args)? } else { of_file(args)? };
    let table = Table::of(&evaluation);
    let above = |energies: &[f32]| threshold.and_then(|threshold| share_above(energies, threshold)).unwrap_or(0.0);
    let caught: Vec<(&str, f64)> =
        evaluation.outliers.iter().map(|set| (set.name.as_str(), above(&set.scores[0]))).collect();
    if args.json {
        // A list, since two sets may have the same name.
        let each = caught.iter().map(|(name, share)| json!({ "outliers": name, "share": share }));
        let caught = threshold.map(|_| each.collect::<Vec<_>>());
        outln!("{}", json!({ "threshold": threshold, "false_positive_rate": rate, "caught": caught, "auroc": table }))?;
        return Ok(Done::Whole);
    }
    outln!("{}", table.figures_terminal())?;
    match (threshold, rate) {
        (Some(threshold), Some(rate)) => {
            outln!("threshold: an energy of {threshold}. Shares above it:")?;
            outln!("  {rate:.3} of the normal {}, which are false positives", table.samples)?;
            for (name, share) in caught {
                outln!("  {share:.3} of {name}")?;
            }
        }
        _ if args.model.is_dir() => {
            outln!("no threshold: the run's folder has none in {RESULT}; give the exported model, which contains it")?;
        }
        _ => outln!("the model is not calibrated: it has no threshold")?,
    }
    Ok(Done::Whole)
}

/// The energies of normal data and outliers, and what the threshold makes of the normal data.
struct Scored {
    evaluation: Evaluation,
    threshold: Option<f32>,
    /// The share of the normal data above the threshold.
    rate: Option<f64>,
}

impl Scored {
    fn new(evaluation: Evaluation, threshold: Option<f32>) -> Self {
        let rate = threshold.and_then(|threshold| share_above(&evaluation.normal[0], threshold));
        Self { evaluation, threshold, rate }
    }
}

/// Scores with a run folder's model, on its own test data or on others.
fn of_run(args: &EvalArgs) -> anyhow::Result<Scored> {
    let path = &args.model;
    if !path.join(CONFIG).exists() {
        bail!("{}: this is not the folder of a run: it has no {CONFIG}", path.display());
    }
    let device = Device::flex();
    let (config, _) = RunFolder::read(path)?;
    warn_unfinished(path);
    let model = methods::load(&config, &path.join(CHECKPOINT), &device)?;
    let (form, samples) = (config.form(), config.source().samples());
    let engine = EngineChoice::Auto.engine(config.architecture())?;
    if args.normal.is_some() && config.features().is_some() {
        bail!(
            "{}: a run on features looks at images through a frozen network, which its model file has: export it, and \
             evaluate that, or leave --normal out",
            path.display()
        );
    }
    if args.normal.is_some() {
        // The threshold was computed by burn as well.
        let score = |set: &ImageSet| Ok(decided(&*model, Decision::Reconstruction, set, Engine::Burn, &device));
        let (trained, threshold) = (RunFolder::data_sha256(path)?, RunFolder::results(path)?.threshold);
        return Ok(Scored::new(given(args, &form, samples, trained.as_deref(), score)?, threshold));
    }
    let mut prepared = recorded::prepare(path, args.data.as_deref(), Corrupt::Skip)?;
    for path in &args.outliers {
        prepared.add_outliers(path, Corrupt::Skip).context("--outliers")?;
    }
    note_missing(path, &prepared)?;
    let metadata = prepared.calibrate(&*model, &device)?;
    let method = prepared.config.method();
    let (key, title) = (method.column(), method.title());
    let column = Column { key, title, model: &*model, decision: Decision::Reconstruction };
    Ok(Scored {
        evaluation: prepared.evaluate(&[column], engine, &device),
        threshold: metadata.contract.threshold().map(|threshold| threshold.energy),
        rate: prepared.measured_rate(&*model, &metadata, &device),
    })
}

/// Warns if the run in the folder `run` was interrupted: its model is not trained to its end.
pub(crate) fn warn_unfinished(run: &Path) {
    if let Some(unfinished) = recorded::unfinished(run) {
        errln!("warning: {unfinished}");
    }
}

/// Prints a note on the user's outliers that the run in `folder` was evaluated on and `prepared` does not have: their files
/// are not recorded.
pub(crate) fn note_missing(folder: &Path, prepared: &Prepared) -> anyhow::Result<()> {
    let missing = recorded::missing_outliers(folder, prepared)?;
    if !missing.is_empty() {
        errln!(
            "note: the run was also evaluated on {}, whose files it does not keep: give them with --outliers",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Scores with a model file.
fn of_file(args: &EvalArgs) -> anyhow::Result<Scored> {
    // This program contains these two backends; `nae-infer score` has the others. Only the second one supports the
    // layers of models of features.
    let limits = Limits::default();
    let file = ModelFile::parse(file::read(&args.model, limits.bytes)?, &limits)
        .with_context(|| args.model.display().to_string())?;
    let trained = file.metadata().map(|metadata| metadata.provenance.data_sha256.clone());
    let open = |kind: BackendKind| Detector::builder().backend(kind).load(&file, &args.model);
    let detector = open(BackendKind::Native).or_else(|error| open(BackendKind::Simd).map_err(|_| error))?;
    let settings = detector.settings();
    let (form, samples) = match &settings.columns {
        None => {
            let form = ImageForm {
                tiles: settings.tiles,
                transforms: settings.transforms,
                ..ImageForm::resized(settings.contract.input, settings.contract.preprocessing.filter())
            };
            (Form::Images(form), "images")
        }
        Some(columns) => {
            let (title, missing) = (own::title(&args.model), columns.missing());
            let (window, columns) = (settings.window, columns.columns().to_vec());
            let samples = if window.is_some() { "windows" } else { "rows" };
            (Form::Rows(OwnTable { title, missing, window, columns }), samples)
        }
    };
    let (low, high) = (settings.contract.preprocessing.low(), settings.contract.preprocessing.high());
    let score = |set: &ImageSet| -> anyhow::Result<Vec<f32>> {
        let ranged: Vec<f32> = match form {
            Form::Images(_) => set.values().iter().map(|v| low + v * (high - low)).collect(),
            Form::Rows(_) => set.values().to_vec(),
        };
        Ok(set.decide(detector.score_prepared(&ranged)?.iter().map(|scored| scored.energy).collect()))
    };
    Ok(Scored::new(given(args, &form, samples, trained.as_deref(), score)?, detector.threshold()))
}

/// Warns that the model was trained on the data at `path`; `effect` says what follows, and what to do.
pub(crate) fn warn_trained_on(path: &Path, effect: &str) {
    errln!(
        "warning: {}: the model was trained on these data; their energies are lower than those of new data, so that {effect}",
        path.display()
    );
}

/// The energies of the given data. `trained` is the SHA-256 of the data that the model was trained on, if it is known.
fn given(
    args: &EvalArgs,
    form: &Form,
    samples: &'static str,
    trained: Option<&str>,
    score: impl Fn(&ImageSet) -> anyhow::Result<Vec<f32>>,
) -> anyhow::Result<Evaluation> {
    let Some(normal) = &args.normal else {
        bail!("{}: a model file has no test data of its own; give normal data with --normal", args.model.display());
    };
    if args.outliers.is_empty() {
        bail!("there is nothing to compare with: give outliers with --outliers, once for each set");
    }
    let read = |path: &Path| -> anyhow::Result<Vec<f32>> {
        let loaded = form.read(path, Corrupt::Skip)?;
        if path == normal && trained == Some(loaded.sha256.as_str()) {
            warn_trained_on(path, "the figures are too good: give normal data that it was not trained on");
        }
        for warning in &loaded.warnings {
            errln!("warning: {}: {warning}", path.display());
        }
        score(&loaded.train)
    };
    let scored = |path: &Path| -> anyhow::Result<ScoredSet> {
        Ok(ScoredSet { name: own::title(path), kind: OutlierKind::Given, selection: false, scores: vec![read(path)?] })
    };
    Ok(Evaluation {
        columns: vec![("model", "model")],
        samples,
        are_windows: matches!(form, Form::Rows(OwnTable { window: Some(_), .. })),
        normal: vec![read(normal).context("--normal")?],
        outliers: args.outliers.iter().map(|path| scored(path).context("--outliers")).collect::<Result<_, _>>()?,
    })
}
