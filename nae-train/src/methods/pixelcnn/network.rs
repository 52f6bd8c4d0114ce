//! The network of PixelCNN++ (Salimans et al., ICLR 2017, sections 2.3 to 2.5): two streams of shifted convolutions,
//! one that depends on all rows above a pixel and one that also depends on the pixels to its left, on three levels of
//! resolution.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::tensor::activation::sigmoid;
use burn::tensor::ops::PadMode;
use burn::tensor::{Device, Tensor};
use rand::Rng;

use crate::arch::init::uniform;
use crate::sample::NoiseSource;

/// The share of a block's inner activations that an update drops.
const DROPOUT: f32 = 0.5;

/// Dropout of half of the activations in each block, drawn sequentially, for training; none if there is no source.
pub(super) struct Dropout(pub(super) Option<NoiseSource>);

impl Dropout {
    fn apply(&mut self, x: Tensor<4>) -> Tensor<4> {
        let Some(source) = &mut self.0 else { return x };
        let drawn = source.uniform::<4>(x.dims(), &x.clone().inner().device());
        let keep = drawn.greater_equal_elem(DROPOUT).float().div_scalar(1.0 - DROPOUT);
        x * keep.autodiff()
    }
}

/// The pixels that a convolution depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    /// The rows above and its own, three columns centred at its own.
    Down,
    /// The rows above and its own, up to its own column.
    DownRight,
}

/// A convolution with padding above it, and to its left or on both sides.
#[derive(Module, Debug)]
struct Shifted {
    convolution: Conv2d,
    /// The padding on the left, right and top.
    #[module(skip)]
    padding: [usize; 3],
}

/// 1/√fan_in of a kernel with `channels` input channels.
fn bound(channels: usize, [rows, columns]: [usize; 2]) -> f32 {
    1.0 / ((channels * rows * columns) as f32).sqrt()
}

fn convolution(channels: [usize; 2], kernel: [usize; 2], stride: usize, rng: &mut impl Rng, device: &Device) -> Conv2d {
    let mut layer = Conv2dConfig::new(channels, kernel).with_stride([stride, stride]).init(device);
    let bound = bound(channels[0], kernel);
    layer.weight = uniform([channels[1], channels[0], kernel[0], kernel[1]], bound, rng, device);
    layer.bias = Some(uniform([channels[1]], bound, rng, device));
    layer
}

impl Shifted {
    fn new(
        sees: Sees,
        channels: [usize; 2],
        kernel: [usize; 2],
        stride: usize,
        rng: &mut impl Rng,
        device: &Device,
    ) -> Self {
        let [rows, columns] = kernel;
        let padding = match sees {
            Sees::Down => [(columns - 1) / 2, (columns - 1) / 2, rows - 1],
            Sees::DownRight => [columns - 1, 0, rows - 1],
        };
        Self { convolution: convolution(channels, kernel, stride, rng, device), padding }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [left, right, top] = self.padding;
        self.convolution.forward(x.pad((left, right, top, 0), PadMode::Constant(0.0)))
    }
}

/// The transpose of [`Shifted`] with stride 2, cropped so that it depends on the same pixels.
#[derive(Module, Debug)]
struct Enlarging {
    convolution: ConvTranspose2d,
    #[module(skip)]
    cut: usize,
}

impl Enlarging {
    fn new(sees: Sees, filters: usize, rng: &mut impl Rng, device: &Device) -> Self {
        let (kernel, cut) = match sees {
            Sees::Down => ([2, 3], 1),
            Sees::DownRight => ([2, 2], 0),
        };
        let mut layer = ConvTranspose2dConfig::new([filters, filters], kernel)
            .with_stride([2, 2])
            .with_padding_out([1, 1])
            .init(device);
        let bound = bound(filters, kernel);
        layer.weight = uniform([filters, filters, kernel[0], kernel[1]], bound, rng, device);
        layer.bias = Some(uniform([filters], bound, rng, device));
        Self { convolution: layer, cut }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [_, _, height, width] = x.dims();
        self.convolution.forward(x).narrow(2, 0, 2 * height).narrow(3, self.cut, 2 * width)
    }
}

/// Concatenates ELU(x) and ELU(−x).
fn concat_elu(x: Tensor<4>) -> Tensor<4> {
    Tensor::cat(vec![elu(x.clone()), elu(x.neg())], 1)
}

fn elu(x: Tensor<4>) -> Tensor<4> {
    x.clone().clamp_min(0.0) + x.clamp_max(0.0).exp().sub_scalar(1.0)
}

/// A residual block with a gated second convolution, and an optional side input: another stream or an earlier level.
#[derive(Module, Debug)]
struct Gated {
    first: Shifted,
    beside: Option<Conv2d>,
    second: Shifted,
}

impl Gated {
    /// `beside` is the number of channels of the side input, in multiples of `filters`.
    fn new(sees: Sees, filters: usize, beside: usize, rng: &mut impl Rng, device: &Device) -> Self {
        let kernel = match sees {
            Sees::Down => [2, 3],
            Sees::DownRight => [2, 2],
        };
        let first = Shifted::new(sees, [2 * filters, filters], kernel, 1, rng, device);
        let beside = (beside > 0).then(|| convolution([2 * beside * filters, filters], [1, 1], 1, rng, device));
        Self { first, beside, second: Shifted::new(sees, [2 * filters, 2 * filters], kernel, 1, rng, device) }
    }

