//! The extension module `nae_edge._native`: what the package `nae_edge` does not do in Python.
//!
//! | module | holds |
//! |---|---|
//! | `layout` | what the axes of an array are |
//! | `images` | arrays and files to images |
//! | `tables` | columns to rows |
//! | `detector` | a model that scores all of these |
//! | `scores` | energies and the like as arrays |
//! | `training` | a run of the trainer |
//! | `experiments` | the paper's experiments, and what several machines found of them in one table |
//! | `watch` | how Python watches one, and stops it |
//! | `guard` | the interpreter let go, panics and errors as exceptions |
//!
//! Objects of other libraries (Pillow, pandas, polars, Arrow, scikit-learn) are recognised in Python, in `python/nae_edge`;
//! here arrive arrays, names and paths.

mod detector;
mod experiments;
mod guard;
mod images;
mod layout;
mod scores;
mod tables;
mod training;
mod watch;

#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::detector::Detector;
    #[pymodule_export]
    use super::experiments::{cells, gather, reproduce};
    #[pymodule_export]
    use super::layout::image_axes;
    #[pymodule_export]
    use super::training::train;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
