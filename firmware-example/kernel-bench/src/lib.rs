#![no_std]
//! The layers whose cost is counted, with made-up weights and activations that are the same on
//! every machine. The firmware (`main.rs`) runs them between marks for the plugin `insn-count`; the
//! test `counts` runs them on the host too and compares.

mod known;
mod run;
mod work;

pub use known::wrong_result;
pub use run::{Lengths, Memory};
pub use work::{Kind, WORKS, Work, any_work};

/// 32 bits that look random (the finalizer of MurmurHash3).
const fn hash(value: u32) -> u32 {
    let mut value = value.wrapping_add(0x9E37_79B9);
    value = (value ^ value >> 16).wrapping_mul(0x85EB_CA6B);
    value = (value ^ value >> 13).wrapping_mul(0xC2B2_AE35);
    value ^ value >> 16
}
