//! `nae-train` without a command: one run, start to finish.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_train::config::{Config, preset};
use nae_train::engine::EngineChoice;
use nae_train::eval::table::Table;
use nae_train::methods::{MethodKind, Model};
use nae_train::report::folder::{AUTOENCODER, RunFolder};
use nae_train::report::progress::Bars;
use nae_train::run::Prepared;
use nae_train::train::observer::{Observer, Phase, Progress};
use nae_train::train::stopping::Look;
use nae_train::train::{Ending, Outcome};
use serde_json::json;

use super::args::TrainArgs;
use super::{Done, export};

pub(super) fn run(args: &TrainArgs) -> anyhow::Result<Done> {
    let started = Instant::now();
    let config = config(args)?;
    export::check(&args.export)?;
    let engine = EngineChoice::from(args.engine).engine(config.architecture())?;
    let path = args.out.clone().unwrap_or_else(|| default_folder(&config, args.seed));
    let folder = RunFolder::create(&path, &config, args.seed)?;
    let stop = stop_on_interrupt()?;
    let device = Device::flex();
    let prepared = Prepared::new(config, args.seed, args.data.as_deref())?;

    let mut watchers = Watchers { bars: Bars::new(args.quiet), folder };
    let outcome = prepared.train(engine, &device, &mut watchers, &stop);
    let mut folder = watchers.folder;
    if let Some(autoencoder) = &outcome.autoencoder {
        folder.save(autoencoder, AUTOENCODER);
    }
    if let Some(failure) = folder.failure() {
        bail!("the run folder is incomplete: {failure}");
    }
    if let Ending::Interrupted { update } = outcome.ending {
        eprintln!(
            "interrupted after {update} {}; what was best so far is in {}.\nExport it with: nae-train export {} --export model.onnx",
            if prepared.config.method() == MethodKind::Nae { "updates" } else { "epochs" },
            folder.path().display(),
            folder.path().display()
        );
        return Ok(Done::Interrupted);
    }

    let metadata = prepared.calibrate(&*outcome.model, &device)?;
    let columns = prepared.columns(&outcome);
    let table = prepared.evaluate(&columns, &device);
    let measured = prepared.false_positive_rate(&*outcome.model, &metadata, &device);
    export::write(&args.export, &*outcome.model, &prepared.config, &metadata)?;
    let summary = Summary { outcome: &outcome, table: &table, prepared: &prepared, measured, started };
    let threshold = metadata.calibration.as_ref().map(|c| c.threshold());
    let figure = prepared.figure(&columns, &device).map_err(anyhow::Error::msg)?;
    folder.report(&summary.markdown(threshold), &figure)?;
    if args.json {
        println!("{}", summary.json(threshold));
    } else if !args.quiet {
        println!("{}", summary.terminal(threshold));
        println!("run folder: {}", folder.path().display());
        if let Some(file) = &args.export.export {
            println!("model: {}", file.display());
        }
    }
    Ok(Done::Whole)
}

fn default_folder(config: &Config, seed: u64) -> PathBuf {
    let method = match config.method() {
        MethodKind::Nae => String::new(),
        other => format!("-{}", other.name()),
    };
    PathBuf::from(format!("runs/{}{method}-{seed}", config.name()))
}

fn config(args: &TrainArgs) -> anyhow::Result<Config> {
    let config = preset::load(&args.preset)?;
    let mut raw = config.raw().clone();
    raw.data.held_out = args.held_out.unwrap_or(raw.data.held_out);
    raw.method = args.method.map_or(raw.method, MethodKind::from);
    Config::new(raw).context("--held-out or --method")
}

/// The first Ctrl-C asks the run to stop at the next update; the second ends the program.
pub(super) fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(super::INTERRUPTED));
        }
        eprintln!("\nstopping after this update (Ctrl-C again to stop at once)");
    })
    .context("Ctrl-C cannot be caught")?;
    Ok(stop)
}

/// What is said of a finished run.
struct Summary<'a> {
    outcome: &'a Outcome,
    table: &'a Table,
    prepared: &'a Prepared,
    measured: Option<f64>,
    started: Instant,
}

impl Summary<'_> {
    fn ending(&self) -> String {
        let kept = self.outcome.kept_update;
        if self.prepared.config.method() != MethodKind::Nae {
            return format!("state of epoch {kept} kept");
        }
        match self.outcome.ending {
            Ending::Diverged { update } => {
                format!("negative energies ran away at update {update}; taken back to update {kept}")
            }
            _ => format!("state of update {kept} kept"),
        }
    }

    fn calibration(&self, threshold: Option<f32>) -> String {
        let (Some(threshold), Some(measured)) = (threshold, self.measured) else { return "not calibrated".to_owned() };
        format!(
            "threshold {threshold:.5} for a false-positive rate of {}; measured on test images: {measured:.3}",
            self.prepared.config.false_positive_rate()
        )
    }

    fn terminal(&self, threshold: Option<f32>) -> String {
        let seconds = self.started.elapsed().as_secs();
        format!("{}\n{}\n{}\n{seconds} s in all", self.table.terminal(), self.ending(), self.calibration(threshold))
    }

    fn markdown(&self, threshold: Option<f32>) -> String {
        format!(
            "# {} · seed {}\n\n{}\n![Energies](energies.svg)\n\n- {}\n- {}\n- network: {}, {} parameters\n- {} s in all\n",
            self.prepared.config.name(),
            self.prepared.seed,
            self.table.markdown(),
            self.ending(),
            self.calibration(threshold),
            self.prepared.config.architecture().name(),
            self.prepared.config.architecture().parameters(),
            self.started.elapsed().as_secs(),
        )
    }

    fn json(&self, threshold: Option<f32>) -> serde_json::Value {
        json!({
            "preset": self.prepared.config.name(),
            "method": self.prepared.config.method(),
            "temperature": self.outcome.model.temperature(),
            "seed": self.prepared.seed,
            "held_out": self.prepared.config.held_out(),
            "auroc": self.table,
            "kept_update": self.outcome.kept_update,
            "diverged": matches!(self.outcome.ending, Ending::Diverged { .. }),
            "threshold": threshold,
            "false_positive_rate": { "target": self.prepared.config.false_positive_rate(), "measured": self.measured },
            "seconds": self.started.elapsed().as_secs_f64(),
        })
    }
}

/// Both watchers of a run.
struct Watchers {
    bars: Bars,
    folder: RunFolder,
}

impl Observer for Watchers {
    fn begin(&mut self, phase: Phase, total: usize) {
        self.bars.begin(phase, total);
        self.folder.begin(phase, total);
    }

    fn progress(&mut self, progress: &Progress) {
        self.bars.progress(progress);
        self.folder.progress(progress);
    }

    fn look(&mut self, look: &Look) {
        self.bars.look(look);
        self.folder.look(look);
    }

    fn checkpoint(&mut self, model: &dyn Model) {
        self.bars.checkpoint(model);
        self.folder.checkpoint(model);
    }

    fn end(&mut self, phase: Phase) {
        self.bars.end(phase);
        self.folder.end(phase);
    }
}
