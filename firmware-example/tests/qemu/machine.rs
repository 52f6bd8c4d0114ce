//! Runs firmware on QEMU's machines and reads its log; `tests/qemu.sh` builds the firmware and passes its path.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The results of one run.
#[derive(Default)]
pub(crate) struct Run {
    /// Bits of the energies, image by image.
    pub(crate) energies: Vec<u32>,
    /// Checksums of frames, in order.
    pub(crate) checksums: Vec<u32>,
    /// Number of images for which the ring had no room, if there is a ring.
    pub(crate) lost: Option<u32>,
    /// How often the alarm turned on, if that is counted.
    pub(crate) alarms: Option<u32>,
    /// Number of executed instructions, image by image.
    pub(crate) instructions: Vec<u64>,
    /// Peak stack of an inference, in bytes.
    pub(crate) stack: usize,
    /// Length of the arena, in bytes.
    pub(crate) arena: usize,
}

pub(crate) fn variable(name: &str) -> PathBuf {
    match std::env::var_os(name) {
        Some(path) => path.into(),
        None => panic!("{name} is not set: run tests/qemu.sh, which builds the firmware and sets it"),
    }
}

/// Runs `elf` on QEMU's `machine` and counts its instructions.
pub(crate) fn run(machine: &str, elf: &Path) -> Run {
    run_in(Path::new(env!("CARGO_TARGET_TMPDIR")), machine, elf, true)
}

/// As [`run`], for a program that writes text in place of defmt's frames.
#[cfg(not(feature = "f32-model"))]
pub(crate) fn run_text(machine: &str, elf: &Path) -> Run {
    emulate(Path::new(env!("CARGO_TARGET_TMPDIR")), machine, elf, true, false)
}

/// As [`run`], with files in `folder`; without `counted`, several times as fast.
pub(crate) fn run_in(folder: &Path, machine: &str, elf: &Path, counted: bool) -> Run {
    emulate(folder, machine, elf, counted, true)
}

fn emulate(folder: &Path, machine: &str, elf: &Path, counted: bool, is_defmt: bool) -> Run {
    let name = elf.file_name().unwrap().to_str().unwrap();
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{machine}-{name}.log"));
    let counts = log.with_extension("counts");
    let plugin = format!("file={},out={}", variable("NAE_INSN_COUNT").display(), counts.display());
    let plugin = ["-plugin", &plugin];
    // Without this, `virt` would start QEMU's boot loader.
    let emulator: &[&str] = match machine {
        "virt" => &["qemu-system-riscv32", "-bios", "none"],
        _ => &["qemu-system-arm"],
    };
    // The limit stops firmware that hangs.
    let mut qemu = Command::new("timeout")
        .arg("1200")
        .args(emulator)
        .args(["-M", machine, "-nographic", "-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native"])
        .args(if counted { &plugin[..] } else { &[] })
        .arg("-kernel")
        .arg(elf)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("timeout and QEMU start");
    let mut printed = qemu.stdout.take().unwrap();
    let mut text = String::new();
    if is_defmt {
        let decoded = Command::new(variable("NAE_DEFMT_PRINT")).arg("-e").arg(elf).stdin(printed).output().unwrap();
        text = String::from_utf8(decoded.stdout).unwrap();
    } else {
        printed.read_to_string(&mut text).unwrap();
    }
    std::fs::write(&log, &text).unwrap();
    let status = qemu.wait().unwrap();
    assert!(status.success(), "QEMU {machine}: {status}\n{text}");

    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut result = Run::default();
    for line in text.lines().map(fields) {
        match &line[..] {
            [image, _, energy, bits, ..] if image == "image" && energy == "energy" => {
                result.energies.push(u32::from_str_radix(bits, 16).unwrap());
            }
            [frame, _, checksum, bits, ..] if frame == "frame" && checksum == "checksum" => {
                result.checksums.push(u32::from_str_radix(bits, 16).unwrap());
            }
            [lost, images, ..] if lost == "lost" => result.lost = images.parse().ok(),
            [alarms, count, ..] if alarms == "alarms" => result.alarms = count.parse().ok(),
            [arena, bytes, ..] if arena == "arena" => result.arena = bytes.parse().unwrap(),
            [stack, bytes, ..] if stack == "stack" => result.stack = bytes.parse().unwrap(),
            _ => {}
        }
    }
    let counts = if counted { std::fs::read_to_string(counts).unwrap() } else { String::new() };
    for line in counts.lines().map(fields) {
        if line[0] == "region" {
            result.instructions.push(line[1].parse().unwrap());
        }
    }
    result
}

pub(crate) fn tool(name: &str, arguments: &[&str], elf: &Path) -> String {
    let output = Command::new(format!("arm-none-eabi-{name}")).args(arguments).arg(elf).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Number of bytes of flash that `elf` takes: code, constants and initial values of statics.
pub(crate) fn flash(elf: &Path) -> usize {
    let sizes = tool("size", &[], elf);
    sizes.lines().nth(1).unwrap().split_whitespace().take(2).map(|n| n.parse::<usize>().unwrap()).sum()
}

/// QEMU counts exactly, and the compiler's version is fixed by the script. This fails unless the count is that of
/// `README.md`, with a tolerance of a twentieth for another patch version of the compiler. A smaller count fails, too:
/// it belongs in the README, and later increases must be measured against it. If `NAE_RECORD` is set, the count is only
/// printed, to be recorded here and in the README.
pub(crate) fn assert_near(what: &str, instructions: u64, recorded: u64) {
    let allowed = recorded / 20;
    if std::env::var_os("NAE_RECORD").is_some() {
        println!("recorded: {what}: {instructions}, {recorded} before");
        return;
    }
    assert!(
        instructions.abs_diff(recorded) <= allowed,
        "{what}: {instructions} executed instructions, {recorded} recorded, {allowed} more or fewer allowed"
    );
}
