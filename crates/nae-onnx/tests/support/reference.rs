//! A float64 interpreter of checked graphs, one image at a time, written from the ONNX
//! specification: slow, plain, and independent of the engine it is compared with.
#![allow(dead_code)]

use nae_core::layer::Activation;
use nae_onnx::check::graph::*;

struct Array {
    /// Without the batch.
    shape: Vec<usize>,
    data: Vec<f64>,
}

/// `f` of the values along `axes`, of which 0 is the batch's.
fn reduced(x: &Array, axes: &[usize], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut groups: std::collections::BTreeMap<usize, Vec<f64>> = std::collections::BTreeMap::new();
    for (index, &value) in x.data.iter().enumerate() {
        let (mut rest, mut key, mut step) = (index, 0, 1);
        for (axis, &size) in x.shape.iter().enumerate().rev() {
            if !axes.contains(&(axis + 1)) {
                key += rest % size * step;
                step *= size;
            }
            rest /= size;
        }
        groups.entry(key).or_default().push(value);
    }
    groups.values().map(|values| f(values)).collect()
}

fn sizes(shape: &[Dim]) -> Vec<usize> {
    shape.iter().filter_map(|d| if let Dim::Fixed(n) = d { Some(*n) } else { None }).collect()
}

/// The value of each output for one image, channels first.
pub(crate) fn run(graph: &OnnxGraph, image: &[f32]) -> Vec<(String, Vec<f64>)> {
    let mut values: Vec<Option<Array>> = graph
        .values
        .iter()
        .map(|v| {
            v.constant.as_ref().map(|c| Array {
                shape: sizes(&v.shape),
                data: match c {
                    Constant::Floats(data) => data.iter().map(|&x| f64::from(x)).collect(),
                    Constant::Integers(_) | Constant::Quantized { .. } => Vec::new(),
                },
            })
        })
        .collect();
    values[graph.input] = Some(Array {
        shape: sizes(&graph.values[graph.input].shape),
        data: image.iter().map(|&x| f64::from(x)).collect(),
    });
    for node in &graph.nodes {
        let inputs: Vec<&Array> = node.inputs.iter().map(|&i| values[i].as_ref().expect("made before")).collect();
        let shape = sizes(&graph.values[node.output].shape);
        let data = apply(&node.operator, &inputs, &shape, graph, node);
        assert_eq!(data.len(), shape.iter().product::<usize>(), "{}", node.name);
        values[node.output] = Some(Array { shape, data });
    }
    graph.outputs.iter().map(|(n, v)| (n.clone(), values[*v].as_ref().expect("made").data.clone())).collect()
}

