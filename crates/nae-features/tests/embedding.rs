//! One vector for an image: a small network's by arithmetic written out plainly, of images of another size and of grey ones.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_features::{BackboneError, Embedding};
use nae_onnx::builder::{Conv2d, GraphBuilder, Pool2d};

const WEIGHTS: [f32; 6] = [1.0, -2.0, 0.5, 0.25, 1.5, -1.0];

/// Images [3, 6, 4]; outputs `maps` [2, 6, 4], a weight for each colour, and `vector` [2], their means.
fn network(outputs: &[&str]) -> Vec<u8> {
    let mut graph = GraphBuilder::new("network");
    let image = graph.image_input("image", [3, 6, 4]).unwrap();
    let maps = graph.conv2d("conv", image, &Conv2d::new(2, [1, 1], &WEIGHTS, None)).unwrap();
    let all = Pool2d { kernel: [6, 4], stride: [1; 2], padding: [0; 4] };
    let mean = graph.average_pool2d("mean", maps, &all).unwrap();
    let vector = graph.flatten("flat", mean).unwrap();
    for name in outputs {
        graph.output(name, if *name == "maps" { maps } else { vector }).unwrap();
    }
    graph.finish_bytes().unwrap()
}

fn image(len: usize) -> Vec<f32> {
    (0..len).map(|k| (k * k % 17) as f32 / 16.0).collect()
}

/// The mean of an image made `rows` by `columns`, by a bilinear interpolation whose pixels are areas.
fn mean_of_resized(pixels: &[f32], [h, w]: [usize; 2], [rows, columns]: [usize; 2]) -> f32 {
    let at = |place: usize, to: usize, from: usize| {
        let source = ((place as f32 + 0.5) * from as f32 / to as f32 - 0.5).clamp(0.0, from as f32 - 1.0);
        let low = source.floor();
        (low as usize, (low as usize + 1).min(from - 1), source - low)
    };
    let mut sum = 0.0;
    for y in 0..rows {
        let (top, bottom, down) = at(y, rows, h);
        for x in 0..columns {
            let (left, right, across) = at(x, columns, w);
            let row = |y: usize| pixels[y * w + left] * (1.0 - across) + pixels[y * w + right] * across;
            sum += row(top) * (1.0 - down) + row(bottom) * down;
        }
    }
    sum / (rows * columns) as f32
}

fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn images_are_brought_to_the_network() {
    for (outputs, output) in [(&["vector"][..], None), (&["maps", "vector"], Some("maps")), (&["maps"], None)] {
        let colours = Embedding::parse(&network(outputs), output, Shape::new(3, 5, 7)).unwrap();
        assert_eq!((colours.len(), colours.output()), (2, output.unwrap_or(outputs[0])));
        let grey = Embedding::parse(&network(outputs), output, Shape::new(1, 3, 2)).unwrap();
        let (pixels, small) = (image(3 * 35), image(6));
        let [r, g, b] = [0, 1, 2].map(|c| mean_of_resized(&pixels[35 * c..][..35], [5, 7], [6, 4]));
        let weighed = |r: f32, g: f32, b: f32| WEIGHTS.chunks(3).map(|w| w[0] * r + w[1] * g + w[2] * b).collect();
        let expected: Vec<f32> = weighed(r, g, b);
        // More than one at a time, in order.
        let dark = vec![0.0; 3 * 35];
        let found = colours.run(&[&pixels, &dark, &pixels, &pixels, &pixels, &dark]);
        assert_eq!(found.len(), 6);
        close(&found[0], &expected);
        close(&found[4], &expected);
        close(&found[5], &[0.0; 2]);
        let v = mean_of_resized(&small, [3, 2], [6, 4]);
        let expected: Vec<f32> = weighed(v, v, v);
        close(&grey.run(&[&small])[0], &expected);
    }
}

#[test]
fn networks_of_other_images_are_refused() {
    let refused = |outputs: &[&str], output, channels| {
        Embedding::parse(&network(outputs), output, Shape::new(channels, 5, 7)).unwrap_err()
    };
    let error = refused(&["maps", "vector"], None, 3);
    assert!(matches!(error, BackboneError::SeveralOutputs { .. }));
    assert!(error.to_string().contains("`vector` [N, 2]"), "{error}");
    let error = refused(&["vector"], None, 2).to_string();
    assert_eq!(error, "expected an input [N, 2, H, W] of fixed size for images of 2 channels, found [N, 3, 6, 4]");
    let error = refused(&["vector"], Some("pool"), 3).to_string();
    assert!(error.contains("no output `pool`"), "{error}");
}
