//! Random numbers of the chains, drawn on the host from the run's seed: the same on every device and for any
//! number of threads.

use burn::tensor::{Device, Tensor, TensorData};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct NoiseSource {
    rng: ChaCha8Rng,
}

impl NoiseSource {
    /// Stream number `stream` of `seed`; streams do not overlap.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self { rng }
    }

    /// The generator itself, for draws that are no tensor.
    pub fn rng(&mut self) -> &mut ChaCha8Rng {
        &mut self.rng
    }

    /// Independent standard normal values.
    pub fn normal<const D: usize>(&mut self, shape: [usize; D], device: &Device) -> Tensor<D> {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| self.rng.sample(StandardNormal)).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// Independent values, uniform on [0, 1).
    pub fn uniform<const D: usize>(&mut self, shape: [usize; D], device: &Device) -> Tensor<D> {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| self.rng.random()).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }
}
