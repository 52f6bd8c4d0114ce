//! The parser: from bytes to a [`Model`] that needs no further checks, in a `const fn`.

use super::check::{self, check};
use super::crc::crc32;
use super::error::ModelError;
use super::fields::{all_zero, f32_at, u16_at, u32_at};
use super::layer::Element;
use super::operators::Operators;
use super::preprocessing::{LengthError, Preprocessing, ResizeFilter};
use super::record::{Kind, Record};
use super::validate::{self, Tensor};
use super::{CHECKED_FROM, HEADER_LEN, MAGIC, MAX_LAYERS, MAX_VALUES, RECORD_LEN, VERSION};
use crate::Shape;
use crate::calibration::{self, CalibrationView};
use crate::density::Temperature;
use crate::energy::Energy;
use crate::quantization::Quantization;

/// A checked model, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    layers: &'a [[u8; RECORD_LEN]],
    parameters: &'a [u8],
    input: Shape,
    element: Element,
    latent: usize,
    latent_record: Option<Record>,
    arena_len: usize,
    operators: Operators,
    energy: Energy,
    preprocessing: Preprocessing,
    temperature: Temperature,
    log_normalizer: Option<f32>,
    target_false_positive_rate: Option<f32>,
    threshold: Option<f32>,
    calibration: Option<CalibrationView<'a>>,
}

impl<'a> Model<'a> {
    /// Checks the bytes of a `.nae` file and reads it in place. See the [format](super) for all
    /// that is checked. Time is linear in the file's length, plus the square of the number of
    /// layers.
    ///
    /// # Errors
    /// [`ModelError`] names the first thing that is wrong.
    pub const fn parse(bytes: &'a [u8]) -> Result<Self, ModelError> {
        let (header, body) = check!(split_header(bytes));
        let layer_count = u32_at(header, 20);
        let (count, table_len) = (u32_at(header, 24), u32_at(header, 28));
        let (parameter_count, arena_len) = (u32_at(header, 32), u32_at(header, 36));
        if layer_count == 0 || layer_count > MAX_LAYERS {
            return Err(ModelError::LayerCount);
        }
        if count > calibration::MAX_COUNT || table_len != calibration::table_len(count as u32) {
            return Err(ModelError::Calibration);
        }
        if arena_len > MAX_VALUES {
            return Err(ModelError::ArenaLength);
        }
        let layers_len = layer_count * RECORD_LEN;
        let expected = layers_len + table_len * 4;
        // Both sides are below 2^32: the table and layers are short, the file's length is known.
        if expected > body.len() || parameter_count != (body.len() - expected) / 4 {
            return Err(ModelError::Length);
        }
        let Some((layers, rest)) = body.split_at_checked(layers_len) else {
            return Err(ModelError::Length);
        };
        let Some((table, parameters)) = rest.split_at_checked(table_len * 4) else {
            return Err(ModelError::Length);
        };
        if !parameters.len().is_multiple_of(4) {
            return Err(ModelError::Length);
        }
        let (layers, _) = layers.as_chunks();
        let (table, _) = table.as_chunks();

        let input = Shape::new(u32_at(header, 40), u32_at(header, 44), u32_at(header, 48));
        if validate::volume(input).is_none() {
            return Err(ModelError::InputShape);
        }
        let latent = u32_at(header, 52);
        if latent > layer_count {
            return Err(ModelError::Latent);
        }
        let settings = check!(Settings::decode(header, count));
        let image = Tensor { shape: input, element: settings.element };
        let operators = check!(check::layers(layers, image, latent, parameters, arena_len));
        let latent_record = check!(check::outputs(layers, image, latent));
        Ok(Self {
            layers,
            parameters,
            input,
            element: settings.element,
            latent,
            latent_record,
            arena_len,
            operators: operators.with(match settings.element {
                Element::F32 => Operators::energy(settings.energy),
                Element::I8(_) => Operators::energy_i8(settings.energy),
            }),
            energy: settings.energy,
            preprocessing: settings.preprocessing,
            temperature: settings.temperature,
            log_normalizer: settings.log_normalizer,
            target_false_positive_rate: settings.rate,
            threshold: settings.threshold,
            calibration: check!(check_calibration(count as u32, table)),
        })
    }

    /// Shape of the image and of its reconstruction.
    pub const fn input_shape(&self) -> Shape {
        self.input
    }

    /// Shape of the latent code, when the model has marked it.
    pub const fn latent_shape(&self) -> Option<Shape> {
        match self.latent_record {
            Some(record) => Some(record.output),
            None => None,
        }
    }

