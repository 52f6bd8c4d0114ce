//! What the writer refuses, and how tightly it plans the arena.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_core::calibration::{Calibration, CalibrationError};
use nae_core::energy::Energy;
use nae_core::model::layer::{Activation, Padding, ResizeMode};
use nae_core::model::writer::{
    Conv2d, ConvTranspose2d, Dense, GroupNormalize, Layer, MaxPool2d, Network, WriteError, write,
};
use nae_core::model::{MAX_LAYERS, Model, ModelError, Preprocessing, ResizeFilter};

fn conv(input: usize, output: usize, kernel: usize) -> Conv2d {
    let shape = [output, input, kernel, kernel];
    Conv2d::from_oihw(&vec![0.1; shape.iter().product()], shape, None).unwrap()
}

fn transposed(input: usize, output: usize, kernel: usize) -> ConvTranspose2d {
    let shape = [input, output, kernel, kernel];
    ConvTranspose2d::from_iohw(&vec![0.1; shape.iter().product()], shape, None).unwrap()
}

/// Group normalisation of one channel.
fn norm(groups: usize, epsilon: f32) -> Layer {
    GroupNormalize { groups, scale: vec![1.0], shift: vec![0.0], epsilon }.into()
}

/// What `write` says of layers put on an image of 1×4×4.
fn error(layers: impl IntoIterator<Item = Layer>) -> WriteError {
    let mut network = Network::new(Shape::new(1, 4, 4));
    for layer in layers {
        network.push(layer);
    }
    write(&network).unwrap_err()
}

#[test]
fn wrong_layers_are_named() {
    let image = Shape::new(1, 4, 4);
    assert_eq!(error([]), WriteError::NoLayers);
    let found = Shape::new(1, 2, 2);
    assert_eq!(error([conv(1, 1, 3).into()]), WriteError::Reconstruction { expected: image, found });
    assert_eq!(error([conv(1, 1, 5).into()]), WriteError::EmptyOutput { layer: 0, input: image });
    let expected = Shape::new(2, 0, 0);
    let activation = || Layer::Activation(Activation::Relu);
    assert_eq!(
        error([activation(), conv(2, 1, 1).into()]),
        WriteError::InputShape { layer: 1, expected, found: image }
    );
    for wrong in [
        conv(1, 1, 3).with_stride([0, 1]).into(),
        conv(1, 1, 3).with_padding(Padding::all(3)).into(),
        transposed(1, 1, 3).with_output_padding([1, 0]).into(),
        Layer::from(MaxPool2d { kernel: [0, 2], stride: [1, 1], padding: Padding::NONE }),
        norm(0, 1e-5),
        norm(2, 1e-5),
    ] {
        assert_eq!(error([wrong]), WriteError::Geometry { layer: 0 });
    }
    for wrong in [
        Layer::L2Normalize { epsilon: 0.0 },
        norm(1, 0.0),
        Activation::LeakyRelu { slope: f32::NAN }.into(),
        Dense::from_out_in(&[f32::INFINITY; 256], [16, 16], None).unwrap().into(),
    ] {
        assert_eq!(error([wrong]), WriteError::NonFinite { layer: 0 });
    }
    assert_eq!(error([Layer::Add { other: 1 }]), WriteError::UnknownTensor { layer: 0, tensor: 1 });
    let flat = Shape::vector(15);
    let other = WriteError::InputShape { layer: 0, expected: flat, found: image };
    assert_eq!(error([Layer::Reshape(flat)]), other);
    let mut short = conv(1, 1, 1);
    short.bias.clear();
    assert_eq!(error([short.into()]), WriteError::BiasLength { expected: 1, found: 0 });
    let lengths = WriteError::WeightsLength { expected: 6, found: 5 };
    assert_eq!(Dense::from_out_in(&[0.0; 5], [2, 3], None).unwrap_err(), lengths);
    // Beyond the engine's limits, so that the parser refuses it.
    let huge = Layer::Resize { height: 40_000, width: 1, mode: ResizeMode::Nearest };
    let back = Layer::Resize { height: 4, width: 4, mode: ResizeMode::Nearest };
    assert!(matches!(error([huge, back]), WriteError::Refused(ModelError::Layer { index: 0, .. })));
    let many = std::iter::repeat_n(activation(), MAX_LAYERS + 1);
    assert_eq!(error(many), WriteError::Refused(ModelError::LayerCount));
}

