//! What a model sees of frames of one size: the bounding box of what is included, and in it the pixels that are in no ignored
//! region, as ranges of columns, row by row. What is in the box and not seen has one grey.

use std::ops::Range;
use std::sync::Arc;

use nae_infer::input::Pixels;
use nae_infer::{Detector, ScoreError, Scored, Shape};

use super::list::{Kind, Regions};
use super::polygon::{Polygon, first_pixel};

/// What takes the place of pixels that are not seen: the grey in the middle, a value that images of 8 and of 16 bits have, so that
/// frames that are kept to train on are read again with the same.
const FILL: f32 = 128.0 / 255.0;

/// The regions leave nothing of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the regions leave no pixel of a frame of {width}×{height}: make those that are included larger, or those that are ignored \
     smaller"
)]
pub(crate) struct NothingSeen {
    width: usize,
    height: usize,
}

/// What is seen of frames of one size: one pixel at least.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Columns and rows of the frames.
    frame: (usize, usize),
    /// The box.
    columns: Range<usize>,
    rows: Range<usize>,
    /// Of each row of the box the columns that are seen, counted from its left; in order, and apart.
    seen: Vec<Vec<Range<usize>>>,
}

impl View {
    /// What regions leave of frames of this size.
    ///
    /// # Errors
    /// [`NothingSeen`].
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

    /// Columns and rows of the frames.
    pub(crate) fn frame(&self) -> (usize, usize) {
        self.frame
    }

    /// The box of a frame, and grey where it is not seen.
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

    /// Whether any pixel of a part of the box is seen.
    fn sees(&self, rows: Range<usize>, columns: &Range<usize>) -> bool {
        let mut ranges = self.seen.get(rows).unwrap_or_default().iter().flatten();
        ranges.any(|seen| seen.start < columns.end && columns.start < seen.end)
    }

    /// The box in shares of the frame's width and height: left, top, width, height.
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

/// The ranges that are true.
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
    /// What it is of the frame; all where there are no regions.
    pub(super) view: Option<Arc<View>>,
}

impl Seen {
    /// All of an image.
    pub(crate) fn whole(pixels: Pixels) -> Self {
        Self { pixels, view: None }
    }

    pub(crate) fn pixels(&self) -> &Pixels {
        &self.pixels
    }

    /// Whether it is all of the frame.
    pub(crate) fn is_whole(&self) -> bool {
        self.view.is_none()
    }

    pub(crate) fn into_view(self) -> Option<Arc<View>> {
        self.view
    }

    /// Scores it. Of a model that looks at tiles, those of which nothing is seen have no part in the score.
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
