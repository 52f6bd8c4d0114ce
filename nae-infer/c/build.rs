//! The header of this library, by cbindgen from its source, into the build's folder. The one that is committed for users
//! is `nae_infer.h`; the test `the_header_is_the_sources` says when it is stale.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=src/lib.rs");
    println!("cargo::rerun-if-changed=cbindgen.toml");
    let out = std::env::var("OUT_DIR")?;
    let config = cbindgen::Config::from_file("cbindgen.toml")?;
    let header = cbindgen::Builder::new().with_src("src/lib.rs").with_config(config).generate()?;
    header.write_to_file(Path::new(&out).join("nae_infer.h"));
    Ok(())
}
