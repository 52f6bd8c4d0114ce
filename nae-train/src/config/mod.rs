//! Configuration: presets in TOML, read strictly and checked once.
//!
//! `raw` defines the file format, `architecture` its part on the network, [`sampler`] checks its part on negative
//! samples, [`preset`] finds presets, [`text`] reads them, and [`Config`] contains checked values for the rest of the
//! crate.

pub(crate) mod architecture;
pub mod change;
pub(crate) mod features;
pub(crate) mod methods;
pub mod preset;
pub(crate) mod raw;
pub mod sampler;
pub mod text;

use nae_core::calibration::{CalibrationError, confident_rate};
use nae_core::energy::Energy;
use serde::{Deserialize, Serialize};

use crate::arch::linear::{self, linear};
use crate::arch::memory::memory;
use crate::arch::{AutoencoderSpec, LatentSpace};
use crate::sample::SamplerConfig;
use nae_data::Augmentation;
use nae_data::Source;
use nae_data::SplitShares;
use nae_data::{Form, ImageForm};
use raw::require;

pub use architecture::ArchitectureConfig;
pub use features::FeatureSettings;
pub use methods::{
    Adversarial, Autoregressive, Denoising, FeedForward, Flow, GaussianMixture, ManifoldDiffusion, MethodKind,
    Neighbours, Regularization, TableColumn, Variational, VectorQuantized, Wasserstein,
};
pub use preset::{Preset, PresetError};
pub use raw::RawConfig;

fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

/// A value that cannot be used by any run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}` is {found}; expected {expected}")]
pub struct ConfigError {
    /// The path of the key in the file.
    pub key: &'static str,
    /// What was expected.
    pub expected: &'static str,
    /// What was found.
    pub found: String,
}

/// Training by the mean loss over the data: pre-training as a plain autoencoder, and the whole training of every method
/// except the NAE.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pretraining {
    /// The number of passes over the training data.
    pub epochs: usize,
    /// The number of images in a batch.
    pub batch_size: usize,
    /// Adam's learning rate; the initial one if `final_learning_rate` is given.
    pub learning_rate: f64,
    /// The learning rate at the end, reached by half a cosine (Loshchilov and Hutter, ICLR 2017, without restarts).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_learning_rate: Option<f64>,
    /// c of the penalty c·‖w‖² on the encoder's weights; without effect for methods that have no encoder. The authors' code
    /// uses 1e-4 here too (`train_step_ae`), while the paper mentions it for NAE training only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub encoder_l2: f32,
    /// The weight of the mean ‖z‖² of the data in pre-training as an autoencoder, for ℝ^D; see
    /// [`Regularization::latent_norm`], which is the same for the NAE.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub latent_norm: f32,
    /// The limit on the L2 norm of the gradient of all weights together; longer gradients are scaled to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_gradient_norm: Option<f64>,
    /// Whether the biases of the last layer are initialized so that the first output is about the mean of the training
    /// images; otherwise the first output is small. If most of an image is black or white, the first updates can
    /// saturate a network at that value and switch off its rectified units permanently.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_at_mean: bool,
}

impl Pretraining {
    /// Settings without the optional ones.
    pub fn new(epochs: usize, batch_size: usize, learning_rate: f64) -> Self {
        Self {
            epochs,
            batch_size,
            learning_rate,
            final_learning_rate: None,
            encoder_l2: 0.0,
            latent_norm: 0.0,
            max_gradient_norm: None,
            output_at_mean: false,
        }
    }

    /// The learning rate after `share` of all updates, between 0 and 1.
    pub fn learning_rate_at(&self, share: f64) -> f64 {
        self.final_learning_rate.map_or(self.learning_rate, |last| half_cosine(self.learning_rate, last, share))
    }
}

/// Interpolates from `first` to `last` by half a cosine, where `share` is the completed share.
fn half_cosine(first: f64, last: f64, share: f64) -> f64 {
    last + (first - last) * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
}

