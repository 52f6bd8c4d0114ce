//! The part of frames of one size that a model sees: the bounding box of the included regions, and in it the pixels
//! outside ignored regions, as ranges of columns, row by row. Hidden pixels in the box have one grey value.

use std::ops::Range;
use std::sync::Arc;

use nae_infer::input::Pixels;
use nae_infer::{Detector, ScoreError, Scored, Shape};

use super::list::{Kind, Regions};
use super::polygon::{Polygon, first_pixel};

/// The value of hidden pixels: the middle grey, which images of 8 and of 16 bits can represent, so that frames stored
/// for training are read again with the same value.
const FILL: f32 = 128.0 / 255.0;

/// The regions leave no pixel of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the regions leave no pixel of a frame of {width}×{height}: make those that are included larger, or those that are ignored \
     smaller"
)]
pub(crate) struct NothingSeen {
    width: usize,
    height: usize,
}

/// The visible part of frames of one size: at least one pixel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// The number of columns and rows of the frames.
    frame: (usize, usize),
    /// The columns of the box; the next field: its rows.
    columns: Range<usize>,
    rows: Range<usize>,
    /// For each row of the box, the visible columns, counted from its left; in order and disjoint.
    seen: Vec<Vec<Range<usize>>>,
}

impl View {
    /// Computes the effect of regions on frames of this size.
    ///
    /// # Errors
    /// [`NothingSeen`] if they leave no pixel.
    pub(super) fn new(regions: &Regions, frame: (usize, usize)) -> Result<Self, NothingSeen> {
        let (width, height) = frame;
        let nothing = NothingSeen { width, height };
        let bounds = regions
            .of(Kind::Include)
            .map(Polygon::bounds)
            .reduce(|a, b| [0, 1].map(|axis| (a[axis].0.min(b[axis].0), a[axis].1.max(b[axis].1))));
        let includes = bounds.is_some();
        let (columns, rows) = bounds.map_or((0..width, 0..height), |[x, y]| {
            let range = |(low, high), pixels| first_pixel(low, pixels)..first_pixel(high, pixels);
            (range(x, width), range(y, height))
        });
        let mut line = vec![false; width];
        let mut seen = Vec::with_capacity(rows.len());
        for row in rows.clone() {
            line.fill(!includes);
            for (kind, is_seen) in [(Kind::Include, true), (Kind::Ignore, false)] {
                for range in regions.of(kind).flat_map(|polygon| polygon.row(row, frame)) {
                    line[range].fill(is_seen);
                }
            }
            seen.push(ranges(line.get(columns.clone()).unwrap_or_default()));
        }
        if seen.iter().all(Vec::is_empty) {
            return Err(nothing);
        }
        Ok(Self { frame, columns, rows, seen })
    }

    /// The number of columns and rows of the frames.
    pub(crate) fn frame(&self) -> (usize, usize) {
        self.frame
    }

    /// Cuts the box from a frame, with grey in place of hidden pixels.
    pub(super) fn apply(&self, pixels: &Pixels) -> Pixels {
        let channels = pixels.shape.channels;
        let (width, height) = (self.columns.len(), self.rows.len());
        let mut values = vec![FILL; channels * height * width];
        let rows = pixels.values.chunks_exact(channels * pixels.shape.width).skip(self.rows.start);
        for ((row, to), seen) in rows.zip(values.chunks_exact_mut(channels * width)).zip(&self.seen) {
            let from = &row[channels * self.columns.start..];
            for range in seen {
                let range = channels * range.start..channels * range.end;
                to[range.clone()].copy_from_slice(&from[range]);
            }
        }
        Pixels { shape: Shape::new(channels, height, width), values }
    }

    /// Whether any pixel of a part of the box is visible.
    fn sees(&self, rows: Range<usize>, columns: &Range<usize>) -> bool {
        let mut ranges = self.seen.get(rows).unwrap_or_default().iter().flatten();
        ranges.any(|seen| seen.start < columns.end && columns.start < seen.end)
    }

    /// The box in fractions of the frame's width and height: left, top, width, height.
    pub(crate) fn place(&self) -> [f32; 4] {
        let (width, height) = (self.frame.0 as f32, self.frame.1 as f32);
        [
            self.columns.start as f32 / width,
            self.rows.start as f32 / height,
            self.columns.len() as f32 / width,
            self.rows.len() as f32 / height,
        ]
    }
}

/// The ranges in which the values are true.
fn ranges(line: &[bool]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for run in line.chunk_by(|a, b| a == b) {
        if run[0] {
            ranges.push(at..at + run.len());
        }
        at += run.len();
    }
    ranges
}

/// A frame as a model sees it.
pub(crate) struct Seen {
    pub(super) pixels: Pixels,
    /// The visible part of the frame; `None` without regions.
    pub(super) view: Option<Arc<View>>,
}

impl Seen {
    /// A whole image.
    pub(crate) fn whole(pixels: Pixels) -> Self {
        Self { pixels, view: None }
    }

    pub(crate) fn pixels(&self) -> &Pixels {
        &self.pixels
    }

    /// Whether it is the whole frame.
    pub(crate) fn is_whole(&self) -> bool {
        self.view.is_none()
    }

    pub(crate) fn into_view(self) -> Option<Arc<View>> {
        self.view
    }

    /// Scores it. For a model of tiles, tiles without a visible pixel are left out of the score.
    ///
    /// # Errors
    /// [`ScoreError`].
    pub(crate) fn score(&self, detector: &Detector) -> Result<Scored, ScoreError> {
        match &self.view {
            None => detector.score_pixels(&self.pixels),
            Some(view) => detector.score_pixels_where(&self.pixels, |rows, columns| view.sees(rows, &columns)),
        }
    }
}
