//! CelebA (Liu, Luo, Wang and Tang, ICCV 2015): the aligned images, in the training, validation and test parts of its
//! authors.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;

use nae_core::Shape;
use sha2::{Digest as _, Sha256};

use crate::digest::hex;
use crate::error::DataError;
use crate::files::part_of;
use crate::image_form::ImageForm;
use crate::loaded::Loaded;
use crate::own::{self, Corrupt};

/// The shape of an image in the paper: the centre of the aligned image, reduced in size.
pub(crate) const SHAPE: Shape = Shape::new(3, 64, 64);

/// The name of the folder or archive of the images.
const IMAGES: &str = "img_align_celeba";
/// The authors' file of parts: one line for each image, with its name and the number of its part.
const PARTITION: &str = "list_eval_partition.txt";
/// The same list as a CSV file, as other distributions of the set have it.
const PARTITION_CSV: &str = "list_eval_partition.csv";
/// The purposes of the parts, indexed by their numbers.
const PARTS: [&str; 3] = ["training", "validation", "testing"];

/// The most values of one part. All 202,599 images of 64×64 pixels have 2^31.2 values; they take 10 GB of memory, and
/// twice that while the largest part is read.
const MAX_VALUES: u64 = 1 << 32;

/// Reads the images in `folder` and converts each to `form`.
pub(crate) fn load(folder: &Path, form: &ImageForm, corrupt: Corrupt) -> Result<Loaded, DataError> {
    let most = usize::try_from(MAX_VALUES).unwrap_or(usize::MAX);
    let images = part_of(folder, IMAGES);
    let partition = Partition::read(folder)?;
    let mut warnings = Vec::new();
    let mut hash = Sha256::new();
    let mut part = |number: usize| {
        let unlisted = Cell::new(0);
        let wanted = |name: &str| {
            let part = partition.part(name);
            unlisted.set(unlisted.get() + usize::from(part.is_none()));
            part == Some(number)
        };
        let collection = own::load_some(&images, form, corrupt, most, &wanted)?;
        hash.update(&collection.sha256);
        // Each of the three passes visits all names, and warns of the same ones.
        for warning in collection.warnings() {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        let (listed, found) = (partition.count(number), collection.images.units().len() + collection.skipped.len());
        let file = partition.file;
        if found < listed {
            warnings.push(format!("images for {}: {found}, where {file} has {listed}", PARTS[number]));
        }
        if number == 0 && unlisted.get() > 0 {
            warnings.push(format!("images that are left out, since {file} does not have them: {}", unlisted.get()));
        }
        Ok::<_, DataError>(collection.images)
    };
    let (train, validation, test) = (part(0)?, part(1)?, part(2)?);
    Ok(Loaded { train, validation: Some(validation), test: Some(test), sha256: hex(hash), warnings })
}

/// The authors' division into parts.
struct Partition {
    file: &'static str,
    /// The number of each image's part, by the image's name without folders.
    parts: HashMap<String, usize>,
}

impl Partition {
    fn read(folder: &Path) -> Result<Self, DataError> {
        let file = if folder.join(PARTITION_CSV).is_file() { PARTITION_CSV } else { PARTITION };
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).map_err(|cause| {
            let expected = "expected CelebA's division of its images, beside the folder or archive";
            DataError::at(&path, format_args!("{cause}; {expected} `{IMAGES}`")).of_system(cause.kind())
        })?;
        let mut parts = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split([',', ' ', '\t', '\r']).filter(|word| !word.is_empty());
            match (words.next(), words.next().map(str::parse), words.next()) {
                (None, ..) => {}
                (Some("image_id"), ..) if number == 0 => {}
                (Some(name), Some(Ok(part @ 0..=2)), None) => {
                    parts.insert(name.to_owned(), part);
                }
                _ => {
                    let expected = "expected the name of an image and its part, 0, 1 or 2";
                    return Err(DataError::at(&path, format_args!("line {}: {expected}; found `{line}`", number + 1)));
                }
            }
        }
        let partition = Self { file, parts };
        let counts: Vec<usize> = (0..PARTS.len()).map(|part| partition.count(part)).collect();
        if counts.contains(&0) {
            let found: Vec<String> = counts.iter().zip(PARTS).map(|(count, part)| format!("{part} {count}")).collect();
            let expected = "expected images for training (0), validation (1) and testing (2)";
            return Err(DataError::at(&path, format_args!("{expected}; found {}", found.join(", "))));
        }
        Ok(partition)
    }

    /// Returns the part of the image `name`; `None` if it is not listed.
    fn part(&self, name: &str) -> Option<usize> {
        let name = name.rsplit('/').next().unwrap_or(name);
        self.parts.get(name).copied()
    }

    fn count(&self, part: usize) -> usize {
        self.parts.values().filter(|&&of| of == part).count()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nae_core::contract::ResizeFilter;
    use tempfile::TempDir;

    use super::*;
    use crate::ImageSet;

    /// The grey value of an image of level 1; images that are all dark are warned of.
    const STEP: u8 = 50;

    /// Makes a folder with one image for each level, all pixels of which have that level of grey, and `partition` as the file
    /// `name`.
    fn folder(levels: &[u8], name: &str, partition: &str) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        // Archives from other distributions contain a folder of the same name.
        let images = folder.path().join("img_align_celeba/img_align_celeba");
        fs::create_dir_all(&images).expect("writes");
        for level in levels {
            let image = [&b"P6 2 2 255\n"[..], &[STEP * level; 12]].concat();
            fs::write(images.join(format!("{level:03}.ppm")), image).expect("writes");
        }
        fs::write(folder.path().join(name), partition).expect("writes");
        folder
    }

    fn read(folder: &TempDir) -> Result<Loaded, DataError> {
        load(folder.path(), &ImageForm::resized(Shape::new(3, 1, 1), ResizeFilter::Bilinear), Corrupt::Skip)
    }

    fn levels(set: &ImageSet) -> Vec<u8> {
        (0..set.len()).map(|at| (set.image(at)[0] * 255.0 / f32::from(STEP)).round() as u8).collect()
    }

    #[test]
    fn images_are_divided_by_the_list() {
        let list = "001.ppm 0\n002.ppm 2\r\n003.ppm 1\n\n004.ppm 0\n";
        let csv = "image_id,partition\n001.ppm,0\n002.ppm,2\n003.ppm,1\n004.ppm,0\n";
        let all = [(PARTITION, list), (PARTITION_CSV, csv)].map(|(name, text)| {
            let loaded = read(&folder(&[1, 2, 3, 4], name, text)).expect("reads");
            assert_eq!(levels(&loaded.train), [1, 4]);
            assert_eq!(loaded.validation.as_ref().map(levels), Some(vec![3]));
            assert_eq!(loaded.test.as_ref().map(levels), Some(vec![2]));
            assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
            loaded.sha256
        });
        assert_eq!(all[0], all[1]);
        let other = "001.ppm 0\n002.ppm 1\n003.ppm 2\n004.ppm 0\n";
        let other = read(&folder(&[1, 2, 3, 4], PARTITION, other));
        assert_ne!(other.expect("reads").sha256, all[0]);
    }

    #[test]
    fn what_is_missing_or_not_listed_is_said() {
        let list = "001.ppm 0\n002.ppm 2\n003.ppm 1\n005.ppm 0\n";
        let loaded = read(&folder(&[1, 2, 3, 4], PARTITION, list)).expect("reads");
        assert_eq!(levels(&loaded.train), [1]);
        let said = loaded.warnings.join("\n");
        assert!(said.contains("images for training: 1, where list_eval_partition.txt has 2"), "{said}");
        assert!(said.contains("since list_eval_partition.txt does not have them: 1"), "{said}");
    }

    #[test]
    fn a_list_that_cannot_be_used_is_named() {
        let said = |list: &str| read(&folder(&[1], PARTITION, list)).expect_err("refused").to_string();
        let wrong = said("001.ppm 0\n002.ppm 3\n");
        assert!(wrong.contains(PARTITION) && wrong.contains("line 2") && wrong.contains("`002.ppm 3`"), "{wrong}");
        assert!(said("001.ppm 0 0\n").contains("line 1"));
        let incomplete = said("001.ppm 0\n002.ppm 0\n");
        assert!(incomplete.contains("found training 2, validation 0, testing 0"), "{incomplete}");
        let absent = folder(&[1], "list.txt", "");
        let absent = read(&absent).expect_err("refused").to_string();
        assert!(absent.contains(PARTITION) && absent.contains(IMAGES), "{absent}");
    }
}
