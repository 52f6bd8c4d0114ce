//! A running mean of the weights during training, which varies less than the weights after each update (Polyak and
//! Juditsky, SIAM J. Control Optim. 1992; for energy-based models, Du and Mordatch, NeurIPS 2019). Training and its
//! chains still use the current weights.
//!
//! Only trained weights are averaged. What is stored beside them is taken from the latest state: the temperature, and the
//! singular vectors of spectral normalization, a mean of which would be shorter than 1 and its σ too small.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Tensor, TensorData};

/// The exponentially weighted mean of a model's states.
pub(crate) struct Average<M> {
    decay: f64,
    model: M,
}

impl<M: Module> Average<M> {
    /// Starts at `model`; each update adds the latest state with weight 1 − `decay`.
    pub(crate) fn new(decay: f64, model: &M) -> Self {
        // Autodiff is removed, since otherwise the graph of the sums would grow with every update.
        Self { decay, model: model.valid() }
    }

    /// Adds the state `latest` of the same model to the mean.
    pub(crate) fn update(&mut self, latest: &M) {
        let mut weights = Weights::default();
        latest.visit(&mut weights);
        self.model = self.model.clone().map(&mut Blend { latest: weights.0, decay: self.decay });
    }

    /// Continues from the mean `model`, which has no autodiff.
    pub(crate) fn restore(&mut self, model: M) {
        self.model = model;
    }

    /// The mean, without autodiff.
    pub(crate) fn model(&self) -> &M {
        &self.model
    }
}

/// The values of all parameters, and whether they are trained.
#[derive(Default)]
struct Weights(HashMap<ParamId, (TensorData, bool)>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.insert(param.id, (param.val().into_data(), param.is_require_grad()));
    }
}

struct Blend {
    latest: HashMap<ParamId, (TensorData, bool)>,
    decay: f64,
}

impl ModuleMapper for Blend {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (latest, trained) = self.latest.remove(&param.id).expect("an update keeps the names of all parameters");
        let decay = if trained { self.decay } else { 0.0 };
        param.map(|value| {
            let latest = Tensor::from_data(latest, &value.device());
            value.mul_scalar(decay) + latest.mul_scalar(1.0 - decay)
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::arch::conv32_big::conv32_big;
    use crate::arch::{Autoencoder, LatentSpace};
    use crate::config::{Training, preset};
    use crate::engine::Engine;
    use crate::methods::Method as _;
    use crate::methods::nae::{NaeMethod, NormalizedAutoencoder};
    use crate::sample::{NegativeSampler, NoiseSource, Start};

    #[derive(Module, Debug)]
    struct Numbers {
        a: Param<Tensor<1>>,
        b: Param<Tensor<2>>,
    }

    fn moved(start: &Numbers, by: f32) -> Numbers {
        let Numbers { a, b } = start.clone();
        let trained = [a.is_require_grad(), b.is_require_grad()];
        let (a, b) = (a.map(|a| a.add_scalar(by).detach()), b.map(|b| b.add_scalar(-by).detach()));
        Numbers { a: a.set_require_grad(trained[0]), b: b.set_require_grad(trained[1]) }
    }

    #[test]
    fn the_mean_is_weighted_exponentially() {
        let device = Device::flex().autodiff();
        let start = Numbers {
            a: Param::from_data(TensorData::new(vec![1.0f32, 2.0], [2]), &device),
            b: Param::from_data(TensorData::new(vec![5.0f32], [1, 1]), &device),
        };
        let mut average = Average::new(0.75, &start);
        average.update(&moved(&start, 4.0));
        average.update(&moved(&start, 8.0));
        // The mean is 0.25 · 4 · 0.75 + 0.25 · 8 = 2.75 above the start.
        let found: Vec<f32> = average.model().a.val().into_data().try_into_vec().expect("float32");
        assert_eq!(found, [3.75, 4.75]);
        let found: Vec<f32> = average.model().b.val().into_data().try_into_vec().expect("float32");
        assert_eq!(found, [2.25]);
    }

    #[test]
    fn what_is_not_trained_is_that_of_the_latest_state() {
        let device = Device::flex().autodiff();
        let start = Numbers {
            a: Param::from_data(TensorData::new(vec![1.0f32], [1]), &device),
            b: Param::from_data(TensorData::new(vec![5.0f32], [1, 1]), &device).set_require_grad(false),
        };
        let mut average = Average::new(0.75, &start);
        average.update(&moved(&start, 4.0));
        let found = [average.model().a.val().into_scalar::<f32>(), average.model().b.val().into_scalar::<f32>()];
        assert_eq!(found, [2.0, 1.0]);
    }

    /// A network with spectral normalization and a temperature that is learned: the singular vectors keep their length, and
    /// T does not stay behind.
    #[test]
    fn the_mean_of_a_model_has_mean_weights_and_the_latest_of_all_else() {
        let values = |model: &NormalizedAutoencoder| {
            let mut weights = Weights::default();
            model.visit(&mut weights);
            weights
                .0
                .into_iter()
                .map(|(id, (data, trained))| (id, (data.iter::<f32>().collect(), trained)))
                .collect::<HashMap<ParamId, (Vec<f32>, bool)>>()
        };
        let config = preset::load("digits").expect("comes with the program");
        let training = Training { temperature_learning_rate: Some(0.5), ..config.training() };
        let mut chains = config.sampler();
        (chains.latent_chain, chains.start, chains.visible_chain.steps) = (None, Start::Data, 1);
        let device = Device::flex();
        let spec = conv32_big(4, 2, 8, LatentSpace::Sphere).expect("valid");
        let start = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        let start = NormalizedAutoencoder::new(start, 1.0);
        let sampler = NegativeSampler::new(chains, 8, NoiseSource::new(1, 0));
        let mut nae = NaeMethod::new(start.clone(), &training, sampler, Engine::Cpu, &device);
        let mut average = Average::new(0.75, &start);
        nae.update(NoiseSource::new(2, 0).uniform([2, 3, 32, 32], &device));
        average.update(nae.normalized());
        let (begun, latest, mean) = (values(&start), values(nae.normalized()), values(average.model()));
        let mut moved = [0, 0];
        for (id, (latest, trained)) in &latest {
            let (begun, mean) = (&begun[id].0, &mean[id].0);
            moved[usize::from(*trained)] += usize::from(begun != latest);
            for ((&begun, &latest), mean) in begun.iter().zip(latest).zip(mean) {
                let expected = if *trained { 0.75 * begun + 0.25 * latest } else { latest };
                assert!((mean - expected).abs() < 1e-6, "{mean} instead of {expected}, trained: {trained}");
            }
        }
        // 15 vectors and T; the weights and biases of both halves.
        assert!(moved[0] == 16 && moved[1] > 30, "{moved:?}");
    }
}
