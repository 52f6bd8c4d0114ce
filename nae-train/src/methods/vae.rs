//! The variational autoencoder (Kingma and Welling, ICLR 2014): a Gaussian posterior for each sample's latent, a
//! standard normal prior, and a Gaussian around the decoder's output.
//!
//! The posterior's mean comes from an [`Autoencoder`] with the same architecture as for every other method, which is
//! the exported network; the posterior's deviation comes from a second copy of the encoder's last layer.

use std::path::Path;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use rand::Rng;

use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::gradients::{BatchLoss, add_l2};
use super::halves::{Halves, HalvesEngine};
use super::log_sum_exp::log_sum_exp;
use super::optimizer::{ScalarAdam, constant};
use super::{Decision, Model, UpdateFigures};
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::layer::Sequential;
use crate::arch::{Autoencoder, AutoencoderSpec};
use crate::config::Pretraining;
use crate::config::methods::Variational;
use crate::energy::{energy, squared_l2};
use crate::engine::Engine;
use crate::sample::NoiseSource;
use crate::seed::Stream;

/// A variational autoencoder's weights.
#[derive(Module, Debug)]
pub struct VariationalAutoencoder {
    /// The encoder of the posterior's mean, and the decoder.
    pub autoencoder: Autoencoder,
    /// The layer for the logarithm of the posterior's standard deviation, with the same input as the encoder's last
    /// layer.
    pub log_deviation: Sequential,
    /// log σ of the Gaussian around the decoder's output, `[1]`.
    pub log_sigma: Param<Tensor<1>>,
    #[module(skip)]
    trunk: usize,
    #[module(skip)]
    samples: usize,
}

impl VariationalAutoencoder {
    /// Draws new weights from `rng`; `spec` must have a Euclidean latent space.
    pub fn new(spec: &AutoencoderSpec, settings: Variational, rng: &mut impl Rng, device: &Device) -> Self {
        let autoencoder = Autoencoder::new(spec, rng, device);
        let (trunk, input) = spec.encoder_head();
        let log_deviation = Sequential::new(&spec.encoder()[trunk..], input, rng, device);
        let log_sigma = constant(settings.sigma.ln(), device);
        Self { autoencoder, log_deviation, log_sigma, trunk, samples: settings.samples }
    }

    /// A model to load weights into, on the autodiff form of `device`.
    pub(super) fn blank(spec: &AutoencoderSpec, settings: Variational, device: &Device) -> Self {
        // All drawn weights are replaced, so the seed does not matter.
        Self::new(spec, settings, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
    }

    /// Both terms of the negative evidence lower bound at one latent for each sample, whose image is `y`: −log p(x|z)
    /// and KL(q(z|x) ‖ p(z)), `[N]` each; and the mean squared error.
    fn terms(&self, x: Tensor<4>, y: Tensor<4>, posterior: Posterior) -> [Tensor<1>; 3] {
        let [n, c, h, w] = x.dims();
        let Posterior { mean, log_deviation } = posterior;
        let squares = squared_l2(x, y);
        let (pixels, log_sigma) = ((c * h * w) as f32, self.log_sigma());
        let constant = pixels * (0.5 * (2.0 * std::f32::consts::PI).ln() + log_sigma);
        let nll = squares.clone().mul_scalar(0.5 * pixels * (-2.0 * log_sigma).exp()).add_scalar(constant);
        let variance = log_deviation.clone().mul_scalar(2.0).exp();
        let divergence = (mean.clone() * mean + variance - log_deviation.mul_scalar(2.0)).sub_scalar(1.0);
        let divergence = divergence.sum_dim(1).reshape([n]).mul_scalar(0.5);
        [nll, divergence, squares]
    }

    /// An estimate of −log p(x) in nats, `[N]`, for images `x` `[N, C, H, W]`, by importance sampling: −log of the mean of p(x|z)·p(z)/q(z|x)
    /// over latents z drawn from q(z|x) (Burda, Grosse and Salakhutdinov, ICLR 2016; `marginal_likelihood` of the NAE's
    /// authors' code), with the same random numbers for all samples and all calls.
    fn negative_log_likelihood(&self, x: Tensor<4>) -> Tensor<1> {
        let (device, n) = (x.device(), x.dims()[0]);
        let dim = self.autoencoder.latent_dim();
        let mut noise = Stream::Likelihood.of(0);
        let draws = self.samples.max(1);
        let encoded = self.autoencoder.encoder.first(self.trunk).forward(x.clone());
        let sum = |values: Tensor<4>| values.sum_dim(1).reshape([n, 1]);
        let logs = (0..draws)
            .map(|_| {
                let epsilon = noise.normal::<4>([1, dim, 1, 1], &device).repeat_dim(0, n);
                let (z, posterior) = self.between(encoded.clone(), epsilon.clone());
                // The constants of both Gaussian densities of z are equal.
                let squares = (epsilon.square() - z.clone().square()).mul_scalar(0.5);
                let ratio = sum(squares + posterior.log_deviation.clone());
                let [nll, _, _] = self.terms(x.clone(), self.autoencoder.decode(z), posterior);
                ratio - nll.reshape([n, 1])
            })
            .collect();
        let mean = log_sum_exp(Tensor::cat(logs, 1), 1).sub_scalar((draws as f32).ln());
        mean.neg().reshape([n])
    }

    /// The mean of p(x|z) for each latent of `z` `[N, D, 1, 1]`: the decoder's output.
    pub fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        self.valid().autoencoder.decode(z)
    }

