//! The data sets that presets name, images of one's own among them, and where they are read from.

use std::path::{Path, PathBuf};

use nae_core::Shape;
use nae_core::model::ResizeFilter;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ImageSet;
use super::cifar::{self, CifarError};
use super::digits::{self, DigitsError};
use super::form::{Form, ImageForm};
use super::idx::{self, IdxError};
use super::own::{self, Collection, Corrupt, OwnError, OwnImages};
use super::own_table::{self, OwnTable, OwnTableError, Rows};
use crate::digest::hex;

/// The environment variable that names the folder of data sets.
pub const DATA_FOLDER: &str = "NAE_DATA";

/// A data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The embedded 8×8 digits, enlarged to 16×16.
    Digits,
    /// MNIST (LeCun, Cortes and Burges), the four IDX files.
    Mnist,
    /// Fashion-MNIST (Xiao, Rasul and Vollgraf 2017), the four IDX files.
    FashionMnist,
    /// CIFAR-10 (Krizhevsky 2009), the binary batches.
    Cifar10,
    /// The same images as files of another compression, in folders `train/CLASS` and `test/CLASS` or archives
    /// `train.tar` and `test.tar`; other pixels where it was lossy, and other figures.
    Cifar10Jpeg,
    /// Images of one's own, in a folder or an archive that is given anew for every run. What they are brought to is
    /// part of the configuration, since it is chosen from the images before there is one: see [`own::choose`].
    Own(OwnImages),
    /// A table of one's own, likewise: see [`own_table::choose`].
    Table(OwnTable),
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
    #[error("{title}: {source}")]
    Transforms {
        /// The set.
        title: String,
        /// Why.
        source: super::image_set::ImageSetError,
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

impl Source {
    /// Shape of an image.
    pub fn image(&self) -> Shape {
        match self {
            Self::Own(own) => own.shape(),
            Self::Table(own) => own.shape(),
            Self::Digits => Shape::new(1, digits::ENLARGED, digits::ENLARGED),
            Self::Mnist | Self::FashionMnist => Shape::new(1, 28, 28),
            Self::Cifar10 | Self::Cifar10Jpeg => cifar::SHAPE,
        }
    }

    /// What a model's metadata and tables call it.
    pub fn title(&self) -> &str {
        match self {
            Self::Own(own) => &own.title,
            Self::Table(own) => &own.title,
            Self::Digits => "UCI handwritten digits 8x8 enlarged to 16x16",
            Self::Mnist => "MNIST",
            Self::FashionMnist => "Fashion-MNIST",
            Self::Cifar10 => "CIFAR-10",
            Self::Cifar10Jpeg => "JPEG CIFAR-10",
        }
    }

    /// What one of its classes is called, before its number.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Digits | Self::Mnist => "digit",
            Self::FashionMnist | Self::Cifar10 | Self::Cifar10Jpeg | Self::Own(_) | Self::Table(_) => "class",
        }
    }

    /// What its samples are called in general: `images`, or `rows` or `windows` of a table.
    pub fn samples(&self) -> &'static str {
        match self {
            Self::Table(own) if own.window.is_some() => "windows",
            Self::Table(_) => "rows",
            _ => "images",
        }
    }

    /// The name of data of one's own.
    pub fn own_title(&self) -> Option<&str> {
        match self {
            Self::Own(_) | Self::Table(_) => Some(self.title()),
            _ => None,
        }
    }

    /// Several of them.
    pub fn class_plural(&self) -> &'static str {
        match self {
            Self::Digits | Self::Mnist => "digits",
            Self::FashionMnist | Self::Cifar10 | Self::Cifar10Jpeg | Self::Own(_) => "images",
            Self::Table(_) => self.samples(),
        }
    }

    /// The name of its folder in the one that has all data sets; none of what is embedded or one's own.
    pub fn folder_name(&self) -> Option<&'static str> {
        match self {
            Self::Mnist => Some("mnist"),
            Self::FashionMnist => Some("fashion-mnist"),
            Self::Cifar10 => Some("cifar10"),
            Self::Cifar10Jpeg => Some("cifar10-jpeg"),
            Self::Digits | Self::Own(_) | Self::Table(_) => None,
        }
    }

    /// Whether the set itself says which images are for testing.
    pub fn has_test_part(&self) -> bool {
        matches!(self, Self::Mnist | Self::FashionMnist | Self::Cifar10 | Self::Cifar10Jpeg)
    }

    /// How an image of another size is brought to the set's.
    pub fn resize_filter(&self) -> ResizeFilter {
        match self {
            // Rows are not resized; a name has to be there.
            Self::Own(_) | Self::Table(_) => own::RESIZE,
            // As the digits themselves were enlarged.
            Self::Digits => ResizeFilter::BilinearAlignCorners,
            Self::Mnist | Self::FashionMnist | Self::Cifar10 | Self::Cifar10Jpeg => ResizeFilter::Bilinear,
        }
    }

    /// How files from outside become samples like the set's.
    pub fn form(&self) -> Form {
        match self {
            Self::Table(own) => Form::Rows(own.clone()),
            Self::Own(own) => Form::Images(own.form()),
            _ => Form::Images(ImageForm::resized(self.image(), self.resize_filter())),
        }
    }

    /// Rows blanked where a chimera's halves meet: six of 28 in the paper.
    pub fn chimera_gap(&self) -> usize {
        match self {
            Self::Digits | Self::Cifar10 | Self::Cifar10Jpeg | Self::Own(_) | Self::Table(_) => 0,
            Self::Mnist | Self::FashionMnist => 6,
        }
    }

    /// Reads the set in `form`: from `folder`, or else from its own folder in the one that `NAE_DATA` names. Embedded
    /// sets need neither, images of one's own need `folder`; `corrupt` is for them.
    ///
    /// # Errors
    /// [`DataError`] names the file, what was expected and what was found.
    pub fn load(&self, folder: Option<&Path>, form: &Form, corrupt: Corrupt) -> Result<Loaded, DataError> {
        let Form::Images(form) = form else {
            return self.load_images(folder, &ImageForm::resized(self.image(), self.resize_filter()), corrupt);
        };
        let mut loaded = self.load_images(folder, form, corrupt)?;
        if self.own_title().is_none() {
            let wrong = |source| DataError::Transforms { title: self.title().to_owned(), source };
            loaded.train = form.bring(loaded.train).map_err(wrong)?;
            loaded.test = loaded.test.map(|test| form.bring(test).map_err(wrong)).transpose()?;
        }
        Ok(loaded)
    }

    /// The set with images as they are; one's own in a form.
    fn load_images(&self, folder: Option<&Path>, form: &ImageForm, corrupt: Corrupt) -> Result<Loaded, DataError> {
        match self {
            Self::Digits => {
                Ok(Loaded { train: digits::load()?, test: None, sha256: digits::sha256(), warnings: Vec::new() })
            }
            Self::Mnist | Self::FashionMnist => self.load_idx(&self.folder(folder)?),
            Self::Cifar10 => {
                let folder = self.folder(folder)?;
                let mut hash = Sha256::new();
                let train = cifar::load(&folder, &cifar::TRAIN, &mut hash)?;
                let test = Some(cifar::load(&folder, &cifar::TEST, &mut hash)?);
                Ok(Loaded { train, test, sha256: hex(hash), warnings: Vec::new() })
            }
            Self::Cifar10Jpeg => {
                let folder = self.folder(folder)?;
                let part = |name: &str| {
                    own::load(&part_of(&folder, name), &ImageForm::resized(cifar::SHAPE, own::RESIZE), corrupt)
                };
                let (train, test) = (part("train")?, part("test")?);
                let mut warnings = train.warnings();
                warnings.extend(test.warnings());
                let sha256 = hex(Sha256::new_with_prefix(format!("{} {}", train.sha256, test.sha256)));
                Ok(Loaded { train: train.images, test: Some(test.images), sha256, warnings })
            }
            Self::Own(own) => {
                let folder = folder.ok_or_else(|| DataError::NoOwn(own.title.clone()))?;
                Ok(own::load(folder, form, corrupt)?.into())
            }
            Self::Table(own) => {
                let file = folder.ok_or_else(|| DataError::NoOwn(own.title.clone()))?;
                Ok(own_table::load(file, own)?.into())
            }
        }
    }

    /// The four IDX files of the set, in `folder`.
    fn load_idx(&self, folder: &Path) -> Result<Loaded, DataError> {
        let mut hash = Sha256::new();
        let mut part = |name: &str| {
            let set = idx::load_named(&folder.join(name), &mut hash)?;
            if set.shape() != self.image() {
                let (expected, found) = (self.image(), set.shape());
                return Err(DataError::Shape { folder: folder.to_owned(), expected, found });
            }
            Ok(set)
        };
        let (train, test) = (part("train")?, part("t10k")?);
        Ok(Loaded { train, test: Some(test), sha256: hex(hash), warnings: Vec::new() })
    }

    /// `folder`, or else the set's own in the folder that `NAE_DATA` names.
    fn folder(&self, folder: Option<&Path>) -> Result<PathBuf, DataError> {
        let name = self.folder_name().unwrap_or_default();
        let given = || std::env::var_os(DATA_FOLDER).map(|all| Path::new(&all).join(name));
        folder.map(Path::to_owned).or_else(given).ok_or_else(|| DataError::NoFolder(self.title().to_owned(), name))
    }
}

