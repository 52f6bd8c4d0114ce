//! `nae-train` without a command: one complete run.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_data::counted;
use nae_data::own::title as own_title;
use nae_terminal::interrupt;
use nae_train::config::MethodKind;
use nae_train::config::preset::PRESETS;
use nae_train::config::{Config, preset};
use nae_train::engine::EngineChoice;
use nae_train::interrupted::InterruptedRun;
use nae_train::report::progress::Bars;
use nae_train::report::{AUTOENCODER, CHECKPOINT, Facts, Finished, FinishedRun, RESUME, Resume, RunFolder};
use nae_train::run::Prepared;
use nae_train::train::Both;
use nae_train::train::Ending;

use crate::args::TrainArgs;
use crate::job::Job;
use crate::output::{errln, outln};
use crate::{Done, export, own};

pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<Done> {
    let started = Instant::now();
    let read = [&args.data, &args.outliers, &args.features, &args.resume].into_iter().flatten();
    let preset = args.preset.as_deref().map(Path::new);
    export::check(&args.export, read.map(PathBuf::as_path).chain(preset))?;
    if let (Some(data), Some(outliers)) = (&args.data, &args.outliers) {
        nae_train::own::apart(data, outliers)?;
    }
    let interrupted = args.resume.as_ref().map(|folder| InterruptedRun::read(folder)).transpose()?;
    let out = if interrupted.is_none() { out(args)? } else { PathBuf::new() };
    let recorded = interrupted.as_ref().map(|run| run.resume.facts.device);
    let (device, engines) = args.compute.open(recorded, args.quiet)?;
    let Job { prepared, engine, choices, resume } = match (interrupted, &args.preset, &args.data) {
        (Some(run), ..) => resumed(args, run)?,
        (None, None, Some(path)) => own::plan(args, path, engines, &device, started)?,
        _ => from_preset(args, engines)?,
    };
    export::check_model(&args.export, &prepared.config)?;
    prepared.config.sampler().precision.check(&device)?;
    if !args.quiet {
        own::say(&choices, &prepared.warnings);
    }
    let earlier = resume.as_ref().map(|resume| resume.taken).unwrap_or_default();
    let (mut folder, snapshot) = match (resume, &args.resume) {
        (Some(resume), Some(path)) => (RunFolder::reopen(path, &resume, args.checkpoint_every)?, Some(resume.snapshot)),
        _ => {
            let path = vacant(args, &out, &prepared)?;
            let data_sha256 = prepared.data_sha256.clone();
            let (device, choices) = (args.compute.device, choices.clone());
            let outliers = args.outliers.as_ref().map(|path| path.display().to_string());
            let facts =
                Facts { data_sha256, engine, device, choices, selection: None, outliers, outliers_sha256: None };
            (RunFolder::create(&path, &prepared.config, args.seed, facts, args.checkpoint_every)?, None)
        }
    };
    let ended = Arc::new(OnceLock::new());
    let stop = stop_on_interrupt_until(&ended)?;

    if args.trace_outliers {
        folder.trace(prepared.trace(engine, &device));
    }
    let mut watchers = Both::new(Bars::new(args.quiet), folder);
    let outcome = prepared.train(engine, &device, &mut watchers, &stop, snapshot)?;
    let mut folder = watchers.second;
    if let Some(autoencoder) = &outcome.autoencoder {
        folder.save(autoencoder, AUTOENCODER);
    }
    if let Ending::Interrupted { update } = outcome.ending {
        let incomplete = folder.complete(&*outcome.model);
        say_interrupted(args, &prepared, update, &folder);
        if let Some(failure) = incomplete {
            bail!("not everything could be written to the run folder: {failure}");
        }
        return Ok(Done::Interrupted);
    }
    let _ = ended.set(export_command(args, folder.path()));
    conclude(args, &Finished { prepared, outcome, engine, choices, started, earlier }, &mut folder, &device)?;
    Ok(Done::Whole)
}

