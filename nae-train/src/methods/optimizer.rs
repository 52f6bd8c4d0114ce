//! Adam (Kingma and Ba, ICLR 2015), with PyTorch's constants as in the authors' code: for all weights at one rate, for
//! encoder and decoder at separate rates, and for a single number.

use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::store::RecordError;
use burn::tensor::{Bytes, DType, Device, Shape, Tensor, TensorData};
use burn_pack::Reader;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::adam::Adam;
use super::gradients::{clip_norm, take};
use super::state::StateError;
use crate::arch::Autoencoder;

const BETA_1: f64 = 0.9;
pub(super) const BETA_2: f64 = 0.999;
/// The value of PyTorch; burn's default is 1e-5.
pub(super) const EPSILON: f64 = 1e-8;

/// Adam for the weights of one model.
pub(crate) struct Optimizer {
    adam: ModuleOptimizer,
    beta_1: f64,
    max_norm: Option<f64>,
}

/// The learning rates of an autoencoder's two halves; with `None` a half is not changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// The rate of the encoder.
    pub encoder: Option<f64>,
    /// The rate of the decoder.
    pub decoder: Option<f64>,
}

impl Rates {
    /// Returns both rates multiplied by `factor`.
    pub(crate) fn times(self, factor: f64) -> Self {
        let times = |rate: Option<f64>| rate.map(|rate| rate * factor);
        Self { encoder: times(self.encoder), decoder: times(self.decoder) }
    }
}

impl Optimizer {
    /// Makes an Adam optimizer that first scales the gradient to an L2 norm of at most `max_norm`, if given.
    pub(crate) fn new(max_norm: Option<f64>) -> Self {
        Self { adam: fresh(BETA_1), beta_1: BETA_1, max_norm }
    }

    /// Returns a new optimizer with this β₁ in place of 0.9.
    #[must_use]
    pub(crate) fn with_beta_1(self, beta_1: f64) -> Self {
        Self { adam: fresh(beta_1), beta_1, ..self }
    }

    /// The moments.
    ///
    /// # Errors
    /// [`StateError`] if burn cannot write them.
    pub(crate) fn state(&self) -> Result<ByteBuf, StateError> {
        Ok(ByteBuf::from(self.adam.into_bytes()?.to_vec()))
    }

    /// Continues from the moments in `state`, for the weights of `model`.
    ///
    /// # Errors
    /// [`StateError`] if they are not from [`state`](Self::state), or belong to other weights: burn would panic for
    /// these, here or at the next step.
    pub(crate) fn restore(&mut self, state: ByteBuf, model: &impl Module) -> Result<(), StateError> {
        let bytes = Bytes::from_bytes_vec(state.into_vec());
        let mut shapes = Shapes::default();
        model.visit(&mut shapes);
        let reader = Reader::from_bytes(bytes.clone()).map_err(RecordError::from)?;
        // The scalars are counts of steps, and the number of dimensions of each weight.
        for (name, &scalar) in reader.scalars() {
            let rank = name.strip_suffix(".__rank").map(|id| {
                let shape = id.parse().ok().and_then(|id: u64| shapes.0.get(&ParamId::from(id)));
                shape.is_some_and(|shape| usize::try_from(scalar) == Ok(shape.rank()))
            });
            if !rank.unwrap_or_else(|| u32::try_from(scalar).is_ok()) {
                return Err(StateError::OtherRun("moments"));
            }
        }
        for tensor in reader.into_tensors().map_err(RecordError::from)? {
            let (_, kind, shape, parameter, _) = tensor.into_parts().map_err(RecordError::from)?;
            let expected = parameter.and_then(|id| shapes.0.get(&ParamId::from(id)));
            if kind != DType::F32 || expected != Some(&shape) {
                return Err(StateError::OtherRun("moments"));
            }
        }
        self.adam = fresh(self.beta_1).from_bytes(bytes)?;
        Ok(())
    }

    /// Makes one step of all weights of `model`.
    pub(crate) fn step<M: Module>(&mut self, rate: f64, model: M, mut gradients: GradientsParams) -> M {
        self.clip(&model, &mut gradients);
        self.adam.step(rate, model, gradients)
    }

