//! Spectral normalization (Miyato, Kataoka, Koyama and Yoshida, 2018): a convolution whose weight is divided by its
//! largest singular value σ.
//!
//! The weight `[out, in, k, k]` is treated as a matrix W with `out` rows. A vector u, which estimates the first left
//! singular vector, is stored with the weights and not trained. σ = ‖Wᵀu‖, whose gradient with respect to W is u vᵀ
//! with v = Wᵀu / σ, as in the paper. [`Autoencoder::power_iteration`](super::Autoencoder::power_iteration) updates u;
//! applying the layer does not, so that the energy of a frozen network is a function of its input alone.

use burn::module::{Module, Param};
use burn::nn::conv::Conv2d;
use burn::tensor::{Device, Tensor};
use rand::Rng;

use super::init::uniform;

/// The number of power iterations on new weights.
const INITIAL_STEPS: usize = 15;
/// The least divisor of a normalization.
const SMALLEST: f32 = 1e-12;

/// A convolution with spectral normalization.
#[derive(Module, Debug)]
pub struct SpectralConv {
    /// The convolution, with its weight before the division.
    pub conv: Conv2d,
    /// The estimate u of the first left singular vector, of norm 1, `[out]`.
    estimate: Param<Tensor<1>>,
}

impl SpectralConv {
    /// Wraps `conv`, with an estimate that starts at random.
    pub(super) fn new(conv: Conv2d, rng: &mut impl Rng, device: &Device) -> Self {
        let estimate = uniform([conv.weight.dims()[0]], 1.0, rng, device).set_require_grad(false);
        (0..INITIAL_STEPS).fold(Self { conv, estimate }, |layer, _| layer.power_iteration())
    }

    /// Applies the convolution with the normalized weight.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        // The clone shares its tensors; only the weight is replaced, for this pass.
        let conv = Conv2d { weight: Param::initialized(self.conv.weight.id, self.weight()), ..self.conv.clone() };
        conv.forward(x)
    }

    /// The normalized weight W / σ, which the convolution uses.
    pub fn weight(&self) -> Tensor<4> {
        self.conv.weight.val() / self.sigma().reshape([1, 1, 1, 1])
    }

    /// The estimate u of the first left singular vector, `[out]`.
    pub fn estimate(&self) -> Tensor<1> {
        self.estimate.val().without_autodiff()
    }

    /// The estimate of the largest singular value, `[1]`.
    pub fn sigma(&self) -> Tensor<1> {
        let u = self.estimate.val().without_autodiff();
        norm(u.unsqueeze_dim::<2>(0).matmul(matrix(self.conv.weight.val())))
    }

    /// Makes one step of power iteration: v = Wᵀu / ‖Wᵀu‖, then u = Wv / ‖Wv‖.
    pub(super) fn power_iteration(self) -> Self {
        let weight = matrix(self.conv.weight.val().without_autodiff());
        let estimate = self.estimate.map(|u| {
            let v = u.unsqueeze_dim::<2>(0).matmul(weight.clone());
            let v = v.clone() / norm(v).reshape([1, 1]);
            let u = v.matmul(weight.transpose());
            (u.clone() / norm(u).reshape([1, 1])).squeeze_dim::<1>(0).detach()
        });
        Self { conv: self.conv, estimate: estimate.set_require_grad(false) }
    }
}

fn matrix(weight: Tensor<4>) -> Tensor<2> {
    let [out, inp, rows, columns] = weight.dims();
    weight.reshape([out, inp * rows * columns])
}

fn norm(x: Tensor<2>) -> Tensor<1> {
    (x.clone() * x).sum().sqrt().clamp_min(SMALLEST)
}

#[cfg(test)]
mod tests {
    use burn::module::{ModuleMapper, ModuleVisitor};
    use burn::nn::conv::Conv2dConfig;
    use burn::optim::GradientsParams;
    use burn::tensor::{FloatDType, TensorData};
    use rand::SeedableRng as _;

    use super::*;
    use crate::arch::graph::values;

