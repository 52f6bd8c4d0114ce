#![allow(unsafe_code)]
//! The innermost loops for cores with the DSP extension (Cortex-M4, M7, M33, M35P, M55, M85): ARMv7E-M
//! instructions only. Portable code that does the same is in `portable.rs`; a bench compares the
//! two on the target. One of the two is the module `arithmetic`.
//!
//! # Why there is unsafe code here
//! Stable Rust has no DSP intrinsics, and inline assembly cannot have all the registers the inner
//! loops need, so these are naked functions. Each is called from one safe function, which first
//! checks that everything the assembly reads and writes lies in the slices it was given. The
//! assembly touches nothing else but its own stack frame (104 bytes), keeps the registers the
//! calling convention (AAPCS) asks for, and leaves the flags and the saturation bit as it likes,
//! which the convention allows.
//!
//! Activations are read in words from any address. These cores can do so
//! - unless the program has set `UNALIGN_TRP` in the register `CCR`; it is clear after reset;
//! - in memory of type Normal. In memory of type Device such a read faults: by default, external
//!   memory from 0xA000_0000 to 0xDFFF_FFFF is such, and an MPU region (often used for DMA buffers)
//!   can make any address so. Image, model and arena have to lie elsewhere.
//!
//! `multiply` is the bulk: windows against weights. `widen` prepares windows for it; `lone` is for a
//! single output, `maximum` for pooling, `blend` for bilinear resizing, `sums` for the energy; `fragments` is text that several of them use.

/// Tells the assembler that the DSP extension is there, at the start of each function. On ARMv7E-M
/// it knows; on ARMv8-M, where the extension is optional, it does not hear of the compiler's target
/// in all builds (link-time optimisation). Cortex-M33 is the least core of those that `build.rs`
/// takes.
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
