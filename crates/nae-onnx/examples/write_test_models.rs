//! Writes the models of the tests to a folder, for checks by other programs:
//! `cargo run -p nae-onnx --example write_test_models -- DIR`.

#[path = "../tests/support/mod.rs"]
mod support;

use nae_core::energy::Energy;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::path::PathBuf::from(std::env::args_os().nth(1).ok_or("give a folder")?);
    std::fs::create_dir_all(&folder)?;
    for (name, bytes) in [
        ("digits.onnx", support::digits(1, Energy::SquaredL2)?),
        ("odd.onnx", support::odd(1, Energy::L1)?),
        ("ssim.onnx", support::digits(1, Energy::Ssim)?),
    ] {
        nae_onnx::file::write(folder.join(name), &bytes)?;
    }
    Ok(())
}
