//! `nae-train compare`: the NAE beside a plain autoencoder of the same time, over seeds.

use std::time::Duration;

use anyhow::Context as _;
use burn::tensor::Device;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nae_onnx::file;
use nae_train::compare::{CompareError, Compared, Comparison};
use nae_train::config::{Config, preset};
use nae_train::engine::EngineChoice;

use super::Done;
use super::args::CompareArgs;
use super::train::stop_on_interrupt;

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<Done> {
    let base = preset::load(&args.preset)?;
    let comparisons: Vec<Comparison> = args
        .held_out
        .iter()
        .map(|&held_out| {
            let mut raw = base.raw().clone();
            raw.data.held_out = held_out;
            let config = Config::new(raw).context("--held-out")?;
            let engine = EngineChoice::from(args.engine).engine(config.architecture())?;
            Ok(Comparison { config, seeds: args.seeds.into(), latent_dims: args.latent_dims.clone(), engine })
        })
        .collect::<anyhow::Result<_>>()?;
    let stop = stop_on_interrupt()?;
    let device = Device::flex();
    let bar = bar(comparisons.iter().map(Comparison::runs).sum(), args.quiet);
    let mut results = Vec::new();
    for comparison in &comparisons {
        match comparison.run(&device, &stop, || bar.inc(1)) {
            Ok(result) => results.push(result),
            Err(CompareError::Interrupted) => return Ok(Done::Interrupted),
            Err(error) => return Err(error.into()),
        }
    }
    bar.finish_and_clear();
    let json = serde_json::to_string_pretty(&results)? + "\n";
    if let Some(path) = &args.output {
        file::write(path, json.as_bytes())?;
    }
    if args.json {
        print!("{json}");
    } else if !args.quiet {
        results.iter().for_each(print);
    }
    Ok(Done::Whole)
}

fn bar(runs: usize, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("comparing {bar:32} {pos}/{len} runs, {elapsed} gone, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(runs as u64), target)
        // The template is fixed text with indicatif's own fields.
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn print(compared: &Compared) {
    let mut table = comfy_table::Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["outliers", "autoencoder", "NAE", "difference"]);
    for row in &compared.rows {
        let mark = if row.selection { " *" } else { "" };
        table.add_row([
            format!("{}{mark}", row.outliers),
            row.autoencoder.to_string(),
            row.nae.to_string(),
            row.difference.to_string(),
        ]);
    }
    let tried: Vec<String> = compared.choice.iter().map(|(d, auroc)| format!("{d}: {auroc:.3}")).collect();
    println!(
        "AUROC, mean ± standard error over {} seeds, digit {} held out\n{table}\n\
         autoencoder: D_z = {} of {} (selection AUROC); NAE: D_z = {}; the same time for both\n\
         * selection set: training may look at it, and at no other outlier\n",
        compared.seeds.len(),
        compared.held_out,
        compared.autoencoder_latent_dim,
        tried.join(", "),
        compared.latent_dim,
    );
}
