//! The network as an ONNX graph: the graphs of both halves, with input, outputs, energy and metadata. A model whose
//! decision is not its reconstruction error is exported as one of features: of latents, or of an energy and a constant.

use burn::module::Param;
use burn::tensor::Tensor;
use nae_core::Shape;
use nae_core::layer::{Activation, Padding};
use nae_features::{NotOfVectors, per_place};
use nae_graph::{AveragePool2d, Dense, GraphError, Op};
use nae_onnx::autoencoder::{IMAGE, LATENT, RECONSTRUCTION, add_feature_outputs, add_outputs};
use nae_onnx::builder::{BuildError, Dim, GraphBuilder, Value};
use nae_onnx::metadata::ModelMetadata;
use nae_onnx::raise::{self, Label};

use super::codes;
use crate::arch::graph::LearnedGraph;
use crate::arch::layer::Sequential;
use crate::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use crate::features::Features;
use crate::methods::EnergyNetwork;

/// Builds the whole model: `image` is the input; `reconstruction`, `energy` and `latent` are the outputs. With `codes`
/// `[K, D_z/parts]`, each part of a latent is replaced by the nearest code.
///
/// # Errors
/// [`BuildError`] if a weight is not finite.
pub fn autoencoder(
    model: &Autoencoder,
    codes: Option<&Param<Tensor<2>>>,
    spec: &AutoencoderSpec,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let (mut graph, image) = begun("autoencoder", spec.image(), metadata)?;
    let latent = encode(&mut graph, image, model, codes, spec)?;
    let reconstruction = decode(&mut graph, latent, model, spec)?;
    add_outputs(&mut graph, image, reconstruction, latent, spec.energy())?;
    graph.finish_bytes()
}

/// Builds the whole model of a run on features: `image` is the input; `features`, `reconstruction`, `heat_map` and
/// `energy` are the outputs.
///
/// # Errors
/// [`BuildError`] if a weight is not finite, the network does not consist of dense layers, or a latent has several
/// codes.
pub(super) fn of_features(
    model: &Autoencoder,
    codes: Option<&Param<Tensor<2>>>,
    spec: &AutoencoderSpec,
    features: &Features,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let front = features.front().graph();
    let on_sphere = model.latent_space() == LatentSpace::Sphere;
    let encoder = LearnedGraph::new("encoder", &model.encoder, spec.image(), on_sphere);
    let decoder = LearnedGraph::new("decoder", &model.decoder, Shape::vector(spec.latent_dim()), false);
    let refused = |error: NotOfVectors| refused("Conv", &error);
    let mut whole = front.clone();
    let label = |node: usize| Label { name: format!("features.{node}"), has_bias: true };
    let mut labels: Vec<Label> = (0..front.nodes.len()).map(label).collect();
    let mut latent = per_place(&mut whole, front.nodes.len(), &encoder.graph).map_err(refused)?;
    labels.extend(encoder.labels);
    if let Some(codes) = codes {
        let (chosen, names) = codes::nearest(codes, spec.latent_dim()).map_err(|error| unfit(&error))?;
        latent = per_place(&mut whole, latent, &chosen).map_err(refused)?;
        labels.extend(names);
    }
    per_place(&mut whole, latent, &decoder.graph).map_err(refused)?;
    labels.extend(decoder.labels);

    let (mut graph, image) = begun("autoencoder", front.input(), metadata)?;
    let values = raise::append(&mut graph, image, &whole, &labels)?;
    let (features_of, reconstruction) = (values[front.nodes.len()], values[whole.nodes.len()]);
    add_feature_outputs(&mut graph, features_of, reconstruction, spec.energy(), features.top_k())?;
    graph.finish_bytes()
}

/// Builds GANomaly's model: the image's latent is `features`, the output of `second` for the reconstruction is
/// `reconstruction`; other outputs are `heat_map`, which has one place, and `energy`.
///
/// # Errors
/// [`BuildError`] if a weight is not finite.
pub(super) fn of_latents(
    model: &Autoencoder,
    second: &Sequential,
    spec: &AutoencoderSpec,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let (mut graph, image) = begun("ganomaly", spec.image(), metadata)?;
    let latent = encode(&mut graph, image, model, None, spec)?;
    let reconstruction = decode(&mut graph, latent, model, spec)?;
    let second = LearnedGraph::new("second", second, spec.image(), false);
    let values = raise::append(&mut graph, reconstruction, &second.graph, &second.labels)?;
    compared(graph, latent, values[second.graph.nodes.len()], metadata)
}

