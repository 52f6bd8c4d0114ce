//! The gradients of the weights of both halves of an autoencoder, for burn's parameters.

use burn::module::ParamId;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use nae_simd::program::SumPart;
use nae_simd::{Gradients, Program, Workspace};

use crate::arch::graph::Parameter;
use crate::shard;

/// The gradients of weights, by parameter, in burn's order and shape.
pub(crate) type WeightGradients = Vec<(ParamId, Vec<usize>, Vec<f32>)>;

/// Sums the gradients of the shards of a batch, in the order of burn's parameters of a program.
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

/// Puts `gradients` into `params`, the form that burn's optimizers use.
pub(crate) fn register(gradients: WeightGradients, params: &mut GradientsParams, device: &Device) {
    for (id, shape, values) in gradients {
        let data = TensorData::new(values, shape.clone());
        match shape.len() {
            1 => params.register(id, Tensor::<1>::from_data(data, device)),
            2 => params.register(id, Tensor::<2>::from_data(data, device)),
            _ => params.register(id, Tensor::<4>::from_data(data, device)),
        }
    }
}
