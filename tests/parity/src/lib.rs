//! One set of vectors through every runtime that can run a model.
//!
//! The vectors are data: `tests/vectors/images.npy` (float32 `[N, 1, 16, 16]`, the images that the firmware scores) and
//! `tests/vectors/energies.npy` (float32 `[N]`, the energies by burn of the model in `models/digits`; `cargo run -p
//! parity --example make_vectors` writes both). A [`Runtime`] turns images into energies or says why it cannot;
//! [`Suite`] runs all of them, compares every pair within the bound that [`bound`] states, and prints one table. What a
//! runtime is made of is in [`runtimes`].

pub mod runtimes;
mod suite;
pub mod vectors;

pub use suite::{Bound, Report, Suite, bound};

/// Images for the digits model: float32, channels first, one after the other, in `[0, 1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    /// `[N, C, H, W]`.
    pub shape: [usize; 4],
    /// N·C·H·W values.
    pub values: Vec<f32>,
}

impl Images {
    /// The first `n` images.
    pub fn first(&self, n: usize) -> Self {
        let [count, c, h, w] = self.shape;
        let n = n.min(count);
        Self { shape: [n, c, h, w], values: self.values[..n * c * h * w].to_vec() }
    }
}

/// Why a runtime gives no energies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The runtime, or the way it is called, lacks an operator of the model.
    #[error("lacks {operator}: {reason}")]
    Operator {
        /// ONNX's name of it.
        operator: String,
        /// What the runtime said.
        reason: String,
    },
    /// The runtime is not on this machine, or was not run yet.
    #[error("not here: {0}")]
    Absent(String),
    /// The runtime is here and failed: that fails the test.
    #[error("failed: {0}")]
    Failed(String),
}

/// Something that computes energies of a model it was given when it was made.
pub trait Runtime {
    /// Its name in tables and in [`bound`].
    fn name(&self) -> &'static str;

    /// One energy for each image.
    ///
    /// # Errors
    /// [`Unavailable`] says why there are none.
    fn energies(&self, images: &Images) -> Result<Vec<f32>, Unavailable>;
}
