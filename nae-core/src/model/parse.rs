//! The parser: from bytes to a [`Model`] that needs no further checks, in a `const fn`.

use super::crc::crc32;
use super::error::{LayerFault, ModelError};
use super::operators::Operators;
use super::preprocessing::{Preprocessing, ResizeFilter};
use super::record::{Kind, Record, all_zero, f32_at, u16_at, u32_at};
use super::{CHECKED_FROM, HEADER_LEN, MAGIC, MAX_LAYERS, MAX_VALUES, RECORD_LEN, VERSION, validate};
use crate::Shape;
use crate::calibration::{self, CalibrationView};
use crate::density::Temperature;
use crate::energy::Energy;

/// A checked model, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    layers: &'a [[u8; RECORD_LEN]],
    weights: &'a [u8],
    input: Shape,
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

/// `?` for `const fn`.
macro_rules! check {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
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
        let (weight_count, arena_len) = (u32_at(header, 32), u32_at(header, 36));
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
        if expected > body.len() || weight_count != (body.len() - expected) / 4 {
            return Err(ModelError::Length);
        }
        let (layers, rest) = body.split_at(layers_len);
        let (table, weights) = rest.split_at(table_len * 4);
        if !weights.len().is_multiple_of(4) {
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
        let operators = check!(check_layers(layers, input, latent, weight_count, arena_len));
        let last = check!(record(layers, layer_count - 1)).output;
        if last.channels != input.channels || last.height != input.height || last.width != input.width {
            return Err(ModelError::Reconstruction);
        }
        check!(check_finite(weights));

        let settings = check!(Settings::decode(header, count));
        Ok(Self {
            layers,
            weights,
            input,
            latent,
            latent_record: match latent {
                0 => None,
                _ => Some(check!(record(layers, latent - 1))),
            },
            arena_len,
            operators: operators.with(Operators::energy(settings.energy)),
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

    /// Length of the arena the engine needs, in `f32`.
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

    /// Number of weights and biases.
    pub const fn weight_count(&self) -> usize {
        self.weights.len() / 4
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
        // They decoded when the model was parsed.
        self.layers.iter().filter_map(|bytes| Record::decode(bytes).ok())
    }

    /// One layer.
    pub(crate) fn layer(&self, index: usize) -> Option<Record> {
        Record::decode(self.layers.get(index)?).ok()
    }

    pub(crate) const fn latent_record(&self) -> Option<Record> {
        self.latent_record
    }

    /// Number of the latent tensor, 0 if there is none.
    pub const fn latent_tensor(&self) -> usize {
        self.latent
    }

    pub(crate) const fn weights(&self) -> &'a [u8] {
        self.weights
    }
}

/// Checks what frames the file and returns header and body.
const fn split_header(bytes: &[u8]) -> Result<(&[u8], &[u8]), ModelError> {
    let Some((header, body)) = bytes.split_at_checked(HEADER_LEN) else {
        return Err(ModelError::Truncated);
    };
    let mut i = 0;
    while i < MAGIC.len() {
        if header[i] != MAGIC[i] {
            return Err(ModelError::Magic);
        }
        i += 1;
    }
    if u16_at(header, 8) != VERSION as usize {
        return Err(ModelError::Version);
    }
    if u16_at(header, 10) != HEADER_LEN || u32_at(header, 12) != bytes.len() {
        return Err(ModelError::Length);
    }
    let (_, checked) = bytes.split_at(CHECKED_FROM);
    if u32_at(header, 16) != crc32(checked) as usize {
        return Err(ModelError::Checksum);
    }
    if header[59] != 0 || !all_zero(header, 84, HEADER_LEN) {
        return Err(ModelError::Reserved);
    }
    Ok((header, body))
}

/// The part of the header that is not about sizes.
struct Settings {
    energy: Energy,
    preprocessing: Preprocessing,
    temperature: Temperature,
    log_normalizer: Option<f32>,
    rate: Option<f32>,
    threshold: Option<f32>,
}

impl Settings {
    const fn decode(header: &[u8], count: usize) -> Result<Self, ModelError> {
        let (low, high) = (f32_at(header, 60), f32_at(header, 64));
        let Some(energy) = Energy::from_id(header[56]) else {
            return Err(ModelError::Energy);
        };
        if matches!(energy, Energy::Ssim) && !(low == 0.0 && high == 1.0) {
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
            energy,
            preprocessing,
            temperature,
            log_normalizer: if has_normalizer { Some(log_normalizer) } else { None },
            rate: if has_threshold { Some(rate) } else { None },
            threshold: if has_threshold { Some(threshold) } else { None },
        })
    }
}

const fn record(layers: &[[u8; RECORD_LEN]], index: usize) -> Result<Record, ModelError> {
    match Record::decode(&layers[index]) {
        Ok(record) => Ok(record),
        Err(fault) => Err(fault_of(index, fault)),
    }
}

const fn fault_of(index: usize, fault: LayerFault) -> ModelError {
    ModelError::Layer { index: index as u16, fault }
}

/// Shape of a tensor that an earlier layer has written.
const fn shape_of(layers: &[[u8; RECORD_LEN]], input: Shape, tensor: usize) -> Result<Shape, ModelError> {
    if tensor == 0 {
        return Ok(input);
    }
    Ok(check!(record(layers, tensor - 1)).output)
}

/// Checks all layers and their use of the arena; returns the operators they need.
const fn check_layers(
    layers: &[[u8; RECORD_LEN]],
    input: Shape,
    latent: usize,
    weights: usize,
    arena: usize,
) -> Result<Operators, ModelError> {
    let mut operators = Operators::NONE;
    // The last layer that reads each tensor; the number of layers stands for the end.
    let mut last_read = [0u16; MAX_LAYERS + 1];
    let mut index = 0;
    while index < layers.len() {
        let layer = check!(record(layers, index));
        if layer.input > index || layer.other > index {
            return Err(fault_of(index, LayerFault::Tensor));
        }
        let shape = check!(shape_of(layers, input, layer.input));
        if matches!(layer.kind, Kind::Add) {
            let other = check!(shape_of(layers, input, layer.other));
            if other.channels != shape.channels || other.height != shape.height || other.width != shape.width {
                return Err(fault_of(index, LayerFault::Tensor));
            }
            last_read[layer.other] = index as u16;
        }
        last_read[layer.input] = index as u16;
        if let Err(fault) = validate::layer(&layer, shape, weights, arena) {
            return Err(fault_of(index, fault));
        }
        operators = operators.with(Operators::record(&layer));
        index += 1;
    }
    last_read[latent] = layers.len() as u16;
    last_read[layers.len()] = layers.len() as u16;

    let mut index = 1;
    while index < layers.len() {
        let writer = check!(record(layers, index));
        let mut tensor = 1;
        while tensor <= index {
            let written = check!(record(layers, tensor - 1));
            let read = last_read[tensor] as usize;
            // A tensor nobody reads has 0 here; it is dead once the next layer runs.
            if !validate::may_overwrite(&writer, index, tensor, &written, read) {
                return Err(fault_of(index, LayerFault::Overlap));
            }
            tensor += 1;
        }
        index += 1;
    }
    Ok(operators)
}

const fn check_finite(weights: &[u8]) -> Result<(), ModelError> {
    let (words, _) = weights.as_chunks();
    let mut i = 0;
    while i < words.len() {
        // An exponent of all ones is infinity or NaN. By bytes: fewer steps for the compiler.
        let [_, _, high, top] = words[i];
        if top & 0x7F == 0x7F && high >= 0x80 {
            return Err(ModelError::NonFiniteWeight);
        }
        i += 1;
    }
    Ok(())
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
