//! Made-up weights and activations, and the run of a layer with them.

use super::hash;
use super::work::{Kind, Work};
use nae_core::energy::Energy;
use nae_core::kernels::int8::{
    self, Add, Channel, L2Normalize, Layout, LeakyRelu, Multiplier, Multiply, Range, Requantize, Weights,
};
use nae_core::quantization::Quantization;

/// Length in words of the greatest weights.
const MOST_WORDS: usize = 1024 * 2048 / 4;
/// Length of the greatest input or output.
const MOST_VALUES: usize = 26 * 26 * 64;
/// Length of the greatest scratch memory, in words.
const MOST_SCRATCH: usize = 2048 * 4;
/// Most output channels.
const MOST_OUTPUTS: usize = 1024;

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

/// Lengths of slices: words, words, values, values.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Of the weights.
    pub words: usize,
    /// Of the scratch memory.
    pub scratch: usize,
    /// Of the input.
    pub input: usize,
    /// Of the output.
    pub output: usize,
}

impl Lengths {
    /// Each of them less by up to a fifth, or by a few, or not; which, the number decides.
    pub fn cut(self, number: u32) -> Self {
        let less = |len: usize, salt: u32| {
            let random = hash(number ^ salt) as usize;
            let most = [0, 3, len / 5][random % 3];
            len.saturating_sub(random / 3 % (most + 1))
        };
        Self {
            words: less(self.words, 1 << 20),
            scratch: less(self.scratch, 2 << 20),
            input: less(self.input, 3 << 20),
            output: less(self.output, 4 << 20),
        }
    }
}

impl Memory {
    /// Fills what a layer may write to, and what lies behind it.
    pub fn mark(&mut self) {
        self.output.fill(0x55);
        self.scratch.fill(0x5555_5555);
    }

    /// Whether everything behind the output and the scratch memory is as [`Memory::mark`] left it.
    pub fn is_marked_behind(&self, lengths: Lengths) -> bool {
        let mut output = self.output.iter().skip(lengths.output);
        let mut scratch = self.scratch.iter().skip(lengths.scratch);
        output.all(|value| *value == 0x55) && scratch.all(|word| *word == 0x5555_5555)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
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

    /// The lengths of all that the layer needs.
    pub fn lengths(&self, layout: Layout) -> Lengths {
        let (kernel, stride) = ([self.kernel; 2], [self.stride; 2]);
        Lengths {
            words: match self.kind {
                Kind::Transposed => layout.transposed_words(self.outputs, kernel, stride, self.input.channels),
                _ => layout.words(self.outputs, self.kernel * self.kernel * self.input.channels),
            },
            scratch: match self.kind {
                Kind::Dense => int8::dense_scratch_words(layout, self.input.channels),
                Kind::Conv => int8::conv2d_scratch_words(layout, &self.windows()),
                Kind::Transposed => int8::conv_transpose2d_scratch_words(layout, &self.windows()),
                _ => 0,
            },
            input: self.input.len(),
            output: self.output_len(),
        }
    }

    /// Runs the layer.
    pub fn run(&self, layout: Layout, memory: &mut Memory) {
        self.run_within(layout, self.lengths(layout), memory);
    }

    /// Runs the layer with slices of these lengths.
    #[inline(never)]
    pub fn run_within(&self, layout: Layout, lengths: Lengths, memory: &mut Memory) {
        let Memory { words, channels, scratch, input, output } = memory;
        let weights = Weights {
            layout,
            words: words.get(..lengths.words).unwrap_or_default(),
            channels: channels.get(..self.outputs).unwrap_or_default(),
        };
        let range = if self.relu { Range::relu(3) } else { Range::full(3) };
        let (zero, windows) = (self.zero_point(), self.windows());
        let scratch = scratch.get_mut(..lengths.scratch).unwrap_or_default();
        let input = input.get(..lengths.input).unwrap_or_default();
        let output = output.get_mut(..lengths.output).unwrap_or_default();
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
                let scale = |scale| Quantization::new(scale, zero);
                if let (Ok(a), Ok(b)) = (scale(0.391), scale(0.364)) {
                    let energy = Energy::SquaredL2.evaluate_i8((input, a), (output, b));
                    for (value, byte) in output.iter_mut().zip(energy.unwrap_or(f32::NAN).to_bits().to_le_bytes()) {
                        *value = byte as i8;
                    }
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
