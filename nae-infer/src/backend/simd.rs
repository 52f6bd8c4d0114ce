//! nae-simd's program of an ONNX model. Its memory is planned once, for the model's size of image.

use nae_onnx::autoencoder::{FEATURES, RECONSTRUCTION};
use nae_onnx::check::graph::CheckedModel;
use nae_onnx::lower::{lower, lower_features, reconstructs_features};
use nae_simd::{Options, Planes, Program, Workspace};

use super::{Backend, BackendError, BackendKind, Reconstructions, guarded};

const KIND: BackendKind = BackendKind::Simd;

/// The largest number of images in one pass; the rest of a batch runs one by one. Memory is planned for each size of pass,
/// so there are only two sizes.
const TOGETHER: usize = 8;
/// The largest number of elements in memory in a pass of several images.
const ELEMENTS: u64 = 1 << 26;

/// A model with planned memory.
pub(super) struct Simd {
    program: Program,
    workspace: Workspace,
    beside: Beside,
    /// The number of images in one pass.
    together: usize,
}

/// The second tensor that the program keeps beside its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Latent,
    Features,
}

impl Simd {
    pub(super) fn load(model: &CheckedModel) -> Result<Self, BackendError> {
        let fail = |reason: String| BackendError::Load { backend: KIND, reason };
        let (graph, beside) = if reconstructs_features(&model.graph) {
            let (mut graph, tensors) =
                lower_features(model, &[FEATURES, RECONSTRUCTION]).map_err(|error| fail(error.to_string()))?;
            if tensors[1] != graph.nodes.len() {
                return Err(fail("its features depend on their reconstruction".into()));
            }
            // A program keeps one tensor beside its output.
            graph.latent = Some(tensors[0]);
            (graph, Beside::Features)
        } else {
            let graph = lower(model).map_err(|error| fail(error.to_string()))?;
            let beside = if graph.latent.is_some() { Beside::Latent } else { Beside::Nothing };
            (graph, beside)
        };
        let program = Program::compile(&graph, &Options::scoring()).map_err(|error| fail(error.to_string()))?;
        let together = (ELEMENTS / model.graph.live_elements().max(1)).clamp(1, TOGETHER as u64) as usize;
        Ok(Self { program, workspace: Workspace::default(), beside, together })
    }

    fn run(&self, images: &[f32]) -> Reconstructions {
        let size = self.program.input();
        let planes = Planes::from_channels_first(&self.workspace, images.len() / size.len(), size, images);
        let made = self.program.run(planes);
        let (images, beside) = (made.output.to_channels_first(), made.latent.map(|kept| kept.to_channels_first()));
        match self.beside {
            Beside::Nothing => Reconstructions { images, latents: None, features: None },
            Beside::Latent => Reconstructions { images, latents: beside, features: None },
            Beside::Features => Reconstructions { images, latents: None, features: beside },
        }
    }
}

impl Backend for Simd {
    fn kind(&self) -> BackendKind {
        KIND
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        let mut all = Reconstructions::default();
        let image = self.program.input().len();
        let together = batch.chunks_exact(self.together * image);
        for part in together.clone().chain(together.remainder().chunks_exact(image)) {
            all.append(guarded(KIND, true, || Ok(self.run(part)))?);
        }
        Ok(all)
    }
}
