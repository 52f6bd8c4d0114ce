//! Runs a [`Model`] in the caller's arena: no allocation, no recursion, no panic. The arithmetic is in the kernels; the
//! parser has checked the model.

mod float;
mod int8;
mod tensor;

use crate::energy::{Energy, EnergyError};
use crate::layer::Element;
use crate::model::{Model, Operators, Record};
use crate::verdict::{Score, Verdict};
use core::fmt;
use tensor::{Image, Tensor};

/// An engine for one model. `OPERATORS` is the set of operators that are compiled in ([`Operators::bits`]); all
/// operators by default.
///
/// ```
/// use nae_core::{Shape, engine::Engine, model::Model};
/// use nae_graph::{Dense, Graph, emit};
/// // An "autoencoder" of two values that keeps the first only.
/// let mut graph = Graph::new(Shape::vector(2));
/// graph.push(Dense::from_out_in(&[1.0, 0.0, 0.0, 0.0], [2, 2], None).unwrap());
/// let file = emit(&graph).unwrap();
///
/// let model = Model::parse(&file).unwrap();
/// let engine = Engine::new(&model).unwrap();
/// let mut arena = vec![0.0; model.arena_len()];
/// let output = engine.run(&[0.5, 0.25], &mut arena).unwrap();
/// assert_eq!(output.reconstruction, [0.5, 0.0]);
/// assert_eq!(output.score.energy, 0.25 * 0.25 / 2.0);
/// ```
///
/// # Memory on Cortex-M3, M4, M7, M33, M35P, M55 and M85
/// The kernels and the parser read words from addresses that are not divisible by 4. Image, model and arena must therefore lie in
/// memory of type Normal: such a read faults in memory of type Device. External memory from 0xA000_0000 to 0xDFFF_FFFF
/// is of this type by default, and an MPU region can make any other memory so (often used for DMA buffers).
/// `UNALIGN_TRP` in the register `CCR` must be clear, as it is after reset.
#[derive(Clone, Copy, Debug)]
pub struct Engine<'m, const OPERATORS: u64 = { Operators::ALL.bits() }> {
    model: &'m Model<'m>,
    /// The words of the model's parameters; the layers define what each contains.
    parameters: &'m [u32],
}

/// The result of one run. The slices lie in the arena.
///
/// `T` is the type of the image's values: `f32`, or `i8` with the scale of
/// [`Model::reconstruction_quantization`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Output<'a, T = f32> {
    /// The energy, and the p-value if the model is calibrated.
    pub score: Score,
    /// The verdict by the model's threshold; `None` if the model has none.
    pub verdict: Option<Verdict>,
    /// The reconstruction, of the image's shape, HWC.
    pub reconstruction: &'a [T],
    /// The latent code, if the model has marked it.
    pub latent: Option<&'a [T]>,
}

/// The reason why an engine could not be made or run.
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
    /// The model takes 8-bit images and was given `f32`, or the reverse.
    ImageType,
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
            Self::ImageType => "the model takes 8-bit images and was given f32, or the reverse",
            Self::ArenaLength => "the arena is shorter than the model needs",
            Self::NonFiniteImage => "a value of the image is NaN or infinite",
            Self::NonFiniteResult => "the reconstruction or its energy is not finite",
        })
    }
}

impl core::error::Error for EngineError {}

impl<'m> Engine<'m> {
    /// Returns an engine with all operators, for models that arrive at run time.
    ///
    /// # Errors
    /// [`EngineError::Alignment`] or [`EngineError::Endianness`], if the model or the target does not allow running.
    pub fn new(model: &'m Model<'m>) -> Result<Self, EngineError> {
        Self::with_operators(model)
    }
}

impl<'m, const OPERATORS: u64> Engine<'m, OPERATORS> {
    /// Returns an engine with the operators of its type only.
    ///
    /// # Errors
    /// [`EngineError::Alignment`], [`EngineError::Endianness`] or [`EngineError::Operators`], if the model, the target
    /// or the set of operators does not allow running.
    pub fn with_operators(model: &'m Model<'m>) -> Result<Self, EngineError> {
        if cfg!(target_endian = "big") {
            return Err(EngineError::Endianness);
        }
        if !Operators::from_bits(OPERATORS).contains(model.operators()) {
            return Err(EngineError::Operators);
        }
        let parameters = bytemuck::try_cast_slice(model.parameters()).map_err(|_| EngineError::Alignment)?;
        Ok(Self { model, parameters })
    }

    /// The model that the engine runs.
    pub const fn model(&self) -> &'m Model<'m> {
        self.model
    }