/// The settings of NAE training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The number of parameter updates.
    pub updates: usize,
    /// The number of images, and of negative samples, in a batch.
    pub batch_size: usize,
    /// Adam's learning rate; the initial one if `final_learning_rate` is given.
    pub learning_rate: f64,
    /// The learning rate at the end, reached by half a cosine as in pre-training. The rates of encoder, decoder and
    /// temperature fall in proportion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_learning_rate: Option<f64>,
    /// The encoder's learning rate, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder_learning_rate: Option<f64>,
    /// The decoder's learning rate, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoder_learning_rate: Option<f64>,
    /// The learning rate of the temperature; if given, the temperature is learned, starting from `sampler.temperature`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_learning_rate: Option<f64>,
    /// Whether the decoder is not changed after pre-training.
    #[serde(default)]
    pub fixed_decoder: bool,
    /// Whether negative samples stay on the manifold of the pre-trained autoencoder, while the model's own weights
    /// change (manifold projection–diffusion recovery: Yoon et al., NeurIPS 2023). With
    /// [`baselines.mpdr.manifolds`](ManifoldDiffusion::manifolds), an equal part of them is on the manifold of an
    /// autoencoder of each D_z.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed_manifold: bool,
    /// The decay of a running mean of the weights; if given, the mean is the model that is evaluated and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<f64>,
    /// Determines γ: the energy of negative samples is raised up to this many times the energy of the validation images
    /// after pre-training. The loss −E + γE² falls up to E = 1/(2γ).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_bound: Option<f64>,
    /// If given, the data's mean energy is kept below this many times the energy of the validation images after
    /// pre-training: above that, the negative samples' energy has less weight in the loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positive_bound: Option<f64>,
    /// The mean energy of normal data for which the chains of the sampler are set. If given, they are adapted to the
    /// energy E₀ of the validation data after pre-training ([`SamplerConfig::adapted`]), since that differs by orders of
    /// magnitude between tables. Only for training: new images of a model are drawn by the chains as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_energy: Option<f64>,
    /// The weights of the regularizers.
    pub regularization: Regularization,
}

impl Training {
    /// Returns these settings with the γ that follows from [`negative_bound`](Self::negative_bound), if it is given,
    /// for validation images whose mean energy is `energy` after pre-training.
    pub fn bounded(mut self, energy: f64) -> Self {
        if let Some(bound) = self.negative_bound {
            let gamma = 1.0 / (2.0 * bound * energy);
            // An energy of 0 gives no bound.
            self.regularization.negative_energy = if gamma.is_finite() { gamma as f32 } else { 0.0 };
        }
        self
    }

    /// The factor of all learning rates after `update` updates.
    pub fn rate_factor(&self, update: usize) -> f64 {
        let share = update as f64 / self.updates.max(1) as f64;
        self.final_learning_rate.map_or(1.0, |last| half_cosine(1.0, last / self.learning_rate, share.min(1.0)))
    }
}

/// When the model is evaluated, which of its states is kept, and when training has diverged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// The number of updates between two looks.
    pub every: usize,
    /// The run has diverged if the negative samples' mean energy exceeds this many times the data's; if `None`, only if
    /// an energy is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_energy_ratio: Option<f64>,
    /// Which state is kept.
    #[serde(default, skip_serializing_if = "Keep::is_latest")]
    pub keep: Keep,
}

/// Which state of a run is kept, judged by the AUROC of the selection set against validation images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The latest state whose AUROC is not below the confidence interval of the best AUROC.
    #[default]
    Latest,
    /// The state with the highest AUROC, and the latest of equal ones, as in the paper.
    Best,
}

impl Keep {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_latest(&self) -> bool {
        *self == Self::Latest
    }
}

