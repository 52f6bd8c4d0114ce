//! The original files of the data sets with names: where they are published, and how they are recognised. Errors and warnings
//! about these data sets quote it.

use std::fmt::Write as _;
use std::path::Path;

use crate::image_set::ImageSet;
use crate::loaded::Loaded;

/// The original files of a data set.
pub(crate) struct Published {
    /// The address of the files.
    address: &'static str,
    /// The files as they are published, with their digests.
    files: &'static [(&'static str, Digest)],
    /// What the content of the original files has.
    content: Content,
}

/// The digest of a published file, in hexadecimal.
enum Digest {
    Sha256(&'static str),
    /// For files whose publishers and users name no other.
    Md5(&'static str),
    /// No digest is known to us.
    Unknown,
}

/// The properties by which the content of the original files is recognised.
enum Content {
    /// The value of [`Loaded::sha256`], for all files and for those of the test part.
    Sha256 { all: &'static str, test: &'static str },
    /// The numbers of images for training, validation and test. A part that the set does not have has none.
    Images([usize; 3]),
}

pub(crate) const MNIST: Published = Published {
    address: "https://ossci-datasets.s3.amazonaws.com/mnist/",
    files: &[
        (
            "train-images-idx3-ubyte.gz",
            Digest::Sha256("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        ),
        (
            "train-labels-idx1-ubyte.gz",
            Digest::Sha256("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            Digest::Sha256("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            Digest::Sha256("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ],
    content: Content::Sha256 {
        all: "b2d8f5bf39174ee5ffeefa97e42d673c35432b411bb5d1f74fbbeddae7f1690a",
        test: "18489308deedfe2f7bd3a11e599a597126f161d991b1ffcffb71642aa76f7f62",
    },
};

pub(crate) const FASHION_MNIST: Published = Published {
    address: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    files: &[
        (
            "train-images-idx3-ubyte.gz",
            Digest::Sha256("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        ),
        (
            "train-labels-idx1-ubyte.gz",
            Digest::Sha256("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            Digest::Sha256("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            Digest::Sha256("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    ],
    content: Content::Sha256 {
        all: "14410854cf7a289477dcfc7df3f8ec24741e281cdcc425ede0d9a748ca630214",
        test: "30214f3fe91405cb8ea60b11ecf0914a65dd6a6ca8e13c13a62eb434f2d9fe56",
    },
};

pub(crate) const CIFAR10: Published = Published {
    address: "https://www.cs.toronto.edu/~kriz/cifar.html",
    files: &[(
        "cifar-10-binary.tar.gz",
        Digest::Sha256("c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
    )],
    content: Content::Images([50_000, 0, 10_000]),
};

pub(crate) const IMAGENET32: Published = Published {
    // ImageNet's present page has files of other pixels, reduced by another method.
    address: "copies of what was at http://image-net.org/small/download.php",
    files: &[("train_32x32.tar", Digest::Unknown), ("valid_32x32.tar", Digest::Unknown)],
    content: Content::Images([1_281_149, 0, 49_999]),
};

pub(crate) const CELEBA: Published = Published {
    address: "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    files: &[
        ("img_align_celeba.zip", Digest::Md5("00d2c5bc6d35e252742224ab0c1e8fcb")),
        ("list_eval_partition.txt", Digest::Md5("d32c9cbf5e040fd4025c592c306e6668")),
    ],
    content: Content::Images([162_770, 19_867, 19_962]),
};

impl Published {
    /// The sentence that follows an error about the files of the set called `title`: which there are, their digests, and where.
    pub(crate) fn remedy(&self, title: &str) -> String {
        let mut text = format!("the original files of {title} are at {}:", self.address);
        for (index, (name, digest)) in self.files.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let digest = match digest {
                Digest::Sha256(digest) => format!("SHA-256 {digest}"),
                Digest::Md5(digest) => format!("MD5 {digest}"),
                Digest::Unknown => "no digest known".to_owned(),
            };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma} {name} ({digest})");
        }
        text
    }

    /// A warning if `loaded`, read from `folder`, is not the content of the original files of the set called `title`.
    pub(crate) fn differs(&self, title: &str, folder: &Path, loaded: &Loaded) -> Option<String> {
        let (expected, found) = match self.content {
            Content::Sha256 { all, .. } if loaded.sha256 != all => (digest(all), loaded.sha256.clone()),
            Content::Images(expected) => {
                let count = |part: &ImageSet| part.units().len();
                let of = |part: &Option<ImageSet>| part.as_ref().map_or(0, count);
                let found = [count(&loaded.train), of(&loaded.validation), of(&loaded.test)];
                if found == expected {
                    return None;
                }
                (numbers(expected), numbers(found))
            }
            Content::Sha256 { .. } => return None,
        };
        Some(self.others(title, folder, &expected, &found))
    }

    /// The same for the test part alone, of SHA-256 `found`, read from the files at `start`.
    pub(crate) fn test_differs(&self, title: &str, start: &Path, found: &str) -> Option<String> {
        match self.content {
            Content::Sha256 { test, .. } if test != found => Some(self.others(title, start, &digest(test), found)),
            _ => None,
        }
    }

    fn others(&self, title: &str, place: &Path, expected: &str, found: &str) -> String {
        let (place, address) = (place.display(), self.address);
        format!(
            "{place}: these are not the original data of {title}, and results are not those of {title}: expected {expected}, \
             found {found}; the original files are at {address}"
        )
    }
}

fn digest(sha256: &str) -> String {
    format!("unpacked files of SHA-256 {sha256}")
}

/// The numbers of images for training, validation and test.
fn numbers([train, validation, test]: [usize; 3]) -> String {
    let validation = if validation == 0 { String::new() } else { format!(", {validation} to validate") };
    format!("{train} images to train{validation} and {test} to test")
}

#[cfg(test)]
mod tests {
    use nae_core::Shape;

    use super::*;

    fn images(count: usize) -> ImageSet {
        ImageSet::new(Shape::new(1, 1, 1), vec![0.0; count], vec![0; count]).expect("one value an image")
    }

    #[test]
    fn other_contents_are_said_to_be_others() {
        let Content::Sha256 { all: original, test } = MNIST.content else { panic!("recognised by its contents") };
        let of = |sha256: &str| MNIST.differs("MNIST", Path::new("here"), &Loaded::whole(images(1), sha256.to_owned()));
        assert_eq!(of(original), None);
        let said = of("abc").expect("others");
        assert!(said.starts_with("here: ") && said.contains(original) && said.contains("found abc;"), "{said}");
        let of_test = |sha256: &str| MNIST.test_differs("MNIST", Path::new("here/t10k"), sha256);
        assert_eq!(of_test(test), None);
        let said = of_test(original).expect("others");
        assert!(said.starts_with("here/t10k: ") && said.contains(test), "{said}");
    }

    #[test]
    fn other_numbers_of_images_are_said() {
        let of = |train, test| {
            let loaded = Loaded { test: Some(images(test)), ..Loaded::whole(images(train), String::new()) };
            CIFAR10.differs("CIFAR-10", Path::new("here"), &loaded)
        };
        assert_eq!(of(50_000, 10_000), None);
        let said = of(400, 10_000).expect("fewer");
        assert!(said.contains("expected 50000 images to train and 10000 to test, found 400 images to train"), "{said}");
    }

    /// The most likely fault of a download.
    #[test]
    fn of_a_damaged_archive_the_original_is_named() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("mnist");
        std::fs::create_dir(&folder).expect("made");
        for content in [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x01"[..], b"not found", b""] {
            for name in ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"] {
                std::fs::write(folder.join(format!("{name}-ubyte.gz")), content).expect("written");
            }
            let source = crate::Source::Mnist;
            let error = source.load(Some(place.path()), &source.form(), crate::own::Corrupt::Refuse);
            let said = error.expect_err("damaged").to_string();
            assert!(said.contains("ubyte.gz") && said.contains("SHA-256"), "{said}");
        }
    }

    #[test]
    fn every_file_is_named_with_its_digest() {
        let said = CELEBA.remedy("CelebA");
        assert!(said.contains("list_eval_partition.txt (MD5 d32c9cbf"), "{said}");
        assert_eq!(MNIST.remedy("MNIST").matches("SHA-256").count(), 4);
    }

    /// The digests above, of the files themselves.
    #[test]
    fn the_original_files_are_recognised() {
        let Some(all) = std::env::var_os(crate::DATA_FOLDER).map(std::path::PathBuf::from) else {
            // In the words of `tests/may-be-skipped.txt`.
            eprintln!("skipped: {} does not name the folder of the data sets", crate::DATA_FOLDER);
            return;
        };
        for source in [crate::Source::Mnist, crate::Source::FashionMnist] {
            let loaded = source.load(Some(&all), &source.form(), crate::own::Corrupt::Refuse).expect("read");
            assert_eq!(loaded.warnings, Vec::<String>::new());
            let start = all.join(source.folder_name().expect("it is not embedded")).join("t10k");
            assert_eq!(crate::load_idx_part(&start).expect("read").warnings, Vec::<String>::new());
        }
    }
}
