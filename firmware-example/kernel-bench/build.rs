//! Gives the linker the memory of QEMU's boards and the script of cortex-m-rt: mps2-an505 for
//! Cortex-M33, mps3-an547 for Cortex-M55, and what the mps2 boards with Cortex-M3, M4 and M7 share.

use std::{env, error::Error, fs, path::PathBuf};

/// Flash, and RAM enough for a layer with two megabytes of weights.
fn memory() -> Result<String, env::VarError> {
    let armv8 = env::var("TARGET")?.starts_with("thumbv8m");
    let (flash, flash_len, ram) = match armv8 {
        true if env::var("CARGO_ENCODED_RUSTFLAGS")?.contains("cortex-m33") => ("0x10000000", "4M", "0x80000000"),
        true => ("0x00000000", "512K", "0x21000000"),
        false => ("0x00000000", "4M", "0x20000000"),
    };
    let flash = format!("FLASH : ORIGIN = {flash}, LENGTH = {flash_len}");
    Ok(format!("MEMORY\n{{\n  {flash}\n  RAM : ORIGIN = {ram}, LENGTH = 4M\n}}\n"))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? != "none" {
        return Ok(());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("memory.x"), memory()?)?;
    println!("cargo:rustc-link-search={}", out.display());
    for argument in ["--nmagic", "-Tlink.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    Ok(())
}
