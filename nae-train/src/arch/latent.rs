//! The two latent spaces of the paper (section 6.1, "Latent Space Structure").

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// The geometry of the latent space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatentSpace {
    /// The surface of the unit ball, S^(D−1): vectors are divided by their norm.
    Sphere,
    /// ℝ^D, unbounded.
    Euclidean,
}

impl LatentSpace {
    /// Projects latents `[N, D, 1, 1]` to the space: on the sphere by division by the norm; in ℝ^D they stay unchanged.
    pub fn project(self, z: Tensor<4>) -> Tensor<4> {
        match self {
            Self::Sphere => {
                let norm = (z.clone() * z.clone()).sum_dim(1).sqrt();
                z / norm
            }
            Self::Euclidean => z,
        }
    }
}
