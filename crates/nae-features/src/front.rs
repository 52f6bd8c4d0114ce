//! The frozen network with the grid and the whitening, run on images: what an NAE of features sees.

use nae_core::Shape;
use nae_graph::{Graph, Op};
use nae_simd::{CompileError, Options, Program};

use crate::backbone::Backbone;
use crate::parallel::side_by_side;
use crate::whitening::{Moments, Projection};

/// The whitening is fitted on at most so many places: more do not change it.
const PLACES: usize = 100_000;
/// Deviations of a component that become the whole range. What lies beyond, of one normal place in a thousand or so,
/// is moved to its ends.
const SPAN: f64 = 6.0;

/// From images to whitened features, K numbers in [0, 1] a place.
#[derive(Debug)]
pub struct Front {
    graph: Graph,
    program: Program,
    shape: Shape,
}

impl Front {
    /// `backbone` with a whitening to `components` that is fitted on `images`, one after the other, channels first, of
    /// the shape of [`Backbone::input`].
    ///
    /// # Errors
    /// [`CompileError`] where a layer has no loop.
    pub fn fit(backbone: &Backbone, images: &[&[f32]], components: usize) -> Result<Self, CompileError> {
        let [rows, columns] = backbone.grid();
        let raw = Self::new(backbone.projected(&Projection::identity(backbone.features())))?;
        let count = images.len().min((PLACES / (rows * columns)).max(1));
        let evenly: Vec<&[f32]> = (0..count).map(|k| images[k * images.len() / count]).collect();
        let mut moments = Moments::new(backbone.features());
        for places in raw.run(&evenly) {
            places.chunks_exact(backbone.features()).for_each(|place| moments.add(place));
        }
        let mut graph = backbone.projected(&Projection::fit(&moments, components, SPAN));
        graph.push(Op::Clamp { min: 0.0, max: 1.0 });
        Self::new(graph)
    }

    fn new(graph: Graph) -> Result<Self, CompileError> {
        let program = Program::compile(&graph, &Options::scoring())?;
        let shape = graph.shapes()?.pop().unwrap_or(Shape::vector(0));
        Ok(Self { graph, program, shape })
    }

    /// The graph: an image in, [`shape`](Self::shape) out.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// K, rows and columns of the features of an image.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Features of images, channels first and of the backbone's shape: of each image the K numbers of each place, row by
    /// row. On as many threads as the machine has; the result does not depend on their number.
    pub fn run(&self, images: &[&[f32]]) -> Vec<Vec<f32>> {
        side_by_side(images, self.program.input(), |planes| {
            // Planes have their channels last: a place's numbers follow one another.
            let features = self.program.run(planes).output;
            features.data.chunks_exact(self.shape.len()).map(<[f32]>::to_vec).collect()
        })
    }
}
