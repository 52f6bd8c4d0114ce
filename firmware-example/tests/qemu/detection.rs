//! Detection quality of 8-bit models on a microcontroller: energies of whole test sets under QEMU, equal to the host's
//! bit for bit, and the resulting areas under the ROC curve. Run by `tests/qemu.sh` if the data exist: MNIST in the
//! folder `NAE_DATA`, ToyCar's models and features in the folder `NAE_TOYCAR` (`models/toycar/README.md`).

use crate::machine::{Run, assert_near, flash, run_in, variable};
use nae_core::engine::Engine;
use nae_core::model::Model;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Values of a frame, frames of a clip, values of an input, inputs of a clip.
const BANDS: usize = 128;
const FRAMES: usize = 200;
const WINDOW: usize = 5 * BANDS;
const WINDOWS: usize = FRAMES - 4;
/// The decibels that correspond to 0 and 1 for the model (`models/toycar/prepare.py`).
const DECIBELS: (f32, f32) = (-80.0, 20.0);

/// Returns a folder if it exists; otherwise prints the reason why a test does nothing.
fn folder(name: &str, inner: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).map(|path| Path::new(&path).join(inner)).filter(|path| path.is_dir());
    if found.is_none() {
        println!("skipped: {name} does not name the folder of the data");
    }
    found
}

/// Reads a model file, aligned.
fn words(path: &Path) -> Vec<u32> {
    let bytes = std::fs::read(path).unwrap();
    bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

/// Returns energies of inputs in the model's range, and the inputs in 8 bits if the model takes those.
fn energies(file: &[u32], inputs: impl Iterator<Item = Vec<f32>>) -> (Vec<f32>, Vec<i8>) {
    let model = Model::parse(bytemuck::cast_slice(file)).unwrap();
    let engine = Engine::new(&model).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let mut quantized = Vec::new();
    let energies = inputs.map(|input| match model.image_quantization() {
        None => engine.run(&input, &mut arena).unwrap().score.energy,
        Some(quantization) => {
            let start = quantized.len();
            quantized.extend(input.iter().map(|&value| quantization.quantize(value)));
            engine.run_i8(&quantized[start..], &mut arena).unwrap().score.energy
        }
    });
    (energies.collect(), quantized)
}

/// Returns the energies of the firmware `elf`, built with the model that `inputs` are for, and the rest of its log.
fn under_qemu(machine: &str, elf: &Path, inputs: &[i8], counted: bool) -> (Vec<f32>, Run) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("inputs.i8"), bytemuck::cast_slice::<_, u8>(inputs)).unwrap();
    let run = run_in(folder.path(), machine, elf, counted);
    let bytes = std::fs::read(folder.path().join("energies.f32")).unwrap();
    (bytes.as_chunks().0.iter().map(|energy| f32::from_le_bytes(*energy)).collect(), run)
}

/// Converts energies to bits, to compare them exactly.
fn bits(energies: &[f32]) -> Vec<u32> {
    energies.iter().map(|energy| energy.to_bits()).collect()
}

/// The probability that an anomaly's energy is above a normal one's, ties counting half.
fn auroc(energies: &[f64], is_anomaly: &[bool]) -> f64 {
    let of = |wanted| energies.iter().zip(is_anomaly).filter(move |(_, is)| **is == wanted).map(|(energy, _)| *energy);
    let normal: Vec<f64> = of(false).collect();
    let pairs = of(true).flat_map(|anomaly| normal.iter().map(move |energy| (anomaly, *energy)));
    let (sum, count) = pairs.fold((0.0, 0.0), |(sum, count), (anomaly, normal)| {
        let above = f64::from(u8::from(anomaly > normal)) + 0.5 * f64::from(u8::from(anomaly == normal));
        (sum + above, count + 1.0)
    });
    sum / count
}

/// Mean energy of each clip's windows.
fn clips(energies: &[f32]) -> Vec<f64> {
    let mean = |clip: &[f32]| clip.iter().copied().map(f64::from).sum::<f64>() / WINDOWS as f64;
    energies.chunks(WINDOWS).map(mean).collect()
}

#[test]
fn machine_sound() {
    let Some(folder) = folder("NAE_TOYCAR", ".") else { return };
    let bytes = std::fs::read(folder.join("test.f32")).unwrap();
    let values: Vec<f32> = bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
    let is_anomaly: Vec<bool> =
        std::fs::read(folder.join("test.labels")).unwrap().iter().map(|label| *label == 1).collect();
    assert_eq!(values.len(), is_anomaly.len() * FRAMES * BANDS);
    let windows = || {
        let windows = |clip: &[f32]| (0..WINDOWS).map(|i| clip[i * BANDS..][..WINDOW].to_vec()).collect::<Vec<_>>();
        values.chunks(FRAMES * BANDS).flat_map(windows)
    };
    let (low, high) = DECIBELS;
    let scaled = || windows().map(|window| window.iter().map(|decibels| (decibels - low) / (high - low)).collect());
    let area = |energies: &[f32]| auroc(&clips(energies), &is_anomaly);

    println!(
        "ToyCar, {} clips, {} anomalous: AUC over clips",
        is_anomaly.len(),
        is_anomaly.iter().filter(|a| **a).count()
    );
    let (reference, _) = energies(&words(&folder.join("ad01.nae")), windows());
    println!("  ad01_int8.tflite, host               {:.4}", area(&reference));
    let (plain, _) = energies(&words(&folder.join("toycar-ae.nae")), scaled());
    println!("  plain autoencoder, f32, host         {:.4}", area(&plain));
    let (float, _) = energies(&words(&folder.join("toycar.nae")), scaled());
    println!("  NAE, f32, host                       {:.4}", area(&float));
    let (int8, inputs) = energies(&words(&folder.join("toycar-int8.nae")), scaled());
    println!("  NAE, int8, host                      {:.4}", area(&int8));
    let elf = variable("NAE_ENERGIES").join("toycar-m4");
    let (target, run) = under_qemu("mps2-an386", &elf, &inputs, false);
    println!("  NAE, int8, QEMU (mps2-an386)         {:.4}", area(&target));
    assert_eq!(bits(&target), bits(&int8));
    println!(
        "  {} energies equal to the host bit for bit; alarms over all clips: {}",
        target.len(),
        run.alarms.unwrap()
    );
    // The result of TFLite's interpreter with the model on these clips.
    assert!((area(&reference) - 0.8596).abs() < 0.0002 && (area(&float) - area(&int8)).abs() < 0.005);
}