    /// σ of the Gaussian around the decoder's output.
    pub fn sigma(&self) -> f32 {
        self.log_sigma().exp()
    }

    fn power_iteration(self) -> Self {
        let (autoencoder, log_deviation) = (self.autoencoder.power_iteration(), self.log_deviation.power_iteration());
        Self { autoencoder, log_deviation, ..self }
    }

    fn log_sigma(&self) -> f32 {
        self.log_sigma.val().into_scalar::<f32>()
    }
}

/// q(z|x): its mean and the logarithm of its standard deviation, `[N, D, 1, 1]` each.
pub(crate) struct Posterior {
    mean: Tensor<4>,
    log_deviation: Tensor<4>,
}

impl Halves for VariationalAutoencoder {
    /// Standard normal values, `[N, D, 1, 1]`.
    type Drawn = Tensor<4>;
    type Between = Posterior;

    fn autoencoder(&self) -> &Autoencoder {
        &self.autoencoder
    }

    fn trunk(&self) -> Option<usize> {
        Some(self.trunk)
    }

    fn between(&self, encoded: Tensor<4>, epsilon: Tensor<4>) -> (Tensor<4>, Posterior) {
        let head = &self.autoencoder.encoder.layers()[self.trunk..];
        let mean = head.iter().fold(encoded.clone(), |x, layer| layer.forward(x));
        let log_deviation = self.log_deviation.forward(encoded);
        let z = mean.clone() + log_deviation.clone().exp() * epsilon;
        (z, Posterior { mean, log_deviation })
    }
}

