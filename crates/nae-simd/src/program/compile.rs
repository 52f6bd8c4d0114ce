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
use crate::kernel::{Kernel, Negligible};
use crate::plane::Size;
use crate::pointwise::{Scaling, goes_back_by_output};
use crate::resample::{Alignment, Enlargement, PoolWindows};
use crate::threads;

/// The largest number of pixels of a plane: there are tables of the source of each pixel, of some tens of bytes per
/// pixel.
const LARGEST_PLANE: usize = 1 << 22;
/// The number of weights from which on both kernels of a layer are laid out at the same time.
const LARGE: usize = 1 << 14;
/// The largest size of these tables of all layers together, in bytes. A layer of a few bytes may need a large table.
const LARGEST_TABLES: u64 = 1 << 30;

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
    /// The tables of the places that each layer reads are too large.
    #[error(
        "layer {node}: with it, the tables of the pixels' places take {bytes} bytes, more than the limit of \
         {LARGEST_TABLES}"
    )]
    Tables {
        /// The number of the node with which they are.
        node: usize,
        /// The size of the tables up to this node, in bytes.
        bytes: u64,
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
    /// Weights that are too small are set to zero, since some processors are slow with subnormal numbers: for
    /// [training](Options::training) those below 2⁻³⁰ of the largest weight of their layer, which are far below the
    /// rounding error of a sum; otherwise only those below 2⁻¹⁰⁰.
    ///
    /// # Errors
    /// [`CompileError`] that names the unsupported layer, the layer with which the tables of the places of pixels exceed
    /// 2³⁰ bytes, or the fault of the graph. For training, the padding of a convolution must be the same at the top and
    /// at the bottom, and at the left and at the right.
    pub fn compile(graph: &Graph, options: &Options<'_>) -> Result<Self, CompileError> {
        let shapes = graph.shapes()?;
        if let Some(&Shape { height, width, .. }) = shapes.iter().find(|s| s.height * s.width > LARGEST_PLANE) {
            return Err(CompileError::Plane { width, height });
        }
        let graph_steps = graph.steps(options.fuses)?;
        // Before anything is allocated.
        let mut bytes = 0u64;
        for step in &graph_steps {
            bytes = bytes.saturating_add(table_bytes(step, options.trained.is_some()));
            if bytes > LARGEST_TABLES {
                return Err(CompileError::Tables { node: step.node, bytes });
            }
        }
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

/// The size of the tables of a step's pixels, in bytes.
fn table_bytes(step: &nae_graph::Step<'_>, both_ways: bool) -> u64 {
    let (from, to) = (size(step.from), size(step.output));
    let (reading, window, to) = match step.op {
        Op::Conv2d(Conv2d { kernel, stride, padding, .. }) => {
            (Reading::Convolution, window(*kernel, *stride, *padding, both_ways), to)
        }
        Op::ConvTranspose2d(ConvTranspose2d { kernel, stride, padding, .. }) => {
            (Reading::Transposed, window(*kernel, *stride, *padding, both_ways), to)
        }
        Op::Dense(_) => (Reading::Convolution, Ok(whole(from)), Size { h: 1, w: 1, c: to.len() }),
        Op::Resize { mode, .. } if repeats(*mode, from, to).is_none() => return Enlargement::table_bytes([to.h, to.w]),
        _ => return 0,
    };
    // The layer is refused for its window afterwards.
    let Ok(window) = window else { return 0 };
    let forward = Kernel::table_bytes(reading, window, from, to);
    if both_ways { forward.saturating_add(Kernel::table_bytes(reading.adjoint(), window, to, from)) } else { forward }
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
                        let window = window(*kernel, *stride, *padding, self.both_ways)?;
                        let weights = Weights { reading: Reading::Convolution, window, weights, bias };
                        self.kernel(weights, step.activation, [from, to], slots)?
                    }
                }
            }
            Op::ConvTranspose2d(ConvTranspose2d { kernel, stride, padding, weights, bias, .. }) => {
                let window = window(*kernel, *stride, *padding, self.both_ways)?;
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
                let weights = Weights { reading: Reading::Convolution, window: whole(from), weights, bias };
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
        let (wide, narrow) = match reading {
            Reading::Convolution => (from.c, made.c),
            Reading::Transposed => (made.c, from.c),
        };
        let slots = self.learned.map(|Learned { order, bias: has_bias, .. }| {
            let taps = Taps { kernel: window.kernel, wide, narrow };
            let weight = slots.kernel(taps, order);
            (weight, has_bias.then(|| slots.vector(bias.len())))
        });
        let negligible = if self.both_ways { Negligible::trained(weights) } else { Negligible::scored() };
        let kernel = |backward: bool| match backward {
            false => Kernel::new(reading, window, [from, made], negligible, bias, weight),
            true => {
                let weight = |o, i, r, c| weight(i, o, r, c);
                Kernel::new(reading.adjoint(), window, [made, from], negligible, &[], weight)
            }
        };
        // In training, weights are laid out for every update.
        let (forward, backward) = match self.both_ways {
            true if weights.len() >= LARGE => {
                let mut both = threads::map(vec![false, true], kernel);
                let backward = both.pop();
                (both.remove(0), backward)
            }
            both_ways => (kernel(false), both_ways.then(|| kernel(true))),
        };
        Ok(Operation::Kernel(Box::new(Layer { reading, window, forward, backward, slope, range: None, to, slots })))
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

/// How often a change of size repeats each row and column, if that is all it does.
fn repeats(mode: ResizeMode, from: Size, to: Size) -> Option<usize> {
    let factor = to.h / from.h.max(1);
    let repeats = factor > 0 && [to.h, to.w] == [from.h, from.w].map(|side| side * factor);
    (mode == ResizeMode::Nearest && repeats).then_some(factor)
}

fn resize(mode: ResizeMode, from: Size, to: Size) -> Result<Operation, &'static str> {
    if let Some(factor) = repeats(mode, from, to) {
        return Ok(Operation::Repeat(factor));
    }
    let alignment = match mode {
        ResizeMode::Nearest => Alignment::Nearest,
        ResizeMode::BilinearAlignCorners => Alignment::Corners,
        ResizeMode::BilinearHalfPixel => Alignment::HalfPixel,
        _ => return Err("changes the size in a way that is not known"),
    };
    Ok(Operation::Enlarge(Enlargement::new([from.h, from.w], [to.h, to.w], alignment)))
}

