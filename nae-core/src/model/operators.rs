//! The set of operators that a model uses, as a constant, so that an engine for the model contains no others.

use crate::energy::Energy;
use crate::format::{Kind, Kinds, Linear, Operation, Record};
use crate::kernels::int8::Layout;
use crate::layer::{Activation, Element};

/// Number of operators: 16 kinds of layers and 3 energies twice, 5 activations, 2 layouts, 2 dense layers.
const SINGLE_OPERATORS: usize = 16 * 2 + 3 * 2 + 5 + 2 + 2;

// If two operators shared a bit, an engine would silently contain kernels that its model does not use.
const _: () = {
    let mut seen = Operators::NONE;
    let mut i = 0;
    while i < SINGLE_OPERATORS {
        let operator = Operators::EACH[i];
        assert!(operator.bits().count_ones() == 1, "an operator is one bit");
        assert!(seen.bits() & operator.bits() == 0, "two operators share a bit");
        seen = seen.with(operator);
        i += 1;
    }
};

/// A set of layer kinds, activations and energies.
///
/// An [`Engine`](crate::engine::Engine) is generic over it: kernels outside the set are not
/// compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Operators(u64);

impl Operators {
    /// All operators.
    pub const ALL: Self = Self(u64::MAX);
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The set as a number, for the engine's const parameter.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the set of these [`Operators::bits`].
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether all operators of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This kind of layer, with values of `f32`.
    pub const fn kind(kind: Kind) -> Self {
        Self(1 << kind as u8)
    }

    /// This kind of layer, with values of `i8`.
    pub const fn kind_i8(kind: Kind) -> Self {
        Self(1 << (32 + kind as u8))
    }

    /// This activation.
    pub const fn activation(activation: Activation) -> Self {
        Self(match activation {
            Activation::Identity => 0,
            Activation::Relu => 1 << 17,
            Activation::LeakyRelu { .. } => 1 << 18,
            Activation::Sigmoid => 1 << 19,
            Activation::Tanh => 1 << 20,
            Activation::Elu { .. } => 1 << 21,
        })
    }

    /// This energy, of images of `f32`.
    pub const fn energy(energy: Energy) -> Self {
        Self(1 << (24 + energy.id()))
    }

    /// This energy, of images of `i8`.
    pub const fn energy_i8(energy: Energy) -> Self {
        Self(1 << (28 + energy.id()))
    }

    /// 8-bit weights in this layout.
    pub const fn layout(layout: Layout) -> Self {
        Self(1 << (60 + layout as u8))
    }

    /// 8-bit dense layers, whose outputs all share a multiplier or not.
    pub const fn dense_i8(shared_multiplier: bool) -> Self {
        Self(1 << (58 + shared_multiplier as u8))
    }

    /// Every single operator, for the proof above that no two share a bit.
    const EACH: [Self; SINGLE_OPERATORS] = {
        let mut each = [Self::NONE; SINGLE_OPERATORS];
        let mut count = 0;
        let mut id = 1;
        while let Some(kind) = Kind::from_id(id) {
            each[count] = Self::kind(kind);
            each[count + 1] = Self::kind_i8(kind);
            count += 2;
            id += 1;
        }
        let activations = [
            Activation::Relu,
            Activation::LeakyRelu { slope: 0.0 },
            Activation::Sigmoid,
            Activation::Tanh,
            Activation::Elu { alpha: 0.0 },
        ];
        let mut i = 0;
        while i < activations.len() {
            each[count] = Self::activation(activations[i]);
            count += 1;
            i += 1;
        }
        let mut id = 0;
        while let Some(energy) = Energy::from_id(id) {
            each[count] = Self::energy(energy);
            each[count + 1] = Self::energy_i8(energy);
            count += 2;
            id += 1;
        }
        let mut tag = 0;
        while let Some(layout) = Layout::from_tag(tag) {
            each[count] = Self::layout(layout);
            count += 1;
            tag += 1;
        }
        each[count] = Self::dense_i8(false);
        each[count + 1] = Self::dense_i8(true);
        assert!(count + 2 == SINGLE_OPERATORS, "SINGLE_OPERATORS is not the number of operators");
        each
    };

    /// The kinds of layers in the set, of either type.
    pub(crate) const fn kinds(self) -> Kinds {
        Kinds::from_bits(self.0 as u32 & 0x1_FFFE | (self.0 >> 32) as u32 & 0x1_FFFE)
    }

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The operators that a layer needs.
    pub(super) const fn record(record: &Record) -> Self {
        let kind = record.operation.kind();
        if let Element::F32 = record.element {
            return Self::kind(kind).with(Self::activation(record.operation.activation()));
        }
        match &record.operation {
            Operation::Dense(Linear::I8(linear)) => Self::kind_i8(kind)
                .with(Self::layout(linear.layout))
                .with(Self::dense_i8(linear.shared_multiplier.is_some())),
            operation => match operation.linear() {
                Some(Linear::I8(linear)) => Self::kind_i8(kind).with(Self::layout(linear.layout)),
                _ => Self::kind_i8(kind),
            },
        }
    }
}
