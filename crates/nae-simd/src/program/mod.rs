//! A graph laid out for the processor: compiled once for a size of image, then run forward and backward.
//!
//! The same compiler serves scoring, training and the calibration of 8-bit models; [`Options`] selects one. Scoring
//! releases memory as soon as nothing reads it; training keeps the values that the backward pass needs in a [`Trace`].

mod backward;
mod compile;
mod forward;
mod gradients;
mod observer;

use nae_core::layer::Activation;
use nae_graph::TensorId;

pub use compile::CompileError;
pub use forward::{Reconstructed, Trace};
pub use gradients::{Gradients, SumPart, WeightOrder};
pub use observer::Observer;

use crate::depthwise::Depthwise;
use crate::group::GroupNorm;
use crate::plane::Size;
use crate::pointwise::Scaling;
use crate::resample::{Enlargement, PoolWindows};
use gradients::Slot;

/// A graph with its weights laid out. The [crate's page](crate) has an example.
#[derive(Debug)]
pub struct Program {
    input: Size,
    steps: Vec<Step>,
    latent: Option<TensorId>,
    slots: Vec<Slot>,
}

/// The purpose that a program is compiled for.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    fuses: fn(Activation) -> bool,
    /// Whether a clamp may become part of the layer before it.
    fuses_clamps: bool,
    trained: Option<&'a [Learned]>,
}

/// A node whose weights are learned: their gradients are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The node.
    pub node: usize,
    /// The order in which the gradient of its weights is given.
    pub order: WeightOrder,
    /// Whether its biases are learned, too.
    pub bias: bool,
}

impl Options<'static> {
    /// Forward only. Rectifiers and clamps are part of the layer before them.
    pub const fn scoring() -> Self {
        Self { fuses: is_rectifier, fuses_clamps: true, trained: None }
    }

    /// Forward only, with every node as a separate step, to observe the output of each ([`Program::observe`]).
    pub const fn observing() -> Self {
        Self { fuses: |_| false, fuses_clamps: false, trained: None }
    }
}

impl<'a> Options<'a> {
    /// Forward and backward; `learned` is in the order of the nodes.
    pub const fn training(learned: &'a [Learned]) -> Self {
        // With a negative slope, the output does not determine the sign of the input.
        let fuses = |activation| slope_of(activation).is_some_and(|slope| slope >= 0.0);
        Self { fuses, fuses_clamps: false, trained: Some(learned) }
    }
}

/// A step. Step k writes tensor k + 1; tensor 0 is the image.
#[derive(Debug)]
struct Step {
    input: TensorId,
    other: Option<TensorId>,
    operation: Operation,
    /// Tensors that nothing reads after this step, in scoring.
    last_read: Vec<TensorId>,
    /// Whether the step may overwrite its input, although training keeps the outputs of steps: nothing else reads it,
    /// and the backward pass does not need it.
    overwrites: bool,
    /// The slope of the rectifier within the step that writes this step's input, if this step is the only reader and
    /// propagates the gradient through that rectifier together with itself.
    gate: Option<f32>,
    /// Whether the only reader of this step does so for this step's rectifier.
    gated: bool,
}

/// The operation of a step.
#[derive(Debug)]
enum Operation {
    /// A layer with a kernel: a convolution, a transposed one, or a dense layer, which is a convolution whose kernel is
    /// the whole plane.
    Kernel(Box<kernel::Layer>),
    /// A convolution of each channel separately. Forward only.
    Depthwise(Box<Depthwise>),
    /// A factor and an offset for each channel. Forward only.
    Scale(Scaling),
    Rectify(f32),
    /// Clamping of every value to this range. Forward only.
    Clamp(f32, f32),
    /// Any other function of each value.
    Activation(Activation),
    /// Division by the norm, or by this number if that is greater.
    Normalize(f32),
    /// As `Normalize`, at each place separately. Forward only.
    NormalizePlaces(f32),
    /// Shares of exp(x) at each place.
    Softmax,
    GroupNorm(Box<GroupNorm>, Option<[usize; 2]>),
    /// The largest value, or the mean, of adjacent blocks.
    MaxPool(usize),
    AveragePool(usize),
    /// As above, for windows that may overlap or exceed the edge; the flag is whether padding counts. Forward only.
    MaxOf(PoolWindows),
    MeanOf(PoolWindows, bool),
    /// Each pixel repeated as a block of this many rows and columns.
    Repeat(usize),
    Enlarge(Enlargement),
    /// The same values under another shape, channels last; and channels first.
    Reshape(Size),
    ReshapeChannelsFirst(Size),
    Add,
    Multiply,
    /// The channels of both tensors. Forward only.
    Concatenate,
    Identity,
}

