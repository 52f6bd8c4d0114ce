//! A chain of layers, some of which have chains of their own: forward with what the way back needs, and back.

use nae_simd::correlate::Finish;
use nae_simd::group::Moments;
use nae_simd::plane::{Planes, Size};
use nae_simd::pointwise::{
    add, multiply, normalize, normalize_backward, rectify, rectify_backward, sigmoid, sigmoid_backward,
};
use nae_simd::resample::{
    Alignment, Enlargement, average_pool, average_pool_backward, max_pool, max_pool_backward, nearest, nearest_backward,
};

use super::convolution::Convolution;
use super::norm::GroupNorm;
use super::parameters::{Gradients, Parameters};
use crate::arch::layer::{Layer, Sequential};

/// One layer, or two of them fused.
#[derive(Debug)]
pub enum Step {
    /// A layer with a kernel, and the slope of the rectifier after it, where there is one.
    Convolution(Box<Convolution>, Option<f32>),
    /// x where positive, a fraction of it elsewhere.
    Rectify(f32),
    /// Logistic function.
    Sigmoid,
    /// Division by the norm.
    Sphere,
    /// Largest of each block.
    MaxPool(usize),
    /// Mean of each block.
    AveragePool(usize),
    /// Bilinear enlargement.
    Enlarge(Enlargement),
    /// Enlargement by repetition.
    Nearest(usize),
    /// The same values under another shape.
    Reshape(Size),
    /// Group normalisation.
    GroupNorm(GroupNorm),
    /// skip(x) + body(x).
    Residual {
        /// The long path.
        body: Vec<Step>,
        /// The short one.
        skip: Vec<Step>,
    },
    /// body(x) ⊙ sigmoid(gate(x)).
    Gated {
        /// What is let through.
        body: Vec<Step>,
        /// How much of it.
        gate: Vec<Step>,
    },
}

/// What a step's way back needs beside its input and output.
enum Saved {
    Nothing,
    Norms(Vec<f32>),
    Moments(Moments),
    Paths(Trace, Trace),
    /// Body, gate, and the gate's sigmoid.
    Gate(Trace, Trace, Planes),
}

/// Activations of one pass: the output of each step, some left empty where the way back does without.
#[derive(Default)]
pub struct Trace {
    outputs: Vec<Planes>,
    saved: Vec<Saved>,
}

impl Trace {
    /// The output of the chain, whose input was `input`.
    pub fn output<'a>(&'a self, input: &'a Planes) -> &'a Planes {
        self.outputs.last().unwrap_or(input)
    }

    /// The output of the chain, whose input was `input`, alone.
    pub fn into_output(mut self, input: &Planes) -> Planes {
        self.outputs.pop().unwrap_or_else(|| input.clone())
    }
}

/// Steps for `layers` on planes of `size`, which becomes that of the output.
pub fn compile(layers: &Sequential, size: &mut Size, parameters: &mut Parameters) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(layers.layers().len());
    for layer in layers.layers() {
        let from = *size;
        let mut kernel = |convolution: Convolution| {
            *size = convolution.to();
            Step::Convolution(Box::new(convolution), None)
        };
        let step = match layer {
            Layer::Conv(conv) => kernel(Convolution::plain(conv, from, parameters)),
            Layer::SpectralConv(layer) => kernel(Convolution::spectral(layer, from, parameters)),
            Layer::ConvTranspose(conv) => kernel(Convolution::transposed(conv, from, parameters)),
            Layer::Dense(linear) => kernel(Convolution::dense(linear, from, parameters)),
            Layer::Reshape(reshape) => {
                let [c, h, w] = reshape.shape();
                *size = Size { h, w, c };
                Step::Reshape(*size)
            }
            Layer::Relu(_) => rectifier(&mut steps, 0.0),
            Layer::LeakyRelu(layer) => rectifier(&mut steps, layer.negative_slope as f32),
            Layer::Sigmoid(_) => Step::Sigmoid,
            Layer::MaxPool(pool) => {
                *size = blocks(from, pool.kernel_size[0]);
                Step::MaxPool(pool.kernel_size[0])
            }
            Layer::AvgPool(pool) => {
                *size = blocks(from, pool.kernel_size[0]);
                Step::AveragePool(pool.kernel_size[0])
            }
            Layer::Upsample(upsample) => {
                let to = [upsample.size(); 2];
                *size = Size { h: to[0], w: to[1], c: from.c };
                Step::Enlarge(Enlargement::new([from.h, from.w], to, Alignment::Corners))
            }
            Layer::Nearest(layer) => {
                *size = Size { h: from.h * layer.factor(), w: from.w * layer.factor(), c: from.c };
                Step::Nearest(layer.factor())
            }
            Layer::GroupNorm(norm) => Step::GroupNorm(GroupNorm::new(norm, parameters)),
            Layer::Residual(block) => {
                let body = compile(&block.body, size, parameters);
                let skip = compile(&block.skip, &mut from.clone(), parameters);
                Step::Residual { body, skip }
            }
            Layer::Gated(block) => {
                let body = compile(&block.body, size, parameters);
                let gate = compile(&block.gate, &mut from.clone(), parameters);
                Step::Gated { body, gate }
            }
        };
        steps.push(step);
    }
    steps
}

