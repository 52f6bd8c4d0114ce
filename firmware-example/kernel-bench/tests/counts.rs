//! Runs the bench under QEMU: results are the same in both layouts, on the target and on the host,
//! and no layer takes more than 2% more instructions than recorded. Run by `tests/qemu.sh`, which
//! builds the firmware and says where it is. With `NAE_RECORD` set it writes what it counted to
//! `counts-cortex-….md` and to the table in nae-core's README.
#![allow(clippy::unwrap_used)]

use kernel_bench::{Memory, WORKS, Work};
use nae_core::kernels::int8::Layout;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

fn variable(name: &str) -> PathBuf {
    match std::env::var_os(name) {
        Some(path) => path.into(),
        None => panic!("{name} is not set: run tests/qemu.sh, which builds the firmware and sets it"),
    }
}

/// Instructions and memory accesses of one run of a layer.
#[derive(Clone, Copy)]
struct Cost {
    instructions: u64,
    accesses: u64,
}

/// What one layer did on the target.
struct Count {
    paired: Cost,
    /// Of layers with weights.
    plain: Option<Cost>,
    checksum: u32,
    plain_checksum: u32,
}

fn run(machine: &str, firmware: &Path) -> Vec<Count> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{machine}-kernels.counts"));
    let plugin = format!("file={},out={}", variable("NAE_INSN_COUNT").display(), file.display());
    let output = Command::new("timeout")
        .args(["120", "qemu-system-arm", "-M", machine, "-nographic", "-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native", "-plugin", &plugin, "-kernel"])
        .arg(firmware)
        .output()
        .expect("timeout and qemu-system-arm start");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "QEMU: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    let regions = std::fs::read_to_string(file).unwrap();
    let mut costs = regions.lines().filter(|line| line.starts_with("region")).map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Cost { instructions: fields[1].parse().unwrap(), accesses: fields[3].parse().unwrap() }
    });
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), WORKS.len(), "{text}");
    let count = |(work, line): (&Work, &&str)| {
        let checksum = |at| u32::from_str_radix(line.split_whitespace().nth(at).unwrap(), 16).unwrap();
        Count {
            paired: costs.next().unwrap(),
            plain: work.kind.has_weights().then(|| costs.next().unwrap()),
            checksum: checksum(2),
            plain_checksum: checksum(3),
        }
    };
    let counts = WORKS.iter().zip(&lines).map(count).collect();
    assert!(costs.next().is_none());
    counts
}

