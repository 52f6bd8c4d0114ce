//! A run on features: images are converted to the whitened features of their places, and artificial defects are made in
//! images.
//!
//! The frozen network and the whitening are in `nae-features`; here its places become samples, like the tiles of an
//! image.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use burn::tensor::Device;
use nae_data::{Fill, ImageSet, Part, Parts, Split, squares};
use nae_features::{Backbone, Front};
use nae_onnx::check::Limits;
use nae_onnx::file;
use rand::Rng;

use crate::config::FeatureSettings;
use crate::engine::Engine;
use crate::eval::decided;
use crate::eval::table::{Column, OutlierSet, defects, neighbours_column};
use crate::methods::Decision;
use crate::methods::reference::{Mahalanobis, NearestNeighbours};

/// The side of artificial defects is an image's shorter side divided by this.
const DEFECT: usize = 8;

/// The number of sets of artificial defects that are evaluated.
const DEFECT_SETS: usize = 3;
/// The number of images that the time of evaluation is measured on.
const MEASURED: usize = 4;

/// An error for a frozen network that a run cannot use. Its text contains the file, what was expected, what was found,
/// and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FeaturesError(Box<str>);

impl FeaturesError {
    fn at(path: &Path, problem: impl fmt::Display) -> Self {
        Self(format!("{}: {problem}", path.display()).into())
    }
}

/// Reads the frozen network at `path`. `outputs` are the names of the outputs to use; if empty, all outputs that are
/// maps.
///
/// # Errors
/// [`FeaturesError`] if the file cannot be read or used.
pub fn read(path: &Path, outputs: &[String]) -> Result<Backbone, FeaturesError> {
    // The file error already contains the file's name.
    let bytes = file::read(path, Limits::default().bytes).map_err(|error| FeaturesError(error.to_string().into()))?;
    Backbone::parse(&bytes, outputs).map_err(|error| FeaturesError::at(path, error))
}

/// Checks that the data are those that the whitening of a run was fitted on.
///
/// # Errors
/// [`FeaturesError`] if they are not.
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

/// The parts of a run on features besides the features of its data.
#[derive(Debug)]
pub struct Features {
    places: Places,
    /// The test images, in which artificial defects are made.
    test: ImageSet,
    mahalanobis: Mahalanobis,
    neighbours: NearestNeighbours,
}

impl Features {
    /// Reads the frozen network of `settings`, fits the whitening on the training images of `split`, and replaces its
    /// images by features. `rng` draws the defects of the selection set.
    ///
    /// # Errors
    /// [`FeaturesError`] if the network cannot be read, or is not that of `settings`.
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
        let places = Places { path: path.clone(), front, top_k: settings.top_k };
        let test = split.test.clone();
        let gray = squares(&split.validation, defect_side(&split.validation), Fill::Gray, rng);
        split.selection = Some(places.of(&gray)?);
        for part in
            [&mut split.train, &mut split.validation, &mut split.calibration, &mut split.test, &mut split.held_out]
        {
            *part = places.of(part)?;
        }
        let (mahalanobis, neighbours) = (Mahalanobis::new(&split.train), NearestNeighbours::new(&split.train));
        Ok(Self { places, test, mahalanobis, neighbours })
    }

    /// The frozen network with the whitening.
    pub const fn front(&self) -> &Front {
        &self.places.front
    }

    /// The number of largest energies of places that an image's score is the mean of.
    pub const fn top_k(&self) -> usize {
        self.places.top_k
    }

    /// Converts each image of `images` to the features of its places.
    ///
    /// # Errors
    /// [`FeaturesError`] if a feature is not finite.
    pub fn of(&self, images: &ImageSet) -> Result<ImageSet, FeaturesError> {
        self.places.of(images)
    }

    /// The reference detectors on the same features, for comparison with an NAE.
    pub fn references(&self) -> [Column<'_>; 2] {
        let mahalanobis = Column {
            key: "mahalanobis",
            title: "Mahalanobis",
            model: &self.mahalanobis,
            decision: Decision::Reconstruction,
        };
        [mahalanobis, neighbours_column(&self.neighbours)]
    }

    /// The expected time of the evaluation of the test images, of artificial defects in them and of `given` outliers whose
    /// features are known, by the references; measured on some images.
    pub fn evaluation_time(&self, given: usize, device: &Device) -> Duration {
        let some = self.test.some_units(MEASURED);
        let started = Instant::now();
        let Ok(places) = self.of(&some) else { return Duration::ZERO };
        let features = started.elapsed();
        for Column { model, decision, .. } in self.references() {
            decided(model, decision, &places, Engine::Burn, device);
        }
        let all = started.elapsed();
        let (measured, test) = (some.len().max(1) as f64, self.test.len());
        // The features of the test images are known, too.
        features.mul_f64((DEFECT_SETS * test) as f64 / measured)
            + (all - features).mul_f64(((DEFECT_SETS + 1) * test + given) as f64 / measured)
    }

    /// The test images with artificial defects; `gray_selects` says whether those of one grey level are the selection set.
    /// A set with features that are not finite is left out.
    pub fn outlier_sets(&self, gray_selects: bool, rng: &mut impl Rng) -> Vec<OutlierSet> {
        let sets = defects(&self.test, defect_side(&self.test), gray_selects, rng).into_iter();
        let of = |set: OutlierSet| match self.of(&set.images) {
            Ok(images) => Some(OutlierSet { images, ..set }),
            Err(error) => {
                tracing::warn!("{} are not evaluated: {error}", set.name);
                None
            }
        };
        sets.filter_map(of).collect()
    }
}

/// Converts images to the features of their places.
#[derive(Debug)]
struct Places {
    /// The file of the frozen network, for messages.
    path: PathBuf,
    front: Front,
    top_k: usize,
}

impl Places {
    fn of(&self, images: &ImageSet) -> Result<ImageSet, FeaturesError> {
        let (shape, from) = (self.front.shape(), images.shape());
        let places = shape.height * shape.width;
        let mut values = Vec::with_capacity(images.len() * shape.len());
        for (image, features) in self.front.run(&all(images)).into_iter().enumerate() {
            // The range is that of a clamp, which NaN passes.
            if !features.iter().all(|feature| feature.is_finite()) {
                let problem = format_args!(
                    "expected features that are finite, found others for image {image}: the network's numbers exceed the range \
                     of f32; use another network, or other outputs of it"
                );
                return Err(FeaturesError::at(&self.path, problem));
            }
            values.extend(features);
        }
        let labels = images.labels().iter().flat_map(|&label| std::iter::repeat_n(label, places)).collect();
        let place = |at: usize| Part {
            whole: (at / places) as u32,
            top: (at % places / shape.width * from.height / shape.height) as u32,
            left: (at % shape.width * from.width / shape.width) as u32,
        };
        let parts = Parts::tiles((0..images.len() * places).map(place).collect(), self.top_k);
        Ok(ImageSet::new(nae_core::Shape::vector(shape.channels), values, labels)
            .and_then(|set| set.with_parts(parts))
            .expect("the front gives as many numbers as its shape says, within [0, 1]"))
    }
}

/// The side of the artificial defects in these images, in pixels.
fn defect_side(images: &ImageSet) -> usize {
    images.shape().height.min(images.shape().width) / DEFECT
}

fn all(images: &ImageSet) -> Vec<&[f32]> {
    (0..images.len()).map(|index| images.image(index)).collect()
}
