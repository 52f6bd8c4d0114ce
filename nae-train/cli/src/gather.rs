//! `nae-train gather`: combines the cells and seeds of several folders in one table.

use nae_lab::gather::gather;
use nae_onnx::file;

use crate::Done;
use crate::args::GatherArgs;

pub(crate) fn run(args: &GatherArgs) -> anyhow::Result<Done> {
    let gathered = gather(&args.folders)?;
    for folder in &gathered.unfinished {
        eprintln!("warning: {}: the run has not ended, and is not in the table", folder.display());
    }
    let json = format!("{:#}\n", gathered.json);
    if let Some(path) = &args.output {
        file::write(path, json.as_bytes())?;
    }
    if args.json {
        print!("{json}");
    } else {
        println!("{}", gathered.text);
    }
    Ok(Done::Whole)
}
