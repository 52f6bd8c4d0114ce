//! Collects images that arrive in any order into a set in a fixed order: by name, with classes and a digest.

use std::collections::BTreeSet;

use nae_core::Shape;
use sha2::{Digest as _, Sha256};

use crate::digest::hex;
use crate::image_form::{ImageForm, Samples};
use crate::image_set::{ImageSet, ImageSetError};
use crate::parts::Parts;

/// The largest number of values of a user's set; they take 2 GB.
pub(super) const MAX_VALUES: usize = 1 << 29;

/// Collects the images of files.
pub(super) struct Collector {
    shape: Shape,
    /// The largest number of values.
    most: usize,
    files: Vec<Gathered>,
    /// The number of samples so far: tiles if images are cut, otherwise images.
    samples: usize,
    /// For a set of tiles, the number of largest tile energies that an image's score is the mean of.
    top_k: Option<usize>,
}

struct Gathered {
    name: String,
    sha256: [u8; 32],
    images: Vec<Samples>,
}

/// All images, in order.
pub(super) struct Collected {
    pub(super) images: ImageSet,
    pub(super) classes: Vec<String>,
    /// The number of images of each class.
    pub(super) counts: Vec<usize>,
    pub(super) sha256: String,
}

impl Collector {
    pub(super) fn new(form: &ImageForm, most: usize) -> Self {
        let top_k = form.tiles.map(|tiles| tiles.top_k);
        Self { shape: form.shape, most, files: Vec::new(), samples: 0, top_k }
    }

    /// The largest number of images or tiles.
    pub(super) fn limit(&self) -> usize {
        self.most / self.shape.len()
    }

    /// The number of files added.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Adds the images of the file `name`, whose content is `bytes`. The caller keeps to the limit, since it must before the
    /// samples are made.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8], images: Vec<Samples>) {
        self.samples += images.iter().map(|image| image.values.len()).sum::<usize>() / self.shape.len();
        self.files.push(Gathered { name: name.to_owned(), sha256: Sha256::digest(bytes).into(), images });
    }

    /// Returns the images sorted by file name and position; the class is the first folder that not all files have in
    /// common.
    pub(super) fn finish(mut self) -> Result<Collected, ImageSetError> {
        self.files.sort_by(|a, b| a.name.cmp(&b.name).then(a.sha256.cmp(&b.sha256)));
        let common = common_folders(self.files.iter().map(|file| file.name.as_str()));
        let class = |name: &str| name[common..].split_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
        let classes: BTreeSet<String> = self.files.iter().map(|file| class(&file.name)).collect();
        let classes: Vec<String> = classes.into_iter().collect();
        let mut hash = Sha256::new();
        let (mut values, mut labels) = (Vec::with_capacity(self.samples * self.shape.len()), Vec::new());
        let (mut places, mut whole, mut counts) = (Vec::new(), 0, vec![0; classes.len()]);
        for file in self.files {
            let name = &file.name[common..];
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update(file.sha256);
            let class = classes.binary_search(&class(&file.name)).unwrap_or_default();
            counts[class] += file.images.len();
            let label = class % 256;
            for image in file.images {
                places.extend(image.parts(whole, self.shape));
                labels.resize(places.len(), label as u8);
                values.extend(image.values);
                whole += 1;
            }
        }
        let mut images = ImageSet::new(self.shape, values, labels)?;
        if let Some(top_k) = self.top_k {
            images = images.with_parts(Parts::tiles(places, top_k))?;
        }
        Ok(Collected { images, classes, counts, sha256: hex(hash) })
    }
}

/// The length of the folders that all `names` start with, including the last `/`.
fn common_folders<'a>(mut names: impl Iterator<Item = &'a str>) -> usize {
    let Some(first) = names.next() else { return 0 };
    let folders = |name: &str| name.rfind('/').map_or(0, |at| at + 1);
    names.fold(folders(first), |common, name| {
        let same = first.bytes().zip(name.bytes()).take(common).take_while(|(a, b)| a == b).count();
        // Names are compared as bytes; this is safe because the result ends after a `/`, never within a character.
        first.as_bytes()[..same].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1)
    })
}

#[cfg(test)]
mod tests {
    use nae_core::contract::ResizeFilter;

    use super::*;

    fn collected(files: &[(&str, f32)]) -> Collected {
        let form = ImageForm::resized(Shape::new(1, 1, 1), ResizeFilter::Bilinear);
        let mut collector = Collector::new(&form, MAX_VALUES);
        for (name, value) in files {
            collector.add(name, &value.to_le_bytes(), vec![Samples { values: vec![*value], grid: None }]);
        }
        collector.finish().expect("valid")
    }

    #[test]
    fn order_and_leading_folders_do_not_matter() {
        let a = collected(&[("x/a/1.png", 0.1), ("x/a/2.png", 0.2), ("x/b/1.png", 0.3)]);
        let b = collected(&[("b/1.png", 0.3), ("a/2.png", 0.2), ("a/1.png", 0.1)]);
        assert_eq!((a.images.values(), a.images.labels()), (&[0.1, 0.2, 0.3][..], &[0, 0, 1][..]));
        assert_eq!((&a.images, &a.classes, &a.sha256), (&b.images, &b.classes, &b.sha256));
        assert_eq!((&a.classes[..], &a.counts[..]), (&["a".to_owned(), "b".to_owned()][..], &[2, 1][..]));
        let renamed = collected(&[("b/1.png", 0.3), ("a/3.png", 0.2), ("a/1.png", 0.1)]);
        assert_ne!(renamed.sha256, b.sha256);
    }

    #[test]
    fn one_folder_is_one_class() {
        assert_eq!(collected(&[("x/2.png", 0.1), ("x/1.png", 0.2)]).classes, [""]);
        assert_eq!(collected(&[("2.png", 0.1), ("x/1.png", 0.2)]).classes, ["", "x"]);
        assert_eq!(common_folders(["x/ä/1", "x/ö/1"].into_iter()), 2);
        assert_eq!(common_folders(["x/y", "x/yz/1"].into_iter()), 2);
        assert_eq!(common_folders(["xy/1", "xz/1"].into_iter()), 0);
    }
}
