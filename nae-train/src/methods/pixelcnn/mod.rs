//! PixelCNN++ (Salimans et al., ICLR 2017): the probability of an image as a product over its pixels, each conditional
//! on those before it. It is not an autoencoder; it only uses the image shape of a preset's network.
//!
//! `network` computes the parameters of a pixel's distribution, `logistics` is that distribution. Convolutions have no
//! weight normalization, unlike in the implementation that the paper refers to; as there, images of one channel and of
//! three are scaled to [−1, 1], and a mixture has ten components.

mod logistics;
mod network;

use std::path::Path;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use rand::{Rng, RngExt as _};

use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::gradients::{BatchLoss, sharded};
use super::{Decision, Model, UpdateFigures};
use crate::arch::Autoencoder;
use crate::arch::checkpoint::{self, CheckpointError};
use crate::config::Pretraining;
use crate::config::methods::Autoregressive;
use crate::sample::NoiseSource;
use crate::shard;
use network::{Dropout, Network};

/// A distribution of images of bytes.
#[derive(Module, Debug)]
pub struct PixelCnn {
    network: Network,
}

impl PixelCnn {
    /// Makes a model for images of `image`, whose sides must be multiples of four, with weights drawn from `rng`.
    pub fn new(image: Shape, settings: Autoregressive, rng: &mut impl Rng, device: &Device) -> Self {
        let Autoregressive { blocks, filters } = settings;
        let outputs = logistics::parameters(image.channels);
        Self { network: Network::new(image.channels, outputs, blocks, filters, rng, device) }
    }

    /// A model to load weights into, on the autodiff form of `device`.
    pub(super) fn blank(image: Shape, settings: Autoregressive, device: &Device) -> Self {
        // All drawn weights are replaced, so the seed does not matter.
        Self::new(image, settings, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
    }

    /// log p for each pixel given those before it, row by row, for `x` `[N, C, H, W]` in [0, 1], rounded to the nearest
    /// byte: `[N, H·W]`.
    fn log_probabilities(&self, x: Tensor<4>, dropout: &mut Dropout) -> Tensor<2> {
        let x = x.clamp(0.0, 1.0).mul_scalar(255.0).round().div_scalar(127.5).sub_scalar(1.0);
        let parameters = self.network.forward(x.clone(), dropout);
        logistics::log_probabilities(x, parameters)
    }

    /// −log₂ p divided by the number of values: `[N]`.
    fn bits(&self, x: Tensor<4>, dropout: &mut Dropout) -> Tensor<1> {
        let [n, c, h, w] = x.dims();
        let logs = self.log_probabilities(x, dropout).sum_dim(1).reshape([n]);
        logs.div_scalar(-std::f64::consts::LN_2 * (c * h * w) as f64)
    }

    /// The bits per dimension of each sample of `x` `[N, C, H, W]` in [0, 1]: `[N]`.
    fn bits_per_dimension(&self, x: Tensor<4>) -> Tensor<1> {
        self.bits(x, &mut Dropout(None))
    }
}

impl Model for PixelCnn {
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::NegativeLogLikelihood]
    }

    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        self.valid().bits_per_dimension(x)
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// Trains on the likelihood; burn computes the gradient.
pub(crate) type PixelCnnMethod = GradientMethod<PixelLikelihood>;

/// The bits per dimension. The state kept between updates is the source of dropout.
pub(crate) struct PixelLikelihood;

impl PixelCnnMethod {
    /// Starts from the state `model`; dropout is drawn from `dropout`.
    pub(crate) fn new(model: PixelCnn, pretraining: Pretraining, dropout: NoiseSource) -> Self {
        Self::begin(PixelLikelihood, model, dropout, pretraining)
    }
}

/// Returns the gradient of the mean bits per dimension, and these bits.
fn gradients(dropout: &mut NoiseSource, model: &PixelCnn, x: Tensor<4>) -> (GradientsParams, UpdateFigures) {
    // Each shard has its own source, so that the result does not depend on the number of threads.
    let seed = dropout.rng().random();
    let with_source = |(index, x): (usize, Tensor<4>)| (x.dims()[0], (x, NoiseSource::new(seed, index as u64)));
    let shards = shard::shards(x).into_iter().enumerate().map(with_source).collect();
    sharded(model, shards, |model, (x, source): (Tensor<4>, NoiseSource)| {
        let bits = model.bits(x.autodiff(), &mut Dropout(Some(source))).mean();
        BatchLoss { loss: bits.clone(), report: vec![("bits_per_dimension", bits)] }
    })
}

