//! The comparison that answers "is it worth it?": the NAE beside a plain autoencoder that got the same time and its own
//! best latent dimension, over several seeds.
//!
//! The plain autoencoder's D_z is the one that tells ConstantGray, the paper's selection set, best from validation
//! images, on a seed that is not among those reported. Each seed gives both models the same division of the data.
//! Time is processor time, so that what else the machine does favours neither.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use burn::tensor::Device;
use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};

use crate::Seeds;
use nae_data::own::Corrupt;
use nae_train::arch::Autoencoder;
use nae_train::config::MethodKind;
use nae_train::config::{Config, ConfigError};
use nae_train::engine::Engine;
use nae_train::eval::Table;
use nae_train::methods::{Decision, Model};
use nae_train::report::journal;
use nae_train::run::{Prepared, RunError, nae_column, plain_column};
use nae_train::train::selection_auroc;
use nae_train::train::{Observer, Phase, Progress};

/// The seed on which D_z is chosen.
pub const CHOOSING_SEED: u64 = 1_000_000;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The NAE's settings.
    pub config: Config,
    /// The seeds.
    pub seeds: Seeds,
    /// D_z the plain autoencoder chooses from.
    pub latent_dims: Vec<usize>,
    /// What computes gradients.
    pub engine: Engine,
    /// The folder of a data set that is not embedded.
    pub data: Option<PathBuf>,
}

/// A comparison that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A latent dimension no network has.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There was no latent dimension to choose from.
    #[error("no latent dimension to choose from")]
    NoLatentDim,
    /// The preset trains no NAE from a pre-trained autoencoder.
    #[error(
        "{name}: expected a preset of an NAE with an epoch of pre-training or more, whose time an autoencoder's epochs are \
         measured by; found method \"{method}\" and pretraining.epochs = {epochs}"
    )]
    Preset {
        /// Its name.
        name: String,
        /// Its method.
        method: &'static str,
        /// Its epochs of pre-training.
        epochs: usize,
    },
    /// Asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// One seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seed {
    /// The seed.
    pub seed: u64,
    /// AUROC of the plain autoencoder and of the NAE.
    pub auroc: Table,
    /// The update whose state the NAE kept.
    pub kept_update: usize,
    /// Processor seconds the NAE trained for, pre-training included; the plain autoencoder was given as many epochs as
    /// fit.
    pub processor_seconds: f64,
    /// Those epochs.
    pub autoencoder_epochs: usize,
}

/// A part of a comparison, worth keeping as soon as it is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Selection AUROC of every latent dimension the plain autoencoder chooses from.
    Choice(Vec<(usize, f64)>),
    /// One seed of both models.
    Seed(Seed),
}

/// The comparison for one held-out class.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The preset.
    pub preset: String,
    /// The held-out class, if any.
    pub held_out: Option<u8>,
    /// The NAE's latent dimension.
    pub latent_dim: usize,
    /// The plain autoencoder's.
    pub autoencoder_latent_dim: usize,
    /// Selection AUROC of every latent dimension tried.
    pub choice: Vec<(usize, f64)>,
    /// All seeds.
    pub seeds: Vec<Seed>,
    /// Means over the seeds.
    pub rows: Vec<Summary>,
}

/// One outlier set over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The set.
    pub outliers: String,
    /// Whether training was allowed to look at such images.
    pub selection: bool,
    /// Plain autoencoder.
    pub autoencoder: Estimate,
    /// NAE.
    pub nae: Estimate,
    /// NAE less plain autoencoder, seed by seed.
    pub difference: Estimate,
}

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Sample standard deviation over √n; NaN for one value.
    pub standard_error: f64,
}

impl Estimate {
    /// Of `values`.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        Self { mean, standard_error: (squares / (n - 1.0) / n).sqrt() }
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.mean.is_nan() {
            return f.write_str("–");
        }
        write!(f, "{:.3}", self.mean)?;
        if self.standard_error.is_nan() { Ok(()) } else { write!(f, " ± {:.3}", self.standard_error) }
    }
}

