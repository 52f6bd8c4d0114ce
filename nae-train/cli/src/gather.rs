//! `nae-train gather`: combines the cells and seeds of several folders in one table.

use nae_lab::gather::gather;
use nae_onnx::file;

use crate::Done;
use crate::args::GatherArgs;
use crate::output::{errln, out, outln};

pub(crate) fn run(args: &GatherArgs) -> anyhow::Result<Done> {
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
