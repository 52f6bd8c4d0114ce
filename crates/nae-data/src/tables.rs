//! Reads tables: one file, or a folder of files that are trained on together.

use std::path::{Path, PathBuf};

use nae_input::table::{self, Cell, Table, is_table};
use nae_onnx::file::{self};
use sha2::{Digest as _, Sha256};

use crate::digest::hex;
use crate::error::DataError;

/// The largest number of columns of a table, or of values in a window.
pub(crate) const MAX_COLUMNS: usize = 8192;

/// Whether `path` is a table, judged by its name, or a folder that contains tables and no other files.
pub fn is_tables(path: &Path) -> bool {
    is_table(path) || tables_in(path).is_ok_and(|tables| !tables.is_empty())
}

/// Tables that are trained on together.
pub(super) struct Read {
    pub(super) tables: Vec<Table>,
    /// The SHA-256 of the file; for a folder, of the files' names and contents.
    pub(super) sha256: String,
}

impl Read {
    /// The cells of the column `name`, row after row; tables without it cause an error later, when their rows are read.
    pub(super) fn cells<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.tables.iter().flat_map(move |table| {
            let index = table.names().iter().position(|own| own == name);
            table.rows().iter().filter_map(move |row| row.cells.get(index?))
        })
    }

    /// If a table has decimal commas and points in the column `name`, returns the numbers concerned.
    pub(super) fn mixed_decimals(&self, name: &str) -> Option<&str> {
        self.tables.iter().find_map(|table| table.mixed_decimals(name))
    }

    /// The number of rows of all tables.
    pub(super) fn rows(&self) -> usize {
        self.tables.iter().map(|table| table.rows().len()).sum()
    }
}

/// Reads the table at `path`, or the tables in the folder at `path`.
pub(super) fn read(path: &Path) -> Result<Read, DataError> {
    let one = |path: &Path| -> Result<(Table, Vec<u8>), DataError> {
        let bytes = file::read(path, nae_input::MAX_FILE)?;
        Ok((table::parse(path, &bytes)?, bytes))
    };
    if !path.is_dir() {
        let (table, bytes) = one(path)?;
        return Ok(Read { tables: vec![table], sha256: hex(Sha256::new_with_prefix(&bytes)) });
    }
    let folder =
        |reason: String| DataError::at(path, format_args!("expected a folder of .csv or .tsv tables: {reason}"));
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

/// The tables of a folder, sorted by name; empty if the folder contains other files. Hidden files are ignored.
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
