//! The burn modules behind [`LayerSpec`], and a chain of them.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{PaddingConfig2d, Relu, Sigmoid};
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use rand::Rng;

use super::init::{bound, uniform};
use super::spec::LayerSpec;
use super::upsample::Upsample;

/// One layer with its weights.
#[derive(Module, Debug)]
pub enum Layer {
    /// Convolution.
    Conv(Conv2d),
    /// Transposed convolution.
    ConvTranspose(ConvTranspose2d),
    /// max(0, x).
    Relu(Relu),
    /// Logistic function.
    Sigmoid(Sigmoid),
    /// Largest of each block.
    MaxPool(MaxPool2d),
    /// Bilinear enlargement.
    Upsample(Upsample),
}

impl Layer {
    fn new(spec: LayerSpec, input: Shape, rng: &mut impl Rng, device: &Device) -> Self {
        match spec {
            LayerSpec::Conv { channels, kernel } => {
                let mut conv = Conv2dConfig::new([input.channels, channels], [kernel, kernel])
                    .with_padding(PaddingConfig2d::Valid)
                    .init(device);
                let bound = bound(input.channels, kernel);
                conv.weight = uniform([channels, input.channels, kernel, kernel], bound, rng, device);
                conv.bias = Some(uniform([channels], bound, rng, device));
                Self::Conv(conv)
            }
            LayerSpec::ConvTranspose { channels, kernel } => {
                let mut conv = ConvTranspose2dConfig::new([input.channels, channels], [kernel, kernel]).init(device);
                // PyTorch takes the fan-in of a transposed kernel from its second axis, the channels out.
                let bound = bound(channels, kernel);
                conv.weight = uniform([input.channels, channels, kernel, kernel], bound, rng, device);
                conv.bias = Some(uniform([channels], bound, rng, device));
                Self::ConvTranspose(conv)
            }
            LayerSpec::Relu => Self::Relu(Relu::new()),
            LayerSpec::Sigmoid => Self::Sigmoid(Sigmoid::new()),
            LayerSpec::MaxPool { window } => {
                Self::MaxPool(MaxPool2dConfig::new([window, window]).with_strides([window, window]).init())
            }
            LayerSpec::Upsample { size } => Self::Upsample(Upsample::new(size)),
        }
    }

    /// Applies the layer to `[N, C, H, W]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        match self {
            Self::Conv(layer) => layer.forward(x),
            Self::ConvTranspose(layer) => layer.forward(x),
            Self::Relu(layer) => layer.forward(x),
            Self::Sigmoid(layer) => layer.forward(x),
            Self::MaxPool(layer) => layer.forward(x),
            Self::Upsample(layer) => layer.forward(x),
        }
    }
}

/// Layers applied one after the other.
#[derive(Module, Debug)]
pub struct Sequential {
    layers: Vec<Layer>,
}

impl Sequential {
    /// Layers for `specs` on an input of shape `input`, with fresh weights.
    pub(crate) fn new(specs: &[LayerSpec], mut input: Shape, rng: &mut impl Rng, device: &Device) -> Self {
        let layers = specs
            .iter()
            .map(|&spec| {
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

    /// Applies all layers to `[N, C, H, W]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.layers.iter().fold(x, |x, layer| layer.forward(x))
    }
}
