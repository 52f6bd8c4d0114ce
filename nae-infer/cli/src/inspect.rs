//! `nae-infer inspect`: the model's card.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use nae_infer::Limits;
use nae_infer::card::ModelFile;

use crate::arguments::Inspect;
use crate::output::printable;

pub(crate) fn run(arguments: &Inspect) -> anyhow::Result<ExitCode> {
    let limits = Limits::default();
    let bytes = nae_onnx::file::read(&arguments.model, limits.bytes)?;
    let file = ModelFile::parse(bytes, &limits).map_err(|e| anyhow::anyhow!("{}: {e}", arguments.model.display()))?;
    let card = file.card();
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string(&card).context("cannot write JSON")?)?;
    } else {
        let width = card.entries().iter().map(|entry| entry.name.len()).max().unwrap_or(0);
        for entry in card.entries() {
            writeln!(out, "{:width$}  {}", entry.name, printable(&entry.text))?;
        }
        if file.settings().is_none() {
            writeln!(out, "no metadata under `nae.`: this model cannot be scored as it is")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
