//! Reads tables: one file, or a folder of files that are trained on together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use nae_input::table::{self, Cell, Table, is_table};
use nae_onnx::file::{self};
use sha2::{Digest as _, Sha256};

use crate::counted::counted;
use crate::digest::hex;
use crate::error::DataError;
use crate::file_names::{has_images, is_array};

/// The largest number of columns of a table, or of values in a window.
pub(crate) const MAX_COLUMNS: usize = 8192;

/// Whether `path` is a table, judged by its name, or a folder that contains tables and no other files.
pub fn is_tables(path: &Path) -> bool {
    is_table(path) || tables_in(path).is_ok_and(|tables| !tables.is_empty())
}

/// Tables that are trained on together.
pub(super) struct Read {
    pub(super) tables: Vec<Table>,
    /// The positions of each table's columns by name.
    positions: Vec<HashMap<String, usize>>,
    /// The SHA-256 of the file; for a folder, of the files' names and contents.
    pub(super) sha256: String,
}

impl Read {
    fn new(tables: Vec<Table>, sha256: String) -> Self {
        let of = |table: &Table| table.names().iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
        Self { positions: tables.iter().map(of).collect(), tables, sha256 }
    }

    /// The cells of the column `name`, row after row; tables without it cause an error later, when their rows are read.
    pub(super) fn cells<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.tables.iter().zip(&self.positions).flat_map(move |(table, positions)| {
            let index = positions.get(name).copied();
            table.rows().iter().filter_map(move |row| row.cells.get(index?))
        })
    }

    /// The same for the rows that `used` marks, with one list for each table.
    pub(super) fn cells_of<'a>(&'a self, name: &'a str, used: &'a [Vec<bool>]) -> impl Iterator<Item = &'a Cell> {
        self.tables.iter().zip(&self.positions).zip(used).flat_map(move |((table, positions), used)| {
            let index = positions.get(name).copied();
            let rows = table.rows().iter().zip(used).filter(|(_, used)| **used);
            rows.filter_map(move |(row, _)| row.cells.get(index?))
        })
    }

    /// If the numbers of the column `name` have no certain decimal sign in a table, returns the reason.
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
    if path.is_file() && has_images(path) {
        return Err(DataError::at(path, "expected a .csv or .tsv table, or a folder of tables; found images"));
    }
    if !path.is_dir() {
        let (table, bytes) = one(path)?;
        return Ok(Read::new(vec![table], hex(Sha256::new_with_prefix(&bytes))));
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
        Err(folder(others_beside(path).unwrap_or_else(|| none_in(path))))
    } else {
        Ok(Read::new(tables, hex(hash)))
    }
}

/// The tables of a folder, sorted by name; empty if the folder contains other files.
fn tables_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let files = visible(folder)?;
    Ok(if files.iter().all(|file| is_table(file)) { files } else { Vec::new() })
}

