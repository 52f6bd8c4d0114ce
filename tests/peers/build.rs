//! The memory of QEMU's mps2 boards, and cortex-m-rt's script, for the programs in the folders beside this file.

use std::{env, error::Error, fs, path::Path, path::PathBuf};

/// What MicroFlow's macro reads.
const MODEL: &str = "ad01_int8.tflite";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../build.rs");
    // To cargo a file that is not there has always changed.
    if Path::new(MODEL).exists() {
        println!("cargo:rerun-if-changed={MODEL}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let memory = "MEMORY\n{\n  FLASH : ORIGIN = 0x00000000, LENGTH = 4M\n  RAM : ORIGIN = 0x20000000, LENGTH = 4M\n}\n";
    fs::write(out.join("memory.x"), memory)?;
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=--nmagic");
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    Ok(())
}
