//! `nae-train presets`: lists the presets, or prints one.

use nae_train::config::preset::{PRESETS, load};

use crate::Done;
use crate::args::PresetsArgs;
use crate::output::{out, outln};

pub(crate) fn run(args: &PresetsArgs) -> anyhow::Result<Done> {
    let Some(name) = &args.name else {
        let width = PRESETS.iter().map(|preset| preset.name.len()).max().unwrap_or_default();
        for preset in PRESETS {
            let about = preset.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
            outln!("{:<width$}  {about}", preset.name)?;
        }
        return Ok(Done::Whole);
    };
    match PRESETS.iter().find(|preset| preset.name == name) {
        Some(preset) => out!("{}", preset.text)?,
        // The settings of a file are checked before they are printed.
        None => {
            load(name)?;
            out!("{}", std::fs::read_to_string(name)?)?;
        }
    }
    Ok(Done::Whole)
}
