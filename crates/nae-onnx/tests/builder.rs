//! What the builder writes, read back; and what it refuses.
#![allow(clippy::unwrap_used)]

mod support;

use nae_core::energy::Energy;
use nae_onnx::autoencoder;
use nae_onnx::builder::*;
use nae_onnx::check::{Limits, check};
use nae_onnx::metadata::{
    Column, Columns, Features, Fit, Missing, ModelMetadata, Reading, RowWindow, Tiles, Transforms,
};
use nae_onnx::proto::{DataType, DimensionValue, ModelProto};
use prost::Message;

#[test]
fn digits_reads_back() {
    let bytes = support::digits(1, Energy::SquaredL2).unwrap();
    let model = ModelProto::decode(bytes.as_slice()).unwrap();
    assert_eq!(model.encode_to_vec(), bytes);
    assert_eq!(model.ir_version, Some(IR_VERSION));
    assert_eq!(model.opset_import[0].version, Some(OPSET_VERSION));
    let metadata = ModelMetadata::read(&model).unwrap().unwrap();
    assert_eq!(metadata, support::metadata(nae_core::Shape::new(1, 16, 16), 32, Energy::SquaredL2));

    let graph = model.graph.unwrap();
    let operators: Vec<_> = graph.node.iter().map(|n| n.op_type()).collect();
    assert_eq!(
        operators.join(" "),
        "Conv Relu Conv Relu MaxPool Conv Relu Conv Relu Conv ReduceL2 Div ConvTranspose Relu Resize \
         ConvTranspose Relu Resize ConvTranspose Relu ConvTranspose Sigmoid Sub Mul ReduceMean Flatten"
    );
    let shapes: Vec<(String, Vec<String>)> = graph
        .input
        .iter()
        .chain(&graph.output)
        .map(|v| {
            let shape = v.r#type.as_ref().unwrap().tensor_type.as_ref().unwrap().shape.as_ref().unwrap();
            let dims = shape.dim.iter().map(|d| match d.value.as_ref().unwrap() {
                DimensionValue::Size(n) => n.to_string(),
                DimensionValue::Symbol(s) => s.clone(),
            });
            (v.name().to_owned(), dims.collect())
        })
        .collect();
    let expected = [
        (autoencoder::IMAGE, vec!["N", "1", "16", "16"]),
        (autoencoder::RECONSTRUCTION, vec!["N", "1", "16", "16"]),
        (autoencoder::ENERGY, vec!["N"]),
        (autoencoder::LATENT, vec!["N", "32"]),
    ];
    for ((name, dims), (expected_name, expected_dims)) in shapes.iter().zip(expected) {
        assert_eq!(name, expected_name);
        assert_eq!(*dims, expected_dims);
    }
    let weight = graph.initializer.iter().find(|t| t.name() == "encoder.0.weight").unwrap();
    assert_eq!(weight.dims, [8, 1, 3, 3]);
    assert_eq!(weight.data_type, Some(DataType::Float as i32));
    let first = support::Numbers(1).weights(72, 9)[0];
    assert_eq!(weight.raw_data()[..4], first.to_le_bytes());
}

#[test]
fn unknown_fields_are_skipped() {
    let mut bytes = support::digits(1, Energy::L1).unwrap();
    let plain = ModelProto::decode(bytes.as_slice()).unwrap();
    // Field 25 (functions), and field 1000 as a varint.
    bytes.extend([0xca, 0x01, 0x02, 0x0a, 0x00, 0xc0, 0x3e, 0x05]);
    assert_eq!(ModelProto::decode(bytes.as_slice()).unwrap(), plain);
}

#[test]
fn ssim_has_no_energy_node() {
    let model = ModelProto::decode(support::digits(1, Energy::Ssim).unwrap().as_slice()).unwrap();
    let outputs: Vec<String> = model.graph.unwrap().output.iter().map(|o| o.name().to_owned()).collect();
    assert_eq!(outputs, [autoencoder::RECONSTRUCTION, autoencoder::LATENT]);
    assert_eq!(ModelMetadata::from_entries([]).unwrap(), None);
}

