//! What can be trained, and the settings that one method has and others do not. What the methods do is in
//! [`methods`](crate::methods).

use serde::{Deserialize, Serialize};

use crate::sample::{Bounds, Langevin, Leaving, Precision, SamplerConfig, Start};

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
    /// Vector-quantised autoencoder (van den Oord et al., NeurIPS 2017).
    Vqvae,
    /// Deep autoencoding Gaussian mixture model (Zong et al., ICLR 2018).
    Dagmm,
    /// GANomaly (Akcay et al., ACCV 2018).
    Ganomaly,
    /// Feed-forward energy-based model (Du and Mordatch, NeurIPS 2019).
    Igebm,
    /// Manifold projection–diffusion recovery with an energy network, MPDR-S (Yoon et al., NeurIPS 2023).
    Mpdr,
    /// Glow (Kingma and Dhariwal, NeurIPS 2018).
    Glow,
    /// PixelCNN++ (Salimans et al., ICLR 2017).
    Pixelcnn,
    /// The Mahalanobis distance to the data, for which nothing is trained.
    Mahalanobis,
    /// The distance to the nearest of the data that are remembered, for which nothing is trained.
    Knn,
}

/// A column of a table of AUROCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// In JSON.
    pub key: &'static str,
    /// For people, as in the paper's tables.
    pub title: &'static str,
}

impl MethodKind {
    /// All of them, the paper's first.
    pub const ALL: [Self; 14] = [
        Self::Nae,
        Self::Ae,
        Self::Dae,
        Self::Vae,
        Self::Wae,
        Self::Vqvae,
        Self::Dagmm,
        Self::Ganomaly,
        Self::Igebm,
        Self::Mpdr,
        Self::Glow,
        Self::Pixelcnn,
        Self::Mahalanobis,
        Self::Knn,
    ];

    /// As in the paper's tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Nae => "NAE",
            Self::Ae => "autoencoder",
            Self::Dae => "DAE",
            Self::Vae => "VAE",
            Self::Wae => "WAE",
            Self::Vqvae => "VQ-VAE",
            Self::Dagmm => "DAGMM",
            Self::Ganomaly => "GANomaly",
            Self::Igebm => "IGEBM",
            Self::Mpdr => "MPDR-S",
            Self::Glow => "Glow",
            Self::Pixelcnn => "PixelCNN++",
            Self::Mahalanobis => "Mahalanobis",
            Self::Knn => "kNN",
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
            Self::Vqvae => "vqvae",
            Self::Dagmm => "dagmm",
            Self::Ganomaly => "ganomaly",
            Self::Igebm => "igebm",
            Self::Mpdr => "mpdr",
            Self::Glow => "glow",
            Self::Pixelcnn => "pixelcnn",
            Self::Mahalanobis => "mahalanobis",
            Self::Knn => "knn",
        }
    }

    /// The method with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Why its models are not exported, where they are not: layers cannot say what they decide by.
    pub fn why_not_exported(self) -> Option<&'static str> {
        match self {
            Self::Nae | Self::Ae | Self::Dae | Self::Vae | Self::Wae | Self::Mahalanobis | Self::Knn => None,
            Self::Ganomaly | Self::Igebm | Self::Mpdr => None,
            Self::Vqvae => Some("its choice of a code is no layer that the runtimes of this project have"),
            Self::Dagmm => Some("the logarithm of a mixture is no layer that the runtimes of this project have"),
            Self::Glow | Self::Pixelcnn => Some("its likelihood is no layer that the runtimes of this project have"),
        }
    }

    /// Whether it has a likelihood of images of bytes, for which it changes them itself: Glow adds noise within a level,
    /// PixelCNN++ has a probability of each level.
    pub fn is_of_bytes(self) -> bool {
        matches!(self, Self::Glow | Self::Pixelcnn)
    }

    /// Whether its latents are in ℝ^D whatever the preset says: Gaussians (of WAE the prior, as in the code of the NAE's
    /// authors), codes, scores and free latents are not on a sphere.
    pub fn is_euclidean(self) -> bool {
        matches!(
            self,
            Self::Vae | Self::Wae | Self::Vqvae | Self::Dagmm | Self::Ganomaly | Self::Mahalanobis | Self::Knn
        )
    }

    /// Its columns in a table, one for each decision function of its models, in their order. The plain autoencoder before
    /// NAE training has that of [`Ae`](Self::Ae).
    pub fn columns(self) -> &'static [TableColumn] {
        match self {
            Self::Nae => &[TableColumn { key: "nae", title: "NAE" }],
            Self::Ae => &[TableColumn { key: "autoencoder", title: "autoencoder" }],
            Self::Dae => &[TableColumn { key: "dae", title: "DAE" }],
            Self::Vae => &[
                TableColumn { key: "vae_reconstruction", title: "VAE (R)" },
                TableColumn { key: "vae_likelihood", title: "VAE (L)" },
            ],
            Self::Wae => &[TableColumn { key: "wae", title: "WAE" }],
            Self::Vqvae => &[TableColumn { key: "vqvae", title: "VQ-VAE" }],
            Self::Dagmm => &[TableColumn { key: "dagmm", title: "DAGMM" }],
            Self::Ganomaly => &[TableColumn { key: "ganomaly", title: "GANomaly" }],
            Self::Igebm => &[TableColumn { key: "igebm", title: "IGEBM" }],
            Self::Mpdr => &[TableColumn { key: "mpdr", title: "MPDR-S" }],
            Self::Glow => &[TableColumn { key: "glow", title: "Glow" }],
            Self::Pixelcnn => &[TableColumn { key: "pixelcnn", title: "PixelCNN++" }],
            Self::Mahalanobis => &[TableColumn { key: "mahalanobis", title: "Mahalanobis" }],
            // The key of the reference beside other methods, whose place it takes.
            Self::Knn => &[TableColumn { key: "nearest_neighbours", title: "kNN" }],
        }
    }

    /// Whether it is fitted by one pass over the data, and nothing is trained.
    pub fn is_fitted(self) -> bool {
        matches!(self, Self::Mahalanobis | Self::Knn)
    }

    /// Key of its first column.
    pub fn column(self) -> &'static str {
        self.columns().first().map_or("", |column| column.key)
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

