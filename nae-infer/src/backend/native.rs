//! nae-core's engine, for a `.nae` file or an ONNX model that is converted to one.

use nae_core::engine::{Engine, EngineError};
use nae_core::model::Model;
use nae_core::quantization::Quantization;
use nae_graph::emit;
use nae_input::layout::{to_channels_first, to_channels_last};
use nae_onnx::lower::{lower_for_file, reconstructs_features};

use super::{Backend, BackendError, BackendKind, Reconstructions};
use crate::card::{Content, ModelFile};

const KIND: BackendKind = BackendKind::Native;

self_cell::self_cell!(
    /// A file and the model in it. It is parsed once, since checking every byte takes as long as scoring an image.
    struct Parsed {
        // Words, not bytes: the file must start at an address divisible by 4.
        owner: Vec<u32>,
        #[covariant]
        dependent: Model,
    }
);

/// A `.nae` file in memory.
pub(super) struct Native(Parsed);

impl Native {
    pub(super) fn load(file: &ModelFile) -> Result<Self, BackendError> {
        let fail = |reason: String| BackendError::Load { backend: KIND, reason };
        let lowered;
        let bytes = match file.content() {
            Content::Nae => file.bytes(),
            Content::Onnx(model, _) if reconstructs_features(&model.graph) => {
                return Err(fail(
                    "it is a model of features, and nae-core runs only networks that reconstruct their input".into(),
                ));
            }
            Content::Onnx(model, _) => {
                let network = lower_for_file(model).map_err(|e| fail(e.to_string()))?;
                lowered = emit(&network).map_err(|e| fail(e.to_string()))?;
                &lowered
            }
        };
        // The parser has checked the length: layers, weights and table entries are multiples of four bytes.
        let words = bytes.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect();
        let parsed = Parsed::try_new(words, |words| Model::parse(bytemuck::cast_slice(words)));
        let parsed = parsed.map_err(|e| fail(e.to_string()))?;
        Engine::new(parsed.borrow_dependent()).map_err(|e| fail(e.to_string()))?;
        Ok(Self(parsed))
    }
}

impl Backend for Native {
    fn kind(&self) -> BackendKind {
        KIND
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        let fail = |reason: String| BackendError::Run { backend: KIND, reason };
        let model = self.0.borrow_dependent();
        let engine = Engine::new(model).map_err(|e| fail(e.to_string()))?;
        let shape = model.input_shape();
        let mut arena = vec![0.0; model.arena_len()];
        let mut images = Vec::with_capacity(batch.len());
        let mut latents = model.latent_shape().map(|_| Vec::new());
        for image in batch.chunks_exact(shape.len()) {
            let (reconstruction, latent) =
                run(&engine, &to_channels_last(image, shape), &mut arena).map_err(|e| fail(e.to_string()))?;
            images.extend(to_channels_first(&reconstruction, shape));
            if let (Some(latents), Some(latent), Some(shape)) = (&mut latents, latent, model.latent_shape()) {
                latents.extend(to_channels_first(&latent, shape));
            }
        }
        Ok(Reconstructions { images, latents, features: None })
    }
}

/// The reconstruction and the latent of one image. For an 8-bit model the image is quantized, and the results are
/// dequantized.
fn run(engine: &Engine<'_>, image: &[f32], arena: &mut [f32]) -> Result<(Vec<f32>, Option<Vec<f32>>), EngineError> {
    let model = engine.model();
    let Some(quantization) = model.image_quantization() else {
        let output = engine.run(image, arena)?;
        return Ok((output.reconstruction.to_vec(), output.latent.map(<[f32]>::to_vec)));
    };
    if !image.iter().all(|value| value.is_finite()) {
        return Err(EngineError::NonFiniteImage);
    }
    let image: Vec<i8> = image.iter().map(|&value| quantization.quantize(value)).collect();
    let output = engine.run_i8(&image, arena)?;
    let real = |values: &[i8], scale: Option<Quantization>| {
        values.iter().map(|&value| scale.map_or(0.0, |scale| scale.dequantize(value))).collect()
    };
    let latent = output.latent.map(|latent| real(latent, model.latent_quantization()));
    Ok((real(output.reconstruction, model.reconstruction_quantization()), latent))
}
