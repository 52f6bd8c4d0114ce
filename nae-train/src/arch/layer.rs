//! The burn modules for [`LayerSpec`], and a sequence of them.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::pool::{AvgPool2d, AvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    Elu, EluConfig, GroupNorm, GroupNormConfig, LeakyRelu, LeakyReluConfig, Linear, LinearConfig, PaddingConfig2d,
    Relu, Sigmoid,
};
use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use nae_core::layer::Activation;
use rand::Rng;

use super::init::{bound, uniform};
use super::spec::LayerSpec;
use super::spectral::SpectralConv;
use super::upsample::{Nearest, Upsample};

/// One layer with its weights.
#[derive(Module, Debug)]
pub enum Layer {
    /// A convolution.
    Conv(Conv2d),
    /// A convolution whose weight is divided by its largest singular value.
    SpectralConv(SpectralConv),
    /// A transposed convolution.
    ConvTranspose(ConvTranspose2d),
    /// A linear map of the flattened activation.
    Dense(Linear),
    /// The same values in another shape.
    Reshape(Reshape),
    /// A function applied to every value.
    Pointwise(Pointwise),
    /// The softmax over the channels of each place.
    Softmax(Softmax),
    /// The largest value of each block.
    MaxPool(MaxPool2d),
    /// The mean of each block.
    AvgPool(AvgPool2d),
    /// Bilinear enlargement.
    Upsample(Upsample),
    /// Enlargement by repetition.
    Nearest(Nearest),
    /// Group normalization.
    GroupNorm(GroupNorm),
    /// The sum of two paths.
    Residual(Residual),
    /// The product of a path and the gate computed by another.
    Gated(Gated),
}

/// A function applied to every value.
#[derive(Module, Debug)]
pub enum Pointwise {
    /// max(0, x).
    Relu(Relu),
    /// x if positive, otherwise a fraction of it.
    LeakyRelu(LeakyRelu),
    /// x if positive, otherwise a multiple of exp(x) − 1.
    Elu(Elu),
    /// The logistic function.
    Sigmoid(Sigmoid),
}

impl Pointwise {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        match self {
            Self::Relu(layer) => layer.forward(x),
            Self::LeakyRelu(layer) => layer.forward(x),
            Self::Elu(layer) => layer.forward(x),
            Self::Sigmoid(layer) => layer.forward(x),
        }
    }

    /// The same function in the representation that all network formats share.
    pub(crate) fn activation(&self) -> Activation {
        match self {
            Self::Relu(_) => Activation::Relu,
            Self::LeakyRelu(leaky) => Activation::LeakyRelu { slope: leaky.negative_slope as f32 },
            Self::Elu(elu) => Activation::Elu { alpha: elu.alpha as f32 },
            Self::Sigmoid(_) => Activation::Sigmoid,
        }
    }
}

/// The same values in another shape.
#[derive(Module, Debug)]
pub struct Reshape {
    channels: usize,
    height: usize,
    width: usize,
}

/// exp(x) divided by the sum of exp(x) over the channels of each place.
#[derive(Module, Debug, Default)]
pub struct Softmax {}

/// skip(x) + body(x).
#[derive(Module, Debug)]
pub struct Residual {
    /// The path with most of the layers.
    pub body: Sequential,
    /// The short path; without layers it is x itself.
    pub skip: Sequential,
}

/// body(x) ⊙ sigmoid(gate(x)).
#[derive(Module, Debug)]
pub struct Gated {
    /// The path whose output is multiplied by the gate.
    pub body: Sequential,
    /// The path of the gate, before the logistic function.
    pub gate: Sequential,
}

impl Reshape {
    /// The shape, without the batch.
    pub fn shape(&self) -> [usize; 3] {
        [self.channels, self.height, self.width]
    }
}

