//! Group normalization (Wu and He, "Group Normalization", ECCV 2018): normalizes each sample's groups of channels to
//! mean 0 and variance 1, then applies a scale and a shift for each channel. With its backward pass.

use crate::plane::Planes;

/// Group normalization with its weights.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// Number of groups, all with the same number of channels; not 0.
    pub groups: usize,
    /// Added to the variance; above 0.
    pub epsilon: f32,
    /// γ, one per channel.
    pub scale: Vec<f32>,
    /// β, one per channel.
    pub shift: Vec<f32>,
}

/// Mean and inverse standard deviation of each group of each sample.
pub type Moments = Vec<[f32; 2]>;

impl GroupNorm {
    /// The mean over each group of the values that `of` computes from a sample's pixels, summed in double precision.
    fn means<const K: usize>(&self, x: &Planes, of: impl Fn(usize, usize) -> [f32; K]) -> Vec<[f64; K]> {
        let (c, len) = (x.size.c, x.size.len());
        let width = c / self.groups;
        let count = (len / self.groups) as f64;
        let mut means = Vec::with_capacity(x.n * self.groups);
        for sample in 0..x.n {
            let mut totals = vec![[0.0f64; K]; self.groups];
            for pixel in (sample * len..(sample + 1) * len).step_by(c) {
                for (group, total) in totals.iter_mut().enumerate() {
                    for channel in group * width..(group + 1) * width {
                        for (total, value) in total.iter_mut().zip(of(pixel + channel, channel)) {
                            *total += f64::from(value);
                        }
                    }
                }
            }
            means.extend(totals.into_iter().map(|total| total.map(|t| t / count)));
        }
        means
    }

    /// Writes `f(value's place, channel, group of the sample)` to every value.
    fn each(&self, like: &Planes, f: impl Fn(usize, usize, usize) -> f32) -> Planes {
        let (c, len) = (like.size.c, like.size.len());
        let width = c / self.groups;
        let mut output = Planes::scratch(like.workspace(), like.n, like.size);
        for (sample, values) in output.data.chunks_exact_mut(len).enumerate() {
            for (pixel, values) in values.chunks_exact_mut(c).enumerate() {
                for (group, values) in values.chunks_exact_mut(width).enumerate() {
                    for (channel, value) in (group * width..).zip(values) {
                        *value = f(sample * len + pixel * c + channel, channel, sample * self.groups + group);
                    }
                }
            }
        }
        output
    }

    /// Returns the normalized planes, and the moments that [`backward`](Self::backward) needs. If the variance is beyond
    /// `f32`, the values of the group become NaN.
    pub fn forward(&self, x: &Planes) -> (Planes, Moments) {
        let means = self.means(x, |at, _| [x.data[at]]);
        let width = x.size.c / self.groups;
        let group_of = |at: usize, channel: usize| at / x.size.len() * self.groups + channel / width;
        let variances = self.means(x, |at, channel| {
            let difference = x.data[at] - means[group_of(at, channel)][0] as f32;
            [difference * difference]
        });
        // The square of a large difference overflows. Divided by an infinite variance, all values would become equal: an
        // overflow must not look like a result.
        let inverse = |variance: f32| match variance.is_finite() {
            true => 1.0 / (variance + self.epsilon).sqrt(),
            false => f32::NAN,
        };
        let moments: Moments = means
            .iter()
            .zip(&variances)
            .map(|([mean], [variance])| [*mean as f32, inverse(*variance as f32)])
            .collect();
        let output = self.each(x, |at, channel, group| {
            let [mean, inverse] = moments[group];
            (x.data[at] - mean) * inverse * self.scale[channel] + self.shift[channel]
        });
        (output, moments)
    }

    /// Returns the gradient at the input `x`. `gather` is called for each value with its channel and the terms to add
    /// to the gradients of the channel's scale and shift.
    pub fn backward(
        &self,
        x: &Planes,
        moments: &Moments,
        gradient: &Planes,
        gather: Option<impl FnMut(usize, f32, f32)>,
    ) -> Planes {
        let (c, len) = (x.size.c, x.size.len());
        let width = c / self.groups;
        let normalized = |at: usize, group: usize| (x.data[at] - moments[group][0]) * moments[group][1];
        if let Some(mut gather) = gather {
            for (at, g) in gradient.data.iter().enumerate() {
                let channel = at % c;
                gather(channel, g * normalized(at, at / len * self.groups + channel / width), *g);
            }
        }
        let means = self.means(x, |at, channel| {
            let along = gradient.data[at] * self.scale[channel];
            [along, along * normalized(at, at / len * self.groups + channel / width)]
        });
        self.each(x, |at, channel, group| {
            let [mean, along] = means[group].map(|m| m as f32);
            (gradient.data[at] * self.scale[channel] - mean - normalized(at, group) * along) * moments[group][1]
        })
    }
}