impl Model for VariationalAutoencoder {
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::Reconstruction, Decision::NegativeLogLikelihood]
    }

    fn decide(&self, decision: Decision, x: Tensor<4>) -> Tensor<1> {
        let model = self.valid();
        match decision {
            Decision::NegativeLogLikelihood => model.negative_log_likelihood(x),
            _ => energy(&model.autoencoder, x),
        }
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        Some(&self.autoencoder)
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// Trains a variational autoencoder on the bound at one latent for each sample.
pub type VaeMethod = GradientMethod<EvidenceBound>;

/// The negative evidence lower bound at one latent for each sample.
pub struct EvidenceBound {
    engine: HalvesEngine,
    encoder_l2: f32,
}

/// Adam for σ, if it is learned, and the source of latents.
type Kept = (Option<ScalarAdam>, NoiseSource);

impl VaeMethod {
    /// Starts from the state `model`; latents are drawn from `noise`.
    pub fn new(
        model: VariationalAutoencoder,
        pretraining: Pretraining,
        settings: Variational,
        noise: NoiseSource,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let sigma = settings.learned_sigma.then(|| ScalarAdam::new(pretraining.learning_rate));
        let objective = EvidenceBound { engine: HalvesEngine::new(engine, device), encoder_l2: pretraining.encoder_l2 };
        Self::begin(objective, model, (sigma, noise), pretraining)
    }

    /// Learns log σ at this rate, separately from the weights, as for the temperature of an NAE.
    #[must_use]
    pub fn with_sigma_rate(mut self, rate: f64) -> Self {
        self.kept.0 = Some(ScalarAdam::new(rate));
        self
    }
}

impl EvidenceBound {
    /// Returns the gradient of the mean bound with respect to all weights, with the next draw of latents, and the
    /// bound's parts.
    fn gradients(
        &self,
        noise: &mut NoiseSource,
        model: &VariationalAutoencoder,
        x: Tensor<4>,
    ) -> (GradientsParams, UpdateFigures) {
        let epsilon = noise.normal::<4>([x.dims()[0], model.autoencoder.latent_dim(), 1, 1], self.engine.device());
        let (mut gradients, figures) = self.engine.gradients(model, x, epsilon, |model, x, y, posterior| {
            let [nll, divergence, squares] = model.terms(x, y, posterior).map(Tensor::mean);
            let loss = nll.clone() + divergence.clone();
            BatchLoss { loss, report: vec![("energy", squares), ("nll", nll), ("divergence", divergence)] }
        });
        add_l2(&model.autoencoder.encoder, self.encoder_l2, &mut gradients);
        add_l2(&model.log_deviation, self.encoder_l2, &mut gradients);
        (gradients, figures)
    }
}

impl Objective for EvidenceBound {
    type Model = VariationalAutoencoder;
    type Kept = Kept;

    fn update(
        &self,
        (sigma, noise): &mut Kept,
        model: VariationalAutoencoder,
        x: Tensor<4>,
        step: OptimizerStep<'_>,
    ) -> (VariationalAutoencoder, UpdateFigures) {
        let values = x.dims()[1..].iter().product::<usize>() as f64;
        let (gradients, figures) = self.gradients(noise, &model, x);
        let factor = step.factor();
        let mut model = step.along(gradients, model).power_iteration();
        if let (Some(adam), Some(squares)) = (sigma, figures.get("energy")) {
            let log_sigma = f64::from(model.log_sigma());
            // ∂/∂log σ of D·log σ + D·squares/(2σ²).
            let gradient = values * (1.0 - squares * (-2.0 * log_sigma).exp());
            adam.update(&mut model.log_sigma, gradient, factor);
        }
        (model, figures)
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{ModuleMapper, Param};
    use burn::tensor::{DType, FloatDType, TensorData};

    use super::*;
    use crate::arch::{LatentSpace, small_conv::small_conv16};
    use crate::methods::Method as _;
    use crate::methods::finite_differences::{
        SAMPLES, changed, images, network, numbers, scaled, slopes_agree, smooth, wide,
    };

    fn model(latent_dim: usize, settings: Variational) -> VariationalAutoencoder {
        let spec = small_conv16(1, 2, latent_dim, LatentSpace::Euclidean).expect("valid");
        VariationalAutoencoder::new(&spec, settings, NoiseSource::new(0, 0).rng(), &Device::flex().autodiff())
    }

    /// Moves every bias by a number.
    struct Shift(f64);

    impl ModuleMapper for Shift {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|values| if D == 1 { values.add_scalar(self.0) } else { values })
        }
    }

    /// −log p(x), by integration over the only latent.
    #[test]
    fn the_likelihood_is_that_of_the_integral_over_latents() {
        let device = Device::flex();
        let settings = Variational { sigma: 0.3, samples: 400, ..Variational::default() };
        let mut model = model(1, settings);
        // Importance sampling needs a posterior that is wider than the prior and the true posterior.
        model.autoencoder = scaled(&model.autoencoder, 1.5);
        model.log_deviation = model.log_deviation.map(&mut Shift(0.7));
        let plain = model.valid();
        let x = NoiseSource::new(1, 0).uniform::<4>([6, 1, 16, 16], &device);
        let found =
            model.decide(Decision::NegativeLogLikelihood, x.clone()).into_data().iter::<f32>().collect::<Vec<_>>();

        let encoded = plain.autoencoder.encoder.first(plain.trunk).forward(x.clone());
        let (_, Posterior { mean, log_deviation }) = plain.between(encoded, Tensor::zeros([6, 1, 1, 1], &device));
        let (means, log_deviations) = (wide(mean), wide(log_deviation));
        let points = 4001;
        let step = 24.0 / (points - 1) as f32;
        let z: Vec<f32> = (0..points).map(|k| -12.0 + k as f32 * step).collect();
        let decoded =
            plain.autoencoder.decode(Tensor::from_data(TensorData::new(z.clone(), [points, 1, 1, 1]), &device));
        for (k, found) in found.iter().enumerate() {
            let image = x.clone().narrow(0, k, 1).repeat_dim(0, points);
            let squares: Vec<f32> = squared_l2(image, decoded.clone()).into_data().iter::<f32>().collect();
            let logs: Vec<f64> = squares
                .iter()
                .zip(&z)
                .map(|(&s, &z)| {
                    let (s, z, sigma) = (f64::from(s), f64::from(z), 0.3f64);
                    let log_2pi = (2.0 * std::f64::consts::PI).ln();
                    -0.5 * (z * z + log_2pi) - 256.0 * (0.5 * log_2pi + sigma.ln() + 0.5 * s / (sigma * sigma))
                })
                .collect();
            let top = logs.iter().copied().fold(f64::MIN, f64::max);
            let nll = -(top + (logs.iter().map(|l| (l - top).exp()).sum::<f64>() * f64::from(step)).ln());
            // log q(z|x) − log p(x, z): its mean under q is the evidence's bound, the spread of its exponential the
            // error.
            let (mean, log_deviation) = (means[k], log_deviations[k]);
            let log_q = |z: f64| {
                let standard = (z - mean) / log_deviation.exp();
                -0.5 * (standard * standard + (2.0 * std::f64::consts::PI).ln()) - log_deviation
            };
            let terms: Vec<(f64, f64)> = z
                .iter()
                .zip(&logs)
                .map(|(&z, log)| (log_q(f64::from(z)), log))
                .map(|(q, log)| (q.exp() * f64::from(step), q - log))
                .collect();
            let moment = |f: &dyn Fn(f64) -> f64| terms.iter().map(|(weight, term)| weight * f(*term)).sum::<f64>();
            assert!((moment(&|_| 1.0) - 1.0).abs() < 1e-6, "q is on the grid");
            let ratio = |term: f64| (nll - term).exp();
            assert!((moment(&ratio) - 1.0).abs() < 1e-6, "p(x, z)/q(z|x) integrates to p(x)");
            let error = ((moment(&|term| ratio(term).powi(2)) - 1.0) / 400.0).sqrt();
            assert!((f64::from(*found) - nll).abs() < 4.0 * error, "{found}: {nll} ± {error}");
            let bound = moment(&|term| term);
            assert!(bound > nll + 8.0 * error, "a bound that could be told from it: {bound}, {nll} ± {error}");
        }
    }

    #[test]
    fn a_decision_does_not_depend_on_the_other_samples() {
        let model = model(3, Variational::default());
        let x = NoiseSource::new(1, 0).uniform::<4>([5, 1, 16, 16], &Device::flex());
        let all =
            model.decide(Decision::NegativeLogLikelihood, x.clone()).into_data().iter::<f32>().collect::<Vec<_>>();
        let last = model.decide(Decision::NegativeLogLikelihood, x.narrow(0, 4, 1)).into_scalar::<f32>();
        assert!((all[4] - last).abs() < 1e-3, "{all:?} {last}");
    }

    /// Latents, both terms of the bound and the penalties are computed in float64, on both engines.
    #[test]
    fn it_steps_by_the_gradient_of_the_bound() {
        let (x, device) = (images(1), Device::flex());
        let settings = Variational { sigma: 0.7, ..Variational::default() };
        let spec = smooth(LatentSpace::Euclidean);
        let start =
            VariationalAutoencoder::new(&spec, settings, NoiseSource::new(3, 0).rng(), &device.clone().autodiff());
        let start = VariationalAutoencoder { autoencoder: network(LatentSpace::Euclidean), ..start };
        let pretraining = Pretraining { encoder_l2: 5.0, ..Pretraining::new(1, SAMPLES, 1e-2) };
        let targets = wide(x.clone());
        let epsilon = wide(NoiseSource::new(4, 0).normal::<4>([SAMPLES, 4, 1, 1], &device));
        for engine in [Engine::Cpu, Engine::Burn] {
            let noise = NoiseSource::new(4, 0);
            let mut method = VaeMethod::new(start.clone(), pretraining, settings, noise, engine, &device);
            let (gradients, _) = method.objective.gradients(&mut method.kept.1, &method.model, x.clone());
            // [−log p(x|z), KL, the encoder's penalty, the penalty of the deviation's layer]
            let right = [1.0, 1.0, 5.0, 5.0];
            let what = format!("VAE by {engine:?}");
            slopes_agree(&what, &method.model, &gradients, &right, &changed(right), |model, terms: &[f64; 4]| {
                let encoder = model.autoencoder.encoder.layers();
                let hidden = encoder[..2].iter().fold(x.clone().cast(FloatDType::F64), |x, layer| layer.forward(x));
                let (mean, log_deviation) =
                    (wide(encoder[2].forward(hidden.clone())), wide(model.log_deviation.forward(hidden)));
                let z = mean.iter().zip(&log_deviation).zip(&epsilon).map(|((m, l), e)| m + l.exp() * e).collect();
                let z = Tensor::<4>::from_data(TensorData::new(z, [SAMPLES, 4, 1, 1]), (&device, DType::F64));
                let decoded = wide(model.autoencoder.decode(z));
                let squares: f64 = targets.iter().zip(&decoded).map(|(a, b)| (a - b) * (a - b)).sum();
                let divergence: f64 =
                    mean.iter().zip(&log_deviation).map(|(m, l)| 0.5 * (m * m + (2.0 * l).exp() - 1.0) - l).sum();
                let penalty = |weights: Vec<f64>| weights.iter().map(|w| w * w).sum::<f64>();
                terms[0] * squares / (2.0 * 0.49 * SAMPLES as f64)
                    + terms[1] * divergence / SAMPLES as f64
                    + terms[2] * penalty(numbers(&model.autoencoder.encoder))
                    + terms[3] * penalty(numbers(&model.log_deviation))
            });
        }
    }

    #[test]
    fn updates_lower_the_bound_and_learn_sigma() {
        let device = Device::flex();
        let settings = Variational { learned_sigma: true, ..Variational::default() };
        let pretraining = Pretraining::new(1, 40, 1e-2);
        let noise = NoiseSource::new(2, 0);
        let mut method = VaeMethod::new(model(3, settings), pretraining, settings, noise, Engine::Cpu, &device);
        let x = NoiseSource::new(1, 0).uniform::<4>([40, 1, 16, 16], &device);
        let bound = |method: &VaeMethod| {
            method.model.decide(Decision::NegativeLogLikelihood, x.clone()).mean().into_scalar::<f32>()
        };
        let before = bound(&method);
        for _ in 0..30 {
            method.update(x.clone());
        }
        assert!(bound(&method) < before - 20.0, "{} {before}", bound(&method));
        assert!(method.model.log_sigma() < -0.2, "{}", method.model.log_sigma());
    }
}