    /// Scale and zero point of the image, when it is 8-bit. The engine takes it by
    /// [`run_i8`](crate::engine::Engine::run_i8) then.
    pub const fn image_quantization(&self) -> Option<Quantization> {
        self.element.quantization()
    }

    /// Scale and zero point of the reconstruction, when it is 8-bit, as the image is then.
    pub fn reconstruction_quantization(&self) -> Option<Quantization> {
        self.layer(self.layers.len().wrapping_sub(1)).and_then(|layer| layer.element.quantization())
    }

    /// Scale and zero point of the latent code, when there is one and it is 8-bit.
    pub const fn latent_quantization(&self) -> Option<Quantization> {
        match self.latent_record {
            Some(record) => record.element.quantization(),
            None => None,
        }
    }

    /// Length of the arena the engine needs, in `f32`: words of four bytes, whatever they hold.
    pub const fn arena_len(&self) -> usize {
        self.arena_len
    }

    /// Operators the model uses.
    pub const fn operators(&self) -> Operators {
        self.operators
    }

    /// The energy.
    pub const fn energy(&self) -> Energy {
        self.energy
    }

    /// What to do to an image first.
    pub const fn preprocessing(&self) -> Preprocessing {
        self.preprocessing
    }

    /// Turns the bytes of an image into the 8-bit values of a model whose image is 8-bit: HWC in,
    /// HWC out. Byte by byte as [`Preprocessing`] and [`Quantization::quantize`] have it; where
    /// a byte is just shifted by 128, as in models quantised for the range `[0, 1]`, no
    /// floating point is used.
    ///
    /// # Errors
    /// [`LengthError`] when the lengths differ or the model's image is not 8-bit; nothing is
    /// written then.
    pub fn quantize_bytes(&self, bytes: &[u8], image: &mut [i8]) -> Result<(), LengthError> {
        let Some(quantization) = self.image_quantization() else {
            return Err(LengthError);
        };
        if bytes.len() != image.len() {
            return Err(LengthError);
        }
        let preprocessing = self.preprocessing;
        // An affine map that is right at both ends and has steps of one is right everywhere.
        let ends = [0, 255].map(|byte| quantization.quantize(preprocessing.value(byte)));
        let is_shift = preprocessing.low() == 0.0 && ends == [-128, 127] && quantization.zero_point() == -128;
        for (value, byte) in image.iter_mut().zip(bytes) {
            *value = if is_shift { (byte ^ 0x80) as i8 } else { quantization.quantize(preprocessing.value(*byte)) };
        }
        Ok(())
    }

    /// Temperature T of the density exp(−E/T)/Ω.
    pub const fn temperature(&self) -> Temperature {
        self.temperature
    }

    /// log Ω, when known.
    pub const fn log_normalizer(&self) -> Option<f32> {
        self.log_normalizer
    }

    /// The false-positive rate that the threshold is for.
    pub const fn target_false_positive_rate(&self) -> Option<f32> {
        self.target_false_positive_rate
    }

    /// The energy above which the verdict is an anomaly.
    pub const fn threshold(&self) -> Option<f32> {
        self.threshold
    }

    /// Calibration from held-out normal data.
    pub const fn calibration(&self) -> Option<CalibrationView<'a>> {
        self.calibration
    }

    /// Number of layers.
    pub const fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// Bytes of weights, biases, multipliers and tables.
    pub const fn parameter_bytes(&self) -> usize {
        self.parameters.len()
    }

    /// Number of weights and biases, each layer's counted.
    pub fn weight_count(&self) -> usize {
        self.layers().filter(|layer| layer.kind.has_weights()).map(|layer| layer.weights.len + layer.bias.len).sum()
    }

    /// Multiplications of one run by its convolutions and dense layers, those with padding
    /// included. A host that takes files from strangers can refuse what would run too long.
    pub fn multiply_accumulates(&self) -> u64 {
        self.layers()
            .filter(|layer| layer.kind.has_weights())
            .map(|layer| {
                let uses = match layer.kind {
                    Kind::Dense => 1,
                    _ => layer.output.height as u64 * layer.output.width as u64,
                };
                layer.weights.len as u64 * uses
            })
            .fold(0, u64::saturating_add)
    }

    /// The layers, in order.
    pub fn layers(&self) -> impl Iterator<Item = Record> + use<'a> {
        self.layers.iter().map(Record::read)
    }

    /// One layer.
    pub(crate) fn layer(&self, index: usize) -> Option<Record> {
        self.layers.get(index).map(Record::read)
    }

    pub(crate) const fn latent_record(&self) -> Option<Record> {
        self.latent_record
    }

    /// Number of the latent tensor, 0 if there is none.
    pub const fn latent_tensor(&self) -> usize {
        self.latent
    }

    pub(crate) const fn parameters(&self) -> &'a [u8] {
        self.parameters
    }

    pub(crate) const fn element(&self) -> Element {
        self.element
    }
}

