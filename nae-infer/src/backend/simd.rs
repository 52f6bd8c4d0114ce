//! nae-simd's loops on an ONNX model lowered to a list of layers, laid out once for the model's size of image.

use nae_core::Shape;
use nae_core::model::layer::{Activation, Padding, ResizeMode};
use nae_core::model::writer::{
    AveragePool2d, Conv2d, ConvTranspose2d, Dense, GroupNormalize, Layer, MaxPool2d, Network, TensorId,
};
use nae_onnx::check::graph::CheckedModel;
use nae_onnx::lower::lower;
use nae_simd::correlate::{Finish, correlate};
use nae_simd::geometry::{Reading, Window};
use nae_simd::group::GroupNorm;
use nae_simd::kernel::Kernel;
use nae_simd::plane::{Planes, Size};
use nae_simd::pointwise::{add, multiply, normalize, rectify, sigmoid};
use nae_simd::resample::{Alignment, Enlargement, Windows, average_pool, max_pool};

use super::{Backend, BackendError, BackendKind, Reconstructions, guarded};

const KIND: BackendKind = BackendKind::Simd;

/// Images that go through together; what is left over goes one by one. Memory is kept for each size of batch, so
/// there are but two.
const TOGETHER: usize = 8;

/// Most pixels of a plane: there are tables of where each comes from, of some tens of bytes a pixel.
const LARGEST_PLANE: usize = 1 << 22;

/// A model, laid out.
pub(super) struct Simd {
    input: Size,
    steps: Vec<Step>,
    latent: Option<TensorId>,
}

/// A layer and the tensors it reads: 0 is the image, k + 1 what step k makes.
struct Step {
    input: TensorId,
    operation: Operation,
    /// Tensors that nothing reads after it.
    last_read: Vec<TensorId>,
}

enum Operation {
    /// A layer with a kernel; the slope of the rectifier after it, where there is one; and the output's shape, which
    /// that of a dense layer becomes in the same order.
    Kernel(Box<Kernel>, Option<f32>, Size),
    MaxPool(usize),
    AveragePool(usize),
    /// The largest of windows that are no blocks side by side; or the mean, and whether padding counts.
    MaxOf(Windows),
    MeanOf(Windows, bool),
    Enlarge(Enlargement),
    Rectify(f32),
    Sigmoid,
    Tanh,
    Normalize(f32),
    NormalizeGroups(Box<GroupNorm>),
    Reshape(Size),
    Add(TensorId),
    Multiply(TensorId),
    /// What the step before did already.
    Nothing,
}

fn size(shape: Shape) -> Size {
    Size { h: shape.height, w: shape.width, c: shape.channels }
}

impl Simd {
    pub(super) fn load(model: &CheckedModel) -> Result<Self, BackendError> {
        let fail = |reason: String| BackendError::Load { backend: KIND, reason };
        let network = lower(model).map_err(|error| fail(error.to_string()))?;
        let shapes = network.shapes().map_err(|error| fail(error.to_string()))?;
        if let Some(large) = shapes.iter().find(|shape| shape.height * shape.width > LARGEST_PLANE) {
            return Err(fail(format!("planes of {}x{} pixels are larger than it takes", large.width, large.height)));
        }
        let mut steps: Vec<Step> = Vec::with_capacity(network.nodes.len());
        for (index, node) in network.nodes.iter().enumerate() {
            let [from, to] = [shapes[node.input], shapes[index + 1]].map(size);
            let operation = match &node.layer {
                Layer::Activation(activation) => rectifier(&network, &mut steps, node.input, *activation),
                layer => operation(layer, from, to).map_err(|what| fail(format!("layer {index} {what}")))?,
            };
            steps.push(Step { input: node.input, operation, last_read: Vec::new() });
        }
        let outputs = [Some(steps.len()), network.latent];
        for tensor in (0..steps.len()).filter(|tensor| !outputs.contains(&Some(*tensor))) {
            let reads =
                |node: &nae_core::model::writer::Node| node.input == tensor || node.layer.other() == Some(tensor);
            if let Some(last) = network.nodes.iter().rposition(reads) {
                steps[last].last_read.push(tensor);
            }
        }
        Ok(Self { input: size(network.input), steps, latent: network.latent })
    }

