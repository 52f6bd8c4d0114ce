//! TFLite models against what TFLite's reference kernels give (made by
//! `tests/python/tflite_vectors.py`), bit for bit; and what is refused.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use nae_core::engine::Engine;
use nae_core::kernels::int8::Layout;
use nae_core::model::Model;
use nae_graph::emit;
use nae_onnx::tflite::{TfliteError, lower, to_nae};
use proptest::prelude::*;

const DENSE: &[u8] = include_bytes!("../../../tests/vectors/tflite/dense.tflite");
const DENSE_SAMPLES: &[u8] = include_bytes!("../../../tests/vectors/tflite/dense.bin");
const AD01_SAMPLES: &[u8] = include_bytes!("../../../tests/vectors/tflite/ad01.bin");

/// A file's bytes at an address divisible by 4, as the engine needs them.
fn aligned(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect()
}

/// Runs every sample in both layouts and compares outputs, and energies with those of the real values.
fn compare(tflite: &[u8], samples: &[u8]) {
    for layout in [Layout::Plain, Layout::Paired] {
        let mut network = lower(tflite).unwrap();
        network.layout = layout;
        let words = aligned(&emit(&network).unwrap());
        let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
        let engine = Engine::new(&model).unwrap();
        let mut arena = vec![f32::NAN; model.arena_len()];
        let len = model.input_shape().len();
        let (x, y) = (model.image_quantization().unwrap(), model.reconstruction_quantization().unwrap());
        for (index, sample) in samples.chunks_exact(2 * len).enumerate() {
            let (input, expected): (&[i8], &[i8]) =
                (bytemuck::cast_slice(&sample[..len]), bytemuck::cast_slice(&sample[len..]));
            let output = engine.run_i8(input, &mut arena).unwrap();
            assert_eq!(output.reconstruction, expected, "sample {index}, {layout:?}");
            let error = |(a, b): (&i8, &i8)| {
                (f64::from(x.scale()) * (f64::from(*a) - f64::from(x.zero_point()))
                    - f64::from(y.scale()) * (f64::from(*b) - f64::from(y.zero_point())))
                .powi(2)
            };
            let energy = input.iter().zip(expected).map(error).sum::<f64>() / len as f64;
            assert!((f64::from(output.score.energy) / energy - 1.0).abs() < 2e-7, "sample {index}");
        }
    }
}

#[test]
fn dense_networks_equal_tflite_bit_for_bit() {
    assert_eq!(DENSE_SAMPLES.len(), 64 * 48);
    compare(DENSE, DENSE_SAMPLES);
}

#[test]
fn mlperf_tiny_anomaly_detector_equals_tflite_bit_for_bit() {
    let Some(data) = std::env::var_os("NAE_DATA") else {
        println!("skipped: NAE_DATA does not name the folder that has mlperf-tiny-ad01");
        return;
    };
    let path = Path::new(&data).join("mlperf-tiny-ad01/ad01_int8.tflite");
    let Ok(tflite) = std::fs::read(&path) else {
        println!("skipped: {} is not there", path.display());
        return;
    };
    compare(&tflite, AD01_SAMPLES);
    let bytes = to_nae(&tflite).unwrap();
    let model = Model::parse(&bytes).unwrap();
    assert_eq!((model.layer_count(), model.multiply_accumulates()), (10, 264_192));
}

#[test]
fn a_truncated_file_is_refused() {
    for len in 0..DENSE.len() {
        // The end of the file may be data that nothing points to.
        let result = to_nae(&DENSE[..len]);
        assert!(result.is_err() || result == to_nae(DENSE), "{len} bytes");
    }
    assert!(matches!(to_nae(b"\x14\0\0\0TFL3"), Err(TfliteError::Malformed { what: "the model", .. })));
    assert!(matches!(to_nae(b"PK"), Err(TfliteError::Malformed { .. })));
}

#[test]
fn altered_bytes_are_refused_or_give_a_model() {
    for at in 0..DENSE.len() {
        for change in [0x01, 0x02, 0x08, 0x40, 0x80, 0xFF] {
            let mut altered = DENSE.to_vec();
            altered[at] ^= change;
            if let Ok(bytes) = to_nae(&altered) {
                assert!(Model::parse(&bytes).is_ok(), "byte {at} ^ {change}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_changes_never_panic(changes in prop::collection::vec((0..DENSE.len(), any::<u8>()), 1..8)) {
        let mut altered = DENSE.to_vec();
        for (at, byte) in changes {
            altered[at] = byte;
        }
        let _ = to_nae(&altered);
    }
}
