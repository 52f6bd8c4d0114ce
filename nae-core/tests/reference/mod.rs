//! A naive interpreter in f64 and CHW, written from the definitions of PyTorch and ONNX, to hold
//! the engine against. Weights are in the layouts of ONNX, so the writer's transposing is tested too.

use nae_core::Shape;
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_graph::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, GroupNormalize, MaxPool2d, Op};

/// A layer with weights as ONNX has them.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Conv {
        weights: Vec<f32>,
        shape: [usize; 4],
        bias: Vec<f32>,
        stride: [usize; 2],
        padding: Padding,
    },
    ConvTranspose {
        weights: Vec<f32>,
        shape: [usize; 4],
        bias: Vec<f32>,
        stride: [usize; 2],
        padding: Padding,
        output_padding: [usize; 2],
    },
    /// Flatten (CHW), multiply, reshape to `output` (CHW).
    Dense {
        weights: Vec<f32>,
        bias: Vec<f32>,
        output: Shape,
    },
    MaxPool(MaxPool2d),
    AveragePool(AveragePool2d),
    Resize(usize, usize, ResizeMode),
    Activation(Activation),
    Normalize(f32),
    GroupNormalize(GroupNormalize),
}

/// CHW data in f64.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) shape: Shape,
    pub(crate) data: Vec<f64>,
}

impl Tensor {
    pub(crate) fn new(shape: Shape, data: Vec<f64>) -> Self {
        assert_eq!(shape.len(), data.len());
        Self { shape, data }
    }

    /// From HWC.
    pub(crate) fn from_hwc(shape: Shape, data: &[f32]) -> Self {
        let mut tensor = Self::new(shape, vec![0.0; data.len()]);
        for c in 0..shape.channels {
            for y in 0..shape.height {
                for x in 0..shape.width {
                    let value = data[(y * shape.width + x) * shape.channels + c];
                    tensor.data[(c * shape.height + y) * shape.width + x] = f64::from(value);
                }
            }
        }
        tensor
    }

    /// Zero outside.
    fn at(&self, c: usize, y: isize, x: isize) -> f64 {
        self.get(c, y, x).unwrap_or(0.0)
    }

    fn get(&self, c: usize, y: isize, x: isize) -> Option<f64> {
        let (h, w) = (self.shape.height as isize, self.shape.width as isize);
        let inside = (0..h).contains(&y) && (0..w).contains(&x);
        inside.then(|| self.data[(c * self.shape.height + y as usize) * self.shape.width + x as usize])
    }

    fn fill(shape: Shape, f: impl Fn(usize, usize, usize) -> f64) -> Self {
        let mut data = Vec::new();
        for c in 0..shape.channels {
            for y in 0..shape.height {
                for x in 0..shape.width {
                    data.push(f(c, y, x));
                }
            }
        }
        Self::new(shape, data)
    }
}

impl Operation {
    /// The same layer for the writer; `input` is the shape of what it reads.
    pub(crate) fn layer(&self, input: Shape) -> Op {
        match self.clone() {
            Self::Conv { weights, shape, bias, stride, padding } => Conv2d::from_oihw(&weights, shape, Some(&bias))
                .unwrap()
                .with_stride(stride)
                .with_padding(padding)
                .into(),
            Self::ConvTranspose { weights, shape, bias, stride, padding, output_padding } => {
                ConvTranspose2d::from_iohw(&weights, shape, Some(&bias))
                    .unwrap()
                    .with_stride(stride)
                    .with_padding(padding)
                    .with_output_padding(output_padding)
                    .into()
            }
            Self::Dense { weights, bias, output } => {
                Dense::from_out_in(&weights, [output.len(), input.len()], Some(&bias))
                    .unwrap()
                    .after_flatten_chw(input)
                    .unwrap()
                    .before_reshape_chw(output)
                    .unwrap()
                    .into()
            }
            Self::MaxPool(pool) => pool.into(),
            Self::AveragePool(pool) => pool.into(),
            Self::Resize(height, width, mode) => Op::Resize { height, width, mode },
            Self::Activation(activation) => activation.into(),
            Self::Normalize(epsilon) => Op::L2Normalize { epsilon },
            Self::GroupNormalize(norm) => norm.into(),
        }
    }