/// Builds the model of a network whose output is the energy: ELU(E) is `features`, -1 is `reconstruction`, and their
/// difference is [`positive`](super::positive).
///
/// # Errors
/// [`BuildError`] if a weight is not finite.
pub(super) fn of_energy(
    model: &EnergyNetwork,
    spec: &AutoencoderSpec,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let LearnedGraph { mut graph, mut labels, .. } =
        LearnedGraph::new("features", &model.features, spec.image(), false);
    let maps = graph.shapes().map_err(|error| unfit(&error))?.last().copied().unwrap_or(spec.image());
    let mut push = |name: &str, has_bias: bool, op: Op| {
        labels.push(Label { name: name.to_owned(), has_bias });
        graph.push(op)
    };
    // There is no layer for sums of maps, so means are used, and the head's weights are multiplied by the size of the
    // maps.
    let kernel = [maps.height, maps.width];
    let pool = AveragePool2d { kernel, stride: kernel, padding: Padding::NONE, count_include_padding: false };
    push("features.mean", false, pool.into());
    let head = LearnedGraph::new("head", &model.head, Shape::vector(maps.channels), false);
    for (node, label) in head.graph.nodes.into_iter().zip(head.labels) {
        let mut op = node.op;
        if let Op::Dense(dense) = &mut op {
            dense.weights.iter_mut().for_each(|weight| *weight *= (maps.height * maps.width) as f32);
        }
        push(&label.name, label.has_bias, op);
    }
    let energy = push("energy.elu", false, Activation::Elu { alpha: 1.0 }.into());
    let least = push(
        "energy.least",
        true,
        Dense::from_out_in(&[0.0], [1, 1], Some(&[-1.0])).map_err(|error| unfit(&error))?.into(),
    );

    let (mut built, image) = begun("energy", spec.image(), metadata)?;
    let values = raise::append(&mut built, image, &graph, &labels)?;
    compared(built, values[energy], values[least], metadata)
}

pub(super) fn encoder(
    model: &Autoencoder,
    codes: Option<&Param<Tensor<2>>>,
    spec: &AutoencoderSpec,
) -> Result<Vec<u8>, BuildError> {
    let mut graph = new_graph("encoder");
    let image = image_input(&mut graph, spec.image())?;
    let latent = encode(&mut graph, image, model, codes, spec)?;
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

/// Starts the graph of a whole model with its metadata; returns it with its `image` input.
fn begun(name: &str, image: Shape, metadata: &ModelMetadata) -> Result<(GraphBuilder, Value), BuildError> {
    let mut graph = new_graph(name);
    metadata.add_to(&mut graph);
    let image = image_input(&mut graph, image)?;
    Ok((graph, image))
}

/// Completes a model that compares `features` with `reconstruction`, which have one place.
fn compared(
    mut graph: GraphBuilder,
    features: Value,
    reconstruction: Value,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, BuildError> {
    let features = raise::as_maps(&mut graph, "features.maps", features)?;
    let reconstruction = raise::as_maps(&mut graph, "reconstruction.maps", reconstruction)?;
    add_feature_outputs(&mut graph, features, reconstruction, metadata.contract.energy, 1)?;
    graph.finish_bytes()
}

fn unfit(error: &GraphError) -> BuildError {
    refused("Gemm", error)
}

fn refused(operator: &'static str, error: &dyn std::fmt::Display) -> BuildError {
    BuildError::Geometry { node: "network".to_owned(), operator, reason: error.to_string() }
}

fn image_input(graph: &mut GraphBuilder, image: Shape) -> Result<Value, BuildError> {
    graph.image_input(IMAGE, [image.channels, image.height, image.width])
}

fn encode(
    graph: &mut GraphBuilder,
    image: Value,
    model: &Autoencoder,
    codes: Option<&Param<Tensor<2>>>,
    spec: &AutoencoderSpec,
) -> Result<Value, BuildError> {
    let on_sphere = model.latent_space() == LatentSpace::Sphere;
    let encoder = LearnedGraph::new("encoder", &model.encoder, spec.image(), on_sphere);
    let values = raise::append(graph, image, &encoder.graph, &encoder.labels)?;
    let latent = values[encoder.graph.nodes.len()];
    let Some(codes) = codes else { return Ok(latent) };
    let (chosen, labels) = codes::nearest(codes, spec.latent_dim()).map_err(|error| unfit(&error))?;
    let values = raise::append(graph, latent, &chosen, &labels)?;
    Ok(values[chosen.nodes.len()])
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
