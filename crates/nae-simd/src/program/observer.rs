//! The values of a graph's tensors, for the calibration of 8-bit models.

use nae_graph::quantize::{TraceError, Tracer};
use nae_graph::{Graph, TensorId};

use super::{Options, Program};
use crate::plane::Planes;
use crate::workspace::Workspace;

/// Number of images that are processed together.
const TOGETHER: usize = 8;

/// Runs graphs by [`Program`] and reports the values of every tensor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observer;

/// The length of an image is not that of the graph's input.
#[derive(Debug, thiserror::Error)]
#[error("image {image} has {found} values, where the graph takes {expected}")]
struct ImageLength {
    image: usize,
    expected: usize,
    found: usize,
}

impl Tracer for Observer {
    fn trace(
        &self,
        graph: &Graph,
        images: &[Vec<f32>],
        seen: &mut dyn FnMut(usize, TensorId, &[f32]),
    ) -> Result<(), TraceError> {
        let program = Program::compile(graph, &Options::observing())?;
        let (workspace, size) = (Workspace::default(), program.input());
        let expected = size.len();
        if let Some((image, values)) = images.iter().enumerate().find(|(_, values)| values.len() != expected) {
            return Err(ImageLength { image, expected, found: values.len() }.into());
        }
        for (batch, images) in images.chunks(TOGETHER).enumerate() {
            let mut planes = Planes::scratch(&workspace, images.len(), size);
            for (place, image) in planes.data.chunks_exact_mut(expected).zip(images) {
                place.copy_from_slice(image);
            }
            program.observe(planes, |tensor, planes| {
                for (image, values) in planes.data.chunks_exact(planes.size.len()).enumerate() {
                    seen(batch * TOGETHER + image, tensor, values);
                }
            });
        }
        Ok(())
    }
}
