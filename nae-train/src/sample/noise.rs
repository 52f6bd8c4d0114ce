//! Random numbers of the chains, from the run's seed. On the CPU they are the same for any number of threads. Another
//! device draws its own numbers, to avoid transfers, from seeds that come from the run's seed: they are the same on
//! that device each time.
//!
//! [`NoiseSource`] is a sequential stream; [`ChainNoise`] gives the noise of a chain by sample and step, in any order.

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::bounds::Bounds;
use crate::arch::LatentSpace;
use crate::device::on_processor;

/// A stream of random numbers. It is stored as its position.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Position", into = "Position")]
pub struct NoiseSource {
    rng: ChaCha8Rng,
}

/// A position in a stream.
#[derive(Serialize, Deserialize)]
struct Position {
    seed: [u8; 32],
    stream: u64,
    /// The number of 32-bit words drawn.
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
    /// The stream with number `stream` of `seed`; streams do not overlap.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self { rng }
    }

    /// Whether both are positions of the same stream of the same seed.
    pub(crate) fn is_stream_of(&self, other: &Self) -> bool {
        self.rng.get_seed() == other.rng.get_seed() && self.rng.get_stream() == other.rng.get_stream()
    }

    /// The generator itself, for draws other than tensors.
    pub fn rng(&mut self) -> &mut ChaCha8Rng {
        &mut self.rng
    }

    /// Draws independent standard normal values.
    pub fn normal<const D: usize>(&mut self, shape: [usize; D], device: &Device) -> Tensor<D> {
        if !on_processor(device) {
            return self.draw_on(device, shape, Distribution::Normal(0.0, 1.0));
        }
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| self.rng.sample(StandardNormal)).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// Draws independent values, uniform on [0, 1).
    pub fn uniform<const D: usize>(&mut self, shape: [usize; D], device: &Device) -> Tensor<D> {
        if !on_processor(device) {
            return self.draw_on(device, shape, Distribution::Uniform(0.0, 1.0));
        }
        let values = self.uniform_values(shape.iter().product());
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    fn draw_on<const D: usize>(&mut self, device: &Device, shape: [usize; D], distribution: Distribution) -> Tensor<D> {
        draw_on(device, self.rng.random(), shape, distribution)
    }

    /// Draws `count` independent values, uniform on [0, 1).
    pub fn uniform_values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.rng.random()).collect()
    }

    /// The noise of the next chain.
    pub fn chain(&mut self) -> ChainNoise {
        ChainNoise { key: self.rng.random() }
    }

    /// Draws `count` latents `[N, D, 1, 1]` from the noise distribution of `space`: standard normal in ℝ^D; uniform on
    /// the sphere, drawn as a normal vector divided by its norm (paper, "Sampling Parameters and Techniques").
    pub fn latents(&mut self, space: LatentSpace, count: usize, dim: usize, device: &Device) -> Tensor<4> {
        space.project(self.normal([count, dim, 1, 1], device))
    }

    /// Draws images from the noise distribution p₀(x): uniform on the box if there is one, otherwise standard normal.
    pub fn images(&mut self, bounds: Option<Bounds>, shape: [usize; 4], device: &Device) -> Tensor<4> {
        match bounds {
            Some(Bounds { min, max, .. }) => self.uniform(shape, device).mul_scalar(max - min).add_scalar(min),
            None => self.normal(shape, device),
        }
    }
}

/// Draws on a device. burn has one generator for each process and kind of device, which simultaneous runs share, so
/// each draw sets its seed.
fn draw_on<const D: usize>(device: &Device, seed: u64, shape: [usize; D], distribution: Distribution) -> Tensor<D> {
    device.seed(seed);
    Tensor::random(shape, distribution, device)
}

/// The noise of one chain: a function of its key, the sample and the step (ChaCha8, whose counter can be set), so that
/// it does not depend on which thread computes a sample, or when.
#[derive(Clone, Debug)]
pub struct ChainNoise {
    key: [u8; 32],
}

/// The kinds of draws for a sample at a step.
#[derive(Clone, Copy)]
enum Draw {
    Noise = 0,
    Acceptance = 1,
}

