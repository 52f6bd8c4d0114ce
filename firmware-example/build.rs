//! Gives the linker the memory map and the scripts of cortex-m-rt or riscv-rt, and of defmt. Host builds need
//! none of it.

use std::{env, error::Error, fs, path::PathBuf};

/// Where memory lies and how much of it the example uses.
struct Board {
    flash: (&'static str, &'static str),
    ram: (&'static str, &'static str),
}

/// QEMU's boards have more: the example keeps to the 512 KiB of flash and 128 KiB of RAM of an STM32F411 or,
/// for Cortex-M0, the 256 and 16 of the first micro:bit's nRF51822.
fn board() -> Result<Board, env::VarError> {
    let (target, flags) = (env::var("TARGET")?, env::var("CARGO_ENCODED_RUSTFLAGS")?);
    let is_qemu = env::var_os("CARGO_FEATURE_QEMU").is_some();
    Ok(match target.as_str() {
        // QEMU's `virt` has no flash that it starts from, so that code and statics share its memory.
        t if t.starts_with("riscv32") => Board { flash: ("0x80000000", "512K"), ram: ("0x80080000", "128K") },
        "thumbv6m-none-eabi" => Board { flash: ("0x00000000", "256K"), ram: ("0x20000000", "16K") },
        // mps2-an505 and mps3-an547.
        t if t.starts_with("thumbv8m") && flags.contains("cortex-m33") => {
            Board { flash: ("0x10000000", "512K"), ram: ("0x80000000", "128K") }
        }
        t if t.starts_with("thumbv8m") => Board { flash: ("0x00000000", "512K"), ram: ("0x21000000", "128K") },
        // The mps2 boards with Cortex-M3, M4 and M7.
        _ if is_qemu => Board { flash: ("0x00000000", "512K"), ram: ("0x20000000", "128K") },
        _ => Board { flash: ("0x08000000", "512K"), ram: ("0x20000000", "128K") },
    })
}

/// Where riscv-rt puts what.
const REGIONS: [(&str, &str); 6] =
    [("TEXT", "FLASH"), ("RODATA", "FLASH"), ("DATA", "RAM"), ("BSS", "RAM"), ("HEAP", "RAM"), ("STACK", "RAM")];

/// The linker's memory map; the start of RAM also as a symbol, since flip-link moves the region. Its closing brace
/// on its own line is for flip-link too.
fn memory(Board { flash, ram }: Board) -> String {
    format!(
        "MEMORY\n{{\n  FLASH : ORIGIN = {}, LENGTH = {}\n  RAM : ORIGIN = {}, LENGTH = {}\n}}\n_ram_start = {};\n",
        flash.0, flash.1, ram.0, ram.1, ram.0
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? != "none" {
        return Ok(());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut map = memory(board()?);
    if env::var("CARGO_CFG_TARGET_ARCH")? == "riscv32" {
        for (name, region) in REGIONS {
            map += &format!("REGION_ALIAS(\"REGION_{name}\", {region});\n");
        }
    }
    fs::write(out.join("memory.x"), map)?;
    println!("cargo:rustc-link-search={}", out.display());
    for argument in ["--nmagic", "-Tlink.x", "-Tdefmt.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    Ok(())
}
