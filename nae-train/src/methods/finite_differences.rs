//! Compares the gradients that methods use with finite differences of losses computed in float64, on both engines.
//!
//! Every weight tensor is moved along its own random direction. If a term of a loss is changed, one of these slopes
//! must change by a hundred times the bound: a term that is left out, doubled or of the wrong sign is detected.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use nae_core::Shape;

use super::Method as _;
use super::autoencoder::AutoencoderMethod;
use super::nae::{NaeMethod, NormalizedAutoencoder};
use super::wae::WaeMethod;
use crate::arch::spec::{LayerSpec, conv2d, fc};
use crate::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use crate::config::methods::{Denoising, Regularization, Wasserstein};
use crate::config::{Pretraining, Training, preset};
use crate::engine::Engine;
use crate::sample::{FrozenEnergy, NegativeSampler, NoiseSource};

/// More than a shard, and not a multiple of the tile size.
pub(super) const SAMPLES: usize = 37;
const LATENT_DIM: usize = 4;
const STEP: f64 = 1e-5;
/// The largest error of a slope, as a fraction of ‖gradient‖·‖direction‖ of all weights together.
const BOUND: f64 = 1e-6;

/// A network that is smooth, since a kink within a step would change the slope, with layers of both shapes of weights.
pub(super) fn smooth(space: LatentSpace) -> AutoencoderSpec {
    let image = Shape::new(1, 6, 6);
    let elu = LayerSpec::Elu { alpha: 1.0 };
    let encoder = vec![conv2d(3, 3, 1, 0), elu.clone(), fc(LATENT_DIM)];
    let decoder = vec![fc(9), elu, fc(image.len()), LayerSpec::Reshape { shape: [1, 6, 6] }];
    AutoencoderSpec::new("smooth", image, encoder, decoder, space).expect("valid")
}

/// The same network with larger weights than new ones.
pub(super) fn network(space: LatentSpace) -> Autoencoder {
    struct Larger(NoiseSource);
    impl ModuleMapper for Larger {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            // New weights reduce every signal, so that the energy would hardly depend on anything but x.
            let shifts = self.0.normal::<1>([param.shape().num_elements()], &Device::flex()).mul_scalar(0.2);
            param.map(|weights| {
                let shifts = shifts.reshape(weights.dims());
                Tensor::from_inner(weights.inner().mul_scalar(1.5) + shifts).require_grad()
            })
        }
    }
    let device = Device::flex().autodiff();
    Autoencoder::new(&smooth(space), NoiseSource::new(0, 0).rng(), &device).map(&mut Larger(NoiseSource::new(7, 0)))
}

/// Returns `model` with all weights multiplied by `factor`.
pub(super) fn scaled(model: &Autoencoder, factor: f32) -> Autoencoder {
    struct Scale(f32);
    impl ModuleMapper for Scale {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|weights| Tensor::from_inner(weights.inner().mul_scalar(self.0)).require_grad())
        }
    }
    model.clone().map(&mut Scale(factor))
}

pub(super) fn images(seed: u64) -> Tensor<4> {
    NoiseSource::new(seed, 0).uniform([SAMPLES, 1, 6, 6], &Device::flex())
}

/// A direction for every weight tensor, in the order in which they are visited.
fn directions(model: &impl Module) -> Vec<Vec<f64>> {
    struct Draw(NoiseSource, Vec<Vec<f64>>);
    impl ModuleVisitor for Draw {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let drawn = self.0.normal::<1>([param.shape().num_elements()], &Device::flex());
            // Parameters that no optimizer changes stay fixed.
            self.1.push(wide(if param.is_require_grad() { drawn } else { drawn.zeros_like() }));
        }
    }
    let mut draw = Draw(NoiseSource::new(8, 0), Vec::new());
    model.visit(&mut draw);
    draw.1
}