    /// Makes one step of the weights of `model`, each half at its own rate.
    pub(crate) fn step_halves(
        &mut self,
        rates: Rates,
        model: Autoencoder,
        mut gradients: GradientsParams,
    ) -> Autoencoder {
        if rates.encoder == rates.decoder
            && let Some(rate) = rates.encoder
        {
            return self.step(rate, model, gradients);
        }
        self.clip(&model, &mut gradients);
        let encoder = take(&model.encoder, &mut gradients);
        let decoder = take(&model.decoder, &mut gradients);
        let step = |model, (rate, gradients): (Option<f64>, GradientsParams)| match rate {
            Some(rate) => self.adam.step(rate, model, gradients),
            None => model,
        };
        [(rates.encoder, encoder), (rates.decoder, decoder)].into_iter().fold(model, step)
    }

    fn clip(&self, model: &impl Module, gradients: &mut GradientsParams) {
        if let Some(max_norm) = self.max_norm {
            clip_norm(model, gradients, max_norm);
        }
    }
}

/// The shape of each weight.
#[derive(Default)]
struct Shapes(HashMap<ParamId, Shape>);

impl ModuleVisitor for Shapes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.insert(param.id, param.shape());
    }
}

fn fresh(beta_1: f64) -> ModuleOptimizer {
    ModuleOptimizer::from(Adam::new(beta_1))
}

/// Adam for one number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScalarAdam {
    rate: f64,
    mean: f64,
    variance: f64,
    steps: i32,
}

impl ScalarAdam {
    /// Makes an Adam optimizer with learning rate `rate`.
    pub(crate) fn new(rate: f64) -> Self {
        Self { rate, mean: 0.0, variance: 0.0, steps: 0 }
    }

    /// Changes the number `param` by one step with `gradient`, with `factor` times the learning rate. The gradient is with
    /// respect to that number.
    pub(super) fn update(&mut self, param: &mut Param<Tensor<1>>, gradient: f64, factor: f64) {
        let value = f64::from(param.val().into_scalar::<f32>());
        let value = self.step(value, gradient, factor) as f32;
        // The parameter keeps its name, by which a running mean of the model finds it.
        *param = param.clone().map(|old| Tensor::from_data(TensorData::new(vec![value], [1]), &old.device()));
    }

    fn step(&mut self, value: f64, gradient: f64, factor: f64) -> f64 {
        // A count from a stored state may have any value.
        self.steps = self.steps.saturating_add(1);
        self.mean = BETA_1 * self.mean + (1.0 - BETA_1) * gradient;
        self.variance = BETA_2 * self.variance + (1.0 - BETA_2) * gradient * gradient;
        let mean = self.mean / (1.0 - BETA_1.powi(self.steps));
        let variance = self.variance / (1.0 - BETA_2.powi(self.steps));
        value - self.rate * factor * mean / (variance.sqrt() + EPSILON)
    }
}

/// A number that is stored with a model's weights and changed by [`ScalarAdam`], not by the weights' optimizer.
pub(super) fn constant(value: f32, device: &Device) -> Param<Tensor<1>> {
    Param::from_data(TensorData::new(vec![value], [1]), device).set_require_grad(false)
}

#[cfg(test)]
mod tests {
    use burn::module::ModuleMapper;
    use nae_core::Shape as ImageShape;

    use super::*;
    use crate::arch::layer::Sequential;
    use crate::arch::spec::fc;
    use crate::methods::finite_differences::numbers;
    use crate::sample::NoiseSource;

    const RATE: f64 = 1e-2;
    const GRADIENTS: [f64; 3] = [3.0, -1.0, 0.5];

    /// One layer, from `inputs` values to one.
    fn model(inputs: usize) -> Sequential {
        let device = Device::flex().autodiff();
        Sequential::new(&[fc(1)], ImageShape::vector(inputs), NoiseSource::new(0, 0).rng(), &device)
    }

