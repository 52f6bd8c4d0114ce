//! Writes `tests/vectors/images.npy`: the images that the firmware scores
//! (`firmware-example/vectors/digits.u8`), as float32, byte / 255.
//!
//! ```sh
//! cargo run -p parity --example make_vectors
//! ```
//! The energies beside it come from the trainer, when it exports `models/digits/model.onnx`.

use parity::vectors::{repository, write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(repository("firmware-example/vectors/digits.u8"))?;
    let values: Vec<f32> = bytes.iter().map(|&b| f32::from(b) / 255.0).collect();
    std::fs::create_dir_all(repository("tests/vectors"))?;
    write(&repository("tests/vectors/images.npy"), &[bytes.len() / 256, 1, 16, 16], &values)
}