/// A graph with one 2-channel 4×4 input.
fn start() -> (GraphBuilder, Value) {
    let mut graph = GraphBuilder::new("g");
    let image = graph.image_input("image", [2, 4, 4]).unwrap();
    (graph, image)
}

#[test]
fn shapes_follow_the_specification() {
    let (mut g, x) = start();
    let w = [0.5; 2 * 3 * 3 * 2];
    let fixed = |g: &GraphBuilder, v| g.shape(v).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    // floor((4 + 1 + 1 - 3) / 2) + 1 = 2; floor((4 - 3) / 2) + 1 = 1
    let conv = Conv2d { stride: [2, 2], padding: [1, 0, 1, 0], ..Conv2d::new(2, [3, 3], &w, None) };
    let y = g.conv2d("a", x, &conv).unwrap();
    assert_eq!(fixed(&g, y), "N,2,2,1");
    // (4 - 1)·2 + 3 - 1 - 0 + 1 = 9; (4 - 1)·1 + 3 - 2 = 4
    let conv = ConvTranspose2d {
        stride: [2, 1],
        padding: [1, 1, 0, 1],
        output_padding: [1, 0],
        ..ConvTranspose2d::new(2, [3, 3], &w, None)
    };
    let y = g.conv_transpose2d("b", x, &conv).unwrap();
    assert_eq!(fixed(&g, y), "N,2,9,4");
    let w = [0.5; 2 * 3 * 3];
    let conv = Conv2d { dilation: [1, 1], groups: 2, ..Conv2d::new(2, [3, 3], &w, None) };
    let y = g.conv2d("c", x, &conv).unwrap();
    assert_eq!(fixed(&g, y), "N,2,2,2");
    let y = g.max_pool2d("d", x, &Pool2d { kernel: [3, 2], stride: [1, 2], padding: [1, 0, 0, 0] }).unwrap();
    assert_eq!(fixed(&g, y), "N,2,3,2");
    let y = g.flatten("e", y).unwrap();
    assert_eq!(fixed(&g, y), "N,12");
    let y = g.reshape("f", y, &[3, 4]).unwrap();
    assert_eq!(fixed(&g, y), "N,3,4");
    let y = g.mean_per_sample("h", y).unwrap();
    assert_eq!(fixed(&g, y), "N");
}

