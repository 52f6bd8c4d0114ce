//! Group normalization in the form that exporters write: maps are reshaped to groups of values, each group is
//! normalized to mean 0 and variance 1, and the groups are reshaped to maps. The values in between are not tensors of
//! the engine. The scales and shifts of the channels follow as products and sums with constants, which are folded
//! ([`super::affine`]).

use nae_graph::GroupNormalize;

use super::{LowerError, Lowering, Place};
use crate::check::graph::{Dim, OnnxNode, Operator, ValueId};

/// An intermediate value of a group normalization of some maps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grouped {
    /// The value of the maps.
    maps: ValueId,
    /// The number of groups of their channels.
    groups: usize,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Values,
    Mean,
    Centered,
    Squared,
    Variance,
    /// The variance plus epsilon.
    Stable(f32),
    Deviation(f32),
    Normalized(f32),
}

impl Lowering<'_> {
    /// Processes a node that is part of a group normalization; `false` for any other.
    pub(super) fn group_step(&mut self, node: &OnnxNode) -> Result<bool, LowerError> {
        let of = |index: usize| node.inputs.get(index).and_then(|value| self.grouped.get(value)).copied();
        let (first, second) = (of(0), of(1));
        let Some(grouped) = first.or(second).or_else(|| self.seen_as_groups(node)) else { return Ok(false) };
        let same = |a: Grouped, b: Grouped| (a.maps, a.groups) == (b.maps, b.groups);
        let constant = |index: usize| match node.inputs.get(index).and_then(|&value| self.graph.floats(value)) {
            Some(&[value]) => Some(value),
            _ => None,
        };
        let step = match (&node.operator, first, second) {
            (Operator::Reshape, None, None) => Step::Values,
            (Operator::Reshape, Some(Grouped { maps, step: Step::Normalized(epsilon), .. }), None)
                if self.graph.values[node.output].shape == self.graph.values[maps].shape =>
            {
                let place = self.push_group_normalization(node, grouped, epsilon)?;
                self.done.insert(node.output, place);
                return Ok(true);
            }
            (Operator::ReduceMean { axes, keepdims: true }, Some(x), None) if axes[..] == [2] => match x.step {
                Step::Values => Step::Mean,
                Step::Squared => Step::Variance,
                _ => return Err(self.no_group_step(node)),
            },
            (Operator::Sub, Some(x), Some(mean))
                if same(x, mean) && (x.step, mean.step) == (Step::Values, Step::Mean) =>
            {
                Step::Centered
            }
            (Operator::Mul, Some(a), Some(b)) if a == b && a.step == Step::Centered => Step::Squared,
            (Operator::Pow, Some(x), None) if x.step == Step::Centered && constant(1) == Some(2.0) => Step::Squared,
            (Operator::Add, ..) if grouped.step == Step::Variance => match constant(0).or(constant(1)) {
                Some(epsilon) => Step::Stable(epsilon),
                None => return Err(self.no_group_step(node)),
            },
            (Operator::Sqrt, Some(Grouped { step: Step::Stable(epsilon), .. }), _) => Step::Deviation(epsilon),
            (Operator::Div, Some(x), Some(by)) if same(x, by) && x.step == Step::Centered => match by.step {
                Step::Deviation(epsilon) => Step::Normalized(epsilon),
                _ => return Err(self.no_group_step(node)),
            },
            (Operator::InstanceNormalization { epsilon }, Some(x), None) if x.step == Step::Values => {
                // The operator's scale and shift apply to groups: exporters leave them at 1 and 0.
                let neutral = |index: usize, of: f32| {
                    self.graph.floats(node.inputs[index]).is_some_and(|values| values.iter().all(|&v| v == of))
                };
                if !neutral(1, 1.0) || !neutral(2, 0.0) {
                    return Err(self.unsupported(node, "it scales or shifts groups"));
                }
                Step::Normalized(*epsilon)
            }
            _ => return Err(self.no_group_step(node)),
        };
        self.grouped.insert(node.output, Grouped { step, ..grouped });
        Ok(true)
    }

    /// Lowers group normalization as one operator, with `groups` groups of channels, or each channel by itself if
    /// `None`. There is one scale and shift for each channel, or for each group.
    pub(super) fn group_normalization(
        &mut self,
        node: &OnnxNode,
        groups: Option<usize>,
        epsilon: f32,
    ) -> Result<Place, LowerError> {
        let from = self.plain_operand(node)?;
        let channels = self.output_shape(node)?.channels;
        self.charge(node, channels.saturating_mul(2))?;
        let spread = |index: usize| -> Vec<f32> {
            let values = node.inputs.get(index).and_then(|&value| self.graph.floats(value)).unwrap_or_default();
            (0..channels).map(|channel| values[channel * values.len() / channels]).collect()
        };
        let (scale, shift) = (spread(1), spread(2));
        Ok(self.push(node, from, GroupNormalize { groups: groups.unwrap_or(channels), scale, shift, epsilon }))
    }

    /// The maps that a node reshapes to `[N, groups, values]`.
    fn seen_as_groups(&self, node: &OnnxNode) -> Option<Grouped> {
        let Operator::Reshape = node.operator else { return None };
        let maps = *node.inputs.first()?;
        let place = self.done.get(&maps)?;
        let [Dim::Batch, Dim::Fixed(c), Dim::Fixed(h), Dim::Fixed(w)] = *self.graph.values[maps].shape else {
            return None;
        };
        let [Dim::Batch, Dim::Fixed(groups), Dim::Fixed(values)] = *self.graph.values[node.output].shape else {
            return None;
        };
        let whole_channels = groups > 0 && c % groups == 0 && c / groups * h * w == values;
        (whole_channels && place.flattened.is_none()).then_some(Grouped { maps, groups, step: Step::Values })
    }

    fn push_group_normalization(&mut self, node: &OnnxNode, of: Grouped, epsilon: f32) -> Result<Place, LowerError> {
        let channels = self.output_shape(node)?.channels;
        self.charge(node, channels.saturating_mul(2))?;
        let (scale, shift) = (vec![1.0; channels], vec![0.0; channels]);
        let from = self.done.get(&of.maps).copied().ok_or_else(|| self.no_group_step(node))?;
        Ok(self.push(node, from, GroupNormalize { groups: of.groups, scale, shift, epsilon }))
    }

    fn no_group_step(&self, node: &OnnxNode) -> LowerError {
        self.unsupported(node, "values of groups of channels are known in group normalization only")
    }
}
