#![no_std]
//! The layers whose cost is counted, with made-up weights and activations that are the same on
//! every machine. The firmware (`main.rs`) runs them between marks for the plugin `insn-count`; the
//! test `counts` runs them on the host too and compares.

use nae_core::Shape;
use nae_core::kernels::int8::{
    self, Add, Channel, L2Normalize, Layout, LeakyRelu, Multiplier, Multiply, Range, Requantize, Scale, Sums, Weights,
    Windows,
};
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
    /// Mean over windows.
    AveragePool,
    /// Bilinear interpolation to twice the size, half-pixel centres.
    Bilinear,
    /// Nearest neighbour at twice the size.
    Nearest,
    /// A table of 256 values.
    LookUp,
    /// Leaky ReLU.
    LeakyRelu,
    /// Another scale.
    Requantize,
    /// Sum of two tensors.
    Add,
    /// Product of two tensors.
    Multiply,
    /// Division by the norm.
    L2Normalize,
    /// Sums for the energy.
    Energy,
}

impl Kind {
    /// Whether the layer has weights, and its cost is given per product; else it is per output
    /// value.
    pub const fn has_weights(self) -> bool {
        matches!(self, Self::Dense | Self::Conv | Self::Transposed)
    }
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
    /// Whether weights, inputs and zero point are the greatest there are, so that sums come closest
    /// to overflow.
    pub extreme: bool,
}

const fn work(kind: Kind, [side, channels]: [usize; 2], kernel: usize, outputs: usize) -> Work {
    Work { kind, input: Shape::new(channels, side, side), kernel, stride: 1, padding: 0, outputs, extreme: false }
}

/// The layers, in the order of the table.
pub const WORKS: [Work; 28] = [
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
    Work { stride: 2, ..work(Kind::AveragePool, [24, 64], 2, 64) },
    work(Kind::Bilinear, [8, 64], 2, 64),
    work(Kind::Nearest, [8, 64], 2, 64),
    work(Kind::LookUp, [16, 4], 1, 4),
    work(Kind::LeakyRelu, [16, 4], 1, 4),
    work(Kind::Requantize, [16, 4], 1, 4),
    work(Kind::Add, [16, 4], 1, 4),
    work(Kind::Multiply, [16, 4], 1, 4),
    work(Kind::L2Normalize, [1, 64], 1, 64),
    work(Kind::Energy, [1, 640], 1, 640),
];

/// Length in words of the greatest weights.
pub const MOST_WORDS: usize = 1024 * 2048 / 4;
/// Length of the greatest input or output.
pub const MOST_VALUES: usize = 26 * 26 * 64;
/// Length of the greatest scratch memory, in words.
pub const MOST_SCRATCH: usize = 2048 * 4;
/// Most output channels.
pub const MOST_OUTPUTS: usize = 1024;

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
const fn hash(value: u32) -> u32 {
    let mut value = value.wrapping_add(0x9E37_79B9);
    value = (value ^ value >> 16).wrapping_mul(0x85EB_CA6B);
    value = (value ^ value >> 13).wrapping_mul(0xC2B2_AE35);
    value ^ value >> 16
}

/// A table to look values up in.
static TABLE: [i8; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        table[index] = hash(index as u32) as i8;
        index += 1;
    }
    table
};

/// A small layer; each number gives another, any of them of any kind.
pub fn any_work(number: u32) -> Work {
    let mut state = number.wrapping_mul(0x9E37_79B9);
    let mut next = |most: usize| {
        state = hash(state);
        1 + state as usize % most
    };
    let kind = [Kind::Conv, Kind::Transposed, Kind::Dense, Kind::MaxPool][next(4) - 1];
    let (side, stride, outputs, extreme) = (next(8), next(3), next(7), next(4) == 1);
    let kernel = next(4).min(side);
    let padding = (next(kernel) - 1).min(kernel / 2);
    let channels = [next(12), 4 * next(24)][next(2) - 1];
    match kind {
        Kind::Dense => Work { extreme, ..work(kind, [1, next(1100)], 1, outputs) },
        Kind::MaxPool => Work { stride, padding, ..work(kind, [side, channels], kernel, channels) },
        _ => Work { stride, padding, extreme, ..work(kind, [side, channels], kernel, outputs) },
    }
}

impl Work {
    /// A weight of −127 to 127.
    fn weight(&self, output: usize, tap: usize) -> i32 {
        match self.extreme {
            true => 127 - 254 * (output as i32 & 1),
            false => hash((output * 4099 + tap) as u32) as i32 % 128,
        }
    }

