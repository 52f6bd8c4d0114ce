//! The front against arithmetic written out plainly: outputs of a small backbone, brought to one grid, averaged with
//! their neighbours, projected.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_features::{Backbone, BackboneError, Front, FrontError, Moments, Projection, per_place};
use nae_graph::{Dense, Graph, Op};
use nae_onnx::builder::{Conv2d, Dim, Gemm, GraphBuilder, Pool2d};
use nae_simd::{Options, Planes, Program, Size, Workspace};

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Numbers(u64);

impl Numbers {
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    }

    fn some(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| 2.0 * self.unit() - 1.0).collect()
    }
}

/// Images [3, 16, 16]; outputs `fine` [4, 16, 16], `middle` [5, 8, 8], `coarse` [2, 4, 4], and a vector.
fn backbone(side: usize) -> Vec<u8> {
    let mut numbers = Numbers(1);
    let mut graph = GraphBuilder::new("backbone");
    let image = graph.image_input("image", [3, side, side]).unwrap();
    let (weights, bias) = (numbers.some(4 * 3 * 9), numbers.some(4));
    let conv = Conv2d { padding: [1; 4], ..Conv2d::new(4, [3, 3], &weights, Some(&bias)) };
    let fine = graph.conv2d("fine.conv", image, &conv).unwrap();
    graph.output("fine", fine).unwrap();
    let half = graph.max_pool2d("half", fine, &Pool2d { kernel: [2; 2], stride: [2; 2], padding: [0; 4] }).unwrap();
    let weights = numbers.some(5 * 4);
    let middle = graph.conv2d("middle.conv", half, &Conv2d::new(5, [1, 1], &weights, None)).unwrap();
    let middle = graph.clip("middle.clip", middle, [0.0, 6.0]).unwrap();
    graph.output("middle", middle).unwrap();
    let weights = numbers.some(2 * 5 * 4);
    let coarse = Conv2d { stride: [2; 2], ..Conv2d::new(2, [2, 2], &weights, None) };
    let coarse = graph.conv2d("coarse.conv", middle, &coarse).unwrap();
    graph.output("coarse", coarse).unwrap();
    let flat = graph.flatten("flat", coarse).unwrap();
    let features = 2 * (side / 4) * (side / 4);
    let weights = numbers.some(3 * features);
    let vector = Gemm { features: 3, weight: &weights, bias: None, transposed: true };
    let vector = graph.gemm("vector.gemm", flat, &vector).unwrap();
    graph.output("vector", vector).unwrap();
    graph.finish_bytes().unwrap()
}

/// What a graph gives for an image: channels first.
fn run(graph: &Graph, image: &[f32]) -> Vec<f32> {
    let program = Program::compile(graph, &Options::scoring()).unwrap();
    let Shape { channels, height, width } = graph.input();
    let size = Size { h: height, w: width, c: channels };
    program.run(Planes::from_channels_first(&Workspace::default(), 1, size, image)).output.to_channels_first()
}

/// One output of the backbone, channels first.
fn output(name: &str, image: &[f32]) -> Vec<f64> {
    let onnx = backbone(16);
    let model = nae_onnx::check::check(&onnx, &nae_onnx::check::Limits::default()).unwrap();
    let (graph, _) = nae_onnx::lower::lower_features(&model, &[name]).unwrap();
    run(&graph, image).into_iter().map(f64::from).collect()
}

/// Bilinear, half-pixel centres, edges repeated.
fn enlarged(map: &[f64], side: usize, to: usize) -> Vec<f64> {
    let at = |y: f64, x: f64| {
        let clamp = |v: f64| v.clamp(0.0, side as f64 - 1.0);
        let (y, x) = (clamp(y), clamp(x));
        let (top, left) = (y.floor() as usize, x.floor() as usize);
        let (bottom, right) = ((top + 1).min(side - 1), (left + 1).min(side - 1));
        let (v, u) = (y - top as f64, x - left as f64);
        (1.0 - v) * ((1.0 - u) * map[top * side + left] + u * map[top * side + right])
            + v * ((1.0 - u) * map[bottom * side + left] + u * map[bottom * side + right])
    };
    let from = |i: usize| (i as f64 + 0.5) * side as f64 / to as f64 - 0.5;
    (0..to * to).map(|i| at(from(i / to), from(i % to))).collect()
}

/// The mean over the 3×3 places around each; at the border over those that are there.
fn averaged(map: &[f64], side: usize) -> Vec<f64> {
    (0..side * side)
        .map(|i| {
            let around = |v: usize| v.saturating_sub(1)..(v + 2).min(side);
            let values: Vec<f64> =
                around(i / side).flat_map(|y| around(i % side).map(move |x| map[y * side + x])).collect();
            values.iter().sum::<f64>() / values.len() as f64
        })
        .collect()
}