pub(super) fn wide<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// A copy in float64 with one weight tensor moved.
pub(super) fn moved<M: Module>(model: &M, which: usize, direction: &[f64], step: f64) -> M {
    struct Move<'a>(usize, &'a [f64], f64);
    impl ModuleMapper for Move<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let here = self.0 == 0;
            self.0 = self.0.wrapping_sub(1);
            param.map(|weights| {
                let weights = weights.cast(FloatDType::F64);
                if !here {
                    return weights;
                }
                let moves: Vec<f64> = self.1.iter().map(|d| d * self.2).collect();
                weights.clone()
                    + Tensor::from_data(TensorData::new(moves, weights.dims()), (&weights.device(), DType::F64))
            })
        }
    }
    model.valid().map(&mut Move(which, direction, step))
}

/// The slopes of `loss` along the directions.
fn slopes<M: Module>(model: &M, directions: &[Vec<f64>], loss: impl Fn(&M) -> f64) -> Vec<f64> {
    let slope = |(which, direction): (usize, &Vec<f64>)| {
        let at = |step| loss(&moved(model, which, direction, step));
        (at(STEP) - at(-STEP)) / (2.0 * STEP)
    };
    directions.iter().enumerate().map(slope).collect()
}

/// The slopes computed from `gradients`, and ‖gradient‖·‖direction‖.
fn along(model: &impl Module, directions: &[Vec<f64>], gradients: &GradientsParams) -> (Vec<f64>, f64) {
    let gradient = gradient_of(model, gradients);
    let mut rest = gradient.as_slice();
    let slope = |direction: &Vec<f64>| {
        let (of_it, others) = rest.split_at(direction.len());
        rest = others;
        of_it.iter().zip(direction).map(|(g, d)| g * d).sum()
    };
    let slopes = directions.iter().map(slope).collect();
    let longest = directions.iter().map(|d| squares(d)).sum::<f64>();
    (slopes, (squares(&gradient) * longest).sqrt())
}

/// All weights, in the order in which they are visited.
pub(super) fn numbers(module: &impl Module) -> Vec<f64> {
    struct All(Vec<f64>);
    impl ModuleVisitor for All {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.extend(wide(param.val()));
        }
    }
    let mut all = All(Vec::new());
    module.visit(&mut all);
    all.0
}

/// The gradients of all weights, in the same order.
pub(super) fn gradient_of(module: &impl Module, gradients: &GradientsParams) -> Vec<f64> {
    struct All<'a>(&'a GradientsParams, Vec<f64>);
    impl ModuleVisitor for All<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            // A parameter that the optimizer does not change has no gradient; the loss must not depend on it.
            let gradient = self.0.get::<D>(param.id).map(wide);
            self.1.extend(gradient.unwrap_or_else(|| vec![0.0; param.shape().num_elements()]));
        }
    }
    let mut all = All(gradients, Vec::new());
    module.visit(&mut all);
    all.1
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

/// Compares `gradients` with the slopes of `loss(model, right)`, and checks that the slopes for every `wrong` differ
/// from these.
pub(super) fn slopes_agree<M: Module, T: std::fmt::Debug>(
    what: &str,
    model: &M,
    gradients: &GradientsParams,
    right: &T,
    wrong: &[T],
    loss: impl Fn(&M, &T) -> f64,
) {
    let directions = directions(model);
    let (found, scale) = along(model, &directions, gradients);
    let expected = slopes(model, &directions, |model| loss(model, right));
    assert_eq!(found.len(), expected.len());
    let off = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / scale;
    println!("{what}: {:.1e}", off(&found, &expected));
    assert!(off(&found, &expected) < BOUND, "{what}: {found:?} against {expected:?}, of {scale}");
    for terms in wrong {
        let moved = off(&slopes(model, &directions, |model| loss(model, terms)), &expected);
        println!("    {terms:?}: {moved:.1e}");
        assert!(moved > 100.0 * BOUND, "{what}: {terms:?} moves no slope by more than {moved}");
    }
}

/// Whether the values are equal up to f32 rounding.
pub(super) fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5)
}

