//! The digits model as ONNX Runtime's static quantizer writes it (made by `tests/python/qdq_vectors.py`), lowered and
//! run, against what ONNX Runtime computes, and against the model it was made of.
#![allow(clippy::unwrap_used)]

use nae_core::engine::Engine;
use nae_core::model::Model;
use nae_onnx::check::{CheckError, Limits, check};
use nae_onnx::lower::to_nae;
use nae_onnx::proto::ModelProto;
use prost::Message;

const DIGITS: &[u8] = include_bytes!("../../../models/digits/digits.onnx");
const INT8: &[u8] = include_bytes!("../../../tests/vectors/qdq/digits-int8.onnx");
const UINT8: &[u8] = include_bytes!("../../../tests/vectors/qdq/digits-uint8.onnx");
const INT8_SAMPLES: &[u8] = include_bytes!("../../../tests/vectors/qdq/digits-int8.bin");
const UINT8_SAMPLES: &[u8] = include_bytes!("../../../tests/vectors/qdq/digits-uint8.bin");

/// Images and reconstructions, in turn.
fn samples(bytes: &[u8]) -> Vec<[f32; 256]> {
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    values.as_chunks().0.to_vec()
}

fn reconstruct(onnx: &[u8], image: &[f32]) -> (Vec<f32>, f32) {
    let file = to_nae(onnx).unwrap();
    let words: Vec<u32> = file.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect();
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let output = Engine::new(&model).unwrap().run(image, &mut arena).unwrap();
    (output.reconstruction.to_vec(), output.score.energy)
}

#[test]
fn close_to_onnx_runtime_and_to_the_model_before() {
    for (name, onnx, vectors) in [("int8", INT8, INT8_SAMPLES), ("uint8", UINT8, UINT8_SAMPLES)] {
        for pair in samples(vectors).as_chunks::<2>().0 {
            let [image, expected] = pair;
            let (found, energy) = reconstruct(onnx, image);
            let errors = || found.iter().zip(expected).map(|(a, b)| (a - b).abs());
            let (most, mean) = (errors().fold(0.0, f32::max), errors().sum::<f32>() / 256.0);
            // What rounding activations to 8 bits does, which is left out here.
            assert!(most < 0.1 && mean < 0.006, "{name}: {most} {mean}");
            let (_, before) = reconstruct(DIGITS, image);
            assert!((energy - before).abs() < 0.15 * before, "{name}: {energy}, {before} before");
        }
    }
}

/// The quantizer leaves out every `Relu`; without them the model is another.
#[test]
fn activations_that_were_left_out_are_there() {
    let nodes = |onnx: &[u8]| ModelProto::decode(onnx).unwrap().graph.unwrap().node;
    let count = |onnx: &[u8]| nodes(onnx).iter().filter(|node| node.op_type() == "Relu").count();
    assert_eq!((count(DIGITS), count(INT8)), (7, 0));
    let file = to_nae(INT8).unwrap();
    assert_eq!(
        Model::parse(&file).unwrap().layer_count(),
        Model::parse(&to_nae(DIGITS).unwrap()).unwrap().layer_count()
    );
}

fn altered(change: impl FnOnce(&mut ModelProto)) -> CheckError {
    let mut model = ModelProto::decode(INT8).unwrap();
    change(&mut model);
    check(&model.encode_to_vec(), &Limits::default()).err().unwrap()
}

#[test]
fn what_cannot_be_folded_is_refused() {
    // An integer where floats are needed.
    let error = altered(|model| {
        let nodes = &mut model.graph.as_mut().unwrap().node;
        let quantized = nodes.iter().position(|node| node.op_type() == "QuantizeLinear").unwrap();
        let name = nodes[quantized].output[0].clone();
        let conv = nodes.iter_mut().find(|node| node.op_type() == "Conv").unwrap();
        conv.input[0] = name;
    });
    assert!(error.to_string().contains("quantized"), "{error}");
    // Another scale on the way back.
    let error = altered(|model| {
        let nodes = &mut model.graph.as_mut().unwrap().node;
        let image = |node: &&mut nae_onnx::proto::NodeProto| {
            node.op_type() == "DequantizeLinear" && node.input[0].starts_with("image_")
        };
        nodes.iter_mut().find(image).unwrap().input[1] = "encoder.3_scale".to_owned();
    });
    assert!(error.to_string().contains("as quantized"), "{error}");
    // A scale of zero.
    let error = altered(|model| {
        let constants = &mut model.graph.as_mut().unwrap().initializer;
        let scale = constants.iter_mut().find(|constant| constant.name() == "image_scale").unwrap();
        (scale.raw_data, scale.float_data) = (None, vec![0.0]);
    });
    assert!(error.to_string().contains("a positive number"), "{error}");
    // A zero point of 32 bits.
    let error = altered(|model| {
        let constants = &mut model.graph.as_mut().unwrap().initializer;
        let zero = constants.iter_mut().find(|constant| constant.name() == "image_zero_point").unwrap();
        (zero.data_type, zero.raw_data, zero.int32_data) = (Some(6), None, vec![0]);
    });
    assert!(error.to_string().contains("int8 or uint8"), "{error}");
    // Weights without one scale for each channel.
    let error = altered(|model| {
        let constants = &mut model.graph.as_mut().unwrap().initializer;
        let scale = constants.iter_mut().find(|constant| constant.name() == "encoder.2.weight_scale").unwrap();
        (scale.dims, scale.raw_data, scale.float_data) = (vec![3], None, vec![1.0; 3]);
    });
    assert!(error.to_string().contains("as many as an axis"), "{error}");
}

#[test]
fn altered_files_do_not_panic() {
    for at in (0..INT8.len()).step_by(53) {
        for change in [0x01, 0x80, 0xFF] {
            let mut bytes = INT8.to_vec();
            bytes[at] ^= change;
            let _ = check(&bytes, &Limits::default());
        }
    }
}
