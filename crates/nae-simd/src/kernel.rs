//! Weights laid out for [`correlate`](crate::correlate): for each phase of the kernel, in blocks of as many output
//! channels as are computed together, within a block by kernel row, column and input channel.

use crate::geometry::{Class, KernelWindow, Reading, class_count, classes, taps};
use crate::instructions::lanes;
use crate::plane::Size;
use crate::pointwise::{NEGLIGIBLE, zero_below};
use crate::sums::VECTORS;
use crate::winograd::Winograd;

/// A kernel for planes of a given size.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Shape of an input.
    pub from: Size,
    /// Shape of an output.
    pub to: Size,
    /// One bias for each output channel, and zeros up to whole vectors.
    pub bias: Vec<f32>,
    /// The weights, laid out for the fastest loop.
    pub weights: Weights,
}

/// The weights of a kernel in the order in which a loop reads them.
#[derive(Clone, Debug)]
pub enum Weights {
    /// Vectors run along the window: too few output channels to fill one.
    Narrow(Windows),
    /// Vectors of so many output channels.
    Wide(usize, Windows),
    /// The same, with the kernel transformed.
    Winograd(usize, Winograd),
}

/// The weights for sums over windows of the input.
#[derive(Clone, Debug)]
pub struct Windows {
    /// Output pixels by the part of the kernel they read.
    pub classes: Vec<Class>,
    /// `phases[row phase][column phase]`.
    pub phases: Vec<Vec<Phase>>,
}

/// The weights of one phase.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Number of values that a kernel row of this phase covers in the input: columns times input channels.
    pub span: usize,
    /// Number of rows times span.
    pub taps: usize,
    /// `[block][row][column · input channel][lanes of the block]`, zero if a lane has no channel; all blocks but the
    /// last have [`VECTORS`] vectors. Narrow: `[channel][row][column · input channel]`.
    pub weights: Vec<f32>,
}

/// The smallest number of channels for which a vector is used.
const NARROW: usize = 8;

/// In training, weights smaller than this share of a kernel's largest are set to zero: 2⁻³⁰. Weight decay moves the
/// weights of dead units ever closer to zero, and products of such weights are subnormal numbers, with which some
/// processors are slow. Biases are set to zero below this share of the largest weight and below [`NEGLIGIBLE`]: the
/// inputs that the weights multiply may be small, too.
const LEAST_SHARE: f32 = 1.0 / (1 << 30) as f32;
/// In scoring, weights and biases smaller than this are set to zero: 2⁻¹⁰⁰, whose products with inputs above 2⁻²⁶ are
/// still normal numbers. A share would be wrong: in a model of unknown origin, a weight that is small beside others may
/// be all that an output is made of, or multiply an input that is as much larger.
const LEAST: f32 = 1.0 / (1u128 << 100) as f32;

/// Which weights of a kernel are so small that they are set to zero: those below this number.
#[derive(Clone, Copy, Debug)]
pub struct Negligible(f32);

impl Negligible {
    /// For a network in training, by their share of the largest of the kernel's `weights`.
    pub fn trained(weights: &[f32]) -> Self {
        Self(LEAST_SHARE * weights.iter().fold(0.0f32, |largest, weight| largest.max(weight.abs())))
    }

    /// For a network that scores: those whose products may be subnormal numbers.
    pub const fn scored() -> Self {
        Self(LEAST)
    }
}

impl Kernel {
    /// The size of the tables of the places and classes of pixels of such a kernel, in bytes, without its weights.
    pub fn table_bytes(reading: Reading, window: KernelWindow, from: Size, to: Size) -> u64 {
        let phases = match reading {
            Reading::Convolution => 1,
            Reading::Transposed => (window.stride as u64).saturating_mul(window.stride as u64),
        };
        let entries = [
            ((to.h as u64).saturating_mul(to.w as u64), size_of::<[usize; 2]>()),
            (class_count(reading, window, from, to) as u64, size_of::<Class>()),
            (phases, size_of::<Phase>()),
        ];
        entries.iter().fold(0, |sum, (count, bytes)| sum.saturating_add(count.saturating_mul(*bytes as u64)))
    }