/// Compares H(z) of `frozen`, whose manifold must be that of [`smooth`], with `energy_at`, whose argument are latents
/// in float64, and the gradient of H with the slopes of `energy_at`.
pub(super) fn latent_energies_agree(
    what: impl std::fmt::Debug,
    frozen: &dyn FrozenEnergy,
    energy_at: impl Fn(Tensor<4>) -> Vec<f64>,
) {
    let z = NoiseSource::new(6, 0).normal::<4>([5, LATENT_DIM, 1, 1], &Device::flex());
    let found = frozen.latent(z.clone());
    assert!(close(&wide(found.energy), &energy_at(z.clone().cast(FloatDType::F64))), "{what:?}");
    for d in 0..LATENT_DIM {
        let at = |step: f64| {
            let moved = z.clone().cast(FloatDType::F64);
            let part = moved.clone().narrow(1, d, 1).add_scalar(step);
            energy_at(moved.slice_assign([0..5, d..d + 1, 0..1, 0..1], part))
        };
        let slopes: Vec<f64> = at(STEP).iter().zip(at(-STEP)).map(|(a, b)| (a - b) / (2.0 * STEP)).collect();
        assert!(slopes.iter().any(|slope| slope.abs() > 1e-3), "{what:?}: {slopes:?}");
        assert!(close(&wide(found.gradient.clone().narrow(1, d, 1)), &slopes), "{what:?}, {d}");
    }
}

/// Variants of the weights of a loss's terms, in which each in turn is left out, doubled or negated.
pub(super) fn changed<const N: usize>(right: [f64; N]) -> Vec<[f64; N]> {
    let each = |term: usize| {
        [0.0, 2.0, -1.0].map(|factor| {
            let mut terms = right;
            terms[term] *= factor;
            terms
        })
    };
    (0..N).flat_map(each).collect()
}

/// The weights of a loss's terms.
#[derive(Clone, Copy, Debug)]
struct Terms {
    positive: f64,
    negative: f64,
    positive_squared: f64,
    negative_squared: f64,
    encoder: f64,
    decoder: f64,
    latents: f64,
}

impl Terms {
    /// Variants in which one term is left out, halved, doubled or negated.
    fn changed(self) -> Vec<Self> {
        let terms: [fn(&mut Self) -> &mut f64; 7] = [
            |t| &mut t.positive,
            |t| &mut t.negative,
            |t| &mut t.positive_squared,
            |t| &mut t.negative_squared,
            |t| &mut t.encoder,
            |t| &mut t.decoder,
            |t| &mut t.latents,
        ];
        let mut all = Vec::new();
        for term in terms {
            for factor in [0.0, 0.5, 2.0, -1.0] {
                let mut changed = self;
                if *term(&mut changed) != 0.0 {
                    *term(&mut changed) *= factor;
                    all.push(changed);
                }
            }
        }
        all
    }

    /// The loss of data and negative samples.
    fn loss(&self, model: &Autoencoder, x: &Tensor<4>, negatives: &Tensor<4>) -> f64 {
        let (positive, negative) = (energies(model, x, x), energies(model, negatives, negatives));
        let squared = |energies: &[f64]| mean(energies.iter().map(|e| e * e));
        let latents = [x, negatives].map(|x| squares(&latents(model, x))).iter().sum::<f64>() / (2 * SAMPLES) as f64;
        self.positive * mean(positive.iter().copied()) - self.negative * mean(negative.iter().copied())
            + self.positive_squared * squared(&positive)
            + self.negative_squared * squared(&negative)
            + self.encoder * weights_squared(&model.encoder)
            + self.decoder * weights_squared(&model.decoder)
            + self.latents * latents
    }
}

