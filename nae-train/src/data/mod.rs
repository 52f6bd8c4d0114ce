//! Images for training, calibration and evaluation.
//!
//! [`image_set`] holds images, [`digits`] the embedded set, [`outliers`] the synthetic sets of the paper,
//! [`split`] the parts a run divides its data into. Reading folders and tables of one's own is not here yet.

pub mod digits;
pub mod image_set;
pub mod outliers;
pub mod split;

pub use image_set::ImageSet;
pub use split::Split;
