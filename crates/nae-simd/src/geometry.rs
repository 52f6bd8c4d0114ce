//! The input values over which each output pixel of a convolution, or of a transposed one, is summed.
//!
//! With channels last, the values under one row of a kernel are contiguous. At the edges the kernel exceeds the input,
//! and a transposed convolution with a stride uses another part of its kernel for each remainder of the position.
//! Therefore output pixels are divided into classes. The pixels of a class sum over the same part of the kernel, so no
//! zeros are multiplied and no padded copy of the input is needed.

use crate::plane::Size;

/// Kernel, stride and padding; the stride is the same along both axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelWindow {
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Distance between neighbouring windows.
    pub stride: usize,
    /// Number of zeros above and to the left of the larger plane; the number below and to the right follows from the
    /// sizes.
    pub padding: [usize; 2],
}

/// The direction in which a kernel is read: each is the other's adjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// out\[o\] = Σ in\[o·stride + r − padding\]·w\[r\].
    Convolution,
    /// out\[i·stride + r − padding\] += in\[i\]·w\[r\].
    Transposed,
}

/// The inputs of one output coordinate along one axis: `len` inputs from `start` on, with the taps of `phase` from
/// `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    phase: usize,
    first: usize,
    len: usize,
    start: usize,
}

/// The part of the kernel that a class of pixels reads along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The phase of the kernel's taps: see [`taps`].
    pub phase: usize,
    /// The first of these taps.
    pub first: usize,
    /// The number of taps.
    pub len: usize,
}

impl Part {
    /// The part of a kernel that lies outside the input altogether.
    const NOTHING: Self = Self { phase: 0, first: 0, len: 0 };
}

/// Output pixels that read the same part of the kernel.
#[derive(Clone, Debug)]
pub struct Class {
    /// The part along the rows.
    pub rows: Part,
    /// The part along the columns.
    pub columns: Part,
    /// For each pixel, the first value it reads in a sample and its own place among the output pixels.
    pub pixels: Vec<[usize; 2]>,
}

/// Positions in the kernel of the taps of each phase along one axis, in the order in which inputs are read.
pub fn taps(reading: Reading, kernel: usize, stride: usize) -> Vec<Vec<usize>> {
    match reading {
        Reading::Convolution => vec![(0..kernel).collect()],
        Reading::Transposed => (0..stride).map(|phase| (phase..kernel).step_by(stride).rev().collect()).collect(),
    }
}

/// The inputs of each output coordinate along the rows (axis 0) or the columns (axis 1).
fn reaches(reading: Reading, axis: usize, window: KernelWindow, from: usize, to: usize) -> Vec<Reach> {
    let (kernel, stride, padding) = (window.kernel[axis], window.stride, window.padding[axis]);
    // The inputs that taps 0.. would read start at `at`, which is before the first input if the kernel exceeds the
    // edge.
    let clip = |phase: usize, at: isize, taps: usize| {
        let low = at.max(0);
        let high = (at + taps as isize).min(from as isize).max(low);
        Reach { phase, first: (low - at) as usize, len: (high - low) as usize, start: low as usize }
    };
    (0..to)
        .map(|o| match reading {
            Reading::Convolution => clip(0, (o * stride) as isize - padding as isize, kernel),
            Reading::Transposed => {
                let (nearest, phase) = ((o + padding) / stride, (o + padding) % stride);
                let taps = kernel.saturating_sub(phase).div_ceil(stride);
                clip(phase, nearest as isize + 1 - taps as isize, taps)
            }
        })
        .collect()
}

/// The classes of output pixels from `from` to `to`, whose channels only determine the number of values of a pixel.
pub fn classes(reading: Reading, window: KernelWindow, from: Size, to: Size) -> Vec<Class> {
    let rows = reaches(reading, 0, window, from.h, to.h);
    let columns = reaches(reading, 1, window, from.w, to.w);
    let mut classes: Vec<Class> = Vec::new();
    let part = |reach: &Reach| Part { phase: reach.phase, first: reach.first, len: reach.len };
    for (y, row) in rows.iter().enumerate() {
        for (x, column) in columns.iter().enumerate() {
            let read = row.len > 0 && column.len > 0;
            let start = (row.start * from.w + column.start) * from.c;
            let pixel = [if read { start } else { 0 }, y * to.w + x];
            let (row, column) = if read { (part(row), part(column)) } else { (Part::NOTHING, Part::NOTHING) };
            match classes.iter_mut().find(|class| class.rows == row && class.columns == column) {
                Some(class) => class.pixels.push(pixel),
                None => classes.push(Class { rows: row, columns: column, pixels: vec![pixel] }),
            }
        }
    }
    classes
}
