//! Adam's step for one tensor: on the CPU in one pass over weights, gradient and moments, on other devices with burn.
//!
//! burn's step consists of a dozen operations, each of which is a separate pass. Also, its moments of weights without a
//! gradient decay to the smallest subnormal number and stay there, since nine tenths of it are rounded to it; some
//! processors take a hundred times as long for such numbers. Together these took a quarter of pre-training. The stored
//! state is burn's [`AdamState`].

use burn::optim::{self, AdamConfig, AdamState, AdaptiveMomentumState, Optimizer};
use burn::tensor::{DType, Device, Tensor};
use nae_simd::zero_below;

use super::optimizer::{BETA_2, EPSILON};
use crate::device::on_processor;

/// 2⁻⁵⁸: smaller gradients are treated as zero. Such a gradient would move a weight by less than a billionth of the
/// learning rate, since [`EPSILON`] is 1e-8. The contribution of a gradient of this size to the second moment is the
/// least number that is not subnormal.
const NEGLIGIBLE: f32 = 1.0 / (1u64 << 58) as f32;

/// Adam with a given β₁ and PyTorch's other constants.
#[derive(Clone)]
pub(super) struct Adam {
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
    by_burn: optim::Adam,
}

impl Adam {
    pub(super) fn new(beta_1: f64) -> Self {
        let (beta_1, beta_2, epsilon) = (beta_1 as f32, BETA_2 as f32, EPSILON as f32);
        let by_burn = AdamConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(epsilon).build();
        Self { beta_1, beta_2, epsilon, by_burn }
    }

    /// Makes step number `time`, counted from 1, in place and in burn's order of operations.
    fn descend(
        &self,
        rate: f32,
        time: usize,
        weights: &mut [f32],
        gradient: &[f32],
        means: &mut [f32],
        variances: &mut [f32],
    ) {
        let time = i32::try_from(time).unwrap_or(i32::MAX);
        let root = (1.0 - self.beta_2.powi(time)).sqrt();
        let (scale, epsilon) = (root / (1.0 - self.beta_1.powi(time)), self.epsilon * root);
        let (rest_1, rest_2) = (1.0 - self.beta_1, 1.0 - self.beta_2);
        for (((weight, &g), mean), variance) in weights.iter_mut().zip(gradient).zip(means).zip(variances) {
            let g = zero_below(NEGLIGIBLE, g);
            *mean = zero_below(f32::MIN_POSITIVE, *mean * self.beta_1 + g * rest_1);
            *variance = zero_below(f32::MIN_POSITIVE, *variance * self.beta_2 + g * g * rest_2);
            *weight -= *mean * scale / (variance.sqrt() + epsilon) * rate;
        }
    }
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        rate: f64,
        weights: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let device = weights.device();
        if !on_processor(&device) || weights.dtype() != DType::F32 {
            return self.by_burn.step(rate, weights, gradient, state);
        }
        let AdaptiveMomentumState { time, moment_1, moment_2, max_moment_2 } = match state {
            Some(state) => state.momentum,
            None => AdaptiveMomentumState::new(0, gradient.zeros_like(), gradient.zeros_like()),
        };
        let time = time.saturating_add(1);
        let mut data = [weights, moment_1, moment_2].map(Tensor::into_data);
        let gradient = gradient.into_data();
        const F32: &str = "the weights were checked to be f32, gradients are like them, and `Optimizer::restore` rejects moments of \
                           another type";
        let [weights, means, variances] = data.each_mut().map(|data| data.as_mut_slice().expect(F32));
        self.descend(rate as f32, time, weights, gradient.as_slice().expect(F32), means, variances);
        let [weights, moment_1, moment_2] = data.map(|data| Tensor::from_data(data, &device));
        let momentum = AdaptiveMomentumState { time, moment_1, moment_2, max_moment_2 };
        (weights, Some(AdamState::new(momentum)))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        optim::Adam::to_device(state, device)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{FloatDType, TensorData};
    use proptest::prelude::*;

    use super::*;

