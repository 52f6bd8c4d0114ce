//! Tables of readings: `.csv` and `.tsv` files, one row a sample.
//!
//! Cells are separated by commas, semicolons or tabs, whichever the first line has most of. The first
//! line is a header where one of its cells is neither a number nor missing; otherwise columns are
//! called `column 1` and so on. Missing is an empty cell, or one of `NA`, `N/A`, `NaN`, `null`, `none`
//! and `?`. Where semicolons separate cells, numbers may have a decimal comma, as spreadsheets write them
//! in much of the world; beside a decimal point in the same table it is refused, since either may then
//! separate thousands. What a reading becomes is [`Columns`]'.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nae_onnx::metadata::{Columns, Missing, Reading};

/// Most bytes and cells of a table that is read.
const MAX_BYTES: u64 = crate::MAX_FILE;
const MAX_CELLS: usize = 1 << 26;

/// A table, in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    path: PathBuf,
    names: Vec<String>,
    rows: Vec<Row>,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its line in the file, from 1.
    pub line: u64,
    /// As many cells as the table has columns.
    pub cells: Vec<Cell>,
}

/// What is in a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A finite number.
    Number(f64),
    /// An empty field.
    Missing,
    /// Anything else.
    Text(Box<str>),
}

/// Why a file gives no table. Messages name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] nae_onnx::file::FileError),
    /// The file is no table of text.
    #[error("{}: expected a table, rows of equally many cells: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A column that the model takes is not there.
    #[error("{}: expected the column {column:?}, found {found}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The columns there are.
        found: String,
    },
    /// There are fewer rows than one sample takes.
    #[error("{}: expected at least {expected} rows, as many as make one window, found {found}", path.display())]
    Rows {
        /// The file.
        path: PathBuf,
        /// Rows of a window.
        expected: usize,
        /// Rows there are.
        found: usize,
    },
}

/// Why a row cannot become a network's input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A reading is not there, and the model was not told to fill it in.
    #[error("expected a number in the column {0:?}, found none")]
    Missing(String),
    /// A reading is no number.
    #[error("expected a number in the column {column:?}, found {found:?}")]
    Text {
        /// The column.
        column: String,
        /// What is there.
        found: String,
    },
}

/// Whether `path` is a table by its name.
pub fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv") || end.eq_ignore_ascii_case("tsv"))
}

/// Reads a table.
///
/// # Errors
/// [`TableError`] names the file.
pub fn read(path: &Path) -> Result<Table, TableError> {
    parse(path, &nae_onnx::file::read(path, MAX_BYTES)?)
}

/// The table with the content `bytes`; `path` is for messages.
///
/// # Errors
/// [`TableError::Format`].
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Table, TableError> {
    let wrong = |reason: String| TableError::Format { path: path.to_owned(), reason };
    let mut records = Records::new(bytes);
    let mut decimals = Decimals { commas: records.delimiter == b';', comma: None, point: None };
    let (mut names, mut rows, mut cells) = (Vec::new(), Vec::new(), 0);
    while let Some((line, record)) = records.next().map_err(&wrong)? {
        let row: Vec<Cell> = record.iter().map(|text| decimals.cell(line, text)).collect();
        if names.is_empty() {
            if row.iter().any(|cell| matches!(cell, Cell::Text(_))) {
                names = record.iter().map(|&name| name.to_owned()).collect();
                continue;
            }
            names = (1..=row.len()).map(|n| format!("column {n}")).collect();
        }
        if row.len() != names.len() {
            return Err(wrong(format!("line {line} has {}, the first has {}", row.len(), names.len())));
        }
        cells += row.len();
        if cells > MAX_CELLS {
            return Err(wrong(format!("more than {MAX_CELLS} cells")));
        }
        rows.push(Row { line, cells: row });
    }
    decimals.check().map_err(wrong)?;
    Table::checked(path, names, rows)
}

/// Which sign separates the decimals of a table's numbers.
struct Decimals {
    /// Whether a comma may.
    commas: bool,
    /// The first numbers with a comma and with a point, and their lines.
    comma: Option<(u64, Box<str>)>,
    point: Option<(u64, Box<str>)>,
}

impl Decimals {
    fn cell(&mut self, line: u64, text: &str) -> Cell {
        let mut cell = Cell::from(text);
        let first = match cell {
            Cell::Number(_) if text.contains('.') => &mut self.point,
            Cell::Text(_)
                if self.commas
                    && let Some(number) = with_point(text) =>
            {
                cell = Cell::Number(number);
                &mut self.comma
            }
            _ => return cell,
        };
        first.get_or_insert_with(|| (line, text.into()));
        cell
    }

