//! `nae-train reconstruct`: a picture of images with the reconstructions of a run's model and of the autoencoder
//! from which its training started.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use burn::tensor::{Device, Tensor};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use nae_data::ImageSet;
use nae_data::own::Corrupt;
use nae_onnx::file;
use nae_train::arch::checkpoint;
use nae_train::eval::{Reconstructed, reconstructed};
use nae_train::methods::{self, Model};
use nae_train::recorded;
use nae_train::report::{AUTOENCODER, CHECKPOINT, RunFolder, images};
use serde_json::json;

use crate::Done;
use crate::args::ReconstructArgs;
use crate::eval::{note_missing, warn_unfinished};
use crate::output::outln;
use crate::output_file;

pub(crate) fn run(args: &ReconstructArgs) -> anyhow::Result<Done> {
    output_file::check_picture(&args.output)?;
    let read = args.data.iter().chain(&args.outliers);
    output_file::check(&args.output, read.map(PathBuf::as_path))?;
    let (device, shown) = (Device::flex(), args.run.display());
    let (config, _) = RunFolder::read(&args.run)?;
    if config.features().is_some() || config.source().samples() != "images" {
        bail!("{shown}: its samples are no images, and no picture can be made of what comes out");
    }
    warn_unfinished(&args.run);
    let (spec, method) = (config.architecture().clone(), config.method());
    let model = methods::load(&config, &args.run.join(CHECKPOINT), &device)?;
    if !model.reconstructs() {
        bail!("{shown}: {} scores by no reconstruction", method.title());
    }
    let plain = args.run.join(AUTOENCODER);
    let plain = match plain.exists() {
        true => Some(checkpoint::load(checkpoint::blank(&spec, &device), spec.name(), &plain)?),
        false => None,
    };
    let models: Vec<(&str, &dyn Model)> =
        plain.iter().map(|plain| ("autoencoder", plain as &dyn Model)).chain([(method.title(), &*model)]).collect();

    let mut prepared = recorded::prepare(&args.run, args.data.as_deref(), Corrupt::Skip)?;
    for path in &args.outliers {
        prepared.add_outliers(path, Corrupt::Skip).context("--outliers")?;
    }
    if args.sets.is_empty() {
        note_missing(&args.run, &prepared)?;
    }
    let outliers = prepared.outlier_sets();
    let sets = outliers.iter().map(|set| (set.name.as_str(), &set.images));
    let sets: Vec<(&str, &ImageSet)> = [("normal test images", &prepared.split.test)]
        .into_iter()
        .chain(sets)
        .filter(|(name, images)| {
            !images.is_empty() && (args.sets.is_empty() || args.sets.iter().any(|set| set == name))
        })
        .collect();
    if let Some(unknown) = args.sets.iter().find(|name| !sets.iter().any(|(known, _)| known == name)) {
        let known = outliers.iter().map(|set| format!("\"{}\"", set.name)).collect::<Vec<_>>().join(", ");
        bail!("--sets: no set \"{unknown}\"; there are \"normal test images\", {known}");
    }

    let columns = sets.iter().map(|(_, images)| images.len()).min().unwrap_or(0).min(args.count);
    let (titles, models): (Vec<&str>, Vec<&dyn Model>) = models.into_iter().unzip();
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for (name, images) in sets {
        let Reconstructed { rows: more, energies } = reconstructed(images, columns, &models, &device);
        figures.push((name.to_owned(), rows.len() + 1, energies));
        rows.extend(more);
    }
    file::write(&args.output, &images::png(&images::grid(&Tensor::cat(rows, 0), spec.image(), columns)))?;
    if args.json {
        let sets: Vec<_> = figures
            .iter()
            .map(|(set, row, energies)| json!({ "set": set, "row": row, "mean_energies": energies }))
            .collect();
        outln!("{}", json!({ "images": columns, "models": titles, "sets": sets }))?;
        return Ok(Done::Whole);
    }
    let mut table = comfy_table::Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let heads = titles.iter().map(|title| format!("mean energy, {title}"));
    table.set_header(["images", "row"].map(str::to_owned).into_iter().chain(heads));
    for (name, row, energies) in figures {
        let energies = energies.iter().map(|energy| format!("{energy:.4}"));
        table.add_row([name, row.to_string()].into_iter().chain(energies));
    }
    outln!("{table}")?;
    outln!(
        "{}: {columns} images of each set in a row, and below it what each model makes of them: {}",
        args.output.display(),
        titles.join(", ")
    )?;
    Ok(Done::Whole)
}
