//! Runs a [`Model`] in the caller's arena: no allocation, no recursion, no panic. The arithmetic
//! is in the kernels; what may be run was settled by the parser.

use crate::Shape;
use crate::energy::{Energy, EnergyError};
use crate::kernels::{self, Parameters, Windows};
use crate::model::{Kind, Model, Operators, Record, Span};
use crate::verdict::{Score, Verdict};
use core::fmt;

/// An engine for one model. `OPERATORS` is the set of operators that are compiled in
/// ([`Operators::bits`]); all of them unless chosen.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use nae_core::{Shape, engine::Engine, model::{Model, writer::{Dense, Network, write}}};
/// // An "autoencoder" of two values that keeps the first only.
/// let mut network = Network::new(Shape::vector(2));
/// network.push(Dense::from_out_in(&[1.0, 0.0, 0.0, 0.0], [2, 2], None).unwrap());
/// let file = write(&network).unwrap();
///
/// let model = Model::parse(&file).unwrap();
/// let engine = Engine::new(&model).unwrap();
/// let mut arena = vec![0.0; model.arena_len()];
/// let output = engine.run(&[0.5, 0.25], &mut arena).unwrap();
/// assert_eq!(output.reconstruction, [0.5, 0.0]);
/// assert_eq!(output.score.energy, 0.25 * 0.25 / 2.0);
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Engine<'m, const OPERATORS: u32 = { Operators::ALL.bits() }> {
    model: &'m Model<'m>,
    weights: &'m [f32],
}

/// What one run gives. The slices lie in the arena.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Output<'a> {
    /// Energy, and the p-value when the model is calibrated.
    pub score: Score,
    /// The verdict by the model's threshold; `None` when it has none.
    pub verdict: Option<Verdict>,
    /// The reconstruction, of the image's shape, HWC.
    pub reconstruction: &'a [f32],
    /// The latent code, when the model has marked it.
    pub latent: Option<&'a [f32]>,
}

/// Why an engine could not be made or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum EngineError {
    /// The model does not lie at an address divisible by 4.
    Alignment,
    /// The target is big-endian, the file little-endian.
    Endianness,
    /// The model needs operators that this engine was built without.
    Operators,
    /// The image has another length than the model's input.
    ImageLength,
    /// The arena is shorter than [`Model::arena_len`].
    ArenaLength,
    /// A value of the image is NaN or infinite.
    NonFiniteImage,
    /// The reconstruction or its energy passed the range of `f32`.
    NonFiniteResult,
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alignment => "the model's address is not divisible by 4",
            Self::Endianness => "the target is big-endian; models are little-endian",
            Self::Operators => "the model needs operators this engine was built without",
            Self::ImageLength => "the image has another length than the model's input",
            Self::ArenaLength => "the arena is shorter than the model needs",
            Self::NonFiniteImage => "a value of the image is NaN or infinite",
            Self::NonFiniteResult => "the reconstruction or its energy is not finite",
        })
    }
}

impl core::error::Error for EngineError {}

impl<'m> Engine<'m> {
    /// An engine with all operators, for models that arrive at run time.
    ///
    /// # Errors
    /// [`EngineError::Alignment`] or [`EngineError::Endianness`].
    pub fn new(model: &'m Model<'m>) -> Result<Self, EngineError> {
        Self::with_operators(model)
    }
}

impl<'m, const OPERATORS: u32> Engine<'m, OPERATORS> {
    /// An engine with the operators of its type only.
    ///
    /// # Errors
    /// [`EngineError::Alignment`], [`EngineError::Endianness`] or [`EngineError::Operators`].
    pub fn with_operators(model: &'m Model<'m>) -> Result<Self, EngineError> {
        if cfg!(target_endian = "big") {
            return Err(EngineError::Endianness);
        }
        if !Operators::from_bits(OPERATORS).contains(model.operators()) {
            return Err(EngineError::Operators);
        }
        let weights = bytemuck::try_cast_slice(model.weights()).map_err(|_| EngineError::Alignment)?;
        Ok(Self { model, weights })
    }

    /// The model.
    pub const fn model(&self) -> &'m Model<'m> {
        self.model
    }

