//! An autoencoder put together from the layers of this folder: forward with what the way back needs, and back.

use burn::module::{Param, ParamId};
use burn::nn::PaddingConfig2d;
use burn::tensor::Tensor;

use super::correlate::{correlate, weight_gradient};
use super::kernel::{Extents, Kernel};
use super::plane::Planes;
use super::pointwise::{normalize, normalize_backward, relu, relu_backward, sigmoid, sigmoid_backward, squared_l2};
use super::resample::{Enlargement, max_pool, max_pool_backward};
use crate::arch::layer::{Layer, Sequential};
use crate::arch::{Autoencoder, LatentSpace};

/// A convolution or transposed convolution, laid out both ways.
struct Convolution {
    transposed: bool,
    extents: Extents,
    forward: Kernel,
    backward: Kernel,
    weight: ParamId,
    bias: Option<ParamId>,
}

enum Step {
    Convolution(Box<Convolution>),
    Relu,
    Sigmoid,
    MaxPool { window: usize },
    Enlarge(Enlargement),
    Sphere,
}

/// What a step's way back needs beside its input and output.
enum Saved {
    Nothing,
    Winners(Vec<u32>),
    Norms(Vec<f32>),
}

/// Activations of one pass: `states[k]` goes into step k.
struct Trace {
    states: Vec<Planes>,
    saved: Vec<Saved>,
}

impl Trace {
    fn output(&self) -> &Planes {
        // A trace starts with its input.
        &self.states[self.states.len() - 1]
    }
}

/// Gradients of weights, by parameter, in burn's order and shape.
pub type WeightGradients = Vec<(ParamId, Vec<usize>, Vec<f32>)>;

/// An autoencoder with its weights laid out.
pub struct Network {
    encoder: Vec<Step>,
    decoder: Vec<Step>,
}

impl Network {
    /// Lays out the weights of `model` for images of `height` × `width`.
    ///
    /// # Panics
    /// Where [`supports`](super::supports) is an error for the model's architecture.
    pub fn new(model: &Autoencoder, [height, width]: [usize; 2]) -> Self {
        let mut encoder = compile(&model.encoder, [height, width]);
        if model.latent_space() == LatentSpace::Sphere {
            encoder.push(Step::Sphere);
        }
        let decoder = compile(&model.decoder, [1, 1]);
        Self { encoder, decoder }
    }

    /// Latents of images.
    pub fn encode(&self, x: Planes) -> Planes {
        forward(&self.encoder, x).states.pop().unwrap_or_default()
    }

    /// Images of latents.
    pub fn decode(&self, z: Planes) -> Planes {
        forward(&self.decoder, z).states.pop().unwrap_or_default()
    }

    /// E(x) and ∇ₓE(x).
    pub fn visible(&self, x: Planes) -> (Vec<f32>, Planes) {
        let encoded = forward(&self.encoder, x);
        let decoded = forward(&self.decoder, encoded.output().clone());
        let (energies, mut direct) = squared_l2(&encoded.states[0], decoded.output());
        let through = self.back_to_image(&encoded, &decoded, negated(&direct));
        for (g, t) in direct.data.iter_mut().zip(&through.data) {
            *g += t;
        }
        (energies, direct)
    }

    /// H(z) = E(f_d(z)) and ∇H(z).
    pub fn latent(&self, z: Planes) -> (Vec<f32>, Planes) {
        let generated = forward(&self.decoder, z);
        let (energies, gradient) = self.visible(generated.output().clone());
        (energies, back(&self.decoder, &generated, gradient, true, &mut None))
    }

    /// E(x), and the gradient of Σ coefficient(Eᵢ)·Eᵢ with respect to the weights, coefficients held constant.
    pub fn weights(&self, x: Planes, coefficient: impl Fn(f32) -> f32) -> (Vec<f32>, WeightGradients) {
        let target = x.clone();
        self.weights_towards(x, &target, coefficient)
    }

