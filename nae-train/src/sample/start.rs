//! The starts of chains, which distinguish on-manifold initialization, CD and PCD (paper, section 4).

use serde::{Deserialize, Serialize};

use super::replay_buffer::ReplayConfig;

/// The starts of chains.
///
/// The first two start in the latent space; the visible chain then starts at the decoder's image of the latent chain's
/// end. The others only have a visible chain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Start {
    /// On-manifold initialization: from the noise distribution of the latent space (uniform on the sphere, standard
    /// normal in ℝ^D), or from a replay buffer of earlier latent chains.
    OnManifold {
        /// The replay buffer, if one is used.
        #[serde(default)]
        replay_buffer: Option<ReplayConfig>,
    },
    /// From latents of data with added Gaussian noise, whose scale is drawn for each sample from [`min_scale`,
    /// `max_scale`] (manifold projection–diffusion recovery: Yoon et al., NeurIPS 2023).
    PerturbedData {
        /// The smallest standard deviation of the noise.
        #[serde(default, skip_serializing_if = "is_zero")]
        min_scale: f32,
        /// The largest standard deviation of the noise.
        max_scale: f32,
        /// c, the strength of the force that pulls both chains back to their starts ([`Recovery`](super::Recovery)): 1
        /// is the paper's recovery likelihood, 10⁻⁴ its authors' setting, and 0 disables it.
        #[serde(default, skip_serializing_if = "is_zero")]
        recovery: f32,
    },
    /// Contrastive divergence, CD-k: from the data; k is the visible chain's number of steps (Hinton 2002).
    Data,
    /// Persistent contrastive divergence, PCD (Tieleman 2008): one chain for each sample of the batch, each of which
    /// continues from its last state. New chains start from the noise distribution of the images.
    Persistent {
        /// The probability that a chain restarts from noise; 0 is the original PCD, 0.05 is typical (Du and Mordatch
        /// 2019).
        #[serde(default)]
        restart: f64,
    },
    /// From the noise distribution of the images (uniform on the box of a bounded visible chain, otherwise standard
    /// normal), or from a replay buffer of earlier visible chains (Du and Mordatch 2019; the authors' code calls this
    /// PCD).
    Noise {
        /// The replay buffer, if one is used.
        #[serde(default)]
        replay_buffer: Option<ReplayConfig>,
    },
}

/// Zeros are not written, so that older settings stay unchanged.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

impl Start {
    /// Whether a latent chain precedes the visible one.
    pub fn is_latent(self) -> bool {
        matches!(self, Self::OnManifold { .. } | Self::PerturbedData { .. })
    }

    /// The replay buffer of latents or images, if one is used.
    pub fn replay_buffer(self) -> Option<ReplayConfig> {
        match self {
            Self::OnManifold { replay_buffer } | Self::Noise { replay_buffer } => replay_buffer,
            Self::PerturbedData { .. } | Self::Data | Self::Persistent { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_is_not_written() {
        let written = |min_scale, recovery| {
            let start = Start::PerturbedData { min_scale, max_scale: 0.5, recovery };
            let text = toml::to_string(&start).expect("writes");
            assert_eq!(toml::from_str::<Start>(&text).expect("reads"), start);
            text
        };
        assert_eq!(written(0.0, 0.0), "[perturbed_data]\nmax_scale = 0.5\n");
        assert_eq!(written(0.25, 0.125), "[perturbed_data]\nmin_scale = 0.25\nmax_scale = 0.5\nrecovery = 0.125\n");
    }
}
