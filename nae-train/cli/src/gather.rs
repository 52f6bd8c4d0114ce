//! `nae-train gather`: combines the cells and seeds of several folders in one table.

use std::path::{Path, PathBuf};

use nae_lab::experiments::record::RECORD;
use nae_lab::gather::gather;
use nae_onnx::file;
use nae_train::report::RESULT;

use crate::Done;
use crate::args::GatherArgs;
use crate::output::{errln, out, outln};
use crate::output_file;

pub(crate) fn run(args: &GatherArgs) -> anyhow::Result<Done> {
    if let Some(output) = &args.output {
        output_file::check_except(output, args.folders.iter().map(PathBuf::as_path), is_table)?;
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

/// Whether the file `path` in a folder that is read may be a table of this command, and is no other result.
fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json")
        && path.file_name().is_some_and(|name| name != RESULT && name != RECORD)
}
