//! What `score` and `calibrate` are given, as files: one by its path, a folder's, or standard input.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::bail;
use nae_infer::input::{MAX_FILE, is_image_name, table};
use nae_onnx::file::{FileError, read_stream};
use walkdir::{DirEntry, WalkDir};

/// The name that standard input has.
const STDIN: &str = "-";

/// Reads a file, or standard input.
pub(crate) fn content(path: &Path) -> Result<Vec<u8>, FileError> {
    match path == Path::new(STDIN) {
        true => read_stream(io::stdin().lock(), path, MAX_FILE),
        false => nae_onnx::file::read(path, MAX_FILE),
    }
}

/// The files that a path stands for: itself; or a folder's, with those of the folders in it, in the order of their names,
/// without what is hidden. `failed` is called with what cannot be read of a folder, and the rest is read.
pub(crate) fn files(path: &Path, tables: bool, failed: &mut dyn FnMut(&anyhow::Error)) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().to_string_lossy().starts_with('.');
    let is_batch = |path: &Path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy"));
    let is_wanted = |path: &Path| if tables { table::is_table(path) } else { is_image_name(path) || is_batch(path) };
    let (mut files, mut has_failed) = (Vec::new(), false);
    for entry in WalkDir::new(path).follow_links(true).sort_by_file_name().into_iter().filter_entry(is_shown) {
        match entry {
            Ok(entry) if entry.file_type().is_file() && is_wanted(entry.path()) => files.push(entry.into_path()),
            Ok(_) => {}
            // Where a link leads back to, files are read once.
            Err(error) if error.loop_ancestor().is_some() => {}
            Err(error) => {
                let place = error.path().unwrap_or(path).to_owned();
                let is_hidden = place.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
                // A link to nothing is no image by its name, or one that is missed.
                if place.is_dir() || (is_wanted(&place) && !is_hidden) {
                    has_failed = true;
                    failed(&anyhow::anyhow!("{}: cannot be read: {}", place.display(), cause(&error)));
                }
            }
        }
    }
    if files.is_empty() && !has_failed {
        let kind = if tables { "tables" } else { "images" };
        bail!("{}: expected {kind} (by their names), found none", path.display());
    }
    Ok(files)
}

/// Without the path, which the error repeats.
fn cause(error: &walkdir::Error) -> String {
    error.io_error().map_or_else(|| error.to_string(), ToString::to_string)
}
