//! The content of a data set after reading.

use crate::image_form::ImageForm;
use crate::image_set::{ImageSet, ImageSetError};
use crate::own::Collection;
use crate::own_table::Rows;

/// The content of a data set.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// All images, or those of the set's training part.
    pub train: ImageSet,
    /// The images of the set's own validation part; they serve for validation and calibration.
    pub validation: Option<ImageSet>,
    /// The images of the set's own test part.
    pub test: Option<ImageSet>,
    /// The SHA-256 of the unpacked files, in hexadecimal.
    pub sha256: String,
    /// Warnings about the data that affect how far a model can be trusted, one sentence each.
    pub warnings: Vec<String>,
}

impl Loaded {
    /// A data set without parts of its own; all images are divided.
    pub fn whole(images: ImageSet, sha256: String) -> Self {
        Self { train: images, validation: None, test: None, sha256, warnings: Vec::new() }
    }

    /// Converts all images to `form`.
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
