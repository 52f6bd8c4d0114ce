//! A user's table, `.csv` or `.tsv`, or a folder of them, with scaled columns of numbers and columns of categories. A
//! sample is one row, or one window of a time series.
//!
//! Reading is done by `nae-infer`, and [`Columns`] converts the cells as in scoring. [`choose`] selects the columns
//! with `table_columns`; [`load`] reads a table with given columns. For evaluation, values beyond a column's span are
//! clamped to its ends; scoring does not clamp them.

use std::path::Path;

use nae_core::Shape;
use nae_input::table::{RowError, TableError};
use nae_onnx::metadata::{Column, Columns, ColumnsError, Missing, RowWindow};
use serde::{Deserialize, Serialize};

use crate::image_set::{ImageSet, ImageSetError};
use crate::parts::{Part, Parts};
use crate::table_columns::{self, Chosen};
use crate::tables::{MAX_COLUMNS, Read, read};

use crate::error::DataError;
use crate::windows::{stretches, within};

/// With fewer inputs there are no dependencies between inputs to learn.
const MIN_COLUMNS: usize = 2;
/// With fewer stretches of a time series, not every part of the data would get one.
const MIN_STRETCHES: usize = 10;

/// The title of a user's table, and the columns that are trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnTable {
    /// The name of the file, for tables and metadata.
    pub title: String,
    /// How missing readings are treated.
    pub missing: Missing,
    /// The number of rows of a sample and their stride; `None` if each row is a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<RowWindow>,
    /// The columns, in the order of the network's input.
    pub columns: Vec<Column>,
}

impl OwnTable {
    /// The shape of a sample: height = columns and width 1 for a row; height = rows and width = columns for a window.
    pub fn shape(&self) -> Shape {
        match self.window {
            None => Shape::new(1, self.columns.len(), 1),
            Some(RowWindow { rows, .. }) => Shape::new(1, rows, self.columns.len()),
        }
    }

    /// The columns after a check of their consistency.
    ///
    /// # Errors
    /// [`ColumnsError`] if the columns are inconsistent.
    pub fn checked(&self) -> Result<Columns, ColumnsError> {
        Columns::new(self.columns.clone(), self.missing)
    }
}

/// The samples of a table.
#[derive(Clone, Debug)]
pub struct Rows {
    /// One sample for each row or window, all of class 0.
    pub samples: ImageSet,
    /// The number of rows read.
    pub rows: usize,
    /// The SHA-256 of the file, in hexadecimal; for a folder, of the files' names and contents.
    pub sha256: String,
    /// Warnings about the data that affect how far a model can be trusted, one sentence each.
    pub warnings: Vec<String>,
}

/// Reads the table at `path` and chooses its columns: all that contain numbers or categories and more than one value.
/// `window` gives the number of rows of a sample.
///
/// # Errors
/// [`DataError`] with the file, the line and column, what was expected, what was found, and what to do.
pub fn choose(path: &Path, missing: Missing, window: Option<RowWindow>) -> Result<(OwnTable, Rows), DataError> {
    let read = read(path)?;
    let Chosen { columns, left_out } = table_columns::choose(&read, missing);
    let least = if window.is_some() { 1 } else { MIN_COLUMNS };
    if !(least..=MAX_COLUMNS).contains(&columns.len()) {
        let found = columns.len();
        let expected = format_args!("{least} to {MAX_COLUMNS} columns of numbers or categories that vary");
        let left_out =
            if left_out.is_empty() { String::new() } else { format!("; columns left out: {}", left_out.join(", ")) };
        return Err(DataError::at(path, format_args!("expected {expected}, found {found}{left_out}")));
    }
    if let Some(RowWindow { rows, .. }) = window
        && rows.saturating_mul(columns.len()) > MAX_COLUMNS
    {
        let columns = columns.len();
        let found = format_args!("{rows} rows of {columns} columns are more than {MAX_COLUMNS} values");
        return Err(DataError::at(path, format_args!("{found}; take a shorter --window")));
    }
    let own = OwnTable { title: crate::files::title(path), missing, window, columns };
    let mut rows = samples(path, &own, &read, true)?;
    if !left_out.is_empty() {
        rows.warnings.insert(0, format!("columns left out: {}", left_out.join(", ")));
    }
    Ok((own, rows))
}