/// Reads the data after the header of an IDX file.
fn idx(path: &Path, header: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes.split_off(header)
}

#[test]
fn small_mnist() {
    const HELD_OUT: u8 = 9;
    let Some(folder) = folder("NAE_DATA", "mnist") else { return };
    let (images, labels) =
        (idx(&folder.join("t10k-images-idx3-ubyte.gz"), 16), idx(&folder.join("t10k-labels-idx1-ubyte.gz"), 8));
    let is_anomaly: Vec<bool> = labels.iter().map(|label| *label == HELD_OUT).collect();
    let inputs = || images.chunks(28 * 28).map(|image| image.iter().map(|byte| f32::from(*byte) / 255.0).collect());
    let area = |energies: &[f32]| auroc(&energies.iter().copied().map(f64::from).collect::<Vec<_>>(), &is_anomaly);
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/mnist-small");

    println!("MNIST, {} test images, digit {HELD_OUT} held out: AUROC", labels.len());
    let (float, _) = energies(&words(&models.join("mnist-small.nae")), inputs());
    println!("  f32, host                            {:.4}", area(&float));
    let (int8, inputs) = energies(&words(&models.join("mnist-small-int8.nae")), inputs());
    println!("  int8, host                           {:.4}", area(&int8));
    let elf = variable("NAE_ENERGIES").join("mnist-small-m4");
    let (target, _) = under_qemu("mps2-an386", &elf, &inputs, false);
    println!("  int8, QEMU (mps2-an386)              {:.4}", area(&target));
    assert_eq!(bits(&target), bits(&int8));
    println!("  {} energies equal to the host bit for bit", target.len());
    assert!((area(&float) - area(&int8)).abs() < 0.005);
}

/// The cost of each model on each core, with noise as inputs; the energies must be the same everywhere.
#[test]
fn costs() {
    const CORES: [(&str, &str, &str); 5] = [
        ("Cortex-M3", "mps2-an385", "m3"),
        ("Cortex-M4", "mps2-an386", "m4"),
        ("Cortex-M7", "mps2-an500", "m4"),
        ("Cortex-M33", "mps2-an505", "m33"),
        ("Cortex-M55", "mps3-an547", "m55"),
    ];
    let folder = variable("NAE_ENERGIES");
    // Instructions on each of the cores; the layout `Plain` is intended for the vector unit of the last.
    let vectors = |count: u64| [0, 0, 0, 0, count];
    let recorded = [
        ("mnist-small", [9_743_153, 2_423_048, 2_423_048, 2_428_244, 2_300_674]),
        ("digits-plain", vectors(418_628)),
        ("mnist-small-plain", vectors(1_152_849)),
        ("toycar", [1_359_943, 298_076, 298_076, 298_157, 295_354]),
        ("ad01", [1_301_348, 318_796, 318_796, 319_845, 315_633]),
    ];
    for (name, recorded) in recorded {
        let path = folder.join(name).with_extension("nae");
        if !path.is_file() {
            println!("skipped: {name}, whose data are not there");
            continue;
        }
        let file = words(&path);
        let model = Model::parse(bytemuck::cast_slice(&file)).unwrap();
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8 as i8
        };
        let inputs: Vec<i8> = (0..8 * model.input_shape().len()).map(|_| random()).collect();
        let engine = Engine::new(&model).unwrap();
        let mut arena = vec![0.0; model.arena_len()];
        let energy = |input: &[i8]| engine.run_i8(input, &mut arena).unwrap().score.energy;
        let host: Vec<f32> = inputs.chunks(model.input_shape().len()).map(energy).collect();
        println!("{name}: {} bytes; instructions, arena, peak stack, flash", 4 * file.len());
        let built = CORES.into_iter().zip(recorded).filter(|(_, recorded)| *recorded > 0);
        for ((core, machine, elf), recorded) in built {
            let elf = folder.join(format!("{name}-{elf}"));
            let (energies, run) = under_qemu(machine, &elf, &inputs, true);
            assert_eq!(bits(&energies), bits(&host), "{name} on {core}");
            let (most, flash) = (*run.instructions.iter().max().unwrap(), flash(&elf));
            println!("  {core:<10} ({machine}) {most:>10} {:>6} {:>5} {flash:>7}", run.arena, run.stack);
            assert_near(&format!("{name} on {core}"), most, recorded);
            if name == "mnist-small" {
                let input = model.input_shape().len();
                assert!(flash < 300 * 1024 && run.arena + run.stack + input < 64 * 1024);
            }
        }
    }
}
