//! Compiles a graph to a program: chooses the operation of each layer, and the steps that share memory or a pass.

use nae_core::Shape;
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_graph::readers;
use nae_graph::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, Graph, GraphError, MaxPool2d, Op, Readers};

use super::gradients::{Slots, Taps};
use super::kernel::Layer;
use super::{Learned, Operation, Options, Program, Step, slope_of};
use crate::depthwise::Depthwise;
use crate::geometry::{KernelWindow, Reading};
use crate::group::GroupNorm;
use crate::kernel::Kernel;
use crate::plane::Size;
use crate::pointwise::{Scaling, goes_back_by_output};
use crate::resample::{Alignment, Enlargement, PoolWindows};

/// The largest number of pixels of a plane: there are tables of the source of each pixel, of some tens of bytes per
/// pixel.
const LARGEST_PLANE: usize = 1 << 22;

/// The reason why a graph has no program.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The graph is not valid.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A plane is too large.
    #[error("planes of {width}x{height} pixels are larger than the 2^22 that a program takes")]
    Plane {
        /// The width of the plane, in pixels.
        width: usize,
        /// The height of the plane, in pixels.
        height: usize,
    },
    /// A layer is not supported.
    #[error("layer {node} {reason}")]
    Layer {
        /// The number of its node.
        node: usize,
        /// The kind or property that is not supported.
        reason: &'static str,
    },
}

fn size(shape: Shape) -> Size {
    Size { h: shape.height, w: shape.width, c: shape.channels }
}

impl Program {
    /// Lays out the weights of `graph`.
    ///
    /// # Errors
    /// [`CompileError`] that names the unsupported layer, or the fault of the graph.
    pub fn compile(graph: &Graph, options: &Options<'_>) -> Result<Self, CompileError> {
        let shapes = graph.shapes()?;
        if let Some(&Shape { height, width, .. }) = shapes.iter().find(|s| s.height * s.width > LARGEST_PLANE) {
            return Err(CompileError::Plane { width, height });
        }
        let graph_steps = graph.steps(options.fuses)?;
        let readers = readers(&graph_steps);
        let mut slots = Slots::default();
        let mut steps: Vec<Step> = Vec::with_capacity(graph_steps.len());
        for step in &graph_steps {
            let learned = options.trained.and_then(|all| all.iter().find(|learned| learned.node == step.node));
            let context = Context { both_ways: options.trained.is_some(), learned: learned.copied() };
            let operation = context
                .operation(step, &mut slots)
                .map_err(|reason| CompileError::Layer { node: step.node, reason })?;
            steps.push(Step {
                input: step.input,
                other: step.other,
                operation,
                last_read: Vec::new(),
                overwrites: false,
                gate: None,
                gated: false,
            });
        }
        if options.fuses_clamps {
            fuse_clamps(&mut steps, &readers);
        }
        plan(&mut steps, &readers);
        let latent = graph_steps.iter().position(|step| step.is_latent).map(|step| step + 1);
        Ok(Self { input: size(graph.input()), steps, latent, slots: slots.into_slots() })
    }
}

/// Merges clamps into the layer before them, if nothing else reads that layer.
fn fuse_clamps(steps: &mut [Step], readers: &Readers) {
    for clamp in 0..steps.len() {
        let (Operation::Clamp(min, max), Some(writer)) = (&steps[clamp].operation, steps[clamp].input.checked_sub(1))
        else {
            continue;
        };
        let range = [*min, *max];
        if readers.only(writer + 1) != Some(clamp) {
            continue;
        }
        match &mut steps[writer].operation {
            Operation::Kernel(layer) if layer.slope.is_none() => layer.range = Some(range),
            Operation::Depthwise(layer) => layer.clamp_to(range),
            _ => continue,
        }
        steps[clamp].operation = Operation::Identity;
    }
}

