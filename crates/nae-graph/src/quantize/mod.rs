//! Quantization after training: converts a graph of f32 and representative images to a graph of 8-bit layers.
//!
//! Weights are symmetric with one scale per output channel, activations have one scale and zero point per tensor (Jacob
//! et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018),
//! as in TFLite's reference kernels. In order: `activations` splits off fused activations and collects statistics of
//! every tensor, `equalize` evens out the channels, `range` chooses each tensor's scale, `build` makes the 8-bit
//! layers, [`evaluate`](mod@evaluate) runs them as a device does. A model that provides scales keeps them, and its
//! channels are not evened out.
//!
//! The values of the f32 graph's tensors are computed by a [`Tracer`]: a program for the processor (`nae-simd`), since
//! a range does not depend on the last bit of a sum. The cost of 8 bits is measured with `nae-core`'s engine, since its
//! rounding is that of the device.

mod activations;
mod build;
mod equalize;
pub mod evaluate;
mod range;
mod scales;

use nae_core::engine::EngineError;
use nae_core::kernels::int8::Layout;
use nae_core::model::ModelError;

use crate::{Graph, GraphError};
pub use activations::{Activations, TraceError, Tracer, split};
use build::Built;
pub use build::FloatLayer;
pub use equalize::equalize;
pub use range::Ranges;
pub use scales::Scales;

/// Options of quantization.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizeOptions {
    /// The method by which the range of a tensor is chosen.
    pub ranges: Ranges,
    /// Whether channels are evened out; `None` for the choice with the smaller error on the images.
    pub equalize: Option<bool>,
    /// The layout of the weights.
    pub layout: Layout,
    /// Scales that tensors and weights of the graph have already, as in a QDQ-quantized ONNX model: for these, nothing
    /// is chosen. If there are any, channels are not evened out, since the scales would then be wrong.
    pub scales: Scales,
}

impl Default for QuantizeOptions {
    fn default() -> Self {
        Self { ranges: Ranges::MeanSquaredError, equalize: None, layout: Layout::Paired, scales: Scales::default() }
    }
}

/// The reason why a model cannot be quantized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// There are no images from which ranges could be chosen.
    #[error("no images to choose ranges by; --calibrate needs some")]
    NoImages,
    /// The graph is not valid, or the quantized one cannot be written.
    #[error("the quantized model cannot be written: {0}")]
    Write(GraphError),
    /// The parser refuses the file of the graph.
    #[error("the quantized model cannot be read: {0}")]
    Model(ModelError),
    /// The engine cannot run it on an image.
    #[error("the model cannot be run on the calibration data: {0}")]
    Engine(EngineError),
    /// The graph of f32 cannot be run on an image.
    #[error(
        "the values of the model's layers, by which scales are chosen, cannot be computed: {0}; deploy it without --int8"
    )]
    Trace(TraceError),
}

impl From<GraphError> for QuantizeError {
    fn from(error: GraphError) -> Self {
        Self::Write(error)
    }
}

impl From<ModelError> for QuantizeError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

impl From<EngineError> for QuantizeError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// A model in 8 bits, with the f32 model it was made from.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// The 8-bit layers, without calibration: its energies are not those of the f32 model.
    pub graph: Graph,
    /// Layers that remain f32, with the reasons.
    pub float_layers: Vec<FloatLayer>,
    /// Whether channels were evened out.
    pub equalized: bool,
    /// The f32 model, whose node numbers [`Quantized::without`] uses.
    source: Graph,
    activations: Activations,
    options: QuantizeOptions,
}

/// Quantizes `graph` with ranges chosen on `images`: HWC, in the range of its preprocessing. `tracer` computes the
/// values of its tensors.
///
/// # Errors
/// [`QuantizeError`] if there are no images, or the graph cannot be written or run.
pub fn quantize(
    graph: &Graph,
    images: &[Vec<f32>],
    options: &QuantizeOptions,
    tracer: &dyn Tracer,
) -> Result<Quantized, QuantizeError> {
    if images.is_empty() {
        return Err(QuantizeError::NoImages);
    }
    let (plain, scales) = activations::split(graph, &options.scales);
    let equalize = if scales.is_empty() { options.equalize } else { Some(false) };
    let options = &QuantizeOptions { scales, equalize, ..options.clone() };
    let seen = Activations::observe(&plain, images, tracer)?;
    let candidate = |source: Graph, activations: Activations, equalized| {
        let Built { graph, float_layers } = build::build(&source, &activations, options, &|_| false);
        Quantized { graph, float_layers, equalized, source, activations, options: options.clone() }
    };
    let equal = |plain: &Graph, seen: &Activations| -> Result<Option<Quantized>, QuantizeError> {
        let Some(equal) = equalize::equalize(plain, seen) else { return Ok(None) };
        let activations = Activations::observe(&equal, images, tracer)?;
        Ok(Some(candidate(equal, activations, true)))
    };
    match options.equalize {
        Some(false) => Ok(candidate(plain, seen, false)),
        Some(true) => Ok(match equal(&plain, &seen)? {
            Some(equal) => equal,
            None => candidate(plain, seen, false),
        }),
        None => {
            let equal = equal(&plain, &seen)?;
            let plain = candidate(plain, seen, false);
            let Some(equal) = equal else { return Ok(plain) };
            let few = &images[..images.len().min(256)];
            let error = |q: &Quantized| evaluate::reconstruction_error(graph, &q.graph, few);
            Ok(if error(&equal)? < error(&plain)? { equal } else { plain })
        }
    }
}

impl Quantized {
    /// The nodes that were quantized, by number and kind: the possible arguments of [`Quantized::without`].
    pub fn nodes(&self) -> Vec<(usize, &'static str)> {
        build::weighted(&self.source)
    }

    /// Number of tensors whose scales the model provided.
    pub fn own_scales(&self) -> usize {
        self.options.scales.tensors.len()
    }

    /// The model with node `kept` in f32 and all others quantized, which shows the cost of quantizing that node.
    pub fn without(&self, kept: usize) -> Graph {
        build::build(&self.source, &self.activations, &self.options, &|node| node == kept).graph
    }
}
