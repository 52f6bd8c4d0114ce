//! Writes `../imported/digits.rs` and `digits.bpk`: burn code and weights of `models/digits/digits.onnx`, by burn-onnx. The
//! parity tests include them, and a test says when they are of another file.
//!
//! `cargo run --manifest-path tests/parity/import/Cargo.toml`, from the root of the repository.

use std::fs;

const MODEL: &str = "models/digits/digits.onnx";
const IMPORTED: &str = "tests/parity/imported";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = fs::read(MODEL).map_err(|e| format!("{MODEL}: {e}; run this from the root of the repository"))?;
    burn_onnx::ModelGen::new()
        .input(MODEL)
        .out_dir(IMPORTED)
        .load_strategy(burn_onnx::LoadStrategy::Embedded)
        .run_from_cli();

    // burn-onnx writes where the weights lie on this machine.
    let file = format!("{IMPORTED}/digits.rs");
    let code = fs::read_to_string(&file)?;
    let folder = format!("{}/", fs::canonicalize(IMPORTED)?.display());
    let code = code.replace(&folder, "").replace(&format!("{IMPORTED}/"), "");
    fs::write(&file, format!("// Of the file with the SHA-256 digest {}.\n{code}", sha256(&model)))?;
    Ok(())
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
