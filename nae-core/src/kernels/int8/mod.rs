//! Kernels for quantized layers: 8-bit activations and weights, 32-bit sums. No kernel allocates, and none can panic:
//! values that do not fit, which the parser has excluded, are skipped.
//!
//! # Numbers
//! A tensor has a scale s and a zero point z: the stored 8-bit q represents s·(q − z). Weights have a scale for each
//! output channel and no zero point. A layer's results are those of TFLite's built-in **reference** kernels
//! (`BUILTIN_REF`, of ai-edge-litert 2.3.0) bit for bit: sums are exact, and are multiplied by a 31-bit factor and
//! shifted. Dense layers then round **once** ([`Multiplier::apply`]), all other layers **twice**
//! ([`Multiplier::apply_twice`]), as these kernels do; TFLite's optimized kernels, and CMSIS-NN's by default, round
//! dense layers twice too. Exceptions: the table of [`look_up`] is the exporter's, and [`l2_normalize`] is within one
//! of TFLite's.
//!
//! # Layout of activations
//! Height, width, channels (HWC), one byte per value, no padding and no alignment.
//!
//! # Layouts of weights
//! Weights are stored in 32-bit words, little-endian as in the file, so that kernels can load words. A convolution has
//! `outputs` channels and `taps` = kernel height · kernel width · input channels products each, numbered `[kernel
//! row][kernel column][input channel]`. A dense layer is a convolution of one pixel. A transposed convolution of stride
//! s is s·s convolutions, one for each residue of the output's row and column, in the order of the residue of the
//! kernel's row, then column; convolution (r, c) has the kernel rows r, r + s, r + 2s, … from last to first, and
//! columns likewise. With stride 1 that is one convolution over the turned kernel.
//!
//! For each convolution, one after the other:
//!
//! | layout | tag | words |
//! |---|---|---|
//! | [`Layout::Plain`] | 0 | bytes `[output][tap]`, then zeros up to a whole word |
//! | [`Layout::Paired`] | 1 | for each pair of outputs, for each group of four taps, two words; see there |
//!
//! In addition to the weights there is a table of [`Channel`]: bias, multiplier, shift of each output.
//!
//! Exporters on the host make these from weights in the order of TFLite and ONNX (`nae_graph::int8_weights`). All
//! builds read both layouts and give the same results.

#[cfg(any(nae_dsp = "v7", nae_dsp = "v8"))]
#[path = "dsp/mod.rs"]
mod arithmetic;
#[cfg(not(any(nae_dsp = "v7", nae_dsp = "v8")))]
#[path = "portable.rs"]
mod arithmetic;
mod elementwise;
mod energy;
mod geometry;
#[cfg(nae_mve)]
mod helium;
mod lone;
mod paired;
#[cfg(not(nae_mve))]
mod plain;
mod pool;
mod quantize;
mod resize;

pub use elementwise::{
    Add, L2Normalize, LeakyRelu, Multiply, Requantize, add, add_in_place, l2_normalize, leaky_relu, look_up, multiply,
    multiply_in_place, requantize,
};
pub use energy::Sums;
pub use pool::{average_pool2d, max_pool2d};
pub use quantize::{Channel, Multiplier, Range};
pub use resize::{bilinear, nearest};

pub use super::Windows;
pub use geometry::phase_len;
use geometry::{Convolution, Phases};
#[cfg(nae_mve)]
use helium as plain;
pub use paired::is_whole;

/// The order in which a layer's weights are stored in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum Layout {
    /// Output by output, tap by tap. Used by the reference kernels, and by those for the vector unit of Cortex-M55 and
    /// M85.
    Plain = 0,
    /// Two outputs per halfword, for kernels with a dual 16-bit multiply-accumulate (SMLAD).
    ///
    /// Outputs are paired (the last of an odd number is paired with zeros), and taps are in groups of four (the last
    /// group is filled up with zeros). A group of taps t..t + 4 of outputs e (even) and o = e + 1 is two words:
    /// halfwords for taps t and t + 2, then for t + 1 and t + 3. A halfword is 256·w(o) + w(e), signed. So one SMLAD
    /// with activations widened by SXTB16 sums both outputs, and one more, after SXTB16 of the word itself, sums the
    /// even one alone. No weight is −128. If the number of input channels is not a multiple of four, taps are numbered
    /// `[kernel column][kernel row][input channel]`.
    Paired = 1,
}