    /// Makes a step of all weights with the same gradient.
    fn step(optimizer: &mut Optimizer, model: Sequential, gradient: f64) -> Sequential {
        struct Fill(f64, GradientsParams);
        impl ModuleVisitor for Fill {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.1.register(param.id, param.val().inner().full_like(self.0));
            }
        }
        let mut fill = Fill(gradient, GradientsParams::new());
        model.visit(&mut fill);
        optimizer.step(RATE, model, fill.1)
    }

    /// Algorithm 1 of Adam's paper in float64: the change of a weight after these gradients.
    fn by_hand(beta_1: f64, gradients: &[f64]) -> f64 {
        let (mut mean, mut variance, mut way) = (0.0, 0.0, 0.0);
        for (&gradient, t) in gradients.iter().zip(1..) {
            mean = beta_1 * mean + (1.0 - beta_1) * gradient;
            variance = 0.999 * variance + 0.001 * gradient * gradient;
            let (mean, variance) = (mean / (1.0 - beta_1.powi(t)), variance / (1.0 - 0.999f64.powi(t)));
            way -= RATE * mean / (variance.sqrt() + 1e-8);
        }
        way
    }

    #[test]
    fn steps_are_those_of_adams_paper() {
        for (beta_1, mut optimizer) in [(0.9, Optimizer::new(None)), (0.5, Optimizer::new(None).with_beta_1(0.5))] {
            let start = model(3);
            let end = GRADIENTS.iter().fold(start.clone(), |model, &gradient| step(&mut optimizer, model, gradient));
            for (start, end) in numbers(&start).iter().zip(numbers(&end)) {
                let way = by_hand(beta_1, &GRADIENTS);
                assert!((end - start - way).abs() < 1e-6, "{}, by hand {way}, β₁ {beta_1}", end - start);
            }
            let mut number = ScalarAdam::new(RATE);
            let end = GRADIENTS.iter().fold(2.0, |value, &gradient| number.step(value, gradient, 1.0));
            assert!((end - 2.0 - by_hand(0.9, &GRADIENTS)).abs() < 1e-12, "{end}");
            let [half, whole] = [0.5, 1.0].map(|factor| ScalarAdam::new(RATE).step(0.0, 3.0, factor));
            assert!((half - whole / 2.0).abs() < 1e-12, "{half} {whole}");
        }
    }

    #[test]
    fn steps_go_on_from_the_moments() {
        let begun = || Optimizer::new(None).with_beta_1(0.5);
        let (mut optimizer, mut resumed) = (begun(), begun());
        let [first, second, third] = GRADIENTS;
        let between = step(&mut optimizer, model(3), first);
        let between = step(&mut optimizer, between, second);
        resumed.restore(optimizer.state().expect("written"), &between).expect("of this model");
        let [on, again] = [optimizer, resumed].map(|mut optimizer| step(&mut optimizer, between.clone(), third));
        assert_eq!(numbers(&on), numbers(&again));
        assert!(numbers(&on) != numbers(&step(&mut begun(), between, third)), "moments count");
    }

    /// burn would panic for these, here or at the next step.
    #[test]
    fn moments_of_other_weights_are_refused() {
        /// Gives weights the names of others.
        struct Named(Vec<ParamId>);
        impl ModuleMapper for Named {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                Param::initialized(self.0.remove(0), param.val())
            }
        }
        struct Names(Vec<ParamId>);
        impl ModuleVisitor for Names {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0.push(param.id);
            }
        }
        let mut optimizer = Optimizer::new(None);
        let own = step(&mut optimizer, model(3), 1.0);
        let state = optimizer.state().expect("written");
        let mut names = Names(Vec::new());
        own.visit(&mut names);
        let refused = |model: &Sequential, state: &[u8]| {
            let mut optimizer = Optimizer::new(None);
            optimizer.restore(ByteBuf::from(state), model).is_err()
        };
        assert!(!refused(&own, &state) && refused(&own, &state[..state.len() / 2]));
        assert!(refused(&model(3), &state), "of other names");
        assert!(refused(&model(2).map(&mut Named(names.0)), &state), "of another shape");
    }
}
