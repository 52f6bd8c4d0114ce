//! The input files of `score` and `calibrate`: single paths, folders, or standard input.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::bail;
use nae_infer::input::{FoldersAbove, MAX_FILE, is_image_name, table};
use nae_onnx::file::{FileError, read_stream};
use walkdir::{DirEntry, WalkDir};

use crate::output::note;

/// The name of standard input.
const STDIN: &str = "-";

/// The largest number of inputs that are scored at a time, enough for every thread.
const MOST_INPUTS: usize = 64;
/// The largest number of values of these inputs together, unless one has more: 64 MiB.
const MOST_VALUES: usize = 1 << 24;

/// How many inputs of `length` values are scored at a time.
pub(crate) fn batch_size(length: usize) -> usize {
    (MOST_VALUES / length.max(1)).clamp(1, MOST_INPUTS)
}

/// Whether a path stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new(STDIN)
}

/// Reads a file, or standard input.
pub(crate) fn content(path: &Path) -> Result<Vec<u8>, FileError> {
    match is_stdin(path) {
        true => read_stream(io::stdin().lock(), path, MAX_FILE),
        false => nae_onnx::file::read(path, MAX_FILE),
    }
}

/// The files of a path: the path itself, or the files of a folder and its sub-folders in the order of their names,
/// without hidden ones. `failed` is called for each part of a folder that cannot be read, and the rest is read. Files with other
/// names are left out; a note says so, unless `quiet`.
pub(crate) fn files(
    path: &Path,
    tables: bool,
    quiet: bool,
    failed: &mut dyn FnMut(&anyhow::Error),
) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().to_string_lossy().starts_with('.');
    let is_batch = |path: &Path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy"));
    let is_wanted = |path: &Path| if tables { table::is_table(path) } else { is_image_name(path) || is_batch(path) };
    let (mut files, mut has_failed) = (Vec::new(), false);
    let (mut others, mut first_other) = (0, None);
    let mut above = FoldersAbove::default();
    let is_entered =
        |entry: &DirEntry| is_shown(entry) && (!entry.file_type().is_dir() || above.enter(entry.path(), entry.depth()));
    for entry in WalkDir::new(path).follow_links(true).sort_by_file_name().into_iter().filter_entry(is_entered) {
        match entry {
            Ok(entry) if !entry.file_type().is_file() => {}
            Ok(entry) if is_wanted(entry.path()) => files.push(entry.into_path()),
            Ok(entry) => {
                others += 1;
                first_other.get_or_insert_with(|| entry.into_path());
            }
            // If a link leads back, its files are read only once.
            Err(error) if error.loop_ancestor().is_some() => {}
            Err(error) => {
                let place = error.path().unwrap_or(path).to_owned();
                let is_hidden = place.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
                // A broken link is only reported if its name is that of an image.
                if place.is_dir() || (is_wanted(&place) && !is_hidden) {
                    has_failed = true;
                    failed(&anyhow::anyhow!("{}: cannot be read: {}", place.display(), cause(&error)));
                }
            }
        }
    }
    let kind = if tables { "tables" } else { "images" };
    if files.is_empty() && !has_failed {
        bail!("{}: expected {kind} (by their names), found none", path.display());
    }
    if let (Some(first), false) = (first_other, quiet) {
        let files = if others == 1 { "1 file is" } else { &format!("{others} files are") };
        note(&format!("{files} left out, such as {}: only {kind} are read, by their names", first.display()));
    }
    Ok(files)
}

/// The error without the path, which the message already contains.
fn cause(error: &walkdir::Error) -> String {
    error.io_error().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_inputs_are_few_at_a_time() {
        let large = 3 * 1024 * 1024;
        assert_eq!([0, 256, 1 << 18, large, 1 << 24, 1 << 26].map(batch_size), [64, 64, 64, 5, 1, 1]);
    }
}