/// The settings of the methods other than the NAE; each has defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Baselines {
    /// The settings of the denoising autoencoder.
    pub dae: Denoising,
    /// The settings of the variational autoencoder.
    pub vae: Variational,
    /// The settings of the Wasserstein autoencoder.
    pub wae: Wasserstein,
    /// The settings of the vector-quantized autoencoder.
    pub vqvae: VectorQuantized,
    /// The settings of the deep autoencoding Gaussian mixture model.
    pub dagmm: GaussianMixture,
    /// The settings of GANomaly.
    pub ganomaly: Adversarial,
    /// The settings of the feed-forward energy-based model.
    pub igebm: FeedForward,
    /// The settings of manifold projection–diffusion recovery with an energy network.
    #[serde(skip_serializing_if = "raw::is_default")]
    pub mpdr: ManifoldDiffusion,
    /// The settings of Glow.
    pub glow: Flow,
    /// The settings of PixelCNN++.
    pub pixelcnn: Autoregressive,
    /// The settings of nearest neighbours.
    pub knn: Neighbours,
}

/// All settings of a run except its seed, checked.
#[derive(Clone, Debug)]
pub struct Config {
    raw: RawConfig,
    architecture: AutoencoderSpec,
    manifolds: Vec<AutoencoderSpec>,
}

impl Config {
    /// Checks every value of `raw`.
    ///
    /// # Errors
    /// [`ConfigError`] with the first key whose value cannot be used.
    pub fn new(raw: RawConfig) -> Result<Self, ConfigError> {
        raw.check()?;
        let mut architecture = raw.architecture.spec()?.with_energy(raw.energy.into());
        if raw.method.is_fitted() {
            let image = architecture.image();
            if architecture.energy() != Energy::SquaredL2 {
                let expected = "\"squared-l2\", with this method, which is a distance";
                return Err(ConfigError { key: "energy", expected, found: format!("{:?}", architecture.energy()) });
            }
            let network = if raw.method == MethodKind::Knn {
                memory(image, raw.baselines.knn.vectors)
            } else {
                let expected = "samples of at most 1,024 values, with method = \"mahalanobis\": grey images of 32×32, coloured ones of \
                                16×16; --tile 16, or the method \"knn\", which takes larger ones";
                require("architecture.kind", image, expected, |image| image.len() <= linear::MOST_VALUES)?;
                linear(image)
            };
            architecture = network.expect("a network is for images that have values");
        }
        if raw.method.is_euclidean() {
            architecture = architecture.with_latent_space(LatentSpace::Euclidean);
        }
        if raw.method == MethodKind::Vqvae {
            let (parts, dim) = (raw.baselines.vqvae.parts, architecture.latent_dim());
            require("baselines.vqvae.parts", parts, "a number that divides architecture.latent_dim", |&parts| {
                parts > 0 && dim.is_multiple_of(parts)
            })?;
        }
        if raw.method == MethodKind::Igebm {
            let expected = "a network for images of 8×8 pixels and more, with method = \"igebm\"";
            require("architecture.kind", architecture.image(), expected, |image| {
                image.height >= 8 && image.width >= 8
            })?;
        }
        let mut manifolds = Vec::new();
        if raw.method == MethodKind::Mpdr {
            let expected = "a network for images, with method = \"mpdr\"";
            require("architecture.kind", architecture.image(), expected, |image| image.height > 1 && image.width > 1)?;
            let expected = "at least 2, with method = \"mpdr\": the first train its manifolds";
            require("pretraining.epochs", raw.pretraining.epochs, expected, |&epochs| epochs > 1)?;
            manifolds = self::manifolds(&raw, &architecture)?;
        }
        if raw.method == MethodKind::Nae && raw.training.fixed_manifold && !raw.baselines.mpdr.manifolds.is_empty() {
            let dims = &raw.baselines.mpdr.manifolds;
            let expected = "a list with architecture.latent_dim in it: the energy starts as a copy of that autoencoder";
            let Some(own) = dims.iter().position(|&dim| dim == architecture.latent_dim()) else {
                return Err(ConfigError { key: "baselines.mpdr.manifolds", expected, found: format!("{dims:?}") });
            };
            manifolds = self::manifolds(&raw, &architecture)?;
            // That autoencoder is pre-trained in any case.
            manifolds.remove(own);
        }
        if raw.method == MethodKind::Pixelcnn {
            let expected =
                "a network for images of 1 or 3 channels with sides of whole fours, with method = \"pixelcnn\"";
            require("architecture.kind", architecture.image(), expected, |image| {
                [1, 3].contains(&image.channels) && image.height.is_multiple_of(4) && image.width.is_multiple_of(4)
            })?;
        }
        if raw.method == MethodKind::Glow {
            let expected = "a network for images with sides of an even number of pixels, with method = \"glow\"";
            require("architecture.kind", architecture.image(), expected, |image| {
                image.height.is_multiple_of(2) && image.width.is_multiple_of(2)
            })?;
        }
        sampler::check(&raw.sampler, architecture.latent_space())?;
        check_effect(&raw, &architecture)?;
        let found = architecture.image();
        if let Some(features) = &raw.data.features {
            let expected = "a network for vectors of data.features.components numbers";
            let vector = nae_core::Shape::vector(features.components);
            require("architecture.kind", found, expected, |&image| image == vector)?;
            return Ok(Self { raw, architecture, manifolds });
        }
        require("architecture.kind", found, "a network for images of the shape that data.source has", |&image| {
            image == raw.data.source.image() || (raw.data.source.own_title().is_none() && raw.data.changes_size())
        })?;
        Ok(Self { raw, architecture, manifolds })
    }

