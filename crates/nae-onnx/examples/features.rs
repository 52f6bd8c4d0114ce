//! Runs a network of images by `nae-simd`, one image a time, on one thread: the program that `tests/peers/features.py`
//! times beside ONNX Runtime.
//!
//! ```text
//! features MODEL.onnx OUTPUT...
//! ```
//!
//! Reads one image from standard input, `f32` in little-endian, channels first; then, for each line, runs the network once
//! and prints how many milliseconds it took. After the last line it writes the outputs, one after the other, in the same
//! form to standard error.

use std::error::Error;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::time::Instant;

use nae_onnx::check::{Limits, check};
use nae_onnx::lower::lower_features;
use nae_simd::{Options, Planes, Program, Workspace};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, names @ ..] = arguments.as_slice() else { return Err("usage: features MODEL.onnx OUTPUT...".into()) };
    let model = check(&std::fs::read(path)?, &Limits::default())?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (graph, tensors) = lower_features(&model, &names)?;
    let program = Program::compile(&graph, &Options::observing())?;
    let mut input = io::stdin().lock();
    let mut bytes = vec![0; 4 * program.input().len()];
    input.read_exact(&mut bytes)?;
    let image: Vec<f32> = bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect();
    let workspace = Workspace::default();
    let mut outputs = vec![Vec::new(); tensors.len()];
    for line in input.lines() {
        line?;
        let planes = Planes::from_channels_first(&workspace, 1, program.input(), &image);
        let start = Instant::now();
        program.observe(planes, |tensor, planes| {
            for (output, _) in outputs.iter_mut().zip(&tensors).filter(|(_, wanted)| **wanted == tensor) {
                *output = planes.to_channels_first();
            }
        });
        println!("{}", start.elapsed().as_secs_f64() * 1e3);
    }
    let bytes: Vec<u8> = outputs.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    io::stderr().write_all(&bytes)?;
    Ok(())
}