fn blocks(size: Size, window: usize) -> Size {
    Size { h: size.h / window, w: size.w / window, c: size.c }
}

/// A rectifier: part of the layer before it where that has a kernel, so that its output is written once.
fn rectifier(steps: &mut Vec<Step>, slope: f32) -> Step {
    // With a negative slope, the output does not tell the sign of the input.
    if slope >= 0.0 {
        match steps.pop() {
            Some(Step::Convolution(convolution, None)) => return Step::Convolution(convolution, Some(slope)),
            Some(other) => steps.push(other),
            None => {}
        }
    }
    Step::Rectify(slope)
}

/// Runs the steps on `input`.
pub fn forward(steps: &[Step], input: &Planes) -> Trace {
    let mut trace = Trace { outputs: Vec::with_capacity(steps.len()), saved: Vec::with_capacity(steps.len()) };
    let mut disposable = false;
    for step in steps {
        let outputs = &mut trace.outputs;
        // A kernel's way back does not need its output, so what follows may overwrite it.
        let own = |outputs: &mut Vec<Planes>| match outputs.last_mut() {
            Some(last) if disposable => std::mem::take(last),
            Some(last) => last.clone(),
            None => input.clone(),
        };
        let mut saved = Saved::Nothing;
        let output = match step {
            Step::Sigmoid => {
                let mut x = own(outputs);
                sigmoid(&mut x);
                x
            }
            Step::Sphere => {
                let mut x = own(outputs);
                saved = Saved::Norms(normalize(&mut x, 0.0));
                x
            }
            other => {
                let x = outputs.last().unwrap_or(input);
                match other {
                    Step::Convolution(conv, None) => conv.forward(x, Finish::Keep),
                    Step::Convolution(conv, Some(slope)) => conv.forward(x, Finish::Rectify { slope: *slope }),
                    Step::Rectify(slope) => rectify(x, *slope),
                    Step::MaxPool(window) => max_pool(x, *window),
                    Step::AveragePool(window) => average_pool(x, *window),
                    Step::Enlarge(enlargement) => enlargement.forward(x),
                    Step::Nearest(factor) => nearest(x, *factor),
                    Step::Reshape(size) => x.reshaped(*size),
                    Step::GroupNorm(norm) => {
                        let (output, moments) = norm.forward(x);
                        saved = Saved::Moments(moments);
                        output
                    }
                    Step::Residual { body, skip } => {
                        let (body, skip) = (forward(body, x), forward(skip, x));
                        let mut output = skip.output(x).clone();
                        add(&mut output.data, &body.output(x).data);
                        saved = Saved::Paths(body, skip);
                        output
                    }
                    Step::Gated { body, gate } => {
                        let (body, gate) = (forward(body, x), forward(gate, x));
                        let mut open = gate.output(x).clone();
                        sigmoid(&mut open);
                        let mut output = open.clone();
                        multiply(&mut output.data, &body.output(x).data);
                        saved = Saved::Gate(body, gate, open);
                        output
                    }
                    Step::Sigmoid | Step::Sphere => unreachable!("matched above"),
                }
            }
        };
        disposable = matches!(step, Step::Convolution(_, None));
        trace.outputs.push(output);
        trace.saved.push(saved);
    }
    trace
}