mod kernel {
    //! A layer with a kernel, laid out for both directions.

    use crate::correlate::correlate;
    use crate::geometry::{KernelWindow, Reading};
    use crate::gradient::weight_gradient;
    use crate::kernel::Kernel;
    use crate::plane::{Planes, Size};
    use crate::program::gradients::Gradients;
    use crate::sums::Finish;

    #[derive(Debug)]
    pub(super) struct Layer {
        pub(super) reading: Reading,
        pub(super) window: KernelWindow,
        pub(super) forward: Kernel,
        /// `None` if there is no backward pass.
        pub(super) backward: Option<Kernel>,
        /// Slope of the rectifier after the layer, if there is one.
        pub(super) slope: Option<f32>,
        /// The range that each value is clamped to, if a clamp and no rectifier follows the layer.
        pub(super) range: Option<[f32; 2]>,
        /// Shape of the output; that of a dense layer is reshaped to it in the same order.
        pub(super) to: Size,
        /// The slots for the gradients of weights and biases.
        pub(super) slots: Option<(usize, Option<usize>)>,
    }

    impl Layer {
        pub(super) fn forward(&self, x: &Planes) -> Planes {
            let finish = match (self.slope, self.range) {
                (Some(slope), _) => Finish::Rectify { slope },
                (None, Some([min, max])) => Finish::Clamp { min, max },
                (None, None) => Finish::Keep,
            };
            let mut output = correlate(x, &self.forward, finish);
            output.size = self.to;
            output
        }

        /// Returns the gradient at the input for that at the output; empty if there is no backward pass.
        pub(super) fn backward(&self, gradient: &Planes, finish: Finish<'_>) -> Planes {
            self.backward.as_ref().map_or_else(Planes::default, |kernel| correlate(gradient, kernel, finish))
        }

        /// Accumulates the gradients of weights and biases for `input` and the gradient at the output.
        pub(super) fn weights(&self, input: &Planes, gradient: &Planes, gradients: &mut Gradients) {
            let Some((weight, bias)) = self.slots else { return };
            // The plane that contains the windows is the larger of the two.
            let (wide, narrow) = match self.reading {
                Reading::Convolution => (input, gradient),
                Reading::Transposed => (gradient, input),
            };
            let once = [wide.size.h, wide.size.w] == self.window.kernel && self.window.padding == [0; 2];
            if once {
                gradients.defer(weight, wide, narrow);
            } else {
                weight_gradient(wide, narrow, self.window, gradients.of(weight));
            }
            if let Some(bias) = bias {
                let sums = gradients.of(bias);
                for pixel in gradient.data.chunks_exact(sums.len()) {
                    for (sum, g) in sums.iter_mut().zip(pixel) {
                        *sum += g;
                    }
                }
            }
        }
    }
}

impl Program {
    /// Rows, columns and channels of the image.
    pub const fn input(&self) -> Size {
        self.input
    }
}

/// The slope of a rectifier on its negative side; `None` for an activation that is not a rectifier.
const fn slope_of(activation: Activation) -> Option<f32> {
    match activation {
        Activation::Relu => Some(0.0),
        Activation::LeakyRelu { slope } => Some(slope),
        _ => None,
    }
}

const fn is_rectifier(activation: Activation) -> bool {
    slope_of(activation).is_some()
}
