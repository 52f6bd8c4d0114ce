//! The network as an ONNX graph: both halves' graphs, with input, outputs, energy and metadata.

use nae_core::Shape;
use nae_onnx::autoencoder::{IMAGE, LATENT, RECONSTRUCTION, add_outputs};
use nae_onnx::builder::{BuildError, Dim, GraphBuilder, Value};
use nae_onnx::metadata::ModelMetadata;
use nae_onnx::raise;

use crate::arch::graph::LearnedGraph;
use crate::arch::{Autoencoder, AutoencoderSpec, LatentSpace};

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
    raise::append(graph, image, &encoder.graph, &encoder.labels)
}

fn decode(
    graph: &mut GraphBuilder,
    latent: Value,
    model: &Autoencoder,
    spec: &AutoencoderSpec,
) -> Result<Value, BuildError> {
    let decoder = LearnedGraph::new("decoder", &model.decoder, Shape::vector(spec.latent_dim()), false);
    let reconstruction = raise::append(graph, latent, &decoder.graph, &decoder.labels)?;
    raise::as_maps(graph, "decoder.maps", reconstruction)
}
