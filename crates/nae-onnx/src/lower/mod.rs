//! Converts ONNX to a [`Graph`]: finds the path from the image to its reconstruction, channels last.
//!
//! Supports any autoencoder whose operators the engine supports, not only those of `nae-train`:
//! - the reconstruction is the output called `reconstruction`, or without one, the only output of the image's shape; the
//!   latent is the output called `latent`, if there is one; other outputs are ignored;
//! - `Conv` (one group, or one for each channel), `ConvTranspose` (one group), both without dilation, `Gemm`, `MatMul`,
//!   `MaxPool`, `AveragePool`, `GlobalAveragePool`, `Resize`, `Relu`, `LeakyRelu`, `Elu`, `Sigmoid`, `Tanh`, `Clip`,
//!   `Softmax` and `Concat` over channels;
//! - `Flatten`, `Reshape`, `Squeeze`, `Unsqueeze`: elements change their order from channels first to channels last, so
//!   that the weights of the dense layer before or after are reordered;
//! - `BatchNormalization`, and `Add`, `Sub`, `Mul`, `Div` by a constant for all elements or for each channel: folded
//!   into the previous layer, or converted to a 1×1 convolution, with one weight for each channel except in a `.nae`
//!   file;
//! - `Add` and `Mul` of two values; `ReduceL2`, `Expand` and `Div`, or `LpNormalization`, over whole samples, or over
//!   the channels at each position;
//! - group normalization: `GroupNormalization`, `InstanceNormalization`, or explicit mean, variance and division by its
//!   root, between two `Reshape`;
//! - QDQ-quantized models, as the floats that their integers represent; [`lower_with_scales`] also returns their
//!   scales;
//! - operators that exporters use to compute shapes (`Shape`, `Gather`, `Slice` …), which [`crate::check`] has removed.
//!
//! If a sample of zeros is divided by its norm, ONNX gives NaN unless the norm is clipped, and the engine gives zeros.
//!
//! The weights of all layers are at most four times as many as the file's floats, and 2²⁴ more, since layers that share
//! weights in a file have a copy each.
//!
//! Without metadata under `nae.`, the energy is squared L2, the temperature is 1, the values are in `[0, 1]`, and there
//! is no calibration.

mod affine;
mod error;
mod group;
mod layers;
mod scales;

use std::collections::{BTreeMap, HashMap, HashSet};

use nae_core::Shape;
use nae_core::layer::Activation;
use nae_graph::{Graph, GraphError, Op, TensorId, emit};

pub use error::LowerError;
pub use nae_graph::quantize::Scales;

use group::Grouped;

use crate::autoencoder;
use crate::check::graph::{CheckedModel, OnnxGraph, OnnxNode, ValueId};
use crate::check::{Limits, check};
use crate::excerpt::excerpt;
use crate::metadata::{ModelMetadata, Transforms};

/// How many weights there may be beside four times as many as the file has.
const MORE_WEIGHTS: usize = 1 << 24;

/// Converts the bytes of an `.onnx` file to those of a `.nae` file, checked within the default [`Limits`].
///
/// # Errors
/// [`LowerError`], with the node and operator, or the metadata key, that prevents the conversion.
pub fn to_nae(onnx: &[u8]) -> Result<Vec<u8>, LowerError> {
    let model = check(onnx, &Limits::default())?;
    emit(&lower_for_file(&model)?).map_err(|error| LowerError::Write { node: None, error })
}

/// What runs the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A program on a host, which has all layers of `nae-graph`.
    Host,
    /// A `.nae` file: where there is a choice, only layers that it has a form for.
    File,
}

/// Converts a checked model to a layer list that a program on a host runs. A `.nae` file may have no form for some
/// of the layers; see [`lower_for_file`].
///
/// # Errors
/// As for [`to_nae`].
pub fn lower(model: &CheckedModel) -> Result<Graph, LowerError> {
    lower_to(Target::Host, model).map(|(lowered, _)| lowered)
}

/// The same for a `.nae` file: scaling by channel that cannot be part of another layer is a full 1×1 convolution.
///
/// # Errors
/// As for [`to_nae`].
pub fn lower_for_file(model: &CheckedModel) -> Result<Graph, LowerError> {
    lower_with_scales(model).map(|(lowered, _)| lowered)
}

/// As [`lower_for_file`], with the scales of the model's tensors and weights if it is QDQ-quantized.
///
/// # Errors
/// As for [`to_nae`].
pub fn lower_with_scales(model: &CheckedModel) -> Result<(Graph, Scales), LowerError> {
    lower_to(Target::File, model)
}

