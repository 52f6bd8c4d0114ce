//! How external files are converted to samples of a model: images in a form, or rows of a table.

use std::path::Path;

use crate::error::DataError;
use crate::loaded::Loaded;
use crate::own::{self, Corrupt};
use crate::own_table::{self, OwnTable};

pub use crate::image_form::ImageForm;

/// How external files are converted to samples of a model.
#[derive(Clone, Debug)]
pub enum Form {
    /// Images, resized or cut into tiles.
    Images(ImageForm),
    /// Rows of a table with the given columns, or windows of rows.
    Rows(OwnTable),
}

impl Form {
    /// Reads the data at `path`: a folder or an archive of images, or a table.
    ///
    /// # Errors
    /// [`DataError`] with the file, what was expected and what was found.
    pub fn read(&self, path: &Path, corrupt: Corrupt) -> Result<Loaded, DataError> {
        Ok(match self {
            Self::Images(form) => own::load(path, form, corrupt)?.into(),
            Self::Rows(own) => own_table::load_whole(path, own)?.into(),
        })
    }
}
