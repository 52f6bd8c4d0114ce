//! The deep autoencoding Gaussian mixture model (Zong et al., ICLR 2018): an autoencoder, and a small network that
//! assigns each sample to the components of a Gaussian mixture by shares, from the sample's latent and two measures of
//! its reconstruction. The score of a sample is its energy under that mixture.
//!
//! The estimation network, and the default weights of the terms, are those of the implementation that the paper refers
//! to. The mixture for scoring is pooled over about the last hundred updates, while that implementation computes it
//! with another pass over the training data.

use std::path::Path;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use rand::Rng;

use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::gradients::{BatchLoss, add_l2};
use super::halves::{Halves, HalvesEngine};
use super::mixture::Mixture;
use super::{Decision, Model, UpdateFigures};
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::layer::Sequential;
use crate::arch::spec::fc;
use crate::arch::{Autoencoder, AutoencoderSpec};
use crate::config::Pretraining;
use crate::config::methods::GaussianMixture;
use crate::energy::distance;
use crate::engine::Engine;
use crate::sample::NoiseSource;

/// The number of values in the estimation network's hidden layer.
const HIDDEN: usize = 10;
/// The share of these values that an update drops.
const DROPOUT: f32 = 0.5;
/// The share of an update's batch in the pooled mixture.
const POOLED: f32 = 0.01;

/// An autoencoder, the estimation network, and the mixture for scoring.
#[derive(Module, Debug)]
pub struct GaussianMixtureAutoencoder {
    /// The compression network.
    pub autoencoder: Autoencoder,
    /// The estimation network, up to its tanh, and after it.
    hidden: Sequential,
    output: Sequential,
    /// The pooled mixture, which the optimizer does not change.
    weights: Param<Tensor<1>>,
    means: Param<Tensor<2>>,
    covariances: Param<Tensor<3>>,
}

/// A parameter that is stored with the weights and not changed by their optimizer.
fn kept<const D: usize>(tensor: Tensor<D>) -> Param<Tensor<D>> {
    Param::from_tensor(tensor).set_require_grad(false)
}

impl GaussianMixtureAutoencoder {
    /// Combines `autoencoder`, whose latent space must be Euclidean, with a new estimation network drawn from `rng`.
    pub fn new(autoencoder: Autoencoder, settings: GaussianMixture, rng: &mut impl Rng, device: &Device) -> Self {
        let features = autoencoder.latent_dim() + 2;
        let Mixture { weights, means, covariances } = Mixture::empty(settings.components, features, device);
        Self {
            hidden: Sequential::new(&[fc(HIDDEN)], Shape::vector(features), rng, device),
            output: Sequential::new(&[fc(settings.components)], Shape::vector(HIDDEN), rng, device),
            weights: kept(weights),
            means: kept(means),
            covariances: kept(covariances),
            autoencoder,
        }
    }

    /// A model to load weights into, on the autodiff form of `device`.
    pub(super) fn blank(spec: &AutoencoderSpec, settings: GaussianMixture, device: &Device) -> Self {
        // All drawn weights are replaced, so the seed does not matter.
        let start = checkpoint::blank(spec, device);
        Self::new(start, settings, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
    }

    fn mixture(&self) -> Mixture {
        Mixture { weights: self.weights.val(), means: self.means.val(), covariances: self.covariances.val() }
    }

    /// The points of the mixture, `[N, D_z + 2]`: the latent, and the relative Euclidean distance and the cosine of
    /// sample and reconstruction (section 3.2). Also returns the reconstruction error, `[N]`.
    fn features(&self, x: Tensor<4>, y: Tensor<4>, z: Tensor<4>) -> (Tensor<2>, Tensor<1>) {
        let [n, dim, _, _] = z.dims();
        let energy = distance(self.autoencoder.energy(), x.clone(), y.clone());
        let values = x.dims()[1..].iter().product();
        let [x, y] = [x, y].map(|image| image.reshape([n, values]));
        // The small constant avoids a division by zero for a black image.
        let norm = |v: Tensor<2>| v.square().sum_dim(1).add_scalar(1e-12).sqrt();
        let relative = norm(x.clone() - y.clone()) / norm(x.clone());
        let cosine = (x.clone() * y.clone()).sum_dim(1) / (norm(x) * norm(y));
        (Tensor::cat(vec![z.reshape([n, dim]), relative, cosine], 1), energy)
    }

    /// The shares of the components in each sample, `[N, K]`; `keep` is the dropout factor of the hidden layer.
    fn shares(&self, features: Tensor<2>, keep: Option<Tensor<2>>) -> Tensor<2> {
        let [n, f] = features.dims();
        let hidden = self.hidden.forward(features.reshape([n, f, 1, 1])).tanh();
        let hidden = match keep {
            Some(keep) => hidden * keep.reshape([n, HIDDEN, 1, 1]),
            None => hidden,
        };
        let output = self.output.forward(hidden);
        let k = output.dims()[1];
        softmax(output.reshape([n, k]), 1)
    }

    /// −log of the mixture's density at each sample of `x`: `[N]`.
    fn sample_energies(&self, x: Tensor<4>) -> Tensor<1> {
        let z = self.autoencoder.encode(x.clone());
        let (features, _) = self.features(x, self.autoencoder.decode(z.clone()), z);
        self.mixture().energies(features)
    }

    /// The terms of equation 7: the mean reconstruction error, the mean energy under the batch's own mixture, and the
    /// sum of its inverse variances.
    fn terms(&self, x: Tensor<4>, y: Tensor<4>, z: Tensor<4>, keep: Tensor<2>) -> [Tensor<1>; 3] {
        let (features, energy) = self.features(x, y, z);
        let mixture = Mixture::of(features.clone(), self.shares(features.clone(), Some(keep)));
        let sample_energy = mixture.energies(features).mean();
        let inverse = mixture.variances().clamp_min(1e-6).recip().sum();
        [energy.mean(), sample_energy, inverse]
    }
}

impl Model for GaussianMixtureAutoencoder {
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::NegativeLogLikelihood]
    }

    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        self.valid().sample_energies(x)
    }

    /// `None`, since the decision does not use the reconstruction error, and exported networks have no layer for the
    /// mixture.
    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// The latent is decoded unchanged.
