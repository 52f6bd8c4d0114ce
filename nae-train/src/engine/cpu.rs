//! The engine behind burn's tensors: shards of a batch side by side.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};

use super::network::{Network, WeightGradients};
use super::plane::Planes;
use crate::arch::{Autoencoder, LatentSpace};
use crate::sample::{EnergyGradient, FrozenEnergy};
use crate::shard::{self, SHARD};

/// Energies and gradients of one state of an autoencoder.
pub struct CpuEngine {
    network: Network,
    latent_space: LatentSpace,
    device: Device,
}

impl CpuEngine {
    /// Lays out the weights of `model` for images of `size` (rows, columns); results are tensors on `device`.
    ///
    /// # Panics
    /// Where [`supports`](super::supports) is an error for the model's architecture.
    pub fn new(model: &Autoencoder, size: [usize; 2], device: &Device) -> Self {
        Self { network: Network::new(model, size), latent_space: model.latent_space(), device: device.clone() }
    }

    fn map(&self, input: Tensor<4>, f: impl Fn(Planes) -> Planes + Sync) -> Tensor<4> {
        let (outputs, _) = self.map_with(input, |planes| (f(planes), ()));
        outputs
    }

    fn map_with<R: Send>(&self, input: Tensor<4>, f: impl Fn(Planes) -> (Planes, R) + Sync) -> (Tensor<4>, Vec<R>) {
        let n = input.dims()[0];
        let parts = shard::map(planes(input), |shard| {
            let (output, rest) = f(shard);
            ([output.c, output.h, output.w], output.to_channels_first(), rest)
        });
        let [c, h, w] = parts.first().map_or([0; 3], |part| part.0);
        let mut values = Vec::with_capacity(n * c * h * w);
        let mut rest = Vec::with_capacity(parts.len());
        for (_, part, r) in parts {
            values.extend(part);
            rest.push(r);
        }
        (Tensor::from_data(TensorData::new(values, [n, c, h, w]), &self.device), rest)
    }

    fn gradient(&self, input: Tensor<4>, f: impl Fn(Planes) -> (Vec<f32>, Planes) + Sync) -> EnergyGradient {
        let (gradient, energies) = self.map_with(input, |planes| {
            let (energies, gradient) = f(planes);
            (gradient, energies)
        });
        let energies = energies.concat();
        let n = energies.len();
        EnergyGradient { energy: Tensor::from_data(TensorData::new(energies, [n]), &self.device), gradient }
    }

    /// Energies of `x`, and the gradient of Σ coefficient(Eᵢ)·Eᵢ with respect to the weights, coefficients held
    /// constant.
    pub fn weights(&self, x: Tensor<4>, coefficient: impl Fn(f32) -> f32 + Sync) -> (Vec<f32>, WeightGradients) {
        gathered(shard::map(planes(x), |shard| self.network.weights(shard, &coefficient)))
    }

    /// As [`weights`](Self::weights), where the reconstruction of `input` is compared with `target`.
    pub fn weights_towards(
        &self,
        input: Tensor<4>,
        target: Tensor<4>,
        coefficient: impl Fn(f32) -> f32 + Sync,
    ) -> (Vec<f32>, WeightGradients) {
        let pairs = planes(input).into_iter().zip(planes(target)).collect();
        gathered(shard::map(pairs, |(input, target)| self.network.weights_towards(input, &target, &coefficient)))
    }

    /// Gradients in the form burn's optimisers take.
    pub fn register(&self, gradients: WeightGradients) -> GradientsParams {
        let mut params = GradientsParams::new();
        for (id, shape, values) in gradients {
            match shape[..] {
                [a] => params.register(id, Tensor::<1>::from_data(TensorData::new(values, [a]), &self.device)),
                [a, b, c, d] => {
                    params.register(id, Tensor::<4>::from_data(TensorData::new(values, [a, b, c, d]), &self.device));
                }
                _ => unreachable!("weights are of one or four axes"),
            }
        }
        params
    }
}

/// Energies and summed gradients of all shards, in order.
fn gathered(parts: Vec<(Vec<f32>, WeightGradients)>) -> (Vec<f32>, WeightGradients) {
    let mut energies = Vec::new();
    let mut total: WeightGradients = Vec::new();
    for (part_energies, part) in parts {
        energies.extend(part_energies);
        add(&mut total, part);
    }
    (energies, total)
}

/// Adds `part` to `total`, which lists the same parameters in the same order or is empty.
pub fn add(total: &mut WeightGradients, part: WeightGradients) {
    if total.is_empty() {
        *total = part;
        return;
    }
    for ((_, _, sum), (_, _, values)) in total.iter_mut().zip(part) {
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum += value;
        }
    }
}

fn planes(input: Tensor<4>) -> Vec<Planes> {
    let [_, c, h, w] = input.dims();
    let values = input.into_data().try_into_vec::<f32>().expect("images and latents are float");
    let len = c * h * w;
    values.chunks(SHARD * len).map(|shard| Planes::from_channels_first(shard.len() / len, [c, h, w], shard)).collect()
}

impl FrozenEnergy for CpuEngine {
    fn latent_space(&self) -> LatentSpace {
        self.latent_space
    }

    fn encode(&self, x: Tensor<4>) -> Tensor<4> {
        self.map(x, |x| self.network.encode(x))
    }

    fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        self.map(z, |z| self.network.decode(z))
    }

    fn visible(&self, x: Tensor<4>) -> EnergyGradient {
        self.gradient(x, |x| self.network.visible(x))
    }

    fn latent(&self, z: Tensor<4>) -> EnergyGradient {
        self.gradient(z, |z| self.network.latent(z))
    }
}
