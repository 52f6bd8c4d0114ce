//! Altered and truncated files: an error, or a model that runs; never a panic, never out of bounds.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_core::calibration::Calibration;
use nae_core::energy::Energy;
use nae_core::engine::Engine;
use nae_core::model::layer::{Activation, Padding, ResizeMode};
use nae_core::model::writer::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, Layer, MaxPool2d, Network, write};
use nae_core::model::{LayerFault, Model, ModelError};
use proptest::prelude::*;

/// A file of some two kilobytes with every kind of layer.
fn file() -> Vec<u8> {
    let weights = |n: usize| -> Vec<f32> { (0..n).map(|i| (i % 7) as f32 / 10.0 - 0.3).collect() };
    let mut network = Network::new(Shape::new(1, 4, 4));
    network.push(Conv2d::from_oihw(&weights(36), [9, 1, 2, 2], None).unwrap().with_padding(Padding::all(1)));
    network.push(Activation::LeakyRelu { slope: 0.1 });
    network.push(MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE });
    network.push(Dense::from_out_in(&weights(3 * 36), [3, 36], None).unwrap());
    let latent = network.push(Layer::L2Normalize { epsilon: 1e-12 });
    network.latent = Some(latent);
    let up = ConvTranspose2d::from_iohw(&weights(24), [3, 2, 2, 2], None).unwrap();
    network.push(up.with_stride([2, 2]).with_activation(Activation::Sigmoid));
    network.push(Layer::Resize { height: 4, width: 4, mode: ResizeMode::BilinearAlignCorners });
    network.push(Layer::Resize { height: 5, width: 5, mode: ResizeMode::Nearest });
    network.push(AveragePool2d { kernel: [2, 2], stride: [1, 1], padding: Padding::NONE, count_include_padding: true });
    let branch = network.push(Activation::Tanh);
    network.push(Activation::Relu);
    network.push(Layer::Add { other: branch });
    network.push(Dense::from_out_in(&weights(32 * 16), [16, 32], None).unwrap());
    network.push(Layer::Reshape(Shape::new(1, 4, 4)));
    network.energy = Energy::Ssim;
    network.log_normalizer = Some(1.5);
    network.calibration = Some(Calibration::from_sorted(&weights(7)).unwrap());
    network.target_false_positive_rate = Some(0.25);
    write(&network).unwrap()
}

/// Puts the right checksum and length into a file that is long enough to have them.
fn mend(bytes: &mut [u8]) {
    if bytes.len() >= 20 {
        let len = bytes.len() as u32;
        bytes[12..16].copy_from_slice(&len.to_le_bytes());
        let mut crc = u32::MAX;
        for byte in &bytes[20..] {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
            }
        }
        bytes[16..20].copy_from_slice(&(!crc).to_le_bytes());
    }
}

/// Parses and, if that goes well and is small enough, runs. Any panic fails the test.
fn try_to_run(bytes: &[u8]) -> Result<(), ModelError> {
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect();
    let aligned: &[u8] = bytemuck::cast_slice(&words);
    let model = if bytes.len().is_multiple_of(4) { Model::parse(aligned)? } else { Model::parse(bytes)? };
    // A hostile header may ask for more than a test should take: a gigabyte, or a second.
    let work: usize = model.layers().map(|layer| layer.output.len()).sum();
    if model.arena_len() < 1 << 20 && work < 1 << 20 {
        let mut arena = vec![0.5; model.arena_len()];
        let image = vec![0.25; model.input_shape().len()];
        let _ = Engine::new(&model).unwrap().run(&image, &mut arena);
        let _ = model.calibration().map(|calibration| calibration.p_value(0.1));
    }
    Ok(())
}

#[test]
fn the_file_itself_runs() {
    assert_eq!(try_to_run(&file()), Ok(()));
}

#[test]
fn every_truncation_is_refused() {
    let file = file();
    for len in 0..file.len() {
        assert!(try_to_run(&file[..len]).is_err(), "{len} bytes");
        let mut mended = file[..len].to_vec();
        mend(&mut mended);
        assert!(try_to_run(&mended).is_err(), "{len} bytes, mended");
    }
    let mut longer = file.clone();
    longer.extend([0; 4]);
    assert_eq!(try_to_run(&longer), Err(ModelError::Length));
    mend(&mut longer);
    assert_eq!(try_to_run(&longer), Err(ModelError::Length));
}

