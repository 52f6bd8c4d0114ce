//! The input values over which each output pixel of a convolution, or of a transposed one, is summed.
//!
//! With channels last, the values under one row of a kernel are contiguous. At the edges the kernel exceeds the input,
//! and a transposed convolution with a stride uses another part of its kernel for each remainder of the position.
//! Therefore output pixels are divided into classes. The pixels of a class sum over the same part of the kernel, so no
//! zeros are multiplied and no padded copy of the input is needed.

use std::collections::HashMap;

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

impl Reading {
    /// The other direction.
    pub const fn adjoint(self) -> Self {
        match self {
            Self::Convolution => Self::Transposed,
            Self::Transposed => Self::Convolution,
        }
    }
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

impl Reach {
    /// The part of the kernel that is read.
    const fn part(&self) -> Part {
        match *self {
            Self { len: 0, .. } => Part::NOTHING,
            Self { phase, first, len, .. } => Part { phase, first, len },
        }
    }
}

/// The part of the kernel that a class of pixels reads along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// The parts of the kernel that the output coordinates of one axis read. Finding the classes of pixels by these takes a
/// time that is proportional to the number of pixels: a long stride makes as many classes as its square.
struct Axis {
    /// The inputs of each coordinate.
    reaches: Vec<Reach>,
    /// The number of each coordinate's part.
    numbers: Vec<usize>,
    /// How many coordinates have each part.
    counts: Vec<usize>,
}

impl Axis {
    fn new(reading: Reading, axis: usize, window: KernelWindow, from: usize, to: usize) -> Self {
        let reaches = reaches(reading, axis, window, from, to);
        let mut counts = Vec::new();
        let mut known = HashMap::new();
        let numbers = reaches.iter().map(|reach| {
            let number = *known.entry(reach.part()).or_insert(counts.len());
            if number == counts.len() {
                counts.push(0);
            }
            counts[number] += 1;
            number
        });
        Self { numbers: numbers.collect(), reaches, counts }
    }
}

/// The largest number of classes of output pixels from `from` to `to`.
pub fn class_count(reading: Reading, window: KernelWindow, from: Size, to: Size) -> usize {
    let count = |axis, from, to| Axis::new(reading, axis, window, from, to).counts.len();
    count(0, from.h, to.h) * count(1, from.w, to.w)
}

/// The classes of output pixels from `from` to `to`, whose channels only determine the number of values of a pixel.
pub fn classes(reading: Reading, window: KernelWindow, from: Size, to: Size) -> Vec<Class> {
    let rows = Axis::new(reading, 0, window, from.h, to.h);
    let columns = Axis::new(reading, 1, window, from.w, to.w);
    let mut classes: Vec<Class> = Vec::new();
    // The class of each pair of parts, and that of pixels that read nothing.
    let mut numbers = vec![None; rows.counts.len() * columns.counts.len()];
    let mut nothing = None;
    for (y, (row, &down)) in rows.reaches.iter().zip(&rows.numbers).enumerate() {
        for (x, (column, &across)) in columns.reaches.iter().zip(&columns.numbers).enumerate() {
            let read = row.len > 0 && column.len > 0;
            let start = (row.start * from.w + column.start) * from.c;
            let pixel = [if read { start } else { 0 }, y * to.w + x];
            let number = if read { &mut numbers[down * columns.counts.len() + across] } else { &mut nothing };
            let number = *number.get_or_insert_with(|| {
                let (rows, columns, pixels) = if read {
                    (row.part(), column.part(), rows.counts[down] * columns.counts[across])
                } else {
                    (Part::NOTHING, Part::NOTHING, 0)
                };
                classes.push(Class { rows, columns, pixels: Vec::with_capacity(pixels) });
                classes.len() - 1
            });
            classes[number].pixels.push(pixel);
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Every pixel is in one class, and the class has the part of the kernel that the pixel reads.
    #[test]
    fn classes_divide_the_pixels_by_what_they_read() {
        let (from, to) = (Size { h: 4, w: 5, c: 2 }, Size { h: 9, w: 17, c: 3 });
        // With a stride longer than the kernel, some pixels read nothing.
        for (kernel, stride, padding) in [([3, 2], 2, [1, 0]), ([2, 2], 4, [1, 1]), ([5, 7], 2, [2, 3])] {
            let window = KernelWindow { kernel, stride, padding };
            let axis = |axis, from, to| reaches(Reading::Transposed, axis, window, from, to);
            let (rows, columns) = (axis(0, from.h, to.h), axis(1, from.w, to.w));
            let classes = classes(Reading::Transposed, window, from, to);
            let mut seen = vec![false; to.h * to.w];
            for (number, class) in classes.iter().enumerate() {
                assert!(!classes[..number].iter().any(|c| (c.rows, c.columns) == (class.rows, class.columns)));
                for &[start, place] in &class.pixels {
                    assert!(!std::mem::replace(&mut seen[place], true), "{place} is in two classes");
                    let (row, column) = (rows[place / to.w], columns[place % to.w]);
                    let read = row.len > 0 && column.len > 0;
                    for (part, reach) in [(class.rows, row), (class.columns, column)] {
                        let Reach { phase, first, len, .. } = reach;
                        assert_eq!(part, if read { Part { phase, first, len } } else { Part::NOTHING });
                    }
                    assert_eq!(start, if read { (row.start * from.w + column.start) * from.c } else { 0 });
                }
            }
            assert!(seen.iter().all(|seen| *seen));
        }
    }

    /// A file of 263 KB with such a layer took minutes: the class of a pixel was searched among all.
    #[test]
    fn many_classes_are_found_quickly() {
        let (from, to) = (Size { h: 4, w: 4, c: 1 }, Size { h: 1024, w: 1024, c: 1 });
        let window = KernelWindow { kernel: [256, 256], stride: 256, padding: [0; 2] };
        let begun = Instant::now();
        assert_eq!(classes(Reading::Transposed, window, from, to).len(), 256 * 256);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
