//! `nae-train deploy`: ONNX to `.nae`.

use std::path::Path;

use anyhow::Context as _;
use nae_core::model::Model;
use nae_onnx::{file, lower};
use serde_json::json;

use super::Done;
use super::args::DeployArgs;

/// No autoencoder for a microcontroller comes near this.
const MAX_MODEL_BYTES: u64 = 1 << 30;

pub(super) fn run(args: &DeployArgs) -> anyhow::Result<Done> {
    let onnx = file::read(&args.model, MAX_MODEL_BYTES)?;
    let nae = lower::to_nae(&onnx).with_context(|| display(&args.model))?;
    let model = Model::parse(&nae).with_context(|| display(&args.output))?;
    let arena = model.arena_len() * size_of::<f32>();
    let input = model.input_shape();
    file::write(&args.output, &nae)?;
    if args.json {
        let line = json!({
            "output": display(&args.output),
            "flash_bytes": nae.len(),
            "arena_bytes": arena,
            "layers": model.layer_count(),
            "input": [input.channels, input.height, input.width],
            "calibrated": model.calibration().is_some(),
        });
        println!("{line}");
    } else {
        println!(
            "{}: {} layers, {} bytes of flash, {arena} bytes of RAM for the arena, input {}×{}×{}{}",
            display(&args.output),
            model.layer_count(),
            nae.len(),
            input.channels,
            input.height,
            input.width,
            if model.calibration().is_some() { "" } else { "; not calibrated: it gives energies, no verdicts" },
        );
    }
    Ok(Done::Whole)
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
