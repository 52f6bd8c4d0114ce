//! Runs one layer whose values are `f32`.

use super::Engine;
use super::tensor::{Image, Operands, Tensor, apart, in_place, operands};
use crate::kernels::{self, Parameters};
use crate::layer::Activation;
use crate::model::{Kind, Linear, Operation, Operators, Record, Span};

impl<'m, const OPERATORS: u64> Engine<'m, OPERATORS> {
    /// Runs one layer. The arms of kinds that are not among `OPERATORS` are constant and are removed.
    pub(super) fn step_f32(&self, layer: &Record, source: Tensor, image: Image<'_>, arena: &mut [f32]) {
        let target = Tensor::of(layer);
        match layer.operation {
            Operation::Conv2d(geometry, linear) if Self::has(Operators::kind(Kind::Conv2d)) => {
                let windows = geometry.windows(source.shape, target.shape);
                let (input, output) = apart(source, target, image, arena);
                kernels::conv2d(&windows, self.parameters(&linear), input, output);
            }
            Operation::ConvTranspose2d { geometry, linear, .. }
                if Self::has(Operators::kind(Kind::ConvTranspose2d)) =>
            {
                let windows = geometry.windows(source.shape, target.shape);
                let (input, output) = apart(source, target, image, arena);
                kernels::conv_transpose2d(&windows, self.parameters(&linear), input, output);
            }
            Operation::Dense(linear) if Self::has(Operators::kind(Kind::Dense)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::dense(self.parameters(&linear), input, output);
            }
            Operation::MaxPool2d(geometry) if Self::has(Operators::kind(Kind::MaxPool2d)) => {
                let windows = geometry.windows(source.shape, target.shape);
                let (input, output) = apart(source, target, image, arena);
                kernels::max_pool2d(&windows, input, output);
            }
            Operation::AveragePool2d { geometry, count_include_padding }
                if Self::has(Operators::kind(Kind::AveragePool2d)) =>
            {
                let windows = geometry.windows(source.shape, target.shape);
                let (input, output) = apart(source, target, image, arena);
                kernels::average_pool2d(&windows, count_include_padding, input, output);
            }
            Operation::ResizeNearest if Self::has(Operators::kind(Kind::ResizeNearest)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::nearest(source.shape, target.shape, input, output);
            }
            Operation::ResizeBilinear { half_pixel } if Self::has(Operators::kind(Kind::ResizeBilinear)) => {
                let (input, output) = apart(source, target, image, arena);
                kernels::bilinear(half_pixel, source.shape, target.shape, input, output);
            }
            Operation::L2Normalize { epsilon } if Self::has(Operators::kind(Kind::L2Normalize)) => {
                kernels::l2_normalize(epsilon, in_place(source, target, image, arena));
            }
            Operation::GroupNormalize { groups, epsilon, scale, shift }
                if Self::has(Operators::kind(Kind::GroupNormalize)) =>
            {
                let values = in_place(source, target, image, arena);
                let parameters = Parameters { weights: self.floats(scale), bias: self.floats(shift) };
                kernels::group_normalize(usize::from(groups), epsilon, parameters, target.shape.channels, values);
            }
            Operation::Activation(_) | Operation::Reshape => {
                in_place::<f32>(source, target, image, arena);
            }
            Operation::Add(pair) if Self::has(Operators::kind(Kind::Add)) => {
                match operands(source, Tensor::new(self.model, pair.other), target, image, arena) {
                    Operands::InPlace(output, other) => kernels::add_in_place(output, other),
                    Operands::Apart(input, other, output) => kernels::add(input, other, output),
                }
            }
            Operation::Multiply(pair) if Self::has(Operators::kind(Kind::Multiply)) => {
                match operands(source, Tensor::new(self.model, pair.other), target, image, arena) {
                    Operands::InPlace(output, other) => kernels::multiply_in_place(output, other),
                    Operands::Apart(input, other, output) => kernels::multiply(input, other, output),
                }
            }
            Operation::Dequantize if Self::has(Operators::kind(Kind::Dequantize)) => {
                if let Some(quantization) = source.element.quantization() {
                    let (input, output) = apart(source, target, image, arena);
                    kernels::dequantize(quantization, input, output);
                }
            }
            // An operator outside the engine's set cannot occur in the model.
            _ => {}
        }
        Self::activate(layer.operation.activation(), target.values_mut(arena));
    }

    /// Applies `activation` in place; activations that are not among `OPERATORS` are not compiled in.
    fn activate(activation: Activation, values: &mut [f32]) {
        const LEAKY: Activation = Activation::LeakyRelu { slope: 0.0 };
        const ELU: Activation = Activation::Elu { alpha: 0.0 };
        // Each is named, so that only the functions of the model's activations are linked.
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

    fn parameters(&self, linear: &Linear) -> Parameters<'m> {
        Parameters { weights: self.floats(linear.weights()), bias: self.floats(linear.bias()) }
    }

    fn floats(&self, span: Span) -> &'m [f32] {
        bytemuck::try_cast_slice(self.words(span.start, span.len)).unwrap_or_default()
    }

    /// `len` words of the parameters.
    pub(super) fn words(&self, start: usize, len: usize) -> &'m [u32] {
        self.parameters.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default()
    }
}
