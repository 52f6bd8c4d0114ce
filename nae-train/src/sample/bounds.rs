//! The box that a chain stays in, and the treatment of a step that would leave it.

use burn::tensor::{Bool, Tensor};
use serde::{Deserialize, Serialize};

/// The treatment of a step that leaves the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaving {
    /// Each value is clamped to the box.
    Clamp,
    /// The sample stays at its previous state. This is for points of few dimensions: of an image's many values, some
    /// value nearly always leaves the box.
    Reject,
}

/// The box [min, max]^D.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The smallest value.
    pub min: f32,
    /// The largest value.
    pub max: f32,
    /// The treatment of a step that leaves the box.
    pub leaving: Leaving,
}

impl Bounds {
    /// Returns `proposal` restricted to the box, where `state` is the state before the step.
    pub fn hold(self, state: Tensor<4>, proposal: Tensor<4>) -> Tensor<4> {
        match self.leaving {
            Leaving::Clamp => self.nearest(proposal),
            Leaving::Reject => select(self.contains(&proposal), proposal, state),
        }
    }

    /// The point of the box that is nearest to each sample of `x`; it is a valid start of a chain.
    pub fn nearest(self, x: Tensor<4>) -> Tensor<4> {
        x.clamp(self.min, self.max)
    }

    /// Same as [`hold`](Self::hold) for one sample, with its values in any order.
    pub fn hold_sample(self, state: &[f32], proposal: &mut [f32]) {
        match self.leaving {
            Leaving::Clamp => proposal.iter_mut().for_each(|value| *value = value.clamp(self.min, self.max)),
            Leaving::Reject if self.contains_sample(proposal) => {}
            Leaving::Reject => proposal.copy_from_slice(state),
        }
    }

    /// Same as [`contains`](Self::contains) for one sample.
    pub fn contains_sample(self, x: &[f32]) -> bool {
        x.iter().all(|value| (self.min..=self.max).contains(value))
    }

    /// Whether all values of each sample of `x` `[N, C, H, W]` are in the box, `[N]`. NaN is not in any box.
    pub fn contains(self, x: &Tensor<4>) -> Tensor<1, Bool> {
        let [n, c, h, w] = x.dims();
        let inside = x.clone().greater_equal_elem(self.min).bool_and(x.clone().lower_equal_elem(self.max));
        inside.reshape([n, c * h * w]).all_dim(1).reshape([n])
    }
}

/// Selects for each sample `yes` if `mask` is true, otherwise `no`.
pub(super) fn select(mask: Tensor<1, Bool>, yes: Tensor<4>, no: Tensor<4>) -> Tensor<4> {
    let shape = yes.dims();
    no.mask_where(mask.reshape([shape[0], 1, 1, 1]).expand(shape), yes)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    fn points(values: &[f32]) -> Tensor<4> {
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len() / 2, 2, 1, 1]), &Device::flex())
    }

    #[test]
    fn a_step_out_is_clamped_or_not_taken() {
        let (state, proposal) = (points(&[0.5, 0.5, 0.25, 0.5]), points(&[0.75, 1.5, 0.0, 1.0]));
        let held = |leaving| {
            let bounds = Bounds { min: 0.0, max: 1.0, leaving };
            let [states, mut proposals] =
                [&state, &proposal].map(|x| x.to_data().try_into_vec::<f32>().expect("float data"));
            for (state, proposal) in states.chunks(2).zip(proposals.chunks_mut(2)) {
                bounds.hold_sample(state, proposal);
            }
            let held = bounds.hold(state.clone(), proposal.clone());
            assert_eq!(held.into_data().try_into_vec::<f32>().expect("float data"), proposals);
            proposals
        };
        assert_eq!(held(Leaving::Clamp), [0.75, 1.0, 0.0, 1.0]);
        assert_eq!(held(Leaving::Reject), [0.5, 0.5, 0.0, 1.0], "the whole sample stays");
    }

    #[test]
    fn nan_lies_nowhere() {
        let bounds = Bounds { min: -1.0, max: 1.0, leaving: Leaving::Reject };
        let held = bounds.hold(points(&[0.5, 0.5]), points(&[0.0, f32::NAN]));
        assert_eq!(held.into_data().try_into_vec::<f32>().expect("float data"), [0.5, 0.5]);
    }
}
