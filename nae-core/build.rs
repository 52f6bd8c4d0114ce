//! Says `nae_dsp` where the target has the DSP extension (SMLAD and friends), and `nae_mve` where it has the vector extension
//! Helium. rustc knows them as target features but does not show them to stable code.

#[path = "build/extensions.rs"]
mod extensions;

use extensions::{Extensions, extensions};
use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/extensions.rs");
    println!("cargo::rustc-check-cfg=cfg(nae_dsp, values(\"v7\", \"v8\"))");
    println!("cargo::rustc-check-cfg=cfg(nae_mve)");
    let target = env::var("TARGET").unwrap_or_default();
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let Extensions { dsp, mve } = extensions(&target, &flags);
    if let Some(version) = dsp {
        println!("cargo::rustc-cfg=nae_dsp=\"{version}\"");
    }
    if mve {
        println!("cargo::rustc-cfg=nae_mve");
    }
}
