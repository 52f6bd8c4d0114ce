//! Packs 8-bit weights in the order in which the kernels read them, together with the channels, from a layer in the
//! order of TFLite and ONNX.

use core::fmt;

use nae_core::kernels::int8::{Channel, Layout, Multiplier, Weights, is_whole, phase_len};

/// A layer with weights before packing: a convolution, a transposed convolution, or a dense layer
/// as a 1×1 convolution of one pixel.
#[derive(Clone, Copy, Debug)]
pub struct Unpacked<'a> {
    /// Number of output channels.
    pub outputs: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Number of input channels.
    pub input_channels: usize,
    /// `[output][kernel row][kernel column][input channel]`, as in TFLite for both convolution and transposed
    /// convolution.
    pub weights: &'a [i8],
    /// One per output, in units of input scale · weight scale.
    pub bias: &'a [i32],
    /// One per output: input scale · weight scale / output scale.
    pub multipliers: &'a [Multiplier],
}

/// Weights in the order of a layout, and the table of channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The layout of the words.
    pub layout: Layout,
    /// The weights.
    pub words: Vec<u32>,
    /// Bias, multiplier and shift of each output.
    pub channels: Vec<Channel>,
}

impl Packed {
    /// Returns a view of the weights for the kernels.
    pub fn as_weights(&self) -> Weights<'_> {
        Weights { layout: self.layout, words: &self.words, channels: &self.channels }
    }
}

/// The reason why a layer cannot be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// The length of a slice does not match the shape, or a stride is 0.
    Lengths,
    /// The layout is not supported here.
    Layout,
    /// The layout accepts no weight of −128. Quantizers do not generate it.
    Weight,
    /// The layout does not accept this output's multiplier, bias or number of taps ([`Layout::takes`]).
    Output {
        /// The first such output.
        output: usize,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lengths => f.write_str("the lengths of weights, biases and multipliers do not fit the layer's shape"),
            Self::Layout => f.write_str("weights are not made in this layout"),
            Self::Weight => f.write_str("a weight is -128, which the layout has no place for"),
            Self::Output { output } => {
                write!(f, "the multiplier, bias or number of taps of output {output} is beyond what the layout takes")
            }
        }
    }
}

impl core::error::Error for PackError {}

/// Packs a convolution or a dense layer.
///
/// # Errors
/// [`PackError`] if the layout does not accept the layer; [`Layout::Plain`] accepts all weights and multipliers.
///
/// ```
/// use nae_core::kernels::int8::{Layout, Multiplier, Range, dense, dense_scratch_words};
/// use nae_graph::int8_weights::{self, Unpacked};
/// let layer = Unpacked {
///     outputs: 2, kernel: [1, 1], input_channels: 3,
///     weights: &[1, 2, 3, -1, 0, 1], bias: &[0, 40],
///     multipliers: &[Multiplier::from_real(0.125).unwrap(); 2],
/// };
/// for layout in [Layout::Plain, Layout::Paired] {
///     let packed = int8_weights::conv2d(layout, &layer)?;
///     let mut scratch = vec![0; dense_scratch_words(layout, 3)];
///     let mut output = [0; 2];
///     dense(0, packed.as_weights(), Range::full(0), &mut scratch, &[10, 20, 30], &mut output);
///     assert_eq!(output, [18, 8]); // 140/8 = 17.5 and 60/8 = 7.5
/// }
/// # Ok::<(), int8_weights::PackError>(())
/// ```
pub fn conv2d(layout: Layout, layer: &Unpacked<'_>) -> Result<Packed, PackError> {
    check(layout, layer)?;
    let mut packed = Packed::new(layout, layer);
    packed.push(layer, layer.kernel, layer.weights);
    Ok(packed)
}

/// Packs a transposed convolution of this stride.
///
/// # Errors
/// As [`conv2d`].
pub fn conv_transpose2d(layout: Layout, layer: &Unpacked<'_>, stride: [usize; 2]) -> Result<Packed, PackError> {
    check(layout, layer)?;
    if stride.contains(&0) {
        return Err(PackError::Lengths);
    }
    let mut packed = Packed::new(layout, layer);
    for row in 0..stride[0] {
        for column in 0..stride[1] {
            let kernel = [phase_len(row, layer.kernel[0], stride[0]), phase_len(column, layer.kernel[1], stride[1])];
            packed.push(layer, kernel, &phase(layer, stride, [row, column]));
        }
    }
    Ok(packed)
}

