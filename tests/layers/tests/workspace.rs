//! Arrows only go down: no crate of the workspace has modules that import each other in a circle.
//!
//! `cargo test -p layers -- --nocapture` prints which module imports which.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use layers::{cycle, imports};

const CRATES: [&str; 17] = [
    "crates/nae-terminal",
    "nae-core",
    "nae-core/c",
    "crates/nae-graph",
    "crates/nae-simd",
    "crates/nae-onnx",
    "crates/nae-input",
    "crates/nae-data",
    "crates/nae-features",
    "nae-infer",
    "nae-infer/c",
    "crates/nae-serve",
    "nae-infer/cli",
    "nae-train",
    "crates/nae-lab",
    "nae-train/cli",
    "crates/nae-python",
];

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cycles = Vec::new();
    for name in CRATES {
        let imports = imports(&root.join(name).join("src"));
        println!("{name}");
        for (module, others) in &imports {
            println!("    {module} -> {}", others.iter().cloned().collect::<Vec<_>>().join(" "));
        }
        cycles.extend(cycle(&imports).map(|way| format!("{name}: {}", way.join(" -> "))));
    }
    assert!(cycles.is_empty(), "{cycles:#?}");
}

/// A crate may depend on those before it alone.
#[test]
fn no_crate_depends_on_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let names: Vec<String> = CRATES.iter().map(|path| package(&root.join(path).join("Cargo.toml")).0).collect();
    for (place, path) in CRATES.iter().enumerate() {
        for dependency in package(&root.join(path).join("Cargo.toml")).1 {
            let below = names[..place].contains(&dependency);
            assert!(below, "{path} depends on {dependency}, which is not below it: {names:?}");
        }
    }
}

/// Name of a package, and those of the workspace that it depends on.
fn package(manifest: &Path) -> (String, Vec<String>) {
    let text = std::fs::read_to_string(manifest).unwrap();
    let name = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"').to_owned();
    let section = text.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let key = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    (name, section.lines().map(key).filter(|key| key.starts_with("nae-")).collect())
}
