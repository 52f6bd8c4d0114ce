//! The plain autoencoder (paper, equation 1): the mean reconstruction error of the data.

use burn::tensor::Tensor;

use crate::arch::Autoencoder;
use crate::energy::energy;

/// Mean energy of the batch `x`.
pub fn loss(model: &Autoencoder, x: Tensor<4>) -> Tensor<1> {
    energy(model, x).mean()
}

/// ∂loss/∂E of each of `n` samples.
pub fn coefficient(n: usize) -> f32 {
    1.0 / n as f32
}