    /// Reconstructs and scores one image: HWC, in the range of the model's
    /// [`Preprocessing`](crate::model::Preprocessing). `arena` needs [`Model::arena_len`] values
    /// or more; what it holds before does not matter.
    ///
    /// # Errors
    /// [`EngineError`] for lengths that do not fit, an image that is not finite, and a result that
    /// is not.
    pub fn run<'a>(&self, image: &[f32], arena: &'a mut [f32]) -> Result<Output<'a>, EngineError> {
        let shape = self.model.input_shape();
        if image.len() != shape.len() {
            return Err(EngineError::ImageLength);
        }
        let arena = arena.get_mut(..self.model.arena_len()).ok_or(EngineError::ArenaLength)?;
        if !image.iter().all(|v| v.is_finite()) {
            return Err(EngineError::NonFiniteImage);
        }
        let mut last = None;
        for index in 0..self.model.layer_count() {
            // It decoded when the model was parsed.
            let Some(layer) = self.model.layer(index) else {
                break;
            };
            self.step(&layer, image, arena);
            last = Some(layer);
        }
        let arena = &*arena;
        let values = |layer: Record| Tensor::of(&layer).arena_values(arena);
        let reconstruction = last.map(values).unwrap_or_default();
        // Only overflow gives a reconstruction or an energy that is not finite.
        let energy = self.energy(image, reconstruction).map_err(|_| EngineError::NonFiniteResult)?;
        Ok(Output {
            score: Score {
                energy,
                p_value: self.model.calibration().and_then(|calibration| calibration.p_value(energy).ok()),
            },
            verdict: self.model.threshold().map(|threshold| Verdict::of(energy, threshold)),
            reconstruction,
            latent: self.model.latent_record().map(values),
        })
    }

    const fn has(operators: Operators) -> bool {
        Operators::from_bits(OPERATORS).contains(operators)
    }

    fn energy(&self, image: &[f32], reconstruction: &[f32]) -> Result<f32, EnergyError> {
        let shape = self.model.input_shape();
        match self.model.energy() {
            Energy::L1 if Self::has(Operators::energy(Energy::L1)) => Energy::L1.evaluate(image, reconstruction, shape),
            Energy::Ssim if Self::has(Operators::energy(Energy::Ssim)) => {
                Energy::Ssim.evaluate(image, reconstruction, shape)
            }
            _ => Energy::SquaredL2.evaluate(image, reconstruction, shape),
        }
    }

    /// Runs one layer. The arms whose kind is not among `OPERATORS` are constants and vanish.
    fn step(&self, layer: &Record, image: &[f32], arena: &mut [f32]) {
        let source = self.tensor(layer.input);
        let target = Tensor::of(layer);
        let windows = Windows {
            input: source.shape,
            output: target.shape,
            kernel: layer.kernel,
            stride: layer.stride,
            padding: layer.padding,
        };
        let parameters = Parameters { weights: self.parameters(layer.weights), bias: self.parameters(layer.bias) };
        match layer.kind {
            Kind::Conv2d if Self::has(Operators::kind(Kind::Conv2d)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::conv2d(&windows, parameters, input, output);
            }
            Kind::ConvTranspose2d if Self::has(Operators::kind(Kind::ConvTranspose2d)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::conv_transpose2d(&windows, parameters, input, output);
            }
            Kind::Dense if Self::has(Operators::kind(Kind::Dense)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::dense(parameters, input, output);
            }
            Kind::MaxPool2d if Self::has(Operators::kind(Kind::MaxPool2d)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::max_pool2d(&windows, input, output);
            }
            Kind::AveragePool2d if Self::has(Operators::kind(Kind::AveragePool2d)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::average_pool2d(&windows, layer.mode == 1, input, output);
            }
            Kind::ResizeNearest if Self::has(Operators::kind(Kind::ResizeNearest)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::nearest(source.shape, target.shape, input, output);
            }
            Kind::ResizeBilinear if Self::has(Operators::kind(Kind::ResizeBilinear)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::bilinear(layer.mode == 1, source.shape, target.shape, input, output);
            }
            Kind::L2Normalize if Self::has(Operators::kind(Kind::L2Normalize)) => {
                let output = in_place(source, target, image, arena);
                kernels::l2_normalize(layer.epsilon, output);
            }
            Kind::Activation | Kind::Reshape => {
                in_place(source, target, image, arena);
            }
            Kind::Add if Self::has(Operators::kind(Kind::Add)) => {
                self.add(layer, source, target, image, arena);
            }
            // Not among the model's operators, so not in it.
            _ => {}
        }
        let output = target.arena_values_mut(arena);
        kernels::activate::<OPERATORS>(layer.activation, output);
    }

    fn add(&self, layer: &Record, source: Tensor, target: Tensor, image: &[f32], arena: &mut [f32]) {
        let other = self.tensor(layer.other);
        if source.is(target) {
            let (other, output) = apart(other, target, image, arena);
            kernels::add_in_place(output, other);
        } else {
            let (before, output, after) = target.split(arena);
            let input = source.outside(target, image, before, after);
            let other = other.outside(target, image, before, after);
            kernels::add(input, other, output);
        }
    }

    fn tensor(&self, index: usize) -> Tensor {
        let layer = index.checked_sub(1).and_then(|i| self.model.layer(i));
        match layer {
            Some(layer) => Tensor::of(&layer),
            None => Tensor::image(self.model.input_shape()),
        }
    }

    fn parameters(&self, span: Span) -> &'m [f32] {
        self.weights.get(span.start..).and_then(|rest| rest.get(..span.len)).unwrap_or_default()
    }
}

