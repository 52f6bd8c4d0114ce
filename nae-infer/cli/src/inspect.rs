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
        let entries = card.into_iter().map(|(k, v)| (k.to_owned(), v.into()));
        let object = serde_json::Value::Object(entries.collect());
        writeln!(out, "{}", serde_json::to_string(&object).context("cannot write JSON")?)?;
    } else {
        let width = card.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in card {
            writeln!(out, "{name:width$}  {}", printable(&value))?;
        }
        if file.settings().is_none() {
            writeln!(out, "no metadata under `nae.`: this model cannot be scored as it is")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