/// Results that are known are so on the machine; the firmware for that lies beside the bench.
fn known(machine: &str, bench: &Path) {
    let name = bench.file_name().unwrap().to_str().unwrap().replace("kernel-bench", "known");
    let output = Command::new("timeout")
        .args(["60", "qemu-system-arm", "-M", machine, "-nographic", "-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(bench.with_file_name(name))
        .output()
        .expect("timeout and qemu-system-arm start");
    assert!(output.status.success(), "{machine}: {}", String::from_utf8_lossy(&output.stdout));
}

fn host_checksum(work: &Work, layout: Layout, memory: &mut Memory) -> u32 {
    work.prepare(layout, memory);
    memory.mark();
    work.run(layout, memory);
    work.checksum(memory)
}

fn table(counts: &[Count]) -> String {
    let mut text = String::from(
        "| work | MACs | instructions | per MAC | memory accesses | per MAC | `Plain`: instructions | per MAC |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (work, count) in WORKS.iter().zip(counts) {
        let macs = work.macs();
        let per = |n: u64| format!("{n} | {:.2}", n as f64 / macs as f64);
        let unit = if work.kind.has_weights() { "" } else { " outputs" };
        let plain = count.plain.map_or(" | ".to_owned(), |cost| per(cost.instructions));
        let Cost { instructions, accesses } = count.paired;
        writeln!(text, "| {work} | {macs}{unit} | {} | {} | {plain} |", per(instructions), per(accesses)).unwrap();
    }
    text
}

/// Runs the bench on a machine and compares with the host and with what is recorded in `counts`.
fn check(machine: &str, firmware: &Path, counts_file: &str) {
    known(machine, firmware);
    let counts = run(machine, firmware);
    let table = table(&counts);
    println!("{machine}\n{table}");
    // Megabytes: not on the stack.
    static MEMORY: Mutex<Memory> = Mutex::new(Memory::new());
    let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    for (work, count) in WORKS.iter().zip(&counts) {
        assert_eq!(count.checksum, count.plain_checksum, "{work}: the layouts differ on the target");
        for layout in [Layout::Plain, Layout::Paired] {
            assert_eq!(
                count.checksum,
                host_checksum(work, layout, &mut memory),
                "{work}: the host differs, {layout:?}"
            );
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(counts_file);
    if std::env::var_os("NAE_RECORD").is_some() {
        // One after the other: the lock on the memory is held.
        std::fs::write(path, &table).unwrap();
        std::fs::write(README, readme_as_recorded().0).unwrap();
        return;
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    for (work, count) in WORKS.iter().zip(&counts) {
        let name = format!("| {work} | ");
        let line = recorded.lines().find(|line| line.starts_with(&name));
        let line = line.unwrap_or_else(|| panic!("{work} is not in {counts_file}: run with NAE_RECORD=1"));
        let columns = [(3, Some(count.paired.instructions)), (7, count.plain.map(|cost| cost.instructions))];
        for (column, instructions) in columns {
            let Some(instructions) = instructions else { continue };
            let before: u64 = line.split('|').nth(column).unwrap().trim().parse().unwrap();
            assert!(instructions <= before + before / 50, "{work}: {instructions} instructions, {before} recorded");
        }
    }
}

#[test]
fn cortex_m4() {
    check("mps2-an386", &variable("NAE_KERNEL_BENCH_M4"), "counts-cortex-m4.md");
}

/// The same instructions as on a Cortex-M4.
#[test]
fn cortex_m7() {
    if std::env::var_os("NAE_RECORD").is_none() {
        check("mps2-an500", &variable("NAE_KERNEL_BENCH_M4"), "counts-cortex-m4.md");
    }
}

#[test]
fn cortex_m3_with_portable_kernels() {
    check("mps2-an385", &variable("NAE_KERNEL_BENCH_M3"), "counts-cortex-m3.md");
}

#[test]
fn cortex_m33() {
    check("mps2-an505", &variable("NAE_KERNEL_BENCH_M33"), "counts-cortex-m33.md");
}

#[test]
fn cortex_m55() {
    check("mps3-an547", &variable("NAE_KERNEL_BENCH_M55"), "counts-cortex-m55.md");
}

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../nae-core/README.md");

/// The cells of the line of `work` in a file of counts.
fn recorded(counts_file: &str, work: &Work) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(counts_file);
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("| {work} | "))).unwrap();
    line.split(" | ").map(|cell| cell.trim_end_matches(" |").to_owned()).collect()
}

/// The README with the figures of its tables as recorded, and how many rows those are: of Cortex-M4 a row begins with the
/// work, of the vector unit of Cortex-M55 it ends with it.
fn readme_as_recorded() -> (String, usize) {
    let mut rows = 0;
    let mut text = String::new();
    for line in std::fs::read_to_string(README).unwrap().lines() {
        if let Some(work) = WORKS.iter().find(|work| line.ends_with(&format!(" | {work} |"))) {
            rows += 1;
            let record = recorded("counts-cortex-m55.md", work);
            let count = |at: usize| record[at].parse::<f64>().unwrap();
            let (paired, plain) = (2, 6);
            let ratio = count(plain) / count(paired);
            writeln!(text, "| {} | {} | {ratio:.2} | {work} |", record[paired + 1], record[plain + 1]).unwrap();
            continue;
        }
        let Some(work) = WORKS.iter().find(|work| line.starts_with(&format!("| {work} |"))) else {
            writeln!(text, "{line}").unwrap();
            continue;
        };
        rows += 1;
        let cells: Vec<&str> = line.split(" | ").collect();
        let record = recorded("counts-cortex-m4.md", work);
        let unit = if cells[4].ends_with(" an output") { " an output" } else { "" };
        writeln!(
            text,
            "{} | {} | {} | {} | {}{unit} | {} |",
            cells[0], cells[1], cells[2], record[2], record[3], record[5]
        )
        .unwrap();
    }
    (text, rows)
}

#[test]
fn the_readme_says_what_is_recorded() {
    if std::env::var_os("NAE_RECORD").is_none() {
        let (text, rows) = readme_as_recorded();
        assert_eq!(rows, 32);
        assert_eq!(text, std::fs::read_to_string(README).unwrap(), "run NAE_RECORD=1 tests/qemu.sh");
    }
}
