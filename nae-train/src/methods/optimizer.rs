//! Adam (Kingma and Ba, ICLR 2015), with PyTorch's constants as in the authors' code: for all weights at one rate, for
//! encoder and decoder at rates of their own, and for a single number.

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
/// PyTorch's; burn's default is 1e-5.
pub(super) const EPSILON: f64 = 1e-8;

/// Adam on the weights of one model.
pub(crate) struct Optimizer {
    adam: ModuleOptimizer,
    beta_1: f64,
    max_norm: Option<f64>,
}

/// Learning rates of an autoencoder's two halves; `None` leaves a half as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Of the encoder.
    pub encoder: Option<f64>,
    /// Of the decoder.
    pub decoder: Option<f64>,
}

impl Rates {
    /// Both multiplied by `factor`.
    pub(crate) fn times(self, factor: f64) -> Self {
        let times = |rate: Option<f64>| rate.map(|rate| rate * factor);
        Self { encoder: times(self.encoder), decoder: times(self.decoder) }
    }
}

impl Optimizer {
    /// Adam that first scales the gradient to an L2 norm of at most `max_norm`, where one is given.
    pub(crate) fn new(max_norm: Option<f64>) -> Self {
        Self { adam: fresh(BETA_1), beta_1: BETA_1, max_norm }
    }

    /// The same, not begun yet, with β₁ other than 0.9.
    #[must_use]
    pub(crate) fn with_beta_1(self, beta_1: f64) -> Self {
        Self { adam: fresh(beta_1), beta_1, ..self }
    }

    /// The moments.
    ///
    /// # Errors
    /// [`StateError`] where burn cannot write them.
    pub(crate) fn state(&self) -> Result<ByteBuf, StateError> {
        Ok(ByteBuf::from(self.adam.into_bytes()?.to_vec()))
    }

    /// Goes on from the moments in `state`, of the weights of `model`.
    ///
    /// # Errors
    /// [`StateError`] where they are not from [`state`](Self::state), or of other weights: burn panics at both, here or at
    /// the next step.
    pub(crate) fn restore(&mut self, state: ByteBuf, model: &impl Module) -> Result<(), StateError> {
        let bytes = Bytes::from_bytes_vec(state.into_vec());
        let mut shapes = Shapes::default();
        model.visit(&mut shapes);
        let reader = Reader::from_bytes(bytes.clone()).map_err(RecordError::from)?;
        // Counts of steps, and the number of dimensions of each weight.
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

    /// One step of all weights of `model`.
    pub(crate) fn step<M: Module>(&mut self, rate: f64, model: M, mut gradients: GradientsParams) -> M {
        self.clip(&model, &mut gradients);
        self.adam.step(rate, model, gradients)
    }

    /// One step of the weights of `model`, each half at its own rate.
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

/// Adam on one number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScalarAdam {
    rate: f64,
    mean: f64,
    variance: f64,
    steps: i32,
}

impl ScalarAdam {
    /// Adam at learning rate `rate`.
    pub(crate) fn new(rate: f64) -> Self {
        Self { rate, mean: 0.0, variance: 0.0, steps: 0 }
    }

    /// `value` after one step along `gradient`.
    pub(crate) fn step(&mut self, value: f64, gradient: f64) -> f64 {
        // A stored count may be any.
        self.steps = self.steps.saturating_add(1);
        self.mean = BETA_1 * self.mean + (1.0 - BETA_1) * gradient;
        self.variance = BETA_2 * self.variance + (1.0 - BETA_2) * gradient * gradient;
        let mean = self.mean / (1.0 - BETA_1.powi(self.steps));
        let variance = self.variance / (1.0 - BETA_2.powi(self.steps));
        value - self.rate * mean / (variance.sqrt() + EPSILON)
    }
}

/// A number stored with a model's weights and moved by [`ScalarAdam`], not by the weights' optimiser.
pub(super) fn constant(value: f32, device: &Device) -> Param<Tensor<1>> {
    Param::from_data(TensorData::new(vec![value], [1]), device).set_require_grad(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_steps_are_of_the_learning_rate() {
        let mut adam = ScalarAdam::new(0.1);
        let first = adam.step(1.0, 5.0);
        assert!((first - 0.9).abs() < 1e-7, "{first}");
        assert!((adam.step(first, 5.0) - 0.8).abs() < 1e-7);
    }

    #[test]
    fn a_parabola_is_descended() {
        let mut adam = ScalarAdam::new(0.05);
        let x = (0..400).fold(3.0, |x, _| adam.step(x, 2.0 * (x - 1.0)));
        assert!((x - 1.0).abs() < 1e-2, "{x}");
    }
}
