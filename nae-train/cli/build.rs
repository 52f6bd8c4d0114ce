//! Tells the program the commit of its source, so that records of experiments can name it: `NAE_COMMIT`, and `NAE_VERSION` for
//! `--version`. Without a repository, `NAE_COMMIT` is absent and `NAE_VERSION` is the version number.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The hexadecimal digits of a commit that are shown.
const DIGITS: usize = 12;
/// The sources of the program, relative to the repository.
const SOURCES: [&str; 7] =
    ["Cargo.toml", "Cargo.lock", "crates", "nae-core", "nae-infer/src", "nae-train/src", "nae-train/presets"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let package = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let package = Path::new(&package);
    match of_repository(package).or_else(|| of_package(package)) {
        Some(commit) => {
            println!("cargo::rustc-env=NAE_COMMIT={commit}");
            println!("cargo::rustc-env=NAE_VERSION={version} ({commit})");
        }
        None => println!("cargo::rustc-env=NAE_VERSION={version}"),
    }
}

/// The commit that is checked out, with `-modified` if the source differs from it; `None` outside this project's repository.
fn of_repository(package: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(package).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let top = Path::new(&top);
    // A copy in the repository of another project would give the commit of that project.
    if fs::canonicalize(top.join("nae-train/cli")).ok()? != fs::canonicalize(package).ok()? {
        return None;
    }
    // The file changes with each commit and each checkout.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    for path in SOURCES.map(|source| top.join(source)).into_iter().chain([log.into()]) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--", "."];
    let sources = SOURCES.map(|source| format!(":/{source}"));
    status.extend(sources.iter().map(String::as_str));
    let modified = if git(&status)?.is_empty() { "" } else { "-modified" };
    Some(format!("{}{modified}", commit.get(..DIGITS)?))
}

/// The commit that cargo recorded in the package of a release.
fn of_package(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join(".cargo_vcs_info.json")).ok()?;
    let commit = text.split_once("\"sha1\": \"")?.1.get(..DIGITS)?;
    commit.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| commit.to_owned())
}
