//! What was read of a data set, and why one cannot be read.

use std::path::PathBuf;

use nae_core::Shape;

use crate::cifar::CifarError;
use crate::digits::DigitsError;
use crate::idx::IdxError;
use crate::image_set::{ImageSet, ImageSetError};
use crate::own::{Collection, OwnError};
use crate::own_table::{OwnTableError, Rows};

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

/// A data set that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The embedded digits.
    #[error(transparent)]
    Digits(#[from] DigitsError),
    /// A set in files.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// CIFAR-10's files.
    #[error(transparent)]
    Cifar(#[from] CifarError),
    /// It is not known where the set lies.
    #[error(
        "{0} is not part of the program; give its folder with --data DIR, or set NAE_DATA to the folder that has `{1}`"
    )]
    NoFolder(String, &'static str),
    /// Images of one's own.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// A table of one's own.
    #[error(transparent)]
    Table(#[from] OwnTableError),
    /// It is not known where data of one's own lie.
    #[error("this is trained on data of one's own, called {0}: give the folder or file with --data")]
    NoOwn(String),
    /// The images cannot be brought to the network's size.
    #[error("{title}: {cause}")]
    Transforms {
        /// The set.
        title: String,
        /// Why.
        cause: ImageSetError,
    },
    /// The images of the files are not the set's.
    #[error("{}: images of {found}, {expected} expected", folder.display())]
    Shape {
        /// The folder.
        folder: PathBuf,
        /// The set's.
        expected: Shape,
        /// Found.
        found: Shape,
    },
}
