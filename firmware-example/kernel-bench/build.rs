//! Gives the linker the memory of QEMU's mps2-an386 and the script of cortex-m-rt.

use std::{env, error::Error, fs, path::PathBuf};

/// Flash, and the 16 MiB of RAM behind the first 4: a layer of the table has two megabytes of weights.
const MEMORY: &str = "MEMORY
{
  FLASH : ORIGIN = 0x00000000, LENGTH = 4M
  RAM : ORIGIN = 0x21000000, LENGTH = 16M
}
";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? != "none" {
        return Ok(());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("memory.x"), MEMORY)?;
    println!("cargo:rustc-link-search={}", out.display());
    for argument in ["--nmagic", "-Tlink.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    Ok(())
}
