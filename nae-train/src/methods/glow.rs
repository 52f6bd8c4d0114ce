//! Glow (Kingma and Dhariwal, NeurIPS 2018): an invertible network whose output is standard normal, so that every image
//! has an exact likelihood. It is not an autoencoder; it only uses the image shape of a preset's network.
//!
//! It has one level, as in the paper's comparison (K = 12, L = 1, 64 hidden channels): images are squeezed once, to
//! four times the channels at half the sides. Convolutions within a coupling have biases in place of the activation
//! normalization of the implementation that the paper refers to, and the output's prior is not learned.

use std::path::Path;

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::activation::{log_sigmoid, relu};
use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use rand::{Rng, RngExt as _};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::gradients::{BatchLoss, sharded};
use super::state;
use super::{Decision, Model, UpdateFigures};
use crate::arch::Autoencoder;
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::layer::Sequential;
use crate::arch::spec::conv2d;
use crate::config::Pretraining;
use crate::config::methods::Flow;
use crate::sample::NoiseSource;
use crate::shard;

/// The number of values of a byte.
const LEVELS: f32 = 256.0;

/// One step of the flow (table 1): activation normalization, an invertible 1×1 convolution, an affine coupling.
#[derive(Module, Debug)]
struct Step {
    /// The offset of each channel, and then the logarithm of its factor.
    bias: Param<Tensor<1>>,
    log_scale: Param<Tensor<1>>,
    /// W = P·L·(U + diag(s)), equation 10: ones on the diagonal of L, zeros on that of U. P and the signs of s are
    /// fixed.
    permutation: Param<Tensor<2>>,
    lower: Param<Tensor<2>>,
    upper: Param<Tensor<2>>,
    signs: Param<Tensor<1>>,
    log_diagonal: Param<Tensor<1>>,
    /// Three convolutions that map one half of the channels to the shift and scale of the other half.
    coupling: [Sequential; 3],
}

/// All steps, on images in which every 2×2 pixels are combined to one.
#[derive(Module, Debug)]
pub struct Glow {
    steps: Vec<Step>,
}

/// Sets every weight to zero, so that a coupling is initially a constant.
struct Zero;

impl ModuleMapper for Zero {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|weights| Tensor::from_inner(weights.inner().zeros_like()).require_grad())
    }
}

impl Step {
    fn new(channels: usize, settings: Flow, sides: [usize; 2], rng: &mut impl Rng, device: &Device) -> Self {
        let vector = |value: f32| Param::from_data(TensorData::new(vec![value; channels], [channels]), device);
        let Rotation { permutation, lower, upper, diagonal } = Rotation::draw(channels, rng);
        let square = |values: Vec<f32>| Param::from_data(TensorData::new(values, [channels, channels]), device);
        let line = |values: Vec<f32>| Param::from_data(TensorData::new(values, [channels]), device);
        let (half, hidden) = (channels / 2, settings.hidden_channels);
        let shape = |channels| Shape::new(channels, sides[0], sides[1]);
        let mut convolution = |channels, kernel, from| {
            Sequential::new(&[conv2d(channels, kernel, 1, kernel / 2)], shape(from), rng, device)
        };
        let coupling = [
            convolution(hidden, 3, half),
            convolution(hidden, 1, hidden),
            convolution(2 * (channels - half), 3, hidden).map(&mut Zero),
        ];
        Self {
            bias: vector(0.0),
            log_scale: vector(0.0),
            permutation: square(permutation).set_require_grad(false),
            lower: square(lower),
            upper: square(upper),
            signs: line(diagonal.iter().map(|s| s.signum()).collect()).set_require_grad(false),
            log_diagonal: line(diagonal.iter().map(|s| s.abs().ln()).collect()),
            coupling,
        }
    }

    /// The activation normalization of `x` `[N, C, H, W]`.
    fn normalize(&self, x: Tensor<4>) -> Tensor<4> {
        let channels = x.dims()[1];
        let each = |values: Tensor<1>| values.reshape([1, channels, 1, 1]);
        (x + each(self.bias.val())) * each(self.log_scale.val()).exp()
    }

    /// The activation whose normalization is `x`.
    fn denormalize(&self, x: Tensor<4>) -> Tensor<4> {
        let channels = x.dims()[1];
        let each = |values: Tensor<1>| values.reshape([1, channels, 1, 1]);
        x / each(self.log_scale.val()).exp() - each(self.bias.val())
    }

