//! The `.nae` model format, version 1 (f32).

pub mod layer;
mod preprocessing;
#[cfg(feature = "std")]
pub mod writer;

pub use preprocessing::{Preprocessing, PreprocessingError, ResizeFilter};
