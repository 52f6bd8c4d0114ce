//! The cost of quantization: energies and reconstructions of a model as a device computes them.

use crate::{Graph, emit};
use nae_core::engine::{Engine, EngineError};
use nae_core::model::Model;

use super::QuantizeError;

/// A file at an address that is aligned for the engine.
pub(super) struct Aligned(Vec<u32>, usize);

impl Aligned {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let word = |chunk: &[u8]| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_ne_bytes(word)
        };
        Self(bytes.chunks(4).map(word).collect(), bytes.len())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[..self.1]
    }
}

/// Computes the energy and reconstruction of each image; for 8-bit models, images are quantized with the model's scale.
fn run(
    graph: &Graph,
    images: &[Vec<f32>],
    mut seen: impl FnMut(f32, &mut dyn Iterator<Item = f32>),
) -> Result<(), QuantizeError> {
    let file = Aligned::new(&emit(graph)?);
    let model = Model::parse(file.bytes())?;
    let engine = Engine::new(&model)?;
    let mut arena = vec![0.0; model.arena_len()];
    match (model.image_quantization(), model.reconstruction_quantization()) {
        (Some(from), Some(to)) => {
            let mut pixels = vec![0; model.input_shape().len()];
            for image in images {
                if image.len() != pixels.len() {
                    return Err(EngineError::ImageLength.into());
                }
                pixels.iter_mut().zip(image).for_each(|(q, &value)| *q = from.quantize(value));
                let output = engine.run_i8(&pixels, &mut arena)?;
                seen(output.score.energy, &mut output.reconstruction.iter().map(|&q| to.dequantize(q)));
            }
        }
        _ => {
            for image in images {
                let output = engine.run(image, &mut arena)?;
                seen(output.score.energy, &mut output.reconstruction.iter().copied());
            }
        }
    }
    Ok(())
}

/// Returns the energy of each image under `graph`, as a device computes it.
///
/// # Errors
/// [`QuantizeError`] if the graph cannot be written or run.
pub fn energies(graph: &Graph, images: &[Vec<f32>]) -> Result<Vec<f32>, QuantizeError> {
    let mut energies = Vec::with_capacity(images.len());
    run(graph, images, |energy, _| energies.push(energy))?;
    Ok(energies)
}

/// Returns the mean squared difference between the reconstructions of two networks.
///
/// # Errors
/// As [`energies`].
pub fn reconstruction_error(before: &Graph, after: &Graph, images: &[Vec<f32>]) -> Result<f64, QuantizeError> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    run(before, images, |_, values| a.extend(values))?;
    run(after, images, |_, values| b.extend(values))?;
    let sum: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    Ok(sum / a.len().max(1) as f64)
}
