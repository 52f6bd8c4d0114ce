//! What was read of a data set, and why one cannot be read.

use crate::image_form::ImageForm;
use crate::image_set::{ImageSet, ImageSetError};
use crate::own::Collection;
use crate::own_table::Rows;

/// What was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// All images, or those the set gives for training.
    pub train: ImageSet,
    /// Images the set itself gives to watch training by, and to calibrate.
    pub validation: Option<ImageSet>,
    /// Images the set itself gives for testing.
    pub test: Option<ImageSet>,
    /// SHA-256 of the unpacked files, in hexadecimal.
    pub sha256: String,
    /// What should be known of the data before a model is believed, one sentence each.
    pub warnings: Vec<String>,
}

impl Loaded {
    /// Images that are all to be divided.
    pub fn whole(images: ImageSet, sha256: String) -> Self {
        Self { train: images, validation: None, test: None, sha256, warnings: Vec::new() }
    }

    /// The same images brought to `form`.
    pub(crate) fn brought(self, form: &ImageForm) -> Result<Self, ImageSetError> {
        let bring = |part: Option<ImageSet>| part.map(|part| form.bring(part)).transpose();
        let (validation, test) = (bring(self.validation)?, bring(self.test)?);
        Ok(Self { train: form.bring(self.train)?, validation, test, ..self })
    }
}

impl From<Collection> for Loaded {
    fn from(collection: Collection) -> Self {
        let warnings = collection.warnings();
        Self { warnings, ..Self::whole(collection.images, collection.sha256) }
    }
}

impl From<Rows> for Loaded {
    fn from(Rows { samples, sha256, warnings, .. }: Rows) -> Self {
        Self { warnings, ..Self::whole(samples, sha256) }
    }
}
