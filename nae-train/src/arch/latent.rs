//! The two latent spaces of the paper (section 5.1, "Latent Space Structure").

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Geometry of the latent space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatentSpace {
    /// The surface of the unit ball, S^(D−1): vectors are divided by their norm.
    Sphere,
    /// ℝ^D, unbounded.
    Euclidean,
}

impl LatentSpace {
    /// Brings latents `[N, D, 1, 1]` into the space: division by the norm on the sphere, nothing in ℝ^D.
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
