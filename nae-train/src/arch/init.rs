//! Initial weights: uniform on ±1/√fan_in, for weights and biases, as PyTorch draws them for both kinds of convolution.
//! They are drawn on the host from the run's seed, so that they do not depend on the device.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use rand::{Rng, RngExt as _};

/// Draws values of `shape`, uniform on [−bound, bound).
pub(crate) fn uniform<const D: usize>(
    shape: [usize; D],
    bound: f32,
    rng: &mut impl Rng,
    device: &Device,
) -> Param<Tensor<D>> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| rng.random_range(-bound..bound)).collect();
    Param::from_data(TensorData::new(values, shape), device)
}

/// 1/√fan_in for a kernel with `channels` × `kernel` × `kernel` inputs.
pub(super) fn bound(channels: usize, kernel: usize) -> f32 {
    1.0 / ((channels * kernel * kernel) as f32).sqrt()
}