    fn check(self) -> Result<(), String> {
        let (Some((comma_line, comma)), Some((point_line, point))) = (self.comma, self.point) else { return Ok(()) };
        Err(format!(
            "{comma:?} in line {comma_line} has a comma and {point:?} in line {point_line} a point; write all decimals with one \
             of them, and no sign between thousands"
        ))
    }
}

/// The records of a table, one after the other, in buffers that are used again.
struct Records<'a> {
    reader: csv_core::Reader,
    input: &'a [u8],
    delimiter: u8,
    line: u64,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let input = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let delimiter = delimiter(input);
        let reader = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        Self { reader, input, delimiter, line: 1, text: vec![0; 1024], ends: vec![0; 64] }
    }

    fn consume(&mut self, count: usize) {
        let (read, rest) = self.input.split_at(count.min(self.input.len()));
        self.line += read.iter().filter(|&&b| b == b'\n').count() as u64;
        self.input = rest;
    }

    /// The next record that is not empty, and its line; blanks around cells are left out.
    fn next(&mut self) -> Result<Option<(u64, Vec<&str>)>, String> {
        let blank = self.input.iter().take_while(|b| b"\r\n".contains(b)).count();
        self.consume(blank);
        let line = self.line;
        let (mut written, mut ended) = (0, 0);
        loop {
            let (result, read, wrote, ends) =
                self.reader.read_record(self.input, &mut self.text[written..], &mut self.ends[ended..]);
            self.consume(read);
            (written, ended) = (written + wrote, ended + ends);
            match result {
                csv_core::ReadRecordResult::InputEmpty => {}
                csv_core::ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len(), 0),
                csv_core::ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                csv_core::ReadRecordResult::Record => break,
                csv_core::ReadRecordResult::End => return Ok(None),
            }
        }
        let mut start = 0;
        let cells = self.ends[..ended].iter().map(|&end| {
            let cell = self.text.get(std::mem::replace(&mut start, end)..end).unwrap_or_default();
            std::str::from_utf8(cell).map(str::trim).map_err(|_| format!("line {line} is not text in UTF-8"))
        });
        cells.collect::<Result<_, _>>().map(|cells| Some((line, cells)))
    }
}

/// The number that `text` is with a decimal comma.
fn with_point(text: &str) -> Option<f64> {
    let is_candidate = text.matches(',').count() == 1 && !text.contains('.');
    let number = is_candidate.then(|| text.replace(',', ".").parse().ok())?;
    number.filter(|number: &f64| number.is_finite())
}

fn delimiter(bytes: &[u8]) -> u8 {
    let first = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    // In a first line without names, commas may be those of decimals.
    let has_commas = |cell: &[u8]| cell.contains(&b',');
    let is_decimal = |cell: &[u8]| std::str::from_utf8(cell).is_ok_and(|text| with_point(text.trim()).is_some());
    let mut cells = first.split(|&b| b == b';');
    if first.contains(&b';') && cells.all(|cell| !has_commas(cell) || is_decimal(cell)) {
        return b';';
    }
    let count = |delimiter: u8| first.iter().filter(|&&b| b == delimiter).count();
    // Of equally many, the last of these: the comma.
    [b'\t', b';', b','].into_iter().max_by_key(|&delimiter| count(delimiter)).unwrap_or(b',')
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        const MISSING: [&str; 7] = ["", "na", "n/a", "nan", "null", "none", "?"];
        if MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing)) {
            return Self::Missing;
        }
        match text.parse() {
            Ok(number) if f64::is_finite(number) => Self::Number(number),
            _ => Self::Text(text.into()),
        }
    }
}

impl Table {
    /// A table in memory, whose rows are counted from 1; `path` is what messages call it.
    ///
    /// # Errors
    /// [`TableError::Format`] where there is no row, a row has not as many cells as there are `names`, or two names are
    /// the same.
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
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
            return Err(wrong(format!("two columns are called {twice:?}")));
        }
        if rows.is_empty() {
            return Err(wrong("no row".to_owned()));
        }
        Ok(Self { path: path.to_owned(), names, rows })
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The rows, in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Where each of the model's `columns` is in the table; others are passed over.
    ///
    /// # Errors
    /// [`TableError::Column`] where one is not there.
    pub fn positions(&self, columns: &Columns) -> Result<Vec<usize>, TableError> {
        let found: BTreeMap<&str, usize> =
            self.names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let position = |name: &String| {
            found.get(name.as_str()).copied().ok_or_else(|| TableError::Column {
                path: self.path.clone(),
                column: name.clone(),
                found: self.names.join(", "),
            })
        };
        columns.columns().iter().map(|column| position(&column.name)).collect()
    }
}