#[test]
fn features_are_those_of_all_outputs_on_one_grid() {
    let backbone = Backbone::parse(&backbone(16), &[]).unwrap();
    assert_eq!(backbone.outputs(), ["fine", "middle", "coarse"], "the vector is no map");
    assert_eq!((backbone.grid(), backbone.features()), ([8, 8], 11));
    let image = Numbers(5).some(3 * 256);
    let found = run(&backbone.projected(&Projection::identity(11)), &image);
    let mut expected = Vec::new();
    for channel in output("fine", &image).chunks(256) {
        let mean = |i: usize| {
            let (y, x) = (i / 8 * 2, i % 8 * 2);
            (channel[y * 16 + x] + channel[y * 16 + x + 1] + channel[y * 16 + 16 + x] + channel[y * 16 + 17 + x]) / 4.0
        };
        expected.extend(averaged(&(0..64).map(mean).collect::<Vec<_>>(), 8));
    }
    output("middle", &image).chunks(64).for_each(|channel| expected.extend(averaged(channel, 8)));
    output("coarse", &image).chunks(16).for_each(|channel| expected.extend(averaged(&enlarged(channel, 4, 8), 8)));
    assert_eq!(found.len(), expected.len());
    for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!((f64::from(*found) - expected).abs() < 1e-5, "{place}: {found} {expected}");
    }
}

#[test]
fn a_front_whitens_what_it_was_fitted_on() {
    let backbone = Backbone::parse(&backbone(16), &["fine".to_owned()]).unwrap();
    let mut numbers = Numbers(7);
    let images: Vec<Vec<f32>> = (0..60).map(|_| numbers.some(3 * 256)).collect();
    let images: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    let front = Front::fit(&backbone, &images, 4).unwrap();
    assert_eq!(front.shape(), Shape::new(4, 16, 16));
    let features = front.run(&images);
    assert_eq!((features.len(), features[0].len()), (60, 4 * 256));
    assert!(features.iter().flatten().all(|v| (0.0..=1.0).contains(v)));
    let places: Vec<&[f32]> = features.iter().flat_map(|image| image.chunks(4)).collect();
    let count = places.len() as f64;
    let mean = |i: usize| places.iter().map(|place| f64::from(place[i])).sum::<f64>() / count;
    for i in 0..4 {
        assert!((mean(i) - 0.5).abs() < 1e-3, "{}", mean(i));
        for j in 0..=i {
            let product = |place: &&[f32]| (f64::from(place[i]) - mean(i)) * (f64::from(place[j]) - mean(j));
            // Six deviations are half of the range.
            let covariance = places.iter().map(product).sum::<f64>() / count * 144.0;
            let expected = f64::from(u8::from(i == j));
            assert!((covariance - expected).abs() < 0.02, "{i} {j}: {covariance}");
        }
    }
    // However many go together, and on however many threads.
    assert_eq!(front.run(&images[3..4])[0], features[3]);
}

#[test]
fn a_network_of_vectors_sees_each_place_by_itself() {
    let mut numbers = Numbers(11);
    let mut network = Graph::new(Shape::vector(4));
    let dense = |numbers: &mut Numbers, out: usize, inputs: usize| {
        let (weights, bias) = (numbers.some(out * inputs), numbers.some(out));
        Dense::from_out_in(&weights, [out, inputs], Some(&bias)).unwrap()
    };
    let first = network.push(dense(&mut numbers, 7, 4));
    let second = network.push(nae_core::layer::Activation::Relu);
    network.push_from(second, Op::Add { other: first });
    network.push(dense(&mut numbers, 3, 7));
    network.push(Op::L2Normalize { epsilon: f32::MIN_POSITIVE });
    network.push(dense(&mut numbers, 5, 3));
    network.push(Op::Softmax);
    network.push(dense(&mut numbers, 4, 5));
    let mut maps = Graph::new(Shape::new(4, 2, 3));
    let read = maps.push(nae_core::layer::Activation::Identity);
    let last = per_place(&mut maps, read, &network).unwrap();
    assert_eq!(last, maps.nodes.len());
    let image = numbers.some(24);
    let whole = run(&maps, &image);
    for place in 0..6 {
        let vector: Vec<f32> = (0..4).map(|channel| image[channel * 6 + place]).collect();
        for (channel, expected) in run(&network, &vector).into_iter().enumerate() {
            let found = whole[channel * 6 + place];
            assert!((found - expected).abs() < 1e-5, "{place}: {found} {expected}");
        }
    }
    network.push(Op::ReshapeChannelsFirst(Shape::new(1, 2, 2)));
    assert_eq!(per_place(&mut maps, read, &network).unwrap_err().node, 8);
}

