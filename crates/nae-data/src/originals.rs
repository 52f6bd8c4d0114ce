//! Reads some of a user's images in their original sizes, before their form for training is chosen, and measures how
//! much of their detail is lost by reducing them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use nae_core::Shape;
use nae_core::contract::{Preprocessing, ResizeFilter};
use nae_input::layout::to_channels_last;
use nae_input::{Named, Pixels, prepare};
use nae_onnx::metadata::Transforms;

use crate::error::DataError;
use crate::file_names::is_image;
use crate::files::Files;
use crate::image_form::ImageForm;
use crate::image_set::{ImageSet, ImageSetError, evenly};
use crate::own::{RESIZE, images, is_grey};
use crate::parts::Parts;

/// The largest number of values that are kept; they take 1 GB.
const MAX_VALUES: usize = 1 << 28;
/// The number of images that [`detail_lost`] examines.
const LOOKED_AT: usize = 50;
/// An image with less variance has a single colour, up to the rounding of bytes.
const LEAST_VARIANCE: f64 = 1e-5;

/// Some of a user's images, in their original sizes except for very large ones, which are reduced.
#[derive(Clone, Debug, PartialEq)]
pub struct Originals {
    /// The images.
    pub images: Vec<Pixels>,
    /// The original height and width of each image.
    pub sizes: Vec<(usize, usize)>,
    /// The approximate number of all images at the path.
    pub all: usize,
}

impl Originals {
    /// Returns 1 if every image is grey, even if stored as RGB; otherwise 3.
    pub fn channels(&self) -> usize {
        if self.images.iter().all(is_grey) { 1 } else { 3 }
    }

    /// The original height and width of the image whose shorter side is the median; `None` if there are no images.
    pub fn median_size(&self) -> Option<(usize, usize)> {
        let mut sizes = self.sizes.clone();
        sizes.sort_by_key(|&(height, width)| (height.min(width), height.max(width)));
        sizes.get(sizes.len() / 2).copied()
    }

    /// Keeps only the images whose original height and width `wanted` accepts.
    pub fn retain(&mut self, wanted: impl Fn((usize, usize)) -> bool) {
        let mut kept = self.sizes.iter().map(|&size| wanted(size));
        self.images.retain(|_| kept.next().unwrap_or(false));
        self.sizes.retain(|&size| wanted(size));
    }

    /// Whether at least one image was reduced.
    pub fn are_smaller(&self) -> bool {
        self.images.iter().zip(&self.sizes).any(|(image, &size)| (image.shape.height, image.shape.width) != size)
    }
}

/// Reads at most `count` of the images at `path`, evenly spaced over the files sorted by name. An image is reduced if
/// `least` images of its size would exceed the memory limit; if the images are large, fewer are read. Files that cannot
/// be read are skipped here, since reading all of them reports these.
///
/// # Errors
/// [`DataError`] if the folder or archive cannot be read.
pub fn originals(path: &Path, count: usize, least: usize) -> Result<Originals, DataError> {
    let files = Files::open(path)?;
    let names = RefCell::new(Vec::new());
    let note = |name: &str| {
        if is_image(name) {
            names.borrow_mut().push(name.to_owned());
        }
        false
    };
    files.visit(&note, &mut |_, _| ControlFlow::Continue(()))?;
    let mut names = names.into_inner();
    names.sort();
    let most = MAX_VALUES / least.max(1);
    let some =
        |count: usize| evenly(count, names.len()).into_iter().map(|at| names[at].as_str()).collect::<BTreeSet<_>>();
    let mut chosen = some(count);
    // Counts three channels for each image, since the number of channels follows the size in the header.
    let (mut measured, mut values) = (0, 0);
    files.visit(&|name| chosen.contains(name), &mut |_, content| {
        if let Ok((width, height)) =
            content.and_then(|bytes| nae_input::dimensions(&bytes).map_err(|error| error.to_string()))
        {
            measured += 1;
            values += (3 * width as usize * height as usize).min(most);
        }
        ControlFlow::Continue(())
    })?;
    if values > MAX_VALUES {
        chosen = some(MAX_VALUES / values.div_ceil(measured.max(1)));
    }
    // A file may be a batch of many images.
    let of_each = count.div_ceil(chosen.len().max(1));
    let (mut read, mut values, mut seen) = (Vec::new(), 0_usize, 0);
    let decode = |name: &str, bytes: Vec<u8>| {
        let found = images(name, &bytes)?;
        let (count, some) = (found.len(), evenly(of_each, found.len()));
        let chosen = found.into_iter().enumerate().filter(|(at, _)| some.binary_search(at).is_ok());
        let smaller = chosen.filter_map(|(_, Named { pixels, .. })| {
            let size = (pixels.shape.height, pixels.shape.width);
            Some((at_most(pixels, most)?, size))
        });
        Ok((count, smaller.collect::<Vec<_>>()))
    };
    files.visit_decoded(&|name| chosen.contains(name), &decode, &mut |name, decoded| {
        let (count, some) = decoded.unwrap_or_default();
        seen += count;
        for (pixels, size) in some {
            if values + pixels.values.len() <= MAX_VALUES {
                values += pixels.values.len();
                read.push((name.to_owned(), pixels, size));
            }
        }
        ControlFlow::Continue(())
    })?;
    // The order of files in an archive is arbitrary.
    read.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let (images, sizes) = read.into_iter().map(|(_, pixels, size)| (pixels, size)).unzip();
    Ok(Originals { images, sizes, all: seen * names.len() / chosen.len().max(1) })
}