impl Halves for GaussianMixtureAutoencoder {
    type Drawn = ();
    type Between = Tensor<4>;

    fn autoencoder(&self) -> &Autoencoder {
        &self.autoencoder
    }

    fn between(&self, encoded: Tensor<4>, (): ()) -> (Tensor<4>, Tensor<4>) {
        (encoded.clone(), encoded)
    }
}

/// Trains autoencoder and estimation network together.
pub(crate) type DagmmMethod = GradientMethod<SampleEnergy>;

/// The reconstruction error and the energy under the batch's mixture. The state kept between updates is the source of
/// dropout.
pub(crate) struct SampleEnergy {
    engine: HalvesEngine,
    settings: GaussianMixture,
    encoder_l2: f32,
}

impl DagmmMethod {
    /// Starts from the state `model`; dropout is drawn from `dropout`.
    pub(crate) fn new(
        model: GaussianMixtureAutoencoder,
        pretraining: Pretraining,
        settings: GaussianMixture,
        dropout: NoiseSource,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let (engine, encoder_l2) = (HalvesEngine::new(engine, device), pretraining.encoder_l2);
        Self::begin(SampleEnergy { engine, settings, encoder_l2 }, model, dropout, pretraining)
    }
}

impl SampleEnergy {
    /// Returns the gradient of the loss with respect to all weights, and the loss's parts.
    fn gradients(
        &self,
        dropout: &mut NoiseSource,
        model: &GaussianMixtureAutoencoder,
        x: Tensor<4>,
    ) -> (GradientsParams, UpdateFigures) {
        let drawn = dropout.uniform::<2>([x.dims()[0], HIDDEN], self.engine.device());
        let keep = drawn.greater_equal_elem(DROPOUT).float().div_scalar(1.0 - DROPOUT);
        let GaussianMixture { energy: energy_weight, inverse_variance: inverse_weight, .. } = self.settings;
        let (mut gradients, figures) = self.engine.gradients(model, x, (), |model, x, y, z| {
            let [energy, sample_energy, inverse] = model.terms(x, y, z, keep.clone().autodiff());
            let loss = energy.clone()
                + sample_energy.clone().mul_scalar(energy_weight)
                + inverse.clone().mul_scalar(inverse_weight);
            let report = vec![("energy", energy), ("sample_energy", sample_energy), ("inverse_variances", inverse)];
            BatchLoss { loss, report }
        });
        add_l2(&model.autoencoder.encoder, self.encoder_l2, &mut gradients);
        (gradients, figures)
    }

    /// Returns `model` with the mixture of the batch `x` pooled with those of the updates before. There is no dropout,
    /// as in scoring.
    fn pooled(&self, model: GaussianMixtureAutoencoder, x: Tensor<4>) -> GaussianMixtureAutoencoder {
        let z = self.engine.encode(&model, x.clone());
        let y = self.engine.decode(&model, z.clone());
        let plain = model.valid();
        let (features, _) = plain.features(x, y, z);
        let (batch, before) = (Mixture::of(features.clone(), plain.shares(features, None)), plain.mixture());
        let first = before.weights.clone().sum().into_scalar::<f32>() == 0.0;
        let Mixture { weights, means, covariances } = before.pooled(batch, if first { 1.0 } else { POOLED });
        GaussianMixtureAutoencoder {
            weights: model.weights.map(|_| Tensor::from_inner(weights)),
            means: model.means.map(|_| Tensor::from_inner(means)),
            covariances: model.covariances.map(|_| Tensor::from_inner(covariances)),
            ..model
        }
    }
}

