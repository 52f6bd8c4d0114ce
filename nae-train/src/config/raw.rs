//! The format of a preset file, key by key, and the check of its values.

use nae_core::energy::Energy;
use nae_onnx::metadata::{Fit, RowWindow, Tiles, Transforms};
use serde::{Deserialize, Serialize};

use super::architecture::ArchitectureConfig;
use super::features::FeatureSettings;
use super::{Baselines, ConfigError, Pretraining, Stopping, Training};
use crate::config::methods::MethodKind;
use crate::sample::SamplerConfig;
use nae_data::Augmentation;
use nae_data::Source;
use nae_data::SplitShares;
use nae_data::own::OwnImages;
use nae_data::own_table::OwnTable;

/// A preset file. Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    /// The preset's name, recorded in the model.
    pub name: String,
    /// The method that is trained; the NAE by default.
    #[serde(default)]
    pub method: MethodKind,
    /// How a reconstruction is compared with its image.
    #[serde(default)]
    pub energy: EnergyKind,
    /// The data and their division.
    pub data: RawData,
    /// The network.
    pub architecture: ArchitectureConfig,
    /// The settings of pre-training.
    pub pretraining: Pretraining,
    /// The settings of NAE training.
    pub training: Training,
    /// The settings of negative samples.
    pub sampler: SamplerConfig,
    /// The settings of stopping.
    pub stopping: Stopping,
    /// The settings of calibration.
    pub calibration: RawCalibration,
    /// The settings of evaluation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub evaluation: RawEvaluation,
    /// The settings of the methods other than the NAE.
    #[serde(default)]
    pub baselines: Baselines,
}

/// The known energies; [`nae_core::energy::Energy`] defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyKind {
    /// The squared error per dimension, as in the paper.
    #[default]
    // The name in earlier presets and recorded runs.
    #[serde(alias = "squared_l2")]
    SquaredL2,
    /// The absolute error per dimension.
    L1,
    /// One minus the mean structural similarity, for images in [0, 1].
    Ssim,
}

impl From<EnergyKind> for Energy {
    fn from(kind: EnergyKind) -> Self {
        match kind {
            EnergyKind::SquaredL2 => Self::SquaredL2,
            EnergyKind::L1 => Self::L1,
            EnergyKind::Ssim => Self::Ssim,
        }
    }
}

/// The data and their division.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawData {
    /// The data set.
    pub source: Source,
    /// Features of a frozen network, for a user's own images; `None` if their pixels are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureSettings>,
    /// The class that is never trained on; if `None`, all classes are normal. A user's own data have no such class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<u8>,
    /// The shares of the normal images that are not trained on.
    pub split: SplitShares,
    /// The transforms of every image, in training and in scoring, before it is resized to the network's input. With
    /// `crop`, or a `fit` other than `stretch`, the images of a set may have another size than the network's input.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transforms: Transforms,
    /// The random changes of training images, drawn again each time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub augmentation: Augmentation,
}

/// The settings of calibration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawCalibration {
    /// The target share of normal images above the threshold.
    pub false_positive_rate: f64,
    /// The probability with which the target holds for the drawn calibration images; if `None`, it holds on average
    /// over draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// The settings of evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawEvaluation {
    /// The number of images of uniform noise, of ConstantGray, and of artificial rows. The paper has 4,000.
    pub synthetic_images: usize,
}

impl Default for RawEvaluation {
    fn default() -> Self {
        Self { synthetic_images: 300 }
    }
}

/// No more fit into memory, and a batch of all data is one of all that there are.
const BATCHES: &str = "1 to 65536";

