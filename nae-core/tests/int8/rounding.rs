//! TFLite's two roundings, written from their definitions.

use nae_core::kernels::int8::Multiplier;
use proptest::prelude::*;

/// TFLite's double rounding as gemmlowp writes it: a doubling high product that rounds by a nudge
/// of the product's sign and truncates, then a division by a power of two that rounds halves away
/// from zero.
pub(crate) fn twice(sum: i32, m: Multiplier) -> i32 {
    let product = i64::from(sum) * i64::from(m.value);
    let nudge = if product >= 0 { 1 << 30 } else { 1 - (1 << 30) };
    let high = ((product + nudge) / (1 << 31)) as f64;
    let quotient = high / f64::powi(2.0, -m.shift);
    quotient.round() as i32
}

/// One rounding, halves up.
pub(crate) fn once(sum: i32, m: Multiplier) -> i32 {
    let scaled = i128::from(sum) * i128::from(m.value) * 2 + (1i128 << (31 - m.shift));
    (scaled >> (32 - m.shift)) as i32
}

/// Factors that all layouts take.
pub(crate) fn multiplier() -> impl Strategy<Value = Multiplier> {
    (1i32 << 30..=i32::MAX, -14..=-4).prop_map(|(value, shift)| Multiplier { value, shift })
}
