//! Gradients of a loss by burn's automatic differentiation, with shards of the batch in parallel; their norm, and their
//! division between encoder and decoder.
//!
//! Losses that are means over samples are sharded: the batch's gradient is the mean of its shards' gradients weighted
//! by their sizes, summed in order, so that the result does not depend on the number of threads.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::Tensor;

use super::UpdateFigures;
use crate::shard;

/// The loss `[1]` of a batch or a shard, and figures to report, `[1]` each.
pub(crate) struct BatchLoss {
    /// The quantity that is minimized.
    pub loss: Tensor<1>,
    /// The figures with their names.
    pub report: Vec<(&'static str, Tensor<1>)>,
}

/// Converts a loss's report to numbers.
pub(super) fn figures(report: Vec<(&'static str, Tensor<1>)>) -> UpdateFigures {
    UpdateFigures::new(report.into_iter().map(|(name, value)| (name, f64::from(value.inner().into_scalar::<f32>()))))
}

/// Returns the gradients of the mean loss over `shards`, each given with its number of samples, and the means of the
/// reports.
pub(crate) fn sharded<M: Module + Sync, S: Send>(
    model: &M,
    shards: Vec<(usize, S)>,
    loss: impl Fn(&M, S) -> BatchLoss + Sync,
) -> (GradientsParams, UpdateFigures) {
    let samples: usize = shards.iter().map(|(count, _)| count).sum();
    let device = model.devices().remove(0);
    let parts: Vec<(GradientsParams, f64, UpdateFigures)> = shard::map(shards, |(count, shard)| {
        let weight = count as f64 / samples as f64;
        // Weights shared between shards would connect their graphs, which makes burn deadlock.
        let model = model.clone().fork(&device);
        let BatchLoss { loss, report } = loss(&model, shard);
        (GradientsParams::from_grads(loss.mul_scalar(weight).backward(), &model), weight, figures(report))
    });
    let mut gradients = GradientsAccumulator::new();
    let mut means = UpdateFigures::default();
    for (part, weight, report) in parts {
        gradients.accumulate(model, part);
        means.add(&report, weight);
    }
    (gradients.grads(), means)
}

/// Removes the gradients of the parameters of `module` from `gradients` and returns them.
pub(crate) fn take(module: &impl Module, gradients: &mut GradientsParams) -> GradientsParams {
    struct Take<'a> {
        from: &'a mut GradientsParams,
        into: GradientsParams,
    }
    impl ModuleVisitor for Take<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.from.remove::<D>(param.id) {
                self.into.register(param.id, gradient);
            }
        }
    }
    let mut take = Take { from: gradients, into: GradientsParams::new() };
    module.visit(&mut take);
    take.into
}

/// Adds the gradient of c·‖w‖² over the parameters of `module`.
pub(crate) fn add_l2(module: &impl Module, c: f32, gradients: &mut GradientsParams) {
    struct Add<'a>(f32, &'a mut GradientsParams);
    impl ModuleVisitor for Add<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.1.remove::<D>(param.id) {
                self.1.register(param.id, gradient + param.val().inner().mul_scalar(self.0));
            }
        }
    }
    if c > 0.0 {
        module.visit(&mut Add(2.0 * c, gradients));
    }
}

