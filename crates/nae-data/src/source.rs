//! The data sets that presets can use, including a user's data, and where they are read from.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nae_core::Shape;
use nae_core::contract::ResizeFilter;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::celeba;
use crate::cifar;
use crate::collect::MAX_VALUES;
use crate::digest::hex;
use crate::digits;
use crate::error::DataError;
use crate::files::part_of;
use crate::form::{Form, ImageForm};
use crate::idx;
use crate::loaded::Loaded;
use crate::own::{self, Corrupt, OwnImages};
use crate::own_table::{self, OwnTable};
use crate::published::{self, Published};

/// The environment variable with the path of the folder that contains the data sets.
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
    /// The CIFAR-10 images as files in another compression, in folders `train/CLASS` and `test/CLASS` or archives
    /// `train.tar` and `test.tar`. If the compression was lossy, pixels and therefore results differ.
    Cifar10Jpeg,
    /// ImageNet at 32×32 pixels (van den Oord, Kalchbrenner and Kavukcuoglu 2016): the archives `train_32x32.tar` and
    /// `valid_32x32.tar`, or the folders that they unpack to.
    Imagenet32,
    /// CelebA (Liu, Luo, Wang and Tang 2015) at 64×64 pixels: `img_align_celeba`, a folder or an archive, and beside it
    /// `list_eval_partition.txt`, which defines the parts.
    #[serde(rename = "celeba")]
    CelebA,
    /// A user's images, in a folder or an archive that must be given for every run. Their shape is part of the
    /// configuration, since it is chosen from the images before the configuration is made: see [`own::choose`].
    Own(OwnImages),
    /// A user's table, with the same rules: see [`own_table::choose`].
    Table(OwnTable),
}

/// The properties of a data set with a name.
struct Named {
    /// The name of the set in a model's metadata and in tables.
    title: &'static str,
    /// The word for one of its classes, followed by the class's number, and its plural.
    class: [&'static str; 2],
    /// The name of its folder in the folder of data sets; `None` if it is embedded in the program.
    folder: Option<&'static str>,
    /// The shape of an image.
    image: Shape,
    /// How an image of another size is resized to the set's.
    filter: ResizeFilter,
    /// The number of rows set to 0 where the halves of a chimera meet.
    chimera_gap: usize,
    /// Whether the set itself has a validation part and a test part.
    has_parts: HasParts,
    /// The original files; `None` if the set is embedded, or nobody publishes it in this form.
    published: Option<Published>,
    /// Reads the set from its folder; embedded sets ignore the folder.
    load: Load,
}

/// The parts that a set has of its own.
#[derive(Clone, Copy)]
struct HasParts {
    validation: bool,
    test: bool,
}

/// How a data set is read.
enum Load {
    /// Reads the set in its own shape; it is then converted to the requested form.
    AsItIs(fn(&Path) -> Result<Loaded, DataError>),
    /// Reads files of images of any size and converts each to the requested form.
    Files(fn(&Path, &ImageForm, Corrupt) -> Result<Loaded, DataError>),
}

const DIGITS: Named = Named {
    title: "UCI handwritten digits 8x8 enlarged to 16x16",
    class: ["digit", "digits"],
    folder: None,
    image: Shape::new(1, digits::ENLARGED, digits::ENLARGED),
    // The digits themselves were enlarged with this filter.
    filter: ResizeFilter::BilinearAlignCorners,
    chimera_gap: 0,
    has_parts: HasParts { validation: false, test: false },
    published: None,
    load: Load::AsItIs(|_| Ok(Loaded::whole(digits::load()?, digits::sha256()))),
};

const MNIST: Named = Named {
    title: "MNIST",
    class: ["digit", "digits"],
    folder: Some("mnist"),
    image: Shape::new(1, 28, 28),
    filter: ResizeFilter::Bilinear,
    // Six of 28 rows, as in the paper.
    chimera_gap: 6,
    has_parts: HasParts { validation: false, test: true },
    published: Some(published::MNIST),
    load: Load::AsItIs(load_idx),
};

const FASHION_MNIST: Named = Named {
    title: "Fashion-MNIST",
    class: ["class", "images"],
    folder: Some("fashion-mnist"),
    published: Some(published::FASHION_MNIST),
    ..MNIST
};

const CIFAR10: Named = Named {
    title: "CIFAR-10",
    class: ["class", "images"],
    folder: Some("cifar10"),
    image: cifar::SHAPE,
    filter: ResizeFilter::Bilinear,
    chimera_gap: 0,
    has_parts: HasParts { validation: false, test: true },
    published: Some(published::CIFAR10),
    load: Load::AsItIs(load_cifar),
};

const CIFAR10_JPEG: Named = Named {
    title: "JPEG CIFAR-10",
    folder: Some("cifar10-jpeg"),
    published: None,
    load: Load::Files(|folder, form, corrupt| load_files(folder, ["train", "test"], MAX_VALUES as u64, form, corrupt)),
    ..CIFAR10
};

const IMAGENET32: Named = Named {
    title: "ImageNet32",
    folder: Some("imagenet32"),
    published: Some(published::IMAGENET32),
    load: Load::Files(|folder, form, corrupt| {
        load_files(folder, ["train_32x32", "valid_32x32"], IMAGENET32_VALUES, form, corrupt)
    }),
    ..CIFAR10
};
/// The most values of a part. All 1,281,149 images have 2^31.9 values; they take 16 GB of memory, and twice that while
/// they are read.
const IMAGENET32_VALUES: u64 = 1 << 32;

const CELEBA: Named = Named {
    title: "CelebA",
    folder: Some("celeba"),
    image: celeba::SHAPE,
    has_parts: HasParts { validation: true, test: true },
    published: Some(published::CELEBA),
    load: Load::Files(celeba::load),
    ..CIFAR10
};

impl Named {
    /// The same error about the set's files, followed by where the original ones are.
    fn with_remedy(&self, error: DataError) -> DataError {
        match &self.published {
            // Other files do not help where the system refuses these. The other kinds are of a damaged archive.
            Some(published)
                if matches!(
                    error.kind(),
                    None | Some(
                        ErrorKind::NotFound
                            | ErrorKind::UnexpectedEof
                            | ErrorKind::InvalidInput
                            | ErrorKind::InvalidData
                    )
                ) =>
            {
                error.with_remedy(&published.remedy(self.title))
            }
            _ => error,
        }
    }
}

impl Source {
    /// The properties of the set if it has a name; `None` for a user's images and tables.
    const fn named(&self) -> Option<&'static Named> {
        match self {
            Self::Digits => Some(&DIGITS),
            Self::Mnist => Some(&MNIST),
            Self::FashionMnist => Some(&FASHION_MNIST),
            Self::Cifar10 => Some(&CIFAR10),
            Self::Cifar10Jpeg => Some(&CIFAR10_JPEG),
            Self::Imagenet32 => Some(&IMAGENET32),
            Self::CelebA => Some(&CELEBA),
            Self::Own(_) | Self::Table(_) => None,
        }
    }