/// Determines for each step which tensor it may overwrite, and where a gradient passes a rectifier together with the
/// next layer.
fn plan(steps: &mut [Step], readers: &Readers) {
    for tensor in 0..steps.len() {
        if let Some(last) = readers.last(tensor).and_then(|step| steps.get_mut(step)) {
            last.last_read.push(tensor);
        }
    }
    for reader in 0..steps.len() {
        let Some(writer) = steps[reader].input.checked_sub(1) else { continue };
        if readers.only(writer + 1) != Some(reader) {
            continue;
        }
        let slope = match &steps[writer].operation {
            Operation::Kernel(layer) => Some(layer.slope),
            _ => None,
        };
        let step = &mut steps[reader];
        match (&step.operation, slope) {
            (Operation::Kernel(_) | Operation::MaxPool(_), Some(Some(slope))) => {
                step.gate = Some(slope);
                steps[writer].gated = true;
            }
            // The backward pass of a kernel does not need its output.
            (Operation::Normalize(_), Some(None)) => step.overwrites = true,
            (Operation::Activation(activation), Some(None)) => step.overwrites = goes_back_by_output(*activation),
            _ => {}
        }
    }
}

struct Context {
    both_ways: bool,
    learned: Option<Learned>,
}

/// A layer's weights, `[output][row][column][input channel]`, and the direction in which its kernel is read.
struct Weights<'a> {
    reading: Reading,
    window: KernelWindow,
    weights: &'a [f32],
    bias: &'a [f32],
}

impl Context {
    /// Returns the operation of a step, or the reason why it is not supported.
    fn operation(&self, step: &nae_graph::Step<'_>, slots: &mut Slots) -> Result<Operation, &'static str> {
        let (from, to) = (size(step.from), size(step.output));
        Ok(match step.op {
            Op::Conv2d(Conv2d { kernel, stride, padding, weights, bias, .. }) => {
                let alone = [*kernel, *stride] == [[1, 1]; 2] && *padding == Padding::NONE;
                let scales = alone && !self.both_ways && step.activation == Activation::Identity;
                match scales.then(|| Scaling::of(weights, bias)).flatten() {
                    Some(scaling) => Operation::Scale(scaling),
                    None => {
                        let window = window(*kernel, *stride, *padding)?;
                        let weights = Weights { reading: Reading::Convolution, window, weights, bias };
                        self.kernel(weights, step.activation, [from, to], slots)?
                    }
                }
            }
            Op::ConvTranspose2d(ConvTranspose2d { kernel, stride, padding, weights, bias, .. }) => {
                let window = window(*kernel, *stride, *padding)?;
                let weights = Weights { reading: Reading::Transposed, window, weights, bias };
                self.kernel(weights, step.activation, [from, to], slots)?
            }
            Op::DepthwiseConv2d(_) | Op::Clamp { .. } | Op::L2NormalizePlaces { .. } | Op::Concatenate { .. }
                if self.both_ways =>
            {
                return Err(
                    "is a depthwise convolution, a clamp, a norm of places or a concatenation, which has no way back",
                );
            }
            Op::DepthwiseConv2d(layer) => Operation::Depthwise(Box::new(Depthwise::new(layer, to))),
            Op::Clamp { min, max } => Operation::Clamp(*min, *max),
            Op::Dense(Dense { weights, bias, .. }) => {
                let window = KernelWindow { kernel: [from.h, from.w], stride: 1, padding: [0; 2] };
                let weights = Weights { reading: Reading::Convolution, window, weights, bias };
                self.kernel(weights, step.activation, [from, to], slots)?
            }
            Op::MaxPool2d(MaxPool2d { kernel, stride, padding }) => match blocks(*kernel, *stride, *padding) {
                Some(side) => Operation::MaxPool(side),
                None => Operation::MaxOf(self.windows(*kernel, *stride, *padding, to)?),
            },
            Op::AveragePool2d(AveragePool2d { kernel, stride, padding, count_include_padding }) => {
                match blocks(*kernel, *stride, *padding) {
                    Some(side) => Operation::AveragePool(side),
                    None => Operation::MeanOf(self.windows(*kernel, *stride, *padding, to)?, *count_include_padding),
                }
            }
            Op::Resize { mode, .. } => resize(*mode, from, to)?,
            Op::Activation(activation) => match (slope_of(*activation), activation) {
                (Some(slope), _) => Operation::Rectify(slope),
                (None, Activation::Identity) => Operation::Identity,
                (None, activation) => Operation::Activation(*activation),
            },
            Op::L2Normalize { epsilon } => Operation::Normalize(*epsilon),
            Op::L2NormalizePlaces { epsilon } => Operation::NormalizePlaces(*epsilon),
            Op::Softmax => Operation::Softmax,
            Op::GroupNormalize(norm) => {
                let (scale, shift) = (norm.scale.clone(), norm.shift.clone());
                let slots = self.learned.map(|_| [slots.vector(scale.len()), slots.vector(shift.len())]);
                let norm = GroupNorm { groups: norm.groups, epsilon: norm.epsilon, scale, shift };
                Operation::GroupNorm(Box::new(norm), slots)
            }
            Op::Reshape(_) => Operation::Reshape(to),
            Op::ReshapeChannelsFirst(_) => Operation::ReshapeChannelsFirst(to),
            Op::Add { .. } => Operation::Add,
            Op::Multiply { .. } => Operation::Multiply,
            Op::Concatenate { .. } => Operation::Concatenate,
            _ => return Err("is of 8 bits"),
        })
    }

    fn kernel(
        &self,
        Weights { reading, window, weights, bias }: Weights<'_>,
        activation: Activation,
        [from, to]: [Size; 2],
        slots: &mut Slots,
    ) -> Result<Operation, &'static str> {
        let slope = match slope_of(activation) {
            Some(slope) if slope < 0.0 && self.both_ways => {
                return Err("has a rectifier within it whose slope is negative, which has no way back");
            }
            None if activation != Activation::Identity => {
                return Err("has an activation within it that is no rectifier: make it a layer of its own");
            }
            slope => slope,
        };
        let [rows, columns] = window.kernel;
        // A dense layer's outputs are consecutive, whatever shape they are given afterwards.
        let made = if bias.len() == to.c { to } else { Size { h: 1, w: 1, c: to.len() } };
        let weight = |o: usize, i: usize, r: usize, c: usize| weights[((o * rows + r) * columns + c) * from.c + i];
        let (wide, narrow, other) = match reading {
            Reading::Convolution => (from.c, made.c, Reading::Transposed),
            Reading::Transposed => (made.c, from.c, Reading::Convolution),
        };
        let slots = self.learned.map(|Learned { order, bias: has_bias, .. }| {
            let taps = Taps { kernel: window.kernel, wide, narrow };
            let weight = slots.kernel(taps, order);
            (weight, has_bias.then(|| slots.vector(bias.len())))
        });
        let backward = || Kernel::new(other, window, made, from, &[], |o, i, r, c| weight(i, o, r, c));
        Ok(Operation::Kernel(Box::new(Layer {
            reading,
            window,
            forward: Kernel::new(reading, window, from, made, bias, weight),
            backward: self.both_ways.then(backward),
            slope,
            range: None,
            to,
            slots,
        })))
    }

