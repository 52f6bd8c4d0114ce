//! A method that updates all weights of one model with one gradient. All trained methods use it except the NAE, whose
//! state includes a sampler of chains, MPDR, which trains several models, and GANomaly, which has two gradients. The
//! model, the optimizer, the learning rate and the state for resuming are here; each method defines its [`Objective`].

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use nae_core::Shape;
use serde_bytes::ByteBuf;

use super::optimizer::Optimizer;
use super::state::{self, Kept, StateError};
use super::{EpochMethod, Method, Model, UpdateFigures};
use crate::config::Pretraining;

/// The objective that is minimized. It stays the same during training; only the model and `Kept` change.
pub trait Objective {
    /// The model that is trained.
    type Model: Model + Module + 'static;
    /// The state kept between updates besides the model and the optimizer's moments, such as the position in the random
    /// numbers.
    type Kept: Kept;

    /// Makes one update on the batch `x` `[N, C, H, W]`. Returns the model after it, and the figures of the model
    /// before it. Weights are updated by `step`, once.
    fn update(
        &self,
        kept: &mut Self::Kept,
        model: Self::Model,
        x: Tensor<4>,
        step: OptimizerStep<'_>,
    ) -> (Self::Model, UpdateFigures);
}

/// A step of the optimizer.
pub struct OptimizerStep<'a> {
    optimizer: &'a mut Optimizer,
    rate: f64,
    first_rate: f64,
}

impl OptimizerStep<'_> {
    /// The learning rate of this step as a part of the first one, for rates besides the weights'.
    pub(super) fn factor(&self) -> f64 {
        self.rate / self.first_rate
    }

    /// Returns `model` after the step with `gradients`.
    pub(super) fn along<M: Module>(self, gradients: GradientsParams, model: M) -> M {
        self.optimizer.step(self.rate, model, gradients)
    }
}

/// Trains the model of an objective.
pub struct GradientMethod<O: Objective> {
    pub(super) objective: O,
    pub(super) model: O::Model,
    pub(super) kept: O::Kept,
    optimizer: Optimizer,
    rate: f64,
    first_rate: f64,
}

impl<O: Objective> GradientMethod<O> {
    /// Starts from the state `model`.
    pub(super) fn begin(objective: O, model: O::Model, kept: O::Kept, settings: Pretraining) -> Self {
        let optimizer = Optimizer::new(settings.max_gradient_norm);
        let rate = settings.learning_rate;
        Self { objective, model, kept, optimizer, rate, first_rate: rate }
    }

    /// The trained model.
    pub fn into_trained(self) -> O::Model {
        self.model
    }
}

impl<O: Objective> Method for GradientMethod<O> {
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures {
        let step = OptimizerStep { optimizer: &mut self.optimizer, rate: self.rate, first_rate: self.first_rate };
        let (model, figures) = self.objective.update(&mut self.kept, self.model.clone(), x, step);
        self.model = model;
        figures
    }

    fn model(&self) -> &dyn Model {
        &self.model
    }

    fn state(&self) -> Result<ByteBuf, StateError> {
        state::save(&self.model, &self.optimizer, &self.kept)
    }

    fn restore(&mut self, state: &[u8], image: Shape) -> Result<(), StateError> {
        state::restore(state, image, &mut self.model, &mut self.optimizer, &mut self.kept)
    }

    fn into_model(self: Box<Self>) -> Box<dyn Model> {
        Box::new(self.model)
    }
}

impl<O: Objective> EpochMethod for GradientMethod<O> {
    fn set_learning_rate(&mut self, rate: f64) {
        self.rate = rate;
    }
}
