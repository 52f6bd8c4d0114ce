//! Clipping of a chain's gradient (paper, "Sampling Parameters and Techniques", after Du and Mordatch 2019).

use burn::tensor::Tensor;
use nae_simd::Size;
use serde::{Deserialize, Serialize};

/// The quantity that the limit applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClipBy {
    /// Each element, which is clamped to ± the limit.
    #[default]
    Element,
    /// The norm of a sample's whole gradient; longer gradients are scaled down to the limit.
    Norm,
    /// The norm of each row of each channel, as in the authors' code, which takes the norm over the last axis.
    RowNorm,
}

/// A limit on the gradient of each sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientClip {
    /// The limit, above 0.
    pub limit: f32,
    /// The quantity that the limit applies to.
    pub by: ClipBy,
}

impl GradientClip {
    /// Returns `gradient` `[N, C, H, W]` within the limit.
    pub fn apply(self, gradient: Tensor<4>) -> Tensor<4> {
        let limit = self.limit;
        let [n, c, h, w] = gradient.dims();
        let norm = match self.by {
            ClipBy::Element => return gradient.clamp(-limit, limit),
            ClipBy::Norm => norm(gradient.clone().reshape([n, c * h * w])).reshape([n, 1, 1, 1]),
            ClipBy::RowNorm => norm(gradient.clone().reshape([n * c * h, w])).reshape([n, c, h, 1]),
        };
        // Short gradients, including zero, are divided by the limit itself, so they stay unchanged except for rounding.
        gradient * norm.clamp_min(limit).recip().mul_scalar(limit)
    }

    /// Same as [`apply`](Self::apply) for one sample in the order `[H, W, C]`, of `size`.
    pub fn apply_to_sample(self, gradient: &mut [f32], size: Size) {
        let limit = self.limit;
        match self.by {
            ClipBy::Element => gradient.iter_mut().for_each(|value| *value = value.clamp(-limit, limit)),
            ClipBy::Norm => shorten(limit, gradient, 0, 1),
            ClipBy::RowNorm => {
                for row in gradient.chunks_exact_mut(size.w * size.c) {
                    (0..size.c).for_each(|channel| shorten(limit, row, channel, size.c));
                }
            }
        }
    }
}

/// Scales every `stride`th value, starting at `first`, so that their norm is at most `limit`.
fn shorten(limit: f32, values: &mut [f32], first: usize, stride: usize) {
    let norm = values.iter().skip(first).step_by(stride).map(|value| value * value).sum::<f32>().sqrt();
    let factor = norm.max(limit).recip() * limit;
    values.iter_mut().skip(first).step_by(stride).for_each(|value| *value *= factor);
}

/// The norms `[N, 1]` of the rows of `[N, D]`.
fn norm(rows: Tensor<2>) -> Tensor<2> {
    (rows.clone() * rows).sum_dim(1).sqrt()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};
    use nae_simd::{Planes, Workspace};

    use super::*;

    fn clipped(limit: f32, by: ClipBy) -> Vec<f32> {
        let values = vec![3.0f32, 4.0, 0.0, 0.0, 0.3, -0.4, 0.0, 0.0];
        let gradient = Tensor::from_data(TensorData::new(values, [2, 1, 2, 2]), &Device::flex());
        GradientClip { limit, by }.apply(gradient).into_data().try_into_vec::<f32>().expect("float data")
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6), "{found:?} against {expected:?}");
    }

    #[test]
    fn each_kind_holds_what_it_says() {
        assert_close(&clipped(0.35, ClipBy::Element), &[0.35, 0.35, 0.0, 0.0, 0.3, -0.35, 0.0, 0.0]);
        assert_close(&clipped(1.0, ClipBy::Norm), &[0.6, 0.8, 0.0, 0.0, 0.3, -0.4, 0.0, 0.0]);
        assert_close(&clipped(0.25, ClipBy::Norm), &[0.15, 0.2, 0.0, 0.0, 0.15, -0.2, 0.0, 0.0]);
    }

    /// A sample of two rows, three pixels and two channels, in channels-last order.
    #[test]
    fn a_sample_is_clipped_as_a_batch_is() {
        let size = Size { h: 2, w: 3, c: 2 };
        let planes: Vec<f32> = (0..size.len()).map(|k| (k as f32 - 4.0) * 0.3).collect();
        for by in [ClipBy::Element, ClipBy::Norm, ClipBy::RowNorm] {
            for limit in [0.5, 100.0] {
                let clip = GradientClip { limit, by };
                let batch = Tensor::from_data(TensorData::new(planes.clone(), [1, 2, 2, 3]), &Device::flex());
                let expected = clip.apply(batch).into_data().try_into_vec::<f32>().expect("float data");
                let mut sample = Planes::from_channels_first(&Workspace::default(), 1, size, &planes);
                clip.apply_to_sample(&mut sample.data, size);
                assert_close(&sample.to_channels_first(), &expected);
            }
        }
    }

    #[test]
    fn a_row_is_clipped_on_its_own() {
        let gradient = Tensor::from_data(TensorData::new(vec![3.0f32, 4.0, 0.3, 0.4], [1, 1, 2, 2]), &Device::flex());
        let clip = GradientClip { limit: 1.0, by: ClipBy::RowNorm };
        let found = clip.apply(gradient).into_data().try_into_vec::<f32>().expect("float data");
        assert_close(&found, &[0.6, 0.8, 0.3, 0.4]);
    }
}
