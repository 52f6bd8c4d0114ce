//! Gradients of the weights of both halves of an autoencoder, by burn's parameters.

use burn::module::ParamId;
use nae_simd::program::SumPart;
use nae_simd::{Gradients, Program, Workspace};

use crate::arch::graph::Parameter;
use crate::shard;

/// Gradients of weights, by parameter, in burn's order and shape.
pub(crate) type WeightGradients = Vec<(ParamId, Vec<usize>, Vec<f32>)>;

/// The sum of the gradients of the shards of a batch, as burn has the parameters of a program.
pub(super) fn summed(
    program: &Program,
    parameters: &[Parameter],
    workspace: &Workspace,
    shards: Vec<Gradients>,
) -> WeightGradients {
    let sums = program.sums(workspace, shards, |parts| {
        shard::map(parts, SumPart::run);
    });
    let finished = |(parameter, mut values): (&Parameter, Vec<f32>)| {
        if let Some(spectral) = &parameter.spectral {
            spectral.chain(&mut values);
        }
        (parameter.id, parameter.shape.clone(), values)
    };
    parameters.iter().zip(sums).map(finished).collect()
}