fn lower_to(target: Target, model: &CheckedModel) -> Result<(Graph, Scales), LowerError> {
    let metadata = model.metadata()?;
    let graph = &model.graph;
    let input = graph.sample_shape(graph.input).unwrap_or(Shape::new(0, 0, 0));
    let reconstruction = find_reconstruction(graph)?;
    let latent = graph.output(autoencoder::LATENT);

    let mut lowering = Lowering::new(target, graph, input);
    // The last layer must be the reconstruction, so that layers only for the latent come first.
    for outputs in [latent, Some(reconstruction)].into_iter().flatten() {
        let needed = graph.ancestors([outputs]);
        for node in graph.nodes.iter().filter(|n| needed[n.output]) {
            lowering.once(node)?;
        }
    }
    let latent = match latent {
        Some(value) => Some(lowering.latent(value)?),
        None => None,
    };
    let scales = lowering.scales();
    let mut lowered = lowering.finish(reconstruction)?;
    lowered.latent = latent;
    if let Some(metadata) = metadata {
        apply(&mut lowered, metadata)?;
    }
    Ok((lowered, scales))
}

/// Converts a checked model up to the outputs called `names`, for a network whose features are used, not an
/// autoencoder. Returns the layers and the tensors of these outputs, in the given order. The graph cannot be stored as
/// a `.nae` file.
///
/// # Errors
/// [`LowerError::NoOutput`] if an output does not exist, or is not `[N, C, H, W]` or `[N, D]`; otherwise as for
/// [`to_nae`].
pub fn lower_features(model: &CheckedModel, names: &[&str]) -> Result<(Graph, Vec<TensorId>), LowerError> {
    let graph = &model.graph;
    let input = graph.sample_shape(graph.input).unwrap_or(Shape::new(0, 0, 0));
    let mut lowering = Lowering::new(Target::Host, graph, input);
    let mut tensors = Vec::with_capacity(names.len());
    for name in names {
        let value = graph.output(name).filter(|value| graph.sample_shape(*value).is_some());
        let value = value.ok_or_else(|| LowerError::NoOutput { name: excerpt(name), found: described(graph) })?;
        let needed = graph.ancestors([value]);
        for node in graph.nodes.iter().filter(|n| needed[n.output]) {
            lowering.once(node)?;
        }
        tensors.push(lowering.feature(name, value)?);
    }
    let origins = lowering.origins;
    let lowered = lowering.lowered;
    match lowered.shapes().and_then(|_| lowered.check_finite()) {
        Ok(()) => Ok((lowered, tensors)),
        Err(error) => {
            let node = layer_of(&error).and_then(|layer| origins.get(layer)).map(|n| excerpt(n));
            Err(LowerError::Write { node, error })
        }
    }
}

/// The outputs of a graph with their shapes, for messages; only the first if there are many.
pub fn described(graph: &OnnxGraph) -> String {
    let shape = |value: ValueId| crate::builder::display_shape(&graph.values[value].shape);
    let outputs = graph.outputs.iter().take(8).map(|(name, v)| format!("`{}` {}", excerpt(name), shape(*v)));
    outputs.collect::<Vec<_>>().join(", ")
}

/// The name of the output that is the reconstruction: the one called `reconstruction`, or without one, the only one with
/// the image's shape.
///
/// # Errors
/// [`LowerError::NoReconstruction`] if there is no such output, or the one called `reconstruction` has neither the
/// image's shape nor that of an output `features`.
pub fn reconstruction(graph: &OnnxGraph) -> Result<&str, LowerError> {
    let value = find_reconstruction(graph)?;
    let named = |name: &str| graph.output(name) == Some(value);
    if named(autoencoder::RECONSTRUCTION) {
        return Ok(autoencoder::RECONSTRUCTION);
    }
    // The value came from the outputs, so that one of them has it.
    Ok(graph.outputs.iter().find(|(name, _)| named(name)).map_or(autoencoder::RECONSTRUCTION, |(name, _)| name))
}

/// Whether the outputs `features` and `reconstruction` have the same shape: then the network reconstructs features of its
/// image. An output `features` of another shape is any other value.
pub fn reconstructs_features(graph: &OnnxGraph) -> bool {
    reconstructed_features(graph).is_some()
}

fn reconstructed_features(graph: &OnnxGraph) -> Option<ValueId> {
    let features = graph.output(autoencoder::FEATURES)?;
    let same = |value: &ValueId| graph.values[*value].shape == graph.values[features].shape;
    graph.output(autoencoder::RECONSTRUCTION).filter(same)
}

