//! The number format that chains are computed in. Weights and updates always use f32.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, FloatDType, Tensor};
use serde::{Deserialize, Serialize};

/// The scale is of the order of the number of an image's values, so that derivatives are like those of a sum of
/// squares; as a power of two it causes no rounding.
const SCALE: f32 = 1024.0;

/// The number format of a frozen network. Below f32, chains use burn with any engine for the updates; the chain's
/// state, its noise and the comparison of image and reconstruction stay f32, so that small steps are not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32-bit floats with 24 significant bits.
    #[default]
    F32,
    /// 16-bit floats with 11 significant bits and a range of 6e-8 to 65,504.
    F16,
    /// bfloat16 with 8 significant bits and the range of f32.
    Bf16,
}

/// An error for a device that does not support a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sampler.precision is \"{}\", which this device does not compute in; leave it out for f32", .0.name())]
pub struct PrecisionUnavailable(Precision);

impl Precision {
    /// The name in presets.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Whether this is the default of presets.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that `device` supports this precision.
    ///
    /// # Errors
    /// [`PrecisionUnavailable`] if it does not.
    pub fn check(self, device: &Device) -> Result<(), PrecisionUnavailable> {
        if device.supports_dtype(self.dtype()) { Ok(()) } else { Err(PrecisionUnavailable(self)) }
    }

    /// burn's data type for it.
    pub(super) fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::F16 => FloatDType::F16,
            Self::Bf16 => FloatDType::BF16,
        }
    }

    /// The quantity that is differentiated in place of `energy`. An energy is a mean over the image, so its derivatives
    /// are small and would underflow in f16.
    pub(super) fn scaled(self, energy: Tensor<1>) -> Tensor<1> {
        match self {
            Self::F32 | Self::Bf16 => energy,
            Self::F16 => energy.mul_scalar(SCALE),
        }
    }

    /// The gradient of an energy, computed from the gradient of [`scaled`](Self::scaled).
    pub(super) fn unscaled(self, gradient: Tensor<4>) -> Tensor<4> {
        match self {
            Self::F32 | Self::Bf16 => gradient,
            Self::F16 => gradient.div_scalar(SCALE),
        }
    }

    /// Returns `module` with its weights rounded to this precision.
    pub(super) fn rounded<M: Module>(self, module: M) -> M {
        struct Round(FloatDType);
        impl ModuleMapper for Round {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                param.map(|weights| weights.cast(self.0))
            }
        }
        match self {
            Self::F32 => module,
            Self::F16 | Self::Bf16 => module.map(&mut Round(self.dtype())),
        }
    }
}
