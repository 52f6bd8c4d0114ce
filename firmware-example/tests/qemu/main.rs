//! The firmware under QEMU: its energies equal the host's bit for bit, and its cost is checked. Run by `tests/qemu.sh`,
//! which builds the firmware and passes its path.
#![allow(clippy::unwrap_used)]

#[cfg(not(feature = "f32-model"))]
mod c_interface;
mod detection;
mod machine;

use firmware_example::model::{self, Digits};
use machine::{assert_near, flash, run, tool, variable};
use nae_core::audio::{BANDS, FrameWindow, LogMel};
use nae_core::engine::Engine;
use nae_core::model::Model;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether the firmware has the f32 model.
const FLOAT: bool = cfg!(feature = "f32-model");

/// Returns the host's energies of the same images, computed by the same portable code.
fn host_energies() -> Vec<u32> {
    let engine = Digits::engine().unwrap();
    let (mut image, mut arena) = ([model::BLANK; Digits::IMAGE_LEN], [0.0; Digits::ARENA_LEN]);
    let (images, _) = include_bytes!("../../vectors/digits.u8").as_chunks();
    images
        .iter()
        .map(|bytes| {
            model::prepare(bytes, &mut image);
            model::score(&engine, &image, &mut arena).unwrap().0.energy.to_bits()
        })
        .collect()
}

fn check(core: &str, machine: &str, elf: &Path, recorded: u64) {
    let host = host_energies();
    let run = run(machine, elf);
    assert_eq!(run.energies.len(), host.len());
    for (index, (target, host)) in run.energies.iter().zip(&host).enumerate() {
        assert_eq!(target, host, "image {index}: {core} {} host {}", f32::from_bits(*target), f32::from_bits(*host));
    }
    assert_eq!(run.instructions.len(), host.len());
    let most = run.instructions.iter().max().unwrap();
    let flash = flash(elf);
    let file = if FLOAT { "digits.nae" } else { "digits-int8.nae" };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/digits").join(file);
    let model = std::fs::metadata(path).unwrap().len();
    assert_eq!(run.lost, Some(0), "the ring lost images");
    println!("{core} ({machine}), {file}, {} images equal to the host bit for bit", host.len());
    println!("  executed instructions per inference  {most} at most");
    println!("  peak stack of an inference           {} bytes", run.stack);
    println!("  arena                                {} bytes", run.arena);
    println!("  flash                                {flash} bytes, of which the model {model}");
    assert_near(core, *most, recorded);
    assert!(run.stack > 0 && run.stack < 2048, "{} bytes of stack", run.stack);
    if core == "Cortex-M4F" && !FLOAT {
        // The limits required of this model.
        assert!(*most <= 900_000, "{most} executed instructions");
        assert!(run.arena + run.stack <= 5_120, "{} + {} bytes", run.arena, run.stack);
    }

    // The engine has no panicking path that the compiler could not exclude. (The ring's positions are taken modulo its
    // capacity, which is known to heapless's ends only at run time.)
    let symbols = tool("nm", &["-C"], elf).replace("panic_const::panic_const_rem_by_zero", "");
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
    let recorded = if FLOAT { 1_605_621 } else { 897_735 };
    check("Cortex-M4F", "mps2-an386", &variable("NAE_FIRMWARE_M4F"), recorded);
}

#[test]
fn cortex_m3_without_fpu() {
    let recorded = if FLOAT { 76_477_382 } else { 3_511_158 };
    check("Cortex-M3", "mps2-an385", &variable("NAE_FIRMWARE_M3"), recorded);
}

#[test]
fn risc_v() {
    let recorded = if FLOAT { 66_643_849 } else { 4_068_116 };
    check("RV32IMAC", "virt", &variable("NAE_FIRMWARE_RISC_V"), recorded);
}

/// The other cores, and those of frameworks, run only the 8-bit model: the f32 model would show nothing new there, and
/// no firmware with it is built for them. These tests do not exist with the feature, so that none passes without having
/// run.
#[cfg(not(feature = "f32-model"))]
mod int8 {
    use super::{assert_near, check, flash, host_energies, run, variable};

    #[test]
    fn cortex_m0() {
        check("Cortex-M0", "microbit", &variable("NAE_FIRMWARE_M0"), 6_343_762);
    }

    #[test]
    fn cortex_m7() {
        check("Cortex-M7", "mps2-an500", &variable("NAE_FIRMWARE_M4F"), 897_735);
    }

    #[test]
    fn cortex_m33() {
        check("Cortex-M33", "mps2-an505", &variable("NAE_FIRMWARE_M33"), 899_060);
    }

    #[test]
    fn cortex_m55() {
        check("Cortex-M55", "mps3-an547", &variable("NAE_FIRMWARE_M55"), 855_292);
    }

    /// Runs the application as an async task that an interrupt wakes.
    #[test]
    fn embassy_on_cortex_m4() {
        check_framework("embassy", "NAE_FIRMWARE_EMBASSY", 897_951);
    }

