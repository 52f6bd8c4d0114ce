//! Compares the forms that a user's images can be trained in: whole, in tiles, or as features of a frozen network.
//!
//! For each form an autoencoder is trained for a short time on some of the images. Artificial defects are made in the
//! other images before they are converted to any form, and the form with the best detection of these is chosen. No real
//! outliers are used. The caller decides which forms are compared, and whether a comparison is needed.

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

/// One of this many images is used for evaluation, the others for training.
const JUDGED: usize = 4;
/// The least number of images for a trial: with fewer, the mean AUROC over three kinds of defects varies as much as
/// between forms.
pub const MIN_IMAGES: usize = 60;

/// The largest number of samples that a form is trained on, since an image may have a hundred tiles.
const MAX_SAMPLES: usize = 20_000;

/// The images for the trials of forms.
#[derive(Clone, Debug)]
pub struct Trial {
    train: Vec<Pixels>,
    /// The images for evaluation: unchanged, and with each kind of defect.
    normal: Vec<Pixels>,
    defects: Vec<(Defect, Vec<Pixels>)>,
    seed: u64,
}

/// The result of a trial of one form: how well its autoencoder separated defects from normal images.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The AUROC for each kind of defect.
    pub auroc: Vec<(Defect, f64)>,
    /// The number of training epochs that were possible in the time.
    pub epochs: usize,
}

/// The length of a form's training.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The number of updates, rounded up to whole epochs.
    pub updates: usize,
    /// The time limit of the training, which may reduce the updates; there is at least one epoch.
    pub time: Option<Duration>,
}

/// An error in the trial of a form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The images cannot be converted to the form, or trained on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The settings of the form are not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The settings are for a table.
    #[error("expected settings for images, found some for a table")]
    Table,
    /// The energies of the autoencoder are not finite.
    #[error("the energies of an autoencoder in this form are not finite")]
    Diverged,
}

impl Verdict {
    /// The mean AUROC over the kinds of defects.
    pub fn mean(&self) -> f64 {
        self.auroc.iter().map(|(_, auroc)| auroc).sum::<f64>() / self.auroc.len().max(1) as f64
    }
}

impl Trial {
    /// Prepares trials on `originals`, a quarter of which is for evaluation. `seed` is the seed of the defects. `None`
    /// if there are fewer than [`MIN_IMAGES`].
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

    /// The numbers of images for training and for evaluation.
    pub fn counts(&self) -> (usize, usize) {
        (self.train.len(), self.normal.len())
    }

    /// Trains the autoencoder of `draft` and evaluates it.
    ///
    /// # Errors
    /// [`TrialError`] if the form cannot be tried or its energies are not finite.
    pub fn judge(
        &self,
        draft: &Config,
        engine: Engine,
        device: &Device,
        effort: Effort,
    ) -> Result<Verdict, TrialError> {
        let Form::Images(form) = draft.form() else { return Err(TrialError::Table) };
        let set = |images: &mut dyn Iterator<Item = &Pixels>| {
            form.of(images).map_err(|error| RunError::Data(DataError::form(draft.source().title(), &error)))
        };
        let counts = self.train.iter().map(|image| form.count(image.shape).unwrap_or(1));
        let each = (counts.sum::<usize>() / self.train.len()).max(1);
        // All tiles of all images may not fit into the memory.
        let some = (MAX_SAMPLES / each).max(plan::MIN_IMAGES).min(self.train.len());
        let samples = set(&mut (0..some).map(|k| &self.train[k * self.train.len() / some]))?;
        let prepared = Prepared::of(draft.clone(), self.seed, Loaded::whole(samples, String::new()))?;
        let train = |epochs: usize| -> Result<_, TrialError> {
            let mut raw = draft.raw().clone();
            raw.pretraining.epochs = epochs;
            // If the learning rate falls, it does so over these epochs.
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
            let mut energies = Vec::with_capacity(images.len());
            for some in images.chunks((MAX_SAMPLES / each).max(1)) {
                let samples = prepared.samples(set(&mut some.iter())?).map_err(RunError::from)?;
                energies.extend(decided(&model, Decision::Reconstruction, &samples, engine, device));
            }
            Ok(energies)
        };
        let normal = energies(&self.normal)?;
        let judged = self.defects.iter().map(|(defect, images)| {
            let auroc = auroc(&normal, &energies(images)?).ok_or(TrialError::Diverged)?;
            Ok((*defect, auroc))
        });
        Ok(Verdict { auroc: judged.collect::<Result<_, TrialError>>()?, epochs })
    }
}