fn say_interrupted(args: &TrainArgs, prepared: &Prepared, update: usize, folder: &RunFolder) {
    let done = match prepared.config.method() {
        MethodKind::Nae if update == 0 => "during pre-training".to_owned(),
        MethodKind::Nae => format!("after {} of NAE training", counted(update, "update")),
        _ => format!("after {}", counted(update, "epoch")),
    };
    let export = export_command(args, folder.path()).map(|command| format!("\nExport it: {command}"));
    errln!(
        "interrupted {done}; what was best so far is in {}.\n\
         Continue it: nae-train --resume {}{}",
        folder.path().display(),
        resume_arguments(args, folder.path(), folder.outliers()),
        export.unwrap_or_default(),
    );
}

/// The arguments that continue the run in `folder`, which was started with `args` or, if these name no outliers, with `recorded`
/// ones.
fn resume_arguments(args: &TrainArgs, folder: &Path, recorded: Option<&str>) -> String {
    let outliers = option("--outliers", args.outliers.as_deref().or(recorded.map(Path::new)));
    let traced = if args.trace_outliers { " --trace-outliers" } else { "" };
    let strict = if args.strict { " --strict" } else { "" };
    let (data, export) = (option("--data", args.data.as_deref()), export_arguments(args, folder).unwrap_or_default());
    format!("{}{data}{export}{outliers}{strict}{traced}", quoted(folder))
}

/// The command that exports the model of the run in `folder`, if its model can be exported.
fn export_command(args: &TrainArgs, folder: &Path) -> Option<String> {
    let (data, export) = (option("--data", args.data.as_deref()), export_arguments(args, folder)?);
    Some(format!("nae-train export {}{data}{export}", quoted(folder)))
}

/// The files of the exported model of the run in `folder`, as arguments; `None` for methods whose models are not exported.
fn export_arguments(args: &TrainArgs, folder: &Path) -> Option<String> {
    // A folder that cannot be read is not of such a method: the command then says what is wrong with it.
    if RunFolder::read(folder).is_ok_and(|(config, _)| nae_train::export::check(&config).is_err()) {
        return None;
    }
    let export = option("--export", Some(args.export.export.as_deref().unwrap_or(Path::new("model.onnx"))));
    let parts = option("--export-parts", args.export.export_parts.as_deref());
    Some(format!("{export}{parts}"))
}

fn option(name: &str, path: Option<&Path>) -> String {
    path.map(|path| format!(" {name} {}", quoted(path))).unwrap_or_default()
}

/// A path quoted as an argument for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    // Only a zero byte cannot be quoted, and no path contains one.
    shlex::try_quote(&text).map(Into::into).unwrap_or(text)
}

/// Calibrates, evaluates, reports and exports.
fn conclude(args: &TrainArgs, run: &Finished, folder: &mut RunFolder, device: &Device) -> anyhow::Result<()> {
    let conclusion = run.conclude(device)?;
    // The results are shown also if the report or the model cannot be written, and the one is written if the other cannot be.
    // After hours, a disk that was full for a minute is no reason to throw the model away. What the run continues from stays then:
    // without an export it may be all that there is.
    let incomplete = folder.complete(&*run.outcome.model);
    let finish = |folder: &RunFolder| if incomplete.is_none() { folder.finish() } else { Ok(()) };
    let reported = conclusion.report(run, device, folder).and_then(|()| Ok(finish(folder)?));
    let exported = export::write(&args.export, &*run.outcome.model, &run.prepared, &conclusion.metadata);
    let summary = conclusion.summary(run);
    if args.json {
        outln!("{}", conclusion.result(run, folder))?;
    } else if !args.quiet {
        outln!("{}", summary.terminal())?;
        outln!("run folder: {}", folder.path().display())?;
    }
    if let (Some(failure), false) = (&incomplete, folder.path().join(CHECKPOINT).exists()) {
        bail!(
            "the run has ended, and its weights could not be written to the run folder: {failure}{}",
            without_weights(args, folder, exported)
        );
    }
    exported.with_context(|| {
        format!(
            "the run has ended, and its model is in {}, but was not exported{}",
            folder.path().display(),
            export_command(args, folder.path()).map(|command| format!("; export it: {command}")).unwrap_or_default()
        )
    })?;
    reported.with_context(|| {
        let file = args.export.export.as_ref().map(|file| format!(" and in {}", file.display())).unwrap_or_default();
        format!(
            "the run has ended, and its model is in {}{file}, but its report was not written{}",
            folder.path().display(),
            export_command(args, folder.path())
                .map(|command| format!("; export the model again: {command}"))
                .unwrap_or_default()
        )
    })?;
    if let (Some(file), false) = (&args.export.export, args.json || args.quiet) {
        outln!("model: {}", file.display())?;
    }
    if let Some(failure) = incomplete {
        bail!(
            "the run has ended, and not everything could be written to the run folder: {failure}; write it again: nae-train --resume {}",
            resume_arguments(args, folder.path(), folder.outliers())
        );
    }
    Ok(())
}

