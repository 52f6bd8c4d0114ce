//! Autoencoders as PyTorch's two exporters write them (made by `tests/python/pytorch_models.py`), lowered and run,
//! against what PyTorch computes.
#![allow(clippy::unwrap_used)]

use nae_core::engine::Engine;
use nae_core::model::Model;
use nae_onnx::lower::to_nae;

/// Runs the samples of a model and returns the greatest difference from PyTorch's outputs.
fn difference(onnx: &[u8], samples: &[u8]) -> f32 {
    let file = to_nae(onnx).unwrap();
    let words: Vec<u32> = file.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect();
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let engine = Engine::new(&model).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let values: Vec<f32> = samples.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let len = model.input_shape().len();
    let samples = values.chunks_exact(2 * len);
    assert_eq!(samples.len(), 4);
    let mut greatest = 0.0f32;
    for sample in samples {
        // One channel: channels first and last are the same.
        let (image, expected) = sample.split_at(len);
        let output = engine.run(image, &mut arena).unwrap();
        let differences = output.reconstruction.iter().zip(expected).map(|(a, b)| (a - b).abs());
        greatest = differences.fold(greatest, f32::max);
    }
    greatest
}

macro_rules! both_exporters {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            let samples = include_bytes!(concat!("../../../tests/vectors/pytorch/", stringify!($name), ".bin"));
            let old = include_bytes!(concat!("../../../tests/vectors/pytorch/", stringify!($name), "-old.onnx"));
            let new = include_bytes!(concat!("../../../tests/vectors/pytorch/", stringify!($name), "-new.onnx"));
            for (exporter, onnx) in [("old", &old[..]), ("new", &new[..])] {
                let difference = difference(onnx, samples);
                assert!(difference < 2e-6, "{exporter} exporter: {difference}");
            }
        }
    )*};
}

both_exporters!(strided, residual, perceptron);