    /// Reconstructions and latents of images, channels first.
    fn run(&self, images: &[f32]) -> Option<(Vec<f32>, Option<Vec<f32>>)> {
        let mut tensors: Vec<Option<Planes>> = Vec::with_capacity(self.steps.len() + 1);
        tensors.push(Some(Planes::from_channels_first(images.len() / self.input.len(), self.input, images)));
        for step in &self.steps {
            // What nothing reads any more, the step may write over.
            let own = step.last_read.contains(&step.input);
            let x = if own { tensors[step.input].take()? } else { tensors[step.input].clone()? };
            let output = step.operation.run(x, &tensors)?;
            for tensor in &step.last_read {
                tensors[*tensor] = None;
            }
            tensors.push(Some(output));
        }
        let latent = self.latent.map(|latent| tensors[latent].as_ref().map(Planes::to_channels_first));
        let reconstruction = tensors.last()?.as_ref()?.to_channels_first();
        Some((reconstruction, latent.flatten()))
    }
}

impl Operation {
    /// The output for `x`; `None` where another tensor is missing, which [`Simd::load`] leaves none to be.
    fn run(&self, mut x: Planes, tensors: &[Option<Planes>]) -> Option<Planes> {
        match self {
            Self::Kernel(kernel, slope, to) => {
                let finish = slope.map_or(Finish::Keep, |slope| Finish::Rectify { slope });
                x = correlate(&x, kernel, finish);
                x.size = *to;
            }
            Self::MaxPool(window) => x = max_pool(&x, *window),
            Self::AveragePool(window) => x = average_pool(&x, *window),
            Self::MaxOf(windows) => x = windows.max(&x),
            Self::MeanOf(windows, padding) => x = windows.mean(&x, *padding),
            Self::Enlarge(enlargement) => x = enlargement.forward(&x),
            Self::Rectify(slope) => x = rectify(&x, *slope),
            Self::Sigmoid => sigmoid(&mut x),
            Self::Tanh => x.data.iter_mut().for_each(|value| *value = value.tanh()),
            Self::Normalize(epsilon) => {
                normalize(&mut x, *epsilon);
            }
            Self::NormalizeGroups(norm) => x = norm.forward(&x).0,
            Self::Reshape(to) => x.size = *to,
            Self::Add(other) => add(&mut x.data, &tensors[*other].as_ref()?.data),
            Self::Multiply(other) => multiply(&mut x.data, &tensors[*other].as_ref()?.data),
            Self::Nothing => {}
        }
        Some(x)
    }
}

/// An activation: part of the step before it where that has a kernel whose output nothing else reads.
fn rectifier(network: &Network, steps: &mut [Step], input: TensorId, activation: Activation) -> Operation {
    let slope = match activation {
        Activation::Relu => 0.0,
        Activation::LeakyRelu { slope } => slope,
        Activation::Sigmoid => return Operation::Sigmoid,
        Activation::Tanh => return Operation::Tanh,
        _ => return Operation::Nothing,
    };
    let readers = network.nodes.iter().filter(|node| node.input == input || node.layer.other() == Some(input)).count();
    let before = input.checked_sub(1).and_then(|step| steps.get_mut(step));
    if let (Some(Step { operation: Operation::Kernel(_, free @ None, _), .. }), 1, false) =
        (before, readers, network.latent == Some(input))
    {
        *free = Some(slope);
        return Operation::Nothing;
    }
    Operation::Rectify(slope)
}

