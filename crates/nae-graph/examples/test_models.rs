//! Writes the small models that tests and doc examples embed.
//!
//! ```sh
//! cargo run -p nae-graph --example test_models
//! ```

use nae_core::Shape;
use nae_core::layer::{Activation, Padding};
use nae_graph::{Conv2d, Graph, emit};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../nae-core/tests/data");
    let blur = Conv2d::from_oihw(&[1.0 / 9.0; 9], [1, 1, 3, 3], None)?
        .with_padding(Padding::all(1))
        .with_activation(Activation::Relu);
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    graph.push(blur);
    let mut bytes = emit(&graph)?;
    std::fs::write(folder.join("blur.nae"), &bytes)?;
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    std::fs::write(folder.join("blur-damaged.nae"), &bytes)?;
    Ok(())
}