/// What is left of a run that has ended without weights in its `folder`, and was `exported` or was not.
fn without_weights(args: &TrainArgs, folder: &RunFolder, exported: anyhow::Result<()>) -> String {
    let file = args.export.export.as_ref();
    let export = match (&exported, file) {
        (Ok(()), Some(file)) => format!("; the exported model is in {}", file.display()),
        (Ok(()), None) => String::new(),
        (Err(error), _) => format!("; it was not exported either: {error:#}"),
    };
    let rest = if folder.path().join(RESUME).exists() {
        let arguments = resume_arguments(args, folder.path(), folder.outliers());
        format!("; to write the weights, continue the run from its last state: nae-train --resume {arguments}")
    } else if exported.is_err() || file.is_none() {
        "; no model of it is left".to_owned()
    } else {
        String::new()
    };
    export + &rest
}

/// The folder of a new run, as given or by default.
///
/// # Errors
/// If an interrupted run or someone's files are there: this is noticed before data are read and a run is planned.
fn out(args: &TrainArgs) -> anyhow::Result<PathBuf> {
    let path = args.out.clone().map_or_else(|| default_folder(args), Ok)?;
    refuse_interrupted(args, &path)?;
    if args.out.is_some() {
        RunFolder::refuse_foreign(&path)?;
    }
    Ok(path)
}

fn refuse_interrupted(args: &TrainArgs, path: &Path) -> anyhow::Result<()> {
    if path.join(RESUME).exists() {
        let outliers = match Resume::read(path) {
            Ok(resume) => resume.facts.outliers,
            Err(damaged) => bail!("{damaged}; remove {}, or choose another folder with --out", path.display()),
        };
        bail!(
            "{}: an interrupted run is there; go on with it: nae-train --resume {}; or choose another folder with --out, or \
             remove this one",
            path.display(),
            resume_arguments(args, path, outliers.as_deref())
        );
    }
    Ok(())
}

/// The folder for the run of `prepared`: `path`; by default a name that follows it, if a finished run of other data or
/// settings is there.
fn vacant(args: &TrainArgs, path: &Path, prepared: &Prepared) -> anyhow::Result<PathBuf> {
    let numbered = (2..).map(|n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-{n}"));
        PathBuf::from(name)
    });
    for candidate in std::iter::once(path.to_owned()).chain(numbered) {
        refuse_interrupted(args, &candidate)?;
        if args.out.is_none() && RunFolder::refuse_foreign(&candidate).is_err() {
            continue;
        }
        let shown = candidate.display();
        match RunFolder::finished(&candidate, &prepared.config, args.seed, &prepared.data_sha256) {
            Some(FinishedRun::Same) if !args.quiet => {
                errln!("{shown}: the finished run there, of the same data and settings, is replaced");
            }
            Some(FinishedRun::Other) if args.out.is_none() => continue,
            Some(FinishedRun::Other) => return Err(RunFolder::other_run(&candidate)).context("--out"),
            Some(FinishedRun::Same) | None => {}
        }
        if candidate != path && !args.quiet {
            errln!("run folder: {shown}, since {} has a run of other data or settings, or other files", path.display());
        }
        return Ok(candidate);
    }
    unreachable!("the names do not end")
}

