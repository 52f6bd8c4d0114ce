//! Max-pooling and bilinear enlargement, each with its backward pass.

use super::plane::Planes;
use crate::arch::upsample::axis_weights;

/// Largest of each `window` × `window` block, and where it was; the first of equals.
pub fn max_pool(x: &Planes, window: usize) -> (Planes, Vec<u32>) {
    let (h, w) = (x.h / window, x.w / window);
    let mut output = Planes::zeros(x.n, h, w, x.c);
    let mut winners = vec![0u32; output.data.len()];
    for image in 0..x.n {
        for oy in 0..h {
            for ox in 0..w {
                let out = ((image * h + oy) * w + ox) * x.c;
                for channel in 0..x.c {
                    let (mut best, mut winner) = (f32::NEG_INFINITY, 0);
                    for dy in 0..window {
                        for dx in 0..window {
                            let at = ((image * x.h + oy * window + dy) * x.w + ox * window + dx) * x.c + channel;
                            if x.data[at] > best {
                                (best, winner) = (x.data[at], at);
                            }
                        }
                    }
                    output.data[out + channel] = best;
                    winners[out + channel] = winner as u32;
                }
            }
        }
    }
    (output, winners)
}

/// The gradient before [`max_pool`] of an input of shape `[n, h, w, c]`.
pub fn max_pool_backward(gradient: &Planes, winners: &[u32], [n, h, w, c]: [usize; 4]) -> Planes {
    let mut input = Planes::zeros(n, h, w, c);
    for (g, &winner) in gradient.data.iter().zip(winners) {
        input.data[winner as usize] += g;
    }
    input
}

/// A bilinear enlargement with corners aligned: for each target pixel its sources and their weights.
#[derive(Clone, Debug)]
pub struct Enlargement {
    from: [usize; 2],
    to: [usize; 2],
    taps: Vec<[(u32, f32); 4]>,
}

impl Enlargement {
    /// From `from` to `to` rows and columns.
    pub fn new(from: [usize; 2], to: [usize; 2]) -> Self {
        let pairs = |from: usize, to: usize| -> Vec<[(usize, f32); 2]> {
            axis_weights(from, to)
                .chunks_exact(from)
                .map(|row| {
                    let mut taps = row.iter().copied().enumerate().filter(|(_, weight)| *weight != 0.0);
                    let first = taps.next().unwrap_or((0, 0.0));
                    [first, taps.next().unwrap_or((first.0, 0.0))]
                })
                .collect()
        };
        let (rows, columns) = (pairs(from[0], to[0]), pairs(from[1], to[1]));
        let mut taps = Vec::with_capacity(to[0] * to[1]);
        for row in &rows {
            for column in &columns {
                taps.push(std::array::from_fn(|k| {
                    let ((y, a), (x, b)) = (row[k / 2], column[k % 2]);
                    ((y * from[1] + x) as u32, a * b)
                }));
            }
        }
        Self { from, to, taps }
    }

    /// The enlarged planes.
    pub fn forward(&self, x: &Planes) -> Planes {
        let mut output = Planes::zeros(x.n, self.to[0], self.to[1], x.c);
        let (source, target) = (x.sample_len(), output.sample_len());
        for (from, to) in x.data.chunks_exact(source).zip(output.data.chunks_exact_mut(target)) {
            for (pixel, taps) in to.chunks_exact_mut(x.c).zip(&self.taps) {
                for &(index, weight) in taps {
                    for (out, value) in pixel.iter_mut().zip(&from[index as usize * x.c..][..x.c]) {
                        *out += weight * value;
                    }
                }
            }
        }
        output
    }

    /// The gradient before the enlargement.
    pub fn backward(&self, gradient: &Planes) -> Planes {
        let c = gradient.c;
        let mut input = Planes::zeros(gradient.n, self.from[0], self.from[1], c);
        let (source, target) = (input.sample_len(), gradient.sample_len());
        for (to, from) in gradient.data.chunks_exact(target).zip(input.data.chunks_exact_mut(source)) {
            for (pixel, taps) in to.chunks_exact(c).zip(&self.taps) {
                for &(index, weight) in taps {
                    for (sum, value) in from[index as usize * c..][..c].iter_mut().zip(pixel) {
                        *sum += weight * value;
                    }
                }
            }
        }
        input
    }
}
