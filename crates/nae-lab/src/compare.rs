//! A fair comparison: the NAE and a plain autoencoder with the same training time and its own best latent dimension,
//! over several seeds.
//!
//! The plain autoencoder's D_z is the one that best separates ConstantGray, the paper's selection set, from validation
//! images, for a seed that is not among those reported. For each seed, both models use the same division of the data.
//! Time is processor time, so that other processes on the machine favour neither.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use burn::tensor::Device;
use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};

use crate::Seeds;
use nae_data::own::Corrupt;
use nae_train::arch::Autoencoder;
use nae_train::commit;
use nae_train::config::MethodKind;
use nae_train::config::{Config, ConfigError};
use nae_train::engine::Engine;
use nae_train::eval::Table;
use nae_train::methods::{Decision, Model};
use nae_train::report::journal;
use nae_train::run::{Prepared, RunError, nae_column, plain_column};
use nae_train::train::{Ending, Observer, Phase, Progress, TrainError, selection_auroc};

/// The seed for the selection of D_z.
pub const CHOOSING_SEED: u64 = 1_000_000;

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The settings of the NAE.
    pub config: Config,
    /// The seeds.
    pub seeds: Seeds,
    /// The values of D_z to try for the plain autoencoder.
    pub latent_dims: Vec<usize>,
    /// The engine that computes gradients.
    pub engine: Engine,
    /// The folder of a data set that is not embedded.
    pub data: Option<PathBuf>,
}

/// A comparison that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A latent dimension that no network can have.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A run failed, or its data cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The configuration cannot be written.
    #[error(transparent)]
    Settings(#[from] toml::ser::Error),
    /// The list of latent dimensions is empty, or no autoencoder has a finite selection AUROC.
    #[error(
        "no latent dimension to choose from: expected at least one whose autoencoder has a finite selection AUROC, found none; \
         give --latent-dims, or lower pretraining.learning_rate if the autoencoders diverge"
    )]
    NoLatentDim,
    /// The preset does not train an NAE from a pre-trained autoencoder.
    #[error(
        "{name}: expected a preset of an NAE with an epoch of pre-training or more, whose time an autoencoder's epochs are \
         measured by; found method \"{method}\" and pretraining.epochs = {epochs}"
    )]
    Preset {
        /// The name of the preset.
        name: String,
        /// The method of the preset.
        method: &'static str,
        /// The number of epochs of pre-training.
        epochs: usize,
    },
    /// The comparison was stopped on request.
    #[error("interrupted")]
    Interrupted,
}

/// The results of one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seed {
    /// The seed.
    pub seed: u64,
    /// The AUROC of the plain autoencoder and of the NAE.
    pub auroc: Table,
    /// The update of the NAE's kept state.
    pub kept_update: usize,
    /// The processor time of the NAE's training in seconds, including pre-training; the plain autoencoder was trained
    /// for as many epochs as fit into it.
    pub processor_seconds: f64,
    /// The number of those epochs.
    pub autoencoder_epochs: usize,
}

/// A part of a comparison, to be stored as soon as it is finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The selection AUROC of every latent dimension that was tried for the plain autoencoder; `None` if it diverged.
    Choice(Vec<(usize, Option<f64>)>),
    /// One seed of both models.
    Seed(Seed),
}

/// The comparison for one held-out class.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The name of the preset.
    pub preset: String,
    /// The held-out class, if any.
    pub held_out: Option<u8>,
    /// The NAE's latent dimension.
    pub latent_dim: usize,
    /// The latent dimension of the plain autoencoder.
    pub autoencoder_latent_dim: usize,
    /// The selection AUROC of every latent dimension that was tried; `None` if its autoencoder diverged.
    pub choice: Vec<(usize, Option<f64>)>,
    /// The results of all seeds.
    pub seeds: Vec<Seed>,
    /// The means over the seeds.
    pub rows: Vec<Summary>,
    /// The [commit] of the program that ended the comparison, if it was known.
    pub commit: Option<String>,
}

/// The results of one outlier set over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The name of the set.
    pub outliers: String,
    /// Whether training was allowed to use such images, for the selection of a state.
    pub selection: bool,
    /// The AUROC of the plain autoencoder.
    pub autoencoder: Estimate,
    /// The AUROC of the NAE.
    pub nae: Estimate,
    /// The AUROC of the NAE minus that of the plain autoencoder, seed by seed.
    pub difference: Estimate,
}

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean; NaN for no values.
    pub mean: f64,
    /// The sample standard deviation divided by √n; NaN for one value or none.
    pub standard_error: f64,
}

impl Estimate {
    /// The estimate from `values`. For no values, both fields are NaN, which is printed as a dash.
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
    /// Identifies what is compared: settings, data and version of the program. It does not depend on the number of
    /// seeds, so that further seeds can be added.
    ///
    /// # Errors
    /// [`CompareError::Run`] if the data cannot be read; [`CompareError::Settings`] if the configuration cannot be
    /// written as TOML.
    pub fn digest(&self) -> Result<String, CompareError> {
        let config = toml::to_string(self.config.raw())?;
        let data = self.config.source().load(self.data.as_deref(), &self.config.form(), Corrupt::Skip);
        let data_sha256 = data.map_err(RunError::Data)?.sha256;
        let choices = format!("{:?} {:?}", self.latent_dims, self.engine);
        Ok(journal::digest([config.as_str(), &choices, &data_sha256, env!("CARGO_PKG_VERSION")]))
    }

