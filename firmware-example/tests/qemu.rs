//! The firmware under QEMU: its energies equal the host's bit for bit, and what it costs. Run by
//! `tests/qemu.sh`, which builds the firmware and says where it is.
#![allow(clippy::unwrap_used)]

use firmware_example::model::{self, Digits};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether the firmware has the f32 model.
const FLOAT: bool = cfg!(feature = "f32-model");

/// What one machine did.
struct Run {
    /// Bits of the energies, image by image.
    energies: Vec<u32>,
    /// Executed instructions, image by image.
    instructions: Vec<u64>,
    /// Peak stack of an inference, bytes.
    stack: usize,
    /// Length of the arena, bytes.
    arena: usize,
}

fn variable(name: &str) -> PathBuf {
    match std::env::var_os(name) {
        Some(path) => path.into(),
        None => panic!("{name} is not set: run tests/qemu.sh, which builds the firmware and sets it"),
    }
}

fn run(machine: &str, elf: &Path) -> Run {
    let name = elf.file_name().unwrap().to_str().unwrap();
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{machine}-{name}.log"));
    let counts = log.with_extension("counts");
    let plugin = format!("file={},out={}", variable("NAE_INSN_COUNT").display(), counts.display());
    // An image takes well under a second; the limit is for a firmware that hangs.
    let mut qemu = Command::new("timeout")
        .args(["300", "qemu-system-arm", "-M", machine, "-nographic", "-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native", "-plugin", &plugin, "-kernel"])
        .arg(elf)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("timeout and qemu-system-arm start");
    let frames = qemu.stdout.take().unwrap();
    let decoded = Command::new(variable("NAE_DEFMT_PRINT")).arg("-e").arg(elf).stdin(frames).output().unwrap();
    let text = String::from_utf8(decoded.stdout).unwrap();
    std::fs::write(&log, &text).unwrap();
    let status = qemu.wait().unwrap();
    assert!(status.success(), "QEMU {machine}: {status}\n{text}");

    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut result = Run { energies: Vec::new(), instructions: Vec::new(), stack: 0, arena: 0 };
    for line in text.lines().map(fields) {
        match &line[..] {
            [image, _, energy, bits, ..] if image == "image" && energy == "energy" => {
                result.energies.push(u32::from_str_radix(bits, 16).unwrap());
            }
            [arena, bytes, ..] if arena == "arena" => result.arena = bytes.parse().unwrap(),
            [stack, bytes, ..] if stack == "stack" => result.stack = bytes.parse().unwrap(),
            _ => {}
        }
    }
    for line in std::fs::read_to_string(counts).unwrap().lines().map(fields) {
        if line[0] == "region" {
            result.instructions.push(line[1].parse().unwrap());
        }
    }
    result
}

/// The host's energies of the same images, by the same portable code.
fn host_energies() -> Vec<u32> {
    let engine = Digits::engine().unwrap();
    let (mut image, mut arena) = ([model::BLANK; Digits::IMAGE_LEN], [0.0; Digits::ARENA_LEN]);
    let (images, _) = include_bytes!("../vectors/digits.u8").as_chunks();
    images
        .iter()
        .map(|bytes| {
            model::prepare(bytes, &mut image);
            model::score(&engine, &image, &mut arena).unwrap().0.energy.to_bits()
        })
        .collect()
}

