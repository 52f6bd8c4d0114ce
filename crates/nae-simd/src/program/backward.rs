//! The backward pass of a program: from the gradient at the output to that at the input, and to those of the weights.

use nae_graph::TensorId;

use super::forward::{Saved, Trace};
use super::gradients::Gradients;
use super::{Operation, Program, Step};
use crate::plane::Planes;
use crate::pointwise::{activate_backward, add, multiply, normalize_backward, rectify_backward, softmax_backward};
use crate::resample::{average_pool_backward, max_pool_backward, nearest_backward};
use crate::sums::Finish;

impl Program {
    /// Returns the gradient at the input for that at the output; it is left out (empty) if it is not `wanted`.
    /// Accumulates gradients of weights if `gradients` is given; for a dense layer, a copy of its input is kept for each
    /// call until [`sums`](Self::sums).
    ///
    /// `trace` must be that of a pass with this `input`. The program must have been compiled for training.
    pub fn backward(
        &self,
        input: &Planes,
        trace: &Trace,
        gradient: Planes,
        wanted: bool,
        mut gradients: Option<&mut Gradients>,
    ) -> Planes {
        // For each tensor, the sum of the gradients from its readers so far.
        let mut at: Vec<Option<Planes>> = (0..=self.steps.len()).map(|_| None).collect();
        at[self.steps.len()] = Some(gradient);
        for (index, step) in self.steps.iter().enumerate().rev() {
            // A tensor that nothing reads has no gradient.
            let Some(gradient) = at[index + 1].take() else { continue };
            let is_wanted = |tensor: TensorId| wanted || tensor > 0;
            if let Some(other) = step.other.filter(|other| is_wanted(*other)) {
                let through = step.to_other(trace.tensor(input, step.input), &gradient);
                give(&mut at[other], through);
            }
            let pass = Pass { input, trace, index, wanted: is_wanted(step.input) };
            let through = step.back(&pass, gradient, gradients.as_deref_mut());
            if pass.wanted {
                give(&mut at[step.input], through);
            }
        }
        at.swap_remove(0).unwrap_or_default()
    }
}

/// Adds a reader's contribution to the gradient at a tensor.
fn give(at: &mut Option<Planes>, part: Planes) {
    match at {
        Some(sum) => add(&mut sum.data, &part.data),
        None => *at = Some(part),
    }
}

/// The backward pass at one of its steps.
struct Pass<'a> {
    input: &'a Planes,
    trace: &'a Trace,
    index: usize,
    /// Whether the gradient at the step's input is needed.
    wanted: bool,
}

impl Step {
    /// Returns the gradient at the second tensor of a sum or a product; `first` is the first tensor.
    fn to_other(&self, first: &Planes, gradient: &Planes) -> Planes {
        let mut through = gradient.clone();
        if let Operation::Multiply = self.operation {
            multiply(&mut through.data, &first.data);
        }
        through
    }

    /// Returns the gradient at the input for that at the output; empty if it is not needed and would take a kernel.
    fn back(&self, pass: &Pass<'_>, mut gradient: Planes, gradients: Option<&mut Gradients>) -> Planes {
        let before = pass.trace.tensor(pass.input, self.input);
        let output = &pass.trace.outputs[pass.index];
        match (&self.operation, &pass.trace.saved[pass.index]) {
            (Operation::Kernel(layer), _) => {
                if let (Some(slope), false) = (layer.slope, self.gated) {
                    rectify_backward(output, slope, &mut gradient);
                }
                gradient.size = layer.forward.to;
                if let Some(gradients) = gradients {
                    layer.weights(before, &gradient, gradients);
                }
                let finish = self.gate.map_or(Finish::Keep, |slope| Finish::Gate { output: &before.data, slope });
                if pass.wanted { layer.backward(&gradient, finish) } else { Planes::default() }
            }
            (Operation::Rectify(slope), _) => {
                rectify_backward(before, *slope, &mut gradient);
                gradient
            }
            (Operation::Activation(activation), _) => {
                activate_backward(*activation, before, output, &mut gradient);
                gradient
            }
            (Operation::Normalize(least), Saved::Norms(norms)) => {
                normalize_backward(output, norms, *least, &mut gradient);
                gradient
            }
            (Operation::Softmax, _) => {
                softmax_backward(output, &mut gradient);
                gradient
            }
            (Operation::GroupNorm(norm, slots), Saved::Moments(moments)) => {
                let gather = gradients.zip(*slots).map(|(gradients, [scale, shift])| {
                    move |channel: usize, of_scale: f32, of_shift: f32| {
                        gradients.of(scale)[channel] += of_scale;
                        gradients.of(shift)[channel] += of_shift;
                    }
                });
                norm.backward(before, moments, &gradient, gather)
            }
            (Operation::MaxPool(side), _) => max_pool_backward(before, output, &gradient, *side, self.gate),
            (Operation::AveragePool(side), _) => average_pool_backward(&gradient, before.size, *side),
            (Operation::Repeat(factor), _) => nearest_backward(&gradient, *factor),
            (Operation::Enlarge(enlargement), _) => enlargement.backward(&gradient),
            (Operation::Reshape(_), _) => {
                gradient.size = before.size;
                gradient
            }
            (Operation::ReshapeChannelsFirst(_), _) => gradient.reshaped(before.size),
            (Operation::Multiply, _) => {
                let other = self.other.map_or(before, |other| pass.trace.tensor(pass.input, other));
                multiply(&mut gradient.data, &other.data);
                gradient
            }
            (Operation::Add | Operation::Identity, _) => gradient,
            (Operation::Normalize(_) | Operation::GroupNorm(..), _) => {
                unreachable!("saved by the same step on the way forward")
            }
            (
                Operation::MaxOf(_)
                | Operation::MeanOf(..)
                | Operation::Depthwise(_)
                | Operation::Clamp(..)
                | Operation::Scale(_)
                | Operation::NormalizePlaces(_)
                | Operation::Concatenate,
                _,
            ) => {
                unreachable!("refused by the compiler where there is a way back")
            }
        }
    }
}