impl Comparison {
    /// Names what is compared; the number of seeds does not matter, so that more can follow.
    ///
    /// # Errors
    /// Where the configuration cannot be written as TOML.
    pub fn digest(&self) -> Result<String, toml::ser::Error> {
        let config = toml::to_string(self.config.raw())?;
        Ok(journal::digest([config.as_str(), &format!("{:?} {:?}", self.latent_dims, self.engine)]))
    }

    /// Parts this takes.
    pub fn parts(&self) -> usize {
        1 + self.seeds.len()
    }

    /// Makes all runs but those of the parts in `kept`; `done` is given each new part.
    ///
    /// # Errors
    /// [`CompareError`]; parts that `done` was given need not be made again.
    pub fn run<E: From<CompareError>>(
        &self,
        device: &Device,
        stop: &AtomicBool,
        kept: &[Part],
        mut done: impl FnMut(&Part) -> Result<(), E>,
    ) -> Result<Compared, E> {
        let (method, epochs) = (self.config.method(), self.config.pretraining().epochs);
        if method != MethodKind::Nae || epochs == 0 {
            let (name, method) = (self.config.name().to_owned(), method.name());
            return Err(CompareError::Preset { name, method, epochs }.into());
        }
        let kept_choice = kept.iter().find_map(|part| match part {
            Part::Choice(choice) => Some(choice.clone()),
            Part::Seed(_) => None,
        });
        let choice = match kept_choice {
            Some(choice) => choice,
            None => {
                let new = self.choose(device, stop)?;
                done(&Part::Choice(new.clone()))?;
                new
            }
        };
        // Of equals, the smallest: it reconstructs least beyond the data.
        let best = choice.iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let best = best.ok_or(CompareError::NoLatentDim)?.0;

        let mut seeds = Vec::new();
        for seed in self.seeds.iter() {
            let kept = kept.iter().find_map(|part| match part {
                Part::Seed(kept) if kept.seed == seed => Some(kept.clone()),
                _ => None,
            });
            seeds.push(match kept {
                Some(kept) => kept,
                None => {
                    let new = self.seed(seed, best, device, stop)?;
                    done(&Part::Seed(new.clone()))?;
                    new
                }
            });
        }
        Ok(Compared {
            preset: self.config.name().to_owned(),
            held_out: self.config.held_out(),
            latent_dim: self.config.architecture().latent_dim(),
            autoencoder_latent_dim: best,
            choice,
            rows: summarize(&seeds),
            seeds,
        })
    }

    /// Selection AUROC of every latent dimension, at the time an NAE takes.
    fn choose(&self, device: &Device, stop: &AtomicBool) -> Result<Vec<(usize, f64)>, CompareError> {
        let (prepared, timed) = self.nae(CHOOSING_SEED, device, stop)?;
        self.latent_dims
            .iter()
            .map(|&latent_dim| {
                let model = self.autoencoder(&prepared, latent_dim, timed.epochs, device, stop)?;
                let (split, decision) = (&prepared.split, Decision::Reconstruction);
                Ok((latent_dim, selection_auroc(&model, decision, split, CHOOSING_SEED, self.engine, device)))
            })
            .collect()
    }

    fn seed(&self, seed: u64, latent_dim: usize, device: &Device, stop: &AtomicBool) -> Result<Seed, CompareError> {
        let (prepared, timed) = self.nae(seed, device, stop)?;
        let plain = self.autoencoder(&prepared, latent_dim, timed.epochs, device, stop)?;
        Ok(Seed {
            seed,
            auroc: Table::of(&prepared.evaluate(
                &[plain_column(&plain), nae_column(&*timed.model)],
                self.engine,
                device,
            )),
            kept_update: timed.kept_update,
            processor_seconds: timed.seconds,
            autoencoder_epochs: timed.epochs,
        })
    }

    fn nae(&self, seed: u64, device: &Device, stop: &AtomicBool) -> Result<(Prepared, Timed), CompareError> {
        let prepared = Prepared::new(self.config.clone(), seed, self.data.as_deref(), Corrupt::Skip)?;
        let mut clock = Clock::default();
        let started = ProcessTime::now();
        let outcome = prepared.train(self.engine, device, &mut clock, stop, None)?;
        interrupted(stop)?;
        let seconds = started.elapsed().as_secs_f64();
        let epochs = (seconds / clock.seconds_an_epoch()).round().max(1.0) as usize;
        Ok((prepared, Timed { model: outcome.model, kept_update: outcome.kept_update, seconds, epochs }))
    }

