//! A user's table, `.csv` or `.tsv`, or a folder of them, with scaled columns of numbers and columns of categories. A
//! sample is one row, or one window of a time series.
//!
//! Reading is done by `nae-infer`, and [`Columns`] converts the cells as in scoring. [`choose`] selects the columns
//! with `table_columns`; [`load`] reads a table with given columns. For evaluation, values beyond a column's span are
//! clamped to its ends; scoring does not clamp them.

use std::ops::Range;
use std::path::Path;

use nae_core::Shape;
use nae_input::table::{RowError, TableError};
use nae_onnx::metadata::{Column, Columns, ColumnsError, Missing, RowWindow};
use serde::{Deserialize, Serialize};

use crate::collect::MAX_VALUES;
use crate::counted::listed;
use crate::image_set::{ImageSet, ImageSetError};
use crate::parts::{Part, Parts};
use crate::table_columns::{self, Chosen};
use crate::tables::{MAX_COLUMNS, Read, read};
use crate::time_columns;

use crate::error::DataError;
use crate::windows::{WINDOWS, stretches, within};

/// With fewer inputs there are no dependencies between inputs to learn.
const MIN_COLUMNS: usize = 2;
/// The number of columns that a message names.
const NAMED: usize = 20;
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

    /// The ranges of a sample's inputs that are of one column of the table: the values of a category and the input for
    /// gaps follow each other. A window has them in each of its rows.
    fn inputs(&self) -> Vec<Range<usize>> {
        let (width, mut ranges, mut start) = (self.columns.len(), Vec::new(), 0);
        for column in self.columns.chunk_by(|one, next| one.name == next.name) {
            ranges.push(start..start + column.len());
            start += column.len();
        }
        let rows = 0..self.window.map_or(1, |window| window.rows);
        let of_row = |row: usize| ranges.iter().map(move |range| row * width + range.start..row * width + range.end);
        rows.flat_map(of_row).collect()
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
    choose_by(path, missing, window, |units| (0..units).collect())
}