/// Returns the image, reduced if it has more values than `most`.
fn at_most(image: Pixels, most: usize) -> Option<Pixels> {
    if image.values.len() <= most {
        return Some(image);
    }
    let factor = (most as f64 / image.values.len() as f64).sqrt();
    let smaller = |side: usize| ((side as f64 * factor) as usize).max(1);
    let shape = Shape { height: smaller(image.shape.height), width: smaller(image.shape.width), ..image.shape };
    brought(&image, shape, RESIZE)
}

/// The fraction of the images' variance that is lost when they are reduced to squares of `side` pixels and enlarged
/// again, in [0, 1]: the median over images. 0 if no image has any detail.
pub fn detail_lost(originals: &[Pixels], side: usize) -> f64 {
    let mut lost: Vec<f64> =
        evenly(LOOKED_AT, originals.len()).into_iter().filter_map(|at| lost(&originals[at], side)).collect();
    lost.sort_by(f64::total_cmp);
    lost.get(lost.len() / 2).copied().unwrap_or_default()
}

fn lost(image: &Pixels, side: usize) -> Option<f64> {
    let small = Shape { height: side, width: side, ..image.shape };
    let smaller = brought(image, small, RESIZE)?;
    let back = brought(&smaller, image.shape, ResizeFilter::Bilinear)?;
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / image.values.len() as f64;
    let level = mean(&mut image.values.iter().map(|v| f64::from(*v)));
    let variance = mean(&mut image.values.iter().map(|v| (f64::from(*v) - level).powi(2)));
    let pairs = image.values.iter().zip(&back.values);
    let error = mean(&mut pairs.map(|(a, b)| f64::from(a - b).powi(2)));
    (variance > LEAST_VARIANCE).then(|| (error / variance).min(1.0))
}

fn brought(image: &Pixels, shape: Shape, filter: ResizeFilter) -> Option<Pixels> {
    let values = prepare(image, shape, Preprocessing::unit(filter), Transforms::default()).ok()?;
    Some(Pixels { shape, values: to_channels_last(&values, shape) })
}

