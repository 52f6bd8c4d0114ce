#![no_std]
//! The layers whose cost is counted, with made-up weights and activations that are the same on
//! every machine. The firmware (`main.rs`) runs them between marks for the plugin `insn-count`; the test `counts`
//! runs them on the host too and compares.

use nae_core::Shape;
use nae_core::kernels::int8::{self, Channel, Layout, Range, Weights, Windows};
use nae_core::model::layer::Padding;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fully connected.
    Dense,
    /// Convolution.
    Conv,
    /// Transposed convolution.
    Transposed,
    /// Maximum over windows.
    MaxPool,
}

/// One layer.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Kind of layer.
    pub kind: Kind,
    /// Shape of the input.
    pub input: Shape,
    /// Height and width of the kernel.
    pub kernel: usize,
    /// Stride both ways.
    pub stride: usize,
    /// Padding on all sides.
    pub padding: usize,
    /// Output channels.
    pub outputs: usize,
}

const fn work(kind: Kind, [side, channels]: [usize; 2], kernel: usize, outputs: usize) -> Work {
    Work { kind, input: Shape::new(channels, side, side), kernel, stride: 1, padding: 0, outputs }
}

/// The layers, in the order of the table.
pub const WORKS: [Work; 18] = [
    work(Kind::Dense, [1, 640], 1, 128),
    work(Kind::Dense, [1, 128], 1, 128),
    work(Kind::Dense, [1, 128], 1, 8),
    work(Kind::Dense, [1, 8], 1, 128),
    work(Kind::Conv, [12, 64], 3, 64),
    work(Kind::Conv, [10, 64], 3, 128),
    work(Kind::Conv, [26, 32], 3, 64),
    work(Kind::Conv, [28, 1], 3, 32),
    work(Kind::Conv, [4, 128], 4, 1024),
    Work { padding: 1, ..work(Kind::Conv, [14, 16], 3, 16) },
    Work { stride: 2, padding: 1, ..work(Kind::Conv, [16, 3], 3, 9) },
    work(Kind::Transposed, [8, 128], 3, 64),
    work(Kind::Transposed, [10, 64], 3, 64),
    work(Kind::Transposed, [24, 64], 3, 32),
    work(Kind::Transposed, [1, 32], 4, 128),
    Work { stride: 2, padding: 1, ..work(Kind::Transposed, [7, 32], 4, 16) },
    Work { stride: 2, ..work(Kind::MaxPool, [24, 64], 2, 64) },
    Work { stride: 2, ..work(Kind::MaxPool, [8, 128], 2, 128) },
];

/// Length in words of the greatest weights.
pub const MOST_WORDS: usize = 1024 * 2048 / 4;
/// Length of the greatest input or output.
pub const MOST_VALUES: usize = 26 * 26 * 64;
/// Length of the greatest scratch memory, in words.
pub const MOST_SCRATCH: usize = 2048 * 4;
/// Most output channels.
pub const MOST_OUTPUTS: usize = 1024;

const INPUT_ZERO_POINT: i8 = -9;

/// Memory for one layer and its result.
pub struct Memory {
    /// Weights.
    pub words: [u32; MOST_WORDS],
    /// Bias, multiplier and shift of each output.
    pub channels: [Channel; MOST_OUTPUTS],
    /// Scratch memory of the kernels.
    pub scratch: [u32; MOST_SCRATCH],
    /// Input.
    pub input: [i8; MOST_VALUES],
    /// Output.
    pub output: [i8; MOST_VALUES],
}

