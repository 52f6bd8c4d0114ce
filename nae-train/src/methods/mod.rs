//! The methods: their models, their training, and their scores for outliers.
//!
//! A [`Method`] makes parameter updates; its result is a [`Model`], which computes a score for every sample, larger for
//! outliers. The loop, the metrics, the checkpoints and the tables only use these two traits, so that a likelihood
//! model without an autoencoder is possible: [`Model::autoencoder`] may be `None`. Export uses [`Model::networks`].
//!
//! [`nae`] is the normalized autoencoder, [`autoencoder`] the plain and the denoising one, `vae` the variational, `wae`
//! the Wasserstein autoencoder with `mmd` as its penalty, `vqvae` the vector-quantized one, `dagmm` the one with a
//! Gaussian `mixture` of its latents, `ganomaly` the one that is trained against a discriminator. `igebm` and `mpdr`,
//! each an `energy_network`, `glow`, a flow, and `pixelcnn`, a product over pixels, are not autoencoders. `mahalanobis`
//! and `knn` need no training.
//!
//! All except the NAE, GANomaly, MPDR and the untrained ones are a [`GradientMethod`](gradient_method::GradientMethod).
//! `halves` runs encoder and decoder on the engine for losses of the methods' own; `gradients`, `optimizer` (whose step
//! is in `adam`) and `state` are shared. Negative samples are in [`sample`](crate::sample), the loop in
//! [`train`](crate::train).

mod adam;
pub mod autoencoder;
pub(crate) mod dagmm;
mod energy_network;
pub(crate) mod ganomaly;
pub(crate) mod glow;
pub mod gradient_method;
pub(crate) mod gradients;
pub(crate) mod halves;
pub(crate) mod igebm;
pub(crate) mod knn;
mod log_sum_exp;
pub(crate) mod mahalanobis;
pub(crate) mod manifolds;
mod mixture;
pub(crate) mod mmd;
pub(crate) mod mpdr;
pub mod nae;
pub(crate) mod optimizer;
pub(crate) mod pixelcnn;
pub(crate) mod reference;
pub(crate) mod state;
pub(crate) mod vae;
pub(crate) mod vqvae;
pub(crate) mod wae;
pub use dagmm::GaussianMixtureAutoencoder;
pub use energy_network::EnergyNetwork;
pub use ganomaly::Ganomaly;
pub use glow::Glow;
pub use mmd::mmd_squared;
pub use pixelcnn::PixelCnn;
pub use vae::{VaeMethod, VariationalAutoencoder};
pub use vqvae::VectorQuantizedAutoencoder;
pub use wae::WaeMethod;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use burn::module::{Module as _, Param};
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::ByteBuf;

use crate::arch::Autoencoder;
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::layer::Sequential;
use crate::config::Config;
use crate::config::methods::MethodKind;
use state::StateError;

/// A training method that makes one update after the other.
pub trait Method {
    /// Makes one update of the parameters on the batch `x` `[N, C, H, W]`. The figures are of the model before it.
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures;
    /// The current state of the model.
    fn model(&self) -> &dyn Model;
    /// Returns the state after this update, from which training can continue.
    ///
    /// # Errors
    /// `StateError` if it cannot be written.
    fn state(&self) -> Result<ByteBuf, StateError>;
    /// Continues from `state`, which the same method with the same settings has returned, on samples of the shape
    /// `image`. It must be called before the first update.
    ///
    /// # Errors
    /// `StateError` if it is from another method, network or run; the method must not be used afterwards.
    fn restore(&mut self, state: &[u8], image: Shape) -> Result<(), StateError>;
    /// The trained model.
    fn into_model(self: Box<Self>) -> Box<dyn Model>;
}

/// A method that trains in epochs, at a rate that may fall: pre-training, and all methods but the NAE.
pub(crate) trait EpochMethod: Method {
    /// Sets the learning rate from the next update on.
    fn set_learning_rate(&mut self, rate: f64);
}

/// A trained model, or a model in training.
pub trait Model {
    /// The decision functions of the model; the first is its default.
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::Reconstruction]
    }

    /// A score for each sample of `x` `[N, C, H, W]`, larger for outliers: `[N]`. It does not depend on the other
    /// samples. If the model does not have the decision function, it uses its default.
    fn decide(&self, decision: Decision, x: Tensor<4>) -> Tensor<1>;

    /// The autoencoder whose reconstruction error is [`Decision::Reconstruction`], if there is one.
    fn autoencoder(&self) -> Option<&Autoencoder>;

    /// Whether its default decision function is a reconstruction error.
    fn reconstructs(&self) -> bool {
        matches!(self.networks(), Some(Networks::Reconstruction { .. }))
    }

    /// What [`Decision::Reconstruction`] compares with `x` `[N, C, H, W]`; `None` if the model decides by something else.
    fn reconstruct(&self, x: Tensor<4>) -> Option<Tensor<4>> {
        self.autoencoder().map(|autoencoder| autoencoder.valid().reconstruct(x))
    }

    /// The networks for export, whose outputs the default decision function compares; `None` if it cannot be expressed
    /// by layers.
    fn networks(&self) -> Option<Networks<'_>> {
        self.autoencoder().map(|autoencoder| Networks::Reconstruction { autoencoder, codes: None })
    }

    /// T in p(x) ∝ exp(−E(x)/T).
    fn temperature(&self) -> f32 {
        1.0
    }

    /// Writes all weights to `path`, atomically.
    ///
    /// # Errors
    /// [`CheckpointError::Write`] if the file cannot be written.
    fn save(&self, path: &Path) -> Result<(), CheckpointError>;
}

