//! The arithmetic of the layers. This module contains portable f32 kernels, one file per kind of layer. The kernels for
//! quantized layers are in [`int8`].
//!
//! Activations are HWC; weights are stored as the [`.nae` format](crate::format) describes. No kernel allocates, and
//! none can panic: values out of range, which the parser has excluded, are skipped.
//!
//! A sum starts with the bias and takes its terms in the order kernel row, kernel column, input
//! channel, each product rounded before it is added (no fused multiply-add), on every target. So
//! results are equal bit for bit.

mod bands;
mod conv;
mod convert;
mod elementwise;
pub mod int8;
mod normalize;
mod pool;
mod resize;
mod transpose;

pub(crate) use bands::Rows;
pub(crate) use conv::{conv2d, dense};
pub(crate) use convert::{dequantize, quantize};
pub(crate) use elementwise::{activate, add, add_in_place, l2_normalize, multiply, multiply_in_place};
pub(crate) use normalize::group_normalize;
pub(crate) use pool::{average_pool2d, max_pool2d};
pub(crate) use resize::{bilinear, nearest};
pub(crate) use transpose::conv_transpose2d;

use crate::Shape;
use crate::layer::Padding;

/// Greatest height or width of any tensor: resize coordinates then fit 32 bits.
pub(crate) const MAX_SIDE: usize = 32_767;
/// Number of outputs in a block of weights.
pub(crate) const BLOCK: usize = 8;

/// Weights and biases of one layer.
#[derive(Clone, Copy)]
pub(crate) struct Parameters<'a> {
    pub(crate) weights: &'a [f32],
    pub(crate) bias: &'a [f32],
}

/// The places of a layer's windows. Sides are at most [`MAX_SIDE`](crate::format::MAX_SIDE).
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Shape of the input.
    pub input: Shape,
    /// Shape of the output.
    pub output: Shape,
    /// Height and width of the kernel, in pixels.
    pub kernel: [usize; 2],
    /// Stride down and across, in pixels; not 0.
    pub stride: [usize; 2],
    /// Padding, in pixels.
    pub padding: Padding,
}

/// The part of a window along one axis that lies inside the input.
#[derive(Clone, Copy)]
struct Reach {
    /// First kernel index inside the input.
    from: usize,
    /// One past the last kernel index inside.
    to: usize,
    /// Input index at `from`.
    at: usize,
}

impl Reach {
    /// The part of the window of output index `i`.
    fn new(i: usize, stride: usize, kernel: usize, before: usize, size: usize) -> Self {
        let start = i * stride;
        let from = before.saturating_sub(start);
        let to = (size + before).saturating_sub(start).min(kernel);
        Self { from, to: to.max(from), at: (start + from).saturating_sub(before) }
    }

    fn len(self) -> usize {
        self.to - self.from
    }
}

/// `len` values from `start`; none if there are fewer.
fn part<T>(values: &[T], start: usize, len: usize) -> &[T] {
    values.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default()
}

/// As [`part`], mutable.
fn part_mut<T>(values: &mut [T], start: usize, len: usize) -> &mut [T] {
    values.get_mut(start..).and_then(|rest| rest.get_mut(..len)).unwrap_or_default()
}
