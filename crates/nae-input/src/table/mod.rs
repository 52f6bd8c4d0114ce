//! Tables of readings: `.csv` and `.tsv` files, one row a sample.
//!
//! Cells are separated by commas, semicolons or tabs, whichever is the most frequent outside of quotes in
//! the first line; in a `.tsv` file by tabs, if the first line has any. A line such as `sep=;`, which Excel
//! writes above a table, decides it and is skipped. The first line is a header if one of its cells is
//! neither a number nor missing; otherwise the columns are named `column 1` and so on. A cell is missing if
//! it is empty or one of `NA`, `N/A`, `NaN`, `null`, `none` and `?`. [`Columns`] describes how a reading is
//! converted to a value of the input.
//!
//! A run of blanks, tabs and line breaks in the name of a column counts as one blank, and a time in a category counts
//! as the same however it is written: see [`category`].
//!
//! If cells are separated by semicolons or tabs, numbers can have a decimal comma, as spreadsheets write
//! them in much of the world. In such a table a point can separate thousands: the cells of a column that
//! also has numbers with points are then taken as texts. The same applies to numbers such as `1,500` in a
//! table of tabs, unless another number, such as `1,5`, shows that commas are decimal signs.
//! [`Table::positions`] refuses such a column if the model needs its numbers, and [`Table::mixed_decimals`]
//! reports it to training, which leaves it out.
//!
//! A cell that begins with a quote ends at the next quote that is not doubled, and may contain separators, line
//! breaks and doubled quotes. Text after its end, and a cell that is not closed, are errors: they are signs of a
//! quote too many, which would hide rows in a cell. [`Table::line_breaks`] names the rows of several lines.
//!
//! A table has at most 2²⁰ columns, and 2²⁶ cells together with its header.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use nae_onnx::metadata::{Column, Columns, Missing, Reading};

mod category;
mod cell;
mod decimals;
mod records;

pub use category::category;
pub use cell::Cell;
use decimals::Decimals;
use records::{Records, Separator};

/// The largest size of a table, in bytes and in cells.
const MAX_BYTES: u64 = crate::MAX_FILE;
const MAX_CELLS: usize = 1 << 26;
/// The largest number of columns: a name and a cell of each take some hundred bytes while the table is read.
const MAX_COLUMNS: usize = 1 << 20;

/// The number of characters of a line in a message.
const SHOWN: usize = 30;

/// A table in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    path: PathBuf,
    names: Vec<String>,
    rows: Vec<Row>,
    /// The columns whose numbers have no certain decimal sign, and the reason.
    mixed: BTreeMap<usize, String>,
    line_breaks: Option<LineBreaks>,
}

/// Rows of a table's file, its header included, that take several lines, since a quoted cell contains line breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineBreaks {
    /// The first line of the first such row.
    pub first: u64,
    /// Its last line.
    pub last: u64,
    /// The number of such rows, at least 1.
    pub count: usize,
}

impl fmt::Display for LineBreaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, count } = self;
        write!(f, "the lines {first} to {last} are one row, as a quoted cell contains line breaks")?;
        match count - 1 {
            0 => {}
            1 => f.write_str(", and 1 other row has such a cell")?,
            more => write!(f, ", and {more} other rows have such cells")?,
        }
        f.write_str("; if these are several rows, remove the quote before them")
    }
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its line in the file, from 1.
    pub line: u64,
    /// The cells, one for each column of the table.
    pub cells: Vec<Cell>,
}

/// Why a table could not be read or used. Messages name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] nae_onnx::file::FileError),
    /// The file is not a valid table of text.
    #[error("{}: expected a table, rows of equally many cells: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A column of the model is missing.
    #[error("{}: expected the column {column:?}, found {found}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The columns of the table.
        found: String,
    },
    /// The numbers of a column that the model needs have no certain decimal sign.
    #[error(
        "{}: expected numbers with a certain decimal sign in the column {column:?}, found {found}; write all decimals with a comma or all with a point, and no sign between thousands",
        path.display()
    )]
    Decimals {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The reason, with the first such numbers.
        found: String,
    },
    /// The table has fewer rows than one window.
    #[error("{}: expected at least {expected} rows, as many as make one window, found {found}", path.display())]
    Rows {
        /// The file.
        path: PathBuf,
        /// The number of rows in a window.
        expected: usize,
        /// The number of rows in the table.
        found: usize,
    },
}

/// Why a row cannot be converted to a network's input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A reading is missing, and the model does not fill in missing readings.
    #[error("the reading in the column {0:?} is missing")]
    Missing(String),
    /// A reading is not a number.
    #[error("expected a number in the column {column:?}, found {found:?}")]
    Text {
        /// The column.
        column: String,
        /// What is there.
        found: String,
    },
}

/// Whether the extension of `path` is that of a table.
pub fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv") || end.eq_ignore_ascii_case("tsv"))
}

/// Reads a table from a file.
///
/// # Errors
/// [`TableError`] names the file.
pub fn read(path: &Path) -> Result<Table, TableError> {
    parse(path, &nae_onnx::file::read(path, MAX_BYTES)?)
}