    fn factors(&self) -> Factors {
        let diagonal = self.signs.val() * self.log_diagonal.val().exp();
        let channels = diagonal.dims()[0];
        Factors {
            permutation: self.permutation.val().unsqueeze(),
            lower: self.lower.val().tril(-1).unsqueeze(),
            upper: self.upper.val().triu(1).unsqueeze(),
            diagonal: diagonal.reshape([1, channels, 1]),
        }
    }

    /// The shift and scale of the second half of the channels, computed from the first half.
    fn couple(&self, first: Tensor<4>) -> [Tensor<4>; 2] {
        let [into, within, out] = &self.coupling;
        let moved = out.forward(relu(within.forward(relu(into.forward(first)))));
        let half = moved.dims()[1] / 2;
        [moved.clone().narrow(1, 0, half), moved.narrow(1, half, half)]
    }

    /// The next activation, and the logarithm of |det| of the Jacobian for each sample, `[N]`.
    fn forward(&self, x: Tensor<4>) -> (Tensor<4>, Tensor<1>) {
        let [n, channels, height, width] = x.dims();
        let places = (height * width) as f32;
        let x = self.normalize(x).reshape([n, channels, height * width]);
        let Factors { permutation, lower, upper, diagonal } = self.factors();
        let x = upper.matmul(x.clone()) + x * diagonal;
        let x = lower.matmul(x.clone()) + x;
        let x = permutation.matmul(x).reshape([n, channels, height, width]);
        let half = channels / 2;
        let (first, second) = (x.clone().narrow(1, 0, half), x.narrow(1, half, channels - half));
        let [shift, scale] = self.couple(first.clone());
        let log_scale = log_sigmoid(scale.add_scalar(2.0));
        let second = (second + shift) * log_scale.clone().exp();
        let of_places = (self.log_scale.val().sum() + self.log_diagonal.val().sum()).mul_scalar(places);
        let log_determinant = log_scale.sum_dim(1).sum_dim(2).sum_dim(3).reshape([n]) + of_places.reshape([1]);
        (Tensor::cat(vec![first, second], 1), log_determinant)
    }

    /// The activation from which [`forward`](Self::forward) computes `y`: the parts of a step in the opposite order,
    /// each inverted as in table 1 (its column "reverse function").
    fn inverse(&self, y: Tensor<4>) -> Tensor<4> {
        let [n, channels, height, width] = y.dims();
        let half = channels / 2;
        let (first, second) = (y.clone().narrow(1, 0, half), y.narrow(1, half, channels - half));
        let [shift, scale] = self.couple(first.clone());
        let second = second / log_sigmoid(scale.add_scalar(2.0)).exp() - shift;
        let y = Tensor::cat(vec![first, second], 1).reshape([n, channels, height * width]);
        let Factors { permutation, lower, upper, diagonal } = self.factors();
        let y = permutation.transpose().matmul(y);
        // A strictly triangular matrix N has N^C = 0, so that C − 1 rounds of x ← y − N·x give the solution of
        // (1 + N)·x = y: each round computes one more row as substitution does, from rows that no longer change.
        let y = (1..channels).fold(y.clone(), |x, _| y.clone() - lower.clone().matmul(x));
        let x = (1..channels)
            .fold(y.clone() / diagonal.clone(), |x, _| (y.clone() - upper.clone().matmul(x)) / diagonal.clone());
        self.denormalize(x.reshape([n, channels, height, width]))
    }
}

/// The factors of the 1×1 convolution, without the ones on the diagonal of L: `[1, C, C]`, and diag(s): `[1, C, 1]`.
struct Factors {
    permutation: Tensor<3>,
    lower: Tensor<3>,
    upper: Tensor<3>,
    diagonal: Tensor<3>,
}

/// The factors of a random rotation.
struct Rotation {
    permutation: Vec<f32>,
    lower: Vec<f32>,
    upper: Vec<f32>,
    diagonal: Vec<f32>,
}