fn apply(operator: &Operator, x: &[&Array], shape: &[usize], graph: &OnnxGraph, node: &OnnxNode) -> Vec<f64> {
    let map = |f: &dyn Fn(f64) -> f64| x[0].data.iter().map(|&v| f(v)).collect::<Vec<_>>();
    let batch_in_front = |i: usize| graph.values[node.inputs[i]].shape.first() == Some(&Dim::Batch);
    let pair = |f: &dyn Fn(f64, f64) -> f64| {
        let at = |i: usize, index: usize| {
            // A constant's leading axis of extent 1 stands where the batch is.
            let mut dims = x[i].shape.clone();
            if !batch_in_front(i) && dims.len() > shape.len() {
                dims.remove(0);
            }
            let mut rest = index;
            let mut offset = 0;
            let mut step = 1;
            for axis in (0..shape.len()).rev() {
                let position = rest % shape[axis];
                rest /= shape[axis];
                if let Some(d) = (axis + dims.len()).checked_sub(shape.len()).map(|a| dims[a]) {
                    offset += if d == 1 { 0 } else { position * step };
                    step *= d;
                }
            }
            x[i].data[offset]
        };
        (0..shape.iter().product()).map(|i| f(at(0, i), at(1, i))).collect::<Vec<_>>()
    };
    match operator {
        Operator::Activation(Activation::Relu) => map(&|v| v.max(0.0)),
        Operator::Activation(Activation::LeakyRelu { slope }) => {
            map(&|v| if v < 0.0 { v * f64::from(*slope) } else { v })
        }
        Operator::Activation(Activation::Elu { alpha }) => {
            map(&|v| if v < 0.0 { f64::from(*alpha) * v.exp_m1() } else { v })
        }
        Operator::Activation(Activation::Sigmoid) => map(&|v| 1.0 / (1.0 + (-v).exp())),
        Operator::Activation(Activation::Tanh) => map(&f64::tanh),
        Operator::Abs => map(&f64::abs),
        Operator::Sqrt => map(&f64::sqrt),
        Operator::Clip { min, max } => map(&|v| v.clamp(f64::from(*min), f64::from(*max))),
        Operator::Reshape => x[0].data.clone(),
        Operator::Add => pair(&|a, b| a + b),
        Operator::Sub => pair(&|a, b| a - b),
        Operator::Mul => pair(&|a, b| a * b),
        Operator::Div => pair(&|a, b| a / b),
        Operator::Pow => pair(&f64::powf),
        Operator::BatchNormalization { epsilon } => {
            let pixels = x[0].data.len() / x[1].data.len();
            let normalize = |(i, v): (usize, &f64)| {
                let c = i / pixels;
                (v - x[3].data[c]) / (x[4].data[c] + f64::from(*epsilon)).sqrt() * x[1].data[c] + x[2].data[c]
            };
            x[0].data.iter().enumerate().map(normalize).collect()
        }
        Operator::InstanceNormalization { epsilon } => groups(x, x[1].data.len(), shape[0], *epsilon),
        Operator::GroupNormalization { groups: count, epsilon } => groups(x, *count, shape[0], *epsilon),
        Operator::Gemm { alpha, beta, transposed } => dense(x, *transposed, f64::from(*alpha), f64::from(*beta)),
        Operator::MatMul => dense(x, false, 1.0, 1.0),
        Operator::Conv { window, groups } => conv(x, shape, window, *groups),
        Operator::ConvTranspose { window, groups, .. } => conv_transpose(x, shape, window, *groups),
        Operator::MaxPool(window) => pool(x[0], shape, window, |v| v.iter().copied().fold(f64::MIN, f64::max), false),
        Operator::AveragePool { window, count_include_padding } => {
            pool(x[0], shape, window, |v| v.iter().sum::<f64>() / v.len() as f64, *count_include_padding)
        }
        Operator::GlobalAveragePool => {
            let pixels = x[0].data.len() / shape[0];
            x[0].data.chunks(pixels).map(|c| c.iter().sum::<f64>() / pixels as f64).collect()
        }
        Operator::Resize(kind) => resize(x[0], shape, *kind),
        Operator::ReduceMean { axes, .. } => reduced(x[0], axes, |v| v.iter().sum::<f64>() / v.len() as f64),
        Operator::ReduceSum { .. } => vec![x[0].data.iter().sum()],
        Operator::ReduceL2 { axes, .. } => reduced(x[0], axes, |v| v.iter().map(|v| v * v).sum::<f64>().sqrt()),
        Operator::TopK { k } => {
            let mut largest = x[0].data.clone();
            largest.sort_by(|a, b| b.total_cmp(a));
            largest.truncate(*k);
            largest
        }
        Operator::Softmax => {
            // Over the channels, which a place's values are `pixels` apart.
            let pixels: usize = shape[1..].iter().product();
            let sum = |place: usize| x[0].data.iter().skip(place).step_by(pixels).map(|v| v.exp()).sum::<f64>();
            x[0].data.iter().enumerate().map(|(at, v)| v.exp() / sum(at % pixels)).collect()
        }
        // Values of one sample.
        Operator::Concat => x.iter().flat_map(|part| part.data.iter().copied()).collect(),
        Operator::LpNormalization { .. } => {
            let norm = x[0].data.iter().map(|v| v * v).sum::<f64>().sqrt();
            map(&|v| v / norm)
        }
        other => panic!("the reference has no {}", other.name()),
    }
}

/// `count` groups of `channels` to mean 0 and variance 1; scales and shifts are spread over the channels.
fn groups(x: &[&Array], count: usize, channels: usize, epsilon: f32) -> Vec<f64> {
    let (len, pixels) = (x[0].data.len() / count, x[0].data.len() / channels);
    let mut output = Vec::new();
    for (group, values) in x[0].data.chunks(len).enumerate() {
        let mean = values.iter().sum::<f64>() / len as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / len as f64;
        for (at, value) in values.iter().enumerate() {
            let channel = (group * len + at) / pixels;
            let [scale, shift] = [1, 2].map(|index| x[index].data[channel * x[index].data.len() / channels]);
            output.push((value - mean) / (variance + f64::from(epsilon)).sqrt() * scale + shift);
        }
    }
    output
}

fn dense(x: &[&Array], transposed: bool, alpha: f64, beta: f64) -> Vec<f64> {
    let inputs = x[0].data.len();
    let outputs = x[1].data.len() / inputs;
    let weight = |o: usize, i: usize| x[1].data[if transposed { o * inputs + i } else { i * outputs + o }];
    let bias = |o: usize| x.get(2).map_or(0.0, |b| beta * b.data[o]);
    (0..outputs)
        .map(|o| bias(o) + alpha * x[0].data.iter().enumerate().map(|(i, v)| v * weight(o, i)).sum::<f64>())
        .collect()
}

