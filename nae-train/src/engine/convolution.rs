//! Layers with a kernel: convolutions, transposed convolutions, and dense layers, which are convolutions whose kernel
//! is the whole plane. Each is laid out both ways.

use burn::module::Param;
use burn::nn::conv::{Conv2d, ConvTranspose2d};
use burn::nn::{Linear, PaddingConfig2d};
use burn::tensor::Tensor;
use nae_simd::correlate::{Finish, correlate};
use nae_simd::geometry::{Reading, Window};
use nae_simd::gradient::weight_gradient;
use nae_simd::kernel::Kernel;
use nae_simd::plane::{Planes, Size};

use super::parameters::{Gradients, Order, Parameters, Taps, floats, values};
use crate::arch::spectral::SpectralConv;

/// A layer with a kernel and, where it has one, a bias.
#[derive(Debug)]
pub struct Convolution {
    reading: Reading,
    window: Window,
    forward: Kernel,
    backward: Kernel,
    weight: usize,
    bias: Option<usize>,
}

/// What a layer does to planes, before its weights.
struct Outline {
    reading: Reading,
    window: Window,
    from: Size,
    to: Size,
    order: Order,
}

impl Convolution {
    /// From burn's convolution, on planes of size `from`.
    pub fn plain(conv: &Conv2d, from: Size, parameters: &mut Parameters) -> Self {
        let weights = floats(&conv.weight);
        Self::new(&outline(conv, from), &conv.weight, &weights, conv.bias.as_ref(), parameters)
    }

    /// From a convolution with spectral normalisation: the weights are divided when they are laid out.
    pub fn spectral(layer: &SpectralConv, from: Size, parameters: &mut Parameters) -> Self {
        let (conv, weights) = (&layer.conv, values(layer.weight()));
        let convolution = Self::new(&outline(conv, from), &conv.weight, &weights, conv.bias.as_ref(), parameters);
        parameters.normalized(convolution.weight, layer);
        convolution
    }

    /// From burn's transposed convolution, on planes of size `from`.
    pub fn transposed(conv: &ConvTranspose2d, from: Size, parameters: &mut Parameters) -> Self {
        let [_, channels, rows, columns] = conv.weight.dims();
        let window = Window { kernel: [rows, columns], stride: conv.stride[0], padding: conv.padding[0] };
        let side = |side: usize, kernel: usize| (side - 1) * window.stride + kernel - 2 * window.padding;
        let to = Size { h: side(from.h, rows), w: side(from.w, columns), c: channels };
        let outline = Outline { reading: Reading::Transposed, window, from, to, order: Order::Convolution };
        Self::new(&outline, &conv.weight, &floats(&conv.weight), conv.bias.as_ref(), parameters)
    }

    /// From burn's dense layer, on planes of size `from`, which it reads in channel-first order.
    pub fn dense(linear: &Linear, from: Size, parameters: &mut Parameters) -> Self {
        let window = Window { kernel: [from.h, from.w], stride: 1, padding: 0 };
        let to = Size { h: 1, w: 1, c: linear.weight.dims()[1] };
        let outline = Outline { reading: Reading::Convolution, window, from, to, order: Order::Dense };
        Self::new(&outline, &linear.weight, &floats(&linear.weight), linear.bias.as_ref(), parameters)
    }

    fn new<const D: usize>(
        outline: &Outline,
        weight: &Param<Tensor<D>>,
        weights: &[f32],
        bias: Option<&Param<Tensor<1>>>,
        parameters: &mut Parameters,
    ) -> Self {
        let &Outline { reading, window, from, to, order } = outline;
        let (wide, narrow, other) = match reading {
            Reading::Convolution => (from.c, to.c, Reading::Transposed),
            Reading::Transposed => (to.c, from.c, Reading::Convolution),
        };
        let taps = Taps { kernel: window.kernel, wide, narrow };
        let at = |a, b, r, c| weights[taps.place(order, a, b, r, c)];
        let bias_values = bias.map(floats).unwrap_or_default();
        let (forward, backward) = match reading {
            Reading::Convolution => (
                Kernel::new(reading, window, from, to, &bias_values, |o, i, r, c| at(i, o, r, c)),
                Kernel::new(other, window, to, from, &[], at),
            ),
            Reading::Transposed => (
                Kernel::new(reading, window, from, to, &bias_values, at),
                Kernel::new(other, window, to, from, &[], |o, i, r, c| at(i, o, r, c)),
            ),
        };
        let weight = parameters.add_kernel(weight, taps, order);
        let bias = bias.map(|bias| parameters.add_vector(bias));
        Self { reading, window, forward, backward, weight, bias }
    }

    /// Shape of an output.
    pub fn to(&self) -> Size {
        self.forward.to
    }

    /// The output for `x`.
    pub fn forward(&self, x: &Planes, finish: Finish<'_>) -> Planes {
        correlate(x, &self.forward, finish)
    }

    /// The gradient at the input for that at the output.
    pub fn backward(&self, gradient: &Planes, finish: Finish<'_>) -> Planes {
        correlate(gradient, &self.backward, finish)
    }

    /// Gathers the gradients of weight and bias for `input` and the gradient at the output.
    pub fn weights(&self, input: &Planes, gradient: &Planes, gradients: &mut Gradients) {
        // The planes that the windows lie in are the larger of the two.
        let (wide, narrow) = match self.reading {
            Reading::Convolution => (input, gradient),
            Reading::Transposed => (gradient, input),
        };
        let once = [wide.size.h, wide.size.w] == self.window.kernel && self.window.padding == 0;
        if once {
            gradients.defer(self.weight, wide, narrow);
        } else {
            weight_gradient(wide, narrow, self.window, gradients.of(self.weight));
        }
        if let Some(bias) = self.bias {
            let sums = gradients.of(bias);
            for pixel in gradient.data.chunks_exact(sums.len()) {
                for (sum, g) in sums.iter_mut().zip(pixel) {
                    *sum += g;
                }
            }
        }
    }
}

fn outline(conv: &Conv2d, from: Size) -> Outline {
    let [channels, _, rows, columns] = conv.weight.dims();
    let padding = match conv.padding {
        PaddingConfig2d::Explicit(padding, ..) => padding,
        // The layers of `arch` have one of these two.
        _ => 0,
    };
    let window = Window { kernel: [rows, columns], stride: conv.stride[0], padding };
    let side = |side: usize, kernel: usize| (side + 2 * padding - kernel) / window.stride + 1;
    let to = Size { h: side(from.h, rows), w: side(from.w, columns), c: channels };
    Outline { reading: Reading::Convolution, window, from, to, order: Order::Convolution }
}
