//! Reading of the small files that store what people set for a camera (pauses, regions, day and night, thresholds).
//! Each module defines the content of its file, and writes it.

use std::path::Path;

/// Reads the file and parses it with `parse`; `None` if there is no file.
///
/// # Errors
/// If the file cannot be read, is larger than `largest` bytes, or cannot be parsed; the message contains the path, what
/// was `expected`, and the error of `parse`.
pub(crate) fn read<T>(
    path: &Path,
    largest: u64,
    expected: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = nae_onnx::file::read(path, largest).map_err(|error| error.to_string())?;
    let parsed = parse(&bytes).map_err(|error| format!("{}: expected {expected}: {error}", path.display()))?;
    Ok(Some(parsed))
}

/// Renames a damaged JSON file so that it can be examined: otherwise, the next write would replace it.
pub(crate) fn put_aside(path: &Path) {
    let _ = std::fs::rename(path, path.with_extension("json.damaged"));
}
