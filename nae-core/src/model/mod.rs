//! A model: a `.nae` file ([`crate::format`]) that was checked as a whole and is read in place. [`Model::parse`] checks
//! everything, in a `const` if needed ([`include_model!`](crate::include_model)). Models are run by [`crate::engine`].

mod check;
mod operators;
mod parameters;
mod parse;
mod validate;

pub use crate::contract::{LengthError, Preprocessing, PreprocessingError, ResizeFilter};
pub use crate::format::{
    Geometry, Int8Linear, Int8Pair, Kind, LayerFault, Linear, ModelError, Operation, Pair, Record, Span,
};
pub use operators::Operators;
pub use parse::Model;
