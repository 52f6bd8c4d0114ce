//! The network as an ONNX graph: both halves' graphs, with input, outputs, energy and metadata.

use nae_core::Shape;
use nae_features::{NotOfVectors, per_place};
use nae_onnx::autoencoder::{IMAGE, LATENT, RECONSTRUCTION, add_feature_outputs, add_outputs};
use nae_onnx::builder::{BuildError, Dim, GraphBuilder, Value};
use nae_onnx::metadata::ModelMetadata;
use nae_onnx::raise::{self, Label};

use crate::arch::graph::LearnedGraph;
use crate::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use crate::features::Features;

/// The whole model: `image` in; `reconstruction`, `energy` and `latent` out.
///
/// # Errors
/// [`BuildError`] where a weight is not finite.
pub fn autoencoder(
    model: &Autoencoder,
    spec: &AutoencoderSpec,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("autoencoder");
    metadata.add_to(&mut graph);
    let image = image_input(&mut graph, spec)?;
    let latent = encode(&mut graph, image, model, spec)?;
    let reconstruction = decode(&mut graph, latent, model, spec)?;
    add_outputs(&mut graph, image, reconstruction, latent, spec.energy())?;
    graph.finish_bytes()
}

/// The whole model of a run on features: `image` in; `features`, `reconstruction`, `heat_map` and `energy` out.
///
/// # Errors
/// [`BuildError`] where a weight is not finite, or the network is not of dense layers.
pub(super) fn of_features(
    model: &Autoencoder,
    spec: &AutoencoderSpec,
    features: &Features,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let front = features.front().graph();
    let on_sphere = model.latent_space() == LatentSpace::Sphere;
    let encoder = LearnedGraph::new("encoder", &model.encoder, spec.image(), on_sphere);
    let decoder = LearnedGraph::new("decoder", &model.decoder, Shape::vector(spec.latent_dim()), false);
    let refused = |error: NotOfVectors| BuildError::Geometry {
        node: "network".to_owned(),
        operator: "Conv",
        reason: error.to_string(),
    };
    let mut whole = front.clone();
    let label = |node: usize| Label { name: format!("features.{node}"), has_bias: true };
    let mut labels: Vec<Label> = (0..front.nodes.len()).map(label).collect();
    let latent = per_place(&mut whole, front.nodes.len(), &encoder.graph).map_err(refused)?;
    per_place(&mut whole, latent, &decoder.graph).map_err(refused)?;
    labels.extend(encoder.labels.into_iter().chain(decoder.labels));

    let mut graph = new_graph("autoencoder");
    metadata.add_to(&mut graph);
    let image = front.input();
    let image = graph.image_input(IMAGE, [image.channels, image.height, image.width])?;
    let values = raise::append(&mut graph, image, &whole, &labels)?;
    let (features_of, reconstruction) = (values[front.nodes.len()], values[whole.nodes.len()]);
    add_feature_outputs(&mut graph, features_of, reconstruction, spec.energy(), features.top_k())?;
    graph.finish_bytes()
}

pub(super) fn encoder(model: &Autoencoder, spec: &AutoencoderSpec) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("encoder");
    let image = image_input(&mut graph, spec)?;
    let latent = encode(&mut graph, image, model, spec)?;
    let flat = if raise::is_vector(&graph, latent) { latent } else { graph.flatten("latent.flat", latent)? };
    graph.output(LATENT, flat)?;
    graph.finish_bytes()
}

pub(super) fn decoder(model: &Autoencoder, spec: &AutoencoderSpec) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("decoder");
    let dim = spec.latent_dim();
    let flat = graph.input(LATENT, &[Dim::Batch, Dim::Fixed(dim)])?;
    let latent = graph.reshape("latent.image", flat, &[dim, 1, 1])?;
    let reconstruction = decode(&mut graph, latent, model, spec)?;
    graph.output(RECONSTRUCTION, reconstruction)?;
    graph.finish_bytes()
}

fn new_graph(name: &str) -> GraphBuilder {
    let mut graph = GraphBuilder::new(name);
    graph.producer(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    graph
}

fn image_input(graph: &mut GraphBuilder, spec: &AutoencoderSpec) -> Result<Value, BuildError> {
    let image = spec.image();
    graph.image_input(IMAGE, [image.channels, image.height, image.width])
}

fn encode(
    graph: &mut GraphBuilder,
    image: Value,
    model: &Autoencoder,
    spec: &AutoencoderSpec,
) -> Result<Value, BuildError> {
    let on_sphere = model.latent_space() == LatentSpace::Sphere;
    let encoder = LearnedGraph::new("encoder", &model.encoder, spec.image(), on_sphere);
    let values = raise::append(graph, image, &encoder.graph, &encoder.labels)?;
    Ok(values[encoder.graph.nodes.len()])
}

fn decode(
    graph: &mut GraphBuilder,
    latent: Value,
    model: &Autoencoder,
    spec: &AutoencoderSpec,
) -> Result<Value, BuildError> {
    let decoder = LearnedGraph::new("decoder", &model.decoder, Shape::vector(spec.latent_dim()), false);
    let values = raise::append(graph, latent, &decoder.graph, &decoder.labels)?;
    raise::as_maps(graph, "decoder.maps", values[decoder.graph.nodes.len()])
}