    /// Runs the layer from its definition.
    pub(crate) fn run(&self, input: &Tensor) -> Tensor {
        let s = input.shape;
        match self {
            Self::Conv { weights, shape: [o, i, kh, kw], bias, stride, padding } => {
                let height = (s.height + padding.top + padding.bottom - kh) / stride[0] + 1;
                let width = (s.width + padding.left + padding.right - kw) / stride[1] + 1;
                Tensor::fill(Shape::new(*o, height, width), |c, y, x| {
                    let mut sum = f64::from(bias[c]);
                    for channel in 0..*i {
                        for ky in 0..*kh {
                            for kx in 0..*kw {
                                let iy = (y * stride[0] + ky) as isize - padding.top as isize;
                                let ix = (x * stride[1] + kx) as isize - padding.left as isize;
                                let weight = weights[((c * i + channel) * kh + ky) * kw + kx];
                                sum += f64::from(weight) * input.at(channel, iy, ix);
                            }
                        }
                    }
                    sum
                })
            }
            Self::ConvTranspose { weights, shape: [i, o, kh, kw], bias, stride, padding, output_padding } => {
                // Scattered into the uncut output, then cut.
                let rows = (s.height - 1) * stride[0] + kh + output_padding[0];
                let columns = (s.width - 1) * stride[1] + kw + output_padding[1];
                let mut full = Tensor::fill(Shape::new(*o, rows, columns), |c, _, _| f64::from(bias[c]));
                for channel in 0..*i {
                    for c in 0..*o {
                        for y in 0..s.height {
                            for x in 0..s.width {
                                for ky in 0..*kh {
                                    for kx in 0..*kw {
                                        let weight = weights[((channel * o + c) * kh + ky) * kw + kx];
                                        let at = (c * rows + y * stride[0] + ky) * columns + x * stride[1] + kx;
                                        let value = input.at(channel, y as isize, x as isize);
                                        full.data[at] += f64::from(weight) * value;
                                    }
                                }
                            }
                        }
                    }
                }
                let shape = Shape::new(*o, rows - padding.top - padding.bottom, columns - padding.left - padding.right);
                Tensor::fill(shape, |c, y, x| full.at(c, (y + padding.top) as isize, (x + padding.left) as isize))
            }
            Self::Dense { weights, bias, output } => {
                let n = s.len();
                let row = |o: usize| {
                    let products = (0..n).map(|i| f64::from(weights[o * n + i]) * input.data[i]);
                    f64::from(bias[o]) + products.sum::<f64>()
                };
                Tensor::new(*output, (0..output.len()).map(row).collect())
            }
            Self::MaxPool(pool) => windows(input, pool.kernel, pool.stride, pool.padding, |values| {
                values.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max)
            }),
            Self::AveragePool(pool) => windows(input, pool.kernel, pool.stride, pool.padding, |values| {
                let inside = values.iter().flatten().count();
                let count = if pool.count_include_padding { values.len() } else { inside };
                values.iter().flatten().sum::<f64>() / count as f64
            }),
            Self::Resize(height, width, mode) => {
                let (rows, columns) = (s.height as f64, s.width as f64);
                Tensor::fill(Shape::new(s.channels, *height, *width), |c, y, x| {
                    let source = |i: usize, from: f64, to: usize| match mode {
                        ResizeMode::Nearest => (i as f64 * from / to as f64 + 1e-9).floor(),
                        ResizeMode::BilinearAlignCorners if to == 1 => 0.0,
                        ResizeMode::BilinearAlignCorners => i as f64 * (from - 1.0) / (to as f64 - 1.0),
                        _ => ((i as f64 + 0.5) * from / to as f64 - 0.5).clamp(0.0, from - 1.0),
                    };
                    let (v, h) = (source(y, rows, *height), source(x, columns, *width));
                    let mut sum = 0.0;
                    for (iy, wy) in [(v.floor(), 1.0 - v.fract()), (v.floor() + 1.0, v.fract())] {
                        for (ix, wx) in [(h.floor(), 1.0 - h.fract()), (h.floor() + 1.0, h.fract())] {
                            sum += wy * wx * input.at(c, iy as isize, ix as isize);
                        }
                    }
                    sum
                })
            }
            Self::Activation(activation) => {
                let f = |x: &f64| match activation {
                    Activation::Relu => x.max(0.0),
                    Activation::LeakyRelu { slope } if *x < 0.0 => f64::from(*slope) * x,
                    Activation::Elu { alpha } if *x < 0.0 => f64::from(*alpha) * x.exp_m1(),
                    Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
                    Activation::Tanh => x.tanh(),
                    _ => *x,
                };
                Tensor::new(s, input.data.iter().map(f).collect())
            }
            Self::Normalize(epsilon) => {
                let norm = input.data.iter().map(|v| v * v).sum::<f64>().sqrt();
                let divisor = norm.max(f64::from(*epsilon));
                Tensor::new(s, input.data.iter().map(|v| v / divisor).collect())
            }
            Self::GroupNormalize(norm) => {
                let pixels = s.height * s.width;
                let mut data = Vec::with_capacity(s.len());
                for (group, values) in input.data.chunks(s.len() / norm.groups).enumerate() {
                    let mean = values.iter().sum::<f64>() / values.len() as f64;
                    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
                    let deviation = (variance + f64::from(norm.epsilon)).sqrt();
                    for (at, value) in values.iter().enumerate() {
                        let channel = group * (s.channels / norm.groups) + at / pixels;
                        let [scale, shift] = [&norm.scale, &norm.shift].map(|of| f64::from(of[channel]));
                        data.push((value - mean) / deviation * scale + shift);
                    }
                }
                Tensor::new(s, data)
            }
        }
    }
}

fn windows(
    input: &Tensor,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: Padding,
    fold: impl Fn(&[Option<f64>]) -> f64,
) -> Tensor {
    let s = input.shape;
    let height = (s.height + padding.top + padding.bottom - kernel[0]) / stride[0] + 1;
    let width = (s.width + padding.left + padding.right - kernel[1]) / stride[1] + 1;
    Tensor::fill(Shape::new(s.channels, height, width), |c, y, x| {
        let mut values = Vec::new();
        for ky in 0..kernel[0] {
            for kx in 0..kernel[1] {
                let iy = (y * stride[0] + ky) as isize - padding.top as isize;
                let ix = (x * stride[1] + kx) as isize - padding.left as isize;
                values.push(input.get(c, iy, ix));
            }
        }
        fold(&values)
    })
}
