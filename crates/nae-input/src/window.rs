//! Windows of a table: consecutive rows that make one sample together, for training and for scoring.

use std::ops::Range;

use nae_onnx::metadata::{Columns, RowWindow};

use crate::table::{Row, RowError, Table, TableError};

/// Returns the windows of a table of `rows` rows: the first starts at row 0, each further one `stride` rows later. Only
/// complete windows are returned; rows after the last one are in no window.
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
    /// The windows of the table, in order.
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
        Ok(windows(self.rows().len(), window).map(move |range| {
            let rows: &[Row] = &self.rows()[range];
            let line = |row: Option<&Row>| row.map_or(0, |row| row.line);
            let prepared = rows.iter().map(|row| row.prepare(&positions, columns).map_err(|error| (row.line, error)));
            let values = prepared.collect::<Result<Vec<_>, _>>().map(|rows| rows.concat());
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
