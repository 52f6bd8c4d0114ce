//! Runs the bench under QEMU: results equal the reference kernels on the target and on the host, and
//! no layer takes more than 2% more instructions than recorded. Run by `tests/qemu.sh`, which builds the firmware
//! and says where it is. With `NAE_RECORD` set it writes what it counted to `counts.md`.
#![allow(clippy::unwrap_used)]

use kernel_bench::{Memory, WORKS, Work};
use nae_core::kernels::int8::Layout;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

fn variable(name: &str) -> PathBuf {
    match std::env::var_os(name) {
        Some(path) => path.into(),
        None => panic!("{name} is not set: run tests/qemu.sh, which builds the firmware and sets it"),
    }
}

/// What one layer did on the target.
struct Count {
    instructions: u64,
    accesses: u64,
    checksum: u32,
    reference: u32,
}

fn run() -> Vec<Count> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-bench.counts");
    let plugin = format!("file={},out={}", variable("NAE_INSN_COUNT").display(), file.display());
    let output = Command::new("timeout")
        .args(["600", "qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native", "-plugin", &plugin, "-kernel"])
        .arg(variable("NAE_KERNEL_BENCH"))
        .output()
        .expect("timeout and qemu-system-arm start");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "QEMU: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    let regions = std::fs::read_to_string(file).unwrap();
    let regions: Vec<&str> = regions.lines().filter(|line| line.starts_with("region")).collect();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((regions.len(), lines.len()), (WORKS.len(), WORKS.len()), "{text}");
    let count = |(region, line): (&&str, &&str)| {
        let region: Vec<&str> = region.split_whitespace().collect();
        let line: Vec<&str> = line.split_whitespace().collect();
        let checksum = |at: usize| u32::from_str_radix(line[at], 16).unwrap();
        Count {
            instructions: region[1].parse().unwrap(),
            accesses: region[3].parse().unwrap(),
            checksum: checksum(2),
            reference: checksum(3),
        }
    };
    regions.iter().zip(&lines).map(count).collect()
}

fn host_checksum(work: &Work, layout: Layout, memory: &mut Memory) -> u32 {
    work.prepare(layout, memory);
    work.mark(memory);
    work.run(layout, memory);
    work.checksum(memory)
}

fn table(counts: &[Count]) -> String {
    let mut text = String::from(
        "| work | MACs | instructions | per MAC | memory accesses | per MAC |\n|---|---|---|---|---|---|\n",
    );
    for (work, count) in WORKS.iter().zip(counts) {
        let macs = work.macs();
        let per = |n: u64| n as f64 / macs as f64;
        let unit = if work.kind.has_weights() { "" } else { " outputs" };
        writeln!(
            text,
            "| {work} | {macs}{unit} | {} | {:.2} | {} | {:.2} |",
            count.instructions,
            per(count.instructions),
            count.accesses,
            per(count.accesses)
        )
        .unwrap();
    }
    text
}

#[test]
fn results_are_equal_and_counts_no_worse_than_recorded() {
    let counts = run();
    let table = table(&counts);
    println!("{table}");
    // Megabytes: not on the stack.
    static MEMORY: Mutex<Memory> = Mutex::new(Memory::new());
    let mut memory = MEMORY.lock().unwrap();
    for (work, count) in WORKS.iter().zip(&counts) {
        assert_eq!(count.checksum, count.reference, "{work}: fast and reference kernels differ on the target");
        for layout in [Layout::Plain, Layout::Paired] {
            assert_eq!(
                count.checksum,
                host_checksum(work, layout, &mut memory),
                "{work}: the host differs, {layout:?}"
            );
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.md");
    if std::env::var_os("NAE_RECORD").is_some() {
        std::fs::write(path, &table).unwrap();
        return;
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    for (work, count) in WORKS.iter().zip(&counts) {
        let name = format!("| {work} | ");
        let line = recorded.lines().find(|line| line.starts_with(&name));
        let line = line.unwrap_or_else(|| panic!("{work} is not in {}: run with NAE_RECORD=1", path.display()));
        let before: u64 = line.split('|').nth(3).unwrap().trim().parse().unwrap();
        let limit = before + before / 50;
        assert!(count.instructions <= limit, "{work}: {} instructions, {before} recorded", count.instructions);
    }
}