impl Objective for PixelLikelihood {
    type Model = PixelCnn;
    type Kept = NoiseSource;

    fn update(
        &self,
        dropout: &mut NoiseSource,
        model: PixelCnn,
        x: Tensor<4>,
        step: OptimizerStep<'_>,
    ) -> (PixelCnn, UpdateFigures) {
        let (gradients, figures) = gradients(dropout, &model, x);
        (step.along(gradients, model), figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::Method as _;
    use crate::methods::finite_differences::wide;

    const SETTINGS: Autoregressive = Autoregressive { blocks: 1, filters: 4 };

    fn model(channels: usize, sides: [usize; 2]) -> PixelCnn {
        let image = Shape::new(channels, sides[0], sides[1]);
        PixelCnn::new(image, SETTINGS, NoiseSource::new(0, 0).rng(), &Device::flex().autodiff())
    }

    /// One pixel is changed at a time, in all its channels: the distributions of pixels before it, and its own, do not
    /// change; those of its following neighbours, to the right and below, do.
    #[test]
    fn a_pixel_depends_on_those_before_it_alone() {
        let (height, width) = (8, 12);
        let model = model(3, [height, width]).valid();
        let x = NoiseSource::new(1, 0).uniform::<4>([1, 3, height, width], &Device::flex());
        let outputs = |x: Tensor<4>| wide(model.network.forward(x, &mut Dropout(None)).permute([0, 2, 3, 1]));
        let before = outputs(x.clone());
        let each = before.len() / (height * width);
        for pixel in 0..height * width {
            let (row, column) = (pixel / width, pixel % width);
            let patch = x.clone().narrow(2, row, 1).narrow(3, column, 1).add_scalar(0.7);
            let changed = x.clone().slice_assign([0..1, 0..3, row..row + 1, column..column + 1], patch);
            let after = outputs(changed);
            let moved = |at: usize| {
                let span = at * each..(at + 1) * each;
                before[span.clone()].iter().zip(&after[span]).any(|(a, b)| (a - b).abs() > 1e-7)
            };
            assert!((0..=pixel).all(|at| !moved(at)), "{row}, {column}");
            if column + 1 < width {
                assert!(moved(pixel + 1), "to the right of {row}, {column}");
            }
            if row + 1 < height {
                assert!(moved(pixel + width), "below {row}, {column}");
            }
        }
    }

    /// The probabilities of all bytes of one pixel, given the others, sum to 1, at the corners and in the centre.
    #[test]
    fn the_probabilities_of_a_pixel_sum_to_one() {
        let model = model(1, [8, 8]).valid();
        let x = NoiseSource::new(1, 0).uniform::<4>([1, 1, 8, 8], &Device::flex());
        for pixel in [0, 27, 63] {
            let levels: Vec<f32> = (0..256).map(|k| k as f32 / 255.0).collect();
            let levels = burn::tensor::TensorData::new(levels, [256, 1, 1, 1]);
            let levels = Tensor::<4>::from_data(levels, &Device::flex());
            let (row, column) = (pixel / 8, pixel % 8);
            let all = x.clone().repeat_dim(0, 256);
            let all = all.slice_assign([0..256, 0..1, row..row + 1, column..column + 1], levels);
            let logs = wide(model.log_probabilities(all, &mut Dropout(None)));
            let sum: f64 = logs.chunks(64).map(|image| image[pixel].exp()).sum();
            assert!((sum - 1.0).abs() < 2e-3, "{pixel}: {sum}");
        }
    }

    /// The likelihoods of all 256² images that differ in their last two pixels sum to the probability of the other pixels,
    /// which no image's last two pixels change. Trained, so that each pixel's distribution depends on the one before it.
    #[test]
    fn the_likelihoods_of_images_sum_to_the_probability_of_their_beginning() {
        let mut method = PixelCnnMethod::new(model(1, [4, 4]), Pretraining::new(1, 32, 1e-2), NoiseSource::new(4, 0));
        let mut source = NoiseSource::new(6, 0);
        for _ in 0..40 {
            // The pixels of an image are alike.
            let level = source.uniform::<4>([32, 1, 1, 1], &Device::flex());
            method.update(level.repeat_dim(2, 4).repeat_dim(3, 4));
        }
        let model = method.model.valid();
        let levels: Vec<f32> = (0..256).map(|k| k as f32 / 255.0).collect();
        let beginning = NoiseSource::new(1, 0).uniform::<1>([14], &Device::flex()).into_data();
        let beginning: Vec<f32> = beginning.iter::<f32>().collect();
        let (mut sum, mut of_beginning, mut means) = (0.0, Vec::new(), Vec::new());
        for &first in &levels {
            let images: Vec<f32> =
                levels.iter().flat_map(|&last| beginning.iter().copied().chain([first, last])).collect();
            let images = Tensor::<4>::from_data(burn::tensor::TensorData::new(images, [256, 1, 4, 4]), &Device::flex());
            let logs = wide(model.log_probabilities(images, &mut Dropout(None)));
            sum += logs.chunks(16).map(|image| image.iter().sum::<f64>().exp()).sum::<f64>();
            of_beginning.extend(logs.chunks(16).map(|image| image[..14].iter().sum::<f64>()));
            means.push(
                logs.chunks(16).zip(&levels).map(|(image, &level)| image[15].exp() * f64::from(level)).sum::<f64>(),
            );
        }
        let expected = of_beginning[0];
        assert!(of_beginning.iter().all(|log| (log - expected).abs() < 1e-4), "{expected}");
        assert!((sum.ln() - expected).abs() < 2e-3, "{sum:e} against {:e}", expected.exp());
        let [least, most] = [f64::min, f64::max].map(|of| means.iter().copied().reduce(of).expect("there are means"));
        assert!(most - least > 0.05, "the last pixel does not depend on the one before it: {least} to {most}");
    }

    /// The bits are the sum of the pixels' logarithms divided by the number of values; training drops other halves each
    /// time.
    #[test]
    fn bits_are_those_of_all_pixels() {
        let model = model(1, [8, 8]).valid();
        let x = NoiseSource::new(1, 0).uniform::<4>([3, 1, 8, 8], &Device::flex());
        let logs = wide(model.log_probabilities(x.clone(), &mut Dropout(None)));
        let bits = wide(model.decide(Decision::NegativeLogLikelihood, x.clone()));
        for (bits, logs) in bits.iter().zip(logs.chunks(64)) {
            let expected = -logs.iter().sum::<f64>() / (64.0 * 2f64.ln());
            assert!((bits - expected).abs() < 1e-4, "{bits} against {expected}");
        }
        let with = |seed| wide(model.bits(x.clone(), &mut Dropout(Some(NoiseSource::new(seed, 0)))))[0];
        assert!((with(1) - bits[0]).abs() > 1e-6 && (with(1) - with(2)).abs() > 1e-6 && with(1) == with(1));
    }

    /// All images have the same upper half, which is learned and then needs hardly any bits.
    #[test]
    fn it_learns_what_is_alike() {
        let mut method = PixelCnnMethod::new(model(1, [8, 8]), Pretraining::new(1, 16, 1e-2), NoiseSource::new(4, 0));
        let mut source = NoiseSource::new(6, 0);
        let mut images = || {
            let drawn = source.uniform::<4>([16, 1, 4, 8], &Device::flex());
            Tensor::cat(vec![drawn.zeros_like().add_scalar(0.25), drawn], 2)
        };
        for _ in 0..60 {
            method.update(images());
        }
        let logs = wide(method.model.valid().log_probabilities(images(), &mut Dropout(None)));
        let bits = |pixels: std::ops::Range<usize>| {
            -logs.chunks(64).map(|image| image[pixels.clone()].iter().sum::<f64>()).sum::<f64>()
                / (16.0 * 32.0 * 2f64.ln())
        };
        let (alike, noise) = (bits(0..32), bits(32..64));
        // Uniform bytes have eight bits.
        assert!(alike < 5.0 && noise > 7.5 && noise < 9.5, "{alike}, {noise}");
    }
}