impl Rotation {
    /// Draws normal vectors, orthogonalizes them with the Gram–Schmidt process, and factorizes with partial pivoting.
    fn draw(n: usize, rng: &mut impl Rng) -> Self {
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(n);
        while rows.len() < n {
            let mut row: Vec<f64> = (0..n).map(|_| rng.sample(StandardNormal)).collect();
            for before in &rows {
                let along: f64 = row.iter().zip(before).map(|(a, b)| a * b).sum();
                row.iter_mut().zip(before).for_each(|(a, b)| *a -= along * b);
            }
            let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt();
            // A vector nearly in the span of the others is drawn again.
            if norm > 1e-3 {
                rows.push(row.iter().map(|v| v / norm).collect());
            }
        }
        // P·L·U = rows: row i of L·U is row order[i] of the rotation.
        let mut order: Vec<usize> = (0..n).collect();
        for column in 0..n {
            let pivot = (column..n).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()));
            let pivot = pivot.unwrap_or(column);
            rows.swap(column, pivot);
            order.swap(column, pivot);
            let (done, rest) = rows.split_at_mut(column + 1);
            for row in rest {
                let factor = row[column] / done[column][column];
                row.iter_mut().zip(&done[column]).skip(column + 1).for_each(|(v, p)| *v -= factor * p);
                row[column] = factor;
            }
        }
        let entries = |of: &dyn Fn(usize, usize) -> f64| -> Vec<f32> {
            (0..n).flat_map(|i| (0..n).map(move |k| (i, k))).map(|(i, k)| of(i, k) as f32).collect()
        };
        Self {
            permutation: entries(&|i, k| if order[k] == i { 1.0 } else { 0.0 }),
            lower: entries(&|i, k| if k < i { rows[i][k] } else { 0.0 }),
            upper: entries(&|i, k| if k > i { rows[i][k] } else { 0.0 }),
            diagonal: (0..n).map(|i| rows[i][i] as f32).collect(),
        }
    }
}

/// Combines every 2×2 pixels to one pixel with four times the channels.
fn squeeze(x: Tensor<4>) -> Tensor<4> {
    let [n, c, h, w] = x.dims();
    let x = x.reshape([n, c, h / 2, 2, w / 2, 2]).permute([0, 1, 3, 5, 2, 4]);
    x.reshape([n, 4 * c, h / 2, w / 2])
}

/// Divides every pixel into the 2×2 pixels that [`squeeze`] combines.
fn unsqueeze(z: Tensor<4>) -> Tensor<4> {
    let [n, c, h, w] = z.dims();
    let z = z.reshape([n, c / 4, 2, 2, h, w]).permute([0, 1, 4, 2, 5, 3]);
    z.reshape([n, c / 4, 2 * h, 2 * w])
}

impl Glow {
    /// Makes a model for images of `image`, whose sides must be even, with weights drawn from `rng`.
    pub fn new(image: Shape, settings: Flow, rng: &mut impl Rng, device: &Device) -> Self {
        let (channels, sides) = (4 * image.channels, [image.height / 2, image.width / 2]);
        Self { steps: (0..settings.steps).map(|_| Step::new(channels, settings, sides, rng, device)).collect() }
    }

