//! The table of the experiment, over seeds, and its picture, for the first seed.

use std::collections::BTreeSet;
use std::path::Path;

use burn::tensor::Device;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use nae_data::counted;
use serde::Serialize;
use serde_json::{Value, json};

use super::cell::{Cell, Distances};
use super::{Experiment, ExperimentError, Finished, NAME};
use crate::compare::Estimate;
use crate::density::picture::{self, Panel};
use crate::density::{Grid, GridDensity};
use crate::experiments::origin;
use nae_train::seed::Stream;

/// The number of data points drawn in each panel.
const SHOWN: usize = 80;

/// One method with one latent space, over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the method.
    pub method: String,
    /// The latent dimension D_z.
    pub latent_dim: usize,
    /// The number of seeds.
    pub seeds: usize,
    /// The number of seeds that diverged; the means are over the others.
    pub diverged: usize,
    /// The total variation distance; see `Distances`.
    pub total_variation: Estimate,
    /// The KL divergence, in nats.
    pub kl_divergence: Estimate,
    /// The mass of spurious modes; see `Distances`.
    pub mass_off_data: Estimate,
    /// The final temperature T.
    pub temperature: Estimate,
}

/// The means over seeds, in the order of the settings.
pub fn rows(experiment: &Experiment, finished: &[Finished]) -> Vec<Row> {
    let mut rows = Vec::new();
    for latent in experiment.settings().latents() {
        for method in experiment.settings().methods() {
            let own: Vec<&Finished> =
                finished.iter().filter(|f| f.cell.method == method.name && f.cell.latent_dim == latent.dim).collect();
            let results: Vec<Distances> = own.iter().filter_map(|f| f.result).collect();
            let estimate = |of: &dyn Fn(&Distances) -> f64| Estimate::of(&results.iter().map(of).collect::<Vec<_>>());
            rows.push(Row {
                method: method.name.clone(),
                latent_dim: latent.dim,
                seeds: own.len(),
                diverged: own.len() - results.len(),
                total_variation: estimate(&|d| d.total_variation),
                kl_divergence: estimate(&|d| d.kl_divergence),
                mass_off_data: estimate(&|d| d.mass_off_data),
                temperature: estimate(&|d| d.temperature),
            });
        }
    }
    rows
}

/// The results, for programs.
pub fn json(experiment: &Experiment, rows: &[Row], finished: &[Finished]) -> Value {
    let commits: BTreeSet<_> = finished.iter().map(|model| &model.origin.commit).collect();
    json!({
        "experiment": NAME,
        "scale": experiment.scale(),
        "seeds": experiment.seeds().iter().collect::<Vec<_>>(),
        "version": env!("CARGO_PKG_VERSION"),
        "commits": commits,
        "settings": experiment.settings().text(),
        "rows": rows,
    })
}

/// The table for a terminal.
pub fn terminal(experiment: &Experiment, rows: &[Row], finished: &[Finished]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["D_z", "method", "total variation", "KL, nats", "mass off the data", "T"]);
    for row in rows {
        table.add_row([
            row.latent_dim.to_string(),
            match row.diverged {
                0 => row.method.clone(),
                n => format!("{} ({n} of {} diverged)", row.method, row.seeds),
            },
            row.total_variation.to_string(),
            row.kl_divergence.to_string(),
            row.mass_off_data.to_string(),
            row.temperature.to_string(),
        ]);
    }
    let seeds = counted(rows.iter().map(|row| row.seeds).max().unwrap_or(0), "seed");
    format!(
        "{}, model against true density on [−4, 4]², mean ± standard error over {seeds}, scale `{}`\n\
         {table}{}",
        experiment.settings().target().title(),
        experiment.scale().name(),
        origin::note(finished.iter().map(|model| &model.origin))
    )
}

/// The densities of the first seed's models and the true one, as SVG; weights are read from the folder `path`. Also returns the
/// models whose weights are not there, which are left out.
///
/// # Errors
/// [`ExperimentError`] if weights cannot be read or drawing fails.
pub fn figure(
    experiment: &Experiment,
    finished: &[Finished],
    path: &Path,
    device: &Device,
) -> Result<(String, Vec<Cell>), ExperimentError> {
    let target = experiment.settings().target();
    let truth = target.density();
    let data = truth.sample(SHOWN, Stream::Evaluation.of(0).rng());
    let exact = GridDensity::from_log_density(Grid::paper(), |x| truth.log_density(x))?;
    let mut drawn = vec![(target.title().to_owned(), exact, Vec::new())];
    let mut missing = Vec::new();
    let first = experiment.seeds().iter().next();
    for job in experiment.jobs().iter().filter(|job| Some(job.seed) == first) {
        let cell = job.cell();
        let Some(f) = finished.iter().find(|f| f.cell == cell && f.result.is_some()) else { continue };
        let weights = path.join(experiment.weights(&cell));
        if !weights.exists() {
            missing.push(cell);
            continue;
        }
        let model = job.start(device)?.load(&cell.to_string(), &weights)?;
        let title = format!("{}, D_z = {}", cell.method, cell.latent_dim);
        drawn.push((title, model.density(device)?, f.negatives.clone()));
    }
    let panels: Vec<Panel<'_>> =
        drawn.iter().map(|(title, density, samples)| Panel { title, density, data: &data, samples }).collect();
    let picture = picture::densities(&panels, 4)
        .map_err(|reason| ExperimentError::Io { path: path.to_owned(), cause: std::io::Error::other(reason) })?;
    Ok((picture, missing))
}
