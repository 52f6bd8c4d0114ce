//! Writes `tests/vectors`: `images.npy`, the images that the firmware scores
//! (`firmware-example/vectors/digits.u8`) as float32, byte / 255; and `energies.npy`, their energies by
//! burn, from the trainer's checkpoint in `models/digits`.
//!
//! ```sh
//! cargo run -p parity --example make_vectors
//! ```
//! To be run again when the model in `models/digits` changes, after `nae-train deploy`.

use parity::runtimes::Trained;
use parity::vectors::{repository, write};
use parity::{Images, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(repository("firmware-example/vectors/digits.u8"))?;
    let values = bytes.iter().map(|&b| f32::from(b) / 255.0).collect();
    let images = Images { shape: [bytes.len() / 256, 1, 16, 16], values };
    let energies = Trained::new(&repository("models/digits")).energies(&images)?;
    std::fs::create_dir_all(repository("tests/vectors"))?;
    write(&repository("tests/vectors/images.npy"), &images.shape, &images.values)?;
    write(&repository("tests/vectors/energies.npy"), &[energies.len()], &energies)
}
