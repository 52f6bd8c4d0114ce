//! The frozen network with grid and whitening: it computes the input of an NAE of features from images.

use nae_core::Shape;
use nae_graph::{Graph, Op};
use nae_simd::{CompileError, Options, Program};

use crate::backbone::Backbone;
use crate::parallel::side_by_side;
use crate::whitening::{Moments, Projection};

/// The largest number of places that the whitening is fitted on: more do not change it noticeably.
const PLACES: usize = 100_000;
/// The number of standard deviations of a component that are mapped to the range from 0 to 1. Values beyond are clamped: those of
/// some normal places in a thousand, and of more of the places with defects.
const SPAN: f64 = 6.0;

/// Why features cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrontError {
    /// `nae-simd` does not support a layer.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// No feature says anything of the images.
    #[error(
        "expected features that differ between places and images, found the same {features} numbers at all places of all images; use \
         another network, or other outputs of it"
    )]
    Constant {
        /// The number of features.
        features: usize,
    },
}

/// Computes whitened features of images: K values in [0, 1] for each place.
#[derive(Debug)]
pub struct Front {
    graph: Graph,
    program: Program,
    shape: Shape,
}

impl Front {
    /// Combines `backbone` with a whitening to `components` components that is fitted on `images`: one after the other,
    /// channels first, of the shape of [`Backbone::input`]. The whitening uses at most 100,000 places, of evenly spaced images.
    /// There are fewer components if the backbone has fewer features.
    ///
    /// # Errors
    /// [`FrontError::Compile`] if `nae-simd` does not support a layer, [`FrontError::Constant`] if no feature varies.
    ///
    /// # Panics
    /// If an image has another number of values than the backbone's input.
    pub fn fit(backbone: &Backbone, images: &[&[f32]], components: usize) -> Result<Self, FrontError> {
        let [rows, columns] = backbone.grid();
        let raw = Self::new(backbone.projected(&Projection::identity(backbone.features())))?;
        let count = images.len().min((PLACES / (rows * columns)).max(1));
        let evenly: Vec<&[f32]> = (0..count).map(|k| images[k * images.len() / count]).collect();
        let mut moments = Moments::new(backbone.features());
        for places in raw.run(&evenly) {
            places.chunks_exact(backbone.features()).for_each(|place| moments.add(place));
        }
        if moments.varying() == 0 {
            return Err(FrontError::Constant { features: backbone.features() });
        }
        let mut graph = backbone.projected(&Projection::fit(&moments, components, SPAN));
        graph.push(Op::Clamp { min: 0.0, max: 1.0 });
        Ok(Self::new(graph)?)
    }

    fn new(graph: Graph) -> Result<Self, CompileError> {
        let program = Program::compile(&graph, &Options::scoring())?;
        let shape = graph.shapes()?.pop().unwrap_or(Shape::vector(0));
        Ok(Self { graph, program, shape })
    }

    /// The graph, from an image to features of [`shape`](Self::shape).
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The shape of the features of an image: K, rows and columns.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Computes the features of images, which are channels first and of the backbone's input shape. Returns for each image the K
    /// values of each place, row by row. Uses as many threads as [`threads::count`](nae_simd::threads::count) returns; the
    /// result does not depend on their number.
    ///
    /// # Panics
    /// If an image has another number of values than the backbone's input.
    pub fn run(&self, images: &[&[f32]]) -> Vec<Vec<f32>> {
        side_by_side(images, self.program.input(), |planes| {
            // Planes have their channels last, so the values of a place follow one another.
            let features = self.program.run(planes).output;
            features.data.chunks_exact(self.shape.len()).map(<[f32]>::to_vec).collect()
        })
    }
}