impl Layout {
    /// The layout with this tag; `None` if there is none.
    pub const fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            0 => Some(Self::Plain),
            1 => Some(Self::Paired),
            _ => None,
        }
    }

    /// Length in words of the weights of a convolution or a dense layer.
    pub const fn words(self, outputs: usize, taps: usize) -> usize {
        match self {
            Self::Plain => outputs.saturating_mul(taps).div_ceil(4),
            Self::Paired => outputs.div_ceil(2).saturating_mul(taps.div_ceil(4)).saturating_mul(2),
        }
    }

    /// Length in words of the weights of a transposed convolution.
    pub const fn transposed_words(
        self,
        outputs: usize,
        kernel: [usize; 2],
        stride: [usize; 2],
        input_channels: usize,
    ) -> usize {
        let mut words = 0usize;
        let mut row = 0;
        while row < stride[0] {
            let mut column = 0;
            while column < stride[1] {
                let rows = phase_len(row, kernel[0], stride[0]);
                let taps = rows.saturating_mul(phase_len(column, kernel[1], stride[1])).saturating_mul(input_channels);
                words = words.saturating_add(self.words(outputs, taps));
                column += 1;
            }
            row += 1;
        }
        words
    }

    /// Whether the kernels for this layout accept an output that is a sum of `taps` products.
    ///
    /// [`Layout::Plain`] requires a shift among [`Multiplier::SHIFTS`]. [`Layout::Paired`] requires a factor in [2^-23,
    /// ¼), no more than 2^14 taps and a bias of no more than 2^29 on either side of 0, which keep sums within 30 bits.
    pub const fn takes(self, taps: usize, [bias, multiplier, shift]: Channel) -> bool {
        match self {
            Self::Plain => shift >= -31 && shift <= 30,
            Self::Paired => {
                let sums = taps <= 1 << 14 && bias.unsigned_abs() <= 1 << 29;
                sums && multiplier >= 1 << 30 && shift >= -22 && shift <= -2
            }
        }
    }
}

/// Number of words of scratch memory that [`conv2d`] needs in addition to input and output. Its previous contents do
/// not matter.
pub const fn conv2d_scratch_words(layout: Layout, windows: &Windows) -> usize {
    let Windows { input, output, kernel, stride, .. } = *windows;
    match layout {
        Layout::Plain => 0,
        Layout::Paired => paired::scratch_words(kernel, stride[1], input.channels, output.width),
    }
}

/// As [`conv2d_scratch_words`], for [`conv_transpose2d`].
pub const fn conv_transpose2d_scratch_words(layout: Layout, windows: &Windows) -> usize {
    let Windows { input, output, kernel, stride, .. } = *windows;
    match layout {
        Layout::Plain => 0,
        Layout::Paired => {
            let kernel = [phase_len(0, kernel[0], stride[0]), phase_len(0, kernel[1], stride[1])];
            paired::scratch_words(kernel, 1, input.channels, phase_len(0, output.width, stride[1]))
        }
    }
}

/// Number of bytes that [`conv2d`] copies, beside its products and results: rows of the image, once for each row of
/// results under them, in the layout [`Layout::Paired`] if the number of input channels is not a multiple of four.
pub const fn conv2d_copied_bytes(layout: Layout, windows: &Windows) -> u64 {
    let Windows { input, output, kernel, stride, .. } = *windows;
    match layout {
        Layout::Plain => 0,
        Layout::Paired => {
            let columns = paired::band_columns(kernel[1], stride[1], output.width);
            paired::band_bytes(kernel[0], input.channels, output.height, columns)
        }
    }
}

/// The greatest number of bytes that [`conv_transpose2d`] copies, as [`conv2d_copied_bytes`].
pub const fn conv_transpose2d_copied_bytes(layout: Layout, windows: &Windows) -> u64 {
    let Windows { input, output, kernel, stride, .. } = *windows;
    match layout {
        Layout::Plain => 0,
        // All phases together have the rows and columns of the output, and each column of the kernel once.
        Layout::Paired => {
            let columns = output.width.saturating_add(kernel[1]);
            paired::band_bytes(phase_len(0, kernel[0], stride[0]), input.channels, output.height, columns)
        }
    }
}

