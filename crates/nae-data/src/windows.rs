//! The rows of a time series, cut into stretches and windows.
//!
//! A run divides its data at random. Windows that overlap must not come to lie on two sides of that, so the series is
//! cut into stretches first, one after the other; windows lie within a stretch, and stretches are divided as wholes.

use std::ops::Range;

use nae_input::window::windows;
use nae_onnx::metadata::RowWindow;

/// Stretches a series is cut into, at least; the shares of a division are of them.
const STRETCHES: usize = 50;
/// Windows end to end that a stretch has, at least: cutting costs those across its end.
const WINDOWS: usize = 2;

/// Stretches of `rows` rows, `total` being the rows of all files: equally long, the last one takes what is left over.
/// One where there are too few rows for two.
pub(super) fn stretches(rows: usize, total: usize, window: RowWindow) -> Vec<Range<usize>> {
    let length = (total / STRETCHES).max(WINDOWS.saturating_mul(window.rows)).max(1);
    let count = (rows / length).max(1);
    (0..count).map(|k| k * length..if k + 1 == count { rows } else { (k + 1) * length }).collect()
}

/// The windows of a stretch, as rows of the series.
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
