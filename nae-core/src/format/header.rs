//! The header of a file: the meaning of its 128 bytes, with parser and writer side by side.

use super::bytes::{all_zero, f32_at, put, put_f32, put_u16, put_u32, u16_at, u32_at};
use super::crc::crc32;
use super::{FieldRange, MAX_LAYERS, MAX_VALUES, ModelError, check};
use crate::Shape;
use crate::calibration::{self, Spacing};
use crate::contract::{Contract, Preprocessing, ResizeFilter, Threshold};
use crate::density::Temperature;
use crate::energy::Energy;
use crate::layer::Element;
use crate::quantization::Quantization;

/// Length of a header in bytes.
pub const HEADER_LEN: usize = 128;

pub(super) const MAGIC: [u8; 8] = *b"\x89NAE\r\n\x1a\n";
pub(super) const VERSION: usize = 2;

/// The offset of each field. The table in the [format's documentation](super) describes their contents.
mod field {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 8;
    pub(super) const HEADER_LEN: usize = 10;
    pub(super) const FILE_LEN: usize = 12;
    pub(super) const CHECKSUM: usize = 16;
    /// The start of the part of the file that the checksum covers.
    pub(super) const CHECKED: usize = 20;
    pub(super) const LAYERS: usize = 20;
    pub(super) const CALIBRATION_COUNT: usize = 24;
    pub(super) const TABLE_LEN: usize = 28;
    pub(super) const PARAMETERS: usize = 32;
    pub(super) const ARENA: usize = 36;
    pub(super) const CHANNELS: usize = 40;
    pub(super) const HEIGHT: usize = 44;
    pub(super) const WIDTH: usize = 48;
    pub(super) const LATENT: usize = 52;
    pub(super) const ENERGY: usize = 56;
    pub(super) const FILTER: usize = 57;
    pub(super) const FLAGS: usize = 58;
    pub(super) const ELEMENT: usize = 59;
    pub(super) const LOW: usize = 60;
    pub(super) const HIGH: usize = 64;
    pub(super) const TEMPERATURE: usize = 68;
    pub(super) const LOG_NORMALIZER: usize = 72;
    pub(super) const RATE: usize = 76;
    pub(super) const THRESHOLD: usize = 80;
    pub(super) const SCALE: usize = 84;
    pub(super) const ZERO_POINT: usize = 88;
    /// All bytes from here on are zero.
    pub(super) const UNUSED: usize = 89;
}

/// Bits of the field of flags.
mod flag {
    pub(super) const LOG_NORMALIZER: u8 = 1;
    pub(super) const THRESHOLD: u8 = 2;
    pub(super) const TAIL: u8 = 4;
    pub(super) const PREPARED: u8 = 8;
}

/// A header, without the length and the checksum of the file, which [`seal`] writes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Header {
    /// Number of layers.
    pub layers: usize,
    /// Number of calibration energies; 0 without calibration.
    pub calibration_count: usize,
    /// Number of order statistics kept of these energies.
    pub table_len: usize,
    /// The choice of these order statistics; [`Spacing::Tail`] for [`TABLE_LEN`](calibration::TABLE_LEN) energies or
    /// fewer, which are all kept.
    pub spacing: Spacing,
    /// Length of the parameters, in words of four bytes.
    pub parameter_words: usize,
    /// Length of the arena, in words of four bytes.
    pub arena_words: usize,
    /// Number of the latent tensor; 0 if there is none.
    pub latent: usize,
    /// Type of the image's values.
    pub element: Element,
    /// Shape of the image.
    pub input: Shape,
    /// The image's range of values and resize filter.
    pub preprocessing: Preprocessing,
    /// Energy of an image and its reconstruction.
    pub energy: Energy,
    /// Temperature T.
    pub temperature: Temperature,
    /// log Ω, if it is known.
    pub log_normalizer: Option<f32>,
    /// The threshold, and the false-positive rate it is for.
    pub threshold: Option<Threshold>,
    /// Whether samples are made by steps that the file does not contain: crop, padding or inversion of an image, its tiles, or
    /// the columns and windows of a table. If not, a sample is an image that is resized to the input.
    pub prepared: bool,
}

