//! The quantized kernels against TFLite's built-in reference kernels, bit for bit, in every layout.
//! The vectors are made by `tests/int8/make_vectors.py`.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_core::kernels::int8::{self, Layout, Multiplier, Range, Windows};
use nae_core::layer::Padding;
use nae_graph::int8_weights::{self as pack, Unpacked};
use std::collections::HashMap;

struct Case {
    operator: String,
    fields: HashMap<String, Vec<f64>>,
}

impl Case {
    fn get<T>(&self, name: &str, convert: impl Fn(f64) -> T) -> Vec<T> {
        let values = self.fields.get(name).unwrap_or_else(|| panic!("{} has no {name}", self.operator));
        values.iter().map(|v| convert(*v)).collect()
    }

    fn bytes(&self, name: &str) -> Vec<i8> {
        self.get(name, |v| v as i8)
    }

    fn sizes(&self, name: &str) -> Vec<usize> {
        self.get(name, |v| v as usize)
    }

    fn shape(&self, name: &str) -> Shape {
        let hwc = self.sizes(name);
        Shape::new(hwc[2], hwc[0], hwc[1])
    }

    fn pair(&self, name: &str) -> [usize; 2] {
        self.sizes(name).try_into().unwrap()
    }

    fn scale(&self) -> Vec<f64> {
        // The file has the shortest text of an f32.
        self.get("scale", |v| f64::from(v as f32))
    }

    fn range(&self) -> Range {
        let zero = *self.bytes("zero").last().unwrap();
        if self.fields.get("relu").is_some_and(|v| v[0] == 1.0) { Range::relu(zero) } else { Range::full(zero) }
    }

