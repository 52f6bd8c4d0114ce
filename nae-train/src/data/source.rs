//! The data sets that presets name, and where they are read from.

use std::path::{Path, PathBuf};

use nae_core::Shape;
use nae_core::model::ResizeFilter;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ImageSet;
use super::digits::{self, DigitsError};
use super::idx::{self, IdxError};
use crate::digest::hex;

/// The environment variable that names the folder of data sets.
pub const DATA_FOLDER: &str = "NAE_DATA";

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The embedded 8×8 digits, enlarged to 16×16.
    Digits,
    /// MNIST (LeCun, Cortes and Burges), the four IDX files.
    Mnist,
    /// Fashion-MNIST (Xiao, Rasul and Vollgraf 2017), the four IDX files.
    FashionMnist,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// All images, or those the set gives for training.
    pub train: ImageSet,
    /// Images the set itself gives for testing.
    pub test: Option<ImageSet>,
    /// SHA-256 of the unpacked files, in hexadecimal.
    pub sha256: String,
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
    /// It is not known where the set lies.
    #[error(
        "{0} is not part of the program; give its folder with --data DIR, or set NAE_DATA to the folder that has `{1}`"
    )]
    NoFolder(&'static str, &'static str),
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

impl Source {
    /// Shape of an image.
    pub fn image(self) -> Shape {
        match self {
            Self::Digits => Shape::new(1, digits::ENLARGED, digits::ENLARGED),
            Self::Mnist | Self::FashionMnist => Shape::new(1, 28, 28),
        }
    }

    /// What a model's metadata and tables call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Digits => "UCI handwritten digits 8x8 enlarged to 16x16",
            Self::Mnist => "MNIST",
            Self::FashionMnist => "Fashion-MNIST",
        }
    }

    /// What one of its classes is called, before its number.
    pub fn class(self) -> &'static str {
        match self {
            Self::Digits | Self::Mnist => "digit",
            Self::FashionMnist => "class",
        }
    }

    /// Several of them.
    pub fn class_plural(self) -> &'static str {
        match self {
            Self::Digits | Self::Mnist => "digits",
            Self::FashionMnist => "images",
        }
    }

    /// Whether the set itself says which images are for testing.
    pub fn has_test_part(self) -> bool {
        self != Self::Digits
    }

    /// How an image of another size is brought to the set's.
    pub fn resize_filter(self) -> ResizeFilter {
        match self {
            // As the digits themselves were enlarged.
            Self::Digits => ResizeFilter::BilinearAlignCorners,
            Self::Mnist | Self::FashionMnist => ResizeFilter::Bilinear,
        }
    }

    /// Rows blanked where a chimera's halves meet: six of 28 in the paper.
    pub fn chimera_gap(self) -> usize {
        match self {
            Self::Digits => 0,
            Self::Mnist | Self::FashionMnist => 6,
        }
    }

    fn folder_name(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Mnist => "mnist",
            Self::FashionMnist => "fashion-mnist",
        }
    }

    /// Reads the set: from `folder`, or else from its own folder in the one that `NAE_DATA` names. Embedded sets need
    /// neither.
    ///
    /// # Errors
    /// [`DataError`] names the file, what was expected and what was found.
    pub fn load(self, folder: Option<&Path>) -> Result<Loaded, DataError> {
        if self == Self::Digits {
            return Ok(Loaded { train: digits::load()?, test: None, sha256: digits::sha256() });
        }
        let given = || std::env::var_os(DATA_FOLDER).map(|all| Path::new(&all).join(self.folder_name()));
        let folder = folder.map(Path::to_owned).or_else(given);
        let folder = folder.ok_or(DataError::NoFolder(self.title(), self.folder_name()))?;
        let mut hash = Sha256::new();
        let mut part = |name: &str| {
            let images = folder.join(format!("{name}-images-idx3-ubyte"));
            let labels = folder.join(format!("{name}-labels-idx1-ubyte"));
            let set = idx::load(&images, &labels, &mut hash)?;
            if set.shape() != self.image() {
                let (expected, found) = (self.image(), set.shape());
                return Err(DataError::Shape { folder: folder.clone(), expected, found });
            }
            Ok(set)
        };
        let (train, test) = (part("train")?, part("t10k")?);
        Ok(Loaded { train, test: Some(test), sha256: hex(hash) })
    }
}
