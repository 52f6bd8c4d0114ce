//! A convolution in bands of rows, so that its output may lie over rows of its input that it has already read. The
//! output begins before the input, and a band has as many rows as end before the first row of the input that is still
//! read. Each band is a convolution by itself, which the kernels run as any other. Blacker, Bridgeman and Gibson
//! ("Reducing the memory of neural networks on microcontrollers with diagonal memory optimisation", 2021) place outputs
//! over inputs value by value.

use super::Windows;

/// The rows of a convolution's output, and the rows of its input that they read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    windows: Windows,
    /// Whether `windows` belong to a transposed convolution.
    is_transposed: bool,
    /// Rows of the first window that lie above the input, and rows from one window to the next.
    before: usize,
    stride: usize,
}

impl Rows {
    /// Returns the rows of a convolution.
    pub(crate) const fn of(windows: Windows) -> Self {
        Self { windows, is_transposed: false, before: windows.padding.top, stride: windows.stride[0] }
    }

    /// Returns the rows of a transposed convolution. With stride 1 it is a convolution over the turned kernel.
    pub(crate) const fn of_transposed(windows: Windows) -> Self {
        let before = windows.kernel[0].saturating_sub(1).saturating_sub(windows.padding.top);
        Self { windows, is_transposed: true, before, stride: 1 }
    }

    /// The number of values by which the input must begin after the output's start, so that every band can have `rows`
    /// rows: no band is then written over rows that it or a later one reads. `None` for transposed convolutions whose
    /// stride down is not 1.
    pub(crate) const fn lead(&self, rows: usize) -> Option<usize> {
        if self.is_transposed && self.windows.stride[0] != 1 {
            return None;
        }
        // Up to the last window that reads the first row, the output grows while no input becomes free; from the next
        // window on, both grow by the same amount with each row, and at the end there are no more rows to write. So the
        // maximum is at one of these rows.
        let height = self.windows.output.height;
        let last = height.saturating_sub(rows);
        let starts = match self.before.checked_div(self.stride) {
            Some(row) => [row, row + 1, last],
            None => [last; 3],
        };
        let mut lead = 0;
        let mut i = 0;
        while i < starts.len() {
            let row = if starts[i] < last { starts[i] } else { last };
            let end = if rows < height - row { row + rows } else { height };
            let behind = (end * self.output_row()).saturating_sub(self.first_read(row) * self.input_row());
            lead = if behind > lead { behind } else { lead };
            i += 1;
        }
        Some(lead)
    }

    /// Returns the bands, if the input begins `distance` values after the output's start; `usize::MAX` if it lies
    /// elsewhere.
    pub(crate) const fn bands(self, distance: usize) -> Bands {
        Bands { rows: self, distance, next: 0 }
    }

    /// First row of the input that this row of the output reads. No row below it reads an earlier one.
    const fn first_read(&self, row: usize) -> usize {
        (row * self.stride).saturating_sub(self.before)
    }

    const fn input_row(&self) -> usize {
        self.windows.input.width * self.windows.input.channels
    }

    const fn output_row(&self) -> usize {
        self.windows.output.width * self.windows.output.channels
    }
}

/// Some rows of the output as a convolution of their own.
#[derive(Debug)]
pub(crate) struct Band {
    /// The windows from the first row that is read and all that follow, to the band's rows.
    pub(crate) windows: Windows,
    /// Number of values of the input before these rows.
    pub(crate) input: usize,
    /// Number of values of the output before these rows.
    pub(crate) output: usize,
}

/// The bands of a convolution, from the first row down.
pub(crate) struct Bands {
    rows: Rows,
    distance: usize,
    next: usize,
}

impl Iterator for Bands {
    type Item = Band;

