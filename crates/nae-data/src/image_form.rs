//! How images are converted to samples of a model: resized to its input shape, or cut into tiles of that shape.

use nae_core::Shape;
use nae_core::contract::{Preprocessing, ResizeFilter};
use nae_input::layout::to_channels_last;
use nae_input::tiling::Grid;
use nae_input::{Pixels, PrepareError, prepare};
use nae_onnx::metadata::{Tiles, Transforms};

use crate::image_set::{ImageSet, ImageSetError};
use crate::parts::Part;

/// How an image is converted to samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageForm {
    /// The shape of a sample.
    pub shape: Shape,
    /// How an image of another size is resized, if it is not cut into tiles.
    pub filter: ResizeFilter,
    /// How an image is cut into tiles; `None` if it is resized as a whole.
    pub tiles: Option<Tiles>,
    /// The transforms that are applied to an image first.
    pub transforms: Transforms,
}

/// The samples of one image, one after the other, channels first, values in [0, 1], with the grid of their positions if
/// they are tiles.
pub(super) struct Samples {
    pub(super) values: Vec<f32>,
    pub(super) grid: Option<Grid>,
}

impl Samples {
    /// The position of each sample of `shape` in the image, whose number is `whole`.
    pub(super) fn parts(&self, whole: u32, shape: Shape) -> impl Iterator<Item = Part> {
        (0..self.values.len() / shape.len()).map(move |tile| {
            let (top, left) = self.grid.as_ref().map_or((0, 0), |grid| grid.place(tile));
            // The sides of an image fit into 32 bits.
            Part { whole, top: top as u32, left: left as u32 }
        })
    }
}

impl ImageForm {
    /// The form of images that are resized to `shape` with `filter`.
    pub fn resized(shape: Shape, filter: ResizeFilter) -> Self {
        Self { shape, filter, tiles: None, transforms: Transforms::default() }
    }

    /// Converts the images of a set that was already read, one sample each; they stay unchanged if shape and transforms
    /// agree.
    ///
    /// # Errors
    /// `ImageSetError` if the images of the set are neither grey nor RGB.
    pub fn bring(&self, set: ImageSet) -> Result<ImageSet, ImageSetError> {
        if set.shape() == self.shape && self.transforms == Transforms::default() {
            return Ok(set);
        }
        let from = set.shape();
        let mut values = Vec::with_capacity(set.len() * self.shape.len());
        for index in 0..set.len() {
            let pixels = Pixels { shape: from, values: to_channels_last(set.image(index), from) };
            let samples = Self { tiles: None, ..*self }.samples(&pixels);
            values.extend(
                samples.map_err(|error| ImageSetError::Prepare { image: index, reason: error.to_string() })?.values,
            );
        }
        ImageSet::new(self.shape, values, set.labels().to_vec())
    }

    /// The number of samples of an image in the shape `image`.
    ///
    /// # Errors
    /// [`PrepareError`] if the image is smaller than a tile.
    pub fn count(&self, image: Shape) -> Result<usize, PrepareError> {
        Ok(self.grid(image)?.map_or(1, |grid| grid.len()))
    }

    fn grid(&self, image: Shape) -> Result<Option<Grid>, PrepareError> {
        let image = Shape { channels: self.shape.channels, ..image };
        self.tiles.map(|Tiles { stride, .. }| Grid::new(image, self.shape, stride)).transpose()
    }

    /// Returns the samples of an image, exactly as in scoring.
    pub(super) fn samples(&self, pixels: &Pixels) -> Result<Samples, PrepareError> {
        let preprocessing = Preprocessing::unit(self.filter);
        let Some(grid) = self.grid(pixels.shape)? else {
            return Ok(Samples { values: prepare(pixels, self.shape, preprocessing, self.transforms)?, grid: None });
        };
        let image = Shape { channels: self.shape.channels, ..pixels.shape };
        let values = grid.cut(&prepare(pixels, image, preprocessing, self.transforms)?, 0..grid.len());
        Ok(Samples { values, grid: Some(grid) })
    }
}