fn conv(x: &[&Array], shape: &[usize], w: &WindowAttributes, groups: usize) -> Vec<f64> {
    let (input, weight) = (x[0], x[1]);
    let [c, h, width] = [input.shape[0], input.shape[1], input.shape[2]];
    let per_group = c / groups;
    let mut out = Vec::new();
    for o in 0..shape[0] {
        let group = o / (shape[0] / groups);
        for y in 0..shape[1] {
            for z in 0..shape[2] {
                let mut sum = x.get(2).map_or(0.0, |b| b.data[o]);
                for i in 0..per_group {
                    for ky in 0..w.kernel[0] {
                        for kx in 0..w.kernel[1] {
                            let row = (y * w.stride[0] + ky * w.dilation[0]).wrapping_sub(w.padding[0]);
                            let column = (z * w.stride[1] + kx * w.dilation[1]).wrapping_sub(w.padding[1]);
                            if row < h && column < width {
                                sum += input.data[((group * per_group + i) * h + row) * width + column]
                                    * weight.data[((o * per_group + i) * w.kernel[0] + ky) * w.kernel[1] + kx];
                            }
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

fn conv_transpose(x: &[&Array], shape: &[usize], w: &WindowAttributes, groups: usize) -> Vec<f64> {
    let (input, weight) = (x[0], x[1]);
    let [c, h, width] = [input.shape[0], input.shape[1], input.shape[2]];
    assert_eq!(groups, 1);
    let pixels = shape[1] * shape[2];
    let mut out: Vec<f64> = (0..shape[0] * pixels).map(|i| x.get(2).map_or(0.0, |b| b.data[i / pixels])).collect();
    for i in 0..c {
        for y in 0..h {
            for z in 0..width {
                let value = input.data[(i * h + y) * width + z];
                for o in 0..shape[0] {
                    for ky in 0..w.kernel[0] {
                        for kx in 0..w.kernel[1] {
                            let row = (y * w.stride[0] + ky * w.dilation[0]).wrapping_sub(w.padding[0]);
                            let column = (z * w.stride[1] + kx * w.dilation[1]).wrapping_sub(w.padding[1]);
                            if row < shape[1] && column < shape[2] {
                                out[o * pixels + row * shape[2] + column] +=
                                    value * weight.data[((i * shape[0] + o) * w.kernel[0] + ky) * w.kernel[1] + kx];
                            }
                        }
                    }
                }
            }
        }
    }
    out
}

fn pool(input: &Array, shape: &[usize], w: &WindowAttributes, f: fn(&[f64]) -> f64, zeros: bool) -> Vec<f64> {
    let [h, width] = [input.shape[1], input.shape[2]];
    let mut out = Vec::new();
    for c in 0..shape[0] {
        for y in 0..shape[1] {
            for z in 0..shape[2] {
                let mut seen = Vec::new();
                for ky in 0..w.kernel[0] {
                    for kx in 0..w.kernel[1] {
                        let row = (y * w.stride[0] + ky * w.dilation[0]).wrapping_sub(w.padding[0]);
                        let column = (z * w.stride[1] + kx * w.dilation[1]).wrapping_sub(w.padding[1]);
                        if row < h && column < width {
                            seen.push(input.data[(c * h + row) * width + column]);
                        } else if zeros {
                            seen.push(0.0);
                        }
                    }
                }
                out.push(f(&seen));
            }
        }
    }
    out
}

fn resize(input: &Array, shape: &[usize], kind: ResizeKind) -> Vec<f64> {
    let source = |out: usize, from: usize, to: usize| match kind {
        ResizeKind::LinearAlignCorners if to == 1 => 0.0,
        ResizeKind::LinearAlignCorners => out as f64 * (from - 1) as f64 / (to - 1) as f64,
        ResizeKind::LinearHalfPixel => {
            ((out as f64 + 0.5) * from as f64 / to as f64 - 0.5).clamp(0.0, (from - 1) as f64)
        }
        ResizeKind::Nearest => (out * from / to) as f64,
        ResizeKind::Fractional => unreachable!("the builder gives sizes"),
    };
    let [h, width] = [input.shape[1], input.shape[2]];
    let mut out = Vec::new();
    for c in 0..shape[0] {
        let at = |y: usize, x: usize| input.data[(c * h + y.min(h - 1)) * width + x.min(width - 1)];
        for y in 0..shape[1] {
            let v = source(y, h, shape[1]);
            for z in 0..shape[2] {
                let u = source(z, width, shape[2]);
                let (top, left) = (v.floor() as usize, u.floor() as usize);
                let (fy, fx) = (v - top as f64, u - left as f64);
                out.push(
                    (1.0 - fy) * ((1.0 - fx) * at(top, left) + fx * at(top, left + 1))
                        + fy * ((1.0 - fx) * at(top + 1, left) + fx * at(top + 1, left + 1)),
                );
            }
        }
    }
    out
}