fn tool(name: &str, arguments: &[&str], elf: &Path) -> String {
    let output = Command::new(format!("arm-none-eabi-{name}")).args(arguments).arg(elf).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn check(core: &str, machine: &str, elf: &Path, instruction_limit: u64) {
    let host = host_energies();
    let run = run(machine, elf);
    assert_eq!(run.energies.len(), host.len());
    for (index, (target, host)) in run.energies.iter().zip(&host).enumerate() {
        assert_eq!(target, host, "image {index}: {core} {} host {}", f32::from_bits(*target), f32::from_bits(*host));
    }
    assert_eq!(run.instructions.len(), host.len());
    let most = run.instructions.iter().max().unwrap();
    let sizes = tool("size", &[], elf);
    let flash: usize =
        sizes.lines().nth(1).unwrap().split_whitespace().take(2).map(|n| n.parse::<usize>().unwrap()).sum();
    let file = if FLOAT { "digits.nae" } else { "digits-int8.nae" };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/digits").join(file);
    let model = std::fs::metadata(path).unwrap().len();
    println!("{core} ({machine}), {file}, {} images equal to the host bit for bit", host.len());
    println!("  executed instructions per inference  {most} at most");
    println!("  peak stack of an inference           {} bytes", run.stack);
    println!("  arena                                {} bytes", run.arena);
    println!("  flash                                {flash} bytes, of which the model {model}");
    assert!(*most < instruction_limit, "{most} instructions; the limit is {instruction_limit}");
    assert!(run.stack > 0 && run.stack < 2048, "{} bytes of stack", run.stack);

    // The engine has no panicking path that the compiler could not rule out.
    let symbols = tool("nm", &["-C"], elf);
    for name in [
        "panic_bounds_check",
        "panic_const",
        "slice_index",
        "slice_start_index",
        "slice_end_index",
        "unwrap_failed",
        "expect_failed",
        "copy_from_slice_impl::len_mismatch_fail",
    ] {
        assert!(!symbols.contains(name), "{name} is linked into {}", elf.display());
    }
    // Kernels that the model does not use are not linked.
    let other = if FLOAT { "int8" } else { "expf" };
    for name in ["tanhf", "average_pool2d", "mean_ssim", other] {
        assert!(!symbols.contains(name), "{name} is linked into {}", elf.display());
    }
}

#[test]
fn cortex_m4f() {
    let limit = if FLOAT { 2_500_000 } else { 1_250_000 };
    check("Cortex-M4F", "mps2-an386", &variable("NAE_FIRMWARE_M4F"), limit);
}

#[test]
fn cortex_m3_without_fpu() {
    let limit = if FLOAT { 100_000_000 } else { 5_000_000 };
    check("Cortex-M3", "mps2-an385", &variable("NAE_FIRMWARE_M3"), limit);
}

/// The other cores run the 8-bit model: of the f32 one nothing new is to be learned there.
fn check_int8(core: &str, machine: &str, elf: &str, instruction_limit: u64) {
    if !FLOAT {
        check(core, machine, &variable(elf), instruction_limit);
    }
}

#[test]
fn cortex_m0() {
    check_int8("Cortex-M0", "microbit", "NAE_FIRMWARE_M0", 8_000_000);
}

#[test]
fn cortex_m7() {
    check_int8("Cortex-M7", "mps2-an500", "NAE_FIRMWARE_M4F", 1_250_000);
}

#[test]
fn cortex_m33() {
    check_int8("Cortex-M33", "mps2-an505", "NAE_FIRMWARE_M33", 1_250_000);
}

#[test]
fn cortex_m55() {
    check_int8("Cortex-M55", "mps3-an547", "NAE_FIRMWARE_M55", 1_250_000);
}

/// MLPerf Tiny's detector: every output is TFLite's (the firmware compares them), and what it costs.
#[test]
fn ad01_on_cortex_m4() {
    let Some(elf) = std::env::var_os("NAE_FIRMWARE_AD01").map(PathBuf::from) else {
        println!("skipped: NAE_DATA does not name the folder that has mlperf-tiny-ad01");
        return;
    };
    let run = run("mps2-an386", &elf);
    let most = *run.instructions.iter().max().unwrap();
    let size = |elf: &Path| -> usize {
        let sizes = tool("size", &[], elf);
        sizes.lines().nth(1).unwrap().split_whitespace().take(2).map(|n| n.parse::<usize>().unwrap()).sum()
    };
    // 264,192 weights and 1,672 biases of four bytes.
    let beyond = size(&variable("NAE_FIRMWARE_AD01_SIZE")) - 264_192 - 4 * 1_672;
    println!("Cortex-M4 (mps2-an386), ad01_int8.tflite, {} samples equal to TFLite bit for bit", run.energies.len());
    println!("  executed instructions per inference  {most}");
    println!("  arena and peak stack                 {} + {} bytes", run.arena, run.stack);
    println!("  flash beyond weights and biases      {beyond} bytes");
    assert_eq!(run.energies.len(), 8);
    assert!(most <= 400_000 && run.arena + run.stack <= 2560 && beyond <= 8_192);
}

#[test]
fn a_stack_overflow_faults_and_spares_the_statics() {
    let status = Command::new("timeout")
        .args(["60", "qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(variable("NAE_FIRMWARE_OVERFLOW"))
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0), "1: statics overwritten; 2: no overflow; 124: it hangs");
}
