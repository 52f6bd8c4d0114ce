//! Group normalisation with the weights of burn's layer; the loops are `nae-simd`'s.

use nae_simd::group::{self, Moments};
use nae_simd::plane::Planes;

use super::parameters::{Gradients, Parameters};

/// Group normalisation, and where the gradients of its weights go.
#[derive(Debug)]
pub struct GroupNorm {
    norm: group::GroupNorm,
    slots: Option<[usize; 2]>,
}

impl GroupNorm {
    /// From burn's layer.
    pub fn new(norm: &burn::nn::GroupNorm, parameters: &mut Parameters) -> Self {
        let of = |param: &Option<burn::module::Param<burn::tensor::Tensor<1>>>, neutral: f32| {
            param.as_ref().map_or_else(|| vec![neutral; norm.num_channels], super::parameters::floats)
        };
        let (scale, shift) = (of(&norm.gamma, 1.0), of(&norm.beta, 0.0));
        let slots = match (&norm.gamma, &norm.beta) {
            (Some(gamma), Some(beta)) => Some([parameters.add_vector(gamma), parameters.add_vector(beta)]),
            _ => None,
        };
        let norm = group::GroupNorm { groups: norm.num_groups, epsilon: norm.epsilon as f32, scale, shift };
        Self { norm, slots }
    }

    /// The normalised planes, and what [`backward`](Self::backward) needs.
    pub fn forward(&self, x: &Planes) -> (Planes, Moments) {
        self.norm.forward(x)
    }

    /// The gradient at the input `x`; gathers those of scale and shift.
    pub fn backward(
        &self,
        x: &Planes,
        moments: &Moments,
        gradient: &Planes,
        gradients: Option<&mut Gradients>,
    ) -> Planes {
        let gather = gradients.zip(self.slots).map(|(gradients, [scale, shift])| {
            move |channel: usize, of_scale: f32, of_shift: f32| {
                gradients.of(scale)[channel] += of_scale;
                gradients.of(shift)[channel] += of_shift;
            }
        });
        self.norm.backward(x, moments, gradient, gather)
    }
}
