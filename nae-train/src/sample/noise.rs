//! Random numbers of the chains, from the run's seed: on the processor the same for any number of threads. Another
//! device draws its own, so that none go through the bus, from seeds that come from the run's: the same on that device
//! each time.

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::bounds::Bounds;
use crate::arch::LatentSpace;
use crate::device::on_processor;

/// A stream of random numbers. Stored as the place it has come to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Position", into = "Position")]
pub struct NoiseSource {
    rng: ChaCha8Rng,
}

/// A place in a stream.
#[derive(Serialize, Deserialize)]
struct Position {
    seed: [u8; 32],
    stream: u64,
    /// 32-bit words drawn.
    words: u128,
}

impl From<NoiseSource> for Position {
    fn from(NoiseSource { rng }: NoiseSource) -> Self {
        Self { seed: rng.get_seed(), stream: rng.get_stream(), words: rng.get_word_pos() }
    }
}

impl From<Position> for NoiseSource {
    fn from(Position { seed, stream, words }: Position) -> Self {
        let mut rng = ChaCha8Rng::from_seed(seed);
        rng.set_stream(stream);
        rng.set_word_pos(words);
        Self { rng }
    }
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
        if !on_processor(device) {
            return self.draw_on(device, shape, Distribution::Normal(0.0, 1.0));
        }
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| self.rng.sample(StandardNormal)).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// Independent values, uniform on [0, 1).
    pub fn uniform<const D: usize>(&mut self, shape: [usize; D], device: &Device) -> Tensor<D> {
        if !on_processor(device) {
            return self.draw_on(device, shape, Distribution::Uniform(0.0, 1.0));
        }
        let values = self.uniform_values(shape.iter().product());
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// burn has one generator a process and kind of device: two runs that draw at once would take from each other.
    fn draw_on<const D: usize>(&mut self, device: &Device, shape: [usize; D], distribution: Distribution) -> Tensor<D> {
        device.seed(self.rng.random());
        Tensor::random(shape, distribution, device)
    }

    /// `count` independent values, uniform on [0, 1).
    pub fn uniform_values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.rng.random()).collect()
    }

    /// `count` latents `[N, D, 1, 1]` of the noise distribution of `space`: standard normal in ℝ^D; uniform on the
    /// sphere, drawn as a normal vector divided by its norm (paper, "Sampling Parameters and Techniques").
    pub fn latents(&mut self, space: LatentSpace, count: usize, dim: usize, device: &Device) -> Tensor<4> {
        space.project(self.normal([count, dim, 1, 1], device))
    }

    /// Images of the noise distribution p₀(x): uniform on the box where there is one, else standard normal.
    pub fn images(&mut self, bounds: Option<Bounds>, shape: [usize; 4], device: &Device) -> Tensor<4> {
        match bounds {
            Some(Bounds { min, max, .. }) => self.uniform(shape, device).mul_scalar(max - min).add_scalar(min),
            None => self.normal(shape, device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bounds::Leaving;
    use super::*;

    const N: usize = 20_000;

    fn values(tensor: Tensor<4>) -> Vec<f64> {
        tensor.into_data().iter::<f32>().map(f64::from).collect()
    }

    fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
        let values: Vec<f64> = values.into_iter().collect();
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// On S², each coordinate is uniform on [−1, 1] (Archimedes): variance 1/3, fourth moment 1/5. Bounds are four
    /// standard errors (one seed in 16,000 fails one of them by chance).
    #[test]
    fn latents_of_the_sphere_are_uniform() {
        let z = values(NoiseSource::new(3, 0).latents(LatentSpace::Sphere, N, 3, &Device::flex()));
        assert!(z.chunks(3).all(|z| (z.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-5));
        let error = |variance: f64| 4.0 * (variance / N as f64).sqrt();
        for k in 0..3 {
            let moment = |p: i32| mean(z.chunks(3).map(|z| z[k].powi(p)));
            assert!(moment(1).abs() < error(1.0 / 3.0));
            assert!((moment(2) - 1.0 / 3.0).abs() < error(1.0 / 5.0 - 1.0 / 9.0));
            assert!((moment(4) - 1.0 / 5.0).abs() < error(1.0 / 9.0 - 1.0 / 25.0));
        }
        let mixed = mean(z.chunks(3).map(|z| z[0] * z[1]));
        assert!(mixed.abs() < error(1.0 / 15.0));
    }

    #[test]
    fn latents_of_the_plane_are_standard_normal() {
        let z = values(NoiseSource::new(4, 0).latents(LatentSpace::Euclidean, N, 2, &Device::flex()));
        let error = |variance: f64| 4.0 * (variance / (2 * N) as f64).sqrt();
        let moment = |p: i32| mean(z.iter().map(|v| v.powi(p)));
        assert!(moment(1).abs() < error(1.0));
        assert!((moment(2) - 1.0).abs() < error(2.0));
        assert!((moment(4) - 3.0).abs() < error(96.0));
    }

    #[test]
    fn noise_images_fill_the_box_or_are_standard_normal() {
        let mut noise = NoiseSource::new(5, 0);
        let bounds = Bounds { min: -5.0, max: 3.0, leaving: Leaving::Reject };
        let x = values(noise.images(Some(bounds), [N, 1, 1, 1], &Device::flex()));
        assert!(x.iter().all(|x| (-5.0..3.0).contains(x)));
        let (average, variance) = (mean(x.iter().copied()), mean(x.iter().map(|x| (x + 1.0) * (x + 1.0))));
        assert!((average + 1.0).abs() < 4.0 * (64.0 / 12.0 / N as f64).sqrt());
        // The squared deviation from the middle of a box of width w has mean w²/12 and variance w⁴/180.
        assert!((variance - 64.0 / 12.0).abs() < 4.0 * (4096.0 / 180.0 / N as f64).sqrt());
        let x = values(noise.images(None, [N, 1, 1, 1], &Device::flex()));
        assert!((mean(x.iter().map(|x| x * x)) - 1.0).abs() < 4.0 * (2.0 / N as f64).sqrt());
    }
}
