//! The status that a function returns, and its text.

use core::ffi::{CStr, c_char};
use nae_core::calibration::CalibrationError;
use nae_core::engine::EngineError;
use nae_core::model::ModelError;

/// The result of a function: 0 for success, else the reason of the failure.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// A pointer is NULL.
    Null = 1,
    /// The model was not opened, or its last opening failed; or the alarm was not started.
    NotReady = 2,
    /// An address is not divisible by the alignment of its values: 4 for the bytes of a model, the arena, floats and
    /// `nae_core_score`, 8 for `nae_core_model`, `nae_core_info` and `nae_core_alarm`.
    Alignment = 3,
    /// The arena overlaps the image, the score, the model, or the bytes that the model was opened from.
    Overlap = 4,
    /// The bytes are not a .nae file.
    NotAModel = 5,
    /// A .nae file of another version of the format than this library reads. Additions to the format do not change its
    /// version: a newer file can also be refused with HEADER or LAYER.
    Version = 6,
    /// The file is shorter or longer than the length in its header; or, of any function, what a pointer and a length describe
    /// passes the end of the address space.
    Length = 7,
    /// The checksum is wrong: the file was altered.
    Checksum = 8,
    /// The checksum is right, and the header or the calibration is invalid, or has a flag, energy or resize filter that
    /// is unknown to this library: a newer version may have made the file.
    Header = 9,
    /// The checksum is right, and a layer is invalid, or has a kind or an activation that is unknown to this library: a
    /// newer version may have made the file.
    Layer = 10,
    /// The model needs operators that this library was built without.
    Operators = 11,
    /// The processor is big-endian; models are little-endian.
    Endianness = 12,
    /// The image has another length than the model's input.
    ImageLength = 13,
    /// The model takes 8-bit values and was given floats, or the reverse.
    ImageType = 14,
    /// The arena is shorter than the model needs.
    ArenaLength = 15,
    /// A value of the image, or an energy, is NaN or infinite.
    NonFinite = 16,
    /// The reconstruction or its energy passed the range of floats.
    Overflow = 17,
    /// The model has no calibration.
    NoCalibration = 18,
    /// A false-positive rate is not between 0 and 1, both excluded.
    Rate = 19,
    /// The rate is below 1/(n + 1), where n is the number of calibration energies.
    RateTooLow = 20,
    /// The settings are not 0 <= clear < raise <= window <= NAE_CORE_ALARM_WINDOW_MAX.
    AlarmSettings = 21,
}

impl Status {
    const ALL: [Self; 22] = [
        Self::Ok,
        Self::Null,
        Self::NotReady,
        Self::Alignment,
        Self::Overlap,
        Self::NotAModel,
        Self::Version,
        Self::Length,
        Self::Checksum,
        Self::Header,
        Self::Layer,
        Self::Operators,
        Self::Endianness,
        Self::ImageLength,
        Self::ImageType,
        Self::ArenaLength,
        Self::NonFinite,
        Self::Overflow,
        Self::NoCalibration,
        Self::Rate,
        Self::RateTooLow,
        Self::AlarmSettings,
    ];

    const fn text(self) -> &'static CStr {
        match self {
            Self::Ok => c"done",
            Self::Null => c"a pointer is NULL",
            Self::NotReady => c"the model was not opened, or the alarm not started",
            Self::Alignment => c"an address is not divisible by what its values need",
            Self::Overlap => c"the arena overlaps the image, the score or the model",
            Self::NotAModel => c"not a .nae file",
            Self::Version => c"the .nae file has another version than this library reads",
            Self::Length => c"a length is not that of the file's header, or passes the end of memory",
            Self::Checksum => c"the checksum is wrong: the file was altered or cut",
            Self::Header => c"the file's header or calibration is malformed, or made by a newer version",
            Self::Layer => c"a layer of the file is malformed, or made by a newer version",
            Self::Operators => c"the model needs operators this library was built without",
            Self::Endianness => c"the processor is big-endian; models are little-endian",
            Self::ImageLength => c"the image has another length than the model's",
            Self::ImageType => c"the model takes 8-bit values and was given floats, or the reverse",
            Self::ArenaLength => c"the arena is shorter than the model needs",
            Self::NonFinite => c"a value is NaN or infinite",
            Self::Overflow => c"the reconstruction or its energy is not finite",
            Self::NoCalibration => c"the model has no calibration",
            Self::Rate => c"a false-positive rate must lie between 0 and 1",
            Self::RateTooLow => c"the false-positive rate is below 1/(n + 1): more calibration energies are needed",
            Self::AlarmSettings => c"the alarm needs 0 <= clear < raise <= window, and a window it can hold",
        }
    }

    /// The status of work that returns no value.
    pub(crate) const fn of(result: Result<(), Self>) -> Self {
        match result {
            Ok(()) => Self::Ok,
            Err(status) => status,
        }
    }
}

impl From<ModelError> for Status {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Magic => Self::NotAModel,
            ModelError::Version => Self::Version,
            ModelError::Truncated | ModelError::Length => Self::Length,
            ModelError::Checksum => Self::Checksum,
            ModelError::Layer { .. } => Self::Layer,
            _ => Self::Header,
        }
    }
}

impl From<EngineError> for Status {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Alignment => Self::Alignment,
            EngineError::Endianness => Self::Endianness,
            EngineError::Operators => Self::Operators,
            EngineError::ImageLength => Self::ImageLength,
            EngineError::ImageType => Self::ImageType,
            EngineError::ArenaLength => Self::ArenaLength,
            EngineError::NonFiniteImage => Self::NonFinite,
            // `EngineError` may grow; the only other error at present is an overflow.
            _ => Self::Overflow,
        }
    }
}

impl From<CalibrationError> for Status {
    fn from(error: CalibrationError) -> Self {
        match error {
            CalibrationError::NonFinite => Self::NonFinite,
            CalibrationError::RateTooLow => Self::RateTooLow,
            // For a calibration that the parser has checked, only the rate can be wrong.
            _ => Self::Rate,
        }
    }
}

/// The text of a status: English, ASCII, one line, ended by a zero. Valid as long as the program runs, never NULL. Any
/// number is accepted.
#[unsafe(no_mangle)]
pub extern "C" fn nae_core_status_text(status: i32) -> *const c_char {
    let known = usize::try_from(status).ok().and_then(|number| Status::ALL.get(number));
    known.map_or(c"unknown status", |status| status.text()).as_ptr()
}

/// Version of the library, such as "0.1.0", ended by a zero. Valid as long as the program runs, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn nae_core_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_text() {
        for (number, status) in (0..).zip(Status::ALL) {
            assert_eq!(status as i32, number);
            // SAFETY: it never returns NULL, and its texts end with a zero.
            let text = unsafe { CStr::from_ptr(nae_core_status_text(number)) };
            assert_eq!(text, status.text());
        }
        let unknown = [-1, i32::MIN, Status::ALL.len() as i32, i32::MAX];
        for number in unknown {
            // SAFETY: as above.
            assert_eq!(unsafe { CStr::from_ptr(nae_core_status_text(number)) }, c"unknown status");
        }
    }
}