impl Header {
    /// Returns the header of a network with this contract; its sizes are still zero.
    pub fn of<C>(contract: &Contract<C>, element: Element) -> Self {
        Self {
            layers: 0,
            calibration_count: 0,
            table_len: 0,
            spacing: Spacing::Tail,
            parameter_words: 0,
            arena_words: 0,
            latent: 0,
            element,
            input: contract.input,
            preprocessing: contract.preprocessing,
            energy: contract.energy,
            temperature: contract.temperature,
            log_normalizer: contract.log_normalizer(),
            threshold: contract.threshold(),
            prepared: false,
        }
    }

    /// Splits a file into header and body, and checks magic bytes, version, length and checksum.
    pub(crate) const fn split(file: &[u8]) -> Result<(&[u8; HEADER_LEN], &[u8]), ModelError> {
        let Some((header, body)) = file.split_first_chunk() else {
            return Err(ModelError::Truncated);
        };
        match header.first_chunk() {
            Some(magic) if u64::from_le_bytes(*magic) == u64::from_le_bytes(MAGIC) => {}
            _ => return Err(ModelError::Magic),
        }
        if u16_at(header, field::VERSION) != VERSION {
            return Err(ModelError::Version);
        }
        if u16_at(header, field::HEADER_LEN) != HEADER_LEN || u32_at(header, field::FILE_LEN) != file.len() {
            return Err(ModelError::Length);
        }
        let Some((_, checked)) = file.split_at_checked(field::CHECKED) else {
            return Err(ModelError::Truncated);
        };
        if u32_at(header, field::CHECKSUM) != crc32(checked) as usize {
            return Err(ModelError::Checksum);
        }
        Ok((header, body))
    }

    /// Reads a header and checks every field by itself.
    ///
    /// # Errors
    /// [`ModelError`] names the first field that is wrong.
    pub const fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Self, ModelError> {
        let unused = if bytes[field::ELEMENT] == 0 { field::SCALE } else { field::UNUSED };
        if bytes[field::ELEMENT] > 1 || !all_zero(bytes, unused, HEADER_LEN) {
            return Err(ModelError::Reserved);
        }
        let layers = u32_at(bytes, field::LAYERS);
        if layers == 0 || layers > MAX_LAYERS {
            return Err(ModelError::LayerCount);
        }
        let (count, table_len) = (u32_at(bytes, field::CALIBRATION_COUNT), u32_at(bytes, field::TABLE_LEN));
        if count > calibration::MAX_COUNT || table_len != calibration::table_len(count as u32) {
            return Err(ModelError::Calibration);
        }
        let arena_words = u32_at(bytes, field::ARENA);
        if arena_words > MAX_VALUES {
            return Err(ModelError::ArenaLength);
        }
        let element = match (bytes[field::ELEMENT], quantization_at(bytes)) {
            (0, _) => Element::F32,
            (_, Ok(quantization)) => Element::I8(quantization),
            (_, Err(_)) => return Err(ModelError::Quantization),
        };
        let preprocessing = check!(preprocessing_at(bytes));
        let energy = check!(energy_at(bytes, preprocessing, element));
        let flags = bytes[field::FLAGS];
        if flags & !(flag::LOG_NORMALIZER | flag::THRESHOLD | flag::TAIL | flag::PREPARED) != 0 {
            return Err(ModelError::Reserved);
        }
        // If all energies are kept, there is no spacing to store.
        let is_part = count > calibration::TABLE_LEN;
        let spacing = match (is_part, flags & flag::TAIL != 0) {
            (true, false) => Spacing::Even,
            (true, true) | (false, false) => Spacing::Tail,
            (false, true) => return Err(ModelError::Reserved),
        };
        let log_normalizer = check!(log_normalizer_at(bytes, flags));
        let Ok(temperature) = Temperature::new(f32_at(bytes, field::TEMPERATURE)) else {
            return Err(ModelError::Temperature);
        };
        Ok(Self {
            layers,
            calibration_count: count,
            table_len,
            spacing,
            parameter_words: u32_at(bytes, field::PARAMETERS),
            arena_words,
            latent: u32_at(bytes, field::LATENT),
            element,
            input: Shape::new(
                u32_at(bytes, field::CHANNELS),
                u32_at(bytes, field::HEIGHT),
                u32_at(bytes, field::WIDTH),
            ),
            preprocessing,
            energy,
            temperature,
            log_normalizer,
            threshold: check!(threshold_at(bytes, flags, count)),
            prepared: flags & flag::PREPARED != 0,
        })
    }