#[test]
fn every_altered_byte_is_noticed() {
    let file = file();
    for at in 0..file.len() {
        for change in [0x01, 0x10, 0x80, 0xFF] {
            let mut altered = file.clone();
            altered[at] ^= change;
            assert!(try_to_run(&altered).is_err(), "byte {at} ^ {change}");
        }
    }
}

#[test]
fn every_altered_byte_with_a_right_checksum_is_refused_or_runs() {
    let file = file();
    let mut ran = 0;
    for at in 0..file.len() {
        for change in [0x01, 0x02, 0x04, 0x10, 0x40, 0x80, 0xFF] {
            let mut altered = file.clone();
            altered[at] ^= change;
            mend(&mut altered);
            ran += usize::from(try_to_run(&altered).is_ok());
        }
    }
    // Weights may be anything finite, so most changes there are fine.
    assert!(ran > file.len());
}

#[test]
fn faults_are_named() {
    let fault = |at: usize, bytes: &[u8]| {
        let mut altered = file();
        altered[at..at + bytes.len()].copy_from_slice(bytes);
        mend(&mut altered);
        try_to_run(&altered).unwrap_err()
    };
    let layer = |index: usize, at: usize, bytes: &[u8]| match fault(128 + 64 * index + at, bytes) {
        ModelError::Layer { index: found, fault } if usize::from(found) == index => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(0, b"PK"), ModelError::Magic);
    assert_eq!(fault(8, &[2]), ModelError::Version);
    assert_eq!(fault(20, &[0]), ModelError::LayerCount);
    assert_eq!(fault(24, &[0]), ModelError::Calibration);
    assert_eq!(fault(36, &[0xFF; 4]), ModelError::ArenaLength);
    assert_eq!(fault(40, &[0]), ModelError::InputShape);
    assert_eq!(fault(52, &[200]), ModelError::Latent);
    assert_eq!(fault(56, &[3]), ModelError::Energy);
    assert_eq!(fault(57, &[6]), ModelError::Preprocessing);
    assert_eq!(fault(68, &0f32.to_le_bytes()), ModelError::Temperature);
    assert_eq!(fault(76, &1f32.to_le_bytes()), ModelError::Calibration);
    assert_eq!(fault(84, &[1]), ModelError::Reserved);
    let end = file().len() - 4;
    assert_eq!(fault(end, &f32::NAN.to_le_bytes()), ModelError::NonFiniteWeight);
    assert_eq!(layer(0, 0, &[99]), LayerFault::Kind);
    assert_eq!(layer(0, 1, &[5]), LayerFault::Activation);
    assert_eq!(layer(1, 1, &[1]), LayerFault::Activation);
    assert_eq!(layer(0, 4, &[1]), LayerFault::Tensor);
    assert_eq!(layer(0, 12, &[4]), LayerFault::Shape);
    assert_eq!(layer(0, 20, &[0xFF, 0xFF]), LayerFault::Arena);
    assert_eq!(layer(0, 24, &[0]), LayerFault::Geometry);
    assert_eq!(layer(0, 44, &f32::INFINITY.to_le_bytes()), LayerFault::Parameter);
    assert_eq!(layer(0, 48, &[0xFF, 0xFF]), LayerFault::Weights);
    assert_eq!(layer(1, 48, &[1]), LayerFault::Reserved);
    // The pooling's output on its own input.
    let input = file()[128 + 20..][..4].to_vec();
    assert_eq!(layer(1, 20, &input), LayerFault::Overlap);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn random_header_and_layer_fields_never_panic(
        changes in prop::collection::vec((0usize..128 + 64 * 12, any::<u8>()), 1..6),
    ) {
        let mut altered = file();
        for (at, byte) in changes {
            altered[at] = byte;
        }
        mend(&mut altered);
        let _ = try_to_run(&altered);
    }

    #[test]
    fn noise_is_not_a_model(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Model::parse(&bytes).is_err());
    }
}
