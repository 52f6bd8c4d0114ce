//! The conventions for an autoencoder of this project: the names of its input and outputs, and the energy node.

use nae_core::energy::Energy;

use crate::builder::{BuildError, GraphBuilder, Value};

/// The name of the input, `[N, C, H, W]`.
pub const IMAGE: &str = "image";
/// The name of the output with the image's shape.
pub const RECONSTRUCTION: &str = "reconstruction";
/// The name of the energies, `[N]`.
pub const ENERGY: &str = "energy";
/// The name of the latent vectors, `[N, D]`.
pub const LATENT: &str = "latent";

/// The name of the features that a model of features reconstructs, `[N, K, rows, columns]`.
pub const FEATURES: &str = "features";
/// The name of the energies of its positions, `[N, 1, rows, columns]`.
pub const HEAT_MAP: &str = "heat_map";

/// Adds the outputs `features`, `reconstruction`, `heat_map` and `energy` to a graph that reconstructs features.
/// `heat_map` has the energy of each position, and `energy` the mean of the `top_k` largest.
///
/// # Errors
/// [`BuildError`] of the builder.
pub fn add_feature_outputs(
    graph: &mut GraphBuilder,
    features: Value,
    reconstruction: Value,
    energy: Energy,
    top_k: usize,
) -> Result<(), BuildError> {
    graph.output(FEATURES, features)?;
    graph.output(RECONSTRUCTION, reconstruction)?;
    let difference = graph.sub("heat_map.difference", features, reconstruction)?;
    let error = match energy {
        Energy::L1 => graph.abs("heat_map.absolute", difference)?,
        _ => graph.mul("heat_map.square", difference, difference)?,
    };
    let map = graph.mean_per_place(HEAT_MAP, error)?;
    graph.output(HEAT_MAP, map)?;
    let places = graph.flatten("heat_map.flat", map)?;
    let largest = graph.largest("energy.largest", places, top_k)?;
    let energy = graph.mean_per_sample(ENERGY, largest)?;
    graph.output(ENERGY, energy)
}

/// Adds the outputs `reconstruction`, `energy` and `latent` to a graph, in this order. The energy node exists if ONNX
/// can express it, for squared L2 and L1. A model with SSIM has no `energy` output; its metadata names the energy and
/// `nae-core` computes it, as it does for every energy.
///
/// A latent of shape `[N, D, 1, 1]` is flattened.
///
/// # Errors
/// [`BuildError`] of the builder.
pub fn add_outputs(
    graph: &mut GraphBuilder,
    image: Value,
    reconstruction: Value,
    latent: Value,
    energy: Energy,
) -> Result<(), BuildError> {
    graph.output(RECONSTRUCTION, reconstruction)?;
    let value = match energy {
        Energy::SquaredL2 => Some(graph.mean_squared_difference(ENERGY, image, reconstruction)?),
        Energy::L1 => Some(graph.mean_absolute_difference(ENERGY, image, reconstruction)?),
        _ => None,
    };
    if let Some(value) = value {
        graph.output(ENERGY, value)?;
    }
    let flat = match graph.shape(latent) {
        Some(shape) if shape.len() != 2 => graph.flatten("latent.flat", latent)?,
        _ => latent,
    };
    graph.output(LATENT, flat)
}
