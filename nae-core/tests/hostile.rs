//! Altered and truncated files: an error, or a model that runs; never a panic, never out of bounds.
#![allow(clippy::unwrap_used)]

mod models;

use std::collections::HashSet;

use models::floats;
use nae_core::Shape;
use nae_core::engine::Engine;
use nae_core::kernels::int8::{self, L2Normalize, Layout, Multiplier, Range};
use nae_core::layer::{Activation, Element, Padding};
use nae_core::model::{Geometry, Int8Linear, Kind, LayerFault, Linear, Model, ModelError, Operation, Record, Span};
use nae_core::quantization::Quantization;
use nae_graph::{
    AveragePool2d, Conv2d, ConvTranspose2d, Dense, Graph, GraphError, GroupNormalize, Int8Layer, Int8Operation, emit,
};
use proptest::prelude::*;

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
    if model.arena_len() < 1 << 20 && model.operations() < 1 << 24 {
        let mut arena = vec![0.5; model.arena_len()];
        let engine = Engine::new(&model).unwrap();
        let len = model.input_shape().len();
        let _ = engine.run(&vec![0.25; len], &mut arena);
        let image: Vec<i8> = (0..len).map(|i| (i * 37) as i8).collect();
        let _ = engine.run_i8(&image, &mut arena);
        let _ = model.calibration().map(|calibration| calibration.p_value(0.1));
    }
    Ok(())
}

#[test]
fn the_files_themselves_run() {
    for file in models::all() {
        assert_eq!(try_to_run(&file), Ok(()));
    }
}

#[test]
fn the_files_have_every_kind_of_layer() {
    let (mut kinds, mut padded) = (HashSet::new(), HashSet::new());
    for file in models::all() {
        for layer in Model::parse(&file).unwrap().layers() {
            let is_int8 = matches!(layer.element, Element::I8(_));
            kinds.insert((layer.operation.kind() as u8, is_int8));
            if let Operation::AveragePool2d { count_include_padding, .. } = layer.operation {
                padded.insert((is_int8, count_include_padding));
            }
        }
    }
    assert!(padded.is_superset(&[(false, true), (true, true)].into()), "{padded:?}");
    for kind in (1..).map_while(Kind::from_id) {
        let float_only = matches!(kind, Kind::GroupNormalize | Kind::Dequantize);
        let int8_only = matches!(kind, Kind::Quantize | Kind::Requantize);
        assert!(int8_only || kinds.contains(&(kind as u8, false)), "{kind:?} of f32");
        assert!(float_only || kinds.contains(&(kind as u8, true)), "{kind:?} of 8 bits");
    }
}

/// The sum of so large a window would not fit 32 bits.
#[test]
fn a_mean_of_8_bits_over_too_large_a_window_is_refused() {
    let pooled = |side: usize| {
        let scale = Quantization::new(1.0 / 255.0, -128).unwrap();
        let mut graph = Graph::new(Shape::new(1, 1, 1));
        graph.element = Element::I8(scale);
        let padding = Padding { top: side - 1, left: side - 1, bottom: 0, right: 0 };
        let pool = AveragePool2d { kernel: [side; 2], stride: [1, 1], padding, count_include_padding: true };
        graph.push(Int8Layer::new(Int8Operation::AveragePool2d(pool), scale));
        emit(&graph)
    };
    let refused = ModelError::Layer { index: 0, fault: LayerFault::Geometry };
    assert_eq!(pooled(2897), Err(GraphError::Refused(refused)));
    // 2^23 − 1,792 values: one of the image, the others zeros of padding.
    let file = pooled(2896).unwrap();
    let words: Vec<u32> = file.chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect();
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let output = Engine::new(&model).unwrap().run_i8(&[127], &mut arena).unwrap();
    assert_eq!(output.reconstruction, [-128]);
}

