//! The program that training runs on, of an ONNX model lowered to a graph, laid out once for the model's size of image.

use nae_onnx::check::graph::CheckedModel;
use nae_onnx::lower::lower;
use nae_simd::{Options, Planes, Program, Workspace};

use super::{Backend, BackendError, BackendKind, Reconstructions, guarded};

const KIND: BackendKind = BackendKind::Simd;

/// Images that go through together; what is left over goes one by one. Memory is kept for each size of batch, so
/// there are but two.
const TOGETHER: usize = 8;

/// A model, laid out.
pub(super) struct Simd {
    program: Program,
    workspace: Workspace,
    has_latent: bool,
}

impl Simd {
    pub(super) fn load(model: &CheckedModel) -> Result<Self, BackendError> {
        let fail = |reason: String| BackendError::Load { backend: KIND, reason };
        let graph = lower(model).map_err(|error| fail(error.to_string()))?;
        let program = Program::compile(&graph, &Options::scoring()).map_err(|error| fail(error.to_string()))?;
        Ok(Self { program, workspace: Workspace::default(), has_latent: graph.latent.is_some() })
    }

    /// Reconstructions and latents of images, channels first.
    fn run(&self, images: &[f32]) -> (Vec<f32>, Option<Vec<f32>>) {
        let size = self.program.input();
        let planes = Planes::from_channels_first(&self.workspace, images.len() / size.len(), size, images);
        let made = self.program.run(planes);
        (made.output.to_channels_first(), made.latent.map(|latent| latent.to_channels_first()))
    }
}

impl Backend for Simd {
    fn kind(&self) -> BackendKind {
        KIND
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        let mut images = Vec::with_capacity(batch.len());
        let mut latents = self.has_latent.then(Vec::new);
        let image = self.program.input().len();
        let together = batch.chunks_exact(TOGETHER * image);
        for part in together.clone().chain(together.remainder().chunks_exact(image)) {
            let (reconstruction, latent) = guarded(KIND, true, || Ok(self.run(part)))?;
            images.extend(reconstruction);
            if let (Some(latents), Some(latent)) = (&mut latents, latent) {
                latents.extend(latent);
            }
        }
        Ok(Reconstructions { images, latents })
    }
}
