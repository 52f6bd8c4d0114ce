//! The energy of the model: the error of an image's reconstruction (paper, equation 9), differentiable.
//!
//! The definitions are those of [`nae_core::energy`], which computes scores at run time; tests check that both agree.
//! [`Autoencoder::energy`] is the energy of a model. `ssim` is structural similarity.

pub(crate) mod ssim;

use burn::tensor::{DType, FloatDType, Tensor};
use nae_core::energy::Energy;

use crate::arch::Autoencoder;

/// E(x) = dist(x, f_d(f_e(x))) for images `[N, C, H, W]`: one energy for each image, `[N]`. If a network has a lower
/// [precision](crate::sample::Precision), its output is compared with the image in f32.
pub fn energy(model: &Autoencoder, x: Tensor<4>) -> Tensor<1> {
    distance(model.energy(), at_least_f32(x.clone()), at_least_f32(model.reconstruct(x)))
}

/// H(z) = E(f_d(z)) for latents `[N, D, 1, 1]` (paper, section 4.2).
pub fn on_manifold_energy(model: &Autoencoder, z: Tensor<4>) -> Tensor<1> {
    energy(model, model.decode(z))
}

/// The energy of each of the images `x` `[N, C, H, W]` with the given `reconstruction`, `[N]`.
pub fn distance(energy: Energy, x: Tensor<4>, reconstruction: Tensor<4>) -> Tensor<1> {
    match energy {
        Energy::SquaredL2 => squared_l2(x, reconstruction),
        Energy::L1 => l1(x, reconstruction),
        Energy::Ssim => ssim::ssim(x, reconstruction),
        // nae-core may support more energies in the future; a preset only has the three above.
        other => unreachable!("{} has no differentiable form here", other.name()),
    }
}

/// ‖x − x̂‖² / D, `[N]`. The paper also divides by the dimension D ("NAE Implementation").
pub fn squared_l2(x: Tensor<4>, reconstruction: Tensor<4>) -> Tensor<1> {
    let difference = x - reconstruction;
    sample_mean(difference.clone() * difference)
}

/// ‖x − x̂‖₁ / D, `[N]`. Its gradient is 0 where x = x̂.
pub fn l1(x: Tensor<4>, reconstruction: Tensor<4>) -> Tensor<1> {
    sample_mean((x - reconstruction).abs())
}

/// The mean over the batch of ‖z‖², for latents `[N, D, 1, 1]`; `[1]`.
///
/// It is the regularizer of an unbounded latent space: `gaussians8` with three latents gives it the weight 0.01.
pub fn mean_squared_norm(z: Tensor<4>) -> Tensor<1> {
    let n = z.dims()[0];
    (z.clone() * z).sum().div_scalar(n as f32)
}

/// Returns `x`, converted to f32 if it has half precision.
pub(crate) fn at_least_f32(x: Tensor<4>) -> Tensor<4> {
    if matches!(x.dtype(), DType::F16 | DType::BF16) { x.cast(FloatDType::F32) } else { x }
}

/// The mean of each sample, `[N]`.
fn sample_mean(x: Tensor<4>) -> Tensor<1> {
    let [n, c, h, w] = x.dims();
    x.reshape([n, c * h * w]).mean_dim(1).reshape([n])
}

/// The mean of `energies`, summed in double precision; NaN if there are none.
pub fn mean(energies: &[f32]) -> f64 {
    energies.iter().map(|&e| f64::from(e)).sum::<f64>() / energies.len() as f64
}
