//! Writes an untrained model of the `digits` architecture, for work on the firmware where no
//! trained one is at hand. Its energies mean nothing.
//!
//! ```sh
//! cargo run -p nae-graph --example random_digits -- digits.nae
//! ```

use nae_core::Shape;
use nae_core::calibration::Calibration;
use nae_core::layer::{Activation, ResizeMode};
use nae_graph::{Conv2d, ConvTranspose2d, Graph, GraphError, MaxPool2d, emit};

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

    fn conv(&mut self, i: usize, o: usize, k: usize) -> Result<Conv2d, GraphError> {
        let weights = self.take(o * i * k * k, i * k * k);
        let bias = self.take(o, 100);
        Conv2d::from_oihw(&weights, [o, i, k, k], Some(&bias))
    }

    fn transposed(&mut self, i: usize, o: usize, k: usize) -> Result<ConvTranspose2d, GraphError> {
        let weights = self.take(o * i * k * k, i * k * k);
        let bias = self.take(o, 100);
        ConvTranspose2d::from_iohw(&weights, [i, o, k, k], Some(&bias))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: random_digits FILE.nae")?;
    let mut weights = Weights(1);
    let mut graph = Graph::new(Shape::new(1, 16, 16));
    let pool = MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Default::default() };
    let relu = Activation::Relu;
    graph.push(weights.conv(1, 8, 3)?.with_activation(relu));
    graph.push(weights.conv(8, 16, 3)?.with_activation(relu));
    graph.push(pool);
    graph.push(weights.conv(16, 32, 3)?.with_activation(relu));
    graph.push(weights.conv(32, 128, 4)?.with_activation(relu));
    graph.push(weights.conv(128, 32, 1)?);
    let latent = graph.push(nae_graph::Op::L2Normalize { epsilon: 1e-12 });
    graph.latent = Some(latent);
    graph.push(weights.transposed(32, 32, 3)?.with_activation(relu));
    graph.push(resize(5));
    graph.push(weights.transposed(32, 16, 3)?.with_activation(relu));
    graph.push(resize(12));
    graph.push(weights.transposed(16, 8, 3)?.with_activation(relu));
    graph.push(weights.transposed(8, 1, 3)?.with_activation(Activation::Sigmoid));
    let mut energies: Vec<f32> = (0..400).map(|i| 0.05 + i as f32 / 1600.0).collect();
    graph.contract = graph.contract.with_calibration(Calibration::from_energies(&mut energies)?, 0.05)?;
    std::fs::write(path, emit(&graph)?)?;
    Ok(())
}

fn resize(side: usize) -> nae_graph::Op {
    nae_graph::Op::Resize { height: side, width: side, mode: ResizeMode::BilinearAlignCorners }
}