/// Scales `gradients` of the parameters of `module` so that their common L2 norm is at most `max_norm`.
pub(crate) fn clip_norm(module: &impl Module, gradients: &mut GradientsParams, max_norm: f64) {
    struct SumOfSquares<'a>(&'a GradientsParams, f64);
    impl ModuleVisitor for SumOfSquares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id) {
                self.1 += f64::from((gradient.clone() * gradient).sum().into_scalar::<f32>());
            }
        }
    }
    struct Scale<'a>(&'a mut GradientsParams, f64);
    impl ModuleVisitor for Scale<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.remove::<D>(param.id) {
                self.0.register(param.id, gradient.mul_scalar(self.1));
            }
        }
    }
    let mut sum = SumOfSquares(gradients, 0.0);
    module.visit(&mut sum);
    let norm = sum.1.sqrt();
    if norm > max_norm {
        module.visit(&mut Scale(gradients, max_norm / norm));
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::arch::{Autoencoder, LatentSpace, small_conv::small_conv16};
    use crate::sample::NoiseSource;

    fn norm(module: &impl Module, gradients: &mut GradientsParams) -> f64 {
        struct Norm<'a>(&'a GradientsParams, f64);
        impl ModuleVisitor for Norm<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let gradient = self.0.get::<D>(param.id).expect("every parameter has one");
                self.1 += gradient.into_data().iter::<f32>().map(|g| f64::from(g * g)).sum::<f64>();
            }
        }
        let mut norm = Norm(gradients, 0.0);
        module.visit(&mut norm);
        norm.1.sqrt()
    }

    /// The added gradient of the penalty equals that of automatic differentiation of the loss with the penalty; the
    /// decoder gets none of it.
    #[test]
    fn the_added_penalty_is_the_one_differentiated() {
        struct Squares(Tensor<1>);
        impl ModuleVisitor for Squares {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0 = self.0.clone() + param.val().square().sum();
            }
        }
        let device = Device::flex();
        let spec = small_conv16(1, 2, 4, LatentSpace::Sphere).expect("valid");
        let model = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        let x = NoiseSource::new(1, 0).uniform::<4>([3, 1, 16, 16], &device);
        let gradients = |c: f32| {
            let loss = crate::methods::autoencoder::loss(&model, x.clone().autodiff());
            let mut squares = Squares(loss.zeros_like());
            model.encoder.visit(&mut squares);
            GradientsParams::from_grads((loss + squares.0.mul_scalar(c)).backward(), &model)
        };
        let (mut differentiated, mut added, mut plain) = (gradients(0.1), gradients(0.0), gradients(0.0));
        add_l2(&model.encoder, 0.1, &mut added);
        struct Compare<'a>(&'a mut GradientsParams, &'a mut GradientsParams, f32);
        impl ModuleVisitor for Compare<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let values = |from: &mut GradientsParams| {
                    from.get::<D>(param.id)
                        .expect("every parameter has one")
                        .into_data()
                        .iter::<f32>()
                        .collect::<Vec<_>>()
                };
                for (a, b) in values(self.0).iter().zip(values(self.1)) {
                    self.2 = self.2.max((a - b).abs());
                }
            }
        }
        let mut difference = |module: &crate::arch::layer::Sequential, with: &mut GradientsParams| {
            let mut compare = Compare(&mut differentiated, with, 0.0);
            module.visit(&mut compare);
            compare.2
        };
        assert!(difference(&model.encoder, &mut added) < 1e-6 && difference(&model.decoder, &mut added) < 1e-6);
        assert!(difference(&model.encoder, &mut plain) > 1e-3, "the penalty is there at all");
    }

    #[test]
    fn the_norm_is_that_of_all_parameters_together() {
        let device = Device::flex();
        let spec = small_conv16(1, 2, 4, LatentSpace::Sphere).expect("valid");
        let model = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        let x = NoiseSource::new(1, 0).uniform::<4>([3, 1, 16, 16], &device);
        let gradients = || {
            let loss = |model: &Autoencoder, x: Tensor<4>| BatchLoss {
                loss: crate::methods::autoencoder::loss(model, x.autodiff()),
                report: Vec::new(),
            };
            sharded(&model, vec![(3, x.clone())], loss).0
        };
        let mut whole = gradients();
        let before = norm(&model, &mut whole);
        clip_norm(&model, &mut whole, 2.0 * before);
        assert_eq!(norm(&model, &mut whole), before, "what is short enough stays");
        clip_norm(&model, &mut whole, 0.1 * before);
        assert!((norm(&model, &mut whole) / before - 0.1).abs() < 1e-5);

        let mut rest = gradients();
        let mut encoder = take(&model.encoder, &mut rest);
        let (e, d) = (norm(&model.encoder, &mut encoder), norm(&model.decoder, &mut rest));
        assert!(((e * e + d * d).sqrt() / before - 1.0).abs() < 1e-5);
        assert!(take(&model.encoder, &mut rest).is_empty());
    }
}
