//! The numbers that chains are computed in. Weights and updates stay f32 whatever is chosen here.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, FloatDType, Tensor};
use serde::{Deserialize, Serialize};

/// Of the order of an image's values, so that derivatives are those of a sum of squares; a power of two, which rounds
/// nothing.
const SCALE: f32 = 1024.0;

/// In what a frozen network computes. Below f32 a chain asks burn, whatever the engine of the updates; its state, its
/// noise and the comparison of image and reconstruction are f32 all the same, so that small steps are not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 24 significant bits.
    #[default]
    F32,
    /// 11 significant bits, 6e-8 to 65,504.
    F16,
    /// 8 significant bits, the range of f32.
    Bf16,
}

/// A device that lacks a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sampler.precision is \"{}\", which this device does not compute in; leave it out for f32", .0.name())]
pub struct PrecisionUnavailable(Precision);

impl Precision {
    /// As a preset has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Whether it is what a preset means that says nothing.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `device` computes in it.
    ///
    /// # Errors
    /// [`PrecisionUnavailable`].
    pub fn check(self, device: &Device) -> Result<(), PrecisionUnavailable> {
        if device.supports_dtype(self.dtype()) { Ok(()) } else { Err(PrecisionUnavailable(self)) }
    }

    /// burn's name for it.
    pub(super) fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::F16 => FloatDType::F16,
            Self::Bf16 => FloatDType::BF16,
        }
    }

    /// What is differentiated in place of `energy`. An energy is a mean over the image, so its derivatives are small,
    /// and f16 would lose them.
    pub(super) fn scaled(self, energy: Tensor<1>) -> Tensor<1> {
        match self {
            Self::F32 | Self::Bf16 => energy,
            Self::F16 => energy.mul_scalar(SCALE),
        }
    }

    /// The gradient of an energy from that of [`scaled`](Self::scaled).
    pub(super) fn unscaled(self, gradient: Tensor<4>) -> Tensor<4> {
        match self {
            Self::F32 | Self::Bf16 => gradient,
            Self::F16 => gradient.div_scalar(SCALE),
        }
    }

    /// `module` with its weights rounded to it.
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
