//! Gives the linker the memory of QEMU's mps2 boards (Cortex-M3, M4, M7) or mps3-an547 (Cortex-M55)
//! and the script of cortex-m-rt.

use std::{env, error::Error, fs, path::PathBuf};

/// Flash, and RAM enough for a layer with two megabytes of weights.
fn memory(target: &str) -> String {
    let (flash, ram) = if target.starts_with("thumbv8m") { ("512K", "0x21000000") } else { ("4M", "0x20000000") };
    format!("MEMORY\n{{\n  FLASH : ORIGIN = 0, LENGTH = {flash}\n  RAM : ORIGIN = {ram}, LENGTH = 4M\n}}\n")
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? != "none" {
        return Ok(());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("memory.x"), memory(&env::var("TARGET")?))?;
    println!("cargo:rustc-link-search={}", out.display());
    for argument in ["--nmagic", "-Tlink.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    Ok(())
}