    /// Runs the application with the timer's task above, and scores in `idle`.
    #[test]
    fn rtic_on_cortex_m4() {
        check_framework("RTIC", "NAE_FIRMWARE_RTIC", 897_951);
    }

    fn check_framework(name: &str, elf: &str, recorded: u64) {
        let elf = variable(elf);
        let run = run("mps2-an386", &elf);
        assert_eq!(run.energies, host_energies());
        assert_eq!(run.instructions.len(), run.energies.len());
        let most = *run.instructions.iter().max().unwrap();
        println!("Cortex-M4F (mps2-an386), {name}, {} images equal to the host bit for bit", run.energies.len());
        println!("  executed instructions per inference  {most} at most");
        println!("  peak stack of an inference           {} bytes", run.stack);
        println!("  flash                                {} bytes", flash(&elf));
        assert_near(name, most, recorded);
        assert!(run.stack > 0 && run.stack < 2048);
    }
}

/// MLPerf Tiny's detector: every output equals TFLite's (the firmware compares them), and its cost is checked.
#[test]
fn ad01_on_cortex_m4() {
    let Some(elf) = std::env::var_os("NAE_FIRMWARE_AD01").map(PathBuf::from) else {
        println!("skipped: NAE_DATA does not name the folder that has mlperf-tiny-ad01");
        return;
    };
    let run = run("mps2-an386", &elf);
    let most = *run.instructions.iter().max().unwrap();
    // 264,192 weights and 1,672 biases of four bytes.
    let beyond = flash(&variable("NAE_FIRMWARE_AD01_SIZE")) - 264_192 - 4 * 1_672;
    println!("Cortex-M4 (mps2-an386), ad01_int8.tflite, {} samples equal to TFLite bit for bit", run.energies.len());
    println!("  executed instructions per inference  {most}");
    println!("  arena and peak stack                 {} + {} bytes", run.arena, run.stack);
    println!("  flash beyond weights and biases      {beyond} bytes");
    assert_eq!(run.energies.len(), 8);
    assert_near("ad01", most, 318_134);
    assert!(run.arena + run.stack <= 2560 && beyond <= 8_192);
}

/// The sound of `nae-core`'s tests.
fn samples() -> Vec<i16> {
    let (pairs, _) = include_bytes!("../../../nae-core/tests/audio/samples.i16").as_chunks();
    pairs.iter().map(|pair| i16::from_le_bytes(*pair)).collect()
}

/// Every frame of the features equals the host's, and the cost of a frame is checked.
#[test]
fn log_mel_on_cortex_m4() {
    let run = run("mps2-an386", &variable("NAE_FIRMWARE_LOG_MEL"));
    let mut log_mel = LogMel::new();
    let samples = samples();
    let checksum = |frame: &[f32; BANDS]| frame.iter().fold(0u32, |sum, band| sum.rotate_left(5) ^ band.to_bits());
    let host: Vec<u32> = samples.as_chunks().0.iter().filter_map(|hop| log_mel.push_i16(hop).map(checksum)).collect();
    assert_eq!(run.checksums, host);
    let most = *run.instructions.iter().max().unwrap();
    println!("Cortex-M4F (mps2-an386), {} log-mel frames equal to the host bit for bit", host.len());
    println!("  executed instructions per frame      {most}");
    println!("  memory and peak stack                {} + {} bytes", run.arena, run.stack);
    assert_near("log-mel", most, 70_992);
    assert!(run.stack < 2048);
}

/// From samples to energies, through ring, features and MLPerf Tiny's detector: equal to the host's bit for bit.
#[test]
fn sound_on_cortex_m4() {
    let (Some(elf), Some(model)) = (std::env::var_os("NAE_FIRMWARE_SOUND"), std::env::var_os("NAE_AD01")) else {
        println!("skipped: NAE_DATA does not name the folder that has mlperf-tiny-ad01");
        return;
    };
    let run = run("mps2-an386", Path::new(&elf));
    let bytes = std::fs::read(model).unwrap();
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let (engine, scale) = (Engine::new(&model).unwrap(), model.image_quantization().unwrap());
    let (mut log_mel, mut window, mut arena) = (LogMel::new(), FrameWindow::<640>::new(), vec![0.0; model.arena_len()]);
    let mut host = Vec::new();
    for hop in samples().as_chunks().0 {
        if let Some(input) = log_mel.push_i16(hop).and_then(|frame| window.push(frame)) {
            let input = input.map(|decibels| scale.quantize(decibels));
            host.push(engine.run_i8(&input, &mut arena).unwrap().score.energy.to_bits());
        }
    }
    assert_eq!((run.energies.len(), run.lost), (41, Some(0)));
    assert_eq!(run.energies, host);
    println!("Cortex-M4F (mps2-an386), sound to alarm, {} energies equal to the host bit for bit", host.len());
    let most = *run.instructions.iter().max().unwrap();
    println!("  executed instructions per hop        {most}");
    assert_near("sound", most, 411_844);
    println!("  peak stack                           {} bytes", run.stack);
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