    /// Returns the bytes of the header, which [`seal`] completes. Values are written unchecked; parsing the whole file
    /// checks them.
    ///
    /// # Errors
    /// [`FieldRange`] if a size does not fit its field.
    pub fn emit(&self) -> Result<[u8; HEADER_LEN], FieldRange> {
        let mut bytes = [0; HEADER_LEN];
        put(&mut bytes, field::MAGIC, &MAGIC);
        put_u16(&mut bytes, field::VERSION, VERSION)?;
        put_u16(&mut bytes, field::HEADER_LEN, HEADER_LEN)?;
        for (at, value) in [
            (field::LAYERS, self.layers),
            (field::CALIBRATION_COUNT, self.calibration_count),
            (field::TABLE_LEN, self.table_len),
            (field::PARAMETERS, self.parameter_words),
            (field::ARENA, self.arena_words),
            (field::CHANNELS, self.input.channels),
            (field::HEIGHT, self.input.height),
            (field::WIDTH, self.input.width),
            (field::LATENT, self.latent),
        ] {
            put_u32(&mut bytes, at, value)?;
        }
        bytes[field::ENERGY] = self.energy.id();
        bytes[field::FILTER] = self.preprocessing.filter().id();
        bytes[field::ELEMENT] = u8::from(self.element != Element::F32);
        put_f32(&mut bytes, field::LOW, self.preprocessing.low());
        put_f32(&mut bytes, field::HIGH, self.preprocessing.high());
        put_f32(&mut bytes, field::TEMPERATURE, self.temperature.get());
        if let Some(log_normalizer) = self.log_normalizer {
            bytes[field::FLAGS] |= flag::LOG_NORMALIZER;
            put_f32(&mut bytes, field::LOG_NORMALIZER, log_normalizer);
        }
        if let Some(Threshold { energy, false_positive_rate }) = self.threshold {
            bytes[field::FLAGS] |= flag::THRESHOLD;
            put_f32(&mut bytes, field::RATE, false_positive_rate);
            put_f32(&mut bytes, field::THRESHOLD, energy);
        }
        if self.calibration_count > calibration::TABLE_LEN && matches!(self.spacing, Spacing::Tail) {
            bytes[field::FLAGS] |= flag::TAIL;
        }
        if self.prepared {
            bytes[field::FLAGS] |= flag::PREPARED;
        }
        if let Element::I8(quantization) = self.element {
            put_f32(&mut bytes, field::SCALE, quantization.scale());
            bytes[field::ZERO_POINT] = quantization.zero_point() as u8;
        }
        Ok(bytes)
    }
}

/// Writes the length and the checksum into the header of a file that is complete except for these.
///
/// # Errors
/// [`FieldRange`] if the file is longer than its header can represent. A file shorter than a header stays unchanged.
pub fn seal(file: &mut [u8]) -> Result<(), FieldRange> {
    let len = file.len();
    put_u32(file, field::FILE_LEN, len)?;
    let checksum = crc32(file.get(field::CHECKED..).unwrap_or_default());
    put(file, field::CHECKSUM, &checksum.to_le_bytes());
    Ok(())
}

const fn quantization_at(bytes: &[u8; HEADER_LEN]) -> Result<Quantization, crate::quantization::QuantizationError> {
    Quantization::new(f32_at(bytes, field::SCALE), bytes[field::ZERO_POINT] as i8)
}