    fn tensor(values: &[f32]) -> Tensor<2> {
        Tensor::from_data(TensorData::new(values.to_vec(), [1, values.len()]), &Device::flex())
    }

    fn values(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().try_into_vec().expect("f32")
    }

    fn moments(state: Option<AdamState<2>>) -> (usize, [Vec<f32>; 2]) {
        let AdaptiveMomentumState { time, moment_1, moment_2, .. } = state.expect("a state").momentum;
        (time, [moment_1, moment_2].map(values))
    }

    proptest! {
        /// Also if a gradient is not finite, which only affects its own weight.
        #[test]
        fn a_step_is_burns(
            start in prop::collection::vec(-2.0f32..2.0, 37),
            gradients in prop::collection::vec(prop::collection::vec(-3.0f32..3.0, 37), 1..5),
            beta_1 in prop::sample::select(vec![0.5, 0.9]),
            nan in 0..37usize,
        ) {
            let ours = Adam::new(beta_1);
            let mut of_ours = (tensor(&start), None);
            let mut of_burn = of_ours.clone();
            for mut gradient in gradients {
                if nan % 5 == 0 {
                    gradient[nan] = f32::NAN;
                }
                of_ours = ours.step(1e-2, of_ours.0, tensor(&gradient), of_ours.1);
                of_burn = ours.by_burn.step(1e-2, of_burn.0, tensor(&gradient), of_burn.1);
            }
            let bit = |v: f32| (!v.is_nan()).then_some(v.to_bits());
            let bits = |values: Vec<f32>| values.into_iter().map(bit).collect::<Vec<_>>();
            prop_assert_eq!(bits(values(of_ours.0)), bits(values(of_burn.0)));
            let (ours, burns) = (moments(of_ours.1), moments(of_burn.1));
            prop_assert_eq!(ours.0, burns.0);
            prop_assert_eq!(ours.1.map(bits), burns.1.map(bits));
        }
    }

    #[test]
    fn other_types_are_left_to_burn() {
        let wide = |values: &[f32]| tensor(values).cast(FloatDType::F64);
        let adam = Adam::new(0.9);
        let (weights, state) = adam.step(1e-3, wide(&[1.0, 2.0]), wide(&[3.0, -4.0]), None);
        assert_eq!(weights.dtype(), DType::F64);
        let (expected, _) = adam.by_burn.step(1e-3, wide(&[1.0, 2.0]), wide(&[3.0, -4.0]), None);
        assert_eq!(weights.into_data(), expected.into_data());
        assert_eq!(state.expect("a state").momentum.moment_2.dtype(), DType::F64);
    }

    /// The gradients become zero after some steps: their moments do not become subnormal, and the weight stays close to
    /// burn's.
    #[test]
    fn moments_of_a_weight_without_gradient_end_at_zero() {
        let adam = Adam::new(0.9);
        let mut of_ours = (tensor(&[1.0, 1.0, 1.0]), None);
        let mut of_burn = of_ours.clone();
        for step in 0..1200 {
            let gradient = tensor(&if step == 0 { [1e-17, 1e-19, 1.0] } else { [0.0, 1e-20, 0.0] });
            of_ours = adam.step(1e-3, of_ours.0, gradient.clone(), of_ours.1);
            of_burn = adam.by_burn.step(1e-3, of_burn.0, gradient, of_burn.1);
            let (_, moments) = moments(of_ours.1.clone());
            assert!(!moments.iter().flatten().any(|m| m.is_subnormal()), "{step}: {moments:?}");
        }
        let (time, [means, variances]) = moments(of_ours.1);
        assert_eq!((time, means), (1200, vec![0.0; 3]));
        assert_eq!(variances[1], 0.0);
        assert!((2e-4..1e-3).contains(&variances[2]), "{variances:?}");
        assert!(
            moments(of_burn.1).1[0].iter().any(|mean| mean.is_subnormal()),
            "burn's moments do not become subnormal any more"
        );
        assert_eq!(values(of_ours.0), values(of_burn.0));
    }
}
