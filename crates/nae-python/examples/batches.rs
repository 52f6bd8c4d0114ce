//! The Rust side of tests/peers/python_overhead.py: for each line on standard input it scores the images of an array once,
//! as the wheel does the same array, and prints the seconds.
//!
//!     batches model.onnx images.npy

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use nae_infer::Detector;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(model), Some(images)) = (arguments.next(), arguments.next()) else {
        return Err("expected a model and an array of images".into());
    };
    let detector = Detector::builder().threads(1).open(model)?;
    let images = nae_infer::input::read(&images)?;
    // What lies in memory as the network's input is scored as it is; other images are prepared each time.
    let as_they_are = images.iter().all(|image| image.pixels.shape == detector.contract().input);
    let prepare = || -> Result<Vec<f32>, Box<dyn Error>> {
        let prepared: Result<Vec<Vec<f32>>, _> =
            images.iter().map(|image| detector.settings().prepare(&image.pixels)).collect();
        Ok(prepared?.concat())
    };
    let ready = prepare()?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        line?;
        let started = Instant::now();
        let scored =
            if as_they_are { detector.score_prepared(&ready)? } else { detector.score_prepared(&prepare()?)? };
        let seconds = started.elapsed().as_secs_f64();
        writeln!(out, "{seconds} {}", scored.iter().map(|one| f64::from(one.energy)).sum::<f64>())?;
        out.flush()?;
    }
    Ok(())
}