    fn forward(&self, x: Tensor<4>, beside: Option<Tensor<4>>, dropout: &mut Dropout) -> Tensor<4> {
        let mut y = self.first.forward(concat_elu(x.clone()));
        if let (Some(layer), Some(beside)) = (&self.beside, beside) {
            y = y + layer.forward(concat_elu(beside));
        }
        let y = self.second.forward(dropout.apply(concat_elu(y)));
        let filters = y.dims()[1] / 2;
        x + y.clone().narrow(1, 0, filters) * sigmoid(y.narrow(1, filters, filters))
    }
}

/// Both streams: the one that depends on the rows above, and the one that also depends on the pixels to the left.
type Streams = [Tensor<4>; 2];

/// A block of both streams.
#[derive(Module, Debug)]
struct Pair {
    rows: Gated,
    pixels: Gated,
}

/// The whole network.
#[derive(Module, Debug)]
pub(super) struct Network {
    rows_in: Shifted,
    above_in: Shifted,
    left_in: Shifted,
    /// The blocks on the way to lower resolution, level by level, and the layers that reduce it.
    narrowing: Vec<Vec<Pair>>,
    down: Vec<[Shifted; 2]>,
    /// The blocks on the way back, and the layers that increase the resolution.
    widening: Vec<Vec<Pair>>,
    up: Vec<[Enlarging; 2]>,
    out: Conv2d,
}

/// Shifts every row down by one; the first is zero.
fn shifted_down(x: Tensor<4>) -> Tensor<4> {
    let height = x.dims()[2];
    x.narrow(2, 0, height - 1).pad((0, 0, 1, 0), PadMode::Constant(0.0))
}

/// Shifts every column to the right by one; the first is zero.
fn shifted_right(x: Tensor<4>) -> Tensor<4> {
    let width = x.dims()[3];
    x.narrow(3, 0, width - 1).pad((1, 0, 0, 0), PadMode::Constant(0.0))
}

impl Network {
    /// Maps images of `channels` to `outputs` numbers for each pixel, with `blocks` in each level and `filters` in each
    /// stream.
    pub(super) fn new(
        channels: usize,
        outputs: usize,
        blocks: usize,
        filters: usize,
        rng: &mut impl Rng,
        device: &Device,
    ) -> Self {
        let input = channels + 1;
        let levels = 3;
        let first = |sees, kernel, rng: &mut _| Shifted::new(sees, [input, filters], kernel, 1, rng, device);
        let pair = |beside: [usize; 2], rng: &mut _| Pair {
            rows: Gated::new(Sees::Down, filters, beside[0], rng, device),
            pixels: Gated::new(Sees::DownRight, filters, beside[1], rng, device),
        };
        Self {
            rows_in: first(Sees::Down, [2, 3], rng),
            above_in: first(Sees::Down, [1, 3], rng),
            left_in: first(Sees::DownRight, [2, 1], rng),
            narrowing: (0..levels).map(|_| (0..blocks).map(|_| pair([0, 1], rng)).collect()).collect(),
            down: (1..levels)
                .map(|_| {
                    [(Sees::Down, [2, 3]), (Sees::DownRight, [2, 2])]
                        .map(|(sees, kernel)| Shifted::new(sees, [filters, filters], kernel, 2, rng, device))
                })
                .collect(),
            widening: (0..levels)
                .map(|level| (0..blocks + usize::from(level > 0)).map(|_| pair([1, 2], rng)).collect())
                .collect(),
            up: (1..levels)
                .map(|_| [Sees::Down, Sees::DownRight].map(|sees| Enlarging::new(sees, filters, rng, device)))
                .collect(),
            out: convolution([filters, outputs], [1, 1], 1, rng, device),
        }
    }

    /// Numbers `[N, P, H, W]`, where those of each pixel only depend on the pixels before it, row by row; H and W must
    /// be multiples of four.
    pub(super) fn forward(&self, x: Tensor<4>, dropout: &mut Dropout) -> Tensor<4> {
        // A channel of ones distinguishes the image from the padding.
        let ones = x.clone().narrow(1, 0, 1).zeros_like().add_scalar(1.0);
        let x = Tensor::cat(vec![x, ones], 1);
        let rows = shifted_down(self.rows_in.forward(x.clone()));
        let pixels = shifted_down(self.above_in.forward(x.clone())) + shifted_right(self.left_in.forward(x));
        let mut streams: Streams = [rows, pixels];
        let mut kept: Vec<Streams> = vec![streams.clone()];
        for (level, pairs) in self.narrowing.iter().enumerate() {
            for pair in pairs {
                let [rows, pixels] = streams;
                let rows = pair.rows.forward(rows, None, dropout);
                let pixels = pair.pixels.forward(pixels, Some(rows.clone()), dropout);
                streams = [rows, pixels];
                kept.push(streams.clone());
            }
            if let Some([of_rows, of_pixels]) = self.down.get(level) {
                let [rows, pixels] = streams;
                streams = [of_rows.forward(rows), of_pixels.forward(pixels)];
                kept.push(streams.clone());
            }
        }
        // The last entry is the start of the way back itself.
        kept.pop();
        for (level, pairs) in self.widening.iter().enumerate() {
            for pair in pairs {
                let [rows, pixels] = streams;
                let (rows_beside, pixels_beside) = kept.pop().map(|[r, p]| (r, p)).unzip();
                let rows = pair.rows.forward(rows, rows_beside, dropout);
                let beside = pixels_beside.map(|pixels| Tensor::cat(vec![rows.clone(), pixels], 1));
                let pixels = pair.pixels.forward(pixels, beside, dropout);
                streams = [rows, pixels];
            }
            if let Some([of_rows, of_pixels]) = self.up.get(level) {
                let [rows, pixels] = streams;
                streams = [of_rows.forward(rows), of_pixels.forward(pixels)];
            }
        }
        let [_, pixels] = streams;
        self.out.forward(elu(pixels))
    }
}