impl Layer {
    fn new(spec: &LayerSpec, input: Shape, rng: &mut impl Rng, device: &Device) -> Self {
        match *spec {
            LayerSpec::Conv { channels, kernel, stride, padding, bias, spectral_norm } => {
                let mut conv = Conv2dConfig::new([input.channels, channels], [kernel, kernel])
                    .with_stride([stride, stride])
                    .with_padding(explicit(padding))
                    .with_bias(bias)
                    .init(device);
                let bound = bound(input.channels, kernel);
                conv.weight = uniform([channels, input.channels, kernel, kernel], bound, rng, device);
                conv.bias = bias.then(|| uniform([channels], bound, rng, device));
                if spectral_norm { Self::SpectralConv(SpectralConv::new(conv, rng, device)) } else { Self::Conv(conv) }
            }
            LayerSpec::ConvTranspose { channels, kernel, stride, padding } => {
                let mut conv = ConvTranspose2dConfig::new([input.channels, channels], [kernel, kernel])
                    .with_stride([stride, stride])
                    .with_padding([padding, padding])
                    .init(device);
                // PyTorch computes the fan-in of a transposed kernel from its second axis, the output channels.
                let bound = bound(channels, kernel);
                conv.weight = uniform([input.channels, channels, kernel, kernel], bound, rng, device);
                conv.bias = Some(uniform([channels], bound, rng, device));
                Self::ConvTranspose(conv)
            }
            LayerSpec::Dense { features } => {
                let mut linear = LinearConfig::new(input.len(), features).init(device);
                let bound = bound(input.len(), 1);
                linear.weight = uniform([input.len(), features], bound, rng, device);
                linear.bias = Some(uniform([features], bound, rng, device));
                Self::Dense(linear)
            }
            LayerSpec::Reshape { shape: [channels, height, width] } => {
                Self::Reshape(Reshape { channels, height, width })
            }
            LayerSpec::Relu => Self::Pointwise(Pointwise::Relu(Relu::new())),
            LayerSpec::LeakyRelu { slope } => {
                let leaky = LeakyReluConfig::new().with_negative_slope(f64::from(slope));
                Self::Pointwise(Pointwise::LeakyRelu(leaky.init()))
            }
            LayerSpec::Elu { alpha } => {
                Self::Pointwise(Pointwise::Elu(EluConfig::new().with_alpha(f64::from(alpha)).init()))
            }
            LayerSpec::Sigmoid => Self::Pointwise(Pointwise::Sigmoid(Sigmoid::new())),
            LayerSpec::Softmax => Self::Softmax(Softmax::default()),
            LayerSpec::MaxPool { window } => {
                Self::MaxPool(MaxPool2dConfig::new([window, window]).with_strides([window, window]).init())
            }
            LayerSpec::AvgPool { window } => {
                Self::AvgPool(AvgPool2dConfig::new([window, window]).with_strides([window, window]).init())
            }
            LayerSpec::Upsample { size } => Self::Upsample(Upsample::new(size)),
            LayerSpec::Nearest { factor } => Self::Nearest(Nearest::new(factor)),
            LayerSpec::GroupNorm { groups } => {
                Self::GroupNorm(GroupNormConfig::new(groups, input.channels).init(device))
            }
            LayerSpec::Residual { ref body, ref skip } => Self::Residual(Residual {
                body: Sequential::new(body, input, rng, device),
                skip: Sequential::new(skip, input, rng, device),
            }),
            LayerSpec::Gated { ref body, ref gate } => Self::Gated(Gated {
                body: Sequential::new(body, input, rng, device),
                gate: Sequential::new(gate, input, rng, device),
            }),
        }
    }