    /// A model to load weights into, on the autodiff form of `device`.
    pub(super) fn blank(image: Shape, settings: Flow, device: &Device) -> Self {
        // All drawn weights are replaced, so the seed does not matter.
        Self::new(image, settings, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
    }

    /// The output for `x` `[N, C, H, W]`, `[N, 4C, H/2, W/2]`, and the logarithm of |det| of its Jacobian, `[N]`.
    fn forward(&self, x: Tensor<4>) -> (Tensor<4>, Tensor<1>) {
        let start = squeeze(x);
        let none = start.clone().narrow(1, 0, 1).narrow(2, 0, 1).narrow(3, 0, 1).flatten(0, 3).zeros_like();
        self.steps.iter().fold((start, none), |(z, sum), step| {
            let (z, log_determinant) = step.forward(z);
            (z, sum + log_determinant)
        })
    }

    /// The images `[N, C, H, W]` whose outputs are `z` `[N, 4C, H/2, W/2]`, one for each (Kingma and Dhariwal, NeurIPS
    /// 2018: section 2, x = f⁻¹(z), with the reverse functions of table 1). If `z` is standard normal, the images are
    /// samples of the model. They have the values that the model is trained on, [0, 1] with noise within a level, but
    /// are not limited to this range. Another number of channels than the model's is a panic.
    pub fn inverse(&self, z: Tensor<4>) -> Tensor<4> {
        unsqueeze(self.steps.iter().rev().fold(z, |z, step| step.inverse(z)))
    }

    /// −log p for each sample of `x`, with a standard normal density of the output: `[N]`.
    fn negative_log_density(&self, x: Tensor<4>) -> Tensor<1> {
        let (z, log_determinant) = self.forward(x);
        let n = z.dims()[0];
        let values: usize = z.dims()[1..].iter().product();
        let constant = 0.5 * values as f64 * (2.0 * std::f64::consts::PI).ln();
        let squares = z.square().reshape([n, values]).sum_dim(1).reshape([n]).mul_scalar(0.5);
        squares.add_scalar(constant) - log_determinant
    }

    /// −log₂ of the density of `x` `[N, C, H, W]` in [0, 1], in units of a level of 1/256, divided by C·H·W: bits per
    /// dimension, `[N]`. The sides H and W must be even; others are a panic.
    fn bits_per_dimension(&self, x: Tensor<4>) -> Tensor<1> {
        let values: usize = x.dims()[1..].iter().product();
        let nats = self.negative_log_density(x);
        nats.div_scalar(values as f64 * std::f64::consts::LN_2).add_scalar(f64::from(LEVELS).log2())
    }

    /// Sets the activation normalizations so that every channel of `x` has mean 0 and variance 1 at each step (section
    /// 3.1).
    fn normalized_on(mut self, x: Tensor<4>) -> Self {
        let mut z = squeeze(x);
        for step in &mut self.steps {
            let [n, channels, height, width] = z.dims();
            let count = n * height * width;
            let flat = z.clone().swap_dims(0, 1).reshape([channels, count]);
            let mean = flat.clone().mean_dim(1);
            let variance = (flat - mean.clone()).square().mean_dim(1).reshape([channels]);
            let bias = mean.neg().reshape([channels]);
            let log_scale = variance.add_scalar(1e-6).log().mul_scalar(-0.5);
            step.bias = step.bias.clone().map(|_| Tensor::from_inner(bias).require_grad());
            step.log_scale = step.log_scale.clone().map(|_| Tensor::from_inner(log_scale).require_grad());
            z = step.valid().forward(z).0;
        }
        self
    }
}

impl Model for Glow {
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::NegativeLogLikelihood]
    }

    /// Bits per dimension at the centre of each level.
    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        self.valid().bits_per_dimension(x.add_scalar(0.5 / LEVELS))
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// Trains on the likelihood of images with uniform noise within a level; burn computes the gradient.
pub(crate) type GlowMethod = GradientMethod<FlowLikelihood>;

/// The bits per dimension of images with noise.
pub(crate) struct FlowLikelihood {
    device: Device,
}

/// The state kept between updates of a flow.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Whether the activation normalizations were initialized with a batch.
    normalized: bool,
    /// The source of the noise within a level.
    noise: NoiseSource,
}

impl state::Kept for Kept {
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        self.noise.difference(&begun.noise, image)
    }
}

impl GlowMethod {
    /// Starts from the state `model`; the noise within a level is drawn from `noise`.
    pub(crate) fn new(model: Glow, pretraining: Pretraining, noise: NoiseSource, device: &Device) -> Self {
        let objective = FlowLikelihood { device: device.clone() };
        Self::begin(objective, model, Kept { normalized: false, noise }, pretraining)
    }
}

/// Returns the gradient of the mean bits per dimension of `x`, which already includes noise, and these bits.
fn gradients(model: &Glow, x: Tensor<4>) -> (GradientsParams, UpdateFigures) {
    let shards = shard::shards(x).into_iter().map(|x| (x.dims()[0], x)).collect();
    sharded(model, shards, |model, x: Tensor<4>| {
        let bits = model.bits_per_dimension(x.autodiff()).mean();
        BatchLoss { loss: bits.clone(), report: vec![("bits_per_dimension", bits)] }
    })
}

impl Objective for FlowLikelihood {
    type Model = Glow;
    type Kept = Kept;

    fn update(&self, kept: &mut Kept, mut model: Glow, x: Tensor<4>, step: OptimizerStep<'_>) -> (Glow, UpdateFigures) {
        let noise = kept.noise.uniform::<4>(x.dims(), &self.device);
        let x = x + noise.div_scalar(LEVELS);
        if !kept.normalized {
            model = model.normalized_on(x.clone());
            kept.normalized = true;
        }
        let (gradients, figures) = gradients(&model, x);
        (step.along(gradients, model), figures)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;

    use super::*;
    use crate::methods::Method as _;
    use crate::methods::finite_differences::{moved, slopes_agree, wide};

    const SETTINGS: Flow = Flow { steps: 3, hidden_channels: 5 };

    /// A model with weights far from the initial ones, with which couplings are constant.
    fn glow(height: usize, width: usize) -> Glow {
        struct Move(NoiseSource);
        impl ModuleMapper for Move {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                if !param.is_require_grad() {
                    return param;
                }
                let moves = self.0.normal::<1>([param.shape().num_elements()], &Device::flex()).mul_scalar(0.2);
                param.map(|weights| {
                    let moves = moves.reshape(weights.dims());
                    Tensor::from_inner(weights.inner() + moves).require_grad()
                })
            }
        }
        let (image, device) = (Shape::new(1, height, width), Device::flex().autodiff());
        Glow::new(image, SETTINGS, NoiseSource::new(0, 0).rng(), &device).map(&mut Move(NoiseSource::new(1, 0)))
    }