    /// Returns windows that are not adjacent blocks; they have no backward pass.
    fn windows(
        &self,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: Padding,
        to: Size,
    ) -> Result<PoolWindows, &'static str> {
        if self.both_ways {
            return Err("pools windows that are no blocks side by side, which has no way back");
        }
        Ok(PoolWindows { kernel, stride, padding: [padding.top, padding.left], to: [to.h, to.w] })
    }
}

fn resize(mode: ResizeMode, from: Size, to: Size) -> Result<Operation, &'static str> {
    let alignment = match mode {
        ResizeMode::Nearest => {
            let factor = to.h / from.h.max(1);
            if factor > 0 && [to.h, to.w] == [from.h, from.w].map(|side| side * factor) {
                return Ok(Operation::Repeat(factor));
            }
            Alignment::Nearest
        }
        ResizeMode::BilinearAlignCorners => Alignment::Corners,
        ResizeMode::BilinearHalfPixel => Alignment::HalfPixel,
        _ => return Err("changes the size in a way that is not known"),
    };
    Ok(Operation::Enlarge(Enlargement::new([from.h, from.w], [to.h, to.w], alignment)))
}

/// The window of a kernel. The rows and columns cut off or added at the bottom and at the right follow from the
/// output's size.
fn window(kernel: [usize; 2], [down, across]: [usize; 2], padding: Padding) -> Result<KernelWindow, &'static str> {
    if down != across {
        return Err("has another stride down than across");
    }
    Ok(KernelWindow { kernel, stride: down, padding: [padding.top, padding.left] })
}

/// The side of a pool's windows, if they are adjacent squares.
fn blocks([rows, columns]: [usize; 2], stride: [usize; 2], padding: Padding) -> Option<usize> {
    (rows == columns && stride == [rows, rows] && padding == Padding::NONE).then_some(rows)
}
