//! What is larger than the network's input, and how it is cut into parts: an image into tiles, a time series into
//! windows. How parts become scores is `nae-infer`'s.

use serde::{Deserialize, Serialize};

/// An image of any size, cut into tiles of the size of the network's input.
///
/// Along either side tiles begin at 0, `stride`, 2·`stride` and so on, and one more ends with the image where these
/// leave something over. The image's score is the mean of the `top_k` largest energies of its tiles; of all where there
/// are fewer. Calibration is over scores of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiles {
    /// Pixels from one tile to the next; at most a tile's side, so that no pixel is left out.
    pub stride: usize,
    /// How many of the largest energies are averaged; 1 for the largest alone.
    pub top_k: usize,
}

/// A model of features: it reconstructs what a frozen network says of each place of an image, K numbers, not the image.
///
/// Its graph gives `features` and `reconstruction`, `[N, K, rows, columns]` both; the energy of a place is that of its K
/// numbers, and the image's score the mean of the `top_k` largest; of all where there are fewer. Calibration is over
/// scores of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// K.
    pub components: usize,
    /// Rows of places.
    pub rows: usize,
    /// Columns of places.
    pub columns: usize,
    /// How many of the largest energies are averaged; 1 for the largest alone.
    pub top_k: usize,
}

/// Rows of a table that follow one another and make one sample together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowWindow {
    /// Rows of a sample. The network's input has row after row, and in a row the columns.
    pub rows: usize,
    /// Rows from the beginning of one window to that of the next.
    pub stride: usize,
}
