//! Runs a model of features by `nae-simd`, one image a time, on one thread, as `nae-infer` does: the program that
//! `tests/peers/features.py` times beside ONNX Runtime.
//!
//! ```text
//! features MODEL.onnx
//! ```
//!
//! Reads one image from standard input, `f32` in little-endian, channels first; then, for each line, runs the network once
//! and prints how many milliseconds it took. After the last line it writes the features and their reconstruction, one after
//! the other, in the same form to standard error.

use std::error::Error;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::time::Instant;

use nae_onnx::autoencoder::{FEATURES, RECONSTRUCTION};
use nae_onnx::check::{Limits, check};
use nae_onnx::lower::lower_features;
use nae_simd::{Options, Planes, Program, Workspace};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path] = arguments.as_slice() else { return Err("usage: features MODEL.onnx".into()) };
    let model = check(&std::fs::read(path)?, &Limits::default())?;
    let (mut graph, tensors) = lower_features(&model, &[FEATURES, RECONSTRUCTION])?;
    graph.latent = Some(tensors[0]);
    let program = Program::compile(&graph, &Options::scoring())?;
    let mut input = io::stdin().lock();
    let mut bytes = vec![0; 4 * program.input().len()];
    input.read_exact(&mut bytes)?;
    let image: Vec<f32> = bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect();
    let workspace = Workspace::default();
    let mut outputs = [Vec::new(), Vec::new()];
    for line in input.lines() {
        line?;
        let planes = Planes::from_channels_first(&workspace, 1, program.input(), &image);
        let start = Instant::now();
        let made = program.run(planes);
        let features = made.latent.map(|features| features.to_channels_first()).unwrap_or_default();
        outputs = [features, made.output.to_channels_first()];
        println!("{}", start.elapsed().as_secs_f64() * 1e3);
    }
    let bytes: Vec<u8> = outputs.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    io::stderr().write_all(&bytes)?;
    Ok(())
}