impl Row {
    /// The network's input, from the cells at `positions`.
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
                    (Reading::Number, Cell::Text(text)) => {
                        return Err(RowError::Text { column: column.name.clone(), found: text.to_string() });
                    }
                    (Reading::Number, Cell::Missing) => None,
                    // Where rows with gaps are refused, so are those that lack a category.
                    (Reading::Is(_), Cell::Missing) if columns.missing() == Missing::Refuse => None,
                    (Reading::Is(value), Cell::Text(text)) if **text == **value => Some(1.0),
                    (Reading::Absent, Cell::Missing) => Some(1.0),
                    (Reading::Is(_) | Reading::Absent, _) => Some(0.0),
                };
                columns.value(index, reading).ok_or_else(|| RowError::Missing(column.name.clone()))
            })
            .collect()
    }

    /// Whether a cell at `positions` is missing and would be filled in.
    pub fn is_filled(&self, positions: &[usize], columns: &Columns) -> bool {
        columns.missing() == Missing::Fill && positions.iter().any(|&at| self.cells.get(at) == Some(&Cell::Missing))
    }
}

#[cfg(test)]
mod tests {
    use nae_onnx::metadata::Column;

    use super::*;

    fn table(text: &str) -> Result<Table, String> {
        parse(Path::new("t.csv"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_in_memory_is_checked_as_a_file_is() {
        let new = |names: &[&str], rows: Vec<Vec<Cell>>| {
            Table::new("memory", names.iter().map(|&name| name.to_owned()).collect(), rows)
                .map_err(|error| error.to_string())
        };
        let row = |a, b| vec![Cell::Number(a), Cell::Number(b)];
        let given = new(&["a", "b"], vec![row(1.0, 2.0), row(3.0, 4.0)]).unwrap();
        assert_eq!(given.rows()[1], Row { line: 2, cells: row(3.0, 4.0) });
        for (names, rows, problem) in [
            (&["a", "a"][..], vec![row(1.0, 2.0)], "two columns are called"),
            (&["a", "b"][..], Vec::new(), "no row"),
            (&["a"][..], vec![row(1.0, 2.0)], "line 1 has 2, and there are 1 names"),
        ] {
            let message = new(names, rows).unwrap_err();
            assert!(message.contains("memory") && message.contains(problem), "{message}");
        }
    }

    #[test]
    fn header_and_delimiter_are_seen() {
        for text in ["a,b\n1,2\n", "a;b\r\n1;2", "a\tb\n1\t2\n", "\u{feff}a,b\n\n 1 , 2\n", "\"a\",b\n\"1\",2e0\n"] {
            let table = table(text).unwrap();
            assert_eq!(table.names(), ["a", "b"], "{text:?}");
            assert_eq!(table.rows()[0].cells, [Cell::Number(1.0), Cell::Number(2.0)], "{text:?}");
        }
        let table = table("1,NA\n?,x y\n").unwrap();
        assert_eq!(table.names(), ["column 1", "column 2"]);
        assert_eq!(table.rows()[0].cells, [Cell::Number(1.0), Cell::Missing]);
        assert_eq!(table.rows()[1], Row { line: 2, cells: vec![Cell::Missing, Cell::Text("x y".into())] });
    }

    #[test]
    fn decimal_commas_are_numbers_where_semicolons_separate() {
        let read = table("a;b;c\n1,5;-2,5e1;3\n,5;7;1,2,3\n").unwrap();
        assert_eq!(read.rows()[0].cells, [Cell::Number(1.5), Cell::Number(-25.0), Cell::Number(3.0)]);
        assert_eq!(read.rows()[1].cells, [Cell::Number(0.5), Cell::Number(7.0), Cell::Text("1,2,3".into())]);
        // Numbers with a comma in the first line are no header.
        assert_eq!(table("1,5;2,5\n").unwrap().names(), ["column 1", "column 2"]);
        assert_eq!(table("1,5;2,5;3\n").unwrap().rows()[0].cells[1], Cell::Number(2.5));
        // As many semicolons as commas, in names.
        assert_eq!(table("a;b,c\n1,2\n").unwrap().names(), ["a;b", "c"]);
        // In a table of tabs it may as well separate thousands.
        assert_eq!(table("a\tb\n1,500\t2\n").unwrap().rows()[0].cells[0], Cell::Text("1,500".into()));
        // 1.234 may be a thousand and more.
        let message = table("a;b\n1;2\n1,5;2\n1;1.234\n").unwrap_err();
        assert!(message.contains("\"1,5\" in line 3") && message.contains("\"1.234\" in line 4"), "{message}");
        // A date is no number, and a text with both signs decides nothing.
        table("day;b\n12.03.2024;1,5\n1.234,5;2\n").unwrap();
    }

    #[test]
    fn what_is_no_table_is_named() {
        for (text, named) in [
            ("", "no row"),
            ("a,b\n", "no row"),
            ("a,a\n1,2\n", "two columns"),
            ("1,2\n\n1\n", "line 3 has 1, the first has 2"),
            ("1,inf\n", "no row"),
        ] {
            let message = table(text).unwrap_err();
            assert!(message.contains(named) && message.contains("t.csv"), "{message}");
        }
        let message = parse(Path::new("t.csv"), &[b'1', b'\n', 0xff, b'\n']).unwrap_err().to_string();
        assert!(message.contains("line 2 is not text"), "{message}");
    }

    #[test]
    fn long_rows_and_cells_are_whole() {
        let header: Vec<String> = (0..500).map(|n| format!("\"a, long \"\"name\"\" {n}\"")).collect();
        let numbers: Vec<String> = (0..500).map(|n| format!("{n}.25")).collect();
        let table = table(&format!("{}\n{}", header.join(","), numbers.join(","))).unwrap();
        assert_eq!(table.names()[499], "a, long \"name\" 499");
        assert_eq!(
            table.rows(),
            [Row { line: 2, cells: (0..500).map(|n| Cell::Number(f64::from(n) + 0.25)).collect() }]
        );
    }

    #[test]
    fn columns_are_found_by_name() {
        let column = |name: &str| Column::number(name, 1.0, 1.0, 4.0);
        let columns = |missing| Columns::new(vec![column("b"), column("a")], missing).unwrap();
        let (refuse, fill) = (columns(Missing::Refuse), columns(Missing::Fill));
        let read = table("a,time,b\n1,noon,5\n1,noon,\n1,noon,low\n").unwrap();
        let positions = read.positions(&refuse).unwrap();
        let row = |n: usize, columns: &Columns| read.rows()[n].prepare(&positions, columns);
        assert_eq!(row(0, &refuse), Ok(vec![1.0, 0.5]));
        assert_eq!(row(1, &refuse), Err(RowError::Missing("b".to_owned())));
        assert_eq!(row(1, &fill), Ok(vec![0.5, 0.5]));
        assert_eq!(row(2, &fill), Err(RowError::Text { column: "b".to_owned(), found: "low".to_owned() }));
        assert_eq!(read.rows().iter().filter(|row| row.is_filled(&positions, &fill)).count(), 1);
        let message = table("a,c\n1,2\n").unwrap().positions(&refuse).unwrap_err().to_string();
        assert!(message.contains("\"b\"") && message.contains("a, c"), "{message}");
    }
    #[test]
    fn categories_and_gaps_have_inputs_of_their_own() {
        let indicator = |reading| Column { reading, ..Column::number("colour", 0.5, 0.5, 4.0) };
        let is = |value: &str| indicator(Reading::Is(value.to_owned()));
        let columns = |missing| Columns::new(vec![is("red"), is("blue"), indicator(Reading::Absent)], missing).unwrap();
        let (refuse, fill) = (columns(Missing::Refuse), columns(Missing::Fill));
        let read = table("a,colour\n1,red\n1,blue\n1,\n1,green\n1,7\n").unwrap();
        let positions = read.positions(&fill).unwrap();
        let row = |n: usize, columns: &Columns| read.rows()[n].prepare(&positions, columns);
        let (yes, no) = (0.625, 0.375);
        for (n, expected) in
            [[yes, no, no], [no, yes, no], [no, no, yes], [no, no, no], [no, no, no]].into_iter().enumerate()
        {
            assert_eq!(row(n, &fill), Ok(expected.to_vec()), "{n}");
        }
        assert_eq!(row(0, &refuse), Ok(vec![yes, no, no]));
        assert_eq!(row(2, &refuse), Err(RowError::Missing("colour".to_owned())));
    }
}
