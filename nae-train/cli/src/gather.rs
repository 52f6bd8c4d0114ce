//! `nae-train gather`: combines the cells and seeds of several folders in one table.

use std::path::{Path, PathBuf};

use nae_lab::experiments::record::RECORD;
use nae_lab::gather::gather;
use nae_onnx::file::{self, FileError};
use nae_train::report::RESULT;

use crate::Done;
use crate::args::GatherArgs;
use crate::output::{errln, out, outln};

pub(crate) fn run(args: &GatherArgs) -> anyhow::Result<Done> {
    if let Some(output) = &args.output {
        check(output, &args.folders)?;
    }
    let gathered = gather(&args.folders)?;
    for folder in &gathered.unfinished {
        errln!("warning: {}: the run has not ended, and is not in the table", folder.display());
    }
    let json = format!("{:#}\n", gathered.json);
    if let Some(path) = &args.output {
        file::write(path, json.as_bytes())?;
    }
    if args.json {
        out!("{json}")?;
    } else {
        outln!("{}", gathered.text)?;
    }
    Ok(Done::Whole)
}

/// Checks that `output` can be written and replaces nothing that programs wrote in `folders`, except for a table of this command.
fn check(output: &Path, folders: &[PathBuf]) -> Result<(), FileError> {
    file::check_output(output, std::iter::empty::<&Path>())?;
    let Ok(target) = std::fs::canonicalize(output) else { return Ok(()) };
    let is_in = |folder: &PathBuf| std::fs::canonicalize(folder).is_ok_and(|folder| target.starts_with(folder));
    let is_table = target.extension().is_some_and(|end| end == "json")
        && !target.file_name().is_some_and(|name| name == RESULT || name == RECORD);
    if !is_table && folders.iter().any(is_in) {
        return Err(FileError::Input { path: output.to_owned() });
    }
    Ok(())
}
