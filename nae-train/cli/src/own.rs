//! `nae-train --data` without a preset: plans a run from the arguments, and prints its choices.

use std::path::Path;
use std::time::Instant;

use anyhow::bail;
use burn::tensor::Device;
use nae_train::config::MethodKind;
use nae_train::engine::EngineChoice;
use nae_train::own::{self, Length, OwnForm, OwnMethod, Planned, Wishes};

use crate::args::TrainArgs;
use crate::job::Job;
use crate::output::errln;

/// Reads the data at `path` and plans a run on them that ends in time.
pub(crate) fn plan(
    args: &TrainArgs,
    path: &Path,
    engines: EngineChoice,
    device: &Device,
    started: Instant,
) -> anyhow::Result<Job> {
    let Some(method) = OwnMethod::of(args.method.map_or(MethodKind::Nae, MethodKind::from)) else {
        bail!(
            "--method: expected nae, mahalanobis or knn for data of your own; the report of an NAE also has the plain autoencoder \
             that it starts from; for another method, give the config.toml of a run on these data as --preset"
        );
    };
    let Planned { prepared, engine, choices } = own::plan(&wishes(args, method), path, engines, device, started)?;
    Ok(Job { prepared, engine, choices, resume: None })
}

fn wishes(args: &TrainArgs, method: OwnMethod) -> Wishes {
    Wishes {
        method,
        seed: args.seed,
        length: args.time_budget.map(Length::Time).unwrap_or_default(),
        corrupt: args.corrupt(),
        images: args.asked(),
        top_k: args.top_k.map(usize::from),
        features: args.features.clone().map(|file| (file, args.feature_outputs.clone())),
        missing: args.missing.into(),
        window: args.window(),
        form: args.form.map(OwnForm::from),
        outliers: args.outliers.clone(),
        held_out: args.held_out,
        confidence: args.confidence,
    }
}

/// Prints the choices, and warnings about the data, before the run starts.
pub(crate) fn say(choices: &[String], warnings: &[String]) {
    for sentence in choices {
        errln!("{sentence}");
    }
    for warning in warnings {
        errln!("warning: {warning}");
    }
}