fn check(layout: Layout, layer: &Unpacked<'_>) -> Result<(), PackError> {
    let taps = layer.kernel[0].checked_mul(layer.kernel[1]).and_then(|area| area.checked_mul(layer.input_channels));
    let weights = taps.and_then(|taps| taps.checked_mul(layer.outputs));
    if weights != Some(layer.weights.len()) || [layer.bias.len(), layer.multipliers.len()] != [layer.outputs; 2] {
        return Err(PackError::Lengths);
    }
    if !matches!(layout, Layout::Plain | Layout::Paired) {
        return Err(PackError::Layout);
    }
    if layout == Layout::Paired && layer.weights.contains(&i8::MIN) {
        return Err(PackError::Weight);
    }
    let taps = taps.unwrap_or_default();
    let mut channels = layer.bias.iter().zip(layer.multipliers);
    match channels.position(|(bias, m)| !layout.takes(taps, [*bias, m.value, m.shift])) {
        Some(output) => Err(PackError::Output { output }),
        None => Ok(()),
    }
}

/// The weights of one phase of a transposed convolution: every `stride`-th row and column of the
/// kernel, from last to first.
fn phase(layer: &Unpacked<'_>, stride: [usize; 2], residue: [usize; 2]) -> Vec<i8> {
    let [height, width] = layer.kernel;
    let depth = layer.input_channels;
    let indices = |axis: usize| {
        let len = phase_len(residue[axis], layer.kernel[axis], stride[axis]);
        (0..len).rev().map(move |i| residue[axis] + i * stride[axis])
    };
    let mut weights = Vec::new();
    for output in 0..layer.outputs {
        for row in indices(0) {
            for column in indices(1) {
                let start = ((output * height + row) * width + column) * depth;
                weights.extend_from_slice(&layer.weights[start..start + depth]);
            }
        }
    }
    weights
}

impl Packed {
    fn new(layout: Layout, layer: &Unpacked<'_>) -> Self {
        let channels = layer.bias.iter().zip(layer.multipliers);
        Self { layout, words: Vec::new(), channels: channels.map(|(bias, m)| [*bias, m.value, m.shift]).collect() }
    }

    /// Appends a convolution with this kernel and these weights, `[output][tap]`.
    fn push(&mut self, layer: &Unpacked<'_>, kernel: [usize; 2], weights: &[i8]) {
        match self.layout {
            Layout::Plain => self.words.extend(plain(weights)),
            Layout::Paired => self.words.extend(paired(layer.outputs, kernel, layer.input_channels, weights)),
            // `check` has refused all other layouts.
            _ => {}
        }
    }
}

fn plain(weights: &[i8]) -> Vec<u32> {
    let mut words = vec![0u32; weights.len().div_ceil(4)];
    bytemuck::cast_slice_mut::<u32, i8>(&mut words)[..weights.len()].copy_from_slice(weights);
    words
}

fn paired(outputs: usize, [height, width]: [usize; 2], depth: usize, weights: &[i8]) -> Vec<u32> {
    let taps = height * width * depth;
    let at = |output: usize, tap: usize| {
        if output >= outputs || tap >= taps {
            return 0;
        }
        let tap = if is_whole(depth) {
            tap
        } else {
            let (column, row, channel) = (tap / (height * depth), tap / depth % height, tap % depth);
            (row * width + column) * depth + channel
        };
        i32::from(weights[output * taps + tap])
    };
    let halfword = |even: usize, tap: usize| (256 * at(even + 1, tap) + at(even, tap)) as u16;
    let mut words = Vec::with_capacity(Layout::Paired.words(outputs, taps));
    for even in (0..outputs).step_by(2) {
        for tap in (0..taps).step_by(4) {
            for tap in [tap, tap + 1] {
                let word = u32::from(halfword(even, tap)) | u32::from(halfword(even, tap + 2)) << 16;
                words.push(word.to_le());
            }
        }
    }
    words
}
