//! A frozen network that computes one vector for an image, by which whole images are compared.

use nae_core::Shape;
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_graph::{Conv2d, Graph, Op};
use nae_onnx::builder::display_shape;
use nae_onnx::check::{Limits, check};
use nae_onnx::lower::{LowerError, described, lower_features};
use nae_simd::{Options, Program};

use crate::backbone::BackboneError;
use crate::parallel::side_by_side;

/// Computes one vector for each image of a given shape: resizes it bilinearly to the network's input, repeats a grey image in
/// three channels if the network takes three, runs the network, and averages its output over all places.
#[derive(Debug)]
pub struct Embedding {
    resized: Program,
    network: Program,
    output: Shape,
    name: String,
}

impl Embedding {
    /// Reads a network from the bytes of an ONNX file, for images of the shape `image` with values in [0, 1]. `output` is the
    /// name of the output to use; it can be omitted if there is only one.
    ///
    /// # Errors
    /// [`BackboneError`] says what was expected and what was found.
    pub fn parse(onnx: &[u8], output: Option<&str>, image: Shape) -> Result<Self, BackboneError> {
        let model = check(onnx, &Limits::default())?;
        let name = match (output, model.graph.outputs.as_slice()) {
            (Some(name), _) => name,
            (None, [(name, _)]) => name,
            _ => return Err(BackboneError::SeveralOutputs { found: described(&model.graph) }),
        };
        let input = match model.graph.sample_shape(model.graph.input) {
            Some(input) if input.channels == image.channels || (input.channels == 3 && image.channels == 1) => input,
            _ => {
                let found = display_shape(&model.graph.values[model.graph.input].shape);
                return Err(BackboneError::Channels { channels: image.channels, found });
            }
        };
        let (mut graph, tensors) = lower_features(&model, &[name])?;
        if tensors[0] != graph.nodes.len() {
            graph.push_from(tensors[0], Activation::Identity);
        }
        let shapes = graph.shapes().map_err(|error| LowerError::Write { node: None, error })?;
        let output = shapes.last().copied().unwrap_or(input);
        let program = |graph: &Graph| Program::compile(graph, &Options::scoring()).map_err(BackboneError::Compile);
        let resized = program(&brought_to(input, image))?;
        Ok(Self { resized, network: program(&graph)?, output, name: name.to_owned() })
    }

    /// The length of a vector.
    pub const fn len(&self) -> usize {
        self.output.channels
    }

    /// Whether vectors have length 0; never, since networks are checked for it.
    pub const fn is_empty(&self) -> bool {
        self.output.channels == 0
    }

    /// The name of the output that is used.
    pub fn output(&self) -> &str {
        &self.name
    }

    /// Computes the vectors of `images`, which are channels first and of the shape given to the constructor. Uses as many threads
    /// as [`threads::count`](nae_simd::threads::count) returns; the result does not depend on their number.
    pub fn run(&self, images: &[&[f32]]) -> Vec<Vec<f32>> {
        side_by_side(images, self.resized.input(), |planes| {
            // Channels last: the places of an image follow one another.
            let features = self.network.run(self.resized.run(planes).output).output;
            features.data.chunks_exact(self.output.len()).map(|image| self.mean(image)).collect()
        })
    }

    fn mean(&self, places: &[f32]) -> Vec<f32> {
        let count = (self.output.height * self.output.width) as f32;
        let sum = |channel: usize| places.iter().skip(channel).step_by(self.len()).sum::<f32>();
        (0..self.len()).map(|channel| sum(channel) / count).collect()
    }
}

/// Converts images of the shape `image` to the size and the number of channels of `input`.
fn brought_to(input: Shape, image: Shape) -> Graph {
    let mut graph = Graph::new(image);
    graph.push(Op::Resize { height: input.height, width: input.width, mode: ResizeMode::BilinearHalfPixel });
    if input.channels != image.channels {
        graph.push(Conv2d {
            in_channels: image.channels,
            out_channels: input.channels,
            kernel: [1, 1],
            stride: [1, 1],
            padding: Padding::NONE,
            weights: vec![1.0; input.channels * image.channels],
            bias: vec![0.0; input.channels],
            activation: Activation::Identity,
        });
    }
    graph
}