#[test]
fn impossible_graphs_are_refused() {
    let (mut g, x) = start();
    let w = [0.5; 18];
    let message = |r: Result<Value, BuildError>| r.unwrap_err().to_string();

    let e = message(g.conv2d("big", x, &Conv2d::new(1, [5, 5], &[0.0; 50], None)));
    assert_eq!(e, "big: Conv: the kernel spans 5 on an input of 4 with padding");
    let e = message(g.conv2d("few", x, &Conv2d::new(2, [3, 3], &w, None)));
    assert_eq!(e, "few: Conv needs 36 elements in its weight [2, 2, 3, 3], found 18");
    let e = message(g.conv2d("bias", x, &Conv2d::new(1, [3, 3], &w, Some(&[1.0, 2.0]))));
    assert_eq!(e, "bias: Conv needs 1 elements in its bias [1], found 2");
    let mut bad = w;
    bad[3] = f32::NAN;
    let e = message(g.conv2d("nan", x, &Conv2d::new(1, [3, 3], &bad, None)));
    assert_eq!(e, "nan: weight[3] is NaN, not a finite number");
    let e = message(g.conv2d("still", x, &Conv2d { stride: [0, 1], ..Conv2d::new(1, [3, 3], &w, None) }));
    assert_eq!(e, "still: Conv: a stride of zero");
    let e = message(g.conv2d("groups", x, &Conv2d { groups: 3, ..Conv2d::new(3, [3, 3], &w, None) }));
    assert_eq!(e, "groups: Conv: 3 groups do not divide 2 channels in and 3 out");
    let conv = ConvTranspose2d { padding: [3, 0, 3, 0], ..ConvTranspose2d::new(1, [3, 3], &w, None) };
    assert_eq!(
        message(g.conv_transpose2d("gone", x, &conv)),
        "gone: ConvTranspose: a padding of 6 leaves nothing of 6"
    );
    let conv = ConvTranspose2d { output_padding: [1, 0], ..ConvTranspose2d::new(1, [3, 3], &w, None) };
    let e = message(g.conv_transpose2d("pad", x, &conv));
    assert_eq!(e, "pad: ConvTranspose: an output padding of 1 with a stride of 1");
    let e = message(g.gemm("dense", x, &Gemm { features: 1, weight: &w, bias: None, transposed: false }));
    assert_eq!(e, "dense: Gemm takes [N, features]; flatten images first, found [N, 2, 4, 4]");
    let pool = Pool2d { kernel: [2, 2], stride: [2, 2], padding: [2, 0, 0, 0] };
    assert_eq!(message(g.max_pool2d("pool", x, &pool)), "pool: MaxPool: a padding of 2 on a window of 2");
    let e = message(g.resize_nearest("ratio", x, [8, 6]));
    assert_eq!(e, "ratio: Resize: 6 is not a multiple of 4; align_corners takes any size");
    let e = message(g.resize_bilinear_align_corners("nothing", x, [0, 4]));
    assert_eq!(e, "nothing: Resize: no scale takes 4 to 0");
    let e = message(g.reshape("shape", x, &[3, 5]));
    assert_eq!(e, "shape: Reshape: 32 elements a sample do not make [3, 5]");
    assert_eq!(
        message(g.relu("image", x)),
        "the name `image` is taken: names of nodes and values are unique in a graph"
    );
    assert_eq!(message(g.relu("", x)), "an empty name was given to a value");
    let y = g.flatten("flat", x).unwrap();
    let e = message(g.sub("difference", x, y));
    assert_eq!(e, "difference: Sub: operands [N, 2, 4, 4] and [N, 32]");
    assert!(matches!(
        message(g.input("zero", &[Dim::Batch, Dim::Fixed(0)])).as_str(),
        "zero: input: an extent is zero"
    ));
    let (mut other, _) = start();
    for i in 0..9 {
        other.relu(&format!("r{i}"), x).unwrap();
    }
    let foreign = other.relu("last", x).unwrap();
    assert_eq!(message(g.relu("lost", foreign)), "lost: an operand is not a value of this graph");

    assert_eq!(GraphBuilder::new("empty").finish().unwrap_err().to_string(), "the graph has no input");
    assert_eq!(start().0.finish().unwrap_err().to_string(), "the graph has no output");
}

#[test]
fn impossible_group_normalisations_are_refused() {
    let (mut g, x) = start();
    let message = |r: Result<Value, BuildError>| r.unwrap_err().to_string();
    let norm = GroupNorm { groups: 3, scale: &[1.0; 2], shift: &[0.0; 2], epsilon: 1e-5 };
    let e = message(g.group_norm("norm", x, &norm));
    assert_eq!(e, "norm: group normalization: 3 groups do not divide 2 channels");
    let e = message(g.group_norm("norm0", x, &GroupNorm { groups: 1, epsilon: 0.0, ..norm }));
    assert_eq!(e, "norm0: group normalization: an epsilon of 0");
    let norm = GroupNorm { groups: 1, scale: &[1.0], shift: &[0.0; 2], epsilon: 1e-5 };
    let e = message(g.group_norm("norm1", x, &norm));
    assert_eq!(e, "norm1: group normalization needs 2 elements in its scale [2, 1, 1], found 1");
}