/// Reads a table from the contents `bytes` of a file. `path` is used in messages; its extension affects the separator.
///
/// # Errors
/// [`TableError::Format`].
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Table, TableError> {
    parse_within(path, bytes, MAX_COLUMNS, MAX_CELLS)
}

/// The same with at most `most_columns`, and at most `most_cells` together with the header.
fn parse_within(path: &Path, bytes: &[u8], most_columns: usize, most_cells: usize) -> Result<Table, TableError> {
    let wrong = |reason: String| TableError::Format { path: path.to_owned(), reason };
    let mut records = Records::new(path, bytes);
    let separator = records.separator();
    let mut decimals = Decimals::new(separator);
    let (mut names, mut has_header, mut rows, mut cells) = (Vec::new(), false, Vec::new(), 0);
    while let Some((line, record)) = records.next(most_columns).map_err(&wrong)? {
        cells += record.len();
        if cells > most_cells {
            return Err(wrong(format!("more than {most_cells} cells; divide it into several files")));
        }
        let row: Vec<Cell> = record.iter().map(|text| decimals.cell(text)).collect();
        if names.is_empty() {
            if row.iter().any(|cell| matches!(cell, Cell::Text(_))) {
                names = record.iter().map(|&name| name.to_owned()).collect();
                has_header = true;
                continue;
            }
            names = (1..=row.len()).map(|n| format!("column {n}")).collect();
        }
        if row.len() != names.len() {
            let (found, expected) = (row.len(), names.len());
            let todo = remedy(bytes, separator, found, expected);
            return Err(wrong(format!(
                "line {line} has {found}, the first has {expected}, separated by {separator}; {todo}"
            )));
        }
        decimals.note(line, &record, &row);
        rows.push(Row { line, cells: row });
    }
    if let ([name], Some(Row { cells, .. })) = (names.as_slice(), rows.first())
        && let [Cell::Text(text)] = cells.as_slice()
        && let Some(found) = other_separator(name, text)
    {
        let reason = format!("cells seem to be separated by {found}; separate them by commas, semicolons or tabs");
        return Err(wrong(reason));
    }
    let line_breaks = records.line_breaks();
    let mixed = decimals.mixed(&names);
    if !mixed.is_empty() {
        let mut records = Records::new(path, bytes);
        if has_header {
            records.next(most_columns).map_err(&wrong)?;
        }
        for row in &mut rows {
            let Some((_, record)) = records.next(most_columns).map_err(&wrong)? else { break };
            for &column in mixed.keys() {
                if let (Some(cell @ Cell::Number(_)), Some(&text)) = (row.cells.get_mut(column), record.get(column)) {
                    *cell = Cell::Text(text.into());
                }
            }
        }
    }
    let table = Table::checked(path, names, rows)?;
    if table.rows.is_empty() {
        return Err(wrong("no row".to_owned()));
    }
    Ok(Table { mixed, line_breaks, ..table })
}

/// What to do about a line with more or fewer cells than the first.
fn remedy(bytes: &[u8], separator: Separator, found: usize, expected: usize) -> String {
    let first = bytes.split(|b| b"\r\n".contains(b)).find(|line| !line.is_empty()).unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let start = first.trim_start_matches(['\u{feff}', '"']);
    let is_above = start.starts_with('#') || start.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("sep="));
    if is_above {
        return format!("remove lines above the header, such as {:?}", first.chars().take(SHOWN).collect::<String>());
    }
    if found < expected {
        return "complete or remove the line; an empty cell is a missing value".to_owned();
    }
    format!("put cells that contain {separator} into quotes, and remove lines above the header, if there are any")
}

/// The separator that a table of one column seems to have, judged by its name and its first cell.
fn other_separator(name: &str, cell: &str) -> Option<&'static str> {
    let is_number = |text: &str| !matches!(Cell::from(text.trim()), Cell::Text(_));
    let pipes = |text: &str| text.matches('|').count();
    if pipes(cell) > 0 && pipes(cell) == pipes(name) {
        return Some("|");
    }
    let words = |text: &str| text.split_whitespace().count();
    let are_numbers = words(cell) > 1 && words(cell) == words(name) && cell.split_whitespace().all(is_number);
    are_numbers.then_some("blanks")
}

impl Table {
    /// A table of values in memory. Its rows, of which there may be none, are numbered from 1; `path` is used in messages.
    ///
    /// # Errors
    /// [`TableError::Format`] if the number of cells of a row differs from the number of `names`, or if
    /// two names are equal, whatever the blanks between their words.
    pub fn new(path: impl AsRef<Path>, names: Vec<String>, rows: Vec<Vec<Cell>>) -> Result<Self, TableError> {
        let path = path.as_ref();
        let rows: Vec<Row> = (1..).zip(rows).map(|(line, cells)| Row { line, cells }).collect();
        if let Some(Row { line, cells }) = rows.iter().find(|row| row.cells.len() != names.len()) {
            let reason = format!("line {line} has {}, and there are {} names", cells.len(), names.len());
            return Err(TableError::Format { path: path.to_owned(), reason });
        }
        Self::checked(path, names, rows)
    }