/// As [`conv2d_scratch_words`], for [`dense`].
pub const fn dense_scratch_words(layout: Layout, inputs: usize) -> usize {
    match layout {
        Layout::Plain => 0,
        Layout::Paired => inputs.div_ceil(4).saturating_mul(2),
    }
}

/// Weights, biases and factors of one layer, as the [module](self) describes them.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// The order of `words`.
    pub layout: Layout,
    /// The weights.
    pub words: &'a [u32],
    /// Bias, multiplier and shift of each output.
    pub channels: &'a [Channel],
}

/// The data that are the same at every place. Weights are bytes or words, depending on their layout.
struct Layer<'a, W> {
    input_zero_point: i8,
    weights: &'a [W],
    channels: &'a [Channel],
    range: Range,
}

/// A layer in the form of the kernels for its layout.
enum AnyLayer<'a> {
    Plain(Layer<'a, i8>),
    Paired(Layer<'a, u32>),
}

impl<'a> AnyLayer<'a> {
    fn new(input_zero_point: i8, Weights { layout, words, channels }: Weights<'a>, range: Range) -> Self {
        match layout {
            Layout::Plain => {
                let weights = bytemuck::cast_slice(words);
                Self::Plain(Layer { input_zero_point, weights, channels, range })
            }
            Layout::Paired => Self::Paired(Layer { input_zero_point, weights: words, channels, range }),
        }
    }
}

/// Runs a convolution. Values outside the image count as 0 (as the input's zero point).
///
/// `weights` has one channel for each of the output's, `scratch` at least [`conv2d_scratch_words`].
pub fn conv2d(
    windows: &Windows,
    input_zero_point: i8,
    weights: Weights<'_>,
    range: Range,
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    run(Convolution::new(windows), input_zero_point, weights, range, scratch, input, output);
}

/// Computes `y = Wx + b`, with as many outputs as `weights` has channels; `scratch` is at least
/// [`dense_scratch_words`].
pub fn dense(
    input_zero_point: i8,
    weights: Weights<'_>,
    range: Range,
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    match AnyLayer::new(input_zero_point, weights, range) {
        AnyLayer::Plain(layer) => plain::dense(&layer, input, output),
        AnyLayer::Paired(layer) => paired::dense(&layer, scratch, input, output),
    }
}

/// Runs a transposed convolution, gathered: each output collects the inputs that reach it, so that nothing is zeroed or
/// read back. Only `padding.top` and `padding.left` matter here; the rest is in the output's shape.
///
/// `weights` has one channel for each of the output's, `scratch` at least
/// [`conv_transpose2d_scratch_words`].
pub fn conv_transpose2d(
    windows: &Windows,
    input_zero_point: i8,
    mut weights: Weights<'_>,
    range: Range,
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    let outputs = weights.channels.len();
    // The kernels of this layout clamp the whole output: once, and not in each phase.
    let clamps_at_end = matches!(weights.layout, Layout::Paired);
    let of_phase = if clamps_at_end { Range::full(range.zero_point) } else { range };
    for phase in Phases::new(windows) {
        let words = weights.layout.words(outputs, phase.taps());
        let (own, rest) = weights.words.split_at_checked(words).unwrap_or_default();
        // With a large stride and a small output, most phases have no places: their weights are passed over.
        if phase.has_places() {
            run(phase, input_zero_point, Weights { words: own, ..weights }, of_phase, scratch, input, output);
        }
        weights.words = rest;
    }
    if clamps_at_end && !range.is_full() {
        range.clamp(output);
    }
}

/// Number of convolutions that [`conv_transpose2d`] goes through, to compare with what a layer is counted as.
#[cfg(test)]
pub(crate) fn phase_count(windows: &Windows) -> usize {
    Phases::new(windows).count()
}

fn run(
    convolution: Convolution,
    input_zero_point: i8,
    weights: Weights<'_>,
    range: Range,
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    match AnyLayer::new(input_zero_point, weights, range) {
        AnyLayer::Plain(layer) => plain::convolve(&convolution, &layer, input, output),
        AnyLayer::Paired(layer) => paired::convolve(&convolution, &layer, scratch, input, output),
    }
}
