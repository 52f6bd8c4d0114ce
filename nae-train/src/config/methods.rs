//! The methods that can be trained, and the settings of each method. The methods themselves are in
//! [`methods`](crate::methods).

use serde::{Deserialize, Serialize};

use crate::sample::{Bounds, Langevin, Leaving, Precision, SamplerConfig, Start};

/// The methods of this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodKind {
    /// The normalized autoencoder of the paper.
    #[default]
    Nae,
    /// A plain autoencoder.
    Ae,
    /// A denoising autoencoder (Vincent et al., ICML 2008).
    Dae,
    /// A variational autoencoder (Kingma and Welling, ICLR 2014).
    Vae,
    /// A Wasserstein autoencoder with an MMD penalty (Tolstikhin et al., ICLR 2018).
    Wae,
    /// A vector-quantized autoencoder (van den Oord et al., NeurIPS 2017).
    Vqvae,
    /// A deep autoencoding Gaussian mixture model (Zong et al., ICLR 2018).
    Dagmm,
    /// GANomaly (Akcay et al., ACCV 2018).
    Ganomaly,
    /// A feed-forward energy-based model (Du and Mordatch, NeurIPS 2019).
    Igebm,
    /// Manifold projection–diffusion recovery with an energy network, MPDR-S (Yoon et al., NeurIPS 2023).
    Mpdr,
    /// Glow (Kingma and Dhariwal, NeurIPS 2018).
    Glow,
    /// PixelCNN++ (Salimans et al., ICLR 2017).
    Pixelcnn,
    /// The Mahalanobis distance to the data, without training.
    Mahalanobis,
    /// The distance to the nearest stored training sample, without training.
    Knn,
}

/// A column of a table of AUROCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// The key of the column in JSON.
    pub key: &'static str,
    /// The title of the column for people, as in the paper's tables.
    pub title: &'static str,
}

impl MethodKind {
    /// All methods, the paper's first.
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

    /// The method's title, as in the paper's tables.
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

    /// The method's name in presets and on the command line.
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

    /// The method with this [name](Self::name); `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// The reason why models of the method cannot be exported: their decision cannot be expressed by supported layers.
    /// `None` if they can be exported.
    pub fn why_not_exported(self) -> Option<&'static str> {
        match self {
            Self::Nae | Self::Ae | Self::Dae | Self::Vae | Self::Wae | Self::Mahalanobis | Self::Knn => None,
            Self::Vqvae | Self::Ganomaly | Self::Igebm | Self::Mpdr => None,
            Self::Dagmm => Some("its energy is the logarithm of a mixture, and exported models have no logarithm"),
            Self::Glow | Self::Pixelcnn => Some("its score is a log-likelihood, and exported models have no logarithm"),
        }
    }

    /// Whether the method has a likelihood of images of bytes and prepares such images itself: Glow adds noise within a
    /// level, and PixelCNN++ has a probability for each level.
    pub fn is_of_bytes(self) -> bool {
        matches!(self, Self::Glow | Self::Pixelcnn)
    }

    /// Whether the method's latents are in ℝ^D regardless of the preset: Gaussian latents (including the WAE's prior,
    /// as in the code of the NAE's authors), codes, scores and free latents are not on a sphere.
    pub fn is_euclidean(self) -> bool {
        matches!(
            self,
            Self::Vae | Self::Wae | Self::Vqvae | Self::Dagmm | Self::Ganomaly | Self::Mahalanobis | Self::Knn
        )
    }

    /// The method's columns in a table, one for each decision function of its models, in their order. The plain
    /// autoencoder before NAE training has the column of [`Ae`](Self::Ae).
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
            // This is the key of the reference in tables of other methods, which this column replaces.
            Self::Knn => &[TableColumn { key: "nearest_neighbours", title: "kNN" }],
        }
    }

    /// Whether the method is fitted by one pass over the data, without training.
    pub fn is_fitted(self) -> bool {
        matches!(self, Self::Mahalanobis | Self::Knn)
    }

    /// The key of the method's first column.
    pub fn column(self) -> &'static str {
        self.columns().first().map_or("", |column| column.key)
    }
}

/// The weights of the regularizers; those that are left out are zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regularization {
    /// γ (the paper's α): the weight of the mean squared energy of negative samples.
    pub negative_energy: f32,
    /// The weight of the mean squared energy of the data; the authors' code sets it to γ for CD and PCD.
    #[serde(default)]
    pub positive_energy: f32,
    /// The weight of the encoder's summed squared weights.
    pub encoder_l2: f32,
    /// The weight of the decoder's summed squared weights.
    #[serde(default)]
    pub decoder_l2: f32,
    /// The weight of the mean ‖z‖² of data and negative samples, for ℝ^D (section 6.1, "Latent Space Structure"). The
    /// authors' code divides by D.
    #[serde(default)]
    pub latent_norm: f32,
}

/// The settings of the denoising autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Denoising {
    /// The standard deviation of the noise, in units of the data.
    pub noise: f32,
}

impl Default for Denoising {
    /// The paper's value ("Baseline Implementation").
    fn default() -> Self {
        Self { noise: 0.3 }
    }
}

/// The settings of the variational autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Variational {
    /// σ of the Gaussian around the decoder's output, in units of the data; its initial value if it is learned.
    pub sigma: f32,
    /// Whether σ is learned, one value for all pixels, with the learning rate of the weights.
    pub learned_sigma: bool,
    /// The number of latents drawn for each sample in [`Decision::NegativeLogLikelihood`](crate::methods::Decision).
    pub samples: usize,
}

impl Default for Variational {
    /// σ as in the authors' code.
    fn default() -> Self {
        Self { sigma: 1.0, learned_sigma: false, samples: 16 }
    }
}