/// The files and folders in `folder`, sorted by name, without hidden ones.
fn visible(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// If `folder` contains tables, which other files prevent from being read as such: what was found, and what to do.
pub(super) fn others_beside(folder: &Path) -> Option<String> {
    let (tables, others): (Vec<_>, Vec<_>) = visible(folder).ok()?.into_iter().partition(|file| is_table(file));
    let packed = others.iter().find(|file| is_packed_table(file));
    let named = packed.or(others.first())?.file_name()?.to_string_lossy().into_owned();
    if tables.is_empty() && packed.is_none() {
        return None;
    }
    let todo = match (packed, others.len()) {
        (Some(_), _) => "unpack tables, and remove the rest",
        (None, 1) => "remove it",
        (None, _) => "remove them",
    };
    let others = match others.len() {
        1 => format!("1 other file, {named:?}"),
        count => format!("{count} other files, such as {named:?}"),
    };
    let tables = counted(tables.len(), "table");
    Some(format!("found {tables} and {others}: a folder of tables may hold nothing else; {todo}"))
}

/// With as many other files, a folder of tables may be one of images with a table for each.
const FEW_FILES: usize = 50;

/// If `folder` contains more tables than other files, a few of which are images and none an array or a folder, which may have many:
/// what was found, and what to do.
pub(super) fn mostly_tables(folder: &Path) -> Option<String> {
    let (tables, others): (Vec<_>, Vec<_>) = visible(folder).ok()?.into_iter().partition(|file| is_table(file));
    let has_many = |file: &PathBuf| file.is_dir() || is_array(file);
    let one = others.iter().find(|file| has_images(file))?.file_name()?.to_string_lossy().into_owned();
    (tables.len() > others.len() && others.len() < FEW_FILES && !others.iter().any(has_many)).then(|| {
        let (tables, others) = (counted(tables.len(), "table"), counted(others.len(), "other file"));
        format!("found {tables} and {others}, such as {one:?}; keep tables and images in folders of their own")
    })
}

/// What was found in a folder without tables.
fn none_in(folder: &Path) -> String {
    let first = visible(folder).ok().and_then(|files| Some(files.first()?.file_name()?.to_string_lossy().into_owned()));
    first.map_or_else(|| "it is empty".to_owned(), |name| format!("there is none, but {name:?}"))
}

/// Whether `path` is a table packed by gzip, judged by its name.
pub(super) fn is_packed_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz")) && is_table(&path.with_extension(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::{self, Corrupt};

    /// Such a folder is no folder of tables, so that it is read as one of images.
    #[test]
    fn a_folder_of_tables_and_other_files_is_said_to_be_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str| std::fs::write(folder.path().join(name), "a,b\n1,2\n").expect("writes");
        ["1.csv", "2.tsv"].into_iter().for_each(write);
        assert!(is_tables(folder.path()));
        write("readme.txt");
        assert!(!is_tables(folder.path()));
        let of_images = || own::choose(folder.path(), Corrupt::Skip).expect_err("no images").to_string();
        for message in [of_images(), read(folder.path()).err().expect("not only tables").to_string()] {
            let said =
                "found 2 tables and 1 other file, \"readme.txt\": a folder of tables may hold nothing else; remove it";
            assert!(message.contains(said), "{message}");
        }
        write("3.csv.gz");
        let message = of_images();
        assert!(message.contains("2 other files, such as \"3.csv.gz\"") && message.contains("unpack"), "{message}");
        // Images make it a folder of images.
        std::fs::write(folder.path().join("a.pgm"), "P2 1 1 1 1").expect("writes");
        assert!(own::choose(folder.path(), Corrupt::Skip).is_ok());
    }

    /// The message names what is there, and says what to do about it.
    #[test]
    fn a_folder_without_images_or_tables_is_described() {
        let folder = tempfile::tempdir().expect("a folder");
        let images = || own::choose(folder.path(), Corrupt::Skip).expect_err("no images").to_string();
        let tables = || read(folder.path()).err().expect("no tables").to_string();
        assert!(images().ends_with("found no file") && tables().contains("it is empty"), "{} {}", images(), tables());
        for (name, todo) in
            [("a.heic", "convert images to PNG"), ("a.xlsx", "save it as .csv or .tsv"), ("a", "--preset")]
        {
            let path = folder.path().join(name);
            std::fs::write(&path, "?").expect("writes");
            let said = images();
            assert!(said.contains(&format!("1 other file, such as {name:?}; ")) && said.contains(todo), "{said}");
            assert!(tables().contains(&format!("there is none, but {name:?}")), "{}", tables());
            std::fs::remove_file(path).expect("removes");
        }
        let inner = folder.path().join("day 1");
        std::fs::create_dir(&inner).expect("makes");
        std::fs::write(inner.join("a.csv"), "a,b\n1,2\n").expect("writes");
        let said = images();
        assert!(
            said.contains("such as \"day 1/a.csv\"; put the tables into one folder, without sub-folders"),
            "{said}"
        );
        std::fs::remove_dir_all(inner).expect("removes");
        // A table in the place of images, and the reverse.
        let (table, image) = (folder.path().join("a.csv"), folder.path().join("a.png"));
        [&table, &image].into_iter().for_each(|path| std::fs::write(path, "a,b\n1,2\n").expect("writes"));
        let said = own::choose(&table, Corrupt::Skip).expect_err("a table").to_string();
        assert!(said.contains("a.csv") && said.contains("give images"), "{said}");
        let said = read(&image).err().expect("an image").to_string();
        assert!(said.contains("a.png: expected a .csv or .tsv table") && said.contains("found images"), "{said}");
    }

    #[test]
    fn a_packed_table_is_to_be_unpacked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pump.CSV.gz");
        std::fs::write(&path, [31, 139, 8]).expect("writes");
        let message = own::choose(&path, Corrupt::Skip).expect_err("packed").to_string();
        assert!(message.contains("pump.CSV.gz") && message.contains("found a packed table; unpack it"), "{message}");
    }
}
