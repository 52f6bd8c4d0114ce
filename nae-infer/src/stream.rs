//! A camera's stream of images: each image is scored, and an alarm filter decides whether the alarm is on.

use image::DynamicImage;
use nae_core::verdict::{AlarmFilter, AlarmSettings, AlarmSettingsError};
use nae_input::Pixels;

use crate::detector::{Detector, ScoreError, Scored};

/// The longest window of an alarm filter, in images.
pub const LONGEST_WINDOW: usize = 256;

/// A detector and the alarm filter of one camera. [`Detector::stream`] creates one for each camera.
#[derive(Clone)]
pub struct Stream {
    detector: Detector,
    filter: AlarmFilter<LONGEST_WINDOW>,
}

/// An image of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The image's score.
    pub scored: Scored,
    /// Whether the alarm is on.
    pub alarm: bool,
}

impl Stream {
    pub(crate) fn new(detector: Detector, settings: AlarmSettings) -> Result<Self, AlarmSettingsError> {
        Ok(Self { detector, filter: AlarmFilter::new(settings)? })
    }

    /// Scores the next image. The alarm does not change if the image cannot be scored, or if the model has no threshold.
    ///
    /// # Errors
    /// [`ScoreError`]; [`ScoreError::Table`] for a model of tables.
    pub fn score(&mut self, image: &DynamicImage) -> Result<Observed, ScoreError> {
        self.score_pixels(&Pixels::from(image))
    }

    /// Scores the next image, given as decoded pixels.
    ///
    /// # Errors
    /// [`ScoreError`].
    pub fn score_pixels(&mut self, pixels: &Pixels) -> Result<Observed, ScoreError> {
        let scored = self.detector.score_pixels(pixels)?;
        if let Some(verdict) = scored.verdict {
            self.filter.observe(verdict);
        }
        Ok(Observed { scored, alarm: self.filter.is_raised() })
    }

    /// Clears the alarm and the filter's memory of the last images, for example after a pause.
    pub fn reset(&mut self) {
        self.filter.reset();
    }
}

impl Detector {
    /// A stream for the images of one camera. Its alarm filter has the builder's settings; without them the alarm is on while
    /// the last image is an anomaly.
    ///
    /// # Errors
    /// [`AlarmSettingsError::Window`] if the filter's window is longer than
    /// [`LONGEST_WINDOW`](crate::stream::LONGEST_WINDOW).
    pub fn stream(&self) -> Result<Stream, AlarmSettingsError> {
        Stream::new(self.clone(), self.alarm().map_or_else(|| AlarmSettings::new(1, 0, 1), Ok)?)
    }
}