const fn preprocessing_at(bytes: &[u8; HEADER_LEN]) -> Result<Preprocessing, ModelError> {
    let Some(filter) = ResizeFilter::from_id(bytes[field::FILTER]) else {
        return Err(ModelError::Preprocessing);
    };
    match Preprocessing::new(f32_at(bytes, field::LOW), f32_at(bytes, field::HIGH), filter) {
        Ok(preprocessing) => Ok(preprocessing),
        Err(_) => Err(ModelError::Preprocessing),
    }
}

const fn energy_at(
    bytes: &[u8; HEADER_LEN],
    preprocessing: Preprocessing,
    element: Element,
) -> Result<Energy, ModelError> {
    let Some(energy) = Energy::from_id(bytes[field::ENERGY]) else {
        return Err(ModelError::Energy);
    };
    if matches!(energy, Energy::Ssim) && !(preprocessing.is_unit() && matches!(element, Element::F32)) {
        return Err(ModelError::Energy);
    }
    Ok(energy)
}

const fn log_normalizer_at(bytes: &[u8; HEADER_LEN], flags: u8) -> Result<Option<f32>, ModelError> {
    let value = f32_at(bytes, field::LOG_NORMALIZER);
    if flags & flag::LOG_NORMALIZER != 0 {
        return if value.is_finite() { Ok(Some(value)) } else { Err(ModelError::Temperature) };
    }
    if value.to_bits() == 0 { Ok(None) } else { Err(ModelError::Temperature) }
}