/// ‖target − f_d(f_e(input))‖²/D for each sample.
fn energies(model: &Autoencoder, input: &Tensor<4>, target: &Tensor<4>) -> Vec<f64> {
    let reconstructions = wide(model.reconstruct(input.clone().cast(FloatDType::F64)));
    let targets = wide(target.clone());
    let len = targets.len() / SAMPLES;
    let energy = |(x, y): (&[f64], &[f64])| mean(x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)));
    targets.chunks(len).zip(reconstructions.chunks(len)).map(energy).collect()
}

fn latents(model: &Autoencoder, x: &Tensor<4>) -> Vec<f64> {
    wide(model.encode(x.clone().cast(FloatDType::F64)))
}

fn weights_squared(module: &impl Module) -> f64 {
    squares(&numbers(module))
}

/// The paper's loss, with a reduced weight of the negative samples, on both engines, with and without the term ‖z‖².
#[test]
fn the_nae_steps_by_the_gradient_of_its_loss() {
    let config = preset::load("digits").expect("comes with the program");
    let (x, negatives) = (images(1), images(2).mul_scalar(1.5));
    for (engine, latent_norm) in [(Engine::Cpu, 0.0), (Engine::Burn, 0.0), (Engine::Cpu, 0.05), (Engine::Burn, 0.05)] {
        let model = network(LatentSpace::Euclidean);
        let regularization = Regularization {
            negative_energy: 0.3,
            positive_energy: 0.2,
            encoder_l2: 0.02,
            decoder_l2: 0.03,
            latent_norm,
        };
        let training = Training { regularization, ..config.training() };
        let sampler = NegativeSampler::new(config.sampler(), LATENT_DIM, NoiseSource::new(3, 0));
        let normalized = NormalizedAutoencoder::new(model.clone(), 0.5);
        let mut method = NaeMethod::new(normalized, &training, sampler, engine, &Device::flex()).with_limit(1.0);
        // This gives k = exp(−½·(1.5 − 1)) for any energies of this network.
        method.follow(1.5);
        let weight = (-0.25f64).exp();
        let (gradients, figures) = method.gradients(x.clone(), negatives.clone());
        let terms = Terms {
            positive: 1.0,
            negative: weight,
            positive_squared: f64::from(regularization.positive_energy),
            negative_squared: weight * f64::from(regularization.negative_energy),
            encoder: f64::from(regularization.encoder_l2),
            decoder: f64::from(regularization.decoder_l2),
            latents: f64::from(latent_norm),
        };
        let what = format!("NAE by {engine:?}, ‖z‖² × {latent_norm}");
        for (name, x) in [("positive_energy", &x), ("negative_energy", &negatives)] {
            let expected = mean(energies(&moved(&model, usize::MAX, &[], 0.0), x, x).into_iter());
            let found = figures.get(name).expect("reported");
            assert!((found - expected).abs() < 1e-5 * expected, "{what}, {name}: {found} against {expected}");
        }
        slopes_agree(&what, &model, &gradients, &terms, &terms.changed(), |model, terms| {
            terms.loss(model, &x, &negatives)
        });
    }
}