impl Memory {
    /// All zeros.
    pub const fn new() -> Self {
        Self {
            words: [0; MOST_WORDS],
            channels: [[0; 3]; MOST_OUTPUTS],
            scratch: [0; MOST_SCRATCH],
            input: [0; MOST_VALUES],
            output: [0; MOST_VALUES],
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// 32 bits that look random (the finaliser of MurmurHash3).
fn hash(value: u32) -> u32 {
    let mut value = value.wrapping_add(0x9E37_79B9);
    value = (value ^ value >> 16).wrapping_mul(0x85EB_CA6B);
    value = (value ^ value >> 13).wrapping_mul(0xC2B2_AE35);
    value ^ value >> 16
}

/// A weight of −127 to 127.
fn weight(output: usize, tap: usize) -> i32 {
    hash((output * 4099 + tap) as u32) as i32 % 128
}

impl Work {
    /// Height and width of the output.
    pub const fn output_side(&self) -> usize {
        let side = self.input.height;
        match self.kind {
            Kind::Dense => 1,
            Kind::Transposed => (side - 1) * self.stride + self.kernel - 2 * self.padding,
            _ => (side + 2 * self.padding - self.kernel) / self.stride + 1,
        }
    }

    /// Number of output values.
    pub const fn output_len(&self) -> usize {
        self.output_side() * self.output_side() * self.outputs
    }

    /// Products of inputs and weights as the layer is defined, padding not counted; for pooling, the number of outputs.
    pub fn macs(&self) -> usize {
        let area = self.kernel * self.kernel;
        let channels = self.input.channels * self.outputs;
        // How many products an axis has: of places and taps, those that meet inside.
        let axis = (0..self.output_side())
            .flat_map(|o| (0..self.kernel).map(move |k| o * self.stride + k))
            .filter(|at| (self.padding..self.padding + self.input.height).contains(at))
            .count();
        match self.kind {
            Kind::Dense => channels,
            Kind::Conv => axis * axis * channels,
            Kind::Transposed => area * channels * self.input.height * self.input.width,
            Kind::MaxPool => self.output_len(),
        }
    }

    fn windows(&self) -> Windows {
        let side = self.output_side();
        Windows {
            input: self.input,
            output: Shape::new(self.outputs, side, side),
            kernel: [self.kernel; 2],
            stride: [self.stride; 2],
            padding: Padding::all(self.padding),
        }
    }

    /// Fills weights, channels and input.
    pub fn prepare(&self, layout: Layout, memory: &mut Memory) {
        for (index, value) in memory.input.iter_mut().take(self.input.len()).enumerate() {
            *value = hash(index as u32 ^ 0x5151) as i8;
        }
        let taps = self.kernel * self.kernel * self.input.channels;
        // The greater the sums, the greater the shift.
        let shift = -7 - (taps.ilog2() as i32) / 2;
        for (index, channel) in memory.channels.iter_mut().take(self.outputs).enumerate() {
            let random = hash(index as u32 ^ 0xABCD_0000) as i32;
            *channel = [random >> 18, (1 << 30) + (random & 0x3FFF_FFFF), shift];
        }
        if self.kind == Kind::MaxPool {
            return;
        }
        let mut words = memory.words.as_mut_slice();
        let strides = if self.kind == Kind::Transposed { self.stride } else { 1 };
        for row in 0..strides {
            for column in 0..strides {
                let sides = [row, column].map(|residue| (self.kernel - residue).div_ceil(strides));
                let taps = sides[0] * sides[1] * self.input.channels;
                let (own, rest) = words.split_at_mut(layout.words(self.outputs, taps));
                fill(layout, self.outputs, [sides[0], sides[1], self.input.channels], own);
                words = rest;
            }
        }
    }

    /// Runs the layer.
    #[inline(never)]
    pub fn run(&self, layout: Layout, memory: &mut Memory) {
        let Memory { words, channels, scratch, input, output } = memory;
        let (kernel, stride) = ([self.kernel; 2], [self.stride; 2]);
        let len = match self.kind {
            Kind::Transposed => layout.transposed_words(self.outputs, kernel, stride, self.input.channels),
            _ => layout.words(self.outputs, self.kernel * self.kernel * self.input.channels),
        };
        let weights = Weights {
            layout,
            words: words.get(..len).unwrap_or_default(),
            channels: channels.get(..self.outputs).unwrap_or_default(),
        };
        let (range, zero, windows) = (Range::full(3), INPUT_ZERO_POINT, self.windows());
        let scratch_len = match self.kind {
            Kind::Dense => int8::dense_scratch_words(layout, self.input.channels),
            Kind::Conv => int8::conv2d_scratch_words(layout, &windows),
            Kind::Transposed => int8::conv_transpose2d_scratch_words(layout, &windows),
            Kind::MaxPool => 0,
        };
        let scratch = scratch.get_mut(..scratch_len).unwrap_or_default();
        let input = input.get(..self.input.len()).unwrap_or_default();
        let output = output.get_mut(..self.output_len()).unwrap_or_default();
        match self.kind {
            Kind::Dense => int8::dense(zero, weights, range, scratch, input, output),
            Kind::Conv => int8::conv2d(&windows, zero, weights, range, scratch, input, output),
            Kind::Transposed => int8::conv_transpose2d(&windows, zero, weights, range, scratch, input, output),
            Kind::MaxPool => int8::max_pool2d(&windows, input, output),
        }
    }

    /// A checksum of the output (FNV-1a).
    pub fn checksum(&self, memory: &Memory) -> u32 {
        let step = |sum: u32, value: &i8| (sum ^ u32::from(*value as u8)).wrapping_mul(0x0100_0193);
        memory.output.iter().take(self.output_len()).fold(0x811C_9DC5, step)
    }
}

/// Weights of one convolution in their layout.
fn fill(layout: Layout, outputs: usize, [height, width, depth]: [usize; 3], words: &mut [u32]) {
    let taps = height * width * depth;
    let at = |output, tap| if output < outputs && tap < taps { weight(output, tap) } else { 0 };
    match layout {
        Layout::Paired => {
            let groups = taps.div_ceil(4);
            for (index, word) in words.iter_mut().enumerate() {
                let (output, group) = (index / (2 * groups) * 2, index / 2 % groups);
                let tap = group * 4 + index % 2;
                let halfword = |tap: usize| {
                    let (column, row, channel) = (tap / (height * depth), tap / depth % height, tap % depth);
                    let by_row = (row * width + column) * depth + channel;
                    let tap = if depth.is_multiple_of(4) || tap >= taps { tap } else { by_row };
                    (256 * at(output + 1, tap) + at(output, tap)) as u16
                };
                *word = u32::from(halfword(tap)) | u32::from(halfword(tap + 2)) << 16;
            }
        }
        _ => {
            for (index, word) in words.iter_mut().enumerate() {
                let byte = |i: usize| at((index * 4 + i) / taps, (index * 4 + i) % taps) as u8;
                *word = u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)]);
            }
        }
    }
}

impl core::fmt::Display for Work {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Shape { channels, height, .. } = self.input;
        let (k, side) = (self.kernel, self.output_side());
        let name = match self.kind {
            Kind::Dense => return write!(f, "dense {channels}→{}", self.outputs),
            Kind::Conv => "conv",
            Kind::Transposed => "transposed conv",
            Kind::MaxPool => "max-pool",
        };
        write!(f, "{name} {k}×{k}")?;
        if self.stride > 1 {
            write!(f, " stride {}", self.stride)?;
        }
        if self.padding > 0 {
            write!(f, " padding {}", self.padding)?;
        }
        write!(f, ", {height}×{height}×{channels}→{side}×{side}×{}", self.outputs)
    }
}
