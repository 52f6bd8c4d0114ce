//! Weights laid out for [`correlate`](super::correlate): in blocks of as many output channels as a vector holds,
//! within a block by kernel row, column and input channel.

use super::correlate::lanes;

/// A kernel for a correlation with stride 1.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Rows of the kernel.
    pub rows: usize,
    /// Values a kernel row covers in the input: columns times input channels.
    pub span: usize,
    /// Output channels.
    pub channels: usize,
    /// The weights.
    pub weights: Weights,
}

/// The weights of a kernel, laid out for its number of output channels.
#[derive(Clone, Debug)]
pub enum Weights {
    /// As many channels together as a vector holds.
    Wide(Blocks),
    /// Too few channels for a vector, one after the other: `[channel][row][column · input channel]`, and the biases.
    Narrow(Vec<f32>, Vec<f32>),
}

/// Blocks of `lanes` output channels.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Channels of a block: the length of a vector this machine has.
    pub lanes: usize,
    /// `[block][row][column · input channel][lanes]`, zero where a lane has no channel.
    pub weights: Vec<f32>,
    /// `[block][lanes]`.
    pub bias: Vec<f32>,
}

/// Fewest channels worth a vector.
const NARROW: usize = 8;

/// Extents of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Output channels.
    pub out: usize,
    /// Input channels.
    pub inp: usize,
    /// Side, in pixels.
    pub side: usize,
}

impl Kernel {
    /// Lays out weights given by `weight(out channel, in channel, row, column)`; no bias where `bias` is empty.
    pub fn new(extents: Extents, bias: &[f32], weight: impl Fn(usize, usize, usize, usize) -> f32) -> Self {
        let Extents { out, inp, side } = extents;
        let weights = if out < NARROW {
            let values = each(out, inp, side).map(|(o, i, r, c)| weight(o, i, r, c)).collect();
            Weights::Narrow(values, (0..out).map(|o| bias.get(o).copied().unwrap_or(0.0)).collect())
        } else {
            Weights::Wide(Blocks::new(extents, lanes(out), bias, weight))
        };
        Self { rows: side, span: side * inp, channels: out, weights }
    }
}

/// All weights in the order (output channel, row, column, input channel), as (out, in, row, column).
fn each(out: usize, inp: usize, side: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..out).flat_map(move |o| {
        (0..side).flat_map(move |r| (0..side).flat_map(move |c| (0..inp).map(move |i| (o, i, r, c))))
    })
}

impl Blocks {
    fn new(extents: Extents, lanes: usize, bias: &[f32], weight: impl Fn(usize, usize, usize, usize) -> f32) -> Self {
        let Extents { out, inp, side } = extents;
        let blocks = out.div_ceil(lanes);
        let weights = each(blocks, inp, side)
            .flat_map(|(block, i, r, c)| (block * lanes..(block + 1) * lanes).map(move |o| (o, i, r, c)))
            .map(|(o, i, r, c)| if o < out { weight(o, i, r, c) } else { 0.0 })
            .collect();
        let bias = (0..blocks * lanes).map(|o| bias.get(o).copied().unwrap_or(0.0)).collect();
        Self { lanes, weights, bias }
    }
}