#[test]
fn wrong_settings_are_named() {
    let mut network = Network::new(Shape::new(1, 2, 2));
    network.push(Activation::Relu);
    let with = |change: &dyn Fn(&mut Network)| {
        let mut network = network.clone();
        change(&mut network);
        write(&network).map(|_| ())
    };
    assert_eq!(with(&|n| n.latent = Some(2)), Err(WriteError::Latent { tensor: 2 }));
    assert_eq!(with(&|n| n.latent = Some(0)), Err(WriteError::Latent { tensor: 0 }));
    assert_eq!(with(&|n| n.log_normalizer = Some(f32::NAN)), Err(WriteError::LogNormalizer));
    assert_eq!(with(&|n| n.target_false_positive_rate = Some(0.1)), Err(WriteError::NoCalibration));
    let calibrated = |rate: f32| {
        with(&|n| {
            n.calibration = Some(Calibration::from_sorted(&[1.0; 9]).unwrap());
            n.target_false_positive_rate = Some(rate);
        })
    };
    assert_eq!(calibrated(0.1), Ok(()));
    assert_eq!(calibrated(0.09), Err(WriteError::Threshold(CalibrationError::RateTooLow)));
    let ssim = with(&|n| {
        n.energy = Energy::Ssim;
        n.preprocessing = Preprocessing::new(-1.0, 1.0, ResizeFilter::Box).unwrap();
    });
    assert_eq!(ssim, Err(WriteError::Refused(ModelError::Energy)));
}

#[test]
fn what_was_written_is_read_back() {
    let mut network = Network::new(Shape::new(1, 4, 4));
    network.latent = Some(network.push(conv(1, 3, 4)));
    network.push(transposed(3, 1, 4));
    network.energy = Energy::L1;
    network.temperature = nae_core::density::Temperature::new(0.25).unwrap();
    network.log_normalizer = Some(-3.5);
    network.preprocessing = Preprocessing::new(-1.0, 1.0, ResizeFilter::Lanczos3).unwrap();
    let mut energies: Vec<f32> = (0..1000).map(|i| (i * 37 % 1000) as f32).collect();
    network.calibration = Some(Calibration::from_energies(&mut energies).unwrap());
    network.target_false_positive_rate = Some(0.01);
    let bytes = write(&network).unwrap();
    assert_eq!(bytes, write(&network).unwrap());
    let model = Model::parse(&bytes).unwrap();
    assert_eq!(model.input_shape(), network.input);
    assert_eq!(model.latent_shape(), Some(Shape::new(3, 1, 1)));
    assert_eq!(model.energy(), network.energy);
    assert_eq!(model.temperature(), network.temperature);
    assert_eq!(model.log_normalizer(), network.log_normalizer);
    assert_eq!(model.preprocessing(), network.preprocessing);
    assert_eq!(model.target_false_positive_rate(), Some(0.01));
    assert_eq!(model.threshold(), network.calibration.as_ref().map(|c| c.threshold(0.01).unwrap()));
    assert_eq!(model.calibration().map(|c| c.to_owned()), network.calibration);
    assert_eq!((model.layer_count(), model.weight_count()), (2, 48 + 3 + 48 + 1));
    // The transposed convolution as a convolution with padding: 4×4 places of 4×4×3 taps.
    assert_eq!(model.multiply_accumulates(), 48 + 16 * 48);
}

/// The `digits` architecture: no plan can take less than two neighbours that are alive at once, and the
/// latent code beside them.
#[test]
fn the_arena_of_digits_is_as_small_as_can_be() {
    let up = |side| Layer::Resize { height: side, width: side, mode: ResizeMode::BilinearAlignCorners };
    let mut network = Network::new(Shape::new(1, 16, 16));
    network.push(conv(1, 8, 3));
    network.push(Activation::Relu);
    network.push(conv(8, 16, 3));
    network.push(Activation::Relu);
    network.push(MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE });
    network.push(conv(16, 32, 3));
    network.push(conv(32, 128, 4));
    network.push(conv(128, 32, 1));
    network.latent = Some(network.push(Layer::L2Normalize { epsilon: 1e-12 }));
    network.push(transposed(32, 32, 3));
    network.push(up(5));
    network.push(transposed(32, 16, 3));
    network.push(up(12));
    network.push(transposed(16, 8, 3));
    network.push(transposed(8, 1, 3));
    let bytes = write(&network).unwrap();
    // 12×12×16 beside 14×14×8, in the decoder with the latent code kept.
    assert_eq!(Model::parse(&bytes).unwrap().arena_len(), 2304 + 1568 + 32);
}
