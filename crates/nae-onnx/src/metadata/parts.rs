//! Division of samples larger than the network's input: of an image into tiles, of a time series into windows.
//! `nae-infer` combines the parts' energies to scores.

use serde::{Deserialize, Serialize};

/// An image of any size, cut into tiles of the size of the network's input.
///
/// Along either axis, tiles begin at 0, `stride`, 2·`stride` and so on; if these do not cover the image, one more tile
/// ends at the image's edge. The image's score is the mean of the `top_k` largest energies of its tiles, or of all if
/// there are fewer. Calibration uses the scores of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiles {
    /// The distance between tiles in pixels; at most a tile's side, so that every pixel is covered.
    pub stride: usize,
    /// The number of largest energies that are averaged; 1 for the maximum.
    pub top_k: usize,
}

/// A model of features: it does not reconstruct the image, but K features that a frozen network computes at each
/// position.
///
/// Its graph has the outputs `features` and `reconstruction`, both `[N, K, rows, columns]`; the energy of a position is
/// that of its K numbers, and the image's score is the mean of the `top_k` largest, or of all if there are fewer.
/// Calibration uses the scores of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// K, the number of features at each position.
    pub components: usize,
    /// The number of rows of positions.
    pub rows: usize,
    /// The number of columns of positions.
    pub columns: usize,
    /// The number of largest energies that are averaged; 1 for the maximum.
    pub top_k: usize,
}

/// Successive rows of a table that form one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowWindow {
    /// The number of rows of a sample. The network's input contains row after row, and in each row the columns.
    pub rows: usize,
    /// The number of rows from the beginning of one window to that of the next.
    pub stride: usize,
}