fn default_folder(args: &TrainArgs) -> anyhow::Result<PathBuf> {
    let (name, method) = match (&args.preset, &args.data) {
        (None, Some(data)) => (own_title(data), MethodKind::Nae),
        _ => {
            let config = preset::load(preset_name(args))?;
            (config.source().own_title().unwrap_or(config.name()).to_owned(), config.method())
        }
    };
    let method = match args.method.map_or(method, MethodKind::from) {
        MethodKind::Nae => String::new(),
        other => format!("-{}", other.name()),
    };
    Ok(PathBuf::from(format!("runs/{name}{method}-{}", args.seed)))
}

fn preset_name(args: &TrainArgs) -> &str {
    args.preset.as_deref().unwrap_or(PRESETS[0].name)
}

fn from_preset(args: &TrainArgs, engines: EngineChoice) -> anyhow::Result<Job> {
    let mut raw = preset::load(preset_name(args))?.raw().clone();
    raw.data.held_out = args.held_out.or(raw.data.held_out);
    raw.method = args.method.map_or(raw.method, MethodKind::from);
    raw.calibration.confidence = args.confidence.or(raw.calibration.confidence);
    if let Some(features) = &mut raw.data.features {
        // The preset may be from an earlier run; the new run may use other data.
        features.data_sha256 = None;
    }
    let config = Config::new(raw).context("--held-out, --method or --confidence")?;
    let engine = engines.engine(config.architecture())?;
    let source = config.source();
    if source.is_embedded() && args.data.is_some() {
        bail!(
            "--data: the data of the preset {} are {}, which are part of the program; leave --data out, or leave --preset out \
             to train on your own data",
            config.name(),
            source.title()
        );
    }
    if args.preset.is_none() && args.outliers.is_some() && !args.quiet {
        errln!("trained on {}, which are part of the program; to train on your own data, give --data", source.title());
    }
    let mut prepared = Prepared::new(config, args.seed, args.data.as_deref(), args.corrupt())?;
    prepared.check_counts()?;
    add_outliers(args, &mut prepared)?;
    Ok(Job { prepared, engine, choices: Vec::new(), resume: None })
}

/// Reads the given outliers; a plan for a user's data does this by itself.
fn add_outliers(args: &TrainArgs, prepared: &mut Prepared) -> anyhow::Result<()> {
    args.outliers.as_deref().map_or(Ok(()), |path| prepared.add_outliers(path, args.corrupt())).context("--outliers")
}

/// Prepares the continuation of a run.
fn resumed(args: &TrainArgs, run: InterruptedRun) -> anyhow::Result<Job> {
    let (mut prepared, mut resume) = run.prepare(args.data.as_deref(), args.outliers.as_deref(), args.corrupt())?;
    // A model of an experiment may have too few samples for a threshold.
    prepared.check_counts()?;
    add_outliers(args, &mut prepared)?;
    if let Some(path) = &args.outliers {
        resume.facts.outliers = Some(path.display().to_string());
    }
    if !args.quiet {
        errln!("going on after {}", resume.snapshot);
    }
    Ok(Job { prepared, engine: resume.facts.engine, choices: resume.facts.choices.clone(), resume: Some(resume) })
}

/// The first Ctrl-C, or SIGTERM, asks the run to stop at the next update; the second ends the program.
pub(crate) fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    stop_on_interrupt_until(&Arc::default())
}

/// The same until training has `ended`. From then on there is no update to stop at: the results are completed, and the
/// second Ctrl-C ends the program without them. The value is the command that exports the model, if there is one.
fn stop_on_interrupt_until(ended: &Arc<OnceLock<Option<String>>>) -> anyhow::Result<Arc<AtomicBool>> {
    let ended = Arc::clone(ended);
    let stopping = move || match ended.get() {
        None => errln!("\nstopping after this update (Ctrl-C again to stop at once)"),
        Some(export) => errln!(
            "\ntraining has ended; the results follow (Ctrl-C again to stop without them{})",
            export.as_ref().map(|command| format!("; the model is then exported by {command}")).unwrap_or_default()
        ),
    };
    interrupt::catch(stopping).context("Ctrl-C cannot be caught")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_is_one_argument() {
        assert_eq!(quoted(Path::new("runs/mine-0")), "runs/mine-0");
        assert_eq!(quoted(Path::new("my data/it's")), "\"my data/it's\"");
    }
}
