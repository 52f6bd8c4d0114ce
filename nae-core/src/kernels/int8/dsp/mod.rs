#![allow(unsafe_code)]
//! The innermost loops for cores with the DSP extension (Cortex-M4, M7, M33, M35P, M55, M85), with ARMv7E-M
//! instructions only. Portable code with the same results is in `portable.rs`; a bench compares the two on the target.
//! One of the two is the module `arithmetic`.
//!
//! # Why there is unsafe code here
//! Stable Rust has no DSP intrinsics, and inline assembly cannot have all the registers that the inner loops need, so
//! these are naked functions. Each is called from one safe function, which first checks that everything the assembly
//! reads and writes lies in the given slices. The assembly accesses nothing else but its own stack frame (104 bytes),
//! preserves the registers that the calling convention (AAPCS) requires, and changes the flags and the saturation bit,
//! which the convention allows.
//!
//! Activations are read in words from any address. These cores can do so
//! - unless the program has set `UNALIGN_TRP` in the register `CCR`; it is clear after reset;
//! - in memory of type Normal. In memory of type Device such a read faults: external memory from 0xA000_0000 to
//!   0xDFFF_FFFF is of this type by default, and an MPU region (often used for DMA buffers) can make any address so.
//!   Image, model and arena must lie elsewhere.
//!
//! `multiply` contains the main part: windows against weights. `widen` prepares windows for it; `lone` is for a single
//! output, `maximum` for pooling, `blend` for bilinear resizing, `sums` for the energy; `fragments` is text that
//! several of them use.

/// Enables the DSP extension in the assembler, at the start of each function. For ARMv7E-M it is always enabled; for
/// ARMv8-M, where it is optional, the compiler's target does not reach the assembler in all builds (link-time
/// optimization). Cortex-M33 is the smallest of the cores that `build.rs` accepts.
#[cfg(nae_dsp = "v8")]
macro_rules! dsp {
    () => {
        ".cpu cortex-m33"
    };
}
#[cfg(not(nae_dsp = "v8"))]
macro_rules! dsp {
    () => {
        ""
    };
}

mod blend;
#[macro_use]
mod fragments;
mod lone;
mod maximum;
mod multiply;
mod one;
mod sums;
mod two;
mod widen;

pub(super) use blend::blend;
pub(super) use lone::Lone;
pub(super) use maximum::maximum;
pub(super) use multiply::Ready;
pub(super) use sums::sums;
pub(super) use widen::{widen_one, widen_rows, widen_rows_of_two};