    /// log|det| by elimination with pivots.
    fn log_determinant(mut rows: Vec<Vec<f64>>) -> f64 {
        let (n, mut log) = (rows.len(), 0.0);
        for column in 0..n {
            let largest = |&a: &usize, &b: &usize| rows[a][column].abs().total_cmp(&rows[b][column].abs());
            let pivot = (column..n).max_by(largest).expect("there are rows");
            rows.swap(column, pivot);
            log += rows[column][column].abs().ln();
            let (done, rest) = rows.split_at_mut(column + 1);
            for row in rest {
                let factor = row[column] / done[column][column];
                row.iter_mut().zip(&done[column]).for_each(|(v, p)| *v -= factor * p);
            }
        }
        log
    }

    #[test]
    fn the_first_convolution_is_a_rotation() {
        let n = 6;
        let Rotation { permutation, lower, upper, diagonal } = Rotation::draw(n, NoiseSource::new(3, 0).rng());
        let product = |a: &dyn Fn(usize, usize) -> f64, b: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            let entry = |i: usize, k: usize| (0..n).map(|j| a(i, j) * b(j, k)).sum::<f64>();
            (0..n).flat_map(|i| (0..n).map(move |k| (i, k))).map(|(i, k)| entry(i, k)).collect()
        };
        let identity = |i: usize, k: usize| if i == k { 1.0 } else { 0.0 };
        let lower = |i: usize, k: usize| f64::from(lower[i * n + k]) + identity(i, k);
        let upper = |i: usize, k: usize| f64::from(upper[i * n + k]) + identity(i, k) * f64::from(diagonal[i]);
        let inner = product(&lower, &upper);
        let whole = product(&|i, k| f64::from(permutation[i * n + k]), &|i, k| inner[i * n + k]);
        let square = product(&|i, k| whole[i * n + k], &|i, k| whole[k * n + i]);
        for i in 0..n {
            for k in 0..n {
                assert!((square[i * n + k] - identity(i, k)).abs() < 1e-5, "{i}, {k}: {}", square[i * n + k]);
            }
        }
        assert!((0..n).all(|i| (0..i).all(|k| lower(i, k).abs() <= 1.0 + 1e-6)), "the largest pivots");
    }

    /// Compares with the Jacobian from finite differences in float64, column by column.
    #[test]
    fn the_density_is_that_of_the_change_of_variables() {
        let exact = moved(&glow(4, 4), usize::MAX, &[], 0.0);
        let x = NoiseSource::new(2, 0).uniform::<4>([1, 1, 4, 4], &Device::flex()).cast(FloatDType::F64);
        let values = wide(x.clone());
        let at = |values: &[f64]| {
            let data = TensorData::new(values.to_vec(), [1, 1, 4, 4]);
            wide(exact.forward(Tensor::from_data(data, (&x.device(), x.dtype()))).0)
        };
        let columns: Vec<Vec<f64>> = (0..16)
            .map(|k| {
                let step = |by: f64| {
                    let mut values = values.clone();
                    values[k] += by;
                    at(&values)
                };
                step(1e-5).iter().zip(step(-1e-5)).map(|(a, b)| (a - b) / 2e-5).collect()
            })
            .collect();
        let squares: f64 = at(&values).iter().map(|z| z * z).sum();
        let expected = 0.5 * squares + 8.0 * (2.0 * std::f64::consts::PI).ln() - log_determinant(columns);
        let found = wide(exact.negative_log_density(x.clone()))[0];
        assert!((found - expected).abs() < 1e-6, "{found} against {expected}");
        let bits = wide(exact.bits_per_dimension(x))[0];
        assert!((bits - (expected / (16.0 * 2f64.ln()) + 8.0)).abs() < 1e-6, "{bits}");
    }

    /// From images to outputs and back, and from outputs to images and back. Rounding in float64 leaves errors of about
    /// 1e-15; with one part of a step inverted wrongly, they are above 0.01.
    #[test]
    fn the_inverse_inverts() {
        let exact = moved(&glow(4, 6), usize::MAX, &[], 0.0);
        let symmetric = |step: &Step| wide(step.permutation.val()) == wide(step.permutation.val().transpose());
        assert!(!exact.steps.iter().all(symmetric), "a permutation must differ from its inverse");
        let images = NoiseSource::new(2, 0).uniform::<4>([7, 1, 4, 6], &Device::flex()).cast(FloatDType::F64);
        let outputs = NoiseSource::new(5, 0).normal::<4>([7, 4, 2, 3], &Device::flex()).cast(FloatDType::F64);
        let apart = |a: Tensor<4>, b: Tensor<4>| {
            assert_eq!(a.dims(), b.dims());
            wide(a).iter().zip(wide(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
        };
        let back = apart(exact.inverse(exact.forward(images.clone()).0), images);
        let there = apart(exact.forward(exact.inverse(outputs.clone())).0, outputs);
        assert!(back < 1e-12 && there < 1e-12, "{back}, {there}");
    }

    /// The density of four pixels integrates to 1 over a grid.
    #[test]
    fn the_density_sums_to_one() {
        let glow = glow(2, 2).valid();
        let (side, step) = (28i32, 0.45f32);
        let line: Vec<f32> = (0..side).map(|k| (k as f32 - 0.5 * (side - 1) as f32) * step).collect();
        let mut sum = 0.0;
        for a in &line {
            let rest = line.iter().flat_map(|b| line.iter().flat_map(|c| line.iter().flat_map(|d| [*a, *b, *c, *d])));
            let values: Vec<f32> = rest.collect();
            let n = values.len() / 4;
            let x = Tensor::<4>::from_data(TensorData::new(values, [n, 1, 2, 2]), &Device::flex());
            sum += wide(glow.negative_log_density(x)).iter().map(|nats| (-nats).exp()).sum::<f64>();
        }
        let integral = sum * f64::from(step).powi(4);
        assert!((integral - 1.0).abs() < 0.01, "{integral}");
    }

    #[test]
    fn it_steps_by_the_gradient_of_its_loss() {
        let model = glow(4, 6);
        let x = NoiseSource::new(2, 0).uniform::<4>([37, 1, 4, 6], &Device::flex());
        let (gradients, _) = gradients(&model, x.clone());
        let loss = |model: &Glow, terms: &[f64; 2]| {
            let (z, log_determinant) = model.forward(x.clone().cast(FloatDType::F64));
            let squares: f64 = wide(z).iter().map(|z| 0.5 * z * z).sum();
            let logs: f64 = wide(log_determinant).iter().sum();
            (terms[0] * squares - terms[1] * logs) / (37.0 * 24.0 * 2f64.ln())
        };
        let wrong = [[0.0, 1.0], [2.0, 1.0], [1.0, 0.0], [1.0, 2.0], [1.0, -1.0]];
        slopes_agree("Glow", &model, &gradients, &[1.0, 1.0], &wrong, loss);
    }

    /// After the first batch, each of its channels has mean 0 and variance 1 at every step.
    #[test]
    fn the_first_batch_sets_the_normalization() {
        let x = NoiseSource::new(2, 0).uniform::<4>([40, 1, 4, 6], &Device::flex()).mul_scalar(3.0).add_scalar(1.0);
        let mut method =
            GlowMethod::new(glow(4, 6), Pretraining::new(1, 40, 1e-9), NoiseSource::new(4, 0), &Device::flex());
        method.update(x.clone());
        let noise = NoiseSource::new(4, 0).uniform::<4>(x.dims(), &Device::flex());
        let mut z = squeeze(x + noise.div_scalar(LEVELS));
        for step in &method.model.valid().steps {
            let normalized = wide(step.normalize(z.clone()).swap_dims(0, 1));
            for channel in normalized.chunks(normalized.len() / 4) {
                let n = channel.len() as f64;
                let mean = channel.iter().sum::<f64>() / n;
                let variance = channel.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
                assert!(mean.abs() < 1e-4 && (variance - 1.0).abs() < 1e-3, "{mean}, {variance}");
            }
            z = step.forward(z).0;
        }
    }
}
