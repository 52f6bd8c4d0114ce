//! Writes an untrained model of the `digits` architecture, for work on the firmware where no
//! trained one is at hand. Its energies mean nothing.
//!
//! ```sh
//! cargo run -p nae-core --example random_digits -- digits.nae
//! ```

use nae_core::Shape;
use nae_core::calibration::Calibration;
use nae_core::model::layer::{Activation, ResizeMode};
use nae_core::model::writer::{Conv2d, ConvTranspose2d, MaxPool2d, Network, WriteError, write};

/// Uniform weights of He's scale from a fixed multiplicative generator (Lehmer, MINSTD).
struct Weights(u64);

impl Weights {
    fn take(&mut self, count: usize, fan_in: usize) -> Vec<f32> {
        let bound = (6.0 / fan_in as f32).sqrt();
        let mut next = || {
            self.0 = self.0 * 48_271 % 0x7FFF_FFFF;
            (self.0 as f32 / 0x7FFF_FFFF as f32 * 2.0 - 1.0) * bound
        };
        (0..count).map(|_| next()).collect()
    }

    fn conv(&mut self, i: usize, o: usize, k: usize) -> Result<Conv2d, WriteError> {
        let weights = self.take(o * i * k * k, i * k * k);
        let bias = self.take(o, 100);
        Conv2d::from_oihw(&weights, [o, i, k, k], Some(&bias))
    }

    fn transposed(&mut self, i: usize, o: usize, k: usize) -> Result<ConvTranspose2d, WriteError> {
        let weights = self.take(o * i * k * k, i * k * k);
        let bias = self.take(o, 100);
        ConvTranspose2d::from_iohw(&weights, [i, o, k, k], Some(&bias))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: random_digits FILE.nae")?;
    let mut weights = Weights(1);
    let mut network = Network::new(Shape::new(1, 16, 16));
    let pool = MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Default::default() };
    let relu = Activation::Relu;
    network.push(weights.conv(1, 8, 3)?.with_activation(relu));
    network.push(weights.conv(8, 16, 3)?.with_activation(relu));
    network.push(pool);
    network.push(weights.conv(16, 32, 3)?.with_activation(relu));
    network.push(weights.conv(32, 128, 4)?.with_activation(relu));
    network.push(weights.conv(128, 32, 1)?);
    let latent = network.push(nae_core::model::writer::Layer::L2Normalize { epsilon: 1e-12 });
    network.latent = Some(latent);
    network.push(weights.transposed(32, 32, 3)?.with_activation(relu));
    network.push(resize(5));
    network.push(weights.transposed(32, 16, 3)?.with_activation(relu));
    network.push(resize(12));
    network.push(weights.transposed(16, 8, 3)?.with_activation(relu));
    network.push(weights.transposed(8, 1, 3)?.with_activation(Activation::Sigmoid));
    let mut energies: Vec<f32> = (0..400).map(|i| 0.05 + i as f32 / 1600.0).collect();
    network.calibration = Some(Calibration::from_energies(&mut energies)?);
    network.target_false_positive_rate = Some(0.05);
    std::fs::write(path, write(&network)?)?;
    Ok(())
}

fn resize(side: usize) -> nae_core::model::writer::Layer {
    nae_core::model::writer::Layer::Resize { height: side, width: side, mode: ResizeMode::BilinearAlignCorners }
}
