//! The normalised autoencoder's loss (paper, equation 8, with the regularisers of section 5.1 and the appendix).

use burn::module::{Module as _, ModuleVisitor, Param};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::arch::Autoencoder;
use crate::arch::layer::Sequential;
use crate::energy::energy;
use crate::engine::network::{WeightGradients, floats};

/// Weights of the regularisers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regularization {
    /// γ (the paper's α): weight of the mean squared energy of negative samples.
    pub negative_energy: f32,
    /// Weight of the encoder's summed squared weights.
    pub encoder_l2: f32,
}

/// The loss and the two energies it is made of.
pub struct Loss {
    /// What is minimised, `[1]`.
    pub total: Tensor<1>,
    /// Mean energy of the data.
    pub positive_energy: Tensor<1>,
    /// Mean energy of the negative samples.
    pub negative_energy: Tensor<1>,
}

/// mean E(x) − mean E(x′) + γ·mean E(x′)² + c·‖encoder‖² for data `x` and negatives `x′`.
pub fn loss(model: &Autoencoder, x: Tensor<4>, negatives: Tensor<4>, regularization: Regularization) -> Loss {
    let negative = energy(model, negatives);
    let positive_energy = energy(model, x).mean();
    let negative_energy = negative.clone().mean();
    let mut total = positive_energy.clone() - negative_energy.clone()
        + (negative.clone() * negative).mean().mul_scalar(regularization.negative_energy);
    if regularization.encoder_l2 > 0.0
        && let Some(squares) = sum_of_squares(&model.encoder)
    {
        total = total + squares.mul_scalar(regularization.encoder_l2);
    }
    Loss { total, positive_energy, negative_energy }
}

/// ∂loss/∂E of a negative sample of energy `energy`, one of `n`: (−1 + 2γE)/n. A data sample's is
/// [`autoencoder::coefficient`](super::autoencoder::coefficient).
pub fn negative_coefficient(energy: f32, n: usize, regularization: Regularization) -> f32 {
    (2.0 * regularization.negative_energy * energy - 1.0) / n as f32
}

/// Adds the gradient of c·‖encoder‖² to `gradients`.
pub fn add_encoder_l2(model: &Autoencoder, regularization: Regularization, gradients: &mut WeightGradients) {
    struct Add<'a>(f32, &'a mut WeightGradients);
    impl ModuleVisitor for Add<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some((_, _, gradient)) = self.1.iter_mut().find(|(id, _, _)| *id == param.id) else { return };
            for (g, w) in gradient.iter_mut().zip(floats(param)) {
                *g += self.0 * w;
            }
        }
    }
    if regularization.encoder_l2 > 0.0 {
        model.encoder.visit(&mut Add(2.0 * regularization.encoder_l2, gradients));
    }
}

/// Σ w² over all weights and biases of `layers`; `None` where there are none.
fn sum_of_squares(layers: &Sequential) -> Option<Tensor<1>> {
    #[derive(Default)]
    struct Sum(Option<Tensor<1>>);
    impl ModuleVisitor for Sum {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let weights = param.val();
            let squares = (weights.clone() * weights).sum();
            self.0 = Some(match self.0.take() {
                Some(sum) => sum + squares,
                None => squares,
            });
        }
    }
    let mut sum = Sum::default();
    layers.visit(&mut sum);
    sum.0
}