    /// The preset's name.
    pub fn name(&self) -> &str {
        &self.raw.name
    }

    /// The configuration in the form of the file, as recorded in the run folder.
    pub fn raw(&self) -> &RawConfig {
        &self.raw
    }

    /// The method that is trained.
    pub fn method(&self) -> MethodKind {
        self.raw.method
    }

    /// The settings of the methods other than the NAE.
    pub fn baselines(&self) -> &Baselines {
        &self.raw.baselines
    }

    /// The autoencoders on whose manifolds negative samples start: all of them for MPDR, and for an NAE those besides
    /// its own pre-trained autoencoder; none for other methods.
    pub fn manifolds(&self) -> &[AutoencoderSpec] {
        &self.manifolds
    }

    /// The network.
    pub fn architecture(&self) -> &AutoencoderSpec {
        &self.architecture
    }

    /// The data set.
    pub fn source(&self) -> &Source {
        &self.raw.data.source
    }

    /// How external files are converted to samples like the data's.
    pub fn form(&self) -> Form {
        match self.raw.data.source.form() {
            Form::Images(form) => {
                let network = if self.features().is_some() { form.shape } else { self.architecture.image() };
                let (shape, transforms) = (network, self.raw.data.transforms);
                Form::Images(ImageForm { shape, transforms, ..form })
            }
            rows @ Form::Rows(_) => rows,
        }
    }

    /// The features that are trained on, if training does not use the images themselves.
    pub fn features(&self) -> Option<&FeatureSettings> {
        self.raw.data.features.as_ref()
    }

    /// Returns the same configuration with `sha256` as the digest of the data, for a new run on features.
    #[must_use]
    pub fn with_data_of_features(mut self, sha256: &str) -> Self {
        if let Some(features) = &mut self.raw.data.features {
            features.data_sha256 = Some(sha256.to_owned());
        }
        self
    }

    /// The random changes of training images; without dequantization for a method with a likelihood of bytes.
    pub fn augmentation(&self) -> Augmentation {
        let augmentation = self.raw.data.augmentation;
        Augmentation { dequantize: augmentation.dequantize && !self.raw.method.is_of_bytes(), ..augmentation }
    }

    /// The class kept out of training, if any.
    pub fn held_out(&self) -> Option<u8> {
        self.raw.data.held_out
    }

    /// The shares of the data's parts.
    pub fn split(&self) -> SplitShares {
        self.raw.data.split
    }

    /// The settings of pre-training.
    pub fn pretraining(&self) -> Pretraining {
        self.raw.pretraining
    }

    /// The settings of NAE training.
    pub fn training(&self) -> Training {
        self.raw.training
    }

