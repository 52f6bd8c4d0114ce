//! Turns a dense int8 TFLite model into a `.nae` file, as `nae-train deploy` does, without building a trainer.
//!
//! ```sh
//! cargo run -p nae-onnx --example tflite_to_nae -- ad01_int8.tflite ad01.nae
//! ```

use nae_onnx::{file, tflite};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: tflite_to_nae MODEL.tflite MODEL.nae".into());
    };
    file::write(&to, &tflite::to_nae(&file::read(&from, 1 << 30)?)?)?;
    Ok(())
}
