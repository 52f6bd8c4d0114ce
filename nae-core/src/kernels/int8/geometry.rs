//! The places of the windows of convolutions. A transposed convolution is split into plain ones.

use super::super::Windows;
use crate::Shape;

/// A convolution whose results lie at regular distances in an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    pub(super) input: Shape,
    /// Kernel height and width; 0 if a phase of a transposed convolution has no taps.
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    /// Number of rows above and columns to the left of the image that the first window includes. If negative, the
    /// number of rows and columns of the image that it leaves out.
    pub(super) before: [isize; 2],
    /// Height and width of the result.
    pub(super) places: [usize; 2],
    /// Index of the first result in the output.
    pub(super) first: usize,
    /// Distance from one result to the next: down, across.
    pub(super) step: [usize; 2],
}

impl Convolution {
    pub(super) fn new(windows: &Windows) -> Self {
        let out = windows.output;
        Self {
            input: windows.input,
            kernel: windows.kernel,
            stride: windows.stride,
            before: [windows.padding.top as isize, windows.padding.left as isize],
            places: [out.height, out.width],
            first: 0,
            step: [out.width * out.channels, out.channels],
        }
    }

    /// Number of products in the sum of an output value.
    pub(super) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.input.channels
    }

    /// Whether there is any result: a phase of a transposed convolution may have none.
    pub(super) fn has_places(&self) -> bool {
        self.places[0] > 0 && self.places[1] > 0
    }

    /// The windows' reach down the image in row `y` of the result.
    pub(super) fn down(&self, y: usize) -> Reach {
        Reach::new(y * self.stride[0], self.before[0], self.kernel[0], self.input.height)
    }

    /// The windows' reach across the image in column `x` of the result.
    pub(super) fn across(&self, x: usize) -> Reach {
        Reach::new(x * self.stride[1], self.before[1], self.kernel[1], self.input.width)
    }

    /// The number of consecutive windows in a row, from this one on, that lie inside the image across.
    pub(super) fn uncut(&self, across: Reach) -> usize {
        if across.len < self.kernel[1] {
            return 0;
        }
        // No stride is zero, but the compiler cannot derive this.
        self.input.width.saturating_sub(across.at + across.len) / self.stride[1].max(1) + 1
    }

    /// Index in the output of the result of row `y` and column `x`.
    pub(super) fn place(&self, y: usize, x: usize) -> usize {
        self.first + y * self.step[0] + x * self.step[1]
    }
}

/// The part of a window along one axis that lies inside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// First kernel index inside the image.
    pub(super) from: usize,
    /// Number of kernel indices inside the image.
    pub(super) len: usize,
    /// Image index at `from`.
    pub(super) at: usize,
}

impl Reach {
    fn new(start: usize, before: isize, kernel: usize, size: usize) -> Self {
        let start = start as isize - before;
        let from = (-start).max(0).min(kernel as isize);
        let to = (size as isize - start).max(from).min(kernel as isize);
        Self { from: from as usize, len: (to - from) as usize, at: (start + from).max(0) as usize }
    }

    /// The kernel indices that overlap the image: the first, and their number.
    pub(super) fn taps(self) -> [usize; 2] {
        [self.from, self.len]
    }
}

/// The convolutions that a transposed convolution is split into, one for each residue of the output's row and column by
/// the stride. The kernel rows of each are every `stride`-th, from last to first. With stride 1 there is one
/// convolution, over the kernel turned by 180°.
///
/// They are ordered by the first kernel row and column in them, row by row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases<'a> {
    windows: &'a Windows,
    next: usize,
}

impl<'a> Phases<'a> {
    pub(super) fn new(windows: &'a Windows) -> Self {
        Self { windows, next: 0 }
    }
}

impl Iterator for Phases<'_> {
    type Item = Convolution;

    fn next(&mut self) -> Option<Convolution> {
        let Windows { input, output, kernel, stride, padding } = *self.windows;
        // No stride is zero, but the compiler cannot derive this.
        let across = stride[1].max(1);
        let (row, column) = (self.next / across, self.next % across);
        if row >= stride[0] {
            return None;
        }
        self.next += 1;
        let down = Phase::new(row, kernel[0], stride[0], padding.top, output.height);
        let across = Phase::new(column, kernel[1], stride[1], padding.left, output.width);
        Some(Convolution {
            input,
            kernel: [down.kernel, across.kernel],
            stride: [1, 1],
            before: [down.before, across.before],
            places: [down.places, across.places],
            first: (down.first * output.width + across.first) * output.channels,
            // They wrap where there is no next row or column.
            step: [stride[0].wrapping_mul(output.width * output.channels), stride[1].wrapping_mul(output.channels)],
        })
    }
}

/// One axis of a phase.
struct Phase {
    kernel: usize,
    before: isize,
    places: usize,
    first: usize,
}

impl Phase {
    /// Returns the outputs that kernel index `residue` reaches. Output o and kernel index k meet at image index (o +
    /// padding − k) / stride.
    fn new(residue: usize, kernel: usize, stride: usize, padding: usize, output: usize) -> Self {
        let stride = stride.max(1);
        let kernel = phase_len(residue, kernel, stride);
        let first = (residue + stride - padding % stride) % stride;
        // The image index at the residue itself, which is the last index of the turned kernel.
        let image = (first + padding).saturating_sub(residue) / stride;
        Self {
            kernel,
            before: kernel as isize - 1 - image as isize,
            places: output.saturating_sub(first).div_ceil(stride),
            first,
        }
    }
}

/// Number of kernel indices with this residue by the stride.
pub const fn phase_len(residue: usize, kernel: usize, stride: usize) -> usize {
    kernel.saturating_sub(residue).div_ceil(if stride == 0 { 1 } else { stride })
}
