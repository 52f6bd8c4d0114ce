//! A network whose features are used, run by `nae-simd`, against a float64 interpreter of its graph.
#![allow(clippy::unwrap_used)]

mod support;

use nae_onnx::check::{Limits, check};
use nae_onnx::lower::lower_features;
use nae_simd::{Options, Planes, Program, Size, Workspace};
use support::Numbers;

#[test]
fn features_are_those_of_the_graph() {
    let model = check(&support::mobile(4).unwrap(), &Limits::default()).unwrap();
    let names = ["reconstruction", "latent"];
    let (graph, tensors) = lower_features(&model, &names).unwrap();
    // Every node a step of its own: tensors are those of the graph.
    let program = Program::compile(&graph, &Options::observing()).unwrap();
    let (size, mut numbers) = (Size { h: 12, w: 10, c: 3 }, Numbers(6));
    let image: Vec<f32> = (0..size.len()).map(|_| numbers.unit()).collect();
    let mut found = vec![Vec::new(); names.len()];
    program.observe(Planes::from_channels_first(&Workspace::default(), 1, size, &image), |tensor, planes| {
        for (found, _) in found.iter_mut().zip(&tensors).filter(|(_, wanted)| **wanted == tensor) {
            *found = planes.to_channels_first();
        }
    });
    let expected = support::reference::run(&model.graph, &image);
    for (name, found) in names.iter().zip(&found) {
        let (_, expected) = expected.iter().find(|(output, _)| output == name).unwrap();
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{name}: {found} {expected}");
        }
    }
}

#[test]
fn an_output_that_is_not_there_is_named() {
    let model = check(&support::mobile(4).unwrap(), &Limits::default()).unwrap();
    let error = lower_features(&model, &["latent", "stride16"]).unwrap_err().to_string();
    assert!(
        error
            .starts_with("no output `stride16` of shape [N, C, H, W] or [N, D]; found `reconstruction` [N, 3, 12, 10]"),
        "{error}"
    );
    // Energies are one number an image.
    assert!(lower_features(&model, &["energy"]).is_err());
}
