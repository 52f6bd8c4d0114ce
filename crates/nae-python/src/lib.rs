//! The extension module `nae_edge._native`: the part of the package `nae_edge` that is not written in Python.
//!
//! | module | contents |
//! |---|---|
//! | `layout` | the meaning of the axes of an array |
//! | `images` | arrays and files to images |
//! | `tables` | columns to rows |
//! | `detector` | a model that scores all of these |
//! | `scores` | energies and other results as arrays |
//! | `training` | a run of the trainer |
//! | `experiments` | the paper's experiments, and results of several machines in one table |
//! | `threads` | the number of threads of a call |
//! | `watch` | callbacks during a run, and its interruption |
//! | `guard` | release of the interpreter's lock, panics and errors as exceptions |
//!
//! Objects of other libraries (Pillow, pandas, polars, Arrow, scikit-learn) are converted in Python, in
//! `python/nae_edge`; this module receives arrays, names and paths.

mod detector;
mod experiments;
mod guard;
mod images;
mod layout;
mod scores;
mod tables;
mod threads;
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
        module.add("MISSING", nae_infer::input::table::Cell::MISSING)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