    /// The number of parts of this comparison.
    pub fn parts(&self) -> usize {
        1 + self.seeds.len()
    }

    /// Carries out all runs except those of the parts in `kept`; `done` is called with each new part.
    ///
    /// # Errors
    /// [`CompareError`]; parts that were passed to `done` need not be repeated.
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
        // Before anything is trained.
        for &latent_dim in &self.latent_dims {
            self.plain(latent_dim, epochs).map_err(CompareError::from)?;
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
        // If several are equal, the smallest, since it reconstructs least outside the data.
        let finite = choice.iter().filter_map(|&(latent_dim, auroc)| Some((latent_dim, auroc?)));
        let best = finite.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
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
            commit: commit::get(),
        })
    }

    /// The selection AUROC of every latent dimension, with the training time of an NAE; `None` for an autoencoder that diverges.
    fn choose(&self, device: &Device, stop: &AtomicBool) -> Result<Vec<(usize, Option<f64>)>, CompareError> {
        let (prepared, timed) = self.nae(CHOOSING_SEED, device, stop)?;
        self.latent_dims
            .iter()
            .map(|&latent_dim| {
                let model = match self.autoencoder(&prepared, latent_dim, timed.epochs, device, stop) {
                    Err(CompareError::Run(RunError::Train(TrainError::NotANumber { .. }))) => {
                        return Ok((latent_dim, None));
                    }
                    trained => trained?,
                };
                let (split, decision) = (&prepared.split, Decision::Reconstruction);
                let auroc = selection_auroc(&model, decision, split, CHOOSING_SEED, self.engine, device);
                Ok((latent_dim, Some(auroc).filter(|auroc| auroc.is_finite())))
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
        if let Ending::Interrupted { .. } = outcome.ending {
            return Err(CompareError::Interrupted);
        }
        let seconds = started.elapsed().as_secs_f64();
        // An epoch of pre-training is one of each manifold's autoencoder; they differ in D_z alone.
        let autoencoders = 1 + self.config.manifolds().len();
        let epochs = (seconds / clock.seconds_an_epoch() * autoencoders as f64).round().max(1.0) as usize;
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
        let model = prepared.train_autoencoder(&self.plain(latent_dim, epochs)?, self.engine, device, stop)?;
        interrupted(stop)?;
        Ok(model)
    }

    /// The settings of the plain autoencoder: those of the NAE's pre-training, without its further manifolds.
    fn plain(&self, latent_dim: usize, epochs: usize) -> Result<Config, ConfigError> {
        let mut raw = self.config.raw().clone();
        *raw.architecture.latent_dim_mut() = latent_dim;
        raw.pretraining.epochs = epochs;
        raw.method = MethodKind::Ae;
        Config::new(raw)
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

/// Measures the time of the epochs of pre-training.
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

    /// Without epochs, the time of one is unknown; and the preset of the NAE has to train an NAE.
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

    /// The plain autoencoder has one manifold, whatever the NAE's; and a D_z without a network is found before training.
    #[test]
    fn the_plain_autoencoder_is_the_pre_training_of_one() {
        let mut raw = nae_train::config::preset::load("digits").expect("valid").raw().clone();
        raw.training.fixed_manifold = true;
        raw.baselines.mpdr.manifolds = vec![16, 32];
        let of = |latent_dims: &[usize]| Comparison {
            config: Config::new(raw.clone()).expect("valid"),
            seeds: Seeds::first(1).expect("one"),
            latent_dims: latent_dims.to_vec(),
            engine: Engine::Cpu,
            data: None,
        };
        let plain = of(&[8]).plain(8, 7).expect("valid");
        assert_eq!((plain.architecture().latent_dim(), plain.pretraining().epochs), (8, 7));
        assert!(plain.manifolds().is_empty());
        let done = |_: &Part| -> Result<(), CompareError> { panic!("nothing is trained") };
        let error = of(&[8, 0]).run(&Device::flex(), &AtomicBool::new(false), &[], done).expect_err("refused");
        assert!(matches!(error, CompareError::Config(_)), "{error}");
    }

    /// Otherwise parts of one comparison would continue with other data.
    #[test]
    fn a_digest_depends_on_the_data() {
        let folder = tempfile::tempdir().expect("a folder");
        let digest = |grey: u8| {
            crate::one_image_mnist::write(folder.path(), grey);
            let comparison = Comparison {
                config: nae_train::config::preset::load("mnist-holdout").expect("valid"),
                seeds: Seeds::first(1).expect("one"),
                latent_dims: vec![8],
                engine: Engine::Cpu,
                data: Some(folder.path().to_owned()),
            };
            comparison.digest().expect("reads")
        };
        let first = digest(1);
        assert_eq!(digest(1), first);
        assert_ne!(digest(2), first);
    }

    #[test]
    fn a_standard_error_by_hand() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        assert_eq!(estimate.mean, 2.0);
        // The sample variance is 1, and n = 3.
        assert!((estimate.standard_error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
