//! Which layers there are, and their names. How they are run is in `run`.

use super::hash;
use nae_core::Shape;
use nae_core::kernels::int8::Windows;
use nae_core::layer::Padding;

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
    /// The energy of an image and its reconstruction.
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
    /// Whether results are limited to 0 and above: a fused ReLU.
    pub relu: bool,
}

const fn work(kind: Kind, [side, channels]: [usize; 2], kernel: usize, outputs: usize) -> Work {
    let input = Shape::new(channels, side, side);
    Work { kind, input, kernel, stride: 1, padding: 0, outputs, extreme: false, relu: false }
}

/// The layers, in the order of the table.
pub const WORKS: [Work; 45] = [
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
    work(Kind::Transposed, [26, 32], 3, 1),
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
    // The layers of the digits model, whose resizings are to 5 and 12 pixels a side from 3 and 7.
    work(Kind::Conv, [16, 1], 3, 8),
    work(Kind::Conv, [14, 8], 3, 16),
    Work { stride: 2, ..work(Kind::MaxPool, [12, 16], 2, 16) },
    work(Kind::Conv, [6, 16], 3, 32),
    work(Kind::Conv, [4, 32], 4, 128),
    work(Kind::Conv, [1, 128], 1, 32),
    work(Kind::L2Normalize, [1, 32], 1, 32),
    work(Kind::Transposed, [1, 32], 3, 32),
    work(Kind::Transposed, [5, 32], 3, 16),
    work(Kind::Bilinear, [6, 16], 2, 16),
    work(Kind::Transposed, [12, 16], 3, 8),
    work(Kind::Transposed, [14, 8], 3, 1),
    work(Kind::LookUp, [16, 1], 1, 1),
    work(Kind::Energy, [1, 256], 1, 256),
    // In four phases; results are clamped once, after all of them.
    Work { stride: 2, padding: 1, relu: true, ..work(Kind::Transposed, [8, 8], 4, 8) },
    // Of 256 phases one has a place; the others are passed over.
    Work { stride: 16, ..work(Kind::Transposed, [1, 4], 1, 4) },
];

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
    let relu = next(4) == 1;
    match kind {
        Kind::Dense => Work { extreme, relu, ..work(kind, [1, next(1100)], 1, outputs) },
        Kind::MaxPool => Work { stride, padding, ..work(kind, [side, channels], kernel, channels) },
        _ => Work { stride, padding, extreme, relu, ..work(kind, [side, channels], kernel, outputs) },
    }
}

impl Work {
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

    pub(super) fn windows(&self) -> Windows {
        let side = self.output_side();
        Windows {
            input: self.input,
            output: Shape::new(self.outputs, side, side),
            kernel: [self.kernel; 2],
            stride: [self.stride; 2],
            padding: Padding::all(self.padding),
        }
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
        if self.relu {
            write!(f, " ReLU")?;
        }
        write!(f, ", {height}×{height}×{channels}→{side}×{side}×{}", self.outputs)
    }
}