/// From the gradient at the output to that at the input, which is left out (empty) where not `wanted` and the first
/// step has a kernel; gathers gradients of weights where `gradients` is there.
pub fn back(
    steps: &[Step],
    input: &Planes,
    trace: &Trace,
    mut gradient: Planes,
    wanted: bool,
    mut gradients: Option<&mut Gradients>,
) -> Planes {
    // Whether the gradient has gone back through the rectifier of the step it stands behind.
    let mut rectified = false;
    for (k, step) in steps.iter().enumerate().rev() {
        let (before, fused) = match k.checked_sub(1) {
            Some(previous) => (&trace.outputs[previous], fused_slope(&steps[previous])),
            None => (input, None),
        };
        let output = &trace.outputs[k];
        if let (Step::Convolution(_, Some(slope)), false) = (step, rectified) {
            rectify_backward(output, *slope, &mut gradient);
        }
        rectified = fused.is_some() && matches!(step, Step::Convolution(..) | Step::MaxPool(_));
        gradient = match (step, &trace.saved[k]) {
            (Step::Convolution(conv, _), _) => {
                if let Some(gradients) = gradients.as_deref_mut() {
                    conv.weights(before, &gradient, gradients);
                }
                let finish = fused.map_or(Finish::Keep, |slope| Finish::Gate { output: &before.data, slope });
                if k > 0 || wanted { conv.backward(&gradient, finish) } else { Planes::default() }
            }
            (Step::Rectify(slope), _) => {
                rectify_backward(before, *slope, &mut gradient);
                gradient
            }
            (Step::Sigmoid, _) => {
                sigmoid_backward(output, &mut gradient);
                gradient
            }
            (Step::Sphere, Saved::Norms(norms)) => {
                normalize_backward(output, norms, &mut gradient);
                gradient
            }
            (Step::MaxPool(window), _) => max_pool_backward(before, output, &gradient, *window, fused),
            (Step::AveragePool(window), _) => average_pool_backward(&gradient, before.size, *window),
            (Step::Enlarge(enlargement), _) => enlargement.backward(&gradient),
            (Step::Nearest(factor), _) => nearest_backward(&gradient, *factor),
            (Step::Reshape(_), _) => gradient.reshaped(before.size),
            (Step::GroupNorm(norm), Saved::Moments(moments)) => {
                norm.backward(before, moments, &gradient, gradients.as_deref_mut())
            }
            (Step::Residual { body, skip }, Saved::Paths(body_trace, skip_trace)) => {
                let mut sum = back(skip, before, skip_trace, gradient.clone(), true, gradients.as_deref_mut());
                let through = back(body, before, body_trace, gradient, true, gradients.as_deref_mut());
                add(&mut sum.data, &through.data);
                sum
            }
            (Step::Gated { body, gate }, Saved::Gate(body_trace, gate_trace, open)) => {
                let mut at_gate = gradient.clone();
                multiply(&mut at_gate.data, &body_trace.output(before).data);
                sigmoid_backward(open, &mut at_gate);
                multiply(&mut gradient.data, &open.data);
                let mut sum = back(gate, before, gate_trace, at_gate, true, gradients.as_deref_mut());
                let through = back(body, before, body_trace, gradient, true, gradients.as_deref_mut());
                add(&mut sum.data, &through.data);
                sum
            }
            (Step::Sphere | Step::GroupNorm(_) | Step::Residual { .. } | Step::Gated { .. }, _) => {
                unreachable!("saved by the same step on the way forward")
            }
        };
    }
    gradient
}

fn fused_slope(step: &Step) -> Option<f32> {
    match step {
        Step::Convolution(_, slope) => *slope,
        _ => None,
    }
}
