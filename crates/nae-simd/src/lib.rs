#![doc = include_str!("../README.md")]
//!
//! A [`Program`] is a graph laid out for one size of image; it runs forward and backward. Its activations are
//! [`Planes`] in the caller's [`Workspace`]. [`Instructions`] are chosen at run time. Results depend neither on the
//! batch nor on threads.
//!
//! Inside, `correlate` contains the loop that takes most of the time, for convolutions, transposed convolutions and
//! dense layers, and `winograd` a faster one for three by three taps; `geometry` defines the values that they read and
//! `kernel` the layout of their weights. `gradient` and `outer` compute the gradients of weights, `group` normalizes,
//! `resample` and `pointwise` are the layers without weights, each with its backward pass. `depthwise` has none: it is
//! for networks whose features are used unchanged. `threads` distributes work, which the caller of a program does.

#![forbid(unsafe_code)]
// The benchmark `roofline` accesses the loops through `loops`.
#![cfg_attr(not(feature = "roofline"), allow(unreachable_pub))]

mod correlate;
mod depthwise;
mod geometry;
mod gradient;
mod group;
mod instructions;
mod kernel;
mod outer;
mod plane;
mod pointwise;
pub mod program;
mod resample;
mod sums;
pub mod threads;
mod vector;
mod winograd;
mod workspace;

pub use instructions::{Instructions, Unavailable};
pub use plane::{Planes, Size};
pub use pointwise::{add, l1, normalize, squared_l2, zero_below};
pub use program::{CompileError, Gradients, Learned, Observer, Options, Program, WeightOrder};
pub use resample::{Alignment, Sources};
pub use workspace::Workspace;

/// The loops themselves, for the benchmark `roofline` only: not part of the interface.
#[cfg(feature = "roofline")]
#[doc(hidden)]
pub mod loops {
    pub use crate::correlate::correlate;
    pub use crate::geometry::{KernelWindow, Reading};
    pub use crate::gradient::weight_gradient;
    pub use crate::kernel::{Kernel, Negligible};
    pub use crate::outer::Outer;
    pub use crate::sums::Finish;
}