/// Group normalization from its operators is that of its formula, and passes the check.
#[test]
fn group_normalisation_is_its_formula() {
    let mut graph = GraphBuilder::new("g");
    let x = graph.image_input("image", [6, 2, 2]).unwrap();
    let scale: Vec<f32> = (1..=6).map(|c| c as f32 * 0.5).collect();
    let shift: Vec<f32> = (1..=6).map(|c| c as f32 - 3.0).collect();
    let norm = GroupNorm { groups: 2, scale: &scale, shift: &shift, epsilon: 0.25 };
    let y = graph.group_norm("norm", x, &norm).unwrap();
    let y = graph.add("twice", y, y).unwrap();
    graph.output("y", y).unwrap();
    let checked = check(&graph.finish_bytes().unwrap(), &Limits::default()).unwrap();
    let mut numbers = support::Numbers(3);
    let image: Vec<f32> = (0..24).map(|_| numbers.unit()).collect();
    let found = support::reference::run(&checked.graph, &image).remove(0).1;
    for (i, found) in found.into_iter().enumerate() {
        let group: Vec<f64> = image[i / 12 * 12..][..12].iter().map(|&v| f64::from(v)).collect();
        let mean = group.iter().sum::<f64>() / 12.0;
        let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 12.0;
        let (scale, shift) = (f64::from(scale[i / 4]), f64::from(shift[i / 4]));
        let expected = 2.0 * ((f64::from(image[i]) - mean) / (variance + 0.25).sqrt() * scale + shift);
        assert!((found - expected).abs() < 1e-12, "{i}: {found} {expected}");
    }
}

#[test]
fn an_input_or_output_can_be_an_output() {
    let (mut g, x) = start();
    let y = g.relu("y", x).unwrap();
    g.output("same", x).unwrap();
    g.output("first", y).unwrap();
    g.output("second", y).unwrap();
    let graph = g.finish().unwrap().graph.unwrap();
    let nodes: Vec<_> = graph.node.iter().map(|n| format!("{}->{}", n.input[0], n.output[0])).collect();
    assert_eq!(nodes, ["image->first", "image->same", "first->second"]);
}

#[test]
fn columns_of_a_table_travel_in_the_metadata() {
    let column = |name: &str, center| Column::number(name, center, 0.1 + 0.2, 4.5);
    let plain = vec![column("a \"b\", c", -1e-300), column("ü", 1.0 / 3.0)];
    let category = Column { reading: Reading::Is("\"x\", y".to_owned()), ..column("ü", 0.5) };
    let knee = Column { knee: Some(3.0), ..column("a", 0.0) };
    let mut metadata = support::metadata(nae_core::Shape::new(1, 2, 1), 2, Energy::SquaredL2);
    let read = |entries: &[(String, String)]| {
        ModelMetadata::from_entries(entries.iter().map(|(k, v)| (k.as_str(), v.as_str())))
    };
    // Files of tables that need neither are what they were before there were knees and readings.
    metadata.columns = Some(Columns::new(plain, Missing::Fill).unwrap());
    assert_eq!(read(&metadata.to_entries()).unwrap(), Some(metadata.clone()));
    assert!(!metadata.to_entries().iter().any(|(key, _)| key.ends_with("knee") || key.ends_with("readings")));
    let twice = metadata.to_entries().into_iter().map(|(key, value)| {
        let value = if key == "nae.table.columns" { "[\"a\", \"a\"]".to_owned() } else { value };
        (key, value)
    });
    let message = read(&twice.collect::<Vec<_>>()).unwrap_err().to_string();
    assert!(message.contains("nae.table.columns") && message.contains("two columns are called"), "{message}");
    metadata.columns = Some(Columns::new(vec![category, knee], Missing::Fill).unwrap());
    let entries = metadata.to_entries();
    assert_eq!(read(&entries).unwrap(), Some(metadata));
    for (key, value, named) in [
        ("nae.table.knee", Some("1"), "as many as the input's values, 2, found 1"),
        ("nae.table.knee", Some("-1 3"), "at least 0"),
        ("nae.table.readings", Some("[\"number\"]"), "as many as the input's values, 2, found 1"),
        ("nae.table.readings", Some("[\"number\", \"colour\"]"), "a JSON array of"),
        ("nae.table.columns", Some("[\"a\"]"), "as many as the input's values, 2, found 1"),
        ("nae.table.columns", Some("a b"), "a JSON array of names"),
        ("nae.table.mean", Some("1 x"), "numbers separated by spaces"),
        ("nae.table.deviation", Some("1 0"), "a positive scale"),
        ("nae.table.deviation", None, "missing"),
        ("nae.table.span", Some("1"), "as many as the input's values, 2, found 1"),
        ("nae.table.missing", Some("median"), "refuse or fill"),
    ] {
        let mut damaged = entries.clone();
        damaged.retain(|(k, _)| k != key || value.is_some());
        if let (Some(entry), Some(value)) = (damaged.iter_mut().find(|(k, _)| k == key), value) {
            entry.1 = value.to_owned();
        }
        let message = read(&damaged).unwrap_err().to_string();
        assert!(message.contains(key) && message.contains(named), "{message}");
    }
}