impl ImageForm {
    /// Returns the samples of `originals`, all of one class.
    ///
    /// # Errors
    /// `ImageSetError::Prepare` if an image cannot be converted to the form, for example because it is smaller than a
    /// tile.
    pub fn of<'a>(&self, originals: impl IntoIterator<Item = &'a Pixels>) -> Result<ImageSet, ImageSetError> {
        let (mut values, mut places) = (Vec::new(), Vec::new());
        for (image, pixels) in originals.into_iter().enumerate() {
            let samples = self.samples(pixels);
            let samples = samples.map_err(|error| ImageSetError::Prepare { image, reason: error.to_string() })?;
            places.extend(samples.parts(image as u32, self.shape));
            values.extend(samples.values);
        }
        let set = ImageSet::new(self.shape, values, vec![0; places.len()])?;
        match self.tiles {
            Some(tiles) => set.with_parts(Parts::tiles(places, tiles.top_k)),
            None => Ok(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use nae_onnx::metadata::Tiles;

    use super::*;
    use crate::parts::Part;

    fn image(side: usize, value: impl Fn(usize, usize) -> f32) -> Pixels {
        let values = (0..side * side).map(|at| value(at % side, at / side)).collect();
        Pixels { shape: Shape::new(1, side, side), values }
    }

    #[test]
    fn fine_stripes_are_lost_and_coarse_ones_are_not() {
        let stripes = |period: usize| image(96, move |x, _| ((x / period) % 2) as f32);
        assert!(detail_lost(&[stripes(1)], 32) > 0.9);
        assert!(detail_lost(&[stripes(24)], 32) < 0.1);
        // A ramp that 32 pixels can represent, and images without any detail.
        assert!(detail_lost(&[image(96, |x, _| x as f32 / 95.0)], 32) < 1e-3);
        assert_eq!(detail_lost(&[image(96, |_, _| 0.25)], 32), 0.0);
    }

    #[test]
    fn the_median_is_that_of_shorter_sides() {
        let sizes = [(10, 100), (50, 20), (30, 30)];
        let images = sizes.map(|(height, width)| Pixels { shape: Shape::new(1, height, width), values: Vec::new() });
        let originals = Originals { images: images.into(), sizes: sizes.into(), all: 3 };
        assert_eq!(originals.median_size(), Some((50, 20)));
        assert!(!originals.are_smaller());
    }

    #[test]
    fn an_image_of_too_many_values_is_made_smaller() {
        let stripes = image(96, |x, _| (x / 48) as f32);
        assert_eq!(at_most(stripes.clone(), 96 * 96), Some(stripes.clone()));
        let smaller = at_most(stripes, 48 * 48).expect("brought");
        assert_eq!((smaller.shape, smaller.values.len()), (Shape::new(1, 48, 48), 48 * 48));
        assert!(smaller.values[0] < 0.05 && smaller.values[47] > 0.95);
    }

    #[test]
    fn samples_are_those_of_reading_in_that_form() {
        let folder = tempfile::tempdir().expect("a folder");
        for n in 0..6u8 {
            let pgm = [b"P5 24 20 255\n".to_vec(), (0..480u32).map(|at| (at * u32::from(n + 3) % 251) as u8).collect()];
            std::fs::write(folder.path().join(format!("{n}.pgm")), pgm.concat()).expect("written");
        }
        std::fs::write(folder.path().join("notes.txt"), "no image").expect("written");
        std::fs::write(folder.path().join("broken.png"), "no image").expect("written");
        let Originals { images: all, sizes, all: count } = originals(folder.path(), 100, 1).expect("read");
        assert_eq!((count, sizes), (6, vec![(20, 24); 6]));
        assert_eq!(all.iter().map(|image| image.shape).collect::<Vec<_>>(), vec![Shape::new(1, 20, 24); 6]);
        let some = originals(folder.path(), 3, 1).expect("read");
        assert_eq!((some.images.len(), some.channels(), some.median_size()), (3, 1, Some((20, 24))));
        // `least` is so large that the memory limit only allows images of half the size.
        let smaller = originals(folder.path(), 3, MAX_VALUES / 240).expect("read");
        assert_eq!(smaller.images.len(), 3);
        assert!(smaller.are_smaller() && smaller.images.iter().all(|image| image.values.len() <= 240));
        assert_eq!(smaller.median_size(), Some((20, 24)));

        std::fs::remove_file(folder.path().join("broken.png")).expect("removed");
        let tiles = Some(Tiles { stride: 6, top_k: 2 });
        let form = ImageForm { tiles, ..ImageForm::resized(Shape::new(1, 12, 12), RESIZE) };
        // Each row of tiles has three columns, six pixels apart.
        let cut = form.of(&all).expect("large enough");
        let places = cut.parts().expect("tiles").places();
        assert_eq!(places[1], Part { whole: 0, top: 0, left: 6 });
        assert_eq!(places[3], Part { whole: 0, top: 6, left: 0 });
        for form in [form, ImageForm { tiles: None, ..form }] {
            let read = crate::own::load(folder.path(), &form, crate::own::Corrupt::Refuse).expect("read");
            assert_eq!(form.of(&all).expect("large enough"), read.images);
        }
        let large = ImageForm { shape: Shape::new(1, 32, 32), ..form };
        assert!(large.of(&all).expect_err("smaller than a tile").to_string().contains("image 0"));
    }
}
