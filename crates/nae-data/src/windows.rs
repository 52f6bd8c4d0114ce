//! Cuts the rows of a time series into stretches and windows.
//!
//! A run divides its data at random, and overlapping windows must not lie in different parts. The series is therefore
//! first cut into consecutive stretches; windows lie within a stretch, and stretches are divided as wholes.

use std::ops::Range;

use nae_input::window::windows;
use nae_onnx::metadata::RowWindow;

/// The number of stretches that a long series is cut into; shares of a division are counted in stretches.
const STRETCHES: usize = 50;
/// The least length of a stretch, in windows end to end, since cutting loses the windows across the ends.
pub(super) const WINDOWS: usize = 2;

/// Cuts `rows` rows into stretches of equal length, where `total` is the number of rows of all files; the last stretch
/// takes the remainder. Returns one stretch if there are too few rows for two.
pub(super) fn stretches(rows: usize, total: usize, window: RowWindow) -> Vec<Range<usize>> {
    let length = (total / STRETCHES).max(WINDOWS.saturating_mul(window.rows)).max(1);
    let count = (rows / length).max(1);
    (0..count).map(|k| k * length..if k + 1 == count { rows } else { (k + 1) * length }).collect()
}

/// The windows of a stretch, as row ranges of the series.
pub(super) fn within(stretch: Range<usize>, window: RowWindow) -> impl Iterator<Item = Range<usize>> {
    windows(stretch.len(), window).map(move |rows| stretch.start + rows.start..stretch.start + rows.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_within_stretches_that_hold_every_row() {
        for (rows, total, size, stride) in [(1000, 1000, 5, 1), (103, 103, 5, 5), (17, 900, 5, 2), (9, 9, 9, 3)] {
            let window = RowWindow { rows: size, stride };
            let stretches = stretches(rows, total, window);
            assert_eq!((stretches[0].start, stretches.last().map(|s| s.end)), (0, Some(rows)));
            assert!(stretches.windows(2).all(|pair| pair[0].end == pair[1].start));
            for stretch in stretches {
                let all: Vec<_> = within(stretch.clone(), window).collect();
                assert!(!all.is_empty(), "{stretch:?}");
                assert!(all.iter().all(|w| w.len() == size && w.start >= stretch.start && w.end <= stretch.end));
            }
        }
        assert_eq!(stretches(1000, 1000, RowWindow { rows: 5, stride: 1 }).len(), 50);
        assert_eq!(stretches(103, 103, RowWindow { rows: 5, stride: 1 }).len(), 10);
    }
}