/// The window of a kernel. The rows and columns cut off or added at the bottom and at the right follow from the
/// output's size; but the gradient of the weights is computed for equal padding on both sides.
fn window(
    kernel: [usize; 2],
    [down, across]: [usize; 2],
    padding: Padding,
    both_ways: bool,
) -> Result<KernelWindow, &'static str> {
    if down != across {
        return Err("has another stride down than across");
    }
    if both_ways && (padding.top, padding.left) != (padding.bottom, padding.right) {
        return Err("has padding that differs between two sides, which has no way back");
    }
    Ok(KernelWindow { kernel, stride: down, padding: [padding.top, padding.left] })
}

/// The window of a dense layer: the whole plane.
const fn whole(from: Size) -> KernelWindow {
    KernelWindow { kernel: [from.h, from.w], stride: 1, padding: [0; 2] }
}

/// The side of a pool's windows, if they are adjacent squares.
fn blocks([rows, columns]: [usize; 2], stride: [usize; 2], padding: Padding) -> Option<usize> {
    (rows == columns && stride == [rows, rows] && padding == Padding::NONE).then_some(rows)
}

#[cfg(test)]
mod tests {
    use nae_core::Shape;

    use super::*;
    use crate::plane::Planes;
    use crate::program::WeightOrder;
    use crate::workspace::Workspace;

    fn conv(weights: &[f32], [out, input]: [usize; 2]) -> Conv2d {
        Conv2d::from_oihw(weights, [out, input, 1, 1], None).unwrap()
    }

    /// The largest weight says nothing about what another output is worth, nor another input: batch normalization that
    /// is folded into a layer leaves weights of very different sizes.
    #[test]
    fn scoring_keeps_small_weights_beside_large_ones() {
        let scales = [1e12f32, 1.0, 1e-9, 1e6, 1e-3, 1e3, 1e-6, 1.0, 1e9];
        // Vectors run along the channels if there are many, and along the window if there are few.
        for channels in [9, 3] {
            let scales = &scales[..channels];
            let inverse: Vec<f32> = scales.iter().map(|scale| 1.0 / scale).collect();
            let mut graph = Graph::new(Shape::new(1, 2, 3));
            graph.push(conv(scales, [channels, 1]));
            graph.push(conv(&inverse, [1, channels]));
            for options in [Options::scoring(), Options::observing()] {
                let program = Program::compile(&graph, &options).unwrap();
                let image = [0.5, 0.25, 1.0, 0.75, 0.125, 0.0];
                let x = Planes::from_channels_first(&Workspace::default(), 1, program.input(), &image);
                for (found, value) in program.run(x).output.to_channels_first().iter().zip(image) {
                    let expected = channels as f32 * value;
                    assert!((found - expected).abs() <= 1e-5 * expected, "{found} {expected}");
                }
            }
        }
    }

