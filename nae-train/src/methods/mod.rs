//! What is trained, how, and what tells outliers apart afterwards.
//!
//! A [`Method`] makes parameter updates; what it leaves is a [`Model`], which gives every sample a number, larger for
//! outliers. The loop, the metrics, the checkpoints and the tables know no more than these two traits, so that a
//! likelihood model that is no autoencoder can join: [`Model::autoencoder`] may be `None`. Export asks for
//! [`Model::networks`].
//!
//! [`nae`] is the normalized autoencoder, [`autoencoder`] the plain and the denoising one, `vae` the variational, `wae` the
//! Wasserstein autoencoder with `mmd` as its penalty, `vqvae` the vector-quantised one, `dagmm` the one with a Gaussian
//! `mixture` of its latents, `ganomaly` the one that is trained against a discriminator; no autoencoders are `igebm` and
//! `mpdr`, each an `energy_network`, `glow`, a flow, and `pixelcnn`, a product over pixels. `mahalanobis` and `knn` train nothing.
//!
//! All but the NAE, GANomaly and MPDR are a [`GradientMethod`](gradient_method::GradientMethod); `halves` has encoder and decoder run
//! by the engine for losses of their own; `gradients`, `optimizer` (whose step is `adam`'s) and `state` are what they share. Negative samples are in
//! [`sample`](crate::sample), the loop in [`train`](crate::train).

mod adam;
pub mod autoencoder;
mod balance;
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

/// Trains: one update after the other.
pub trait Method {
    /// One update of the parameters on the batch `x` `[N, C, H, W]`. The figures are of the model before it.
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures;
    /// The state reached.
    fn model(&self) -> &dyn Model;
    /// What it goes on from after this update.
    ///
    /// # Errors
    /// `StateError` where it cannot be written.
    fn state(&self) -> Result<ByteBuf, StateError>;
    /// Goes on from `state`, which the same method with the same settings has given, on samples of the shape `image`. To be
    /// called before the first update.
    ///
    /// # Errors
    /// `StateError` where it is of another method, network or run; the method is of no use then.
    fn restore(&mut self, state: &[u8], image: Shape) -> Result<(), StateError>;
    /// The state reached, when training is over.
    fn into_model(self: Box<Self>) -> Box<dyn Model>;
}

/// A method that trains by passes over the data, at a rate that may fall: pre-training, and all but the NAE.
pub(crate) trait EpochMethod: Method {
    /// Takes this learning rate from the next update on.
    fn set_learning_rate(&mut self, rate: f64);
}

/// A trained model, or one on its way.
pub trait Model {
    /// The decision functions it has, its own first.
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::Reconstruction]
    }

    /// A number for each sample of `x` `[N, C, H, W]`, larger for outliers: `[N]`. Does not depend on the other
    /// samples. A decision function the model does not have is answered with its own.
    fn decide(&self, decision: Decision, x: Tensor<4>) -> Tensor<1>;

    /// The autoencoder whose reconstruction error is [`Decision::Reconstruction`], where there is one.
    fn autoencoder(&self) -> Option<&Autoencoder>;

    /// The networks whose outputs its own decision function compares, where layers can say that: to be exported.
    fn networks(&self) -> Option<Networks<'_>> {
        self.autoencoder().map(Networks::Autoencoder)
    }

    /// T of p(x) ∝ exp(−E(x)/T).
    fn temperature(&self) -> f32 {
        1.0
    }

    /// Writes all weights to `path`, whole or not at all.
    ///
    /// # Errors
    /// [`CheckpointError::Write`].
    fn save(&self, path: &Path) -> Result<(), CheckpointError>;
}

/// The networks that a model decides by.
#[derive(Clone, Copy, Debug)]
pub enum Networks<'a> {
    /// The reconstruction error.
    Autoencoder(&'a Autoencoder),
    /// The mean squared difference of the image's latent and of what `second` makes of the reconstruction.
    Latents {
        /// First encoder and decoder.
        autoencoder: &'a Autoencoder,
        /// Second encoder.
        second: &'a Sequential,
    },
    /// The output of a network.
    Energy(&'a EnergyNetwork),
}

/// What a sample is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The reconstruction error: an NAE's energy E(x).
    Reconstruction,
    /// −log p(x), or an upper bound of it; in DAGMM of what stands for x in its mixture.
    NegativeLogLikelihood,
    /// Distance of the latents of x and its reconstruction: GANomaly's.
    LatentDistance,
}

impl Decision {
    /// As the paper marks it: R or L.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Reconstruction => "R",
            Self::NegativeLogLikelihood => "L",
            Self::LatentDistance => "Z",
        }
    }
}

/// What an update found, by name: means over the batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateFigures(Vec<(Cow<'static, str>, f64)>);

impl UpdateFigures {
    /// Figures in the order in which they are to be shown.
    pub fn new(figures: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        Self(figures.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect())
    }

    /// The figure called `name`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// The first figure that is NaN or infinite, where there is one.
    pub(crate) fn not_finite(&self) -> Option<(&str, f64)> {
        self.0.iter().find(|(_, value)| !value.is_finite()).map(|(name, value)| (name.as_ref(), *value))
    }

    /// Adds `other`, `weight` times.
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

/// Reads the weights a run of `config` left at `path`, onto the autodiff form of `device`.
///
/// # Errors
/// [`CheckpointError::Read`], also where a weight is missing or of another shape.
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