/// The settings of the Wasserstein autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wasserstein {
    /// The weight of MMD² in the sum with the mean energy; the paper searched between 0.001 and 0.1.
    pub mmd: f32,
}

impl Default for Wasserstein {
    fn default() -> Self {
        Self { mmd: 0.01 }
    }
}

/// The settings of the vector-quantized autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VectorQuantized {
    /// The number of codes in the codebook.
    pub codes: usize,
    /// The number of equal parts of a latent, each with its own code; it must divide D_z.
    pub parts: usize,
    /// The weight of the latents' distance from their codes.
    pub commitment: f32,
}

impl Default for VectorQuantized {
    /// The values of the implementation that the paper refers to.
    fn default() -> Self {
        Self { codes: 512, parts: 1, commitment: 1.0 }
    }
}

/// The settings of the deep autoencoding Gaussian mixture model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GaussianMixture {
    /// The number of Gaussians.
    pub components: usize,
    /// λ₁: the weight of the mean energy under the mixture.
    pub energy: f32,
    /// λ₂: the weight of the sum of inverse variances.
    pub inverse_variance: f32,
}

impl Default for GaussianMixture {
    /// The values of the implementation that the paper refers to.
    fn default() -> Self {
        Self { components: 4, energy: 0.1, inverse_variance: 0.005 }
    }
}

/// The settings of GANomaly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adversarial {
    /// The weight of the squared distance of the discriminator's features.
    pub adversarial: f32,
    /// The weight of the reconstruction's absolute error.
    pub contextual: f32,
    /// The weight of the squared distance of the latents.
    pub encoder: f32,
}

impl Default for Adversarial {
    /// The values of its authors' code.
    fn default() -> Self {
        Self { adversarial: 1.0, contextual: 50.0, encoder: 1.0 }
    }
}

/// The settings of the feed-forward energy-based model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeedForward {
    /// The channels of the first layers; the last layers have twice as many.
    pub width: usize,
    /// The weight of the mean squared energy of data and of negative samples.
    pub regularization: f32,
    /// The number of steps of the chain.
    pub steps: usize,
    /// The step size λ.
    pub step_size: f32,
    /// The standard deviation σ of the chain's noise.
    pub noise: f32,
    /// The limit on the norm of each row of the energy's gradient, as in the code of the NAE's authors.
    pub gradient_clip: f32,
    /// The number of images in the replay buffer.
    pub buffer: usize,
    /// The share of the chains that start from the replay buffer.
    pub replay: f64,
}

impl Default for FeedForward {
    /// The values of the code of the NAE's authors.
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

/// The settings of manifold projection–diffusion recovery with an energy network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManifoldDiffusion {
    /// D_z of each autoencoder on whose manifold negative samples start; each gets an equal part of the batch. If the
    /// list is empty, one autoencoder with the preset's D_z is used. An NAE with `training.fixed_manifold` (MPDR-R) uses
    /// this setting, too; its own D_z must be in the list.
    pub manifolds: Vec<usize>,
    /// The share of the epochs that train these autoencoders, before the network.
    pub manifold_share: f64,
    /// The weight of the mean squared energy of data and of negative samples.
    pub regularization: f32,
    /// The smallest standard deviation of the noise that perturbs the data's latents.
    pub min_scale: f32,
    /// The largest standard deviation of that noise.
    pub max_scale: f32,
    /// c, the strength of the force that pulls both chains back to their starts
    /// ([`Recovery`](crate::sample::Recovery)).
    pub recovery: f32,
    /// The number of steps of the latent chain, along the direction of the gradient.
    pub latent_steps: usize,
    /// The length of one of these steps.
    pub latent_step_size: f32,
    /// The standard deviation of the latent chain's noise.
    pub latent_noise: f32,
    /// The number of steps of the chain in image space.
    pub steps: usize,
    /// The step size λ of the chain in image space.
    pub step_size: f32,
    /// The standard deviation σ of the noise of the chain in image space.
    pub noise: f32,
}

impl Default for ManifoldDiffusion {
    /// The values of its authors' code for MNIST (MPDR-S), where a third of the epochs train the autoencoder.
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
    /// The settings of both chains and their start, at temperature 1.
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

    /// The number of `epochs` that train the autoencoders: at least one, and fewer than all if there are several.
    pub(crate) fn manifold_epochs(&self, epochs: usize) -> usize {
        let share = (epochs as f64 * self.manifold_share).round() as usize;
        share.min(epochs.saturating_sub(1)).max(1)
    }
}

/// The settings of Glow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flow {
    /// K: the number of steps of the flow.
    pub steps: usize,
    /// The number of channels within a coupling.
    pub hidden_channels: usize,
}

impl Default for Flow {
    /// The paper's values ("Baseline Implementation").
    fn default() -> Self {
        Self { steps: 12, hidden_channels: 64 }
    }
}

/// The settings of PixelCNN++.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Autoregressive {
    /// The number of residual blocks in each of three levels on the way down; the way up has as many, and one more in
    /// two of the levels.
    pub blocks: usize,
    /// The number of channels of each stream.
    pub filters: usize,
}

impl Default for Autoregressive {
    /// The paper's values ("Baseline Implementation").
    fn default() -> Self {
        Self { blocks: 5, filters: 80 }
    }
}

/// The settings of nearest neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Neighbours {
    /// The largest number of stored samples; there are fewer if samples have many values.
    pub vectors: usize,
    /// τ of the softmax, in units of the median squared distance between a stored sample and its nearest neighbour.
    /// Near 0, only the nearest sample contributes; for larger τ, the reconstruction is a mean of samples
    /// weighted by nearness.
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
