//! The forward pass of a program: for its result only, or with all values that the backward pass needs.

use nae_graph::TensorId;

use super::{Operation, Program};
use crate::group::Moments;
use crate::plane::Planes;
use crate::pointwise::{activate, add, clamp, multiply, normalize, rectify, softmax};
use crate::resample::{average_pool, max_pool, nearest};

/// The results of a program for a batch.
#[derive(Debug)]
pub struct Reconstructed {
    /// The output of the last step.
    pub output: Planes,
    /// The latent code, if the graph has marked it.
    pub latent: Option<Planes>,
}

/// The values that a step's backward pass needs in addition to its input and output.
#[derive(Debug)]
pub(super) enum Saved {
    Nothing,
    Norms(Vec<f32>),
    Moments(Moments),
}

/// Activations of one pass: the output of each step, or an empty one if the backward pass does not need it.
#[derive(Debug)]
pub struct Trace {
    pub(super) outputs: Vec<Planes>,
    pub(super) saved: Vec<Saved>,
}

impl Trace {
    /// The output of the program for the input `input`.
    pub fn output<'a>(&'a self, input: &'a Planes) -> &'a Planes {
        self.outputs.last().unwrap_or(input)
    }

    /// A tensor of the pass with the input `input`.
    pub(super) fn tensor<'a>(&'a self, input: &'a Planes, tensor: TensorId) -> &'a Planes {
        tensor.checked_sub(1).and_then(|step| self.outputs.get(step)).unwrap_or(input)
    }
}

impl Program {
    /// Returns the output for a batch of images, each of the size of [`input`](Self::input).
    pub fn run(&self, input: Planes) -> Reconstructed {
        self.observe(input, |_, _| {})
    }

    /// As [`run`](Self::run), and calls `seen` with each step's output and the number of its tensor, as soon as it is
    /// computed.
    pub fn observe(&self, input: Planes, mut seen: impl FnMut(TensorId, &Planes)) -> Reconstructed {
        let mut tensors: Vec<Planes> = Vec::with_capacity(self.steps.len() + 1);
        tensors.push(input);
        for (index, step) in self.steps.iter().enumerate() {
            // The step may overwrite a tensor that nothing reads any more.
            let owned = step.last_read.contains(&step.input).then(|| std::mem::take(&mut tensors[step.input]));
            let other =
                step.other.map(|other| if other == step.input { Other::Itself } else { Other::At(&tensors[other]) });
            let output = match owned {
                Some(input) => step.operation.run(Input::Owned(input), other).0,
                None => step.operation.run(Input::Borrowed(&tensors[step.input]), other).0,
            };
            for tensor in &step.last_read {
                tensors[*tensor] = Planes::default();
            }
            seen(index + 1, &output);
            tensors.push(output);
        }
        let latent = self.latent.map(|latent| tensors[latent].clone());
        Reconstructed { output: tensors.pop().unwrap_or_default(), latent }
    }

    /// Runs forward and keeps the values that [`backward`](Self::backward) needs.
    pub fn trace(&self, input: &Planes) -> Trace {
        let mut trace =
            Trace { outputs: Vec::with_capacity(self.steps.len()), saved: Vec::with_capacity(self.steps.len()) };
        for step in &self.steps {
            let owned = match step.input.checked_sub(1) {
                Some(writer) if step.overwrites => Some(std::mem::take(&mut trace.outputs[writer])),
                _ => None,
            };
            let other = step.other.map(|other| Other::At(trace.tensor(input, other)));
            let (output, saved) = match owned {
                Some(x) => step.operation.run(Input::Owned(x), other),
                None => step.operation.run(Input::Borrowed(trace.tensor(input, step.input)), other),
            };
            trace.outputs.push(output);
            trace.saved.push(saved);
        }
        trace
    }
}

/// A step's input, either owned, so that it may be overwritten, or borrowed.
enum Input<'a> {
    Owned(Planes),
    Borrowed(&'a Planes),
}

impl Input<'_> {
    fn get(&self) -> &Planes {
        match self {
            Self::Owned(planes) => planes,
            Self::Borrowed(planes) => planes,
        }
    }

    fn own(self) -> Planes {
        match self {
            Self::Owned(planes) => planes,
            Self::Borrowed(planes) => planes.clone(),
        }
    }
}

/// A step's second tensor.
enum Other<'a> {
    At(&'a Planes),
    /// The first tensor again.
    Itself,
}

impl Operation {
    fn run(&self, x: Input<'_>, other: Option<Other<'_>>) -> (Planes, Saved) {
        let mut saved = Saved::Nothing;
        let output = match self {
            Self::Kernel(layer) => layer.forward(x.get()),
            Self::Depthwise(layer) => layer.forward(x.get()),
            Self::Scale(scaling) => scaling.forward(x.get()),
            Self::Rectify(slope) => rectify(x.get(), *slope),
            Self::Clamp(min, max) => {
                let mut x = x.own();
                clamp(&mut x, *min, *max);
                x
            }
            Self::Activation(activation) => {
                let mut x = x.own();
                activate(*activation, &mut x);
                x
            }
            Self::Normalize(least) => {
                let mut x = x.own();
                let len = x.size.len();
                saved = Saved::Norms(normalize(&mut x.data, len, *least));
                x
            }
            Self::NormalizePlaces(least) => {
                let mut x = x.own();
                let channels = x.size.c;
                normalize(&mut x.data, channels, *least);
                x
            }
            Self::Softmax => {
                let mut x = x.own();
                let channels = x.size.c;
                softmax(&mut x.data, channels);
                x
            }
            Self::GroupNorm(norm, _) => {
                let (output, moments) = norm.forward(x.get());
                saved = Saved::Moments(moments);
                output
            }
            Self::MaxPool(side) => max_pool(x.get(), *side),
            Self::AveragePool(side) => average_pool(x.get(), *side),
            Self::MaxOf(windows) => windows.max(x.get()),
            Self::MeanOf(windows, padding) => windows.mean(x.get(), *padding),
            Self::Repeat(factor) => nearest(x.get(), *factor),
            Self::Enlarge(enlargement) => enlargement.forward(x.get()),
            Self::Reshape(to) => {
                let mut x = x.own();
                x.size = *to;
                x
            }
            Self::ReshapeChannelsFirst(to) => x.get().reshaped(*to),
            Self::Add => combined(x, other, add),
            Self::Multiply => combined(x, other, multiply),
            Self::Concatenate => match other {
                Some(Other::At(other)) => x.get().beside(other),
                Some(Other::Itself) | None => x.get().beside(x.get()),
            },
            Self::Identity => x.own(),
        };
        (output, saved)
    }
}

/// Combines the second tensor into the first.
fn combined(x: Input<'_>, other: Option<Other<'_>>, combine: fn(&mut [f32], &[f32])) -> Planes {
    let mut output = x.own();
    match other {
        Some(Other::At(other)) => combine(&mut output.data, &other.data),
        Some(Other::Itself) | None => {
            let same = output.clone();
            combine(&mut output.data, &same.data);
        }
    }
    output
}
