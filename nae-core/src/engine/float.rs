//! Runs one layer whose values are `f32`.

use super::Engine;
use super::tensor::{Image, Operands, Tensor, apart, in_place, operands};
use crate::kernels::{self, Parameters};
use crate::layer::Activation;
use crate::model::{Kind, Operators, Record, Span};

impl<'m, const OPERATORS: u64> Engine<'m, OPERATORS> {
    /// Runs one layer. The arms whose kind is not among `OPERATORS` are constants and vanish.
    pub(super) fn step_f32(&self, layer: &Record, source: Tensor, image: Image<'_>, arena: &mut [f32]) {
        let target = Tensor::of(layer);
        let windows = layer.windows(source.shape);
        let parameters = Parameters { weights: self.floats(layer.weights), bias: self.floats(layer.bias) };
        match layer.kind {
            Kind::Conv2d if Self::has(Operators::kind(Kind::Conv2d)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::conv2d(&windows, parameters, input, output);
            }
            Kind::ConvTranspose2d if Self::has(Operators::kind(Kind::ConvTranspose2d)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::conv_transpose2d(&windows, parameters, input, output);
            }
            Kind::Dense if Self::has(Operators::kind(Kind::Dense)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::dense(parameters, input, output);
            }
            Kind::MaxPool2d if Self::has(Operators::kind(Kind::MaxPool2d)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::max_pool2d(&windows, input, output);
            }
            Kind::AveragePool2d if Self::has(Operators::kind(Kind::AveragePool2d)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::average_pool2d(&windows, layer.mode == 1, input, output);
            }
            Kind::ResizeNearest if Self::has(Operators::kind(Kind::ResizeNearest)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::nearest(source.shape, target.shape, input, output);
            }
            Kind::ResizeBilinear if Self::has(Operators::kind(Kind::ResizeBilinear)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::bilinear(layer.mode == 1, source.shape, target.shape, input, output);
            }
            Kind::L2Normalize if Self::has(Operators::kind(Kind::L2Normalize)) => {
                kernels::l2_normalize(layer.epsilon, in_place(source, target, image, arena));
            }
            Kind::GroupNormalize if Self::has(Operators::kind(Kind::GroupNormalize)) => {
                let values = in_place(source, target, image, arena);
                let groups = usize::from(layer.mode);
                kernels::group_normalize(groups, layer.epsilon, parameters, target.shape.channels, values);
            }
            Kind::Activation | Kind::Reshape => {
                in_place::<f32>(source, target, image, arena);
            }
            Kind::Add if Self::has(Operators::kind(Kind::Add)) => {
                match operands(source, Tensor::new(self.model, layer.other), target, image, arena) {
                    Operands::InPlace(output, other) => kernels::add_in_place(output, other),
                    Operands::Apart(input, other, output) => kernels::add(input, other, output),
                }
            }
            Kind::Multiply if Self::has(Operators::kind(Kind::Multiply)) => {
                match operands(source, Tensor::new(self.model, layer.other), target, image, arena) {
                    Operands::InPlace(output, other) => kernels::multiply_in_place(output, other),
                    Operands::Apart(input, other, output) => kernels::multiply(input, other, output),
                }
            }
            Kind::Dequantize if Self::has(Operators::kind(Kind::Dequantize)) => {
                if let Some(quantization) = source.element.quantization() {
                    let (input, output) = apart(source, target, image, arena);
                    kernels::dequantize(quantization, input, output);
                }
            }
            // Not among the model's operators, so not in it.
            _ => {}
        }
        Self::activate(layer.activation, target.values_mut(arena));
    }

    /// Applies `activation` in place; what is not among `OPERATORS` is not compiled in.
    fn activate(activation: Activation, values: &mut [f32]) {
        const LEAKY: Activation = Activation::LeakyRelu { slope: 0.0 };
        const ELU: Activation = Activation::Elu { alpha: 0.0 };
        // Each by its own name, so that only the functions of the model's activations are linked.
        match activation {
            Activation::Relu if Self::has(Operators::activation(Activation::Relu)) => {
                kernels::activate(Activation::Relu, values);
            }
            Activation::LeakyRelu { slope } if Self::has(Operators::activation(LEAKY)) => {
                kernels::activate(Activation::LeakyRelu { slope }, values);
            }
            Activation::Elu { alpha } if Self::has(Operators::activation(ELU)) => {
                kernels::activate(Activation::Elu { alpha }, values);
            }
            Activation::Sigmoid if Self::has(Operators::activation(Activation::Sigmoid)) => {
                kernels::activate(Activation::Sigmoid, values);
            }
            Activation::Tanh if Self::has(Operators::activation(Activation::Tanh)) => {
                kernels::activate(Activation::Tanh, values);
            }
            _ => {}
        }
    }

    fn floats(&self, span: Span) -> &'m [f32] {
        bytemuck::try_cast_slice(self.words(span.start, span.len)).unwrap_or_default()
    }

    /// `len` words of the parameters.
    pub(super) fn words(&self, start: usize, len: usize) -> &'m [u32] {
        self.parameters.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default()
    }
}