const fn threshold_at(bytes: &[u8; HEADER_LEN], flags: u8, count: usize) -> Result<Option<Threshold>, ModelError> {
    let (rate, energy) = (f32_at(bytes, field::RATE), f32_at(bytes, field::THRESHOLD));
    if flags & flag::THRESHOLD != 0 {
        let valid = count > 0 && energy.is_finite() && rate > 0.0 && rate < 1.0;
        let threshold = Threshold { energy, false_positive_rate: rate };
        return if valid { Ok(Some(threshold)) } else { Err(ModelError::Calibration) };
    }
    if rate.to_bits() == 0 && energy.to_bits() == 0 { Ok(None) } else { Err(ModelError::Calibration) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn header() -> Header {
        Header {
            layers: 3,
            calibration_count: 300,
            table_len: 256,
            spacing: Spacing::Even,
            parameter_words: 70_001,
            arena_words: 70_002,
            latent: 2,
            element: Element::F32,
            input: Shape::new(7, 8, 9),
            preprocessing: Preprocessing::new(-1.0, 2.0, ResizeFilter::Box).unwrap(),
            energy: Energy::L1,
            temperature: Temperature::new(0.5).unwrap(),
            log_normalizer: Some(-2.5),
            threshold: Some(Threshold { energy: 0.75, false_positive_rate: 0.05 }),
            prepared: true,
        }
    }

    /// Returns the parser's result for a header with these bytes changed.
    fn changed(header: Header, at: usize, bytes: &[u8]) -> Result<Header, ModelError> {
        let mut all = header.emit().unwrap();
        put(&mut all, at, bytes);
        Header::parse(&all)
    }

    #[test]
    fn what_is_emitted_is_parsed() {
        let quantization = Quantization::new(0.125, -5).unwrap();
        for element in [Element::F32, Element::I8(quantization)] {
            for log_normalizer in [None, header().log_normalizer] {
                for threshold in [None, header().threshold] {
                    let header = Header { element, log_normalizer, threshold, ..header() };
                    assert_eq!(Header::parse(&header.emit().unwrap()), Ok(header));
                }
            }
        }
        let none = Header { calibration_count: 0, table_len: 0, spacing: Spacing::Tail, threshold: None, ..header() };
        assert_eq!(Header::parse(&none.emit().unwrap()), Ok(none));
        let tail = Header { spacing: Spacing::Tail, prepared: false, ..header() };
        assert_eq!(Header::parse(&tail.emit().unwrap()), Ok(tail));
    }

    #[test]
    fn sizes_are_taken_up_to_their_limits() {
        let parse = |header: Header| Header::parse(&header.emit().unwrap());
        for (layers, expected) in [(0, false), (1, true), (MAX_LAYERS, true), (MAX_LAYERS + 1, false)] {
            let header = Header { layers, ..header() };
            assert_eq!(parse(header), if expected { Ok(header) } else { Err(ModelError::LayerCount) });
        }
        for (arena_words, expected) in [(0, true), (MAX_VALUES, true), (MAX_VALUES + 1, false)] {
            let header = Header { arena_words, ..header() };
            assert_eq!(parse(header), if expected { Ok(header) } else { Err(ModelError::ArenaLength) });
        }
        let most = calibration::MAX_COUNT;
        for (calibration_count, table_len, expected) in [
            (5, 5, true),
            (5, 6, false),
            (300, 255, false),
            (300, 257, false),
            (most, 256, true),
            (most + 1, 256, false),
        ] {
            let header = Header { calibration_count, table_len, spacing: Spacing::Tail, ..header() };
            assert_eq!(parse(header), if expected { Ok(header) } else { Err(ModelError::Calibration) });
        }
    }

    #[test]
    fn a_threshold_has_a_calibration_an_energy_and_a_rate() {
        for (at, value) in [
            (field::THRESHOLD, f32::INFINITY),
            (field::THRESHOLD, f32::NAN),
            (field::RATE, 0.0),
            (field::RATE, -0.5),
            (field::RATE, 1.0),
            (field::RATE, f32::NAN),
        ] {
            assert_eq!(changed(header(), at, &value.to_le_bytes()), Err(ModelError::Calibration), "{at}: {value}");
        }
        let without = Header { calibration_count: 0, table_len: 0, ..header() };
        assert_eq!(Header::parse(&without.emit().unwrap()), Err(ModelError::Calibration));
        // Without the flag, both fields must be zero.
        let without = Header { threshold: None, ..header() };
        for at in [field::RATE, field::THRESHOLD] {
            assert_eq!(changed(without, at, &0.5_f32.to_le_bytes()), Err(ModelError::Calibration), "{at}");
        }
    }

    #[test]
    fn a_log_normalizer_is_finite_and_flagged() {
        for value in [f32::NAN, f32::INFINITY] {
            let found = changed(header(), field::LOG_NORMALIZER, &value.to_le_bytes());
            assert_eq!(found, Err(ModelError::Temperature), "{value}");
        }
        let without = Header { log_normalizer: None, ..header() };
        let found = changed(without, field::LOG_NORMALIZER, &1.0_f32.to_le_bytes());
        assert_eq!(found, Err(ModelError::Temperature));
        for flags in [16, 0x80, 0xFF] {
            assert_eq!(changed(header(), field::FLAGS, &[flags]), Err(ModelError::Reserved), "{flags}");
        }
        // If all energies are kept, the flag of the spacing must be clear.
        let all = Header { calibration_count: 256, spacing: Spacing::Tail, ..header() };
        assert_eq!(changed(all, field::FLAGS, &[7]), Err(ModelError::Reserved));
    }

    #[test]
    fn structural_similarity_is_of_floats_from_0_to_1() {
        let range = |low, high| Preprocessing::new(low, high, ResizeFilter::Box).unwrap();
        let ssim =
            |low, high, element| Header { energy: Energy::Ssim, preprocessing: range(low, high), element, ..header() };
        let integers = Element::I8(Quantization::new(0.125, -5).unwrap());
        for (low, high, element, expected) in [
            (0.0, 1.0, Element::F32, true),
            (0.0, 2.0, Element::F32, false),
            (-1.0, 1.0, Element::F32, false),
            (0.0, 1.0, integers, false),
        ] {
            let header = ssim(low, high, element);
            let found = Header::parse(&header.emit().unwrap());
            assert_eq!(found, if expected { Ok(header) } else { Err(ModelError::Energy) }, "{low} {high}");
        }
    }
}