    fn zero_point(&self) -> i8 {
        if self.extreme { 127 } else { -9 }
    }

    /// Height and width of the output.
    pub const fn output_side(&self) -> usize {
        let side = self.input.height;
        match self.kind {
            Kind::Dense => 1,
            Kind::Bilinear | Kind::Nearest => 2 * side,
            Kind::Transposed => (side - 1) * self.stride + self.kernel - 2 * self.padding,
            _ => (side + 2 * self.padding - self.kernel) / self.stride + 1,
        }
    }

    /// Number of output values.
    pub const fn output_len(&self) -> usize {
        self.output_side() * self.output_side() * self.outputs
    }

    /// Products of inputs and weights as the layer is defined, padding not counted; for pooling,
    /// the number of outputs.
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
            _ => self.output_len(),
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
            *value = if self.extreme { -128 } else { hash(index as u32 ^ 0x5151) as i8 };
        }
        let taps = self.kernel * self.kernel * self.input.channels;
        // The greater the sums, the greater the shift.
        let shift = -7 - (taps.ilog2() as i32) / 2;
        for (index, channel) in memory.channels.iter_mut().take(self.outputs).enumerate() {
            let random = hash(index as u32 ^ 0xABCD_0000) as i32;
            *channel = [random >> 18, (1 << 30) + (random & 0x3FFF_FFFF), shift];
        }
        if !self.kind.has_weights() {
            return;
        }
        let mut words = memory.words.as_mut_slice();
        let strides = if self.kind == Kind::Transposed { self.stride } else { 1 };
        for row in 0..strides {
            for column in 0..strides {
                let sides = [row, column].map(|residue| self.kernel.saturating_sub(residue).div_ceil(strides));
                let taps = sides[0] * sides[1] * self.input.channels;
                let (own, rest) = words.split_at_mut(layout.words(self.outputs, taps));
                self.fill(layout, [sides[0], sides[1], self.input.channels], own);
                words = rest;
            }
        }
    }

    fn scratch_words(&self, layout: Layout) -> usize {
        match self.kind {
            Kind::Dense => int8::dense_scratch_words(layout, self.input.channels),
            Kind::Conv => int8::conv2d_scratch_words(layout, &self.windows()),
            Kind::Transposed => int8::conv_transpose2d_scratch_words(layout, &self.windows()),
            _ => 0,
        }
    }

    /// Fills what the layer may write to, and what lies behind it.
    pub fn mark(&self, memory: &mut Memory) {
        memory.output.fill(0x55);
        memory.scratch.fill(0x5555_5555);
    }

    /// Whether everything behind the output and the scratch memory is as [`Work::mark`] left it.
    pub fn kept_to_its_own(&self, layout: Layout, memory: &Memory) -> bool {
        let mut output = memory.output.iter().skip(self.output_len());
        let mut scratch = memory.scratch.iter().skip(self.scratch_words(layout));
        output.all(|value| *value == 0x55) && scratch.all(|word| *word == 0x5555_5555)
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
        let (range, zero, windows) = (Range::full(3), self.zero_point(), self.windows());
        let scratch = scratch.get_mut(..self.scratch_words(layout)).unwrap_or_default();
        let input = input.get(..self.input.len()).unwrap_or_default();
        let output = output.get_mut(..self.output_len()).unwrap_or_default();
        match self.kind {
            Kind::Dense => int8::dense(zero, weights, range, scratch, input, output),
            Kind::Conv => int8::conv2d(&windows, zero, weights, range, scratch, input, output),
            Kind::Transposed => int8::conv_transpose2d(&windows, zero, weights, range, scratch, input, output),
            _ => self.run_without_weights(input, output),
        }
    }

    fn run_without_weights(&self, input: &[i8], output: &mut [i8]) {
        let (windows, range, zero) = (self.windows(), Range::full(3), self.zero_point());
        let multiplier = Multiplier { value: 1_518_500_250, shift: -1 };
        if matches!(self.kind, Kind::LookUp | Kind::LeakyRelu | Kind::Requantize | Kind::L2Normalize) {
            output.copy_from_slice(input);
        }
        match self.kind {
            Kind::MaxPool => int8::max_pool2d(&windows, input, output),
            Kind::AveragePool => int8::average_pool2d(&windows, None, input, output),
            Kind::Bilinear => int8::bilinear(true, windows.input, windows.output, input, output),
            Kind::Nearest => int8::nearest(windows.input, windows.output, input, output),
            Kind::LookUp => int8::look_up(&TABLE, output),
            Kind::LeakyRelu => {
                let negative = Multiplier { shift: -4, ..multiplier };
                let layer = LeakyRelu { input_zero_point: zero, positive: multiplier, negative, range };
                int8::leaky_relu(&layer, output);
            }
            Kind::Requantize => int8::requantize(&Requantize { input_zero_point: zero, multiplier, range }, output),
            Kind::Add => {
                let layer = Add {
                    input_zero_points: [zero; 2],
                    inputs: [multiplier; 2],
                    sum: Multiplier { shift: -18, ..multiplier },
                    range,
                };
                int8::add(&layer, input, input, output);
            }
            Kind::Multiply => {
                let layer = Multiply {
                    input_zero_points: [zero; 2],
                    multiplier: Multiplier { shift: -7, ..multiplier },
                    range,
                };
                int8::multiply(&layer, input, input, output);
            }
            Kind::L2Normalize => {
                let gain = Multiplier { value: 1 << 30, shift: 8 };
                int8::l2_normalize(&L2Normalize { input_zero_point: zero, least: 0, gain, range }, output);
            }
            Kind::Energy => {
                output.fill(5);
                let sums = Sums::of(input, output);
                let scale = |scale| Scale { scale, zero_point: zero };
                let energy = sums.squared_l2(scale(0.391), scale(0.364));
                for (value, byte) in output.iter_mut().zip(energy.to_bits().to_le_bytes()) {
                    *value = byte as i8;
                }
            }
            _ => {}
        }
    }

    /// Weights of one convolution in their layout.
    fn fill(&self, layout: Layout, [height, width, depth]: [usize; 3], words: &mut [u32]) {
        let taps = height * width * depth;
        let outputs = self.outputs;
        let at = |output, tap| if output < outputs && tap < taps { self.weight(output, tap) } else { 0 };
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

    /// The output of pooling, place by place: what the kernels are compared with.
    pub fn pool_slowly(&self, memory: &mut Memory) {
        let (side, channels) = (self.output_side(), self.outputs);
        for (index, value) in memory.output.iter_mut().take(self.output_len()).enumerate() {
            let (y, x, channel) = (index / channels / side, index / channels % side, index % channels);
            *value = i8::MIN;
            for (ky, kx) in (0..self.kernel).flat_map(|ky| (0..self.kernel).map(move |kx| (ky, kx))) {
                let (y, x) = (y * self.stride + ky, x * self.stride + kx);
                let (y, x) = (y.wrapping_sub(self.padding), x.wrapping_sub(self.padding));
                if y < self.input.height && x < self.input.width {
                    let at = (y * self.input.width + x) * channels + channel;
                    *value = (*value).max(memory.input.get(at).copied().unwrap_or_default());
                }
            }
        }
    }

    /// A checksum of the output (FNV-1a).
    pub fn checksum(&self, memory: &Memory) -> u32 {
        let step = |sum: u32, value: &i8| (sum ^ u32::from(*value as u8)).wrapping_mul(0x0100_0193);
        memory.output.iter().take(self.output_len()).fold(0x811C_9DC5, step)
    }
}

impl core::fmt::Display for Work {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Shape { channels, height, .. } = self.input;
        let (k, side) = (self.kernel, self.output_side());
        let values = self.input.len();
        let name = match self.kind {
            Kind::Dense => return write!(f, "dense {channels}→{}", self.outputs),
            Kind::LookUp => return write!(f, "table, {values} values"),
            Kind::LeakyRelu => return write!(f, "leaky ReLU, {values} values"),
            Kind::Requantize => return write!(f, "requantise, {values} values"),
            Kind::Add => return write!(f, "add, {values} values"),
            Kind::Multiply => return write!(f, "multiply, {values} values"),
            Kind::L2Normalize => return write!(f, "L2 normalise, {values} values"),
            Kind::Energy => return write!(f, "energy, {values} values"),
            Kind::Bilinear => return write!(f, "bilinear, {height}×{height}×{channels}→{side}×{side}×{channels}"),
            Kind::Nearest => return write!(f, "nearest, {height}×{height}×{channels}→{side}×{side}×{channels}"),
            Kind::Conv => "conv",
            Kind::Transposed => "transposed conv",
            Kind::MaxPool => "max-pool",
            Kind::AveragePool => "average pool",
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