/// Same as [`choose`], with columns, scales and categories that are fitted to a part of the data only, so that the rest
/// is as new to them as a row that is scored later. `trained` is called with the number of units that a run divides, rows
/// or stretches of a time series, and returns the positions of those to use; if it returns none, all are used.
///
/// # Errors
/// The same as for [`choose`].
pub fn choose_by(
    path: &Path,
    missing: Missing,
    window: Option<RowWindow>,
    trained: impl FnOnce(usize) -> Vec<usize>,
) -> Result<(OwnTable, Rows), DataError> {
    let read = read(path)?;
    let used = used_rows(&read, window, trained);
    let Chosen { columns, left_out, warnings } = table_columns::choose(&read, &used, missing);
    let left_out = (!left_out.is_empty()).then(|| format!("columns left out: {}", listed(&left_out, NAMED, ", ")));
    let least = if window.is_some() { 1 } else { MIN_COLUMNS };
    if !(least..=MAX_COLUMNS).contains(&columns.len()) {
        let more = if columns.len() > MAX_COLUMNS { "more: at least " } else { "" };
        let found = format_args!("{more}{}", columns.len());
        let expected = format_args!("{least} to {MAX_COLUMNS} columns of numbers or categories that vary");
        let left_out = left_out.map(|sentence| format!("; {sentence}")).unwrap_or_default();
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
    let mut rows = samples(path, &own, &read, true, MAX_VALUES)?;
    rows.warnings.extend(warnings);
    rows.warnings.extend(time_columns::warnings(&read, &own.columns));
    rows.warnings.extend(hidden_rows(&read));
    if let Some(sentence) = left_out {
        rows.warnings.insert(0, sentence);
    }
    Ok((own, rows))
}

/// Reads the table at `path` with the columns of `own`, for data that will be divided: windows of a time series lie
/// within stretches, which are divided as wholes and never span two files.
///
/// # Errors
/// [`DataError`] with the file, the line and column, what was expected, what was found, and what to do.
pub fn load(path: &Path, own: &OwnTable) -> Result<Rows, DataError> {
    samples(path, own, &read(path)?, true, MAX_VALUES)
}

/// Same as [`load`], for data that will not be divided: of a time series, it returns all windows of each file, as in
/// scoring.
///
/// # Errors
/// The same as for [`load`].
pub fn load_whole(path: &Path, own: &OwnTable) -> Result<Rows, DataError> {
    samples(path, own, &read(path)?, false, MAX_VALUES)
}

/// For each table, whether each of its rows is in one of the units that `trained` chooses.
fn used_rows(read: &Read, window: Option<RowWindow>, trained: impl FnOnce(usize) -> Vec<usize>) -> Vec<Vec<bool>> {
    let all = read.rows();
    let mut units: Vec<(usize, Range<usize>)> = Vec::new();
    for (table, rows) in read.tables.iter().map(|table| table.rows().len()).enumerate() {
        match window {
            None => units.extend((0..rows).map(|row| (table, row..row + 1))),
            Some(window) => units.extend(stretches(rows, all, window).into_iter().map(|rows| (table, rows))),
        }
    }
    let chosen = trained(units.len());
    let mut used: Vec<Vec<bool>> =
        read.tables.iter().map(|table| vec![chosen.is_empty(); table.rows().len()]).collect();
    for (table, rows) in chosen.into_iter().filter_map(|unit| units.get(unit)) {
        used[*table][rows.clone()].fill(true);
    }
    used
}

/// Reads the samples of `read`, with `most` values at most.
fn samples(path: &Path, own: &OwnTable, read: &Read, divided: bool, most: usize) -> Result<Rows, DataError> {
    let columns = own.checked().map_err(|cause| DataError::at(path, cause))?;
    let stretches = own.window.map(|window| stretches_of(path, read, window, divided)).transpose()?;
    let shape = own.shape();
    check_size(path, own, read, stretches.as_deref(), most)?;
    let (mut values, mut places, mut whole) = (Vec::new(), Vec::new(), 0);
    let (mut filled, mut moved) = (0, 0);
    for (index, table) in read.tables.iter().enumerate() {
        let file = table.path();
        let positions = table.positions(&columns)?;
        let mut prepared = Vec::with_capacity(table.rows().len());
        for row in table.rows() {
            let values = row.prepare(&positions, &columns).map_err(|cause| {
                let hint = match cause {
                    RowError::Missing(_) => {
                        "fill it in, remove the row, or give --missing fill, which puts the median and marks the gap"
                    }
                    _ => "correct or remove the row, or remove the column",
                };
                DataError::new(format_args!("{}, line {}: {cause}; {hint}", file.display(), row.line))
            })?;
            filled += usize::from(row.is_filled(&positions, &columns));
            moved += usize::from(values.iter().any(|value| !(0.0..=1.0).contains(value)));
            prepared.push(values.into_iter().map(|value| value.clamp(0.0, 1.0)).collect::<Vec<f32>>());
        }
        let Some((window, stretches)) = own.window.zip(stretches.as_ref()) else {
            values.extend(prepared.into_iter().flatten());
            continue;
        };
        for stretch in &stretches[index] {
            for rows in within(stretch.clone(), window) {
                places.push(Part { whole, top: rows.start as u32, left: 0 });
                values.extend(prepared[rows].iter().flatten());
            }
            whole += 1;
        }
    }
    let count = read.rows();
    let mut warnings = Vec::new();
    if filled > 0 {
        warnings.push(format!(
            "{filled} of {count} rows have missing values (empty, NA, none and the like): they are replaced by the column's median, a \
             category has none of its values, and an input says so"
        ));
    }
    if moved > 0 {
        warnings.push(format!(
            "{moved} of {count} rows have a reading beyond the columns' spans, and are evaluated as if at their ends; \
             scored, they stand out more"
        ));
    }
    let wrong = |cause: ImageSetError| DataError::at(path, cause);
    let labels = vec![0; values.len() / shape.len()];
    let mut samples = ImageSet::new(shape, values, labels).map_err(wrong)?.with_columns(own.inputs());
    if own.window.is_some() {
        samples = samples.with_parts(Parts::windows(places)).map_err(wrong)?;
    }
    Ok(Rows { samples, rows: count, sha256: read.sha256.clone(), warnings })
}

/// Warns of rows that a quote may hide in a cell of another row.
fn hidden_rows(read: &Read) -> Option<String> {
    let mut broken = read.tables.iter().filter_map(|table| Some((table.path(), table.line_breaks()?)));
    let (path, line_breaks) = broken.next()?;
    let others = match broken.count() {
        0 => String::new(),
        others => format!(" (other tables with such rows: {others})"),
    };
    Some(format!("{}: {line_breaks}{others}", path.display()))
}

/// The stretches of each table, as ranges of its rows; if the data are not `divided`, one for each table.
fn stretches_of(
    path: &Path,
    read: &Read,
    window: RowWindow,
    divided: bool,
) -> Result<Vec<Vec<Range<usize>>>, DataError> {
    let (mut found, all) = (Vec::new(), read.rows());
    for table in &read.tables {
        let rows = table.rows().len();
        if rows < window.rows {
            let (path, expected) = (table.path().to_owned(), window.rows);
            return Err(TableError::Rows { path, expected, found: rows }.into());
        }
        found.push(if divided { stretches(rows, all, window) } else { std::iter::once(0..rows).collect() });
    }
    let count: usize = found.iter().map(Vec::len).sum();
    if divided && count < MIN_STRETCHES {
        let (files, rows) = (read.tables.len(), WINDOWS.saturating_mul(window.rows));
        let expected = format_args!("at least {MIN_STRETCHES} stretches of {rows} rows or more");
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let problem = format_args!("expected {expected}, found {count}, in {files} of {all} rows");
        let todo = "give more files or rows, or a shorter --window";
        return Err(DataError::at(path, format_args!("{problem}; {todo}")));
    }
    Ok(found)
}

/// Checks that the samples have at most `most` values, before memory is taken for them.
fn check_size(
    path: &Path,
    own: &OwnTable,
    read: &Read,
    stretches: Option<&[Vec<Range<usize>>]>,
    most: usize,
) -> Result<(), DataError> {
    let (count, noun, todo) = match own.window.zip(stretches) {
        None => (read.rows(), "rows", "give a part of them, or fewer columns"),
        Some((window, stretches)) => {
            let all = stretches.iter().flatten().map(|stretch| within(stretch.clone(), window).count()).sum();
            (all, "windows", "take a larger --window-stride, a shorter --window or fewer rows")
        }
    };
    let values = count.saturating_mul(own.shape().len());
    if values <= most {
        return Ok(());
    }
    let found = format_args!("{count} {noun} of {}, which are {values} values", own.shape());
    Err(DataError::at(path, format_args!("expected at most {most} values, found {found}; {todo}")))
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
        let row = |n| format!("{},{}\n", n * 7 % 400, if n == 7 { -1000 } else { n % 5 });
        let rows: String = (0..400).map(row).collect();
        let (own, read) = choose(&file(folder.path(), &rows), Missing::Refuse, None).expect("valid");
        // The outlier's distance of 676 scales is 19.2 with the logarithm beyond the knee, and all columns share one
        // span.
        assert!(own.columns.iter().all(|column| (column.span - 19.2).abs() < 0.1), "{:?}", own.columns);
        let [warning] = &read.warnings[..] else { panic!("{:?}", read.warnings) };
        assert!(
            warning.starts_with("the column \"column 2\" has a reading very far from the others, -1000, which"),
            "{warning}"
        );
        assert!(read.samples.image(7)[1] < 1e-6);
        assert!(read.samples.image(9)[1] - read.samples.image(5)[1] > 0.06);
        // Not so far out, and not so few.
        for (far, every) in [(-57, 400), (-1000, 50)] {
            let row = |n| format!("{},{}\n", n * 7 % 400, if n % every == 7 { far - n } else { n % 5 });
            let rows: String = (0..400).map(row).collect();
            let (_, read) = choose(&file(folder.path(), &rows), Missing::Refuse, None).expect("valid");
            assert!(read.warnings.is_empty(), "{:?}", read.warnings);
        }
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
        assert!(rows.warnings[0].contains("1 of 3 rows have missing values"), "{:?}", rows.warnings);
    }

    /// Calibration and test would otherwise be known to the columns, as no row is that is scored later.
    #[test]
    fn rows_that_are_not_trained_on_change_no_column() {
        let folder = tempfile::tempdir().expect("a folder");
        let colours = ["red", "blue"];
        let chosen = |odd: fn(usize) -> String, window: Option<RowWindow>, trained: &[usize]| {
            let usual = |n: usize| format!("{},{},{},{}\n", n % 7, n * 5 % 11, n * 3 % 13, colours[n % 2]);
            // 400 rows, of which the last 100 are not among the first 300, and so in other stretches of 8.
            let rows: String = (0..400).map(|n| if n < 304 { usual(n) } else { odd(n) }).collect();
            let path = file(folder.path(), &format!("a,b,c,colour\n{rows}"));
            choose_by(&path, Missing::Fill, window, |units| {
                assert_eq!(units, if window.is_some() { 50 } else { 400 });
                trained.to_vec()
            })
        };
        let window = Some(RowWindow { rows: 4, stride: 4 });
        for (window, trained) in [(None, (0..304).collect::<Vec<_>>()), (window, (0..38).collect())] {
            let of = |odd| chosen(odd, window, &trained).expect("valid");
            let (usual, _) = of(|n| format!("{},{},{},red\n", n % 7, n % 11, n % 13));
            // Farther out, a new value, a gap, another median, and columns that no longer follow from each other.
            let (odd, rows) = of(|n| format!("{},,{},green\n", 1000 * n, -(n as i64)));
            assert_eq!(odd, usual);
            let inputs = |name: &str| odd.columns.iter().filter(|column| column.name == name).count();
            assert_eq!(["a", "b", "c", "colour"].map(inputs), [1, 1, 1, 2]);
            // A value that is not trained on has zeros only, and what lies beyond the span its end.
            let no = HALF_OFF;
            let sample = rows.samples.image(rows.samples.len() - 1);
            assert_eq!(sample[sample.len() - 5..], [1.0, 0.5, sample[sample.len() - 3], no, no]);
            assert!(rows.warnings.iter().any(|warning| warning.contains("beyond the columns' spans")));
        }
        // If none is chosen, as of a few rows, all are used.
        let (all, _) = chosen(|n| format!("{n},1,1,green\n"), None, &[]).expect("valid");
        assert!(all.columns.iter().any(|column| column.reading == Reading::Is("green".to_owned())));
    }

    /// An indicator that is 0: one scale below the centre, in a span of four.
    const HALF_OFF: f32 = 0.375;

    /// A row of shuffled cells has one colour, or a gap and the median, as every row has.
    #[test]
    fn shuffled_rows_have_one_value_of_each_category() {
        use rand::SeedableRng as _;
        let folder = tempfile::tempdir().expect("a folder");
        let colours = ["red", "blue", "green", ""];
        let row = |n: usize| {
            let gap = n.is_multiple_of(3);
            format!("{},{},{}\n", colours[n * 7 % 4], if gap { String::new() } else { (n % 10).to_string() }, n * 7 % 4)
        };
        let rows: String = (0..240).map(row).collect();
        let path = file(folder.path(), &format!("colour,a,b\n{rows}"));
        for window in [None, Some(RowWindow { rows: 2, stride: 2 })] {
            let (own, rows) = choose(&path, Missing::Fill, window).expect("valid");
            assert_eq!(own.columns.len(), 4 + 2 + 1);
            let some = rows.samples;
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
            let shuffled = crate::outliers::shuffled(&some, &mut rng);
            assert_ne!(shuffled.values(), some.values());
            for row in shuffled.values().chunks(own.columns.len()) {
                assert_eq!(row[..4].iter().filter(|value| **value > 0.5).count(), 1, "{row:?}");
                assert!(row[5] < 0.5 || row[4] == 0.5, "a gap has the median: {row:?}");
            }
            // The columns come apart.
            let pair = |row: &[f32]| (row[..4].iter().position(|value| *value > 0.5), row[6].to_bits());
            let pairs = |set: &ImageSet| {
                set.values().chunks(own.columns.len()).map(pair).collect::<std::collections::HashSet<_>>()
            };
            assert!(pairs(&some).len() == 4 && pairs(&shuffled).len() >= 8);
        }
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
        let row = |n| format!("{n},{},{},id{n},,{}\n", 32.0 - 1.8 * n as f64, n * n, n % 7);
        let rows: String = (0..100).map(|n| row(n * 7 % 100)).collect();
        let path = file(folder.path(), &format!("a,negative,square,id,nothing,b\n{rows}"));
        let (own, read) = choose(&path, Missing::Fill, None).expect("valid");
        let names: Vec<&str> = own.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "square", "b"]);
        assert_eq!(
            read.warnings,
            [
                "columns left out: negative (follows from a), id (text with more than 32 values, such as \"id0\"), nothing (nothing in it)"
            ]
        );
    }

    /// Without a warning, readings with a unit or a decimal comma would become one input for each value.
    #[test]
    fn categories_that_are_like_numbers_are_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let row = |n| {
            format!("{}.5 C,\"{},5\",{},{}\n", n % 7, n % 9, n * 37 % 100, if n % 2 == 0 { "red" } else { "green" })
        };
        let rows: String = (0..100).map(row).collect();
        let path = file(folder.path(), &format!("celsius,volts,,colour\n{rows}"));
        let (own, read) = choose(&path, Missing::Refuse, None).expect("valid");
        assert_eq!(own.columns.len(), 7 + 9 + 1 + 2);
        let [celsius, volts] = &read.warnings[..] else { panic!("{:?}", read.warnings) };
        assert!(celsius.contains("\"celsius\" is taken for a category") && celsius.contains("\"0.5 C\""), "{celsius}");
        assert!(volts.contains("\"volts\"") && volts.contains("\"0,5\"") && volts.contains("a point"), "{volts}");

        // Many documents write minus as its sign in Unicode.
        let rows: String = (0..100).map(|n| format!("\u{2212}{},{},{}\n", n % 5, n % 7, n * 37 % 100)).collect();
        let (own, read) =
            choose(&file(folder.path(), &format!("level,a,b\n{rows}")), Missing::Refuse, None).expect("valid");
        assert_eq!(own.columns.len(), 5 + 2);
        let [level] = &read.warnings[..] else { panic!("{:?}", read.warnings) };
        assert!(level.contains("\"level\" is taken for a category") && level.contains("minus as \"-\""), "{level}");

        // The same cells between tabs are numbers; a column without a name has a number.
        let path = folder.path().join("pump.tsv");
        let rows: String = (0..100).map(|n| format!("{},5\t\t{}\n", n % 9, n * 37 % 100)).collect();
        std::fs::write(&path, format!("volts\t\tb\n{rows}")).expect("writes");
        let (own, read) = choose(&path, Missing::Refuse, None).expect("valid");
        assert!(own.columns.iter().all(|column| column.reading == Reading::Number), "{:?}", own.columns);
        assert_eq!(read.warnings, ["columns left out: column 2 (nothing in it)"]);
    }

    /// The rows of a table, whose second column has `marker` in the first `marked` of 200.
    fn with_markers(marker: &str, marked: usize) -> String {
        let row = |n: usize| match n {
            n if n < marked => format!("{},{marker}\n", n % 7),
            n => format!("{},{}\n", n % 7, n * 37 % 100),
        };
        format!("a,b\n{}", (0..200).map(row).collect::<String>())
    }

    #[test]
    fn a_value_that_stands_for_a_missing_one_is_warned_of_however_frequent() {
        let folder = tempfile::tempdir().expect("a folder");
        let warnings =
            |text: &str| choose(&file(folder.path(), text), Missing::Refuse, None).expect("valid").1.warnings;
        for (marked, said) in [
            (1, "a reading very far from the others, -99999"),
            (2, "2 readings very far from the others, all of them -99999"),
            (30, "30 readings very far from the others, all of them -99999"),
        ] {
            let warnings = warnings(&with_markers("-99999", marked));
            let said = format!("the column \"b\" has {said}, which");
            assert!(warnings.len() == 1 && warnings[0].starts_with(&said), "{marked}: {warnings:?}");
        }
        // One that is farther is not what stands for missing ones.
        let [beside] = &warnings(&(with_markers("-99999", 30) + "1,9000000\n"))[..] else { panic!("one warning") };
        assert!(beside.contains("31 readings very far from the others, 30 of them -99999"), "{beside}");
        // Many that differ are a wide distribution.
        let wide: String = (0..30).map(|n| format!("1,{}\n", 99_999 + 7 * n)).collect();
        assert_eq!(warnings(&(with_markers("5", 0) + &wide)), [""; 0]);
    }

    #[test]
    fn what_says_which_rows_are_normal_is_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let warnings = |name: &str, values: [&str; 2]| {
            let row = |n: usize| format!("{},{},{}\n", n % 7, n * 37 % 100, values[usize::from(n.is_multiple_of(10))]);
            let rows: String = (0..200).map(row).collect();
            let path = file(folder.path(), &format!("a,b,{name}\n{rows}"));
            choose(&path, Missing::Refuse, None).expect("valid").1.warnings
        };
        for (name, values) in [("state", ["normal", "Anomaly"]), ("Is_Anomaly", ["0", "1"]), ("label", ["-1", "1"])] {
            let warnings = warnings(name, values);
            let said = format!("the column {name:?} seems to say which rows are normal");
            assert!(warnings.len() == 1 && warnings[0].starts_with(&said), "{warnings:?}");
        }
        for (name, values) in
            [("valve", ["open", "closed"]), ("switch", ["0", "1"]), ("target", ["20", "25"]), ("label", ["3", "4"])]
        {
            assert_eq!(warnings(name, values), [""; 0]);
        }
    }

    #[test]
    fn a_first_row_that_is_lost_is_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: String = (0..100).map(|n| format!("{}.5,{},ok{}\n", n % 7, n * 37 % 100, n % 2)).collect();
        let warnings =
            |text: &str| choose(&file(folder.path(), text), Missing::Refuse, None).expect("valid").1.warnings;
        let [lost] = &warnings(&rows)[..] else { panic!("one warning") };
        assert!(
            lost.starts_with("\"0.5\" is the name of a column") && lost.contains("the first row is lost"),
            "{lost}"
        );
        // Years, and the positions that pandas writes, are names, and so are wavelengths.
        for names in ["2019,2020,kind\n", "0,1,kind\n"] {
            assert_eq!(warnings(&format!("{names}{rows}")), [""; 0]);
        }
        let spectra = |n: usize| format!("{},{},{},{},a{}\n", n % 7, n * 37 % 100, n * 11 % 13, n * 5 % 17, n % 2);
        let spectra: String = (0..100).map(spectra).collect();
        assert_eq!(warnings(&format!("400.5,401,401.5,402,kind\n{spectra}")), [""; 0]);
    }

    /// A file has the form of the program that wrote it, and a DataFrame another.
    #[test]
    fn times_are_one_category_however_they_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |times: [&str; 3]| {
            let rows: String = (0..100).map(|n| format!("{},{},{}\n", times[n % 3], n % 7, n * 37 % 100)).collect();
            file(folder.path(), &format!("time,a,b\n{rows}"))
        };
        let path = write(["2024-01-01T00:00:00.000000", "2024-01-01 00:00:00", "2024-01-01 06:00:00.000"]);
        let (own, rows) = choose(&path, Missing::Refuse, None).expect("valid");
        let readings: Vec<&Reading> = own.columns.iter().map(|column| &column.reading).collect();
        let (midnight, six) = (Reading::Is("2024-01-01".to_owned()), Reading::Is("2024-01-01 06:00:00".to_owned()));
        assert_eq!(readings, [&midnight, &six, &Reading::Number, &Reading::Number]);
        let path = write(["2024-01-01", "2024-01-01T00:00", "2024-01-01T06:00:00"]);
        assert_eq!(load(&path, &own).expect("valid").samples.values(), rows.samples.values());
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

    /// The mean of equal decimals need not be the decimal, so that their standard deviation need not be 0.
    #[test]
    fn equal_decimals_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: String = (0..300).map(|n| format!("0.1,23.7,{},{}\n", n % 7, n % 11)).collect();
        let (own, read) =
            choose(&file(folder.path(), &format!("k,k2,a,b\n{rows}")), Missing::Refuse, None).expect("valid");
        assert_eq!(own.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read.warnings, ["columns left out: k (always the same), k2 (always the same)"]);
    }

    #[test]
    fn windows_that_would_fill_the_memory_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: String = (0..2000).map(|n| format!("{},{}\n", n % 7, n % 11)).collect();
        let path = file(folder.path(), &rows);
        let window = |stride| Some(RowWindow { rows: 20, stride });
        let (dense, all) = choose(&path, Missing::Refuse, window(1)).expect("valid");
        // 50 stretches of 40 rows have 21 windows each, of 20 × 2 values.
        let values = 50 * 21 * 40;
        assert_eq!(all.samples.values().len(), values);
        let read = read(&path).expect("reads");
        assert!(samples(&path, &dense, &read, true, values).is_ok());
        let message = samples(&path, &dense, &read, true, values - 1).expect_err("too many").to_string();
        for said in ["pump.csv", "1050 windows", "42000 values", "--window-stride"] {
            assert!(message.contains(said), "{message}");
        }
        let sparse = OwnTable { window: window(20), ..dense };
        assert!(samples(&path, &sparse, &read, true, values - 1).is_ok());
        // Without stretches there are 1,981 windows.
        let dense = OwnTable { window: window(1), ..sparse };
        assert!(samples(&path, &dense, &read, false, 1981 * 40 - 1).is_err());
    }

    #[test]
    fn too_few_stretches_are_said_to_be_too_few() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in 0..9 {
            let rows: String = (0..29).map(|n| format!("{},{}\n", n % 7, n % 11)).collect();
            std::fs::write(folder.path().join(format!("{name}.csv")), rows).expect("writes");
        }
        let window = Some(RowWindow { rows: 10, stride: 1 });
        let message = choose(folder.path(), Missing::Refuse, window).expect_err("9 stretches").to_string();
        assert!(message.contains("expected at least 10 stretches of 20 rows or more"), "{message}");
        assert!(message.contains("found 9, in 9 files of 261 rows"), "{message}");
        assert!(message.contains("give more files or rows, or a shorter --window"), "{message}");
    }

    #[test]
    fn a_column_of_times_is_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: String = (0..100)
            .map(|n| format!("{},2024-01-{:02},{},{}\n", 1_700_000_000 + 60 * n, 1 + n / 10, n % 7, n % 11))
            .collect();
        let (own, read) =
            choose(&file(folder.path(), &format!("time,day,a,b\n{rows}")), Missing::Refuse, None).expect("valid");
        assert_eq!(own.columns.len(), 13);
        let [time, day] = &read.warnings[..] else { panic!("{:?}", read.warnings) };
        assert!(time.contains("\"time\" never falls from one row to the next"), "{time}");
        assert!(day.contains("\"day\" contains dates"), "{day}");
        assert!(read.warnings.iter().all(|warning| warning.contains("remove the column")), "{:?}", read.warnings);
    }

    #[test]
    fn rows_that_a_quote_may_hide_are_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "a,b,note\n1,2,x\n2,5,\"x\n3,9,x\n4,1,\"\n6,2,x\n";
        let path = file(folder.path(), text);
        let (_, read) = choose(&path, Missing::Refuse, None).expect("valid");
        assert_eq!(read.rows, 3);
        let warned = read.warnings.iter().find(|warning| warning.contains("are one row")).expect("warned of");
        assert!(warned.starts_with(&format!("{}: the lines 3 to 5 are one row", path.display())), "{warned}");
        let stray = text.replace(",\"\n6", ",\"5 inch\n6");
        let message = choose(&file(folder.path(), &stray), Missing::Refuse, None).expect_err("a quote").to_string();
        assert!(message.contains("line 5: text after the closing quote"), "{message}");
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
        let text = "a,b,c\n1,2,007\n2,3,A\n4,4,B\n";
        let (own, read) = choose(&file(folder.path(), text), Missing::Fill, None).expect("two columns");
        assert_eq!(own.columns.len(), 2);
        assert_eq!(read.warnings, ["columns left out: c (texts such as \"A\" beside the number 7)"]);
        let message = choose(&folder.path().join("absent.csv"), Missing::Fill, None).expect_err("absent").to_string();
        assert!(message.contains("absent.csv"), "{message}");
    }
}