    /// The shape of a sample.
    pub fn image(&self) -> Shape {
        match self {
            Self::Own(own) => own.shape(),
            Self::Table(own) => own.shape(),
            named => named.named().map_or(Shape::new(0, 0, 0), |set| set.image),
        }
    }

    /// The name of the set in a model's metadata and in tables.
    pub fn title(&self) -> &str {
        match self {
            Self::Own(own) => &own.title,
            Self::Table(own) => &own.title,
            named => named.named().map_or("", |set| set.title),
        }
    }

    /// The word for one of its classes, followed by the class's number.
    pub fn class(&self) -> &'static str {
        self.named().map_or("class", |set| set.class[0])
    }

    /// The general word for its samples: `images`, or for tables `rows` or `windows`.
    pub fn samples(&self) -> &'static str {
        match self {
            Self::Table(own) if own.window.is_some() => "windows",
            Self::Table(_) => "rows",
            _ => "images",
        }
    }

    /// The title of a user's data; `None` for a set with a name.
    pub fn own_title(&self) -> Option<&str> {
        match self.named() {
            Some(_) => None,
            None => Some(self.title()),
        }
    }

    /// The plural of [`class`](Self::class).
    pub fn class_plural(&self) -> &'static str {
        self.named().map_or(self.samples(), |set| set.class[1])
    }

    /// The name of its folder in the folder of data sets; `None` for embedded sets and a user's data.
    pub fn folder_name(&self) -> Option<&'static str> {
        self.named()?.folder
    }

    /// Whether the set is part of the program.
    pub fn is_embedded(&self) -> bool {
        self.named().is_some_and(|set| set.folder.is_none())
    }

    /// Whether the set itself has a validation part.
    pub fn has_validation_part(&self) -> bool {
        self.named().is_some_and(|set| set.has_parts.validation)
    }

    /// Whether the set itself has a test part.
    pub fn has_test_part(&self) -> bool {
        self.named().is_some_and(|set| set.has_parts.test)
    }

    /// How an image of another size is resized to the set's. Rows of tables are not resized; they return an unused
    /// filter.
    pub fn resize_filter(&self) -> ResizeFilter {
        self.named().map_or(own::RESIZE, |set| set.filter)
    }

    /// How external files are converted to samples like the set's.
    pub fn form(&self) -> Form {
        match self {
            Self::Table(own) => Form::Rows(own.clone()),
            Self::Own(own) => Form::Images(own.form()),
            _ => Form::Images(ImageForm::resized(self.image(), self.resize_filter())),
        }
    }

    /// The number of rows set to 0 where the halves of a chimera meet.
    pub fn chimera_gap(&self) -> usize {
        self.named().map_or(0, |set| set.chimera_gap)
    }

    /// Reads the set in `form` from `folder`, which is the set's own folder or contains it; without `folder`, from the
    /// set's own folder in the one that `NAE_DATA` gives. Embedded sets have no folder; a user's data need `folder`.
    /// `corrupt` only applies to files of images.
    ///
    /// # Errors
    /// [`DataError`] with the file, what was expected and what was found; also if there is a `folder` for an embedded set.
    pub fn load(&self, folder: Option<&Path>, form: &Form, corrupt: Corrupt) -> Result<Loaded, DataError> {
        let given = || {
            folder.ok_or_else(|| {
                let what = format_args!("this is trained on your own data, called {}", self.title());
                DataError::new(format_args!("{what}: give the folder or file with --data"))
            })
        };
        let form = match (self, form) {
            (Self::Table(own), _) => return Ok(own_table::load(given()?, own)?.into()),
            (_, Form::Images(form)) => *form,
            (_, Form::Rows(_)) => ImageForm::resized(self.image(), self.resize_filter()),
        };
        let Some(set) = self.named() else { return Ok(own::load(given()?, &form, corrupt)?.into()) };
        let folder = match (set.folder, folder) {
            (Some(_), folder) => self.folder(folder)?,
            (None, None) => PathBuf::new(),
            (None, Some(given)) => {
                let problem = format_args!("expected no data, since {} are part of the program", set.title);
                return Err(DataError::at(given, format_args!("{problem}; leave --data out")));
            }
        };
        let loaded = match set.load {
            Load::AsItIs(load) => load(&folder),
            Load::Files(load) => load(&folder, &form, corrupt),
        };
        let mut loaded = loaded.map_err(|error| set.with_remedy(error))?;
        let published = set.published.as_ref();
        loaded.warnings.extend(published.and_then(|published| published.differs(set.title, &folder, &loaded)));
        match set.load {
            Load::AsItIs(_) => loaded.brought(&form).map_err(|cause| DataError::form(set.title, &cause)),
            Load::Files(_) => Ok(loaded),
        }
    }

    /// Returns the set's own folder in `folder` if it exists, otherwise `folder`; without `folder`, the one in
    /// `NAE_DATA`.
    fn folder(&self, folder: Option<&Path>) -> Result<PathBuf, DataError> {
        let name = self.folder_name().unwrap_or_default();
        let given =
            |folder: &Path| Some(folder.join(name)).filter(|own| own.is_dir()).unwrap_or_else(|| folder.to_owned());
        let all = || std::env::var_os(DATA_FOLDER).map(|all| Path::new(&all).join(name));
        folder.map(given).or_else(all).ok_or_else(|| {
            let todo = format_args!("--data DIR, or set NAE_DATA to the folder that has `{name}`");
            DataError::new(format_args!("{} is not part of the program; give its folder with {todo}", self.title()))
        })
    }
}

