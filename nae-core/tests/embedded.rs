//! Models embedded at compile time, and the format's bytes as they are on disk.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_core::layer::{Activation, Padding};
use nae_core::model::{Kind, Model, ModelError, Operators};
use nae_graph::{Conv2d, Graph, emit};

nae_core::include_model! {
    /// A box blur.
    struct Blur = "data/blur.nae";
}

#[test]
fn constants_and_operators_of_an_embedded_model() {
    const ARENA: [f32; Blur::ARENA_LEN] = [0.0; Blur::ARENA_LEN];
    let mut arena = ARENA;
    let image = [0.9; Blur::IMAGE_LEN];
    let output = Blur::engine().unwrap().run(&image, &mut arena).unwrap();
    // A corner sees four of nine pixels.
    assert!((output.reconstruction[0] - 0.4).abs() < 1e-6);
    assert!((output.reconstruction[5] - 0.9).abs() < 1e-6);

    let operators = Blur::MODEL.operators();
    assert!(operators.contains(Operators::kind(Kind::Conv2d)));
    assert!(!operators.contains(Operators::kind(Kind::ConvTranspose2d)));
    assert!(!operators.contains(Operators::activation(Activation::Tanh)));
}

/// The twin of `include_model!`'s example that must not compile: this is why it doesn't.
#[test]
fn the_damaged_model_fails_by_its_checksum() {
    let damaged = include_bytes!("data/blur-damaged.nae");
    assert_eq!(Model::parse(damaged).map(|_| ()), Err(ModelError::Checksum));
}

/// Version 2 must stay readable and writable as it is: a change of the format shows here.
#[test]
fn the_format_on_disk_has_not_changed() {
    let blur = Conv2d::from_oihw(&[1.0 / 9.0; 9], [1, 1, 3, 3], None)
        .unwrap()
        .with_padding(Padding::all(1))
        .with_activation(Activation::Relu);
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    graph.push(blur);
    let bytes = emit(&graph).unwrap();
    assert_eq!(bytes, include_bytes!("data/blur.nae"));
    // Header, one layer, nine weights and a bias.
    assert_eq!(bytes.len(), 128 + 80 + 4 * 10);
    assert_eq!(bytes[..12], *b"\x89NAE\r\n\x1a\n\x02\x00\x80\x00");
    assert_eq!(bytes[128..136], [1, 1, 0, 0, 0, 0, 0, 0]);
}