/// Reads the table at `path` with the columns of `own`, for data that will be divided: windows of a time series lie
/// within stretches, which are divided as wholes and never span two files.
///
/// # Errors
/// [`DataError`] with the file, the line and column, what was expected, what was found, and what to do.
pub fn load(path: &Path, own: &OwnTable) -> Result<Rows, DataError> {
    samples(path, own, &read(path)?, true)
}

/// Same as [`load`], for data that will not be divided: of a time series, it returns all windows of each file, as in
/// scoring.
///
/// # Errors
/// The same as for [`load`].
pub fn load_whole(path: &Path, own: &OwnTable) -> Result<Rows, DataError> {
    samples(path, own, &read(path)?, false)
}

fn samples(path: &Path, own: &OwnTable, read: &Read, divided: bool) -> Result<Rows, DataError> {
    let columns = own.checked().map_err(|cause| DataError::at(path, cause))?;
    let (mut values, mut places, mut whole) = (Vec::new(), Vec::new(), 0);
    let (mut filled, mut moved) = (0, 0);
    for table in &read.tables {
        let file = table.path();
        let positions = table.positions(&columns)?;
        let mut prepared = Vec::with_capacity(table.rows().len());
        for row in table.rows() {
            let values = row.prepare(&positions, &columns).map_err(|cause| {
                let hint = match cause {
                    RowError::Missing(_) => {
                        "fill it in, remove the row, or have gaps taken for what they are with --missing fill"
                    }
                    _ => "mend or remove the row, or remove the column",
                };
                DataError::new(format_args!("{}, line {}: {cause}; {hint}", file.display(), row.line))
            })?;
            filled += usize::from(row.is_filled(&positions, &columns));
            moved += usize::from(values.iter().any(|value| !(0.0..=1.0).contains(value)));
            prepared.push(values.into_iter().map(|value| value.clamp(0.0, 1.0)).collect::<Vec<f32>>());
        }
        let Some(window) = own.window else {
            values.extend(prepared.into_iter().flatten());
            continue;
        };
        if prepared.len() < window.rows {
            let (expected, found) = (window.rows, prepared.len());
            return Err(TableError::Rows { path: file.to_owned(), expected, found }.into());
        }
        let all = std::iter::once(0..prepared.len()).collect();
        let parts = if divided { stretches(prepared.len(), read.rows(), window) } else { all };
        for stretch in parts {
            for rows in within(stretch, window) {
                places.push(Part { whole, top: rows.start as u32, left: 0 });
                values.extend(prepared[rows].iter().flatten());
            }
            whole += 1;
        }
    }
    let count = read.rows();
    if let Some(window) = own.window
        && divided
        && (whole as usize) < MIN_STRETCHES
    {
        let expected = MIN_STRETCHES * 2 * window.rows;
        let expected = format_args!("at least {expected} rows for windows of {}", window.rows);
        return Err(DataError::at(path, format_args!("expected {expected}, found {count}; take a shorter --window")));
    }
    let mut warnings = Vec::new();
    if filled > 0 {
        warnings.push(format!(
            "{filled} of {count} rows lack a reading: the column's median is taken for it, and an input says so"
        ));
    }
    if moved > 0 {
        warnings.push(format!(
            "{moved} of {count} rows have a reading beyond the columns' spans, and are evaluated as if at their ends; \
             scored, they stand out more"
        ));
    }
    let wrong = |cause: ImageSetError| DataError::at(path, cause);
    let labels = vec![0; values.len() / own.shape().len()];
    let mut samples = ImageSet::new(own.shape(), values, labels).map_err(wrong)?;
    if own.window.is_some() {
        samples = samples.with_parts(Parts::windows(places)).map_err(wrong)?;
    }
    Ok(Rows { samples, rows: count, sha256: read.sha256.clone(), warnings })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use nae_onnx::metadata::Reading;

    use super::*;

    fn file(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("pump.csv");
        std::fs::write(&path, text).expect("writes");
        path
    }

    #[test]
    fn columns_of_numbers_are_scaled_by_median_and_quartiles() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = file(folder.path(), "time,a,fixed,b\nnoon,1,7,-2\nnoon,3,7,-6\nnoon,2,7,-6\n");
        let (own, rows) = choose(&path, Missing::Refuse, None).expect("valid");
        // Quartiles of 1, 2, 3 are 1.5 and 2.5; of −6, −6, −2 they are −6 and −4.
        let column = |name: &str, center, range: f64| Column {
            knee: Some(3.0),
            ..Column::number(name, center, range / 1.3489795003921634, 4.0)
        };
        assert_eq!(
            (own.title.as_str(), &own.columns[..]),
            ("pump", &[column("a", 2.0, 1.0), column("b", -6.0, 2.0)][..])
        );
        let value = |scales: f64| (0.5 + 1.3489795003921634 * scales / 8.0) as f32;
        assert_eq!(rows.samples.shape(), own.shape());
        for (found, scales) in rows.samples.values().iter().zip([-1.0, 2.0, 1.0, 0.0, 0.0, 0.0]) {
            assert!((found - value(scales)).abs() < 1e-6, "{found} {scales}");
        }
        assert_eq!(rows.warnings, ["columns left out: time (always the same), fixed (always the same)"]);

        // Another table is read with the same columns: the order of its columns does not matter, and scales are not
        // computed again.
        let path = file(folder.path(), "b,a\n-6,1e9\n");
        let other = load(&path, &own).expect("valid");
        assert_eq!(other.samples.values(), [1.0, 0.5]);
        assert!(other.warnings[0].contains("1 of 1 rows"), "{:?}", other.warnings);
    }

    #[test]
    fn one_reading_far_out_leaves_the_others_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: String = (0..400).map(|n| format!("{n},{}\n", if n == 7 { -1000 } else { n % 5 })).collect();
        let (own, read) = choose(&file(folder.path(), &rows), Missing::Refuse, None).expect("valid");
        // The outlier's distance of 676 scales is 19.2 with the logarithm beyond the knee, and all columns share one
        // span.
        assert!(own.columns.iter().all(|column| (column.span - 19.2).abs() < 0.1), "{:?}", own.columns);
        assert!(read.warnings.is_empty(), "{:?}", read.warnings);
        assert!(read.samples.image(7)[1] < 1e-6);
        assert!(read.samples.image(9)[1] - read.samples.image(5)[1] > 0.06);
    }

    #[test]
    fn missing_readings_are_refused_or_filled() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = file(folder.path(), "1,5\n2,NA\n3,7\n");
        let message = choose(&path, Missing::Refuse, None).expect_err("missing").to_string();
        assert!(message.contains("pump.csv, line 2") && message.contains("column 2"), "{message}");
        assert!(message.contains("--missing fill"), "{message}");
        let (own, rows) = choose(&path, Missing::Fill, None).expect("filled");
        assert_eq!(own.columns[2].reading, Reading::Absent);
        assert_eq!(own.columns.len(), 3, "the first column has no gap");
        assert_eq!(rows.samples.image(1), [0.5, 0.5, 0.625]);
        assert_eq!(rows.samples.image(0)[2], 0.375);
        assert!(rows.warnings[0].contains("1 of 3 rows lack"), "{:?}", rows.warnings);
    }

    #[test]
    fn categories_become_inputs() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = file(folder.path(), "colour,a\nred,1\nblue,2\nred,3\n,4\n");
        let message = choose(&path, Missing::Refuse, None).expect_err("missing").to_string();
        assert!(message.contains("line 5") && message.contains("\"colour\""), "{message}");
        let (own, rows) = choose(&path, Missing::Fill, None).expect("valid");
        let readings: Vec<_> = own.columns.iter().map(|column| (column.name.as_str(), &column.reading)).collect();
        let is = |value: &str| Reading::Is(value.to_owned());
        let (blue, red) = (is("blue"), is("red"));
        let expected = [("colour", &blue), ("colour", &red), ("colour", &Reading::Absent), ("a", &Reading::Number)];
        assert_eq!(readings, expected);
        assert_eq!(rows.samples.image(0)[..3], [0.375, 0.625, 0.375]);
        assert_eq!(rows.samples.image(3)[..3], [0.375, 0.375, 0.625]);
    }

    #[test]
    fn what_says_nothing_new_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: String =
            (0..100).map(|n| format!("{n},{},{},id{n},,{}\n", 32.0 - 1.8 * n as f64, n * n, n % 7)).collect();
        let path = file(folder.path(), &format!("a,negative,square,id,nothing,b\n{rows}"));
        let (own, read) = choose(&path, Missing::Fill, None).expect("valid");
        let names: Vec<&str> = own.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "square", "b"]);
        assert_eq!(
            read.warnings,
            [
                "columns left out: negative (follows from a), id (text with 100 values, such as \"id0\"), nothing (nothing in it)"
            ]
        );
    }

    /// Such columns contain neither numbers nor categories, since the meaning of a point beside decimal commas is
    /// ambiguous.
    #[test]
    fn points_beside_decimal_commas_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "a;version;b\n1,5;1.2;4\n2,5;1.2;5\n3,5;1.3;7\n";
        let (own, read) = choose(&file(folder.path(), text), Missing::Refuse, None).expect("valid");
        let names: Vec<&str> = own.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let found = "points beside decimal commas: \"1.2\" in line 2 and \"1,5\" in line 2 of the column \"a\"";
        assert_eq!(read.warnings, [format!("columns left out: version ({found})")]);
        // If the columns are given, a required column of this kind is an error.
        let text = "a;b\n1.000;1\n2;2,5\n";
        let message = load(&file(folder.path(), text), &own).expect_err("a is mixed").to_string();
        assert!(message.contains("pump.csv") && message.contains("\"1.000\" in line 2"), "{message}");
        let message = choose(&file(folder.path(), text), Missing::Refuse, None).expect_err("one is left").to_string();
        assert!(message.contains("found 1; columns left out: a (points beside decimal commas"), "{message}");
        // The same for one of the tables in a folder.
        let parts = tempfile::tempdir().expect("a folder");
        std::fs::write(parts.path().join("1.csv"), "a;b;c\n1;1;1\n2;3;5\n").expect("writes");
        std::fs::write(parts.path().join("2.csv"), "a;b;c\n1,5;2;1.5\n2;4;5\n").expect("writes");
        let (own, _) = choose(parts.path(), Missing::Refuse, None).expect("valid");
        assert_eq!(own.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        for (text, named) in [
            ("a,b\n1,2\n2,low\n3,4\n", "line 3: expected a number in the column \"b\", found \"low\""),
            ("a,b\n1,2\n2,2\n", "found 1"),
            ("a,b\nx,y\n", "found 0"),
            ("a,b\n1e308,1\n-1e308,2\n1e308,3\n", "finite"),
        ] {
            let message = choose(&file(folder.path(), text), Missing::Fill, None).expect_err(text).to_string();
            assert!(message.contains("pump.csv") && message.contains(named), "{message}");
        }
        let message = choose(&folder.path().join("absent.csv"), Missing::Fill, None).expect_err("absent").to_string();
        assert!(message.contains("absent.csv"), "{message}");
    }
}