/// Settings of the vector-quantised autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VectorQuantized {
    /// Codes in the codebook.
    pub codes: usize,
    /// Equal parts of a latent, each with a code of its own; they divide D_z.
    pub parts: usize,
    /// Weight of the latents' distance from their codes.
    pub commitment: f32,
}

impl Default for VectorQuantized {
    /// Those of the implementation that the paper names.
    fn default() -> Self {
        Self { codes: 512, parts: 1, commitment: 1.0 }
    }
}

/// Settings of the deep autoencoding Gaussian mixture model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GaussianMixture {
    /// Gaussians.
    pub components: usize,
    /// λ₁: weight of the mean energy under the mixture.
    pub energy: f32,
    /// λ₂: weight of the sum of inverse variances.
    pub inverse_variance: f32,
}

impl Default for GaussianMixture {
    /// Those of the implementation that the paper names.
    fn default() -> Self {
        Self { components: 4, energy: 0.1, inverse_variance: 0.005 }
    }
}

/// Settings of GANomaly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adversarial {
    /// Weight of the squared distance of the discriminator's features.
    pub adversarial: f32,
    /// Weight of the reconstruction's absolute error.
    pub contextual: f32,
    /// Weight of the squared distance of the latents.
    pub encoder: f32,
}

impl Default for Adversarial {
    /// Those of its authors' code.
    fn default() -> Self {
        Self { adversarial: 1.0, contextual: 50.0, encoder: 1.0 }
    }
}

/// Settings of the feed-forward energy-based model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeedForward {
    /// Channels of the first layers; the last have twice as many.
    pub width: usize,
    /// Weight of the mean squared energy of data and of negative samples.
    pub regularization: f32,
    /// Steps of the chain.
    pub steps: usize,
    /// Step size λ.
    pub step_size: f32,
    /// Standard deviation σ of the chain's noise.
    pub noise: f32,
    /// Limit on the norm of each row of the energy's gradient, as in the code of the NAE's authors.
    pub gradient_clip: f32,
    /// Images in the replay buffer.
    pub buffer: usize,
    /// Share of the chains that start from it.
    pub replay: f64,
}

impl Default for FeedForward {
    /// Those of the code of the NAE's authors.
    fn default() -> Self {
        Self {
            width: 128,
            regularization: 1.0,
            steps: 60,
            step_size: 10.0,
            noise: 0.005,
            gradient_clip: 0.01,
            buffer: 10_000,
            replay: 0.95,
        }
    }
}