    /// A file of 200 KB could ask for hundreds of gigabytes: the table of a convolution takes 16 bytes per pixel, that of
    /// an enlargement 32.
    #[test]
    fn the_tables_of_all_layers_are_bounded() {
        let refused = |graph: &Graph| match Program::compile(graph, &Options::scoring()) {
            Err(error @ CompileError::Tables { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let bytes = |graph: &Graph| -> u64 {
            graph.steps(|_| false).unwrap().iter().map(|step| table_bytes(step, false)).sum()
        };
        let mut graph = Graph::new(Shape::new(1, 2048, 2048));
        for _ in 0..15 {
            graph.push(conv(&[0.5], [1, 1]));
        }
        assert!(bytes(&graph) <= LARGEST_TABLES, "{}", bytes(&graph));
        graph.push(conv(&[0.5], [1, 1]));
        assert_eq!(
            refused(&graph),
            "layer 15: with it, the tables of the pixels' places take 1073743616 bytes, more than the limit of 1073741824"
        );
        let mut graph = Graph::new(Shape::new(1, 2, 2));
        for _ in 0..8 {
            graph.push(Op::Resize { height: 2048, width: 2048, mode: ResizeMode::BilinearHalfPixel });
        }
        assert_eq!(bytes(&graph), LARGEST_TABLES);
        // Repeated pixels need no table.
        graph.push(Op::Resize { height: 2048, width: 2048, mode: ResizeMode::Nearest });
        assert_eq!(bytes(&graph), LARGEST_TABLES);
        graph.push(Op::Resize { height: 1, width: 1, mode: ResizeMode::BilinearAlignCorners });
        assert!(refused(&graph).starts_with("layer 9: with it"), "{}", refused(&graph));
    }

    /// The phases of a transposed convolution are a table, too.
    #[test]
    fn strides_are_bounded() {
        let mut graph = Graph::new(Shape::new(1, 1, 1));
        let layer = ConvTranspose2d::from_iohw(&[1.0], [1, 1, 1, 1], None).unwrap();
        graph.push(layer.with_stride([1 << 40; 2]));
        let error = Program::compile(&graph, &Options::scoring()).unwrap_err();
        assert!(matches!(error, CompileError::Tables { node: 0, .. }), "{error}");
    }

    /// The gradient of the weights knows one padding for both sides.
    #[test]
    fn training_takes_equal_padding_only() {
        let (order, bias) = (WeightOrder::NarrowFirst, false);
        let learned = [Learned { node: 0, order, bias }];
        for (padding, taken) in [
            (Padding::all(1), true),
            (Padding { top: 1, left: 2, bottom: 1, right: 2 }, true),
            (Padding { bottom: 1, right: 1, ..Padding::NONE }, false),
            (Padding { top: 0, left: 1, bottom: 1, right: 1 }, false),
            (Padding { top: 1, left: 1, bottom: 1, right: 0 }, false),
        ] {
            let layer = Conv2d::from_oihw(&[0.5; 9], [1, 1, 3, 3], None).unwrap().with_padding(padding);
            let transposed = ConvTranspose2d::from_iohw(&[0.5; 9], [1, 1, 3, 3], None).unwrap().with_padding(padding);
            for op in [Op::from(layer), Op::from(transposed)] {
                let mut graph = Graph::new(Shape::new(1, 4, 5));
                graph.push(op);
                assert!(Program::compile(&graph, &Options::scoring()).is_ok());
                match Program::compile(&graph, &Options::training(&learned)) {
                    Ok(_) => assert!(taken, "{padding:?}"),
                    Err(error) => {
                        assert!(!taken && matches!(error, CompileError::Layer { node: 0, .. }), "{padding:?} {error}");
                    }
                }
            }
        }
    }
}