/// Pre-training: the mean energy between the output for the input and the target, the encoder's penalty, and that on the
/// latents.
#[test]
fn the_autoencoder_steps_by_the_gradient_of_its_loss() {
    let x = images(1);
    let cases = [(LatentSpace::Sphere, None, 0.0), (LatentSpace::Sphere, Some(0.3f32), 0.0)];
    let with_norm = [(LatentSpace::Euclidean, None, 0.05), (LatentSpace::Euclidean, Some(0.3), 0.05)];
    let cases = cases.into_iter().chain(with_norm);
    for (engine, (space, noise, latent_norm)) in cases.flat_map(|case| [(Engine::Cpu, case), (Engine::Burn, case)]) {
        let model = network(space);
        let settings = Pretraining { encoder_l2: 0.02, latent_norm, ..Pretraining::new(1, SAMPLES, 1e-3) };
        let source = || NoiseSource::new(4, 0);
        let corruption = noise.map(|noise| (Denoising { noise }, source()));
        let mut method = AutoencoderMethod::new(model.clone(), settings, corruption, engine, &Device::flex());
        let (gradients, figures) = method.objective.gradients(&mut method.kept, &method.model, x.clone());
        let epsilon = source().normal::<4>(x.dims(), &Device::flex());
        let input = |noise: f64| x.clone() + epsilon.clone().mul_scalar(noise as f32);
        let noise = f64::from(noise.unwrap_or(0.0));
        let what = format!("{engine:?}, noise {noise}, ‖z‖² × {latent_norm}");
        let unmoved = moved(&model, usize::MAX, &[], 0.0);
        let expected = mean(energies(&unmoved, &input(noise), &x).into_iter());
        let found = figures.get("energy").expect("reported");
        assert!((found - expected).abs() < 1e-5 * expected, "{what}: {found} against {expected}");
        // [energy, penalty, decoder's penalty, σ of the noise, ‖z‖²]
        let right = [1.0, 0.02, 0.0, noise, f64::from(latent_norm)];
        let changed = [(0, 2.0), (1, 0.0), (1, 0.01), (2, 0.02), (3, if noise > 0.0 { 0.0 } else { 0.1 })];
        let of_latents = [(4, 0.0), (4, 0.1)].into_iter().filter(|_| latent_norm > 0.0);
        let wrong: Vec<[f64; 5]> = changed
            .into_iter()
            .chain(of_latents)
            .map(|(index, value)| {
                let mut terms = right;
                terms[index] = value;
                terms
            })
            .collect();
        slopes_agree(&what, &model, &gradients, &right, &wrong, |model, terms| {
            let input = input(terms[3]);
            terms[0] * mean(energies(model, &input, &x).into_iter())
                + terms[1] * weights_squared(&model.encoder)
                + terms[2] * weights_squared(&model.decoder)
                + terms[4] * squares(&latents(model, &input)) / SAMPLES as f64
        });
    }
}

/// MMD² of latents and prior has the right weight, with the bandwidth fixed at its value before the step, in both
/// latent spaces.
#[test]
fn the_wae_steps_by_the_gradient_of_its_loss() {
    let x = images(1);
    let both = [LatentSpace::Euclidean, LatentSpace::Sphere];
    for (space, engine) in both.into_iter().flat_map(|space| [(space, Engine::Cpu), (space, Engine::Burn)]) {
        let model = network(space);
        let settings = Pretraining { encoder_l2: 0.01, ..Pretraining::new(1, SAMPLES, 1e-3) };
        let source = || NoiseSource::new(5, 0);
        let (start, weight, device) = (model.clone(), Wasserstein { mmd: 0.5 }, Device::flex());
        let mut method = WaeMethod::new(start, settings, weight, source(), engine, &device);
        let (gradients, figures) = method.objective.gradients(&mut method.kept, &method.model, x.clone());
        let prior = wide(source().latents(space, SAMPLES, LATENT_DIM, &Device::flex()));
        let unmoved = moved(&model, usize::MAX, &[], 0.0);
        let before = latents(&unmoved, &x);
        let bandwidth = 0.5 * (median_distance(&before) + median_distance(&prior));
        let mmd = |z: &[f64]| {
            let mut kernels = [(z, z), (&prior, &prior), (z, &prior)].map(|(a, b)| {
                let squared = distances(a, b);
                mean(squared.into_iter().map(|d| (-0.5 * d / bandwidth).exp()))
            });
            kernels[2] *= -2.0;
            kernels.iter().sum::<f64>()
        };
        for (name, expected) in
            [("energy", mean(energies(&unmoved, &x, &x).into_iter())), ("mmd_squared", mmd(&before))]
        {
            let found = figures.get(name).expect("reported");
            assert!((found - expected).abs() < 1e-5 * expected, "{name}: {found} against {expected}");
        }
        // [energy, MMD², penalty]
        let (right, wrong) = (
            [1.0, 0.5, 0.01],
            [[2.0, 0.5, 0.01], [1.0, 0.0, 0.01], [1.0, 1.0, 0.01], [1.0, -0.5, 0.01], [1.0, 0.5, 0.0]],
        );
        slopes_agree(&format!("WAE by {engine:?}, {space:?}"), &model, &gradients, &right, &wrong, |model, terms| {
            terms[0] * mean(energies(model, &x, &x).into_iter())
                + terms[1] * mmd(&latents(model, &x))
                + terms[2] * weights_squared(&model.encoder)
        });
    }
}

