//! Files of tables: one, or a folder of them that are trained on together.

use std::path::{Path, PathBuf};

use nae_input::table::{self, Cell, RowError, Table, TableError, is_table};
use nae_onnx::file::{self, FileError};
use nae_onnx::metadata::ColumnsError;
use sha2::{Digest as _, Sha256};

use crate::digest::hex;
use crate::image_set::ImageSetError;

/// Most columns of a table, or values of a window.
pub(crate) const MAX_COLUMNS: usize = 8192;

/// A table of one's own that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OwnTableError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is no table, or lacks a column.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A row cannot be used.
    #[error("{}, line {line}: {cause}; {hint}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Why.
        cause: RowError,
        /// What to do.
        hint: &'static str,
    },
    /// Too few columns are numbers that vary.
    #[error("{}: expected {least} to {MAX_COLUMNS} columns of numbers that vary, found {found}", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// The fewest that make sense.
        least: usize,
        /// How many there are.
        found: usize,
    },
    /// A window of all columns has more values than a network takes.
    #[error("{}: {rows} rows of {columns} columns are more than {MAX_COLUMNS} values; take a shorter --window", path.display())]
    Wide {
        /// The file.
        path: PathBuf,
        /// Rows of a window.
        rows: usize,
        /// Columns.
        columns: usize,
    },
    /// The series is too short to be divided.
    #[error(
        "{}: expected at least {expected} rows for windows of {window}, found {found}; take a shorter --window",
        path.display()
    )]
    Short {
        /// The file or folder.
        path: PathBuf,
        /// Rows of a window.
        window: usize,
        /// Rows needed.
        expected: usize,
        /// Rows there are.
        found: usize,
    },
    /// The folder cannot be read, or has no table.
    #[error("{}: expected a folder of .csv or .tsv tables: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Means or deviations are not finite.
    #[error("{}: {cause}", path.display())]
    Numbers {
        /// The file.
        path: PathBuf,
        /// Which.
        cause: ColumnsError,
    },
    /// The values are no samples.
    #[error("{}: {cause}", path.display())]
    Samples {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: ImageSetError,
    },
}

/// Whether `path` is a table, by its name, or a folder that has tables and no other files.
pub fn is_tables(path: &Path) -> bool {
    is_table(path) || tables_in(path).is_ok_and(|tables| !tables.is_empty())
}

/// Tables that are trained on together.
pub(super) struct Read {
    pub(super) tables: Vec<Table>,
    /// Of the file; of a folder, of the files' names and contents.
    pub(super) sha256: String,
}

impl Read {
    /// All numbers of a column; tables that lack it are found out when their rows are taken.
    pub(super) fn numbers(&self, name: &str) -> Vec<f64> {
        let of = |table: &Table| {
            let index = table.names().iter().position(|own| own == name);
            let cells = table.rows().iter().filter_map(|row| row.cells.get(index?));
            cells.filter_map(|cell| if let Cell::Number(n) = cell { Some(*n) } else { None }).collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(of).collect()
    }

    /// Of all tables.
    pub(super) fn rows(&self) -> usize {
        self.tables.iter().map(|table| table.rows().len()).sum()
    }
}

/// The table at `path`, or those in the folder there.
pub(super) fn read(path: &Path) -> Result<Read, OwnTableError> {
    let one = |path: &Path| -> Result<(Table, Vec<u8>), OwnTableError> {
        let bytes = file::read(path, nae_input::MAX_FILE)?;
        Ok((table::parse(path, &bytes)?, bytes))
    };
    if !path.is_dir() {
        let (table, bytes) = one(path)?;
        return Ok(Read { tables: vec![table], sha256: hex(Sha256::new_with_prefix(&bytes)) });
    }
    let folder = |reason: String| OwnTableError::Folder { path: path.to_owned(), reason };
    let (mut tables, mut hash) = (Vec::new(), Sha256::new());
    for file in tables_in(path).map_err(|error| folder(error.to_string()))? {
        let (table, bytes) = one(&file)?;
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(Sha256::digest(&bytes));
        tables.push(table);
    }
    if tables.is_empty() {
        Err(folder("there is none, or something else".to_owned()))
    } else {
        Ok(Read { tables, sha256: hex(hash) })
    }
}

/// The tables of a folder by name; none where it has other files too. Hidden files are passed over.
fn tables_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(if files.iter().all(|file| is_table(file)) { files } else { Vec::new() })
}
