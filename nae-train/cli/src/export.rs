//! `nae-train export`: exports the model of a run folder. Also writes the files of `nae-train
//! --export`.

use std::path::Path;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_data::own::Corrupt;
use nae_onnx::ending::ModelFormat;
use nae_onnx::file;
use nae_onnx::metadata::ModelMetadata;
use nae_train::config::Config;
use nae_train::methods::Model;
use nae_train::recorded;
use nae_train::report::{CHECKPOINT, RunFolder};
use nae_train::run::Prepared;
use nae_train::{export, methods};

use crate::Done;
use crate::args::{ExportArgs, ExportFiles};
use crate::eval::warn_unfinished;
use crate::output::outln;
use crate::output_file;

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<Done> {
    if args.export.export.is_none() && args.export.export_parts.is_none() {
        bail!("nothing to write: give --export FILE.onnx or --export-parts DIR");
    }
    check(&args.export, args.data.as_deref().into_iter().chain([args.run.as_path()]))?;
    let device = Device::flex();
    let (config, _) = RunFolder::read(&args.run)?;
    check_model(&args.export, &config)?;
    let model = methods::load(&config, &args.run.join(CHECKPOINT), &device)?;
    let prepared = recorded::prepare(&args.run, args.data.as_deref(), Corrupt::Skip)?;
    let metadata = prepared.calibrate(&*model, &device)?;
    write(&args.export, &*model, &prepared, &metadata)?;
    warn_unfinished(&args.run);
    if let Some(file) = &args.export.export {
        outln!("model: {}", file.display())?;
    }
    Ok(Done::Whole)
}

/// Refuses targets that cannot be written, or are among the files and folders that are read, before hours are spent on
/// training.
pub(crate) fn check<'a>(
    files: &ExportFiles,
    inputs: impl IntoIterator<Item = &'a Path, IntoIter: Clone>,
) -> anyhow::Result<()> {
    let inputs = inputs.into_iter();
    if let Some(path) = &files.export {
        ModelFormat::Onnx.check_name(path).context("--export")?;
        output_file::check(path, inputs.clone())
            .context("--export: give the name of a file in a folder that you can write to")?;
    }
    if let Some(folder) = &files.export_parts {
        if folder.exists() && !folder.is_dir() {
            bail!("{}: this is a file; --export-parts takes a folder", folder.display());
        }
        // The folder is made only when there is something to put into it.
        let existing = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
        for name in ["encoder.onnx", "decoder.onnx"] {
            output_file::check(&existing.join(name), inputs.clone()).context("--export-parts")?;
        }
    }
    Ok(())
}

/// Refuses files that cannot be written for a model of `config`, before it is trained.
pub(crate) fn check_model(files: &ExportFiles, config: &Config) -> anyhow::Result<()> {
    if files.export_parts.is_some() {
        export::check_parts(config)?;
    }
    if files.export.is_some() { Ok(export::check(config)?) } else { Ok(()) }
}

/// Writes the requested files.
pub(crate) fn write(
    files: &ExportFiles,
    model: &dyn Model,
    prepared: &Prepared,
    metadata: &ModelMetadata,
) -> anyhow::Result<()> {
    let config = &prepared.config;
    if let Some(path) = &files.export {
        file::write(path, &export::model(model, config, prepared.features(), metadata)?)?;
    }
    if let Some(folder) = &files.export_parts {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (name, bytes) in export::parts(model, config)? {
            file::write(folder.join(name), &bytes)?;
        }
    }
    Ok(())
}
