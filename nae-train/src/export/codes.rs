//! The choice of a VQ-VAE's codes, expressed by layers: scores of the codes, their softmax at a temperature near zero,
//! and the sum of the codes by these shares, which is the nearest code.

use burn::module::Param;
use burn::tensor::Tensor;
use nae_core::Shape;
use nae_graph::{Conv2d, Dense, Graph, GraphError, Op};
use nae_onnx::raise::Label;

use crate::arch::graph::floats;

/// The softmax's temperature, as a fraction of the codes' mean squared distance from their mean: several times the
/// relative rounding error of an f32. Two codes are mixed only if their distances from a latent are equal up to
/// rounding; then their order is not known in f32 either.
const TEMPERATURE: f64 = 1.0 / (1 << 20) as f64;
/// The least temperature, for codes that are all equal.
const LEAST_TEMPERATURE: f64 = 1e-30;

/// Builds the graph that replaces each part of a latent of length `latent_dim` by the nearest of `codes`
/// `[K, latent_dim/parts]`, with the labels of its nodes.
///
/// ‖z‖² is the same for all codes, so that −‖z − c‖² is, up to a constant, a linear function of z: 2⟨z − m, c − m⟩ −
/// ‖c − m‖² with the codes' mean m, which reduces cancellation.
pub(super) fn nearest(codes: &Param<Tensor<2>>, latent_dim: usize) -> Result<(Graph, Vec<Label>), GraphError> {
    let [count, length] = codes.dims();
    let codes = floats(codes);
    let parts = latent_dim / length;
    let mut mean = vec![0.0f64; length];
    for code in codes.chunks_exact(length) {
        mean.iter_mut().zip(code).for_each(|(mean, value)| *mean += f64::from(*value) / count as f64);
    }
    let centred = |code: &[f32]| -> Vec<f64> { code.iter().zip(&mean).map(|(c, mean)| f64::from(*c) - mean).collect() };
    let squared = |vector: &[f64]| vector.iter().map(|value| value * value).sum::<f64>();
    let spread = codes.chunks_exact(length).map(|code| squared(&centred(code))).sum::<f64>() / count as f64;
    let temperature = (TEMPERATURE * spread).max(LEAST_TEMPERATURE);
    let (mut scores, mut offsets) = (Vec::with_capacity(codes.len()), Vec::with_capacity(count));
    for code in codes.chunks_exact(length) {
        let code = centred(code);
        scores.extend(code.iter().map(|value| (2.0 * value / temperature) as f32));
        let along_mean: f64 = code.iter().zip(&mean).map(|(value, mean)| value * mean).sum();
        offsets.push((-(2.0 * along_mean + squared(&code)) / temperature) as f32);
    }

    let mut graph = Graph::new(Shape::vector(latent_dim));
    let mut labels = Vec::new();
    let mut push = |name: &str, has_bias: bool, op: Op| {
        labels.push(Label { name: format!("codes.{name}"), has_bias });
        graph.push(op)
    };
    // Part p is place p of a map with the part's values as channels: channels last, the values keep their order. Layers
    // that change nothing convert the vector to the map and back, since a vector becomes a map only after a layer.
    if parts > 1 {
        push("parts", false, unchanged(latent_dim, Shape::new(length, parts, 1))?);
    }
    push("scores", true, of_each_part(parts, &scores, [count, length], Some(&offsets))?);
    push("shares", false, Op::Softmax);
    let chosen: Vec<f32> = (0..length).flat_map(|value| codes.iter().skip(value).step_by(length).copied()).collect();
    push("chosen", false, of_each_part(parts, &chosen, [length, count], None)?);
    if parts > 1 {
        push("joined", false, unchanged(latent_dim, Shape::vector(latent_dim))?);
    }
    Ok((graph, labels))
}

/// The same dense layer for each of `parts` places. One part is a vector.
fn of_each_part(parts: usize, weights: &[f32], shape: [usize; 2], bias: Option<&[f32]>) -> Result<Op, GraphError> {
    let [outputs, inputs] = shape;
    Ok(if parts > 1 {
        Conv2d::from_oihw(weights, [outputs, inputs, 1, 1], bias)?.into()
    } else {
        Dense::from_out_in(weights, shape, bias)?.into()
    })
}

/// The identity, with an output of another shape.
fn unchanged(len: usize, output: Shape) -> Result<Op, GraphError> {
    let mut weights = vec![0.0; len * len];
    weights.iter_mut().step_by(len + 1).for_each(|weight| *weight = 1.0);
    Ok(Dense { output, ..Dense::from_out_in(&weights, [len, len], None)? }.into())
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};
    use nae_simd::{Options, Planes, Program, Size, Workspace};

    use super::*;
    use crate::sample::NoiseSource;

    fn drawn(seed: u64, count: usize) -> Vec<f32> {
        NoiseSource::new(seed, 0).normal::<1>([count], &Device::flex()).into_data().iter::<f32>().collect()
    }

    /// What the graph makes of `latents`, `[N, parts·length]`.
    fn chosen(codes: &[f32], length: usize, parts: usize, latents: &[f32]) -> Vec<f32> {
        let shape = [codes.len() / length, length];
        let codes = Param::from_data(TensorData::new(codes.to_vec(), shape), &Device::flex());
        let (graph, labels) = nearest(&codes, parts * length).expect("valid");
        assert_eq!(labels.len(), graph.nodes.len());
        let program = Program::compile(&graph, &Options::scoring()).expect("supported");
        let (n, size) = (latents.len() / (parts * length), Size { c: parts * length, h: 1, w: 1 });
        program.run(Planes::from_channels_first(&Workspace::default(), n, size, latents)).output.to_channels_first()
    }

    /// Codes whose mean is not zero, of very different sizes, beside latents that are near and far; the nearest in
    /// float64.
    #[test]
    fn each_part_becomes_its_nearest_code() {
        for (length, parts) in [(4, 1), (1, 6), (3, 2), (2, 5)] {
            for (seed, spread) in [(1, 1.0f32), (2, 1e-4), (3, 1e3)] {
                let scaled =
                    |values: Vec<f32>, by: f32| values.iter().map(|v| spread * (3.0 + by * v)).collect::<Vec<_>>();
                let codes = scaled(drawn(seed, 11 * length), 1.0);
                let latents = scaled(drawn(seed + 9, 200 * parts * length), 2.0);
                let found = chosen(&codes, length, parts, &latents);
                assert_eq!(found.len(), latents.len());
                let mut ties = 0;
                for (part, found) in latents.chunks(length).zip(found.chunks(length)) {
                    let distance = |other: &[f32]| -> f64 {
                        part.iter().zip(other).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum()
                    };
                    let mut by_distance: Vec<&[f32]> = codes.chunks(length).collect();
                    by_distance.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
                    let [first, second] = [by_distance[0], by_distance[1]];
                    if distance(second) - distance(first) < 1e-4 * f64::from(spread).powi(2) {
                        ties += 1;
                        continue;
                    }
                    let close = found.iter().zip(first).all(|(a, b)| (a - b).abs() < 1e-5 * spread);
                    assert!(
                        close,
                        "{parts} parts of {length}, spread {spread}: {found:?} for {part:?}, expected {first:?}"
                    );
                }
                assert!(ties * 100 < latents.len() / length, "{ties} of {}", latents.len() / length);
            }
        }
    }

    /// As before the first update, when all codes are zero.
    #[test]
    fn equal_codes_are_the_code() {
        assert_eq!(chosen(&[0.5; 6], 2, 1, &[7.0, -3.0]), [0.5, 0.5]);
    }
}
