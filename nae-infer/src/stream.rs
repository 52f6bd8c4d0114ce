//! One camera's images, one after the other: each is scored, and the alarm filter says whether the alarm is on.

use image::DynamicImage;
use nae_core::verdict::{AlarmFilter, AlarmSettings, AlarmSettingsError};
use nae_input::Pixels;

use crate::detector::{Detector, ScoreError, Scored};

/// The longest window of an alarm filter, in images.
pub const LONGEST_WINDOW: usize = 256;

/// A detector and what it found in the last images of one camera. [`Detector::stream`] makes one for each camera.
#[derive(Clone)]
pub struct Stream {
    detector: Detector,
    filter: AlarmFilter<LONGEST_WINDOW>,
}

/// An image of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// What is known of the image.
    pub scored: Scored,
    /// Whether the alarm is on.
    pub alarm: bool,
}

impl Stream {
    pub(crate) fn new(detector: Detector, settings: AlarmSettings) -> Result<Self, AlarmSettingsError> {
        Ok(Self { detector, filter: AlarmFilter::new(settings)? })
    }

    /// Scores the next image. One that cannot be scored leaves the alarm as it was; so does any image of a model
    /// without threshold.
    ///
    /// # Errors
    /// [`ScoreError`].
    pub fn score(&mut self, image: &DynamicImage) -> Result<Observed, ScoreError> {
        self.score_pixels(&Pixels::from(image))
    }

    /// Scores the next image, in memory.
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

    /// Puts the alarm off and forgets the last images: after a pause, say.
    pub fn reset(&mut self) {
        self.filter.reset();
    }
}

impl Detector {
    /// For the images of one camera in turn, with an alarm filter of its own: the builder's, or one by which the alarm
    /// is on while the last image is an anomaly.
    ///
    /// # Errors
    /// [`AlarmSettingsError::Window`] where the filter's window is longer than
    /// [`LONGEST_WINDOW`](crate::stream::LONGEST_WINDOW).
    pub fn stream(&self) -> Result<Stream, AlarmSettingsError> {
        Stream::new(self.clone(), self.alarm().map_or_else(|| AlarmSettings::new(1, 0, 1), Ok)?)
    }
}