#[test]
fn every_truncation_is_refused() {
    for file in models::all() {
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
}

#[test]
fn every_altered_byte_is_noticed() {
    for file in models::all() {
        for at in 0..file.len() {
            for change in [0x01, 0x10, 0x80, 0xFF] {
                let mut altered = file.clone();
                altered[at] ^= change;
                assert!(try_to_run(&altered).is_err(), "byte {at} ^ {change}");
            }
        }
    }
}

#[test]
fn every_altered_byte_with_a_right_checksum_is_refused_or_runs() {
    for file in models::all() {
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
}

#[test]
fn faults_are_named() {
    let fault = |at: usize, bytes: &[u8]| {
        let mut altered = floats();
        altered[at..at + bytes.len()].copy_from_slice(bytes);
        mend(&mut altered);
        try_to_run(&altered).unwrap_err()
    };
    let layer = |index: usize, at: usize, bytes: &[u8]| match fault(128 + 80 * index + at, bytes) {
        ModelError::Layer { index: found, fault } if usize::from(found) == index => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(0, b"PK"), ModelError::Magic);
    assert_eq!(fault(8, &[1]), ModelError::Version);
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
    let end = floats().len() - 4;
    let last = ModelError::Layer { index: 13, fault: LayerFault::NonFiniteWeight };
    assert_eq!(fault(end, &f32::NAN.to_le_bytes()), last);
    assert_eq!(layer(0, 0, &[99]), LayerFault::Kind);
    assert_eq!(layer(0, 1, &[6]), LayerFault::Activation);
    assert_eq!(layer(1, 1, &[1]), LayerFault::Activation);
    assert_eq!(layer(0, 4, &[1]), LayerFault::Tensor);
    assert_eq!(layer(0, 12, &[4]), LayerFault::Shape);
    assert_eq!(layer(0, 20, &[0xFF, 0xFF]), LayerFault::Arena);
    assert_eq!(layer(0, 24, &[0]), LayerFault::Geometry);
    assert_eq!(layer(0, 44, &f32::INFINITY.to_le_bytes()), LayerFault::Parameter);
    assert_eq!(layer(0, 48, &[0xFF, 0xFF]), LayerFault::Weights);
    assert_eq!(layer(1, 48, &[1]), LayerFault::Reserved);
    // The group normalization: groups, type, epsilon, scales.
    assert_eq!(layer(12, 2, &[0]), LayerFault::Kind);
    assert_eq!(layer(12, 2, &[3]), LayerFault::Geometry);
    assert_eq!(layer(12, 3, &[1]), LayerFault::Quantization);
    let mut integers = floats()[128 + 80 * 12..][..72].to_vec();
    integers[3] = 1;
    integers[64..68].copy_from_slice(&0.1f32.to_le_bytes());
    integers[44..48].copy_from_slice(&[0; 4]);
    assert_eq!(layer(12, 0, &integers), LayerFault::Element);
    assert_eq!(layer(12, 44, &0f32.to_le_bytes()), LayerFault::Parameter);
    assert_eq!(layer(12, 52, &[1]), LayerFault::Weights);
    assert_eq!(layer(12, 60, &[3]), LayerFault::Weights);
    // The pooling's output on its own input.
    let input = floats()[128 + 20..][..4].to_vec();
    assert_eq!(layer(1, 20, &input), LayerFault::Overlap);
}

/// What a version to come may add leaves the version of the format as it is: the text has to say that this reader may be too
/// old.
#[test]
fn what_a_newer_version_may_have_written_is_called_so() {
    let text = |file: &[u8], at: usize, byte: u8| {
        let mut altered = file.to_vec();
        altered[at] = byte;
        mend(&mut altered);
        try_to_run(&altered).unwrap_err().to_string()
    };
    let integers = models::integers_in(Layout::Plain);
    for text in [
        text(&floats(), 56, 99),
        text(&floats(), 57, 99),
        text(&floats(), 58, 16),
        text(&floats(), 59, 2),
        text(&floats(), 127, 1),
        text(&floats(), 128, 99),
        text(&floats(), 128 + 1, 99),
        text(&floats(), 128 + 2, 99),
        text(&floats(), 128 + 3, 99),
        text(&floats(), 128 + 79, 1),
        text(&integers, 128 + 71, 99),
    ] {
        assert!(text.contains("unknown") && text.contains("newer version"), "{text}");
    }
    let file = |at, byte| text(&floats(), at, byte);
    assert!(!file(24, 0).contains("newer version"));
}

#[test]
fn faults_of_8_bit_models_are_named() {
    let file = models::integers_in(Layout::Paired);
    let fault = |at: usize, bytes: &[u8]| {
        let mut altered = file.clone();
        altered[at..at + bytes.len()].copy_from_slice(bytes);
        mend(&mut altered);
        try_to_run(&altered).unwrap_err()
    };
    let layer = |index: usize, at: usize, bytes: &[u8]| match fault(128 + 80 * index + at, bytes) {
        ModelError::Layer { index: found, fault } if usize::from(found) == index => fault,
        other => panic!("{other:?}"),
    };
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let parameters = file.len() - 4 * word(32);
    assert_eq!(fault(56, &[2]), ModelError::Energy);
    assert_eq!(fault(59, &[2]), ModelError::Reserved);
    assert_eq!(fault(84, &0f32.to_le_bytes()), ModelError::Quantization);
    assert_eq!(fault(84, &f32::NAN.to_le_bytes()), ModelError::Quantization);
    assert_eq!(fault(89, &[1]), ModelError::Reserved);
    // The image's scale 2^20 times the reconstruction's.
    assert_eq!(fault(84, &4194.0f32.to_le_bytes()), ModelError::Reconstruction);
    assert_eq!(layer(0, 3, &[2]), LayerFault::Element);
    assert_eq!(layer(9, 3, &[1]), LayerFault::Quantization);
    assert_eq!(layer(0, 1, &[1]), LayerFault::Activation);
    assert_eq!(layer(0, 64, &0f32.to_le_bytes()), LayerFault::Quantization);
    // Least above greatest.
    assert_eq!(layer(0, 69, &[5, 4]), LayerFault::Quantization);
    assert_eq!(layer(0, 71, &[99]), LayerFault::Kind);
    // The plain layout needs no scratch memory.
    assert_eq!(layer(0, 71, &[0]), LayerFault::Reserved);
    assert_eq!(layer(0, 72, &[1]), LayerFault::Reserved);
    assert_eq!(layer(0, 76, &[0xFF, 0xFF]), LayerFault::Arena);
    let output = file[128 + 20..][..4].to_vec();
    assert_eq!(layer(0, 76, &output), LayerFault::Overlap);
    assert_eq!(layer(2, 64, &0.03f32.to_le_bytes()), LayerFault::Quantization);
    assert_eq!(layer(4, 64, &0.03f32.to_le_bytes()), LayerFault::Quantization);
    assert_eq!(layer(5, 28, &[17]), LayerFault::Geometry);
    // Channels of the first layer: bias, value and shift of its multiplier.
    let channels = parameters + 4 * word(128 + 56);
    assert_eq!(fault(channels, &i32::MAX.to_le_bytes()), named(0, LayerFault::Quantization));
    assert_eq!(fault(channels + 4, &1i32.to_le_bytes()), named(0, LayerFault::Quantization));
    assert_eq!(fault(channels + 8, &64i32.to_le_bytes()), named(0, LayerFault::Quantization));
    // The first multiplier of the addition: its shift must not be above 0.
    let addition = parameters + 4 * word(128 + 80 * 13 + 72);
    assert_eq!(fault(addition + 4, &1i32.to_le_bytes()), named(13, LayerFault::Quantization));
}

/// What a small file can ask for again and again without computing anything: phases without places, rows of one place, groups
/// of one channel. The number of operations is what a host limits.
#[test]
fn files_that_mostly_start_parts_of_layers_count_these() {
    let scale = Quantization::new(0.02, 3).unwrap();
    let mut phases = Graph::new(Shape::vector(4));
    let mut rows = Graph::new(Shape::new(4, 1000, 1));
    (phases.element, rows.element) = (Element::I8(scale), Element::I8(scale));
    for _ in 0..255 {
        let up = ConvTranspose2d::from_iohw(&[0.5; 16], [4, 4, 1, 1], None).unwrap().with_stride([16, 16]);
        let up = up.with_parameters(vec![1; 16], vec![0; 4]);
        phases.push(Int8Layer::new(Int8Operation::ConvTranspose2d(up, vec![0.01]), scale));
    }
    let conv = Conv2d::from_oihw(&[0.5; 16], [4, 4, 1, 1], None).unwrap();
    let conv = conv.with_parameters(vec![1; 16], vec![0; 4]);
    rows.push(Int8Layer::new(Int8Operation::Conv2d(conv, vec![0.01]), scale));
    let mut groups = Graph::new(Shape::new(240, 4, 4));
    groups.push(GroupNormalize { groups: 240, scale: vec![1.0; 240], shift: vec![0.0; 240], epsilon: 1e-5 });
    for (graph, parts) in [(&phases, 255 * 256), (&rows, 1000), (&groups, 240 * 16)] {
        let file = emit(graph).unwrap();
        assert!(file.len() < 40_000, "{} bytes", file.len());
        let operations = Model::parse(&file).unwrap().operations();
        assert!(operations > 50 * parts, "{operations}");
        assert_eq!(try_to_run(&file), Ok(()));
    }
}

/// If layers could share weights, each would check them again: parsing would take the length times the number of layers.
#[test]
fn layers_with_more_parameters_than_the_file_has_are_refused() {
    let dense = |layers: usize| {
        let mut graph = Graph::new(Shape::vector(4));
        for _ in 0..layers {
            graph.push(Dense::from_out_in(&[0.5; 16], [4, 4], None).unwrap());
        }
        emit(&graph).unwrap()
    };
    let both = dense(2);
    // The second layer uses the first one's weights and biases, and the file ends with those.
    let shared = |words: usize| {
        let mut file = both[..128 + 2 * 80].to_vec();
        file.extend_from_slice(&both[128 + 2 * 80..][..4 * words]);
        file[32..36].copy_from_slice(&(words as u32).to_le_bytes());
        let (first, second) = (128 + 48, 128 + 80 + 48);
        file.copy_within(first..first + 16, second);
        mend(&mut file);
        try_to_run(&file)
    };
    assert_eq!(shared(20), Err(named(1, LayerFault::Weights)));
    assert_eq!(shared(39), Err(named(1, LayerFault::Weights)));
    // Words that no layer uses are no fault.
    assert_eq!(shared(40), Ok(()));
    assert_eq!(try_to_run(&both), Ok(()));
}

/// Numbers beyond what the parser lets through: nothing overflows.
#[test]
fn public_functions_take_extreme_numbers() {
    let record = |operation| Record {
        input: 0,
        output: Shape::new(usize::MAX, 2, 2),
        element: Element::F32,
        offset: 0,
        operation,
    };
    let (weights, bias) = (Span::default(), Span::default());
    let linear = Linear::F32 { weights, bias, activation: Activation::Tanh };
    let most = usize::MAX;
    let geometry = Geometry { kernel: [most; 2], stride: [most; 2], padding: Padding::all(most) };
    let pair =
        Int8Linear { layout: Layout::Paired, weights, bias, shared_multiplier: None, clamp: [-128, 127], scratch: 0 };
    for linear in [linear, Linear::I8(pair)] {
        for operation in [
            Operation::Dense(linear),
            Operation::Conv2d(geometry, linear),
            Operation::ConvTranspose2d { geometry, output_padding: [most; 2], linear },
        ] {
            let record = record(operation);
            let huge = Shape::new(most, most, most);
            assert_eq!((record.parameter_count(huge), record.operations(huge)), (u64::MAX, u64::MAX));
            assert!(record.parameter_count(Shape::new(1, 1, 1)) > 0);
        }
    }
    let normalized = |shift| {
        let gain = Multiplier { value: 1 << 30, shift };
        let layer = L2Normalize { input_zero_point: 0, least: 0, gain, range: Range::full(0) };
        let mut values = [3, -4, 0];
        int8::l2_normalize(&layer, &mut values);
        values
    };
    // As for any shift beyond the greatest or the least.
    assert_eq!((normalized(i32::MAX), normalized(31)), (normalized(30), normalized(30)));
    assert_eq!((normalized(i32::MIN), normalized(-32)), (normalized(-31), normalized(-31)));
    assert_eq!(normalized(8), [77, -102, 0]);
}

#[test]
fn rows_that_are_still_to_be_read_are_not_written_over() {
    let file = models::in_bands();
    let layers: Vec<_> = Model::parse(&file).unwrap().layers().collect();
    let (input, output) = (&layers[0], &layers[1]);
    let end = output.offset + output.output.len().div_ceil(4);
    assert!(output.offset < input.offset && input.offset < end, "they lie apart");
    let lead = output.lead(input.output, 1).unwrap();
    let moved = |offset: usize| {
        let mut altered = file.clone();
        altered[128 + 80 + 20..][..4].copy_from_slice(&(offset as u32).to_le_bytes());
        mend(&mut altered);
        try_to_run(&altered)
    };
    // The third layer's tensors may be in the way then.
    assert_ne!(moved(input.offset - lead), Err(named(1, LayerFault::Overlap)));
    assert_eq!(moved(input.offset - lead + 1), Err(named(1, LayerFault::Overlap)));
    assert_eq!(moved(input.offset), Err(named(1, LayerFault::Overlap)));
}

/// The distance of two windows, for layers of one window. On a 32-bit target, stride times channels of a file may not fit either.
#[test]
fn a_distance_that_is_never_gone_may_not_fit() {
    let shape = Shape::new(4, 1, 1);
    let stride = [1, usize::MAX / 3];
    let windows = int8::Windows { input: shape, output: shape, kernel: [1, 1], stride, padding: Default::default() };
    let (input, mut output) = ([3, -4, 5, -6], [0; 4]);
    int8::max_pool2d(&windows, &input, &mut output);
    assert_eq!(output, input);
    output = [0; 4];
    int8::average_pool2d(&windows, None, &input, &mut output);
    assert_eq!(output, input);
    // A weight of 1 where output and input are the same.
    let words = [[0x0000_0001, 0x0000_0100, 0x0001_0000, 0x0100_0000].as_slice(), &[1, 256, 1 << 16, 256 << 16]];
    for (layout, words, shift) in [(Layout::Plain, words[0], 1), (Layout::Paired, words[1], -2)] {
        let channels = [[0, 1 << 30, shift]; 4];
        let weights = int8::Weights { layout, words, channels: &channels };
        let expected = input.map(|x: i8| Multiplier { value: 1 << 30, shift }.apply_twice(x.into()) as i8);
        let mut scratch = [0; 64];
        int8::conv2d(&windows, 0, weights, Range::full(0), &mut scratch, &input, &mut output);
        assert_eq!(output, expected, "{layout:?}");
    }
}

fn named(index: u16, fault: LayerFault) -> ModelError {
    ModelError::Layer { index, fault }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn random_header_and_layer_fields_never_panic(
        changes in prop::collection::vec((0usize..128 + 80 * 14, any::<u8>()), 1..6),
    ) {
        for mut altered in models::all() {
            for &(at, byte) in &changes {
                let at = at % altered.len();
                altered[at] = byte;
            }
            mend(&mut altered);
            let _ = try_to_run(&altered);
        }
    }

    #[test]
    fn noise_is_not_a_model(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Model::parse(&bytes).is_err());
    }
}
