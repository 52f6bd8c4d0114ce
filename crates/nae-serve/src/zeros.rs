//! A backend for unit tests whose reconstruction is always zero: the energy of a frame is the mean square of its
//! pixels.

use nae_infer::BackendKind;
use nae_infer::backend::{Backend, BackendError, Reconstructions};

pub(crate) struct Zeros;

impl Backend for Zeros {
    fn kind(&self) -> BackendKind {
        BackendKind::Native
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        Ok(Reconstructions { images: vec![0.0; batch.len()], ..Reconstructions::default() })
    }
}
