//! Gives the linker the memory map and the scripts of cortex-m-rt and defmt. Host builds need
//! none of it.

use std::{env, error::Error, fs, path::PathBuf};

/// 512 KiB of flash and 128 KiB of RAM, as an STM32F411 has, or, for Cortex-M0, 256 and 16, as the first
/// micro:bit's nRF51822. QEMU's mps2 boards have more; the example keeps to what the real board offers.
/// The closing brace on its own line is for flip-link.
fn memory(origin: &str, is_m0: bool) -> String {
    let (flash, ram) = if is_m0 { ("256K", "16K") } else { ("512K", "128K") };
    format!("MEMORY\n{{\n  FLASH : ORIGIN = {origin}, LENGTH = {flash}\n  RAM : ORIGIN = 0x20000000, LENGTH = {ram}\n}}\n")
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? != "none" {
        return Ok(());
    }
    let is_m0 = env::var("TARGET")?.starts_with("thumbv6m");
    let flash = if env::var_os("CARGO_FEATURE_QEMU").is_some() { "0x00000000" } else { "0x08000000" };
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("memory.x"), memory(flash, is_m0))?;
    println!("cargo:rustc-link-search={}", out.display());
    for argument in ["--nmagic", "-Tlink.x", "-Tdefmt.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    Ok(())
}