    /// Reconstructs and scores one image: HWC, in the range of the model's
    /// [`Preprocessing`](crate::model::Preprocessing). `arena` needs [`Model::arena_len`] values or more; its previous
    /// contents do not matter.
    ///
    /// # Errors
    /// [`EngineError`] if a length does not fit, the model takes 8-bit images ([`run_i8`](Self::run_i8)), or the image
    /// or the result is not finite.
    pub fn run<'a>(&self, image: &[f32], arena: &'a mut [f32]) -> Result<Output<'a>, EngineError> {
        if self.model.image_quantization().is_some() {
            return Err(EngineError::ImageType);
        }
        if !image.iter().all(|v| v.is_finite()) {
            return Err(EngineError::NonFiniteImage);
        }
        let last = self.layers(image.len(), Image { f32: image, i8: &[] }, arena)?;
        let arena = &*arena;
        let reconstruction = last.values(arena);
        // Only overflow gives a reconstruction or an energy that is not finite.
        let energy = self.energy(image, reconstruction).map_err(|_| EngineError::NonFiniteResult)?;
        Ok(self.output(energy, reconstruction, arena))
    }

    /// As [`run`](Self::run), for models whose image is 8-bit: HWC, with the scale of [`Model::image_quantization`].
    /// [`Model::quantize_bytes`] converts the bytes of a camera to such values.
    ///
    /// The energy is an exact sum, rounded twice (to `f32`, then in the division by the number of values), and the same
    /// on every target.
    ///
    /// # Errors
    /// [`EngineError`] if a length does not fit, the model takes `f32`, or a layer of `f32` overflows.
    ///
    /// ```
    /// use nae_core::{Shape, engine::Engine, layer::Element, model::Model, quantization::Quantization};
    /// use nae_graph::{Graph, Int8Layer, Int8Operation, emit};
    /// // An "autoencoder" of images of two bytes that keeps the first bit of each.
    /// let scale = Quantization::new(1.0 / 255.0, -128).unwrap();
    /// let first_bit = (0..256).map(|byte| if byte < 128 { -128 } else { 127 }).collect();
    /// let mut graph = Graph::new(Shape::vector(2));
    /// graph.element = Element::I8(scale);
    /// graph.push(Int8Layer::new(Int8Operation::Table(first_bit), scale));
    /// let file = emit(&graph).unwrap();
    ///
    /// let model = Model::parse(&file).unwrap();
    /// let mut arena = vec![0.0; model.arena_len()];
    /// let mut image = [0; 2];
    /// model.quantize_bytes(&[255, 51], &mut image).unwrap();
    /// let output = Engine::new(&model).unwrap().run_i8(&image, &mut arena).unwrap();
    /// assert_eq!(output.reconstruction, [127, -128]);
    /// assert!((output.score.energy - 0.2 * 0.2 / 2.0).abs() < 1e-8);
    /// ```
    pub fn run_i8<'a>(&self, image: &[i8], arena: &'a mut [f32]) -> Result<Output<'a, i8>, EngineError> {
        let Some(quantization) = self.model.image_quantization() else {
            return Err(EngineError::ImageType);
        };
        let last = self.layers(image.len(), Image { f32: &[], i8: image }, arena)?;
        let arena = &*arena;
        let reconstruction = last.values(arena);
        // The last layer is 8-bit, as the image is.
        let to = last.element.quantization().unwrap_or(quantization);
        let energy = match self.model.energy() {
            Energy::L1 if Self::has(Operators::energy_i8(Energy::L1)) => {
                Energy::L1.evaluate_i8((image, quantization), (reconstruction, to))
            }
            _ if Self::has(Operators::energy_i8(Energy::SquaredL2)) => {
                Energy::SquaredL2.evaluate_i8((image, quantization), (reconstruction, to))
            }
            _ => Err(EnergyError::NonFinite),
        };
        let energy = energy.map_err(|_| EngineError::NonFiniteResult)?;
        Ok(self.output(energy, reconstruction, arena))
    }

    /// Runs all layers; returns the tensor that the last one has written.
    fn layers(&self, len: usize, image: Image<'_>, arena: &mut [f32]) -> Result<Tensor, EngineError> {
        if len != self.model.input_shape().len() {
            return Err(EngineError::ImageLength);
        }
        let arena = arena.get_mut(..self.model.arena_len()).ok_or(EngineError::ArenaLength)?;
        let mut last = Tensor::new(self.model, 0);
        for index in 0..self.model.layer_count() {
            // The record was decoded when the model was parsed, so this does not fail.
            let Some(layer) = self.model.layer(index, const { Operators::from_bits(OPERATORS).kinds() }) else {
                break;
            };
            let source = Tensor::new(self.model, layer.input);
            match layer.element {
                Element::F32 => self.step_f32(&layer, source, image, arena),
                Element::I8(_) => self.step_i8(&layer, source, image, arena)?,
            }
            last = Tensor::of(&layer);
        }
        Ok(last)
    }

    fn output<'a, T: tensor::Value>(&self, energy: f32, reconstruction: &'a [T], arena: &'a [f32]) -> Output<'a, T> {
        let values = |layer: Record| Tensor::of(&layer).values(arena);
        Output {
            score: Score {
                energy,
                p_value: self.model.calibration().and_then(|calibration| calibration.p_value(energy).ok()),
            },
            verdict: self.model.threshold().map(|threshold| Verdict::of(energy, threshold)),
            reconstruction,
            latent: self.model.latent_record().map(values),
        }
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
}