    /// The settings of negative samples.
    pub fn sampler(&self) -> SamplerConfig {
        self.raw.sampler
    }

    /// The settings of stopping.
    pub fn stopping(&self) -> Stopping {
        self.raw.stopping
    }

    /// The target false-positive rate of the threshold.
    pub fn false_positive_rate(&self) -> f64 {
        self.raw.calibration.false_positive_rate
    }

    /// The number of images of uniform noise, and of ConstantGray, for evaluation.
    pub fn synthetic_images(&self) -> usize {
        self.raw.evaluation.synthetic_images
    }

    /// The probability with which at most a share [`false_positive_rate`](Self::false_positive_rate) of new normal data
    /// is above the threshold. If `None`, the rate holds on average over the draw of calibration data.
    pub fn confidence(&self) -> Option<f64> {
        self.raw.calibration.confidence
    }

    /// The expected share of new normal data above the threshold, which is the rate that the threshold is computed for,
    /// with `count` independent calibration energies.
    ///
    /// # Errors
    /// [`CalibrationError`] if there are too few for the [`confidence`](Self::confidence).
    pub fn expected_rate(&self, count: usize) -> Result<f32, CalibrationError> {
        let rate = self.false_positive_rate() as f32;
        self.confidence().map_or(Ok(rate), |confidence| confident_rate(count, rate, confidence as f32))
    }
}

/// Refuses settings that would be without effect beside the others.
fn check_effect(raw: &RawConfig, architecture: &AutoencoderSpec) -> Result<(), ConfigError> {
    use MethodKind::{Ae, Dae, Ganomaly, Glow, Igebm, Mpdr, Nae, Pixelcnn};
    let refuse = |key, expected, found: String| Err(ConfigError { key, expected, found });
    let (method, training) = (raw.method, &raw.training);
    if matches!(method, Ganomaly | Igebm | Glow | Pixelcnn) && architecture.energy() != Energy::SquaredL2 {
        let expected = "\"squared-l2\", with this method, whose score is no reconstruction error";
        return refuse("energy", expected, format!("{:?}", architecture.energy()));
    }
    if architecture.latent_space() == LatentSpace::Sphere {
        let expected =
            "0 with latents on the sphere, where it is the same for all: it is for latent_space = \"euclidean\"";
        if matches!(method, Nae | Ae | Dae | Mpdr) {
            require("pretraining.latent_norm", raw.pretraining.latent_norm, expected, |weight| *weight == 0.0)?;
        }
        if method == Nae {
            let weight = training.regularization.latent_norm;
            require("training.regularization.latent_norm", weight, expected, |weight| *weight == 0.0)?;
        }
    }
    if method != Nae {
        return Ok(());
    }
    if training.fixed_manifold && !raw.sampler.start.is_latent() {
        let expected = "false with this `sampler.start`: only latents are on a manifold";
        return refuse("training.fixed_manifold", expected, "true".to_owned());
    }
    if training.fixed_decoder {
        if let Some(rate) = training.decoder_learning_rate {
            let expected = "nothing with `training.fixed_decoder`";
            return refuse("training.decoder_learning_rate", expected, rate.to_string());
        }
        let weight = training.regularization.decoder_l2;
        let expected = "0 with `training.fixed_decoder`";
        require("training.regularization.decoder_l2", weight, expected, |weight| *weight == 0.0)?;
    }
    Ok(())
}

/// The autoencoders of MPDR's manifolds: `architecture`, or one for each requested D_z.
fn manifolds(raw: &RawConfig, architecture: &AutoencoderSpec) -> Result<Vec<AutoencoderSpec>, ConfigError> {
    let dims = &raw.baselines.mpdr.manifolds;
    if dims.is_empty() {
        return Ok(vec![architecture.clone()]);
    }
    let of = |&dim: &usize| {
        let mut architecture = raw.architecture.clone();
        *architecture.latent_dim_mut() = dim;
        Ok(architecture.spec()?.with_energy(raw.energy.into()))
    };
    dims.iter().map(of).collect()
}