#[test]
fn parts_travel_in_the_metadata() {
    let tiled = {
        let mut metadata = support::metadata(nae_core::Shape::new(3, 16, 12), 2, Energy::SquaredL2);
        metadata.tiles = Some(Tiles { stride: 12, top_k: 3 });
        metadata
    };
    let transformed = {
        let mut metadata = support::metadata(nae_core::Shape::new(3, 16, 12), 2, Energy::SquaredL2);
        metadata.transforms = Transforms { crop: Some(140), fit: Fit::Pad, invert: true };
        metadata
    };
    let windows = {
        let mut metadata = support::metadata(nae_core::Shape::new(1, 5, 1), 2, Energy::SquaredL2);
        let column = Column::number("a", 0.0, 1.0, 4.0);
        metadata.columns = Some(Columns::new(vec![column], Missing::Refuse).unwrap());
        metadata.window = Some(RowWindow { rows: 5, stride: 2 });
        metadata
    };
    let features = {
        let mut metadata = support::metadata(nae_core::Shape::new(3, 16, 12), 2, Energy::SquaredL2);
        metadata.features = Some(Features { components: 8, rows: 4, columns: 3, top_k: 2 });
        metadata
    };
    let read = |entries: &[(String, String)]| {
        ModelMetadata::from_entries(entries.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    };
    for (entry, expected) in
        [(("nae.energy", "ssim"), "a place has one pixel"), (("nae.tiles.stride", "4"), "features are of whole images")]
    {
        let mut entries = features.to_entries();
        entries.retain(|(key, _)| key != entry.0);
        entries.extend([entry, ("nae.tiles.top_k", "1")].map(|(key, value)| (key.to_owned(), value.to_owned())));
        let said = read(&entries).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
    let entries = transformed.to_entries();
    assert_eq!(read(&entries).unwrap().as_ref(), Some(&transformed));
    for (key, value) in
        [("nae.preprocessing.crop", "0"), ("nae.preprocessing.fit", "squeeze"), ("nae.preprocessing.invert", "yes")]
    {
        let mut entries = entries.clone();
        entries.iter_mut().find(|(own, _)| own == key).unwrap().1 = value.to_owned();
        let said = read(&entries).unwrap_err().to_string();
        assert!(said.contains(key) && said.contains(value), "{said}");
    }
    for (metadata, key, values) in [
        (&tiled, "nae.tiles.stride", ["0", "13", "x"]),
        (&tiled, "nae.tiles.top_k", ["0", "-1", "1e9"]),
        (&windows, "nae.table.window", ["0", "4", "70000"]),
        (&windows, "nae.table.window_stride", ["0", "", "70000"]),
        (&features, "nae.features.components", ["0", "x", "70000"]),
        (&features, "nae.features.rows", ["0", "-1", "70000"]),
        (&features, "nae.features.top_k", ["0", "", "1.5"]),
    ] {
        let entries = metadata.to_entries();
        assert_eq!(read(&entries).unwrap().as_ref(), Some(metadata));
        let at = entries.iter().position(|(own, _)| own == key).unwrap();
        for value in values {
            let mut entries = entries.clone();
            entries[at].1 = value.to_owned();
            let said = read(&entries).unwrap_err().to_string();
            assert!(
                said.contains(key) || said.contains("nae.tiles") || said.contains("nae.table"),
                "{key} {value}: {said}"
            );
        }
        let mut entries = entries;
        entries.remove(at);
        assert!(read(&entries).is_err(), "{key}");
    }
}