/// The folder or archive of a part.
fn part_of(folder: &Path, name: &str) -> PathBuf {
    let archives = [".tar", ".tar.gz", ".tgz", ".zip"].map(|end| folder.join(format!("{name}{end}")));
    let plain = folder.join(name);
    if plain.is_dir() { plain } else { archives.into_iter().find(|path| path.is_file()).unwrap_or(plain) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::preset;

    /// A set whose own files say what is for testing, with a network that fits it.
    #[test]
    fn cifar10_is_a_source_of_presets() {
        let digits = preset::PRESETS[0].text;
        let text = digits
            .replace("source = \"digits\"", "source = \"cifar10\"")
            .replace(", test = 0.2", "")
            .replace("kind = \"small_conv16\"", "kind = \"small_conv\"\nchannels = 3\nside = 32");
        let config = preset::parse(&text, "cifar.toml").expect("valid");
        let folder = tempfile::tempdir().expect("a folder");
        let load = || config.source().load(Some(folder.path()), &config.form(), Corrupt::Skip);
        assert!(load().expect_err("no file").to_string().contains("data_batch_1.bin"));
        for name in cifar::TRAIN.iter().chain(&cifar::TEST) {
            std::fs::write(folder.path().join(name), [7; 3073]).expect("writes");
        }
        let loaded = load().expect("valid");
        assert_eq!((loaded.train.len(), loaded.test.map_or(0, |test| test.len())), (5, 1));
        assert_eq!(loaded.train.shape(), config.architecture().image());
    }
}
