//! Models that no backend may see, each refused with the node or name that is wrong.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use nae_core::energy::Energy;
use nae_onnx::builder::GraphBuilder;
use nae_onnx::check::{CheckError, Limits, check};
use nae_onnx::lower::to_nae;
use nae_onnx::metadata::{MetadataError, ModelMetadata};
use nae_onnx::proto::{
    AttributeProto, DataType, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};
use proptest::prelude::*;
use prost::Message;

fn digits() -> ModelProto {
    ModelProto::decode(support::digits(1, Energy::SquaredL2).unwrap().as_slice()).unwrap()
}

/// The error after a change to the digits model.
fn after(change: impl FnOnce(&mut ModelProto)) -> String {
    let mut model = digits();
    change(&mut model);
    check(&model.encode_to_vec(), &Limits::default()).unwrap_err().to_string()
}

fn graph(model: &mut ModelProto) -> &mut GraphProto {
    model.graph.as_mut().unwrap()
}

fn named<'a>(model: &'a mut ModelProto, name: &str) -> &'a mut NodeProto {
    graph(model).node.iter_mut().find(|n| n.name() == name).unwrap()
}

fn set(node: &mut NodeProto, attribute: AttributeProto) {
    node.attribute.retain(|a| a.name() != attribute.name());
    node.attribute.push(attribute);
}

#[test]
fn the_digits_model_passes() {
    let model = check(&digits().encode_to_vec(), &Limits::default()).unwrap();
    assert_eq!(model.opset, 17);
    assert_eq!(model.graph.nodes.len(), 26);
    assert_eq!(model.graph.fixed_batch, None);
    // Without the two lists of four scales by which images are resized, and the numbers of the energy.
    let weights = [(8, 9, 8), (16, 72, 16), (32, 144, 32), (128, 512, 128), (32, 128, 32)].map(|(o, i, b)| o * i + b);
    let decoder = [(32, 288, 32), (16, 288, 16), (8, 144, 8), (1, 72, 1)].map(|(o, i, b)| o * i + b);
    assert_eq!(model.graph.parameters(), weights.iter().chain(&decoder).sum::<usize>());
}

#[test]
fn bad_attributes_are_refused() {
    for (node, attribute, message) in [
        (
            "encoder.0",
            AttributeProto::ints("strides", [0, 1]),
            "node `encoder.0` (Conv): strides: expected 2 integers from 1 to 1024, found [0, 1]",
        ),
        (
            "encoder.0",
            AttributeProto::ints("strides", [1]),
            "node `encoder.0` (Conv): strides: expected 2 integers from 1 to 1024, found [1]",
        ),
        (
            "encoder.0",
            AttributeProto::ints("pads", [-1, 0, 0, 0]),
            "node `encoder.0` (Conv): pads: expected 4 integers from 0 to 1024, found [-1, 0, 0, 0]",
        ),
        (
            "encoder.0",
            AttributeProto::ints("pads", [0, 3, 0, 0]),
            "node `encoder.0` (Conv): pads: expected less than the kernel, found 3 on a kernel that spans 3",
        ),
        (
            "encoder.0",
            AttributeProto::ints("kernel_shape", [i64::MAX, 3]),
            "node `encoder.0` (Conv): kernel_shape: expected 2 integers from 1 to 1024, found [9223372036854775807, 3]",
        ),
        (
            "encoder.0",
            AttributeProto::ints("kernel_shape", [2, 3]),
            "node `encoder.0` (Conv): weight: expected [8, 1, 2, 3], found [8, 1, 3, 3]",
        ),
        (
            "encoder.0",
            AttributeProto::ints("dilations", [9, 1]),
            "node `encoder.0` (Conv): kernel: expected to fit its input, found [3, 3] on 16×16",
        ),
        (
            "encoder.0",
            AttributeProto::int("group", 0),
            "node `encoder.0` (Conv): group: expected a divisor of 1 and 8 channels, found 0",
        ),
        (
            "encoder.0",
            AttributeProto::float("group", 1.0),
            "node `encoder.0` (Conv): group: expected Int, found Some(Float)",
        ),
        (
            "encoder.0",
            AttributeProto::int("surprise", 1),
            "node `encoder.0` (Conv): attributes: expected auto_pad, kernel_shape, strides, pads, dilations, group, found `surprise`",
        ),
        (
            "encoder.pool",
            AttributeProto::int("ceil_mode", 2),
            "node `encoder.pool` (MaxPool): ceil_mode: expected 0 or 1, found 2",
        ),
        (
            "decoder.up.0",
            AttributeProto::string("mode", "cubic"),
            "node `decoder.up.0` (Resize): mode: expected linear with align_corners or half_pixel, nearest with asymmetric and floor, or nearest by a whole number, found cubic, align_corners, 5×5 of 3×3",
        ),
        (
            "energy",
            AttributeProto::ints("axes", [0]),
            "node `energy` (ReduceMean): axes: expected some, the batch not among them, found [0]",
        ),
        (
            "energy",
            AttributeProto::ints("axes", [1, 4]),
            "node `energy` (ReduceMean): axes: expected each once, within 4 axes, found 4",
        ),
        (
            "latent.flat",
            AttributeProto::int("axis", 0),
            "node `latent.flat` (Flatten): axis: expected 1, after the batch, found 0 on [N, 32, 1, 1]",
        ),
    ] {
        assert_eq!(after(|m| set(named(m, node), attribute)), message);
    }
    let twice = after(|m| {
        let node = named(m, "encoder.0");
        node.attribute.push(node.attribute[0].clone());
    });
    assert_eq!(twice, "node `encoder.0` (Conv): attributes: expected each once, found `kernel_shape` twice");
}

