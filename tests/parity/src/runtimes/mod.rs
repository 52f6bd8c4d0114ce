//! The runtimes: the trainer ([`Trained`]), nae-infer's backends ([`Inferred`]), burn with the
//! exported file read back ([`Imported`]), and energies that were computed elsewhere and kept in a file ([`Stored`],
//! [`Qemu`]).

mod imported;
mod stored;
mod trained;

use std::path::{Path, PathBuf};

use nae_infer::{BackendKind, Detector};
use nae_onnx::check::{CheckError, Limits, check};
use nae_onnx::lower::{LowerError, to_nae};

pub use imported::{IMPORTED, Imported};
pub use stored::{Qemu, Stored};
pub use trained::Trained;

use crate::{Images, Runtime, Unavailable};

/// tract.
pub const TRACT: &str = "tract";
/// ONNX Runtime.
pub const ORT: &str = "ONNX Runtime";
/// nae-simd's loops.
pub const SIMD: &str = "nae-simd";
/// nae-core's engine on this machine.
pub const NATIVE: &str = "nae-core";
/// burn, from the trainer's checkpoint.
pub const TRAINED: &str = "burn as trained";
/// burn, when `tests/vectors` was made.
pub const KEPT: &str = "tests/vectors/energies.npy";
/// nae-core on an emulated Cortex-M4F.
pub const QEMU_M4F: &str = "nae-core in QEMU, Cortex-M4F";
/// nae-core on an emulated Cortex-M3.
pub const QEMU_M3: &str = "nae-core in QEMU, Cortex-M3";

/// A model in one of nae-infer's backends.
pub struct Inferred {
    kind: BackendKind,
    model: PathBuf,
}

impl Inferred {
    /// The model in this backend.
    pub fn new(kind: BackendKind, model: &Path) -> Self {
        Self { kind, model: model.to_owned() }
    }

    /// The operator the engine lacks, if that is what is wrong.
    fn missing_operator(&self) -> Option<Unavailable> {
        let bytes = std::fs::read(&self.model).ok()?;
        let error = match self.kind {
            BackendKind::Native | BackendKind::Simd => to_nae(&bytes).err()?,
            _ => check(&bytes, &Limits::default()).err()?.into(),
        };
        let reason = error.to_string();
        match error {
            LowerError::Unsupported { operator, .. } | LowerError::Check(CheckError::Operator { operator, .. }) => {
                Some(Unavailable::Operator { operator, reason })
            }
            _ => None,
        }
    }
}

impl Runtime for Inferred {
    fn name(&self) -> &'static str {
        match self.kind {
            BackendKind::Tract => TRACT,
            BackendKind::Ort => ORT,
            BackendKind::Simd => SIMD,
            BackendKind::Native => NATIVE,
        }
    }

    fn energies(&self, images: &Images) -> Result<Vec<f32>, Unavailable> {
        if !self.kind.is_built_in() {
            return Err(Unavailable::Absent(format!("built without the feature `{}`", self.kind.name())));
        }
        if self.kind == BackendKind::Ort && std::env::var_os("ORT_DYLIB_PATH").is_none() {
            return Err(Unavailable::Absent("ORT_DYLIB_PATH does not name its library".into()));
        }
        if let Some(missing) = self.missing_operator() {
            return Err(missing);
        }
        let detector =
            Detector::builder().backend(self.kind).open(&self.model).map_err(|e| Unavailable::Failed(e.to_string()))?;
        let scored = detector.score_prepared(&images.values).map_err(|e| Unavailable::Failed(e.to_string()))?;
        Ok(scored.into_iter().map(|s| s.energy).collect())
    }
}