impl ChainNoise {
    /// The generator at the position of one draw. Each draw has 2³² words of its stream, far more than an image needs,
    /// and a stream has room for 2³⁵ steps.
    fn rng(&self, sample: usize, step: usize, draw: Draw) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::from_seed(self.key);
        rng.set_stream(sample as u64);
        rng.set_word_pos((2 * step as u128 + draw as u128) << 32);
        rng
    }

    /// Fills `values`, a sample `[C, H, W]`, with independent standard normal values.
    pub fn fill(&self, sample: usize, step: usize, values: &mut [f32]) {
        let mut rng = self.rng(sample, step, Draw::Noise);
        values.iter_mut().for_each(|value| *value = rng.sample(StandardNormal));
    }

    /// The values of [`fill`](Self::fill) for each sample of a batch; devices other than the CPU draw their own.
    pub fn normal(&self, step: usize, shape: [usize; 4], device: &Device) -> Tensor<4> {
        if !on_processor(device) {
            let seed = self.rng(0, step, Draw::Noise).random();
            return draw_on(device, seed, shape, Distribution::Normal(0.0, 1.0));
        }
        let [n, c, h, w] = shape;
        let mut values = vec![0.0; n * c * h * w];
        for (sample, values) in values.chunks_exact_mut(c * h * w).enumerate() {
            self.fill(sample, step, values);
        }
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// A value uniform on [0, 1), which decides whether a sample accepts a step.
    pub fn acceptance(&self, sample: usize, step: usize) -> f32 {
        self.rng(sample, step, Draw::Acceptance).random()
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

    /// On S², each coordinate is uniform on [−1, 1] (Archimedes): variance 1/3, fourth moment 1/5. The bounds are four
    /// standard errors (for one seed in 16,000, one of them fails by chance).
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

    /// Over samples at one step, over steps of one sample, and between neighbouring values, the noise is standard
    /// normal and uncorrelated.
    #[test]
    fn a_chains_noise_is_independent_from_sample_to_sample_and_from_step_to_step() {
        let noise = NoiseSource::new(6, 0).chain();
        let of = |sample, step| {
            let mut values = [0.0f32; 2];
            noise.fill(sample, step, &mut values);
            values.map(f64::from)
        };
        let error = |variance: f64| 4.0 * (variance / N as f64).sqrt();
        for draw in [|i| (i, 0), |i| (0, i)] {
            let at = |i: usize| {
                let (sample, step) = draw(i);
                of(sample, step)
            };
            let moment = |f: fn([f64; 2], [f64; 2]) -> f64| mean((0..N).map(|i| f(at(i), at(i + 1))));
            assert!(moment(|a, _| a[0]).abs() < error(1.0));
            assert!((moment(|a, _| a[0] * a[0]) - 1.0).abs() < error(2.0));
            assert!(moment(|a, _| a[0] * a[1]).abs() < error(1.0));
            assert!(moment(|a, b| a[0] * b[0]).abs() < error(1.0));
            assert!(moment(|a, b| a[1] * b[0]).abs() < error(1.0));
        }
        let uniform = |step| mean((0..N).map(|sample| f64::from(noise.acceptance(sample, step))));
        assert!((uniform(0) - 0.5).abs() < error(1.0 / 12.0) && (uniform(9) - 0.5).abs() < error(1.0 / 12.0));
    }

    #[test]
    fn chains_draw_as_their_seed_says_and_each_its_own() {
        let draws = |seed| {
            let mut source = NoiseSource::new(seed, 0);
            [(); 2].map(|()| values(source.chain().normal(3, [2, 1, 2, 2], &Device::flex())))
        };
        let [first, second] = draws(7);
        assert_eq!(draws(7), [first.clone(), second.clone()]);
        assert!(first != second && draws(8)[0] != first);
        assert!(first[..4] != first[4..], "two samples draw the same");
    }

    #[test]
    fn noise_images_fill_the_box_or_are_standard_normal() {
        let mut noise = NoiseSource::new(5, 0);
        let bounds = Bounds { min: -5.0, max: 3.0, leaving: Leaving::Reject };
        let x = values(noise.images(Some(bounds), [N, 1, 1, 1], &Device::flex()));
        assert!(x.iter().all(|x| (-5.0..3.0).contains(x)));
        let (average, variance) = (mean(x.iter().copied()), mean(x.iter().map(|x| (x + 1.0) * (x + 1.0))));
        assert!((average + 1.0).abs() < 4.0 * (64.0 / 12.0 / N as f64).sqrt());
        // The squared deviation from the centre of a box of width w has mean w²/12 and variance w⁴/180.
        assert!((variance - 64.0 / 12.0).abs() < 4.0 * (4096.0 / 180.0 / N as f64).sqrt());
        let x = values(noise.images(None, [N, 1, 1, 1], &Device::flex()));
        assert!((mean(x.iter().map(|x| x * x)) - 1.0).abs() < 4.0 * (2.0 / N as f64).sqrt());
    }
}
