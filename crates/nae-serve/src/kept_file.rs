//! Reading of the small files in which is kept what people set of a camera (pauses, regions, day and night, thresholds). What is
//! in one, and how it is written, is its module's.

use std::path::Path;

/// What `parse` makes of the file; none where there is none.
///
/// # Errors
/// That it cannot be read or is larger than `largest` bytes; or which file it is, what was `expected`, and what `parse` says.
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

/// Renames a JSON file that is damaged, for whoever wants to look at it: the next that is written would take its place.
pub(crate) fn put_aside(path: &Path) {
    let _ = std::fs::rename(path, path.with_extension("json.damaged"));
}