/// Reads images and labels from the two IDX files whose names begin with `start`, such as `mnist/t10k`. If these are the name of
/// the folder and of the test part of MNIST or Fashion-MNIST, errors and warnings are about the original files.
///
/// # Errors
/// [`DataError`] with the file, what was expected and what was found.
pub fn load_idx_part(start: &Path) -> Result<Loaded, DataError> {
    let is_test_of = |set: &&Named| set.folder.is_some_and(|folder| start.ends_with(Path::new(folder).join(IDX_TEST)));
    let set = [&MNIST, &FASHION_MNIST].into_iter().find(is_test_of);
    let mut hash = Sha256::new();
    let read = idx::load_named(start, &mut hash);
    let images = read.map_err(|error| match set {
        Some(set) => set.with_remedy(error),
        None => error,
    })?;
    let mut loaded = Loaded::whole(images, hex(hash));
    let published = set.and_then(|set| Some((set.title, set.published.as_ref()?)));
    let differs = published.and_then(|(title, published)| published.test_differs(title, start, &loaded.sha256));
    loaded.warnings.extend(differs);
    Ok(loaded)
}

/// The beginning of the names of MNIST's test files.
const IDX_TEST: &str = "t10k";

/// Reads MNIST's four IDX files, or those of a set in the same format.
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
    let (train, test) = (part("train")?, part(IDX_TEST)?);
    Ok(Loaded { test: Some(test), ..Loaded::whole(train, hex(hash)) })
}

/// Reads CIFAR-10's binary batches.
fn load_cifar(folder: &Path) -> Result<Loaded, DataError> {
    let mut hash = Sha256::new();
    let train = cifar::load(folder, &cifar::TRAIN, &mut hash)?;
    let test = Some(cifar::load(folder, &cifar::TEST, &mut hash)?);
    Ok(Loaded { test, ..Loaded::whole(train, hex(hash)) })
}

/// Reads images as files from two folders or archives, for training and for testing, with at most `most` values each.
fn load_files(
    folder: &Path,
    parts: [&str; 2],
    most: u64,
    form: &ImageForm,
    corrupt: Corrupt,
) -> Result<Loaded, DataError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let part = |name: &str| own::load_some(&part_of(folder, name), form, corrupt, most, &|_| true);
    let [train, test] = parts.map(part);
    let (train, test) = (train?, test?);
    let mut warnings = train.warnings();
    warnings.extend(test.warnings());
    let sha256 = hex(Sha256::new_with_prefix(format!("{} {}", train.sha256, test.sha256)));
    Ok(Loaded { test: Some(test.images), warnings, ..Loaded::whole(train.images, sha256) })
}
