#![doc = include_str!("../README.md")]
//!
//! [`ImageSet`] contains images. [`Source`] lists the data sets and finds their files, of which `published` has the originals'
//! addresses and digests: `digits` is the embedded set,
//! [`idx`] reads MNIST's files, [`cifar`] CIFAR-10's, `celeba` CelebA's, [`own`] a user's images in a folder or an
//! archive (`files`, `collect`), [`own_table`] a table or a folder of `tables`, where `time_columns` finds those that say
//! when a row was recorded. [`Form`] defines how files are
//! converted to a model's samples, [`Augmentation`] how samples are changed each time they are trained on, `parts`
//! which samples are tiles of one image or windows of one stretch. [`reading`] reports the progress of reading files.
//! [`originals()`] reads some images in their original sizes, [`Defect`] makes defects in those. [`outliers`] makes the
//! synthetic sets of the paper, [`squares`] local defects, [`Split`] the parts that a run divides its data into.

mod augmentation;
mod celeba;
pub mod cifar;
mod collect;
mod counted;
mod defects;
pub mod digest;
mod digits;
mod error;
mod file_names;
mod files;
mod form;
pub mod idx;
mod image_form;
mod image_set;
mod loaded;
mod not_normal;
mod originals;
pub mod outliers;
pub mod own;
pub mod own_table;
mod parts;
mod published;
pub mod reading;
mod source;
mod split;
mod squares;
mod table_columns;
mod tables;
mod time_columns;
mod windows;

pub use augmentation::Augmentation;
pub use counted::{counted, listed};
pub use defects::Defect;
pub use error::DataError;
pub use file_names::is_array;
pub use form::{Form, ImageForm};
pub use image_set::ImageSet;
pub use loaded::Loaded;
pub use originals::{Originals, detail_lost, originals};
pub use parts::{Part, Parts};
pub use source::{DATA_FOLDER, Source, load_idx_part};
pub use split::{Repeated, Split, SplitShares};
pub use squares::{Fill, squares};
pub use tables::is_tables;
