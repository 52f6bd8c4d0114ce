//! What was read of a data set, and why one cannot be read.

use crate::image_set::ImageSet;
use crate::own::Collection;
use crate::own_table::Rows;

/// What was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// All images, or those the set gives for training.
    pub train: ImageSet,
    /// Images the set itself gives for testing.
    pub test: Option<ImageSet>,
    /// SHA-256 of the unpacked files, in hexadecimal.
    pub sha256: String,
    /// What should be known of the data before a model is believed, one sentence each.
    pub warnings: Vec<String>,
}

impl From<Collection> for Loaded {
    fn from(collection: Collection) -> Self {
        let warnings = collection.warnings();
        Self { train: collection.images, test: None, sha256: collection.sha256, warnings }
    }
}

impl From<Rows> for Loaded {
    fn from(Rows { samples, sha256, warnings, .. }: Rows) -> Self {
        Self { train: samples, test: None, sha256, warnings }
    }
}