    /// Applies the layer to `[N, C, H, W]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        match self {
            Self::Conv(layer) => layer.forward(x),
            Self::SpectralConv(layer) => layer.forward(x),
            Self::ConvTranspose(layer) => layer.forward(x),
            Self::Dense(layer) => {
                let [n, c, h, w] = x.dims();
                let y = layer.forward(x.reshape([n, c * h * w]));
                let features = y.dims()[1];
                y.reshape([n, features, 1, 1])
            }
            Self::Reshape(Reshape { channels, height, width }) => {
                let n = x.dims()[0];
                x.reshape([n, *channels, *height, *width])
            }
            Self::Pointwise(layer) => layer.forward(x),
            Self::Softmax(_) => softmax(x, 1),
            Self::MaxPool(layer) => layer.forward(x),
            Self::AvgPool(layer) => layer.forward(x),
            Self::Upsample(layer) => layer.forward(x),
            Self::Nearest(layer) => layer.forward(x),
            Self::GroupNorm(layer) => layer.forward(x),
            Self::Residual(Residual { body, skip }) => skip.forward(x.clone()) + body.forward(x),
            Self::Gated(Gated { body, gate }) => body.forward(x.clone()) * sigmoid(gate.forward(x)),
        }
    }

    /// Makes one step of power iteration for every spectral norm in this layer.
    fn power_iteration(self) -> Self {
        match self {
            Self::SpectralConv(layer) => Self::SpectralConv(layer.power_iteration()),
            Self::Residual(Residual { body, skip }) => {
                Self::Residual(Residual { body: body.power_iteration(), skip: skip.power_iteration() })
            }
            Self::Gated(Gated { body, gate }) => {
                Self::Gated(Gated { body: body.power_iteration(), gate: gate.power_iteration() })
            }
            other => other,
        }
    }
}

fn explicit(padding: usize) -> PaddingConfig2d {
    match padding {
        0 => PaddingConfig2d::Valid,
        p => PaddingConfig2d::Explicit(p, p, p, p),
    }
}

/// The inverse of the logistic function, clamped where that is nearly constant.
fn logit(share: f32) -> f32 {
    let share = share.clamp(0.01, 0.99);
    (share / (1.0 - share)).ln()
}

/// Layers applied one after the other.
#[derive(Module, Debug)]
pub struct Sequential {
    layers: Vec<Layer>,
}

impl Sequential {
    /// Makes layers for `specs` on an input of shape `input`, with new weights.
    pub(crate) fn new(specs: &[LayerSpec], mut input: Shape, rng: &mut impl Rng, device: &Device) -> Self {
        let layers = specs
            .iter()
            .map(|spec| {
                let layer = Layer::new(spec, input, rng, device);
                input = spec.output(input).unwrap_or(input);
                layer
            })
            .collect();
        Self { layers }
    }

    /// The layers, in order.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The first `count` layers, with the same weights.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self { layers: self.layers.iter().take(count).cloned().collect() }
    }

    /// Applies all layers to `[N, C, H, W]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.layers.iter().fold(x, |x, layer| layer.forward(x))
    }

    /// Sets the weights `[in, out]` and biases `[out]` of the first layer, which must be dense.
    pub(crate) fn with_dense(mut self, weights: Vec<f32>, bias: Vec<f32>) -> Self {
        if let Some(Layer::Dense(layer)) = self.layers.first_mut() {
            let (device, shape) = (layer.weight.device(), layer.weight.dims());
            layer.weight = Param::from_data(TensorData::new(weights, shape), &device);
            layer.bias = Some(Param::from_data(TensorData::new(bias, [shape[1]]), &device));
        }
        self
    }

    /// Sets the biases of the last layer that has some so that outputs are about `mean` while weights are small.
    pub(super) fn with_output_at(mut self, mean: &[f32]) -> Self {
        let squashed = matches!(self.layers.last(), Some(Layer::Pointwise(Pointwise::Sigmoid(_))));
        let last = self.layers.len().saturating_sub(1 + usize::from(squashed));
        let bias = match self.layers.get_mut(last) {
            Some(Layer::Conv(layer)) => &mut layer.bias,
            Some(Layer::ConvTranspose(layer)) => &mut layer.bias,
            Some(Layer::Dense(layer)) => &mut layer.bias,
            _ => return self,
        };
        if let Some(bias) = bias {
            let [channels] = bias.dims();
            let values: Vec<f32> = mean
                .chunks(mean.len().div_ceil(channels).max(1))
                .map(|channel| channel.iter().sum::<f32>() / channel.len() as f32)
                .map(|mean| if squashed { logit(mean) } else { mean })
                .collect();
            let device = bias.device();
            *bias = Param::from_data(TensorData::new(values, [channels]), &device);
        }
        self
    }

    pub(crate) fn power_iteration(self) -> Self {
        Self { layers: self.layers.into_iter().map(Layer::power_iteration).collect() }
    }
}
