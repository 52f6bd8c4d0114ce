//! A run on features: images become the whitened features of their places, and defects are made up in images.
//!
//! The frozen network and the whitening are `nae-features`'; here its places become samples, as tiles of an image do.

use std::fmt;
use std::path::Path;

use nae_data::{Fill, ImageSet, Part, Parts, Split, squares};
use nae_features::{Backbone, Front};
use nae_onnx::check::Limits;
use nae_onnx::file;
use rand::Rng;

use crate::config::FeatureSettings;
use crate::eval::table::{Column, OutlierSet, defects, neighbours_column};
use crate::methods::Decision;
use crate::methods::reference::{Mahalanobis, NearestNeighbours};

/// Made-up defects have this part of an image's side.
const DEFECT: usize = 8;

/// A frozen network that a run cannot use. It prints the file, what was expected, what was found, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FeaturesError(Box<str>);

impl FeaturesError {
    fn at(path: &Path, problem: impl fmt::Display) -> Self {
        Self(format!("{}: {problem}", path.display()).into())
    }
}

/// Reads the frozen network at `path`. `outputs` are those whose features are used; all that are maps where none is
/// named.
///
/// # Errors
/// [`FeaturesError`].
pub fn read(path: &Path, outputs: &[String]) -> Result<Backbone, FeaturesError> {
    // That error names the file itself.
    let bytes = file::read(path, Limits::default().bytes).map_err(|error| FeaturesError(error.to_string().into()))?;
    Backbone::parse(&bytes, outputs).map_err(|error| FeaturesError::at(path, error))
}

/// Refuses data that the whitening of a run was not fitted on.
///
/// # Errors
/// [`FeaturesError`].
pub(crate) fn same_data(settings: &FeatureSettings, sha256: &str) -> Result<(), FeaturesError> {
    match &settings.data_sha256 {
        Some(expected) if expected != sha256 => {
            let problem = format!(
                "--data: expected the data that the run was begun with, of SHA-256 {expected}; found {sha256}: the features \
                 that its network knows were whitened by those"
            );
            Err(FeaturesError(problem.into()))
        }
        _ => Ok(()),
    }
}

/// What a run on features knows beside the features of its data.
#[derive(Debug)]
pub struct Features {
    places: Places,
    /// Test images, in which defects are made up.
    test: ImageSet,
    mahalanobis: Mahalanobis,
    neighbours: NearestNeighbours,
}

impl Features {
    /// Reads the frozen network that `settings` name, fits the whitening on the training images of `split`, and puts
    /// features in the place of its images. `rng` draws the defects that training may look at.
    ///
    /// # Errors
    /// [`FeaturesError`].
    pub fn new(settings: &FeatureSettings, split: &mut Split, rng: &mut impl Rng) -> Result<Self, FeaturesError> {
        let path = &settings.backbone;
        let backbone = read(path, &settings.outputs)?;
        if backbone.sha256() != settings.sha256 {
            let (expected, found) = (&settings.sha256, backbone.sha256());
            let problem = format!(
                "expected the network that the run was begun with, of SHA-256 {expected}; found {found}; put that file back"
            );
            return Err(FeaturesError::at(path, problem));
        }
        let front = Front::fit(&backbone, &all(&split.train), settings.components)
            .map_err(|error| FeaturesError::at(path, error))?;
        let places = Places { front, top_k: settings.top_k };
        let test = split.test.clone();
        let gray = squares(&split.validation, defect_side(&split.validation), Fill::Gray, rng);
        split.selection = Some(places.of(&gray));
        for part in [&mut split.train, &mut split.validation, &mut split.calibration, &mut split.test] {
            *part = places.of(part);
        }
        split.held_out = places.of(&split.held_out);
        let (mahalanobis, neighbours) = (Mahalanobis::new(&split.train), NearestNeighbours::new(&split.train));
        Ok(Self { places, test, mahalanobis, neighbours })
    }

    /// The frozen network with the whitening.
    pub const fn front(&self) -> &Front {
        &self.places.front
    }

    /// An image's score is the mean of so many largest energies of its places.
    pub const fn top_k(&self) -> usize {
        self.places.top_k
    }

    /// Each image of `images` as the features of its places.
    pub fn of(&self, images: &ImageSet) -> ImageSet {
        self.places.of(images)
    }

    /// Detectors on the same features that an NAE is compared with.
    pub fn references(&self) -> [Column<'_>; 2] {
        let mahalanobis = Column {
            key: "mahalanobis",
            title: "Mahalanobis",
            model: &self.mahalanobis,
            decision: Decision::Reconstruction,
        };
        [mahalanobis, neighbours_column(&self.neighbours)]
    }

    /// Test images with defects that were made up.
    pub fn outlier_sets(&self, rng: &mut impl Rng) -> Vec<OutlierSet> {
        let sets = defects(&self.test, defect_side(&self.test), true, rng).into_iter();
        sets.map(|set| OutlierSet { images: self.of(&set.images), ..set }).collect()
    }
}

/// From images to the features of their places.
#[derive(Debug)]
struct Places {
    front: Front,
    top_k: usize,
}

impl Places {
    fn of(&self, images: &ImageSet) -> ImageSet {
        let (shape, from) = (self.front.shape(), images.shape());
        let places = shape.height * shape.width;
        let mut values = Vec::with_capacity(images.len() * shape.len());
        for features in self.front.run(&all(images)) {
            values.extend(features);
        }
        let labels = images.labels().iter().flat_map(|&label| std::iter::repeat_n(label, places)).collect();
        let place = |at: usize| Part {
            whole: (at / places) as u32,
            top: (at % places / shape.width * from.height / shape.height) as u32,
            left: (at % shape.width * from.width / shape.width) as u32,
        };
        let parts = Parts::tiles((0..images.len() * places).map(place).collect(), self.top_k);
        ImageSet::new(nae_core::Shape::vector(shape.channels), values, labels)
            .and_then(|set| set.with_parts(parts))
            .expect("the front gives as many numbers as its shape says, within [0, 1]")
    }
}

/// Pixels of a side of the defects made up in these images.
fn defect_side(images: &ImageSet) -> usize {
    images.shape().height.min(images.shape().width) / DEFECT
}

fn all(images: &ImageSet) -> Vec<&[f32]> {
    (0..images.len()).map(|index| images.image(index)).collect()
}
