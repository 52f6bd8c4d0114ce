//! A running mean of the weights during training, which varies less than the weights after each update (Polyak and
//! Juditsky, SIAM J. Control Optim. 1992; for energy-based models, Du and Mordatch, NeurIPS 2019). Training and its
//! chains still use the current weights.

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

#[derive(Default)]
struct Weights(HashMap<ParamId, TensorData>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.insert(param.id, param.val().into_data());
    }
}

struct Blend {
    latest: HashMap<ParamId, TensorData>,
    decay: f64,
}

impl ModuleMapper for Blend {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(latest) = self.latest.remove(&param.id) else { return param };
        let decay = self.decay;
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

    #[derive(Module, Debug)]
    struct Numbers {
        a: Param<Tensor<1>>,
        b: Param<Tensor<2>>,
    }

    fn moved(start: &Numbers, by: f32) -> Numbers {
        let Numbers { a, b } = start.clone();
        Numbers { a: a.map(|a| a.add_scalar(by)), b: b.map(|b| b.add_scalar(-by)) }
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
}
