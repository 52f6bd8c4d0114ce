//! The data sets that presets name, a user's images among them, and where they are read from.

use std::path::{Path, PathBuf};

use nae_core::Shape;
use nae_core::contract::ResizeFilter;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::cifar;
use crate::collect::MAX_VALUES;
use crate::digest::hex;
use crate::digits;
use crate::error::DataError;
use crate::form::{Form, ImageForm};
use crate::idx;
use crate::image_set::ImageSetError;
use crate::loaded::Loaded;
use crate::own::{self, Corrupt, OwnImages};
use crate::own_table::{self, OwnTable};

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
    /// ImageNet at 32×32 pixels (van den Oord, Kalchbrenner and Kavukcuoglu 2016): the archives `train_32x32.tar` and
    /// `valid_32x32.tar`, or what they unpack to.
    Imagenet32,
    /// A user's images, in a folder or an archive that is given anew for every run. What they are brought to is
    /// part of the configuration, since it is chosen from the images before there is one: see [`own::choose`].
    Own(OwnImages),
    /// A user's table, likewise: see [`own_table::choose`].
    Table(OwnTable),
}

/// A data set that has a name: all that is particular to it.
struct Named {
    /// What a model's metadata and tables call it.
    title: &'static str,
    /// What one of its classes is called, before its number; and several of them.
    class: [&'static str; 2],
    /// The name of its folder in the one that has all data sets; none of what is part of the program.
    folder: Option<&'static str>,
    /// Shape of an image.
    image: Shape,
    /// How an image of another size is brought to the set's.
    filter: ResizeFilter,
    /// Rows blanked where a chimera's halves meet.
    chimera_gap: usize,
    /// Whether the set itself says which images are for testing.
    has_test_part: bool,
    /// Reads it from its folder; what is part of the program needs none.
    load: fn(&Path, Corrupt) -> Result<Loaded, DataError>,
}

const DIGITS: Named = Named {
    title: "UCI handwritten digits 8x8 enlarged to 16x16",
    class: ["digit", "digits"],
    folder: None,
    image: Shape::new(1, digits::ENLARGED, digits::ENLARGED),
    // As the digits themselves were enlarged.
    filter: ResizeFilter::BilinearAlignCorners,
    chimera_gap: 0,
    has_test_part: false,
    load: |_, _| Ok(Loaded { train: digits::load()?, test: None, sha256: digits::sha256(), warnings: Vec::new() }),
};

const MNIST: Named = Named {
    title: "MNIST",
    class: ["digit", "digits"],
    folder: Some("mnist"),
    image: Shape::new(1, 28, 28),
    filter: ResizeFilter::Bilinear,
    // Six of 28 rows in the paper.
    chimera_gap: 6,
    has_test_part: true,
    load: |folder, _| load_idx(folder),
};

const FASHION_MNIST: Named =
    Named { title: "Fashion-MNIST", class: ["class", "images"], folder: Some("fashion-mnist"), ..MNIST };

const CIFAR10: Named = Named {
    title: "CIFAR-10",
    class: ["class", "images"],
    folder: Some("cifar10"),
    image: cifar::SHAPE,
    filter: ResizeFilter::Bilinear,
    chimera_gap: 0,
    has_test_part: true,
    load: |folder, _| load_cifar(folder),
};

const CIFAR10_JPEG: Named = Named {
    title: "JPEG CIFAR-10",
    folder: Some("cifar10-jpeg"),
    load: |folder, corrupt| load_files(folder, ["train", "test"], MAX_VALUES as u64, corrupt),
    ..CIFAR10
};

const IMAGENET32: Named = Named {
    title: "ImageNet32",
    folder: Some("imagenet32"),
    load: |folder, corrupt| load_files(folder, ["train_32x32", "valid_32x32"], IMAGENET32_VALUES, corrupt),
    ..CIFAR10
};
/// 1,281,149 images have 2^31.9; in memory they take 16 GB, and twice that while they are read.
const IMAGENET32_VALUES: u64 = 1 << 32;

impl Source {
    /// The set, where it has a name; `None` for images and tables that a user brings.
    const fn named(&self) -> Option<&'static Named> {
        match self {
            Self::Digits => Some(&DIGITS),
            Self::Mnist => Some(&MNIST),
            Self::FashionMnist => Some(&FASHION_MNIST),
            Self::Cifar10 => Some(&CIFAR10),
            Self::Cifar10Jpeg => Some(&CIFAR10_JPEG),
            Self::Imagenet32 => Some(&IMAGENET32),
            Self::Own(_) | Self::Table(_) => None,
        }
    }

    /// Shape of an image.
    pub fn image(&self) -> Shape {
        match self {
            Self::Own(own) => own.shape(),
            Self::Table(own) => own.shape(),
            named => named.named().map_or(Shape::new(0, 0, 0), |set| set.image),
        }
    }

    /// What a model's metadata and tables call it.
    pub fn title(&self) -> &str {
        match self {
            Self::Own(own) => &own.title,
            Self::Table(own) => &own.title,
            named => named.named().map_or("", |set| set.title),
        }
    }