    fn next(&mut self) -> Option<Band> {
        let Self { rows, distance, next: row } = *self;
        let Windows { input, output, kernel, mut padding, .. } = rows.windows;
        if row >= output.height {
            return None;
        }
        let first = rows.first_read(row);
        let unread = first * rows.input_row();
        // No row is empty, but the compiler cannot derive this.
        let end = distance.saturating_add(unread) / rows.output_row().max(1);
        // If the distance is the lead or more, there is at least one row.
        let end = end.max(row + 1).min(output.height);
        self.next = end;
        let before = (rows.before + first).saturating_sub(row * rows.stride);
        padding.top = if rows.is_transposed { kernel[0].saturating_sub(1 + before) } else { before };
        let mut windows = Windows { padding, ..rows.windows };
        windows.input.height = input.height.saturating_sub(first);
        windows.output.height = end - row;
        Some(Band { windows, input: unread, output: row * rows.output_row() })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::Shape;
    use crate::layer::Padding;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Any convolution, or transposed convolution of stride 1 down.
    fn rows() -> impl Strategy<Value = Rows> {
        let sizes = (1usize..12, 1usize..4, 1usize..4, 1usize..4);
        (sizes, (1usize..6, 1usize..5, 0usize..5, 0usize..5), any::<bool>()).prop_map(
            |((height, width, from, to), (kernel, stride, top, bottom), is_transposed)| {
                let (top, bottom) = (top % kernel, bottom % kernel);
                let height = if is_transposed { height + top + bottom } else { height.max(kernel) };
                let rows = if is_transposed {
                    height + kernel - 1 - top - bottom
                } else {
                    (height + top + bottom - kernel) / stride + 1
                };
                let windows = Windows {
                    input: Shape::new(from, height, width),
                    output: Shape::new(to, rows, width),
                    kernel: [kernel, 1],
                    stride: [if is_transposed { 1 } else { stride }, 1],
                    padding: Padding { top, bottom, ..Padding::NONE },
                };
                if is_transposed { Rows::of_transposed(windows) } else { Rows::of(windows) }
            },
        )
    }

    /// The rows of the input that a row of the output reads, by definition.
    fn read(windows: &Windows, is_transposed: bool, row: usize) -> Vec<usize> {
        let Windows { input, kernel, stride, padding, .. } = *windows;
        let meets = |i: &usize| {
            if is_transposed {
                // Input i and tap k reach row i + k − top.
                (0..kernel[0]).any(|k| i + k == row + padding.top)
            } else {
                (0..kernel[0]).any(|k| row * stride[0] + k == i + padding.top)
            }
        };
        (0..input.height).filter(meets).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn bands_are_all_rows_and_read_what_these_read(rows in rows(), distance in 0usize..200) {
            let (mut next, row_len) = (0, rows.output_row());
            for band in rows.bands(distance) {
                prop_assert_eq!(band.output, next * row_len);
                for row in 0..band.windows.output.height {
                    let before = band.input / rows.input_row();
                    let found: Vec<_> =
                        read(&band.windows, rows.is_transposed, row).iter().map(|row| row + before).collect();
                    prop_assert_eq!(found, read(&rows.windows, rows.is_transposed, next + row));
                }
                next += band.windows.output.height;
            }
            prop_assert_eq!(next, rows.windows.output.height);
        }

        #[test]
        fn the_lead_is_the_least_distance(rows in rows(), least in 1usize..4, more in 0usize..9) {
            // Whether a band's end is not after the start of the input that is still read.
            let apart = |distance: usize, band: &Band| {
                band.output + band.windows.output.len() <= distance + band.input
            };
            let all = rows.windows.output.height;
            let lead = rows.lead(least).unwrap();
            let bands: Vec<_> = rows.bands(lead + more).collect();
            prop_assert!(bands.iter().all(|band| apart(lead + more, band)));
            let enough = |band: &Band| {
                band.windows.output.height >= least || band.output + band.windows.output.len() == rows.windows.output.len()
            };
            prop_assert!(bands.iter().all(enough));
            // With a smaller distance, some row that a band could begin with has no room for so many rows.
            let room = |row: usize| {
                let end = (row + least).min(all) * rows.output_row();
                end < lead + rows.first_read(row) * rows.input_row()
            };
            prop_assert!(!(0..all).all(room));
        }
    }

    #[test]
    fn what_lies_elsewhere_is_one_band() {
        let side = |channels, side| Shape::new(channels, side, side);
        let windows =
            Windows { input: side(4, 6), output: side(8, 13), kernel: [3, 3], stride: [2, 2], padding: Padding::NONE };
        let rows = Rows::of_transposed(windows);
        assert_eq!(rows.lead(1), None);
        let mut bands = rows.bands(usize::MAX);
        let band = bands.next().unwrap();
        assert_eq!((band.windows.input, band.windows.output), (windows.input, windows.output));
        assert_eq!((band.windows.padding, band.input, band.output), (windows.padding, 0, 0));
        assert!(bands.next().is_none());
    }
}