    /// As [`weights`](Self::weights), where the reconstruction of `input` is compared with `target`.
    pub fn weights_towards(
        &self,
        input: Planes,
        target: &Planes,
        coefficient: impl Fn(f32) -> f32,
    ) -> (Vec<f32>, WeightGradients) {
        let encoded = forward(&self.encoder, input);
        let decoded = forward(&self.decoder, encoded.output().clone());
        let (energies, direct) = squared_l2(target, decoded.output());
        let mut gradient = negated(&direct);
        let len = gradient.sample_len();
        for (sample, energy) in gradient.data.chunks_exact_mut(len).zip(&energies) {
            let factor = coefficient(*energy);
            sample.iter_mut().for_each(|g| *g *= factor);
        }
        let mut gradients = Some(Vec::new());
        let at_latent = back(&self.decoder, &decoded, gradient, true, &mut gradients);
        back(&self.encoder, &encoded, at_latent, false, &mut gradients);
        (energies, gradients.unwrap_or_default())
    }

    fn back_to_image(&self, encoded: &Trace, decoded: &Trace, gradient: Planes) -> Planes {
        let at_latent = back(&self.decoder, decoded, gradient, true, &mut None);
        back(&self.encoder, encoded, at_latent, true, &mut None)
    }
}

fn negated(planes: &Planes) -> Planes {
    let mut negated = planes.clone();
    negated.data.iter_mut().for_each(|v| *v = -*v);
    negated
}

/// Steps for activations of `size` (rows, columns) at the start.
fn compile(layers: &Sequential, mut size: [usize; 2]) -> Vec<Step> {
    layers
        .layers()
        .iter()
        .map(|layer| match layer {
            Layer::Conv(conv) if conv.stride == [1; 2] && matches!(conv.padding, PaddingConfig2d::Valid) => {
                let step = convolution(false, &conv.weight, conv.bias.as_ref());
                size = size.map(|s| s + 1 - step.extents.side);
                Step::Convolution(Box::new(step))
            }
            Layer::ConvTranspose(conv) if conv.stride == [1; 2] && conv.padding == [0; 2] => {
                let step = convolution(true, &conv.weight, conv.bias.as_ref());
                size = size.map(|s| s + step.extents.side - 1);
                Step::Convolution(Box::new(step))
            }
            Layer::Relu(_) => Step::Relu,
            Layer::Sigmoid(_) => Step::Sigmoid,
            Layer::MaxPool(pool) => {
                let window = pool.kernel_size[0];
                size = size.map(|s| s / window);
                Step::MaxPool { window }
            }
            Layer::Upsample(upsample) => {
                let to = [upsample.size(); 2];
                let step = Enlargement::new(size, to);
                size = to;
                Step::Enlarge(step)
            }
            other => panic!("not a layer of this engine, see engine::support: {other:?}"),
        })
        .collect()
}

fn convolution(transposed: bool, weight: &Param<Tensor<4>>, bias: Option<&Param<Tensor<1>>>) -> Convolution {
    let [first, second, side, _] = weight.dims();
    let values = floats(weight);
    let bias_values = bias.map(floats).unwrap_or_default();
    let at = |a: usize, b: usize, r: usize, c: usize| values[((a * second + b) * side + r) * side + c];
    let flipped = |a, b, r: usize, c: usize| at(a, b, side - 1 - r, side - 1 - c);
    let (out, inp) = if transposed { (second, first) } else { (first, second) };
    let extents = Extents { out, inp, side };
    let reversed = Extents { out: inp, inp: out, side };
    let (forward, backward) = if transposed {
        (Kernel::new(extents, &bias_values, |o, i, r, c| flipped(i, o, r, c)), Kernel::new(reversed, &[], at))
    } else {
        (Kernel::new(extents, &bias_values, at), Kernel::new(reversed, &[], |i, o, r, c| flipped(o, i, r, c)))
    };
    Convolution { transposed, extents, forward, backward, weight: weight.id, bias: bias.map(|bias| bias.id) }
}

/// The values of a parameter, in burn's order.
pub fn floats<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
    values(param.val())
}

/// The values of weights, in burn's order.
pub fn values<const D: usize>(weights: Tensor<D>) -> Vec<f32> {
    weights.into_data().try_into_vec::<f32>().expect("weights are float")
}

impl Convolution {
    fn forward(&self, x: &Planes) -> Planes {
        let border = self.extents.side - 1;
        if self.transposed {
            correlate(&x.widened(border), &self.forward, border)
        } else {
            correlate(x, &self.forward, 0)
        }
    }

    fn backward(&self, gradient: &Planes) -> Planes {
        let border = self.extents.side - 1;
        if self.transposed {
            correlate(gradient, &self.backward, 0)
        } else {
            correlate(&gradient.widened(border), &self.backward, border)
        }
    }

