//! Windows of a table: consecutive rows that make one sample together, for training and for scoring.

use std::ops::Range;

use nae_onnx::metadata::{Columns, RowWindow};

use crate::table::{Row, RowError, Table, TableError};

/// Returns the windows of `rows` rows for training: the first starts at row 0, each further one `stride` rows later. Only
/// complete windows are returned; rows after the last one are in no window. [`covering`] is for scoring.
///
/// ```
/// use nae_input::window::windows;
/// use nae_onnx::metadata::RowWindow;
/// let found: Vec<_> = windows(8, RowWindow { rows: 3, stride: 2 }).collect();
/// assert_eq!(found, [0..3, 2..5, 4..7]);
/// ```
pub fn windows(rows: usize, window: RowWindow) -> impl Iterator<Item = Range<usize>> {
    let last = rows.checked_sub(window.rows);
    let starts = last.map(|last| (0..=last).step_by(window.stride.max(1)));
    starts.into_iter().flatten().map(move |start| start..start + window.rows)
}

/// Returns the windows with which `rows` rows are scored, in order: those of [`windows`], and one that ends at the last row. The
/// rows of `unusable`, in ascending order, cannot be used, and so no window with one of them has an energy: each stretch
/// of rows between them also has a window at its start and one at its end. So every row is in a window, unless `stride` is
/// larger than a window, and every row of a stretch as long as a window is in one that can be scored.
///
/// ```
/// use nae_input::window::covering;
/// use nae_onnx::metadata::RowWindow;
/// let window = RowWindow { rows: 3, stride: 2 };
/// assert_eq!(covering(8, window, []), [0..3, 2..5, 4..7, 5..8]);
/// // Of row 4 there is no energy.
/// assert_eq!(covering(8, window, [4]), [0..3, 1..4, 2..5, 4..7, 5..8]);
/// ```
pub fn covering(rows: usize, window: RowWindow, unusable: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let last_within = |end: usize| end.checked_sub(window.rows);
    let mut starts: Vec<usize> = windows(rows, window).map(|range| range.start).chain(last_within(rows)).collect();
    let mut begin = 0;
    for end in unusable.into_iter().chain([rows]) {
        starts.extend(last_within(end).filter(|&last| last >= begin).into_iter().flat_map(|last| [begin, last]));
        begin = end + 1;
    }
    starts.sort_unstable();
    starts.dedup();
    starts.into_iter().map(|start| start..start + window.rows).collect()
}

/// A window of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The line of the first row, from 1.
    pub first: u64,
    /// The line of the last row.
    pub last: u64,
    /// The network's input, row after row, or the line of a row that cannot be used and its error.
    pub values: Result<Vec<f32>, (u64, RowError)>,
}