    /// What one of its classes is called, before its number.
    pub fn class(&self) -> &'static str {
        self.named().map_or("class", |set| set.class[0])
    }

    /// What its samples are called in general: `images`, or `rows` or `windows` of a table.
    pub fn samples(&self) -> &'static str {
        match self {
            Self::Table(own) if own.window.is_some() => "windows",
            Self::Table(_) => "rows",
            _ => "images",
        }
    }

    /// The name of data that a user brings.
    pub fn own_title(&self) -> Option<&str> {
        match self.named() {
            Some(_) => None,
            None => Some(self.title()),
        }
    }

    /// Several of them.
    pub fn class_plural(&self) -> &'static str {
        self.named().map_or(self.samples(), |set| set.class[1])
    }

    /// The name of its folder in the one that has all data sets; none of what is embedded or a user brings.
    pub fn folder_name(&self) -> Option<&'static str> {
        self.named()?.folder
    }

    /// Whether the set itself says which images are for testing.
    pub fn has_test_part(&self) -> bool {
        self.named().is_some_and(|set| set.has_test_part)
    }

    /// How an image of another size is brought to the set's. Rows of tables are not resized; a name has to be there.
    pub fn resize_filter(&self) -> ResizeFilter {
        self.named().map_or(own::RESIZE, |set| set.filter)
    }

    /// How files from outside become samples like the set's.
    pub fn form(&self) -> Form {
        match self {
            Self::Table(own) => Form::Rows(own.clone()),
            Self::Own(own) => Form::Images(own.form()),
            _ => Form::Images(ImageForm::resized(self.image(), self.resize_filter())),
        }
    }

    /// Rows blanked where a chimera's halves meet.
    pub fn chimera_gap(&self) -> usize {
        self.named().map_or(0, |set| set.chimera_gap)
    }

    /// Reads the set in `form`: from `folder`, or else from its own folder in the one that `NAE_DATA` names. Embedded
    /// sets need neither, a user's images need `folder`; `corrupt` is for them.
    ///
    /// # Errors
    /// [`DataError`] names the file, what was expected and what was found.
    pub fn load(&self, folder: Option<&Path>, form: &Form, corrupt: Corrupt) -> Result<Loaded, DataError> {
        let Form::Images(form) = form else {
            return self.load_images(folder, &ImageForm::resized(self.image(), self.resize_filter()), corrupt);
        };
        let mut loaded = self.load_images(folder, form, corrupt)?;
        if self.own_title().is_none() {
            let wrong = |cause: ImageSetError| DataError::form(self.title(), &cause);
            loaded.train = form.bring(loaded.train).map_err(wrong)?;
            loaded.test = loaded.test.map(|test| form.bring(test).map_err(wrong)).transpose()?;
        }
        Ok(loaded)
    }

    /// The set with images as they are; those that a user brings in a form.
    fn load_images(&self, folder: Option<&Path>, form: &ImageForm, corrupt: Corrupt) -> Result<Loaded, DataError> {
        let given = || {
            folder.ok_or_else(|| {
                let what = format_args!("this is trained on your own data, called {}", self.title());
                DataError::new(format_args!("{what}: give the folder or file with --data"))
            })
        };
        match (self, self.named()) {
            (_, Some(Named { folder: None, load, .. })) => load(Path::new(""), corrupt),
            (_, Some(Named { load, .. })) => load(&self.folder(folder)?, corrupt),
            (Self::Table(own), _) => Ok(own_table::load(given()?, own)?.into()),
            _ => Ok(own::load(given()?, form, corrupt)?.into()),
        }
    }

    /// `folder`, or else the set's own in the folder that `NAE_DATA` names.
    fn folder(&self, folder: Option<&Path>) -> Result<PathBuf, DataError> {
        let name = self.folder_name().unwrap_or_default();
        let given = || std::env::var_os(DATA_FOLDER).map(|all| Path::new(&all).join(name));
        folder.map(Path::to_owned).or_else(given).ok_or_else(|| {
            let todo = format_args!("--data DIR, or set NAE_DATA to the folder that has `{name}`");
            DataError::new(format_args!("{} is not part of the program; give its folder with {todo}", self.title()))
        })
    }
}

/// MNIST's four IDX files, or those of a set in the same form.
fn load_idx(folder: &Path) -> Result<Loaded, DataError> {
    let mut hash = Sha256::new();
    let mut part = |name: &str| {
        let set = idx::load_named(&folder.join(name), &mut hash)?;
        if set.shape() != MNIST.image {
            let (expected, found) = (MNIST.image, set.shape());
            return Err(DataError::at(folder, format_args!("images of {found}, {expected} expected")));
        }
        Ok(set)
    };
    let (train, test) = (part("train")?, part("t10k")?);
    Ok(Loaded { train, test: Some(test), sha256: hex(hash), warnings: Vec::new() })
}

/// CIFAR-10's binary batches.
fn load_cifar(folder: &Path) -> Result<Loaded, DataError> {
    let mut hash = Sha256::new();
    let train = cifar::load(folder, &cifar::TRAIN, &mut hash)?;
    let test = Some(cifar::load(folder, &cifar::TEST, &mut hash)?);
    Ok(Loaded { train, test, sha256: hex(hash), warnings: Vec::new() })
}

/// Coloured images of 32×32 pixels as files, in two folders or archives: for training and for testing, with so many values
/// each at most.
fn load_files(folder: &Path, parts: [&str; 2], most: u64, corrupt: Corrupt) -> Result<Loaded, DataError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let form = ImageForm::resized(cifar::SHAPE, own::RESIZE);
    let part = |name: &str| own::load_at_most(&part_of(folder, name), &form, corrupt, most);
    let [train, test] = parts.map(part);
    let (train, test) = (train?, test?);
    let mut warnings = train.warnings();
    warnings.extend(test.warnings());
    let sha256 = hex(Sha256::new_with_prefix(format!("{} {}", train.sha256, test.sha256)));
    Ok(Loaded { train: train.images, test: Some(test.images), sha256, warnings })
}

/// The folder or archive of a part.
fn part_of(folder: &Path, name: &str) -> PathBuf {
    let archives = [".tar", ".tar.gz", ".tgz", ".zip"].map(|end| folder.join(format!("{name}{end}")));
    let plain = folder.join(name);
    if plain.is_dir() { plain } else { archives.into_iter().find(|path| path.is_file()).unwrap_or(plain) }
}