fn is_batch(size: &usize) -> bool {
    (1..=1 << 16).contains(size)
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl RawData {
    /// Whether the network's input may have another size than the set's images.
    pub(super) fn changes_size(&self) -> bool {
        self.transforms.crop.is_some() || self.transforms.fit != Fit::Stretch
    }

    fn check_transforms(&self) -> Result<(), ConfigError> {
        let nothing = |key, expected, wrong: bool| {
            if wrong { Err(ConfigError { key, expected, found: "there".to_owned() }) } else { Ok(()) }
        };
        if matches!(self.source, Source::Table(_)) {
            let expected = "nothing: this is for images";
            nothing("data.transforms", expected, !is_default(&self.transforms))?;
            nothing("data.augmentation", expected, !is_default(&self.augmentation))?;
        }
        if matches!(&self.source, Source::Own(own) if own.tiles.is_some()) {
            let expected = "no `crop` or `fit` with tiles (--fit with --tile), whose images keep their size; leave one of them out";
            nothing("data.transforms", expected, self.changes_size())?;
        }
        require("data.transforms.crop", self.transforms.crop.unwrap_or(1), "1 to 65536", |c| (1..=1 << 16).contains(c))
    }

    fn check_features(&self) -> Result<(), ConfigError> {
        let Some(features) = &self.features else { return Ok(()) };
        features.check()?;
        let refused = |key, expected| Err(ConfigError { key, expected, found: "features".to_owned() });
        match &self.source {
            Source::Own(OwnImages { tiles: None, .. }) => {}
            _ => return refused("data.source", "images of your own, whole, with data.features"),
        }
        if is_default(&self.augmentation) {
            Ok(())
        } else {
            refused("data.augmentation", "nothing with data.features: what is trained on is no image")
        }
    }
}

impl RawConfig {
    fn check_source(&self) -> Result<(), ConfigError> {
        self.data.check_transforms()?;
        self.data.check_features()?;
        let RawData { source, held_out, .. } = &self.data;
        match (source, held_out) {
            (Source::Own(OwnImages { channels, side, tiles, .. }), None) => {
                require("data.source.own.channels", *channels, "1 or 3", |c| [1, 3].contains(c))?;
                require("data.source.own.side", *side, "1 to 1024", |s| (1..=1024).contains(s))?;
                let Some(Tiles { stride, top_k }) = tiles else { return Ok(()) };
                require("data.source.own.tiles.stride", *stride, "1 to the side", |s| (1..=*side).contains(s))?;
                require("data.source.own.tiles.top_k", *top_k, "1 to 65536", |k| (1..=1 << 16).contains(k))
            }
            (Source::Table(OwnTable { window: Some(RowWindow { rows, stride }), .. }), None)
                if !(1..=1 << 16).contains(rows) || !(1..=*rows).contains(stride) =>
            {
                let expected = "1 to 65536 rows, and at most as many from one to the next";
                let found = format!("{rows} and {stride}");
                Err(ConfigError { key: "data.source.table.window", expected, found })
            }
            (Source::Table(own), None) => own.checked().map(drop).map_err(|error| ConfigError {
                key: "data.source.table.columns",
                expected: "columns with names, finite centres, positive scales, knees and spans",
                found: error.to_string(),
            }),
            (Source::Own(_) | Source::Table(_), Some(class)) => {
                let expected = "nothing: your own data have no numbered classes; keep outliers apart (--outliers)";
                Err(ConfigError { key: "data.held_out", expected, found: class.to_string() })
            }
            (_, Some(class)) => require("data.held_out", *class, "the number of a class, 0 to 9", |&class| class <= 9),
            (_, None) => Ok(()),
        }
    }

    fn check_split(&self) -> Result<(), ConfigError> {
        let SplitShares { validation, calibration, test } = self.data.split;
        let source = &self.data.source;
        for (key, share, given) in [
            ("data.split.validation", validation, source.has_validation_part()),
            ("data.split.test", test, source.has_test_part()),
        ] {
            let (expected, found) = match (share, given) {
                (Some(_), true) => ("nothing: this data set has a part of its own for it", "a share"),
                (None, false) => ("a share: this data set has no part of its own for it", "nothing"),
                _ => continue,
            };
            return Err(ConfigError { key, expected, found: found.to_owned() });
        }
        for (key, share) in [
            ("data.split.validation", validation),
            ("data.split.calibration", Some(calibration)),
            ("data.split.test", test),
        ] {
            require(key, share.unwrap_or(0.5), "a share above 0 and below 1", |s| *s > 0.0 && *s < 1.0)?;
        }
        let taken = validation.unwrap_or(0.0) + calibration + test.unwrap_or(0.0);
        require("data.split", taken, "shares that leave at least 0.1 for training", |s| *s <= 0.9)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        // It is part of the name of a run's folder.
        let is_name = |name: &&str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
        require("name", self.name.as_str(), "a name without / and \\ that does not begin with a dot", is_name)?;
        self.check_source()?;
        self.check_split()?;
        require("pretraining.batch_size", self.pretraining.batch_size, BATCHES, is_batch)?;
        require("pretraining.learning_rate", self.pretraining.learning_rate, "above 0", |r| positive(*r))?;
        let positive_if_given = |key, value: Option<f64>| match value {
            Some(value) => require(key, value, "above 0", |v| positive(*v)),
            None => Ok(()),
        };
        positive_if_given("pretraining.final_learning_rate", self.pretraining.final_learning_rate)?;
        for (key, weight) in [
            ("pretraining.encoder_l2", self.pretraining.encoder_l2),
            ("pretraining.latent_norm", self.pretraining.latent_norm),
        ] {
            require(key, weight, "at least 0", at_least_0)?;
        }
        // MPDR's manifolds are autoencoders, too.
        if !matches!(self.method, MethodKind::Nae | MethodKind::Ae | MethodKind::Dae | MethodKind::Mpdr) {
            let expected = "0, since this method is not trained as an autoencoder";
            require("pretraining.latent_norm", self.pretraining.latent_norm, expected, |weight| *weight == 0.0)?;
        }
        positive_if_given("pretraining.max_gradient_norm", self.pretraining.max_gradient_norm)?;
        require("training.batch_size", self.training.batch_size, BATCHES, is_batch)?;
        require("training.learning_rate", self.training.learning_rate, "above 0", |r| positive(*r))?;
        positive_if_given("training.final_learning_rate", self.training.final_learning_rate)?;
        positive_if_given("training.encoder_learning_rate", self.training.encoder_learning_rate)?;
        positive_if_given("training.decoder_learning_rate", self.training.decoder_learning_rate)?;
        positive_if_given("training.temperature_learning_rate", self.training.temperature_learning_rate)?;
        if let Some(decay) = self.training.average {
            require("training.average", decay, "above 0 and below 1", |d| *d > 0.0 && *d < 1.0)?;
        }
        let regularization = self.training.regularization;
        if let Some(bound) = self.training.negative_bound {
            require("training.negative_bound", bound, "above 0", |b| positive(*b))?;
            let given = regularization.negative_energy;
            require("training.regularization.negative_energy", given, "0 with `training.negative_bound`", |g| {
                *g == 0.0
            })?;
        }
        positive_if_given("training.reference_energy", self.training.reference_energy)?;
        if let Some(bound) = self.training.positive_bound {
            require("training.positive_bound", bound, "above 1", |b| b.is_finite() && *b > 1.0)?;
        }
        for (key, weight) in [
            ("training.regularization.negative_energy", regularization.negative_energy),
            ("training.regularization.positive_energy", regularization.positive_energy),
            ("training.regularization.encoder_l2", regularization.encoder_l2),
            ("training.regularization.decoder_l2", regularization.decoder_l2),
            ("training.regularization.latent_norm", regularization.latent_norm),
        ] {
            require(key, weight, "at least 0", at_least_0)?;
        }
        let synthetic = self.evaluation.synthetic_images;
        require("evaluation.synthetic_images", synthetic, "1 to 100000", |n| (1..=100_000).contains(n))?;
        let &Baselines { dae, vae, wae, vqvae, dagmm, ganomaly, igebm, ref mpdr, glow, pixelcnn, knn } =
            &self.baselines;
        require("baselines.dae.noise", dae.noise, "at least 0", at_least_0)?;
        require("baselines.vae.sigma", vae.sigma, "above 0", |s| positive(f64::from(*s)))?;
        require("baselines.vae.samples", vae.samples, "1 to 10000", |n| (1..=10_000).contains(n))?;
        require("baselines.wae.mmd", wae.mmd, "at least 0", at_least_0)?;
        require("baselines.vqvae.codes", vqvae.codes, "1 to 65536", |n| (1..=1 << 16).contains(n))?;
        require("baselines.dagmm.components", dagmm.components, "1 to 100", |n| (1..=100).contains(n))?;
        require("baselines.igebm.width", igebm.width, "1 to 4096", |n| (1..=4096).contains(n))?;
        require("baselines.igebm.buffer", igebm.buffer, "at least 1", |&n| n > 0)?;
        require("baselines.igebm.replay", igebm.replay, "0 to 1", |r| (0.0..=1.0).contains(r))?;
        for (key, value) in
            [("baselines.igebm.step_size", igebm.step_size), ("baselines.igebm.gradient_clip", igebm.gradient_clip)]
        {
            require(key, value, "above 0", |v| positive(f64::from(*v)))?;
        }
        let dims = &mpdr.manifolds;
        require("baselines.mpdr.manifolds", dims.len(), "at most 16 of them", |&n| n <= 16)?;
        for &dim in dims {
            require("baselines.mpdr.manifolds", dim, "each 1 to 4096", |d| (1..=4096).contains(d))?;
        }
        require("baselines.mpdr.manifold_share", mpdr.manifold_share, "above 0 and below 1", |s| *s > 0.0 && *s < 1.0)?;
        for (key, value) in [
            ("baselines.mpdr.latent_step_size", mpdr.latent_step_size),
            ("baselines.mpdr.step_size", mpdr.step_size),
            ("baselines.mpdr.min_scale", mpdr.min_scale),
        ] {
            require(key, value, "above 0", |v| positive(f64::from(*v)))?;
        }
        let at_least_min = |scale: &f32| at_least_0(scale) && *scale >= mpdr.min_scale;
        require("baselines.mpdr.max_scale", mpdr.max_scale, "at least `min_scale`", at_least_min)?;
        require("baselines.knn.vectors", knn.vectors, "1 to 65536", |n| (1..=1 << 16).contains(n))?;
        require("baselines.knn.temperature", knn.temperature, "at least 0", at_least_0)?;
        require("baselines.pixelcnn.blocks", pixelcnn.blocks, "1 to 100", |n| (1..=100).contains(n))?;
        require("baselines.pixelcnn.filters", pixelcnn.filters, "1 to 4096", |n| (1..=4096).contains(n))?;
        require("baselines.glow.steps", glow.steps, "1 to 1000", |n| (1..=1000).contains(n))?;
        require("baselines.glow.hidden_channels", glow.hidden_channels, "1 to 4096", |n| (1..=4096).contains(n))?;
        for (key, weight) in [
            ("baselines.igebm.noise", igebm.noise),
            ("baselines.igebm.regularization", igebm.regularization),
            ("baselines.mpdr.regularization", mpdr.regularization),
            ("baselines.mpdr.recovery", mpdr.recovery),
            ("baselines.mpdr.latent_noise", mpdr.latent_noise),
            ("baselines.mpdr.noise", mpdr.noise),
            ("baselines.vqvae.commitment", vqvae.commitment),
            ("baselines.dagmm.energy", dagmm.energy),
            ("baselines.dagmm.inverse_variance", dagmm.inverse_variance),
            ("baselines.ganomaly.adversarial", ganomaly.adversarial),
            ("baselines.ganomaly.contextual", ganomaly.contextual),
            ("baselines.ganomaly.encoder", ganomaly.encoder),
        ] {
            require(key, weight, "at least 0", at_least_0)?;
        }
        require("stopping.every", self.stopping.every, "at least 1", |&n| n > 0)?;
        if let Some(ratio) = self.stopping.max_energy_ratio {
            require("stopping.max_energy_ratio", ratio, "above 1", |r| r.is_finite() && *r > 1.0)?;
        }
        let rate = self.calibration.false_positive_rate;
        require("calibration.false_positive_rate", rate, "above 0 and below 1", |r| *r > 0.0 && *r < 1.0)?;
        match self.calibration.confidence {
            Some(confidence) => require("calibration.confidence", confidence, "above 0 and at most 0.9999", |c| {
                *c > 0.0 && *c <= 0.9999
            }),
            None => Ok(()),
        }
    }
}

pub(super) fn positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

pub(super) fn at_least_0(value: &f32) -> bool {
    value.is_finite() && *value >= 0.0
}

pub(super) fn require<T: std::fmt::Display>(
    key: &'static str,
    value: T,
    expected: &'static str,
    valid: impl Fn(&T) -> bool,
) -> Result<(), ConfigError> {
    if valid(&value) { Ok(()) } else { Err(ConfigError { key, expected, found: value.to_string() }) }
}
