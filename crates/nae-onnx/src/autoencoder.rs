//! What makes a graph an autoencoder of this project: names of its input and outputs, and the
//! energy node.

use nae_core::energy::Energy;

use crate::builder::{BuildError, GraphBuilder, Value};

/// Name of the input, `[N, C, H, W]`.
pub const IMAGE: &str = "image";
/// Name of the output that has the image's shape.
pub const RECONSTRUCTION: &str = "reconstruction";
/// Name of the energies, `[N]`.
pub const ENERGY: &str = "energy";
/// Name of the latent vectors, `[N, D]`.
pub const LATENT: &str = "latent";

/// Name of what a model of features reconstructs, `[N, K, rows, columns]`.
pub const FEATURES: &str = "features";
/// Name of the energies of its places, `[N, 1, rows, columns]`.
pub const HEAT_MAP: &str = "heat_map";

/// Makes `features`, `reconstruction`, `heat_map` and `energy` the outputs of a graph that reconstructs features: the
/// energy of each place, and the mean of the `top_k` largest.
///
/// # Errors
/// Those of the builder: see [`BuildError`].
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

/// Makes `reconstruction`, `energy` and `latent` the outputs of a graph, in this order, with an
/// energy node where ONNX can say it: squared L2 and L1. A model with SSIM has no `energy` output;
/// its metadata names the energy and `nae-core` computes it, as it does for every energy.
///
/// A latent of shape `[N, D, 1, 1]` is flattened.
///
/// # Errors
/// Those of the builder: see [`BuildError`].
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
