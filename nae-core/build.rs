//! Says `nae_dsp` where the target has the DSP extension (SMLAD and friends), and `nae_mve` where it has the vector extension
//! Helium. rustc knows them as target features but does not show them to stable code.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(nae_dsp, values(\"v7\", \"v8\"))");
    println!("cargo::rustc-check-cfg=cfg(nae_mve)");
    let target = env::var("TARGET").unwrap_or_default();
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    // ARMv7E-M has it always. ARMv8-M may have it: these cores do, and the compiler must be told of
    // them for the assembler to take the instructions.
    let mainline = target.starts_with("thumbv8m.main");
    let cores = ["target-cpu=cortex-m33", "target-cpu=cortex-m35p", "target-cpu=cortex-m55", "target-cpu=cortex-m85"];
    if target.starts_with("thumbv7em") {
        println!("cargo::rustc-cfg=nae_dsp=\"v7\"");
    } else if mainline && cores.iter().any(|core| flags.contains(core)) {
        println!("cargo::rustc-cfg=nae_dsp=\"v8\"");
    }
    // As the compiler has it: these cores have vectors unless it is told that one has not.
    let vectors = ["target-cpu=cortex-m55", "target-cpu=cortex-m85"];
    if mainline && vectors.iter().any(|core| flags.contains(core)) && !flags.contains("-mve") {
        println!("cargo::rustc-cfg=nae_mve");
    }
}