    fn checked(path: &Path, names: Vec<String>, rows: Vec<Row>) -> Result<Self, TableError> {
        let wrong = |reason: String| TableError::Format { path: path.to_owned(), reason };
        let names: Vec<String> = names.iter().map(|name| with_single_blanks(name)).collect();
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
            return Err(wrong(format!("two columns are called {twice:?}")));
        }
        Ok(Self { path: path.to_owned(), names, rows, mixed: BTreeMap::new(), line_breaks: None })
    }

    /// The path of the file, or the name that stands for it in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of the columns, with single blanks in the place of tabs, line breaks and several blanks.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The rows, in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows of the file that take several lines. A quote too many can join rows in this way, if another one ends the cell.
    pub fn line_breaks(&self) -> Option<LineBreaks> {
        self.line_breaks
    }

    /// Describes the column `name` if its numbers have no certain decimal sign: they have points in a table with decimal commas,
    /// or, in a table of tabs, commas that may separate thousands. The column's cells are then taken as texts.
    pub fn mixed_decimals(&self, name: &str) -> Option<&str> {
        // Few columns are mixed, and a table may have many.
        self.mixed.iter().find_map(|(&index, found)| (self.names[index] == name).then_some(found.as_str()))
    }

    /// Returns the position of each of the model's `columns` in the table. Other columns of the table are ignored.
    ///
    /// # Errors
    /// [`TableError::Column`] if a column is missing; [`TableError::Decimals`] if the model needs the numbers of a column with
    /// [`mixed_decimals`](Self::mixed_decimals).
    pub fn positions(&self, columns: &Columns) -> Result<Vec<usize>, TableError> {
        let found: BTreeMap<&str, usize> =
            self.names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let position = |column: &Column| {
            let name = column.name.as_str();
            // A model made earlier may have the name with all its blanks.
            let &at = found.get(&*with_single_blanks(name)).ok_or_else(|| TableError::Column {
                path: self.path.clone(),
                column: name.to_owned(),
                found: self.names.join(", "),
            })?;
            match self.mixed.get(&at) {
                Some(found) if column.reading == Reading::Number => {
                    Err(TableError::Decimals { path: self.path.clone(), column: name.to_owned(), found: found.clone() })
                }
                _ => Ok(at),
            }
        };
        columns.columns().iter().map(position).collect()
    }
}

impl Row {
    /// Converts the cells at `positions` to the network's input.
    ///
    /// # Errors
    /// [`RowError`] names the column.
    pub fn prepare(&self, positions: &[usize], columns: &Columns) -> Result<Vec<f32>, RowError> {
        let cells = positions.iter().zip(columns.columns()).enumerate();
        cells
            .map(|(index, (&position, column))| {
                let cell = self.cells.get(position).unwrap_or(&Cell::Missing);
                let reading = match (&column.reading, cell) {
                    (Reading::Number, Cell::Number(number)) => Some(*number),
                    // Truth values are accepted as the numbers 0 and 1, since a DataFrame may have them instead.
                    (Reading::Number, Cell::Text(text)) if let Some(truth) = truth(text) => {
                        Some(f64::from(u8::from(truth)))
                    }
                    (Reading::Number, Cell::Text(text)) => {
                        return Err(RowError::Text { column: column.name.clone(), found: text.to_string() });
                    }
                    (Reading::Number, Cell::Missing) => None,
                    // A missing category is refused like a missing number.
                    (Reading::Is(_), Cell::Missing) if columns.missing() == Missing::Refuse => None,
                    (Reading::Is(value), Cell::Text(text)) if category::is_same(text, value) => Some(1.0),
                    // Some programs write `True`, others `true`.
                    (Reading::Is(value), Cell::Text(text)) if truth(value).is_some() && truth(value) == truth(text) => {
                        Some(1.0)
                    }
                    // Arrays and databases have them as 0 and 1.
                    (Reading::Is(value), Cell::Number(number)) if truth(value).is_some_and(|it| is_as(it, *number)) => {
                        Some(1.0)
                    }
                    (Reading::Absent, Cell::Missing) => Some(1.0),
                    (Reading::Is(_) | Reading::Absent, _) => Some(0.0),
                };
                columns.value(index, reading).ok_or_else(|| RowError::Missing(column.name.clone()))
            })
            .collect()
    }

    /// Whether one of the cells at `positions` is missing and is filled in.
    pub fn is_filled(&self, positions: &[usize], columns: &Columns) -> bool {
        columns.missing() == Missing::Fill && positions.iter().any(|&at| self.cells.get(at) == Some(&Cell::Missing))
    }
}

/// The name of a column with one blank in the place of each run of blanks, tabs and line breaks. Names are compared in this form:
/// a DataFrame and a file written by hand rarely agree on these.
fn with_single_blanks(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `number` is the one that is written for a truth value.
fn is_as(truth: bool, number: f64) -> bool {
    number == f64::from(u8::from(truth))
}

/// Parses a text as a truth value.
fn truth(text: &str) -> Option<bool> {
    let is = |name: &str| text.eq_ignore_ascii_case(name);
    if is("true") { Some(true) } else { is("false").then_some(false) }
}

#[cfg(test)]
mod tests;