/// Two updates of pre-training are those of Adam (Kingma and Ba, algorithm 1, with PyTorch's constants) with gradients
/// whose norm over all weights is reduced to the limit. The first batch's norm is below the limit, the second's above.
#[test]
fn pre_training_is_adam_on_gradients_of_a_limited_norm() {
    let batches = [images(1).mul_scalar(0.3), images(2).mul_scalar(5.0)];
    let (rate, start) = (0.1, network(LatentSpace::Sphere));
    let norms = batches.each_ref().map(|x| {
        let settings = Pretraining::new(1, SAMPLES, rate);
        let mut method = AutoencoderMethod::new(start.clone(), settings, None, Engine::Cpu, &Device::flex());
        squares(&gradient_of(&start, &method.objective.gradients(&mut method.kept, &method.model, x.clone()).0)).sqrt()
    });
    let mut ends = Vec::new();
    for max_gradient_norm in [None, Some((norms[0] * norms[1]).sqrt())] {
        let settings = Pretraining { max_gradient_norm, ..Pretraining::new(1, SAMPLES, rate) };
        let mut method = AutoencoderMethod::new(start.clone(), settings, None, Engine::Cpu, &Device::flex());
        let mut weights = numbers(&start);
        let (mut mean, mut variance) = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
        let mut limited = Vec::new();
        for (t, x) in (1..).zip(&batches) {
            let gradients = method.objective.gradients(&mut method.kept, &method.model, x.clone()).0;
            let mut gradient = gradient_of(method.model().autoencoder().expect("it is one"), &gradients);
            let norm = squares(&gradient).sqrt();
            limited.push(max_gradient_norm.is_some_and(|limit| norm > limit));
            let factor = max_gradient_norm.map_or(1.0, |limit| (limit / norm).min(1.0));
            gradient.iter_mut().for_each(|g| *g *= factor);
            for (k, g) in gradient.iter().enumerate() {
                mean[k] = 0.9 * mean[k] + 0.1 * g;
                variance[k] = 0.999 * variance[k] + 0.001 * g * g;
                let (mean, variance) = (mean[k] / (1.0 - 0.9f64.powi(t)), variance[k] / (1.0 - 0.999f64.powi(t)));
                weights[k] -= rate * mean / (variance.sqrt() + 1e-8);
            }
            method.update(x.clone());
        }
        assert_eq!(limited, [false, max_gradient_norm.is_some()], "the limit is between both norms");
        let found = numbers(method.model().autoencoder().expect("it is one"));
        let off = found.iter().zip(&weights).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max);
        assert!(off < 1e-5, "{max_gradient_norm:?}: {off}");
        ends.push(weights);
    }
    let apart = ends[0].iter().zip(&ends[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart > 1e-3, "the limit moves a weight by {apart}");
}

/// ‖aᵢ − bⱼ‖² for all pairs.
fn distances(a: &[f64], b: &[f64]) -> Vec<f64> {
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    a.chunks(LATENT_DIM).flat_map(|a| b.chunks(LATENT_DIM).map(move |b| distance(a, b))).collect()
}

fn median_distance(points: &[f64]) -> f64 {
    let all = distances(points, points);
    let mut above: Vec<f64> =
        (0..SAMPLES).flat_map(|i| all[i * SAMPLES + i + 1..(i + 1) * SAMPLES].iter().copied()).collect();
    above.sort_by(f64::total_cmp);
    above[above.len() / 2]
}
