//! The set of operators a model uses, as a constant, so that an engine for it holds no others.

use super::layer::Activation;
use super::record::{Kind, Record};
use crate::energy::Energy;

/// A set of layer kinds, activations and energies.
///
/// An [`Engine`](crate::engine::Engine) is generic over it: kernels outside the set are not
/// compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Operators(u32);

impl Operators {
    /// Every operator there is.
    pub const ALL: Self = Self(u32::MAX);
    /// None.
    pub const NONE: Self = Self(0);

    /// As a number, for the engine's const parameter.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// From [`Operators::bits`].
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This kind of layer.
    pub const fn kind(kind: Kind) -> Self {
        Self(1 << kind as u8)
    }

    /// This activation.
    pub const fn activation(activation: Activation) -> Self {
        Self(match activation {
            Activation::Identity => 0,
            Activation::Relu => 1 << 17,
            Activation::LeakyRelu { .. } => 1 << 18,
            Activation::Sigmoid => 1 << 19,
            Activation::Tanh => 1 << 20,
        })
    }

    /// This energy.
    pub const fn energy(energy: Energy) -> Self {
        Self(1 << (24 + energy.id()))
    }

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What a layer needs.
    pub(super) const fn record(record: &Record) -> Self {
        Self::kind(record.kind).with(Self::activation(record.activation))
    }
}