    fn layer(weight: Vec<f32>, shape: [usize; 4], device: &Device) -> SpectralConv {
        let mut conv = Conv2dConfig::new([shape[1], shape[0]], [shape[2], shape[3]]).init(device);
        conv.weight = Param::from_data(TensorData::new(weight, shape), device);
        SpectralConv::new(conv, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1), device)
    }

    fn random(shape: [usize; 4], device: &Device) -> SpectralConv {
        let n = shape.iter().product::<usize>();
        layer((0..n).map(|i| (i as f32 * 12.9898).sin() * 0.7).collect(), shape, device)
    }

    /// The largest singular value of `[rows, columns]` in float64, with as many steps as needed.
    fn largest_singular_value(matrix: &[f32], rows: usize) -> f64 {
        let columns = matrix.len() / rows;
        let matrix: Vec<f64> = matrix.iter().map(|&v| f64::from(v)).collect();
        let mut v = vec![1.0; columns];
        let mut sigma = 0.0;
        for _ in 0..2000 {
            let u: Vec<f64> = matrix.chunks(columns).map(|row| row.iter().zip(&v).map(|(a, b)| a * b).sum()).collect();
            let mut next = vec![0.0; columns];
            for (row, u) in matrix.chunks(columns).zip(&u) {
                next.iter_mut().zip(row).for_each(|(n, a)| *n += a * u);
            }
            let norm = next.iter().map(|x| x * x).sum::<f64>().sqrt();
            sigma = norm.sqrt();
            v = next.iter().map(|x| x / norm).collect();
        }
        sigma
    }

    #[test]
    fn a_known_matrix() {
        // [[3, 0], [0, -1], [4, 0]] has the singular values 5 and 1.
        let layer = layer(vec![3.0, 0.0, 0.0, -1.0, 4.0, 0.0], [3, 2, 1, 1], &Device::flex());
        assert!((layer.sigma().into_scalar::<f32>() - 5.0).abs() < 1e-5);
        let weight = values(layer.weight());
        for (found, expected) in weight.iter().zip([0.6, 0.0, 0.0, -0.2, 0.8, 0.0]) {
            assert!((found - expected).abs() < 1e-6, "{weight:?}");
        }
    }

    #[test]
    fn steps_approach_the_largest_singular_value_from_below() {
        let mut layer = random([12, 5, 3, 3], &Device::flex());
        let expected = largest_singular_value(&values(layer.conv.weight.val()), 12);
        let mut last = 0.0;
        for _ in 0..200 {
            let sigma = f64::from(layer.sigma().into_scalar::<f32>());
            assert!(sigma >= last - 1e-5 && sigma <= expected + 1e-5, "{last} {sigma} {expected}");
            last = sigma;
            layer = layer.power_iteration();
        }
        assert!((last / expected - 1.0).abs() < 1e-5, "{last} {expected}");
        assert!((largest_singular_value(&values(layer.weight()), 12) - 1.0).abs() < 1e-5);
    }

    /// Compares the gradient through the division, with constant u, with differences in float64.
    #[test]
    fn the_weights_gradient_goes_through_sigma() {
        struct Double;
        impl ModuleMapper for Double {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                param.map(|value| Tensor::from_inner(value.inner().cast(FloatDType::F64)).require_grad())
            }
        }
        let layer = random([4, 2, 3, 3], &Device::flex().autodiff()).map(&mut Double);
        let shape = layer.conv.weight.dims();
        let n: usize = shape.iter().product();
        let pattern: Vec<f32> = (0..n).map(|i| (i as f32 * 3.1).cos()).collect();
        let pattern = Tensor::<4>::from_data(TensorData::new(pattern, shape), &Device::flex()).cast(FloatDType::F64);
        let f = |layer: &SpectralConv| (layer.weight() * pattern.clone().autodiff()).sum();
        let mut gradients = f(&layer).backward();
        let gradient = layer.conv.weight.val().grad_remove(&mut gradients).expect("the weight is tracked");
        let gradient: Vec<f64> = gradient.into_data().try_into_vec().expect("float64");
        for (at, expected) in gradient.into_iter().enumerate() {
            let moved = |by: f64| -> f64 {
                let mut one = vec![0.0f32; n];
                one[at] = 1.0;
                let one = Tensor::<4>::from_data(TensorData::new(one, shape), &Device::flex()).cast(FloatDType::F64);
                let mut layer = layer.clone();
                layer.conv.weight =
                    layer.conv.weight.map(|w| Tensor::from_inner(w.inner() + one.mul_scalar(by)).require_grad());
                f(&layer).into_scalar::<f64>()
            };
            let found = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((found - expected).abs() < 1e-7, "{at}: {found} {expected}");
        }
    }

    #[test]
    fn the_estimate_is_stored_and_not_trained() {
        #[derive(Default)]
        struct Count(usize);
        impl ModuleVisitor for Count {
            fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<D>>) {
                self.0 += 1;
            }
        }
        let layer = random([4, 2, 3, 3], &Device::flex().autodiff());
        let mut count = Count::default();
        layer.visit(&mut count);
        assert_eq!(count.0, 3, "weight, bias, estimate");
        let x = Tensor::<4>::ones([1, 2, 3, 3], &Device::flex()).autodiff();
        let gradients = GradientsParams::from_grads(layer.forward(x.clone()).sum().backward(), &layer);
        assert_eq!(gradients.len(), 2);
        // Applying the layer does not change the estimate; a step of power iteration does.
        let before = values(layer.estimate.val());
        layer.forward(x);
        assert_eq!(values(layer.estimate.val()), before);
        assert_ne!(values(layer.power_iteration().estimate.val()), before);
    }
}