    fn windows(&self) -> Windows {
        let padding = self.pair("padding");
        Windows {
            input: self.shape("input"),
            output: self.shape("output"),
            kernel: self.pair("kernel"),
            stride: self.pair("stride"),
            padding: Padding { top: padding[0], left: padding[1], ..Padding::NONE },
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in include_str!("int8/vectors.txt").lines() {
        let (name, values) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "case" => cases.push(Case { operator: values.to_owned(), fields: HashMap::new() }),
            "end" => {}
            _ => {
                let values = values.split_whitespace().map(|v| v.parse().unwrap()).collect();
                cases.last_mut().unwrap().fields.insert(name.to_owned(), values);
            }
        }
    }
    cases
}

fn multiplier(real: f64) -> Multiplier {
    Multiplier::from_real(real).unwrap()
}

/// A layer with weights, in each layout that takes it; returns how many did.
fn weighted(case: &Case) -> usize {
    let (x, want) = (case.bytes("x"), case.bytes("y"));
    let scale = case.scale();
    let multipliers = case.get("weight_scale", |w| multiplier(scale[0] * f64::from(w as f32) / scale[1]));
    let bias = case.get("bias", |v| v as i32);
    let weights = case.bytes("weights");
    let dense = case.operator == "dense";
    let (kernel, depth) = if dense { ([1, 1], x.len()) } else { (case.pair("kernel"), case.shape("input").channels) };
    let zero = case.bytes("zero")[0];
    let layer = Unpacked {
        outputs: bias.len(),
        kernel,
        input_channels: depth,
        weights: &weights,
        bias: &bias,
        multipliers: &multipliers,
    };
    let mut ran = 0;
    for layout in [Layout::Plain, Layout::Paired] {
        let packed = if case.operator == "conv_transpose2d" {
            pack::conv_transpose2d(layout, &layer, case.pair("stride"))
        } else {
            pack::conv2d(layout, &layer)
        };
        let packed = match packed {
            Ok(packed) => packed,
            Err(pack::PackError::Output { .. }) if layout != Layout::Plain => continue,
            Err(error) => panic!("{}: {error}", case.operator),
        };
        let scratch_words = match case.operator.as_str() {
            "dense" => int8::dense_scratch_words(layout, depth),
            "conv2d" => int8::conv2d_scratch_words(layout, &case.windows()),
            _ => int8::conv_transpose2d_scratch_words(layout, &case.windows()),
        };
        let mut scratch = vec![0xDEAD_BEEF; scratch_words];
        let mut y = vec![99; want.len()];
        let weights = packed.as_weights();
        match case.operator.as_str() {
            "dense" => int8::dense(zero, weights, case.range(), &mut scratch, &x, &mut y),
            "conv2d" => int8::conv2d(&case.windows(), zero, weights, case.range(), &mut scratch, &x, &mut y),
            _ => int8::conv_transpose2d(&case.windows(), zero, weights, case.range(), &mut scratch, &x, &mut y),
        }
        assert_eq!(y, want, "{} {layout:?}", case.operator);
        ran += 1;
    }
    ran
}

#[test]
fn layers_with_weights_equal_tflite() {
    let cases = cases();
    let weighted_cases = cases.iter().filter(|case| case.fields.contains_key("weights"));
    let ran: Vec<usize> = weighted_cases.map(weighted).collect();
    assert_eq!(ran.len(), 15);
    assert!(ran.iter().filter(|ran| **ran == 2).count() >= 13, "{ran:?}");
}

#[test]
fn pooling_and_resizing_equal_tflite() {
    let mut ran = 0;
    for case in cases() {
        let x = case.fields.get("x").map(|_| case.bytes("x")).unwrap_or_default();
        let want = case.bytes("y");
        let mut y = vec![99; want.len()];
        match case.operator.as_str() {
            "max_pool2d" => int8::max_pool2d(&case.windows(), &x, &mut y),
            "average_pool2d" => int8::average_pool2d(&case.windows(), None, &x, &mut y),
            "nearest" => int8::nearest(case.shape("input"), case.shape("output"), &x, &mut y),
            "bilinear" => {
                let half_pixel = case.sizes("half_pixel")[0] == 1;
                int8::bilinear(half_pixel, case.shape("input"), case.shape("output"), &x, &mut y);
            }
            _ => continue,
        }
        assert_eq!(y, want, "{} {:?}", case.operator, case.shape("input"));
        ran += 1;
    }
    assert_eq!(ran, 12);
}

#[test]
fn elementwise_layers_equal_tflite() {
    let mut ran = 0;
    for case in cases() {
        let want = case.bytes("y");
        let mut y = case.fields.get("x").map(|_| case.bytes("x")).unwrap_or_default();
        match case.operator.as_str() {
            "add" => {
                let (s, zero) = (case.get("scale", |v| v as f32), case.bytes("zero"));
                let layer = int8::Add::new([s[0], s[1]], [zero[0], zero[1]], s[2], case.range()).unwrap();
                let (a, b) = (case.bytes("a"), case.bytes("b"));
                y = vec![99; want.len()];
                int8::add(&layer, &a, &b, &mut y);
                let mut in_place = a.clone();
                int8::add_in_place(&layer, &mut in_place, &b);
                assert_eq!(in_place, y);
            }
            "multiply" => {
                let (s, zero) = (case.scale(), case.bytes("zero"));
                let layer = int8::Multiply {
                    input_zero_points: [zero[0], zero[1]],
                    multiplier: multiplier(s[0] * s[1] / s[2]),
                    range: case.range(),
                };
                let (a, b) = (case.bytes("a"), case.bytes("b"));
                y = vec![99; want.len()];
                int8::multiply(&layer, &a, &b, &mut y);
                let mut in_place = a.clone();
                int8::multiply_in_place(&layer, &mut in_place, &b);
                assert_eq!(in_place, y);
            }
            "leaky_relu" => {
                let s = case.scale();
                let slope = case.get("slope", |v| f64::from(v as f32))[0];
                let layer = int8::LeakyRelu {
                    input_zero_point: case.bytes("zero")[0],
                    positive: multiplier(s[0] / s[1]),
                    negative: multiplier(slope * s[0] / s[1]),
                    range: case.range(),
                };
                int8::leaky_relu(&layer, &mut y);
            }
            "requantize" => {
                let s = case.scale();
                let layer = int8::Requantize {
                    input_zero_point: case.bytes("zero")[0],
                    multiplier: multiplier(s[0] / s[1]),
                    range: case.range(),
                };
                int8::requantize(&layer, &mut y);
            }
            "sigmoid" => {
                // The exporter's table: rounded from f64. TFLite's reference computes in fixed
                // point and is allowed one unit.
                let (s, zero) = (case.scale(), case.bytes("zero"));
                let table: [i8; 256] = std::array::from_fn(|i| {
                    let x = s[0] * (i as f64 - 128.0 - f64::from(zero[0]));
                    ((1.0 / (1.0 + (-x).exp())) / s[1] + f64::from(zero[1])).round().clamp(-128.0, 127.0) as i8
                });
                int8::look_up(&table, &mut y);
                assert_within_one(&mut y, &want);
            }
            "l2_normalize" => {
                let layer = int8::L2Normalize {
                    input_zero_point: case.bytes("zero")[0],
                    least: 0,
                    gain: multiplier(128.0),
                    range: case.range(),
                };
                let x = y.clone();
                int8::l2_normalize(&layer, &mut y);
                let centred: Vec<f64> = x.iter().map(|v| f64::from(*v) - case.get("zero", |z| z)[0]).collect();
                let norm = centred.iter().map(|v| v * v).sum::<f64>().sqrt();
                for (value, x) in y.iter().zip(&centred) {
                    assert_eq!(f64::from(*value), (128.0 * x / norm + 0.5).floor().clamp(-128.0, 127.0));
                }
                assert_within_one(&mut y, &want);
            }
            _ => continue,
        }
        assert_eq!(y, want, "{}", case.operator);
        ran += 1;
    }
    assert_eq!(ran, 12);
}

/// Sets `values` to `want` where they differ by no more than one.
fn assert_within_one(values: &mut [i8], want: &[i8]) {
    for (value, want) in values.iter_mut().zip(want) {
        assert!((i32::from(*value) - i32::from(*want)).abs() <= 1, "{value} {want}");
        *value = *want;
    }
}