    fn autoencoder(
        &self,
        prepared: &Prepared,
        latent_dim: usize,
        epochs: usize,
        device: &Device,
        stop: &AtomicBool,
    ) -> Result<Autoencoder, CompareError> {
        let mut raw = self.config.raw().clone();
        *raw.architecture.latent_dim_mut() = latent_dim;
        raw.pretraining.epochs = epochs;
        let config = Config::new(raw)?;
        let model = prepared.train_autoencoder(&config, self.engine, device, stop)?;
        interrupted(stop)?;
        Ok(model)
    }
}

fn interrupted(stop: &AtomicBool) -> Result<(), CompareError> {
    if stop.load(std::sync::atomic::Ordering::Relaxed) { Err(CompareError::Interrupted) } else { Ok(()) }
}

struct Timed {
    model: Box<dyn Model>,
    kept_update: usize,
    seconds: f64,
    epochs: usize,
}

/// Times the epochs of pre-training.
#[derive(Default)]
struct Clock {
    started: Option<ProcessTime>,
    seconds: f64,
    epochs: usize,
}

impl Clock {
    fn seconds_an_epoch(&self) -> f64 {
        self.seconds / self.epochs.max(1) as f64
    }
}

impl Observer for Clock {
    fn begin(&mut self, phase: Phase, _done: usize, _total: usize) {
        self.started = (phase == Phase::Pretraining).then(ProcessTime::now);
    }

    fn progress(&mut self, progress: &Progress) {
        if let (Phase::Pretraining, Some(started)) = (progress.phase, self.started) {
            self.seconds = started.elapsed().as_secs_f64();
            self.epochs = progress.step;
        }
    }
}

fn summarize(seeds: &[Seed]) -> Vec<Summary> {
    let Some(first) = seeds.first() else { return Vec::new() };
    (0..first.auroc.rows.len())
        .map(|k| {
            let of = |key: &str| -> Vec<f64> {
                let figure = |seed: &Seed| seed.auroc.rows[k].auroc.get(key).copied().flatten();
                seeds.iter().map(|seed| figure(seed).unwrap_or(f64::NAN)).collect()
            };
            let (plain, nae) = (of(MethodKind::Ae.column()), of(MethodKind::Nae.column()));
            let difference: Vec<f64> = nae.iter().zip(&plain).map(|(n, p)| n - p).collect();
            Summary {
                outliers: first.auroc.rows[k].outliers.clone(),
                selection: first.auroc.rows[k].selection,
                autoencoder: Estimate::of(&plain),
                nae: Estimate::of(&nae),
                difference: Estimate::of(&difference),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without epochs there is no time of one; and what is called the NAE has to be one.
    #[test]
    fn a_preset_that_gives_no_time_of_an_epoch_is_refused() {
        let refused = |change: fn(&mut nae_train::config::RawConfig)| {
            let mut raw = nae_train::config::preset::load("digits").expect("valid").raw().clone();
            change(&mut raw);
            let comparison = Comparison {
                config: Config::new(raw).expect("valid"),
                seeds: Seeds::first(1).expect("one"),
                latent_dims: vec![8],
                engine: Engine::Cpu,
                data: None,
            };
            let done = |_: &Part| Err(CompareError::NoLatentDim);
            comparison.run(&Device::flex(), &AtomicBool::new(false), &[], done).expect_err("refused").to_string()
        };
        let message = refused(|raw| raw.pretraining.epochs = 0);
        assert!(message.contains("digits") && message.contains("pretraining.epochs = 0"), "{message}");
        let message = refused(|raw| raw.method = MethodKind::Vae);
        assert!(message.contains("method \"vae\""), "{message}");
    }

    #[test]
    fn a_standard_error_by_hand() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        assert_eq!(estimate.mean, 2.0);
        // Sample variance 1, over n = 3.
        assert!((estimate.standard_error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
