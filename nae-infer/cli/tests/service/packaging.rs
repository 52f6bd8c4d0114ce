//! What is shipped beside the program.

use std::path::Path;
use std::process::Command;

/// Of 10 at most 2 by systemd's count of what the service could reach.
#[test]
fn the_systemd_unit_leaves_little_within_reach() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/nae-serve/packaging/nae-infer.service");
    let analyze = |arguments: &[&str]| Command::new("systemd-analyze").args(arguments).arg(&unit).output();
    let Ok(output) = analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"]) else {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let level = text.lines().rfind(|line| line.contains("Overall exposure level"));
    println!("{}", level.unwrap_or_default());
    assert!(output.status.success() && level.is_some(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