    /// Lays out weights given by `weight(out channel, in channel, row, column)`, without those that are `negligible`;
    /// without bias if `bias` is empty.
    pub fn new(
        reading: Reading,
        window: KernelWindow,
        [from, to]: [Size; 2],
        negligible: Negligible,
        bias: &[f32],
        weight: impl Fn(usize, usize, usize, usize) -> f32,
    ) -> Self {
        let [rows, columns] = window.kernel.map(|side| taps(reading, side, window.stride));
        let Negligible(least) = negligible;
        let least_bias = least.min(NEGLIGIBLE);
        let weight = |o, i, r, c| zero_below(least, weight(o, i, r, c));
        let lanes = (to.c >= NARROW).then(|| lanes(to.c));
        let blocks = blocks(to.c, lanes);
        let phase = |rows: &[usize], columns: &[usize]| {
            let span = columns.len() * from.c;
            let mut weights = Vec::with_capacity(blocks.iter().map(|b| b.len()).sum::<usize>() * rows.len() * span);
            for block in &blocks {
                for &r in rows {
                    for &c in columns {
                        for i in 0..from.c {
                            weights.extend(block.clone().map(|o| if o < to.c { weight(o, i, r, c) } else { 0.0 }));
                        }
                    }
                }
            }
            Phase { span, taps: rows.len() * span, weights }
        };
        let windows = || Windows {
            classes: classes(reading, window, from, to),
            phases: rows.iter().map(|rows| columns.iter().map(|columns| phase(rows, columns)).collect()).collect(),
        };
        let padded = blocks.last().map_or(0, |block| block.end);
        let bias = (0..padded).map(|o| zero_below(least_bias, bias.get(o).copied().unwrap_or(0.0))).collect();
        let weights = match lanes {
            None => Weights::Narrow(windows()),
            Some(lanes) => match Winograd::new(reading, window, [from, to], lanes, weight) {
                Some(winograd) => Weights::Winograd(lanes, winograd),
                None => Weights::Wide(lanes, windows()),
            },
        };
        Self { from, to, bias, weights }
    }
}

/// The output channels that are computed together, filled up to whole vectors.
fn blocks(channels: usize, lanes: Option<usize>) -> Vec<std::ops::Range<usize>> {
    let (step, lanes) = lanes.map_or((1, 1), |lanes| (VECTORS * lanes, lanes));
    let padded = channels.next_multiple_of(lanes);
    (0..padded).step_by(step).map(|start| start..(start + step).min(padded)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(negligible: Negligible, weights: [f32; 2], bias: f32) -> Kernel {
        let sizes = [Size { h: 1, w: 1, c: 2 }, Size { h: 1, w: 1, c: 1 }];
        let window = KernelWindow { kernel: [1, 1], stride: 1, padding: [0; 2] };
        Kernel::new(Reading::Convolution, window, sizes, negligible, &[bias], |_, i, _, _| weights[i])
    }

    fn pointwise(negligible: Negligible, weights: [f32; 2]) -> Vec<f32> {
        match kernel(negligible, weights, 0.0).weights {
            Weights::Narrow(windows) => windows.phases[0][0].weights.clone(),
            other => panic!("{other:?} for one channel"),
        }
    }

    #[test]
    fn in_training_weights_that_no_sum_would_show_are_zero() {
        let pointwise = |weights: [f32; 2]| pointwise(Negligible::trained(&weights), weights);
        assert_eq!(pointwise([-0.5, 1e-8]), [-0.5, 1e-8]);
        assert_eq!(pointwise([-0.5, 1e-10]), [-0.5, 0.0]);
        // Small in absolute value, but not relative to each other.
        assert_eq!(pointwise([1e-20, 3e-21]), [1e-20, 3e-21]);
        assert_eq!(pointwise([0.0, 0.0]), [0.0, 0.0]);
        assert!(pointwise([f32::NAN, 1.0])[0].is_nan());
    }

    #[test]
    fn in_scoring_weights_are_zero_whose_products_may_be_subnormal() {
        let pointwise = |weights| pointwise(Negligible::scored(), weights);
        assert_eq!(pointwise([1e12, -1e-10]), [1e12, -1e-10]);
        assert_eq!(pointwise([1e-29, -1e-31]), [1e-29, 0.0]);
        assert_eq!(kernel(Negligible::scored(), [1e12, 0.0], 1e-29).bias[0], 1e-29);
        assert_eq!(kernel(Negligible::scored(), [0.0, 0.0], 1e-31).bias[0], 0.0);
        assert!(pointwise([f32::NAN, 1.0])[0].is_nan());
    }

    #[test]
    fn in_training_a_bias_that_no_sum_would_show_is_zero() {
        let bias = |weights: [f32; 2], bias| kernel(Negligible::trained(&weights), weights, bias).bias[0];
        assert_eq!(bias([0.5, 0.0], 1e-17), 1e-17);
        assert_eq!(bias([0.5, 0.0], -1e-19), 0.0);
        // Next to weights that are still smaller, and alone.
        assert_eq!(bias([1e-20, 0.0], 1e-28), 1e-28);
        assert_eq!(bias([0.0, 0.0], 1e-40), 1e-40);
        assert!(bias([1.0, 1.0], f32::NAN).is_nan());
    }
}