/// The same numbers for all images would be taken for copies of each other.
#[test]
fn features_that_say_nothing_are_refused() {
    let mut graph = GraphBuilder::new("blind");
    let image = graph.image_input("image", [3, 8, 8]).unwrap();
    let blind = Conv2d::new(2, [1, 1], &[0.0; 6], Some(&[0.25, 1e6]));
    let map = graph.conv2d("blind", image, &blind).unwrap();
    graph.output("map", map).unwrap();
    let backbone = Backbone::parse(&graph.finish_bytes().unwrap(), &[]).unwrap();
    let mut numbers = Numbers(7);
    let images = [numbers.some(3 * 64), numbers.some(3 * 64)];
    match Front::fit(&backbone, &[&images[0], &images[1]], 2) {
        Err(FrontError::Constant { features: 2 }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_backbone_is_said() {
    let parse = |onnx: &[u8], outputs: &[&str]| {
        let outputs: Vec<String> = outputs.iter().map(|&name| name.to_owned()).collect();
        Backbone::parse(onnx, &outputs).unwrap_err()
    };
    assert!(matches!(parse(b"no model", &[]), BackboneError::Check(_)));
    let error = parse(&backbone(16), &["fine", "stride16"]).to_string();
    assert!(error.contains("no output `stride16`") && error.contains("`fine` [N, 4, 16, 16]"), "{error}");
    let error = parse(&backbone(16), &["vector"]).to_string();
    assert!(error.contains("output `vector` has 1x1 places"), "{error}");
    // 4, 10 and 20 places: 4 is no part of 10.
    let mut graph = GraphBuilder::new("odd");
    let image = graph.image_input("image", [3, 20, 20]).unwrap();
    let pool = |kernel: usize| Pool2d { kernel: [kernel; 2], stride: [kernel; 2], padding: [0; 4] };
    let half = graph.max_pool2d("half.pool", image, &pool(2)).unwrap();
    graph.output("half", half).unwrap();
    let fifth = graph.max_pool2d("fifth.pool", image, &pool(5)).unwrap();
    graph.output("fifth", fifth).unwrap();
    let error = parse(&graph.finish_bytes().unwrap(), &[]).to_string();
    assert!(error.contains("`fifth` has 4x4 places") && error.contains("10x10 of the grid"), "{error}");
    // Vectors in, or images that are not square.
    let mut graph = GraphBuilder::new("vectors");
    let input = graph.input("image", &[Dim::Batch, Dim::Fixed(8)]).unwrap();
    let relu = graph.relu("rectified", input).unwrap();
    graph.output("relu", relu).unwrap();
    let onnx = graph.finish_bytes().unwrap();
    assert!(matches!(parse(&onnx, &[]), BackboneError::Input { .. }), "the input comes first");
    assert!(matches!(parse(&onnx, &["relu"]), BackboneError::Input { .. }));
    let mut graph = GraphBuilder::new("wide");
    let input = graph.image_input("image", [3, 8, 16]).unwrap();
    let relu = graph.relu("rectified", input).unwrap();
    graph.output("relu", relu).unwrap();
    let error = parse(&graph.finish_bytes().unwrap(), &[]).to_string();
    assert!(error.contains("square") && error.contains("[N, 3, 8, 16]"), "{error}");
    let error = parse(&backbone(16), &["fine", "middle", "fine"]).to_string();
    assert!(error.contains("`fine` was named twice"), "{error}");
    // One place, by a layer that is not supported, and no other output.
    let mut graph = GraphBuilder::new("pooled");
    let image = graph.image_input("image", [3, 8, 8]).unwrap();
    let pool = Pool2d { kernel: [8; 2], stride: [8; 2], padding: [0; 4] };
    let pooled = graph.max_pool2d("all", image, &pool).unwrap();
    graph.output("pooled", pooled).unwrap();
    let onnx = graph.finish_bytes().unwrap();
    assert!(matches!(parse(&onnx, &["pooled"]), BackboneError::OnePlace { height: 1, width: 1, .. }));
    let error = parse(&onnx, &[]).to_string();
    assert!(error.contains("`pooled` [N, 3, 1, 1]") && error.contains("export the network"), "{error}");
    // Nothing to whiten by.
    assert_eq!(Moments::new(3).count(), 0);
}