fn find_reconstruction(graph: &OnnxGraph) -> Result<ValueId, LowerError> {
    let shape = |value: ValueId| graph.values[value].shape.as_slice();
    let image = shape(graph.input);
    if let Some(reconstruction) = reconstructed_features(graph) {
        return Ok(reconstruction);
    }
    let found = match graph.output(autoencoder::RECONSTRUCTION) {
        // Where it has another shape, an output of the image's shape is something else.
        Some(named) => Some(named).filter(|&v| shape(v) == image),
        None => {
            let mut same = graph.outputs.iter().map(|&(_, v)| v).filter(|&v| shape(v) == image);
            same.next().filter(|_| same.next().is_none())
        }
    };
    found.ok_or_else(|| LowerError::NoReconstruction {
        image: crate::builder::display_shape(image),
        found: described(graph),
    })
}

/// Adds metadata to the graph after checking them against it.
fn apply(lowered: &mut Graph, metadata: ModelMetadata) -> Result<(), LowerError> {
    if metadata.contract.input != lowered.input() {
        return Err(LowerError::Mismatch {
            key: "nae.preprocessing.width, .height, .channels",
            expected: format!("{} (CxHxW)", metadata.contract.input),
            found: format!("an input of {}", lowered.input()),
        });
    }
    let shapes = lowered.shapes().map_err(|error| LowerError::Write { node: None, error })?;
    if let (Some(latent), Some(said)) = (lowered.latent.and_then(|t| shapes.get(t)), metadata.latent)
        && latent.len() != said.dimension
    {
        return Err(LowerError::Mismatch {
            key: "nae.latent.dimension",
            expected: said.dimension.to_string(),
            found: format!("a latent of {}", latent.len()),
        });
    }
    let is_part = metadata.tiles.is_some() || metadata.columns.is_some() || metadata.window.is_some();
    lowered.prepared = is_part || metadata.transforms != Transforms::default();
    lowered.contract = metadata.contract;
    Ok(())
}

/// The tensor of the lowered graph that contains a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    tensor: TensorId,
    /// Set if the elements are those of flattened maps of this shape: ONNX has them channels first, the tensor has them
    /// channels last. `None` if the two orders are the same, or the value is still a batch of maps.
    flattened: Option<Shape>,
}

/// A computed norm by which nothing has been divided yet.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Norm {
    /// The value whose norm it is.
    of: ValueId,
    /// The minimum to which the norm is clamped.
    least: f32,
    /// Whether there is a norm for each position, not one for the whole sample.
    places: bool,
}

/// The state of the conversion.
struct Lowering<'g> {
    graph: &'g OnnxGraph,
    lowered: Graph,
    /// The name of the ONNX node from which each layer was made.
    origins: Vec<String>,
    done: HashMap<ValueId, Place>,
    /// The outputs of the nodes that have been lowered.
    lowered_nodes: HashSet<ValueId>,
    /// Norms that will be divisors.
    norms: HashMap<ValueId, Norm>,
    /// Intermediate values of group normalizations.
    grouped: HashMap<ValueId, Grouped>,
    /// How often each value is read, by nodes and as an output.
    uses: Vec<usize>,
    /// The scales of the weights of the layers that compute these tensors; see [`Scales::weights`].
    weight_scales: BTreeMap<TensorId, Vec<f32>>,
    target: Target,
    /// How many more weights there may be.
    weights_left: usize,
}

impl<'g> Lowering<'g> {
    fn new(target: Target, graph: &'g OnnxGraph, input: Shape) -> Self {
        let mut uses = vec![0; graph.values.len()];
        graph.nodes.iter().flat_map(|n| &n.inputs).for_each(|&i| uses[i] += 1);
        graph.outputs.iter().for_each(|&(_, v)| uses[v] += 1);
        let start = Place { tensor: 0, flattened: None };
        Self {
            graph,
            lowered: Graph::new(input),
            origins: Vec::new(),
            done: HashMap::from([(graph.input, start)]),
            lowered_nodes: HashSet::new(),
            norms: HashMap::new(),
            grouped: HashMap::new(),
            uses,
            weight_scales: BTreeMap::new(),
            target,
            weights_left: graph.constants().saturating_mul(4).saturating_add(MORE_WEIGHTS),
        }
    }

    /// Counts `weights` that a node's layer is about to copy: layers may share them in the file.
    fn charge(&mut self, node: &OnnxNode, weights: usize) -> Result<(), LowerError> {
        self.weights_left = self.weights_left.checked_sub(weights).ok_or_else(|| {
            self.unsupported(node, "its weights, with those of the layers before, are more than four times the file's")
        })?;
        Ok(())
    }

