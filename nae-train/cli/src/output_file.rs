//! Files that are written: they must not replace what a command reads, and the name of a picture says its format.

use std::fs;
use std::path::Path;

use anyhow::bail;
use nae_onnx::file::{self, FileError};

/// Checks that `output` can be written, and is none of the files and none in the folders that are read.
///
/// What is read in a folder depends on what it is, the folder of a run or a user's own data. So every file in it counts as
/// read, except for models: a model is never data, and may be replaced in the folder of its run.
///
/// # Errors
/// [`FileError::Input`] if `output` is read, and [`FileError::Write`].
pub(crate) fn check<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path, IntoIter: Clone>,
) -> Result<(), FileError> {
    check_except(output, inputs, |target| target.extension().is_some_and(|end| end == "nae" || end == "onnx"))
}

/// The same, where in the folders that are read the files of which `is_not_read` is true may be replaced, in place of models.
///
/// # Errors
/// The same as for [`check`].
pub(crate) fn check_except<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path, IntoIter: Clone>,
    is_not_read: impl Fn(&Path) -> bool,
) -> Result<(), FileError> {
    let mut inputs = inputs.into_iter();
    file::check_output(output, inputs.clone())?;
    // A file that does not exist yet is not one of those that are read.
    let Ok(target) = fs::canonicalize(output) else { return Ok(()) };
    // The file itself may be elsewhere, if the output is a link in the folder.
    let parent = output.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let is_in = |folder: &Path| {
        fs::canonicalize(folder).is_ok_and(|folder| {
            target.starts_with(&folder) || parent.as_ref().is_some_and(|parent| parent.starts_with(&folder))
        })
    };
    if !is_not_read(&target) && inputs.any(is_in) {
        return Err(FileError::Input { path: output.to_owned() });
    }
    Ok(())
}

/// Checks that the name of a picture ends in `.png`, since a PNG file is written whatever its name is.
///
/// # Errors
/// If it has another ending, or none.
pub(crate) fn check_picture(output: &Path) -> anyhow::Result<()> {
    if output.extension().is_some_and(|end| end.eq_ignore_ascii_case("png")) {
        return Ok(());
    }
    let name = output.with_extension("png");
    bail!(
        "{}: expected a name that ends in .png, the only format of pictures; write to {}",
        output.display(),
        name.display()
    )
}
