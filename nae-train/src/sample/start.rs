//! Where chains start: what tells on-manifold initialisation, CD and PCD apart (paper, section 4).

use serde::{Deserialize, Serialize};

use super::replay_buffer::ReplayConfig;

/// Where chains start.
///
/// The first two start in the latent space; the decoder's image of the latent chain's end starts the visible chain.
/// The others have a visible chain only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Start {
    /// On-manifold initialisation: from the noise distribution of the latent space (uniform on the sphere, standard
    /// normal in ℝ^D), or from a replay buffer of earlier latent chains.
    OnManifold {
        /// The buffer, where one is used.
        #[serde(default)]
        replay_buffer: Option<ReplayConfig>,
    },
    /// From latents of data, moved by Gaussian noise whose scale is drawn for each sample from
    /// [`min_scale`, `max_scale`] (manifold projection–diffusion recovery: Yoon et al., NeurIPS 2023).
    PerturbedData {
        /// Smallest standard deviation of the noise.
        #[serde(default, skip_serializing_if = "is_zero")]
        min_scale: f32,
        /// Largest standard deviation of the noise.
        max_scale: f32,
        /// c, how strongly both chains are drawn back to where they started ([`Recovery`](super::Recovery)): 1 is the
        /// paper's recovery likelihood, 10⁻⁴ its authors' setting, and 0 not at all.
        #[serde(default, skip_serializing_if = "is_zero")]
        recovery: f32,
    },
    /// Contrastive divergence, CD-k: at the data; k is the visible chain's number of steps (Hinton 2002).
    Data,
    /// Persistent contrastive divergence, PCD (Tieleman 2008): as many chains as the batch has samples, each going on
    /// where it was. They begin in the noise distribution of the images.
    Persistent {
        /// Probability that a chain begins anew from noise; 0 is the original PCD, 0.05 typical (Du and Mordatch 2019).
        #[serde(default)]
        restart: f64,
    },
    /// From the noise distribution of the images: uniform on the box of a bounded visible chain, else standard
    /// normal. Or from a replay buffer of earlier visible chains (Du and Mordatch 2019; what the authors' code calls
    /// PCD).
    Noise {
        /// The buffer, where one is used.
        #[serde(default)]
        replay_buffer: Option<ReplayConfig>,
    },
}

/// Settings from before there was a choice are written as they were.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

impl Start {
    /// Whether a latent chain comes before the visible one.
    pub fn is_latent(self) -> bool {
        matches!(self, Self::OnManifold { .. } | Self::PerturbedData { .. })
    }

    /// The replay buffer, of latents or images, where one is used.
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