/// Checks what frames the file and returns header and body.
const fn split_header(bytes: &[u8]) -> Result<(&[u8; HEADER_LEN], &[u8]), ModelError> {
    let Some((header, body)) = bytes.split_first_chunk() else {
        return Err(ModelError::Truncated);
    };
    match header.first_chunk() {
        Some(magic) if u64::from_le_bytes(*magic) == u64::from_le_bytes(MAGIC) => {}
        _ => return Err(ModelError::Magic),
    }
    if u16_at(header, 8) != VERSION as usize {
        return Err(ModelError::Version);
    }
    if u16_at(header, 10) != HEADER_LEN || u32_at(header, 12) != bytes.len() {
        return Err(ModelError::Length);
    }
    let Some((_, checked)) = bytes.split_at_checked(CHECKED_FROM) else {
        return Err(ModelError::Truncated);
    };
    if u32_at(header, 16) != crc32(checked) as usize {
        return Err(ModelError::Checksum);
    }
    if header[59] > 1 || !all_zero(header, if header[59] == 0 { 84 } else { 89 }, HEADER_LEN) {
        return Err(ModelError::Reserved);
    }
    Ok((header, body))
}

/// The part of the header that is not about sizes.
struct Settings {
    element: Element,
    energy: Energy,
    preprocessing: Preprocessing,
    temperature: Temperature,
    log_normalizer: Option<f32>,
    rate: Option<f32>,
    threshold: Option<f32>,
}

impl Settings {
    const fn decode(header: &[u8; HEADER_LEN], count: usize) -> Result<Self, ModelError> {
        let element = match (header[59], Quantization::new(f32_at(header, 84), header[88] as i8)) {
            (0, _) => Element::F32,
            (_, Ok(quantization)) => Element::I8(quantization),
            (_, Err(_)) => return Err(ModelError::Quantization),
        };
        let (low, high) = (f32_at(header, 60), f32_at(header, 64));
        let Some(energy) = Energy::from_id(header[56]) else {
            return Err(ModelError::Energy);
        };
        if matches!(energy, Energy::Ssim) && !(low == 0.0 && high == 1.0 && matches!(element, Element::F32)) {
            return Err(ModelError::Energy);
        }
        let Some(filter) = ResizeFilter::from_id(header[57]) else {
            return Err(ModelError::Preprocessing);
        };
        let Ok(preprocessing) = Preprocessing::new(low, high, filter) else {
            return Err(ModelError::Preprocessing);
        };
        let flags = header[58];
        if flags > 3 {
            return Err(ModelError::Reserved);
        }
        let (log_normalizer, rate, threshold) = (f32_at(header, 72), f32_at(header, 76), f32_at(header, 80));
        let has_normalizer = flags & 1 != 0;
        if !log_normalizer.is_finite() || !has_normalizer && log_normalizer.to_bits() != 0 {
            return Err(ModelError::Temperature);
        }
        let Ok(temperature) = Temperature::new(f32_at(header, 68)) else {
            return Err(ModelError::Temperature);
        };
        let has_threshold = flags & 2 != 0;
        let valid = if has_threshold {
            count > 0 && threshold.is_finite() && rate > 0.0 && rate < 1.0
        } else {
            rate.to_bits() == 0 && threshold.to_bits() == 0
        };
        if !valid {
            return Err(ModelError::Calibration);
        }
        Ok(Self {
            element,
            energy,
            preprocessing,
            temperature,
            log_normalizer: if has_normalizer { Some(log_normalizer) } else { None },
            rate: if has_threshold { Some(rate) } else { None },
            threshold: if has_threshold { Some(threshold) } else { None },
        })
    }
}

const fn check_calibration(count: u32, table: &[[u8; 4]]) -> Result<Option<CalibrationView<'_>>, ModelError> {
    if count == 0 {
        return Ok(None);
    }
    let mut previous = f32::MIN;
    let mut i = 0;
    while i < table.len() {
        let value = f32::from_le_bytes(table[i]);
        if !value.is_finite() || value < previous {
            return Err(ModelError::Calibration);
        }
        previous = value;
        i += 1;
    }
    Ok(Some(CalibrationView::from_checked_bytes(count, table)))
}