/// The networks that compute a model's decision.
#[derive(Clone, Copy, Debug)]
pub enum Networks<'a> {
    /// The decision is the reconstruction error.
    Reconstruction {
        /// The encoder and the decoder.
        autoencoder: &'a Autoencoder,
        /// The codes `[K, D_z/parts]` of a VQ-VAE: the nearest to each part of a latent is decoded in its place.
        codes: Option<&'a Param<Tensor<2>>>,
    },
    /// The decision is the mean squared difference of the image's latent and `second`'s output for the reconstruction.
    Latents {
        /// The first encoder and the decoder.
        autoencoder: &'a Autoencoder,
        /// The second encoder.
        second: &'a Sequential,
    },
    /// The decision is the output of a network.
    Energy(&'a EnergyNetwork),
}

/// A decision function: the score of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The reconstruction error: an NAE's energy E(x).
    Reconstruction,
    /// −log p(x), or an upper bound of it; for DAGMM, of the features of x in its mixture.
    NegativeLogLikelihood,
    /// The distance of the latents of x and its reconstruction, for GANomaly.
    LatentDistance,
}

impl Decision {
    /// The letter of the decision in tables: R and L as in the paper, Z for the latent distance.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Reconstruction => "R",
            Self::NegativeLogLikelihood => "L",
            Self::LatentDistance => "Z",
        }
    }
}

/// The figures of an update by name: means over the batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateFigures(Vec<(Cow<'static, str>, f64)>);

impl UpdateFigures {
    /// Figures in the order in which they are shown.
    pub fn new(figures: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        Self(figures.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect())
    }

    /// The figure called `name`, if there is one.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// The first figure that is NaN or infinite, if there is one.
    pub(crate) fn not_finite(&self) -> Option<(&str, f64)> {
        self.0.iter().find(|(_, value)| !value.is_finite()).map(|(name, value)| (name.as_ref(), *value))
    }

    /// Adds `weight` times `other`.
    pub fn add(&mut self, other: &Self, weight: f64) {
        for (name, value) in &other.0 {
            match self.0.iter_mut().find(|(n, _)| n == name) {
                Some((_, sum)) => *sum += weight * value,
                None => self.0.push((name.clone(), weight * value)),
            }
        }
    }
}

impl fmt::Display for UpdateFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, (name, value)) in self.0.iter().enumerate() {
            let comma = if k == 0 { "" } else { ", " };
            write!(f, "{comma}{} {value:.4}", name.replace('_', " "))?;
        }
        Ok(())
    }
}

impl Serialize for UpdateFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for UpdateFigures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = UpdateFigures;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("figures by name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<UpdateFigures, M::Error> {
                let mut figures = UpdateFigures::default();
                while let Some((name, value)) = map.next_entry::<String, f64>()? {
                    figures.0.push((Cow::Owned(name), value));
                }
                Ok(figures)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Loads the weights of a run of `config` from `path`, onto the autodiff form of `device`.
///
/// # Errors
/// [`CheckpointError::Read`] if the file cannot be read, or a weight is missing or has another shape.
pub fn load(config: &Config, path: &Path, device: &Device) -> Result<Box<dyn Model>, CheckpointError> {
    let spec = config.architecture();
    let name = &format!("method {}, architecture {}", config.method().name(), spec.name());
    Ok(match config.method() {
        MethodKind::Nae => {
            let start = checkpoint::blank(spec, device);
            let temperature = config.sampler().temperature;
            Box::new(checkpoint::load(nae::NormalizedAutoencoder::new(start, temperature), name, path)?)
        }
        MethodKind::Ae | MethodKind::Dae | MethodKind::Wae | MethodKind::Mahalanobis | MethodKind::Knn => {
            Box::new(checkpoint::load(checkpoint::blank(spec, device), name, path)?)
        }
        MethodKind::Vae => {
            let blank = vae::VariationalAutoencoder::blank(spec, config.baselines().vae, device);
            Box::new(checkpoint::load(blank, name, path)?)
        }
        MethodKind::Vqvae => {
            let blank = VectorQuantizedAutoencoder::blank(spec, config.baselines().vqvae, device);
            Box::new(checkpoint::load(blank, name, path)?)
        }
        MethodKind::Dagmm => {
            let blank = GaussianMixtureAutoencoder::blank(spec, config.baselines().dagmm, device);
            Box::new(checkpoint::load(blank, name, path)?)
        }
        MethodKind::Pixelcnn => {
            let blank = PixelCnn::blank(spec.image(), config.baselines().pixelcnn, device);
            Box::new(checkpoint::load(blank, name, path)?)
        }
        MethodKind::Igebm => {
            let blank = igebm::blank(spec.image(), config.baselines().igebm, device);
            Box::new(checkpoint::load(blank, name, path)?)
        }
        MethodKind::Mpdr => Box::new(checkpoint::load(mpdr::blank(spec, device), name, path)?),
        MethodKind::Glow => {
            let blank = Glow::blank(spec.image(), config.baselines().glow, device);
            Box::new(checkpoint::load(blank, name, path)?)
        }
        MethodKind::Ganomaly => Box::new(checkpoint::load(Ganomaly::blank(spec, device), name, path)?),
    })
}

#[cfg(test)]
pub(crate) mod finite_differences;
