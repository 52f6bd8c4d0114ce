#![doc = include_str!("../README.md")]
//!
//! [`ImageSet`] holds images. [`Source`] names the data sets and finds them: `digits` is the embedded one, [`idx`] reads
//! MNIST's files, [`cifar`] CIFAR-10's, `celeba` CelebA's, [`own`] a user's images in a folder or an archive (`files`, `collect`),
//! [`own_table`] a table or a folder of `tables`. [`Form`] says how files become a model's samples, [`Augmentation`] what
//! happens to them each time they are trained on, `parts` which are tiles of one image or windows of one stretch.
//! [`reading`] tells how far files are read. [`originals()`] reads some images as they come, [`Defect`] makes defects in
//! those. [`outliers`] makes the synthetic sets of the paper, [`squares`] local defects, [`Split`] the parts that a run
//! divides its data into.

mod augmentation;
mod celeba;
pub mod cifar;
mod collect;
mod defects;
pub mod digest;
mod digits;
mod error;
mod files;
mod form;
pub mod idx;
mod image_form;
mod image_set;
mod loaded;
mod originals;
pub mod outliers;
pub mod own;
pub mod own_table;
mod parts;
pub mod reading;
mod source;
mod split;
mod squares;
mod table_columns;
mod tables;
mod windows;

pub use augmentation::Augmentation;
pub use defects::Defect;
pub use error::DataError;
pub use form::{Form, ImageForm};
pub use image_set::ImageSet;
pub use loaded::Loaded;
pub use originals::{Originals, detail_lost, originals};
pub use parts::{Part, Parts};
pub use source::{DATA_FOLDER, Source};
pub use split::{Split, SplitShares};
pub use squares::{Fill, squares};
pub use tables::is_tables;