    /// Gradients of weight and bias for `input` and the gradient at the output.
    fn weights(&self, input: &Planes, gradient: &Planes, into: &mut WeightGradients) {
        let Extents { out, inp, side } = self.extents;
        // The correlation that makes the larger of the two planes the window's: each other's adjoint.
        let (wide, narrow) = if self.transposed { (gradient, input) } else { (input, gradient) };
        let (a, b) = (wide.c, narrow.c);
        let mut raw = vec![0.0; side * side * a * b];
        weight_gradient(wide, narrow, side, &mut raw);
        // [row][column][a][b] to [b][a][row][column]: burn's order for both kinds.
        let mut values = vec![0.0; raw.len()];
        for (k, block) in raw.chunks_exact(a * b).enumerate() {
            for (ai, row) in block.chunks_exact(b).enumerate() {
                for (bi, value) in row.iter().enumerate() {
                    values[(bi * a + ai) * side * side + k] = *value;
                }
            }
        }
        let shape = if self.transposed { [inp, out, side, side] } else { [out, inp, side, side] };
        into.push((self.weight, shape.to_vec(), values));
        if let Some(bias) = self.bias {
            let mut sums = vec![0.0; out];
            for pixel in gradient.data.chunks_exact(out) {
                for (sum, g) in sums.iter_mut().zip(pixel) {
                    *sum += g;
                }
            }
            into.push((bias, vec![out], sums));
        }
    }
}

fn forward(steps: &[Step], input: Planes) -> Trace {
    let mut trace = Trace { states: vec![input], saved: Vec::with_capacity(steps.len()) };
    let mut in_place = false;
    for step in steps {
        // A convolution's way back does not need its output, so what follows it may overwrite it.
        let last = trace.states.len() - 1;
        let mut reuse = || {
            if in_place { std::mem::take(&mut trace.states[last]) } else { trace.states[last].clone() }
        };
        let (output, saved) = match step {
            Step::Convolution(conv) => (conv.forward(&trace.states[last]), Saved::Nothing),
            Step::Relu => {
                let mut x = reuse();
                relu(&mut x);
                (x, Saved::Nothing)
            }
            Step::Sigmoid => {
                let mut x = reuse();
                sigmoid(&mut x);
                (x, Saved::Nothing)
            }
            Step::Sphere => {
                let mut x = reuse();
                let norms = normalize(&mut x);
                (x, Saved::Norms(norms))
            }
            Step::MaxPool { window } => {
                let (x, winners) = max_pool(&trace.states[last], *window);
                (x, Saved::Winners(winners))
            }
            Step::Enlarge(enlargement) => (enlargement.forward(&trace.states[last]), Saved::Nothing),
        };
        in_place = matches!(step, Step::Convolution(_));
        trace.states.push(output);
        trace.saved.push(saved);
    }
    trace
}

/// From the gradient at the output to that at the input, which is left out (empty) where not `wanted` and the first
/// step is a convolution; gathers gradients of weights where `weights` is there.
fn back(
    steps: &[Step],
    trace: &Trace,
    mut gradient: Planes,
    wanted: bool,
    weights: &mut Option<WeightGradients>,
) -> Planes {
    for (k, step) in steps.iter().enumerate().rev() {
        let (input, output) = (&trace.states[k], &trace.states[k + 1]);
        match (step, &trace.saved[k]) {
            (Step::Convolution(conv), _) => {
                if let Some(weights) = weights {
                    conv.weights(input, &gradient, weights);
                }
                gradient = if k > 0 || wanted { conv.backward(&gradient) } else { Planes::default() };
            }
            (Step::Relu, _) => relu_backward(output, &mut gradient),
            (Step::Sigmoid, _) => sigmoid_backward(output, &mut gradient),
            (Step::Sphere, Saved::Norms(norms)) => normalize_backward(output, norms, &mut gradient),
            (Step::MaxPool { .. }, Saved::Winners(winners)) => {
                gradient = max_pool_backward(&gradient, winners, [input.n, input.h, input.w, input.c]);
            }
            (Step::Enlarge(enlargement), _) => gradient = enlargement.backward(&gradient),
            (Step::Sphere | Step::MaxPool { .. }, _) => unreachable!("saved by the same step on the way forward"),
        }
    }
    gradient
}