/// Where a tensor lies: in the arena, or in the caller's image.
#[derive(Clone, Copy)]
struct Tensor {
    shape: Shape,
    /// `None` for the image.
    offset: Option<usize>,
}

impl Tensor {
    const fn image(shape: Shape) -> Self {
        Self { shape, offset: None }
    }

    const fn of(layer: &Record) -> Self {
        Self { shape: layer.output, offset: Some(layer.offset) }
    }

    /// Whether both lie at the same place.
    fn is(self, other: Self) -> bool {
        self.offset == other.offset
    }

    fn arena_values(self, arena: &[f32]) -> &[f32] {
        arena.get(self.offset.unwrap_or(0)..).and_then(|rest| rest.get(..self.shape.len())).unwrap_or_default()
    }

    fn arena_values_mut(self, arena: &mut [f32]) -> &mut [f32] {
        self.split(arena).1
    }

    /// The arena before, in and after this tensor.
    fn split(self, arena: &mut [f32]) -> (&mut [f32], &mut [f32], &mut [f32]) {
        let start = self.offset.unwrap_or(0);
        let Some((before, rest)) = arena.split_at_mut_checked(start) else {
            return (&mut [], &mut [], &mut []);
        };
        match rest.split_at_mut_checked(self.shape.len()) {
            Some((output, after)) => (before, output, after),
            None => (&mut [], &mut [], &mut []),
        }
    }

    /// This tensor's values, given the arena before and after `target`, which it does not meet.
    fn outside<'a>(self, target: Self, image: &'a [f32], before: &'a [f32], after: &'a [f32]) -> &'a [f32] {
        let end = target.offset.unwrap_or(0) + target.shape.len();
        match self.offset {
            None => image,
            Some(offset) if offset >= end => Self { shape: self.shape, offset: Some(offset - end) }.arena_values(after),
            Some(_) => self.arena_values(before),
        }
    }
}

/// A layer's input and output where they do not meet.
fn apart<'a>(source: Tensor, target: Tensor, image: &'a [f32], arena: &'a mut [f32]) -> (&'a [f32], &'a mut [f32]) {
    let (before, output, after) = target.split(arena);
    (source.outside(target, image, before, after), output)
}

/// A layer's output holding its input, copied there if it is elsewhere.
fn in_place<'a>(source: Tensor, target: Tensor, image: &[f32], arena: &'a mut [f32]) -> &'a mut [f32] {
    if source.is(target) {
        return target.arena_values_mut(arena);
    }
    let (input, output) = apart(source, target, image, &mut *arena);
    for (value, x) in output.iter_mut().zip(input) {
        *value = *x;
    }
    target.arena_values_mut(arena)
}