/// Settings of manifold projection–diffusion recovery with an energy network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManifoldDiffusion {
    /// D_z of the autoencoders on whose manifolds negative samples begin, each with an equal part of the batch; one of the
    /// preset's D_z where none is named.
    pub manifolds: Vec<usize>,
    /// Share of the epochs that train these autoencoders, before the network.
    pub manifold_share: f64,
    /// Weight of the mean squared energy of data and of negative samples.
    pub regularization: f32,
    /// Smallest standard deviation of the noise by which the data's latents are moved.
    pub min_scale: f32,
    /// Largest standard deviation of that noise.
    pub max_scale: f32,
    /// c, how strongly both chains are drawn back to where they started ([`Recovery`](crate::sample::Recovery)).
    pub recovery: f32,
    /// Steps of the latent chain, along the direction of the gradient.
    pub latent_steps: usize,
    /// Length of one of these steps down.
    pub latent_step_size: f32,
    /// Standard deviation of the latent chain's noise.
    pub latent_noise: f32,
    /// Steps of the chain among images.
    pub steps: usize,
    /// Its step size λ.
    pub step_size: f32,
    /// Standard deviation σ of its noise.
    pub noise: f32,
}

impl Default for ManifoldDiffusion {
    /// Those of its authors' code for MNIST (MPDR-S), where a third of the epochs train the autoencoder.
    fn default() -> Self {
        Self {
            manifolds: Vec::new(),
            manifold_share: 1.0 / 3.0,
            regularization: 1.0,
            min_scale: 0.05,
            max_scale: 0.3,
            recovery: 1e-4,
            latent_steps: 2,
            latent_step_size: 0.05,
            latent_noise: 0.02,
            steps: 5,
            step_size: 10.0,
            noise: 0.005,
        }
    }
}

impl ManifoldDiffusion {
    /// Both chains and their start, at temperature 1.
    pub(crate) fn sampler(&self) -> SamplerConfig {
        let &Self { min_scale, max_scale, recovery, latent_steps, latent_step_size, latent_noise, .. } = self;
        let latent = Langevin::new(latent_steps, latent_step_size, latent_noise);
        let visible = Langevin::new(self.steps, self.step_size, self.noise);
        let bounds = Some(Bounds { min: 0.0, max: 1.0, leaving: Leaving::Clamp });
        SamplerConfig {
            start: Start::PerturbedData { min_scale, max_scale, recovery },
            latent_chain: Some(Langevin { normalize: true, ..latent }),
            visible_chain: Langevin { bounds, ..visible },
            temperature: 1.0,
            precision: Precision::F32,
            reuse: None,
        }
    }

    /// How many of `epochs` train the autoencoders: at least one, and not all where there are several.
    pub(crate) fn manifold_epochs(&self, epochs: usize) -> usize {
        let share = (epochs as f64 * self.manifold_share).round() as usize;
        share.min(epochs.saturating_sub(1)).max(1)
    }
}

/// Settings of Glow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flow {
    /// K: steps of the flow.
    pub steps: usize,
    /// Channels within a coupling.
    pub hidden_channels: usize,
}

impl Default for Flow {
    /// The paper's ("Baseline Implementation").
    fn default() -> Self {
        Self { steps: 12, hidden_channels: 64 }
    }
}

/// Settings of PixelCNN++.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Autoregressive {
    /// Residual blocks in each of three levels, on the way down; the way back has as many, and one more in two of them.
    pub blocks: usize,
    /// Channels of each stream.
    pub filters: usize,
}

impl Default for Autoregressive {
    /// The paper's ("Baseline Implementation").
    fn default() -> Self {
        Self { blocks: 5, filters: 80 }
    }
}

/// Settings of nearest neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Neighbours {
    /// Samples that are remembered, at most; fewer where they have many values.
    pub vectors: usize,
    /// τ of the softmax, in units of the median squared distance between a remembered sample and the nearest other: near 0
    /// the nearest alone counts, at more their mean by nearness.
    pub temperature: f32,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { vectors: 4096, temperature: 0.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found_by_its_name() {
        assert_eq!(MethodKind::ALL.map(|method| method as usize), std::array::from_fn(|k| k));
        assert_eq!(MethodKind::Knn as usize + 1, MethodKind::ALL.len(), "the last of them");
        for method in MethodKind::ALL {
            assert_eq!(MethodKind::from_name(method.name()), Some(method));
        }
        assert_eq!(MethodKind::from_name("pca"), None);
    }

    #[test]
    fn a_share_of_the_epochs_trains_manifolds() {
        let settings = ManifoldDiffusion::default();
        let epochs = [2, 3, 10, 90].map(|epochs| settings.manifold_epochs(epochs));
        assert_eq!(epochs, [1, 1, 3, 30]);
        let all = ManifoldDiffusion { manifold_share: 1.0, ..settings };
        assert_eq!(all.manifold_epochs(4), 3, "the network has one");
    }
}