impl Table {
    /// The windows with which the table is scored, in order: those of [`covering`].
    ///
    /// # Errors
    /// [`TableError::Rows`] if there are fewer rows than in one window; the errors of [`Table::positions`].
    pub fn windows<'a>(
        &'a self,
        columns: &'a Columns,
        window: RowWindow,
    ) -> Result<impl Iterator<Item = Prepared> + 'a, TableError> {
        let positions = self.positions(columns)?;
        if self.rows().len() < window.rows {
            let (expected, found) = (window.rows, self.rows().len());
            return Err(TableError::Rows { path: self.path().to_owned(), expected, found });
        }
        // Once, though windows overlap and a row is in several of them.
        let prepared: Vec<_> = self.rows().iter().map(|row| row.prepare(&positions, columns)).collect();
        let unusable = prepared.iter().enumerate().filter(|(_, values)| values.is_err());
        let ranges = covering(self.rows().len(), window, unusable.map(|(index, _)| index));
        Ok(ranges.into_iter().map(move |range| {
            let rows: &[Row] = &self.rows()[range.clone()];
            let line = |row: Option<&Row>| row.map_or(0, |row| row.line);
            let values = rows.iter().zip(&prepared[range]).map(|(row, values)| match values {
                Ok(values) => Ok(values.as_slice()),
                Err(error) => Err((row.line, error.clone())),
            });
            let values = values.collect::<Result<Vec<_>, _>>().map(|rows| rows.concat());
            Prepared { first: line(rows.first()), last: line(rows.last()), values }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nae_onnx::metadata::{Column, Missing};

    use super::*;
    use crate::table::parse;

    #[test]
    fn windows_follow_one_another() {
        let starts =
            |rows, of, stride| windows(rows, RowWindow { rows: of, stride }).map(|w| w.start).collect::<Vec<_>>();
        assert_eq!(starts(5, 5, 1), [0]);
        assert_eq!(starts(7, 5, 1), [0, 1, 2]);
        assert_eq!(starts(12, 5, 5), [0, 5]);
        assert!(starts(4, 5, 1).is_empty());
    }

    /// Otherwise nobody would learn that the last rows have no energy.
    #[test]
    fn the_last_window_ends_at_the_last_row() {
        let starts = |rows, of, stride| starts_beside(rows, of, stride, &[]);
        assert_eq!(starts(38, 20, 20), [0, 18]);
        assert_eq!(starts(40, 20, 20), [0, 20]);
        assert_eq!(starts(41, 20, 20), [0, 20, 21]);
        assert_eq!(starts(9, 3, 2), [0, 2, 4, 6]);
        assert_eq!(starts(10, 3, 2), [0, 2, 4, 6, 7]);
        assert_eq!(starts(7, 5, 1), [0, 1, 2]);
        assert_eq!(starts(5, 5, 3), [0]);
        // Rows between windows are left out on purpose, the last ones are not.
        assert_eq!(starts(12, 2, 7), [0, 7, 10]);
        assert!(starts(4, 5, 1).is_empty());
    }

    #[test]
    fn rows_beside_one_that_cannot_be_used_are_in_windows_without_it() {
        // Rows 0 to 22, and 24 to 37; the windows at 20 and of the last rows are those that would be without a gap.
        assert_eq!(starts_beside(38, 10, 10, &[23]), [0, 10, 13, 20, 24, 28]);
        // Rows 31 to 37 are fewer than a window: the one at 18 tells which row is the reason.
        assert_eq!(starts_beside(38, 20, 20, &[30]), [0, 10, 18]);
        assert_eq!(starts_beside(12, 5, 5, &[0]), [0, 1, 5, 7]);
        assert_eq!(starts_beside(12, 5, 5, &[11]), [0, 5, 6, 7]);
        // Rows 2 to 6 are a window, rows 8 and 9 are none.
        assert_eq!(starts_beside(13, 5, 5, &[1, 7, 10]), [0, 2, 5, 8]);
        assert_eq!(starts_beside(6, 3, 1, &[2]), [0, 1, 2, 3]);
        assert_eq!(starts_beside(5, 5, 2, &[0, 1, 2, 3, 4]), [0]);
    }

    fn starts_beside(rows: usize, of: usize, stride: usize, unusable: &[usize]) -> Vec<usize> {
        let found = covering(rows, RowWindow { rows: of, stride }, unusable.iter().copied());
        assert!(found.iter().all(|range| range.len() == of && range.end <= rows), "{found:?}");
        found.into_iter().map(|range| range.start).collect()
    }

    #[test]
    fn a_table_is_scored_to_its_last_row() {
        let columns = Columns::new(vec![Column::number("a", 0.0, 1.0, 4.0)], Missing::Refuse).unwrap();
        let table = parse(Path::new("t.csv"), b"a\n0\n1\n2\n\"\"\n4\n5\n6\n7\n").unwrap();
        let found: Vec<_> = table.windows(&columns, RowWindow { rows: 3, stride: 3 }).unwrap().collect();
        let lines: Vec<_> = found.iter().map(|window| (window.first, window.last, window.values.is_ok())).collect();
        // Line 5 has no reading.
        assert_eq!(lines, [(2, 4, true), (5, 7, false), (6, 8, true), (7, 9, true)]);
    }

    #[test]
    fn a_window_is_named_by_its_lines_and_a_bad_row_by_its_own() {
        let column = |name: &str| Column::number(name, 0.0, 1.0, 4.0);
        let columns = Columns::new(vec![column("b"), column("a")], Missing::Refuse).unwrap();
        let table = parse(Path::new("t.csv"), b"a,b\n0,4\n\n-4,0\n0,0\n0,\n").unwrap();
        let window = RowWindow { rows: 2, stride: 1 };
        let found: Vec<_> = table.windows(&columns, window).unwrap().collect();
        assert_eq!(found[0], Prepared { first: 2, last: 4, values: Ok(vec![1.0, 0.5, 0.5, 0.0]) });
        assert_eq!(found[2], Prepared { first: 5, last: 6, values: Err((6, RowError::Missing("b".to_owned()))) });
        assert_eq!(found.len(), 3);
        let error = table.windows(&columns, RowWindow { rows: 5, stride: 1 }).err().unwrap().to_string();
        assert!(error.contains("t.csv") && error.contains("at least 5 rows") && error.contains("found 4"), "{error}");
    }
}