    /// Lowers a node unless it has been lowered. Whether its output is among the values is no sign of that: it may have
    /// become part of another layer.
    fn once(&mut self, node: &OnnxNode) -> Result<(), LowerError> {
        if self.lowered_nodes.insert(node.output) { self.node(node) } else { Ok(()) }
    }

    fn unsupported(&self, node: &OnnxNode, reason: impl Into<String>) -> LowerError {
        LowerError::Unsupported { node: excerpt(&node.name), operator: excerpt(&node.op_type), reason: reason.into() }
    }

    fn refused(node: &OnnxNode, error: GraphError) -> LowerError {
        LowerError::Write { node: Some(excerpt(&node.name)), error }
    }

    /// The place of the operand of a node at `index`.
    fn operand(&self, node: &OnnxNode, index: usize) -> Result<Place, LowerError> {
        let value = node.inputs.get(index).copied();
        match value.and_then(|v| self.done.get(&v)) {
            Some(place) => Ok(*place),
            None if value.is_some_and(|v| self.norms.contains_key(&v)) => {
                Err(self.unsupported(node, "it uses a norm for something else than dividing by it"))
            }
            None => Err(self.unsupported(node, "it works on a constant")),
        }
    }

    /// The place of the first operand of a node that reads maps, whose elements must be in the order of maps.
    fn plain_operand(&self, node: &OnnxNode) -> Result<Place, LowerError> {
        match self.operand(node, 0)? {
            Place { flattened: Some(_), .. } => Err(self.unsupported(node, "it reads a flattened map")),
            place => Ok(place),
        }
    }

    /// The channels, height and width of a node's result.
    fn output_shape(&self, node: &OnnxNode) -> Result<Shape, LowerError> {
        self.graph
            .sample_shape(node.output)
            .ok_or_else(|| self.unsupported(node, "its result is neither [N, C, H, W] nor [N, D]"))
    }

    fn tensor_shape(&self, node: &OnnxNode, tensor: TensorId) -> Result<Shape, LowerError> {
        let shapes = self.lowered.shapes().map_err(|e| Self::refused(node, e))?;
        shapes.get(tensor).copied().ok_or_else(|| self.unsupported(node, "it reads nothing"))
    }

    fn push(&mut self, node: &OnnxNode, from: Place, layer: impl Into<Op>) -> Place {
        let tensor = self.lowered.push_from(from.tensor, layer);
        self.origins.push(node.name.clone());
        Place { tensor, flattened: None }
    }

    /// The tensor of an output, whose elements must be in the order of the output's shape.
    fn feature(&self, name: &str, value: ValueId) -> Result<TensorId, LowerError> {
        match self.done.get(&value) {
            Some(Place { tensor, flattened: None }) if *tensor > 0 => Ok(*tensor),
            _ => Err(LowerError::Unsupported {
                node: excerpt(name),
                operator: "output".into(),
                reason: "it is flattened, or not computed from the image".into(),
            }),
        }
    }

    fn latent(&self, value: ValueId) -> Result<TensorId, LowerError> {
        match self.done.get(&value) {
            Some(place) if place.tensor > 0 => Ok(place.tensor),
            _ => Err(LowerError::Unsupported {
                node: autoencoder::LATENT.into(),
                operator: "output".into(),
                reason: "it is not computed from the image".into(),
            }),
        }
    }

    fn finish(mut self, reconstruction: ValueId) -> Result<Graph, LowerError> {
        let wrong = |reason: &str| LowerError::Unsupported {
            node: autoencoder::RECONSTRUCTION.into(),
            operator: "output".into(),
            reason: reason.into(),
        };
        let Some(&place) = self.done.get(&reconstruction) else {
            return Err(wrong("it is not computed from the image"));
        };
        if place.flattened.is_some() {
            return Err(wrong("it is flattened"));
        }
        if place.tensor != self.lowered.nodes.len() || place.tensor == 0 {
            self.lowered.push_from(place.tensor, Activation::Identity);
            self.origins.push(autoencoder::RECONSTRUCTION.into());
        }
        match self.lowered.shapes().and_then(|_| self.lowered.check_finite()) {
            Ok(()) => Ok(self.lowered),
            Err(error) => {
                let node = layer_of(&error).and_then(|layer| self.origins.get(layer)).map(|n| excerpt(n));
                Err(LowerError::Write { node, error })
            }
        }
    }
}

fn layer_of(error: &GraphError) -> Option<usize> {
    match *error {
        GraphError::UnknownTensor { layer, .. }
        | GraphError::InputShape { layer, .. }
        | GraphError::EmptyOutput { layer, .. }
        | GraphError::Geometry { layer }
        | GraphError::NonFinite { layer } => Some(layer),
        _ => None,
    }
}
