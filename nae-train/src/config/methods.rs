//! What can be trained, and the settings that one method has and others do not. What the methods do is in
//! [`methods`](crate::methods).

use serde::{Deserialize, Serialize};

/// The methods of this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodKind {
    /// Normalized autoencoder: the paper's.
    #[default]
    Nae,
    /// Plain autoencoder.
    Ae,
    /// Denoising autoencoder (Vincent et al., ICML 2008).
    Dae,
    /// Variational autoencoder (Kingma and Welling, ICLR 2014).
    Vae,
    /// Wasserstein autoencoder with an MMD penalty (Tolstikhin et al., ICLR 2018).
    Wae,
}

impl MethodKind {
    /// As in the paper's tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Nae => "NAE",
            Self::Ae => "autoencoder",
            Self::Dae => "DAE",
            Self::Vae => "VAE",
            Self::Wae => "WAE",
        }
    }

    /// As in presets and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nae => "nae",
            Self::Ae => "ae",
            Self::Dae => "dae",
            Self::Vae => "vae",
            Self::Wae => "wae",
        }
    }

    /// Key of its column in a table's JSON. The plain autoencoder before NAE training has that of [`Ae`](Self::Ae).
    pub fn column(self) -> &'static str {
        if self == Self::Ae { "autoencoder" } else { self.name() }
    }
}

/// Weights of the regularisers; those left out are zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regularization {
    /// γ (the paper's α): weight of the mean squared energy of negative samples.
    pub negative_energy: f32,
    /// Weight of the mean squared energy of the data; the authors' code gives it γ in CD and PCD.
    #[serde(default)]
    pub positive_energy: f32,
    /// Weight of the encoder's summed squared weights.
    pub encoder_l2: f32,
    /// Weight of the decoder's summed squared weights.
    #[serde(default)]
    pub decoder_l2: f32,
    /// Weight of the mean ‖z‖² of data and negative samples, for ℝ^D (section 5.1, "Latent Space Structure"). The
    /// authors' code divides by D.
    #[serde(default)]
    pub latent_norm: f32,
}

/// Settings of the denoising autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Denoising {
    /// Standard deviation of the noise, in units of the data.
    pub noise: f32,
}

impl Default for Denoising {
    /// The paper's ("Baseline Implementation").
    fn default() -> Self {
        Self { noise: 0.3 }
    }
}

/// Settings of the variational autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Variational {
    /// σ of the Gaussian around the decoder's output, in units of the data; where it is learned, what it starts from.
    pub sigma: f32,
    /// Whether σ is learned, one for all pixels, at the weights' learning rate.
    pub learned_sigma: bool,
    /// Latents drawn for each sample in [`Decision::NegativeLogLikelihood`](crate::methods::Decision).
    pub samples: usize,
}

impl Default for Variational {
    /// σ as in the authors' code.
    fn default() -> Self {
        Self { sigma: 1.0, learned_sigma: false, samples: 16 }
    }
}

/// Settings of the Wasserstein autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wasserstein {
    /// Weight of MMD² beside the mean energy; the paper searched between 0.001 and 0.1.
    pub mmd: f32,
}

impl Default for Wasserstein {
    fn default() -> Self {
        Self { mmd: 0.01 }
    }
}
