//! The energy of the model: how badly an image is reconstructed (paper, equation 9), differentiable.
//!
//! The same definitions as [`nae_core::energy`], which scores at run time; the tests hold the two together.

use burn::tensor::Tensor;

use crate::arch::Autoencoder;

/// E(x) = ‖x − f_d(f_e(x))‖² / D for images `[N, C, H, W]`; one energy an image, `[N]`.
///
/// The division by the dimension D is the paper's ("NAE Implementation").
pub fn energy(model: &Autoencoder, x: Tensor<4>) -> Tensor<1> {
    squared_l2(x.clone(), model.reconstruct(x))
}

/// H(z) = E(f_d(z)) for latents `[N, D, 1, 1]` (paper, section 4.2).
pub fn on_manifold_energy(model: &Autoencoder, z: Tensor<4>) -> Tensor<1> {
    energy(model, model.decode(z))
}

/// Mean over the dimensions of the squared difference, `[N]`.
pub fn squared_l2(x: Tensor<4>, reconstruction: Tensor<4>) -> Tensor<1> {
    let [n, c, h, w] = x.dims();
    let difference = x - reconstruction;
    (difference.clone() * difference).reshape([n, c * h * w]).mean_dim(1).reshape([n])
}
