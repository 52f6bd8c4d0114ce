//! Which form a user's images are trained in: whole, in tiles, or as features of a frozen network.
//!
//! Each form has an autoencoder trained for a moment on some of the images; the rest get defects that are made up before
//! they are brought to any form, and the form in which these are told best is taken. No outlier is looked at. What forms
//! there are to choose from, and whether there is any need, is the caller's.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use nae_data::{DataError, Defect, Form, Loaded};
use nae_input::Pixels;
use rand::RngExt as _;

use crate::config::{Config, ConfigError};
use crate::engine::Engine;
use crate::eval::{auroc, decided};
use crate::methods::Decision;
use crate::plan;
use crate::run::{Prepared, RunError};
use crate::seed::Stream;

/// Of so many images one is judged on, and not trained on.
const JUDGED: usize = 4;
/// The fewest images that a form can be tried on: below, the spread of a mean AUROC over three kinds of defects is as large
/// as what is to be told.
pub const MIN_IMAGES: usize = 60;

/// Samples that a form is trained on, at most: of tiles there are a hundred an image.
const MAX_SAMPLES: usize = 20_000;

/// Images that forms are tried on.
#[derive(Clone, Debug)]
pub struct Trial {
    train: Vec<Pixels>,
    /// Judged on: as they are, and with each kind of defect.
    normal: Vec<Pixels>,
    defects: Vec<(Defect, Vec<Pixels>)>,
    seed: u64,
}

/// How well an autoencoder in one form told defects from normal images.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// AUROC by the kind of defect.
    pub auroc: Vec<(Defect, f64)>,
    /// Epochs of training that the time was enough for.
    pub epochs: usize,
}

/// How long a form is trained.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Updates, rounded up to whole epochs.
    pub updates: usize,
    /// Fewer where they take longer than this; one epoch at least.
    pub time: Option<Duration>,
}

/// A form that cannot be tried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The images cannot be brought to it, or be trained on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No settings for it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It is none of images.
    #[error("expected settings for images, found some for a table")]
    Table,
    /// Its energies are no numbers.
    #[error("the energies of an autoencoder in this form are no numbers")]
    Diverged,
}

impl Verdict {
    /// The mean over the kinds of defects.
    pub fn mean(&self) -> f64 {
        self.auroc.iter().map(|(_, auroc)| auroc).sum::<f64>() / self.auroc.len().max(1) as f64
    }
}

impl Trial {
    /// A trial on `originals`, of which a quarter is judged on. `seed` draws the defects. `None` where there are fewer than
    /// [`MIN_IMAGES`].
    pub fn new(originals: Vec<Pixels>, seed: u64) -> Option<Self> {
        if originals.len() < MIN_IMAGES {
            return None;
        }
        let mut noise = Stream::Trial.of(seed);
        let rng = noise.rng();
        let (mut train, mut normal) = (Vec::new(), Vec::new());
        for (number, image) in originals.into_iter().enumerate() {
            let part = if number % JUDGED == 0 { &mut normal } else { &mut train };
            part.push(image);
        }
        let defects = Defect::ALL.map(|defect| {
            let made = normal.iter().map(|image| {
                let donor = &train[rng.random_range(0..train.len())];
                defect.made_in(image, donor, rng)
            });
            (defect, made.collect())
        });
        let defects = defects.into();
        Some(Self { train, normal, defects, seed })
    }

    /// Images trained on, and judged on.
    pub fn counts(&self) -> (usize, usize) {
        (self.train.len(), self.normal.len())
    }

    /// Trains the autoencoder of `draft` and has it judge.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn judge(
        &self,
        draft: &Config,
        engine: Engine,
        device: &Device,
        effort: Effort,
    ) -> Result<Verdict, TrialError> {
        let Form::Images(form) = draft.form() else { return Err(TrialError::Table) };
        let set = |images: &[Pixels]| {
            form.of(images).map_err(|error| RunError::Data(DataError::form(draft.source().title(), &error)))
        };
        let samples = set(&self.train)?;
        let each = samples.len() / self.train.len();
        let samples = samples.some_units((MAX_SAMPLES / each.max(1)).max(plan::MIN_IMAGES));
        let prepared = Prepared::of(draft.clone(), self.seed, Loaded::whole(samples, String::new()))?;
        let train = |epochs: usize| -> Result<_, TrialError> {
            let mut raw = draft.raw().clone();
            raw.pretraining.epochs = epochs;
            // The rate falls over all epochs, where it does.
            let config = Config::new(raw)?;
            Ok(prepared.train_autoencoder(&config, engine, device, &AtomicBool::new(false))?)
        };
        let mut epochs = effort.updates.div_ceil(plan::batches(draft, prepared.split.train.len()));
        let mut timed = None;
        if let Some(time) = effort.time {
            let started = Instant::now();
            timed = Some(train(1)?);
            let fit = time.as_secs_f64() / started.elapsed().as_secs_f64().max(1e-3);
            epochs = epochs.min(fit as usize).max(1);
        }
        let model = match timed {
            Some(model) if epochs == 1 => model,
            _ => train(epochs)?,
        };

        let energies = |images: &[Pixels]| -> Result<Vec<f32>, TrialError> {
            let samples = prepared.samples(set(images)?);
            Ok(decided(&model, Decision::Reconstruction, &samples, engine, device))
        };
        let normal = energies(&self.normal)?;
        let judged = self.defects.iter().map(|(defect, images)| {
            let auroc = auroc(&normal, &energies(images)?).ok_or(TrialError::Diverged)?;
            Ok((*defect, auroc))
        });
        Ok(Verdict { auroc: judged.collect::<Result<_, TrialError>>()?, epochs })
    }
}
