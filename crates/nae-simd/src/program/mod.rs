//! A graph laid out for the processor: compiled once for a size of image, then run forward, and back.
//!
//! The same compiler serves scoring, training and the calibration of 8-bit models; [`Options`] says which. Scoring gives
//! memory back as soon as nothing reads it; training keeps what the way back needs in a [`Trace`].

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

/// What a program is compiled for.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    fuses: fn(Activation) -> bool,
    /// Whether a clamp may become part of the layer before it.
    fuses_clamps: bool,
    trained: Option<&'a [Learned]>,
}

/// A node whose weights are learned: their gradients are gathered.
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
    /// Forward alone. Rectifiers and clamps are part of the layer before them.
    pub const fn scoring() -> Self {
        Self { fuses: is_rectifier, fuses_clamps: true, trained: None }
    }

    /// Forward alone, every node a step of its own: to look at what each of them gives ([`Program::observe`]).
    pub const fn observing() -> Self {
        Self { fuses: |_| false, fuses_clamps: false, trained: None }
    }
}

impl<'a> Options<'a> {
    /// Forward and back; `learned` in the order of the nodes.
    pub const fn training(learned: &'a [Learned]) -> Self {
        // With a negative slope, the output does not tell the sign of the input.
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
    /// Tensors that nothing reads after it, in scoring.
    last_read: Vec<TensorId>,
    /// Whether it may overwrite its input, although training keeps what steps write: nothing else reads it, and the way
    /// back does without it.
    overwrites: bool,
    /// The slope of the rectifier within the step that writes its input, where this step is the only reader and takes
    /// the gradient back through that rectifier together with itself.
    gate: Option<f32>,
    /// Whether its only reader does so for it.
    gated: bool,
}

/// What a step does.
#[derive(Debug)]
enum Operation {
    /// A layer with a kernel: a convolution, a transposed one, or a dense layer, which is a convolution whose kernel is
    /// the whole plane.
    Kernel(Box<kernel::Layer>),
    /// A convolution of each channel by itself. Forward alone.
    Depthwise(Box<Depthwise>),
    /// Each channel by itself, times a factor. Forward alone.
    Scale(Scaling),
    Rectify(f32),
    /// Every value into this range. Forward alone.
    Clamp(f32, f32),
    /// Any other function of each value.
    Activation(Activation),
    /// Division by the norm, or by this where that is greater.
    Normalize(f32),
    /// The same in each place. Forward alone.
    NormalizePlaces(f32),
    /// Shares of exp(x) in each place.
    Softmax,
    GroupNorm(Box<GroupNorm>, Option<[usize; 2]>),
    /// The largest, or the mean, of blocks side by side.
    MaxPool(usize),
    AveragePool(usize),
    /// The same of windows that may overlap or hang over the edge, and whether padding counts. Forward alone.
    MaxOf(PoolWindows),
    MeanOf(PoolWindows, bool),
    /// Each pixel as a block of so many by so many.
    Repeat(usize),
    Enlarge(Enlargement),
    /// The same values, channels last, under another shape; and channels first.
    Reshape(Size),
    ReshapeChannelsFirst(Size),
    Add,
    Multiply,
    /// The channels of both. Forward alone.
    Concatenate,
    Identity,
}

mod kernel {
    //! A layer with a kernel, laid out both ways.

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
        /// `None` where there is no way back.
        pub(super) backward: Option<Kernel>,
        /// Slope of the rectifier after it, where there is one.
        pub(super) slope: Option<f32>,
        /// What each value is brought into, where there is a clamp after it and no rectifier.
        pub(super) range: Option<[f32; 2]>,
        /// Shape of the output, which that of a dense layer becomes in the same order.
        pub(super) to: Size,
        /// Where gradients of weights and biases go.
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

        /// The gradient at the input for that at the output; empty where there is no way back.
        pub(super) fn backward(&self, gradient: &Planes, finish: Finish<'_>) -> Planes {
            self.backward.as_ref().map_or_else(Planes::default, |kernel| correlate(gradient, kernel, finish))
        }

        /// Gathers the gradients of weights and biases for `input` and the gradient at the output.
        pub(super) fn weights(&self, input: &Planes, gradient: &Planes, gradients: &mut Gradients) {
            let Some((weight, bias)) = self.slots else { return };
            // The planes that the windows lie in are the larger of the two.
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

/// The slope of a rectifier on its negative side; `None` for what is no rectifier.
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