#[test]
fn bad_constants_are_refused() {
    let weight = |change: fn(&mut nae_onnx::proto::TensorProto)| {
        after(|m| change(graph(m).initializer.iter_mut().find(|t| t.name() == "encoder.0.weight").unwrap()))
    };
    let e = weight(|t| t.raw_data.as_mut().unwrap()[4..8].copy_from_slice(&f32::NAN.to_le_bytes()));
    assert_eq!(e, "constant `encoder.0.weight`: expected finite numbers, found NaN at 1");
    let e = weight(|t| t.raw_data.as_mut().unwrap().truncate(280));
    assert_eq!(e, "constant `encoder.0.weight`: expected 288 bytes, as [8, 1, 3, 3] says, found 280");
    let e = weight(|t| t.dims = vec![-8, 1, 3, 3]);
    assert_eq!(e, "constant `encoder.0.weight`: expected extents of zero and more, found -8");
    let e = weight(|t| t.dims = vec![i64::MAX, i64::MAX, 3, 3]);
    assert_eq!(e, "constant `encoder.0.weight`: 18446744073709551615 elements, more than the limit of 67108864");
    let e = weight(|t| t.data_type = Some(10));
    assert_eq!(
        e,
        "constant `encoder.0.weight`: expected elements of type Float, Int64, or Int8, Uint8 and Int32 where they are quantized, found Float16"
    );
    let e = weight(|t| t.data_location = Some(1));
    assert_eq!(
        e,
        "constant `encoder.0.weight`: expected data in the model's own file, found external data: export with \
         `external_data=False`, or `onnx.save(onnx.load(FILE), NEW_FILE)` in Python"
    );
    let e = weight(|t| t.dims = vec![8, 9]);
    assert_eq!(e, "node `encoder.0` (Conv): weight: expected constant floats with 4 axes, found [8, 9]");
    let e = weight(|t| t.raw_data = None);
    assert_eq!(e, "constant `encoder.0.weight`: expected 72 elements, as [8, 1, 3, 3] says, found 0");
    // Of two fields, runtimes do not agree which one counts.
    let two = "constant `encoder.0.weight`: expected one field of data, found raw_data and float_data";
    let e = weight(|t| t.float_data = vec![0.9; 72]);
    assert_eq!(e, two);
    let e = weight(|t| {
        t.raw_data.as_mut().unwrap()[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
        t.float_data = vec![0.9; 72];
    });
    assert_eq!(e, two);
    let e = weight(|t| (t.dims, t.raw_data, t.float_data) = (vec![1], Some(vec![0; 40_000]), vec![0.9]));
    assert_eq!(e, two);
    let e = weight(|t| (t.raw_data, t.int64_data) = (None, vec![1; 72]));
    assert_eq!(
        e,
        "constant `encoder.0.weight`: expected data of type Float in float_data or raw_data, found int64_data"
    );
}

#[test]
fn sizes_are_bounded() {
    // A resize by a million keeps some runtimes busy for very long.
    let e = after(|m| {
        let scales = graph(m).initializer.iter_mut().find(|t| t.name() == "decoder.up.0.scales").unwrap();
        scales.raw_data = Some([1.0f32, 1.0, 1e6, 1e6].iter().flat_map(|v| v.to_le_bytes()).collect());
    });
    assert_eq!(e, "node `decoder.up.0`: 288000000000000 elements, more than the limit of 67108864");
    let limits = Limits { operations: 100_000, ..Limits::default() };
    let e = check(&digits().encode_to_vec(), &limits).unwrap_err();
    assert!(matches!(e, CheckError::Limit { what: "operations", limit: 100_000, .. }), "{e}");
    let live = check(&digits().encode_to_vec(), &Limits::default()).unwrap().graph.live_elements();
    let at_most = |live_elements| check(&digits().encode_to_vec(), &Limits { live_elements, ..Limits::default() });
    assert!(at_most(live).is_ok());
    let e = at_most(live - 1).unwrap_err().to_string();
    assert_eq!(e, format!("the model: {live} elements in memory at one time, more than the limit of {}", live - 1));
    let limits = Limits { bytes: 1000, ..Limits::default() };
    let e = check(&digits().encode_to_vec(), &limits).unwrap_err();
    assert!(matches!(e, CheckError::Limit { what: "bytes", .. }), "{e}");
    // A hundred thousand empty metadata entries: 300 kB here, 30 times that decoded.
    let e = after(|m| m.metadata_props = vec![StringStringEntryProto::default(); 300_000]);
    assert_eq!(e, "the model: 262145 messages, more than the limit of 262144");
}

/// Runtimes take time that grows faster than the square of the number of nodes.
#[test]
fn nodes_are_bounded() {
    let chain = |nodes: usize| {
        let mut g = GraphBuilder::new("chain");
        let mut x = g.image_input("x", [1, 2, 2]).unwrap();
        for index in 0..nodes {
            x = g.relu(&format!("relu{index}"), x).unwrap();
        }
        g.output("y", x).unwrap();
        check(&g.finish_bytes().unwrap(), &Limits::default())
    };
    assert!(chain(2048).is_ok());
    assert_eq!(chain(5000).unwrap_err().to_string(), "the model: 2049 nodes, more than the limit of 2048");
}

/// Comparing each with all others took 15 seconds here, and over a minute with longer names.
#[test]
fn many_outputs_are_checked_quickly() {
    let mut model = digits();
    let graph = graph(&mut model);
    let from = graph.output[0].name().to_owned();
    let prefix = "output".repeat(200);
    for number in 0..30_000 {
        let name = format!("{prefix}{number}");
        let (op_type, output) = (Some("Identity".to_owned()), vec![name.clone()]);
        graph.node.push(NodeProto { op_type, output, input: vec![from.clone()], ..NodeProto::default() });
        graph.output.push(ValueInfoProto { name: Some(name), ..ValueInfoProto::default() });
    }
    let (outputs, bytes, begun) = (graph.output.len(), model.encode_to_vec(), Instant::now());
    let checked = check(&bytes, &Limits::default()).unwrap();
    assert_eq!(checked.graph.outputs.len(), outputs);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A graph of `nodes` that compute constants, before one that computes the output; within 2¹⁶ elements of constants.
fn of_constants(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> Result<(), CheckError> {
    let mut g = GraphBuilder::new("constants");
    let x = g.image_input("x", [1, 2, 2]).unwrap();
    let y = g.relu("last", x).unwrap();
    g.output("y", y).unwrap();
    let mut model = g.finish().unwrap();
    let graph = graph(&mut model);
    graph.node.splice(0..0, nodes);
    graph.initializer = constants;
    check(&model.encode_to_vec(), &Limits { constants: 1 << 16, ..Limits::default() }).map(drop)
}

fn repeated(count: usize, operator: &str, inputs: [&str; 2]) -> Vec<NodeProto> {
    let node = |index| NodeProto {
        input: inputs.map(str::to_owned).to_vec(),
        output: vec![format!("c{index}")],
        op_type: Some(operator.to_owned()),
        ..NodeProto::default()
    };
    (0..count).map(node).collect()
}

/// Each node would make a copy of the constant: a file of a megabyte asked for eight gigabytes.
#[test]
fn constants_that_are_computed_are_bounded() {
    let integers = |name: &str, dims: &[i64]| TensorProto {
        name: Some(name.into()),
        dims: dims.to_vec(),
        data_type: Some(DataType::Int8 as i32),
        raw_data: Some(vec![1; dims.iter().product::<i64>() as usize]),
        ..TensorProto::default()
    };
    let scale = TensorProto::floats("scale", &[], &[0.5]);
    let dequantized = |count| {
        let nodes = repeated(count, "DequantizeLinear", ["weights", "scale"]);
        of_constants(nodes, vec![integers("weights", &[1 << 12]), scale.clone()])
    };
    assert_eq!(dequantized(14), Ok(()));
    let e = dequantized(100).unwrap_err();
    assert!(matches!(e, CheckError::Limit { limit: 65_536, .. }), "{e}");
    assert_eq!(e.to_string(), "node `c14`: 65552 elements of constants, more than the limit of 65536");

    // No element, but many scales, which are kept.
    let scales = TensorProto::floats("scale", &[1 << 12], &[0.5; 1 << 12]);
    let mut nodes = repeated(100, "DequantizeLinear", ["weights", "scale"]);
    nodes.iter_mut().for_each(|node| node.attribute = vec![AttributeProto::int("axis", 0)]);
    let e = of_constants(nodes, vec![integers("weights", &[1 << 12, 0]), scales]).unwrap_err();
    assert!(matches!(e, CheckError::Limit { what: "elements of constants", .. }), "{e}");

    let lists = vec![TensorProto::int64s("list", &[1; 1 << 12]), TensorProto::int64s("shape", &[-1])];
    let e = of_constants(repeated(100, "Reshape", ["list", "shape"]), lists).unwrap_err();
    assert_eq!(e.to_string(), "node `c0`: 4096 elements of a list of integers, more than the limit of 64");

    let e = of_constants(vec![], vec![integers("weights", &[(1 << 16) + 1])]).unwrap_err();
    assert_eq!(e.to_string(), "constant `weights`: 65537 elements of constants, more than the limit of 65536");
}

#[test]
fn graphs_must_hold_together() {
    assert_eq!(after(|m| named(m, "encoder.1").name = Some("encoder.0".into())), "the name `encoder.0` comes twice");
    let e = after(|m| named(m, "encoder.1").output[0] = "encoder.0".into());
    assert_eq!(e, "the name `encoder.0` comes twice");
    let e = after(|m| named(m, "encoder.1").input[0] = "nobody\u{1b}[2J".into());
    assert_eq!(e, "`nobody\\u{1b}[2J`, used by node `encoder.1`, is made by no input, constant or earlier node");
    let e = after(|m| graph(m).node.reverse());
    assert!(e.ends_with("is made by no input, constant or earlier node"), "{e}");
    let e = after(|m| named(m, "encoder.1").op_type = Some("Loop".into()));
    assert_eq!(e, "node `encoder.1`: operator Loop is not supported; docs/scoring.md lists those that are");
    let e = after(|m| named(m, "encoder.1").domain = Some("com.example".into()));
    assert_eq!(
        e,
        "node `encoder.1`: operator Conv of com.example is not supported; docs/scoring.md lists those that are"
    );
    let e = after(|m| named(m, "encoder.pool").output.push("indices".into()));
    assert_eq!(e, "node `encoder.pool` (MaxPool): outputs: expected one, found 2");
    let e = after(|m| named(m, "encoder.1").input.push("encoder.0".into()));
    assert_eq!(e, "node `encoder.1` (Conv): inputs: expected at most 3, found 4");
    let e = after(|m| named(m, "encoder.1").input[0] = "image".into());
    assert_eq!(e, "node `encoder.1` (Conv): weight: expected [16, 1, 3, 3], found [16, 8, 3, 3]");
    let e = after(|m| graph(m).output.clear());
    assert_eq!(e, "the model: expected at least one output, found none");
    let e = after(|m| graph(m).input.clear());
    assert_eq!(e, "the model: expected one input of images, found none");
    let e = after(|m| m.opset_import[0].version = Some(7));
    let remedy = "export for one of them, in PyTorch with `opset_version=18`";
    assert_eq!(e, format!("the model: expected a standard operator set from 11 to 21, found 7: {remedy}"));
    assert_eq!(after(|m| m.graph = None), "the model: expected a graph, found none");
}

#[test]
fn metadata_errors_name_the_key() {
    let read = |key: &str, value: Option<&str>| {
        let mut model = digits();
        match value {
            Some(value) => {
                model.metadata_props.iter_mut().find(|e| e.key() == key).unwrap().value = Some(value.into());
            }
            None => model.metadata_props.retain(|e| e.key() != key),
        }
        ModelMetadata::read(&model).unwrap_err().to_string()
    };
    for (key, value, message) in [
        (
            "nae.format_version",
            Some("2"),
            "metadata `nae.format_version` must be 1, the format this program knows; a newer release may know this one, found 2",
        ),
        ("nae.format_version", None, "metadata `nae.format_version` is missing, expected 1"),
        ("nae.temperature", Some("0"), "metadata `nae.temperature` must be a positive number, found 0"),
        ("nae.temperature", Some("NaN"), "metadata `nae.temperature` must be a positive number, found NaN"),
        (
            "nae.latent.geometry",
            Some("torus"),
            "metadata `nae.latent.geometry` must be sphere or euclidean, found torus",
        ),
        (
            "nae.preprocessing.width",
            Some("0"),
            "metadata `nae.preprocessing.width` must be an integer from 1 to 65536, found 0",
        ),
        (
            "nae.preprocessing.channels",
            Some("0"),
            "metadata `nae.preprocessing.channels` must be an integer from 1 to 65536, found 0",
        ),
        (
            "nae.preprocessing.high",
            Some("0"),
            "metadata `nae.preprocessing.high` must be above nae.preprocessing.low, 0.0, found 0.0",
        ),
        (
            "nae.preprocessing.resize",
            Some("magic"),
            "metadata `nae.preprocessing.resize` must be nearest, box, bilinear, bilinear-align-corners, catmull-rom or lanczos3, found magic",
        ),
        (
            "nae.calibration.threshold",
            Some("0.398"),
            "metadata `nae.calibration.threshold` must be 0.397, as table and rate give it, found 0.398; the file was altered",
        ),
        (
            "nae.calibration.spacing",
            Some("dense"),
            "metadata `nae.calibration.spacing` must be \"tail\", or no such key, found dense",
        ),
        // A table of equal steps has another entry for this rate.
        (
            "nae.calibration.spacing",
            None,
            "metadata `nae.calibration.threshold` must be 0.39900002, as table and rate give it, found 0.397; the file was altered",
        ),
        ("nae.calibration.count", None, "metadata `nae.calibration.count` is missing, expected a positive integer"),
        (
            "nae.calibration.table",
            Some("1 2 x"),
            "metadata `nae.calibration.table` must be finite numbers separated by spaces, found number 3: \"x\"",
        ),
        (
            "nae.calibration.table",
            Some("1 2"),
            "metadata `nae.calibration.table` must be 256 numbers, as nae.calibration.count of 400 asks, found 2",
        ),
        (
            "nae.calibration.false_positive_rate",
            Some("0.001"),
            "metadata `nae.calibration.false_positive_rate` must be from 1/(n + 1) to 1, n being 400, found 0.001 (the false-positive rate is below 1/(n + 1): more ener…",
        ),
        ("nae.seed", Some("-1"), "metadata `nae.seed` must be an integer from 0 to 2^64 - 1, found -1"),
    ] {
        assert_eq!(read(key, value), message);
    }
    let twice = ModelMetadata::from_entries([("nae.seed", "1"), ("nae.seed", "1")]);
    assert_eq!(twice, Err(MetadataError::Duplicate { key: "nae.seed".into() }));
}

/// For p-values only, if no rate was requested.
#[test]
fn a_calibration_without_a_threshold_reads_back() {
    let calibration = nae_core::calibration::Calibration::from_sorted(&[0.125, 0.25, 0.5]).unwrap();
    let mut metadata = support::metadata(nae_core::Shape::new(1, 2, 3), 4, Energy::L1);
    metadata.contract = metadata.contract.with_p_values(calibration);
    let mut model = digits();
    metadata.replace_in(&mut model);
    assert_eq!(ModelMetadata::read(&model).unwrap(), Some(metadata));
    // The rate alone is not enough for a threshold.
    for key in ["nae.calibration.false_positive_rate", "nae.calibration.threshold"] {
        let mut model = digits();
        model.metadata_props.retain(|entry| entry.key() != key);
        let error = ModelMetadata::read(&model).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Altered and truncated files give an error or a model, and never a panic.
    #[test]
    fn altered_files_do_not_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in any::<prop::sample::Index>(),
        truncate in any::<bool>(),
        head in any::<bool>(),
    ) {
        let mut bytes = support::odd(1, Energy::L1).unwrap();
        // Most of the file is weights; what comes before and after them is more worth changing.
        let span = if head { bytes.len().min(3000) } else { bytes.len() };
        for (index, value) in changes {
            let at = index.index(span);
            bytes[at] = value;
        }
        if truncate {
            bytes.truncate(length.index(bytes.len()));
        }
        let _ = to_nae(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = to_nae(&bytes);
    }

    /// Every float survives the text of the metadata.
    #[test]
    fn calibrations_read_back(mut energies in prop::collection::vec(0.0f32..1e9, 20..300), tiny in 0u32..100) {
        energies.push(f32::from_bits(tiny));
        let calibration = nae_core::calibration::Calibration::from_energies(&mut energies).unwrap();
        let mut metadata = support::metadata(nae_core::Shape::new(1, 2, 3), 4, Energy::L1);
        metadata.contract = metadata.contract.with_calibration(calibration, 0.1).unwrap();
        let mut model = digits();
        metadata.replace_in(&mut model);
        prop_assert_eq!(ModelMetadata::read(&model).unwrap(), Some(metadata));
    }
}