/// A layer on planes of size `from`; or what about it there is no loop for.
fn operation(layer: &Layer, from: Size, to: Size) -> Result<Operation, &'static str> {
    Ok(match layer {
        Layer::Conv2d(Conv2d { kernel, stride, padding, weights, bias, activation, .. }) => {
            let window = window(*kernel, *stride, *padding)?;
            with_kernel(Reading::Convolution, window, weights, bias, *activation, [from, to])?
        }
        Layer::ConvTranspose2d(ConvTranspose2d { kernel, stride, padding, weights, bias, activation, .. }) => {
            let window = window(*kernel, *stride, *padding)?;
            with_kernel(Reading::Transposed, window, weights, bias, *activation, [from, to])?
        }
        // A convolution whose kernel is the whole plane.
        Layer::Dense(Dense { weights, bias, activation, .. }) => {
            let window = Window { kernel: [from.h, from.w], stride: 1, padding: 0 };
            with_kernel(Reading::Convolution, window, weights, bias, *activation, [from, to])?
        }
        Layer::MaxPool2d(MaxPool2d { kernel, stride, padding }) => match blocks(*kernel, *stride, *padding) {
            Some(side) => Operation::MaxPool(side),
            None => Operation::MaxOf(windows(*kernel, *stride, *padding, to)),
        },
        Layer::AveragePool2d(AveragePool2d { kernel, stride, padding, count_include_padding }) => {
            match blocks(*kernel, *stride, *padding) {
                Some(side) => Operation::AveragePool(side),
                None => Operation::MeanOf(windows(*kernel, *stride, *padding, to), *count_include_padding),
            }
        }
        Layer::Resize { mode, .. } => {
            let alignment = match mode {
                ResizeMode::Nearest => Alignment::Nearest,
                ResizeMode::BilinearAlignCorners => Alignment::Corners,
                ResizeMode::BilinearHalfPixel => Alignment::HalfPixel,
                _ => return Err("changes the size in a way that is not known"),
            };
            Operation::Enlarge(Enlargement::new([from.h, from.w], [to.h, to.w], alignment))
        }
        Layer::L2Normalize { epsilon } => Operation::Normalize(*epsilon),
        Layer::GroupNormalize(GroupNormalize { groups, scale, shift, epsilon }) => {
            let (scale, shift) = (scale.clone(), shift.clone());
            Operation::NormalizeGroups(Box::new(GroupNorm { groups: *groups, epsilon: *epsilon, scale, shift }))
        }
        Layer::Reshape(_) => Operation::Reshape(to),
        Layer::Add { other } => Operation::Add(*other),
        Layer::Multiply { other } => Operation::Multiply(*other),
        _ => return Err("is of 8 bits"),
    })
}

/// A layer whose weights are `[output][row][column][input channel]`, laid out.
fn with_kernel(
    reading: Reading,
    window: Window,
    weights: &[f32],
    bias: &[f32],
    activation: Activation,
    [from, to]: [Size; 2],
) -> Result<Operation, &'static str> {
    let [rows, columns] = window.kernel;
    // A dense layer's outputs are one after the other, whatever shape they are given then.
    let made = if bias.len() == to.c { to } else { Size { h: 1, w: 1, c: to.len() } };
    let weight = |o: usize, i: usize, r: usize, c: usize| weights[((o * rows + r) * columns + c) * from.c + i];
    let kernel = Kernel::new(reading, window, from, made, bias, weight);
    Ok(Operation::Kernel(Box::new(kernel), plain(activation)?, to))
}

/// The window of a kernel. What is cut off or added at the bottom and at the right follows from the output's size.
fn window(kernel: [usize; 2], [down, across]: [usize; 2], padding: Padding) -> Result<Window, &'static str> {
    if down != across {
        return Err("has another stride down than across");
    }
    if padding.top != padding.left {
        return Err("has another padding at the top than at the left");
    }
    Ok(Window { kernel, stride: down, padding: padding.top })
}

/// The activation within a layer: a rectifier's slope. Lowering leaves other activations layers of their own.
fn plain(activation: Activation) -> Result<Option<f32>, &'static str> {
    match activation {
        Activation::Identity => Ok(None),
        Activation::Relu => Ok(Some(0.0)),
        Activation::LeakyRelu { slope } => Ok(Some(slope)),
        _ => Err("has an activation within it that is no rectifier"),
    }
}

/// The side of a pool's windows, where they are squares side by side.
fn blocks([rows, columns]: [usize; 2], stride: [usize; 2], padding: Padding) -> Option<usize> {
    (rows == columns && stride == [rows, rows] && padding == Padding::NONE).then_some(rows)
}

fn windows(kernel: [usize; 2], stride: [usize; 2], padding: Padding, to: Size) -> Windows {
    Windows { kernel, stride, padding: [padding.top, padding.left], to: [to.h, to.w] }
}

impl Backend for Simd {
    fn kind(&self) -> BackendKind {
        KIND
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        let mut images = Vec::with_capacity(batch.len());
        let mut latents = self.latent.map(|_| Vec::new());
        let together = batch.chunks_exact(TOGETHER * self.input.len());
        for part in together.clone().chain(together.remainder().chunks_exact(self.input.len())) {
            let (reconstruction, latent) = guarded(KIND, true, || {
                self.run(part).ok_or_else(|| BackendError::Run { backend: KIND, reason: "a tensor is missing".into() })
            })?;
            images.extend(reconstruction);
            if let (Some(latents), Some(latent)) = (&mut latents, latent) {
                latents.extend(latent);
            }
        }
        Ok(Reconstructions { images, latents })
    }
}