impl Objective for SampleEnergy {
    type Model = GaussianMixtureAutoencoder;
    type Kept = NoiseSource;

    fn update(
        &self,
        dropout: &mut NoiseSource,
        model: GaussianMixtureAutoencoder,
        x: Tensor<4>,
        step: OptimizerStep<'_>,
    ) -> (GaussianMixtureAutoencoder, UpdateFigures) {
        let model = self.pooled(model, x.clone());
        let (gradients, figures) = self.gradients(dropout, &model, x);
        let model = step.along(gradients, model);
        (GaussianMixtureAutoencoder { autoencoder: model.autoencoder.power_iteration(), ..model }, figures)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;

    use super::*;
    use crate::arch::LatentSpace;
    use crate::methods::finite_differences::{SAMPLES, changed, images, network, slopes_agree, wide};

    const SETTINGS: GaussianMixture = GaussianMixture { components: 2, energy: 0.1, inverse_variance: 0.005 };

    fn method(engine: Engine) -> DagmmMethod {
        let device = Device::flex();
        let mut weights = NoiseSource::new(2, 0);
        let start = network(LatentSpace::Euclidean);
        let model = GaussianMixtureAutoencoder::new(start, SETTINGS, weights.rng(), &device.clone().autodiff());
        let settings = Pretraining { encoder_l2: 0.02, ..Pretraining::new(1, SAMPLES, 1e-2) };
        DagmmMethod::new(model, settings, SETTINGS, NoiseSource::new(4, 0), engine, &device)
    }

    /// Features, shares, the mixture and its energies are computed in float64 from the autoencoder's outputs.
    #[test]
    fn it_steps_by_the_gradient_of_its_loss() {
        for engine in [Engine::Cpu, Engine::Burn] {
            steps_by_the_gradient(engine);
        }
    }

    fn steps_by_the_gradient(engine: Engine) {
        let x = images(1);
        let mut method = method(engine);
        let keep = NoiseSource::new(4, 0).uniform::<2>([SAMPLES, HIDDEN], &Device::flex());
        let keep: Vec<f64> = wide(keep).iter().map(|&u| if u >= 0.5 { 2.0 } else { 0.0 }).collect();
        let (gradients, figures) = method.objective.gradients(&mut method.kept, &method.model, x.clone());
        let targets = wide(x.clone());
        let parts = |model: &GaussianMixtureAutoencoder| {
            let z = model.autoencoder.encode(x.clone().cast(FloatDType::F64));
            let (latents, reconstructions) = (wide(z.clone()), wide(model.autoencoder.decode(z)));
            let dim = latents.len() / SAMPLES;
            let norm = |v: &[f64]| (v.iter().map(|v| v * v).sum::<f64>() + 1e-12).sqrt();
            let mut energy = 0.0;
            let features: Vec<Vec<f64>> = (0..SAMPLES)
                .map(|i| {
                    let (a, b) = (&targets[36 * i..36 * i + 36], &reconstructions[36 * i..36 * i + 36]);
                    let apart: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
                    energy += apart.iter().map(|d| d * d).sum::<f64>() / targets.len() as f64;
                    let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                    let mut features = latents[dim * i..dim * (i + 1)].to_vec();
                    features.extend([norm(&apart) / norm(a), dot / (norm(a) * norm(b))]);
                    features
                })
                .collect();
            let dense = |layer: &Sequential, input: &[f64]| {
                let crate::arch::layer::Layer::Dense(linear) = &layer.layers()[0] else { panic!("one dense layer") };
                let (weights, bias) = (wide(linear.weight.val()), wide(linear.bias.as_ref().expect("there").val()));
                let outputs = bias.len();
                (0..outputs)
                    .map(|o| bias[o] + input.iter().enumerate().map(|(i, v)| v * weights[i * outputs + o]).sum::<f64>())
                    .collect::<Vec<_>>()
            };
            let shares: Vec<f64> = features
                .iter()
                .enumerate()
                .map(|(i, features)| {
                    let hidden: Vec<f64> = dense(&model.hidden, features)
                        .iter()
                        .zip(&keep[HIDDEN * i..])
                        .map(|(h, keep)| h.tanh() * keep)
                        .collect();
                    let logits = dense(&model.output, &hidden);
                    1.0 / (1.0 + (logits[1] - logits[0]).exp())
                })
                .collect();
            let (mut densities, mut inverse) = (vec![0.0; SAMPLES], 0.0);
            for k in 0..2 {
                let share = |i: usize| if k == 0 { shares[i] } else { 1.0 - shares[i] };
                let sum: f64 = (0..SAMPLES).map(share).sum();
                let f = features[0].len();
                let mean: Vec<f64> =
                    (0..f).map(|a| (0..SAMPLES).map(|i| share(i) * features[i][a]).sum::<f64>() / sum).collect();
                let covariance: Vec<Vec<f64>> = (0..f)
                    .map(|a| {
                        (0..f)
                            .map(|b| {
                                let product =
                                    |i: usize| share(i) * (features[i][a] - mean[a]) * (features[i][b] - mean[b]);
                                (0..SAMPLES).map(product).sum::<f64>() / sum
                            })
                            .collect()
                    })
                    .collect();
                inverse += (0..f).map(|a| 1.0 / covariance[a][a]).sum::<f64>();
                let trace: f64 = (0..f).map(|a| covariance[a][a]).sum();
                for (i, density) in densities.iter_mut().enumerate() {
                    // Gaussian elimination with one right-hand side; the product of the pivots is the determinant.
                    let mut rows: Vec<Vec<f64>> = (0..f)
                        .map(|a| {
                            let mut row = covariance[a].clone();
                            row[a] += 1e-6 + 4e-6 * trace;
                            row.push(features[i][a] - mean[a]);
                            row
                        })
                        .collect();
                    let mut determinant = 1.0;
                    for pivot in 0..f {
                        determinant *= rows[pivot][pivot];
                        let (done, rest) = rows.split_at_mut(pivot + 1);
                        for row in rest {
                            let factor = row[pivot] / done[pivot][pivot];
                            row.iter_mut().zip(&done[pivot]).for_each(|(v, p)| *v -= factor * p);
                        }
                    }
                    let mut solution = vec![0.0; f];
                    for a in (0..f).rev() {
                        let known: f64 = (a + 1..f).map(|b| rows[a][b] * solution[b]).sum();
                        solution[a] = (rows[a][f] - known) / rows[a][a];
                    }
                    let squared: f64 = (0..f).map(|a| (features[i][a] - mean[a]) * solution[a]).sum();
                    let volume = ((2.0 * std::f64::consts::PI).powi(f as i32) * determinant).sqrt();
                    *density += sum / SAMPLES as f64 * (-0.5 * squared).exp() / volume;
                }
            }
            let sample_energy = -densities.iter().map(|d| d.ln()).sum::<f64>() / SAMPLES as f64;
            [energy, sample_energy, inverse]
        };
        let unmoved = crate::methods::finite_differences::moved(&method.model, usize::MAX, &[], 0.0);
        for (name, expected) in ["energy", "sample_energy", "inverse_variances"].into_iter().zip(parts(&unmoved)) {
            let found = figures.get(name).expect("reported");
            assert!((found / expected - 1.0).abs() < 1e-3, "{name}: {found} against {expected}");
        }
        // [reconstruction error, sample energy, inverse variances, penalty]
        let right = [1.0, 0.1, 0.005, 0.02];
        slopes_agree(
            &format!("DAGMM by {engine:?}"),
            &method.model,
            &gradients,
            &right,
            &changed(right),
            |model, terms: &[f64; 4]| {
                let weights = crate::methods::finite_differences::numbers(&model.autoencoder.encoder);
                let penalty: f64 = weights.iter().map(|w| w * w).sum();
                let [energy, sample_energy, inverse] = parts(model);
                terms[0] * energy + terms[1] * sample_energy + terms[2] * inverse + terms[3] * penalty
            },
        );
    }

    /// The score uses the mixture pooled over updates, which after one update is the batch's own, without dropout.
    #[test]
    fn it_decides_by_the_pooled_mixture() {
        let (x, other) = (images(1), images(1).mul_scalar(0.5));
        let mut method = method(Engine::Cpu);
        let model = method.model.valid();
        let features = |x: &Tensor<4>| {
            let z = model.autoencoder.encode(x.clone());
            model.features(x.clone(), model.autoencoder.decode(z.clone()), z).0
        };
        let mixture = |x: &Tensor<4>| Mixture::of(features(x), model.shares(features(x), None));
        let agrees = |method: &DagmmMethod, mixture: &Mixture| {
            let found = wide(method.model.decide(Decision::Reconstruction, x.clone()));
            let expected = wide(mixture.energies(features(&x)));
            found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-3 * b.abs().max(1.0))
        };
        method.model = method.objective.pooled(method.model.clone(), x.clone());
        assert!(agrees(&method, &mixture(&x)));
        method.model = method.objective.pooled(method.model.clone(), other.clone());
        let pooled = mixture(&x).pooled(mixture(&other), 0.01);
        assert!(agrees(&method, &pooled) && !agrees(&method, &mixture(&x)));
    }
}
