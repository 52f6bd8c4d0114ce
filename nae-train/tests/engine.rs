//! The CPU engine against burn: the same energies, input gradients and weight gradients.
#![allow(clippy::unwrap_used)]

use burn::module::Module as _;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use nae_train::arch::conv28::conv28;
use nae_train::arch::small_conv::{small_conv, small_conv16};
use nae_train::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use nae_train::energy::energy;
use nae_train::engine::{CpuEngine, supports};
use nae_train::sample::{BurnFrozen, FrozenEnergy, NoiseSource};
use rand::SeedableRng as _;

/// Fresh weights make almost nothing but x of the gradient; trained ones are larger.
const SCALE: f32 = 2.0;

fn model(channels: usize, latent_space: LatentSpace, device: &Device) -> Autoencoder {
    model_of(&small_conv16(channels, 8, 32, latent_space).unwrap(), device)
}

fn model_of(spec: &AutoencoderSpec, device: &Device) -> Autoencoder {
    struct Scale;
    impl burn::module::ModuleMapper for Scale {
        fn map_float<const D: usize>(
            &mut self,
            param: burn::module::Param<Tensor<D>>,
        ) -> burn::module::Param<Tensor<D>> {
            param.map(|weights| Tensor::from_inner(weights.inner().mul_scalar(SCALE)).require_grad())
        }
    }
    Autoencoder::new(spec, &mut rand_chacha::ChaCha8Rng::seed_from_u64(5), device).map(&mut Scale)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().unwrap()
}

/// Largest difference in each sample, relative to the sample's largest value.
fn worst(found: &[f32], expected: &[f32], samples: usize) -> Vec<f32> {
    assert_eq!(found.len(), expected.len());
    let len = found.len() / samples;
    found
        .chunks(len)
        .zip(expected.chunks(len))
        .map(|(f, e)| {
            let scale = e.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            f.iter().zip(e).fold(0.0f32, |m, (f, e)| m.max((f - e).abs())) / scale
        })
        .collect()
}

/// All samples within 1e-5, but for one in 32 where a ReLU or a maximum is decided the other way by rounding.
fn assert_close(found: &[f32], expected: &[f32], samples: usize, what: &str) {
    let differences = worst(found, expected, samples);
    let off = differences.iter().filter(|d| **d > 1e-5 || d.is_nan()).count();
    assert!(off * 32 <= samples, "{what}: {off} of {samples} samples differ: {differences:?}");
}

#[test]
fn energies_and_input_gradients_are_burns() {
    let plain = Device::flex();
    for spec in [
        small_conv16(1, 8, 32, LatentSpace::Sphere),
        small_conv16(3, 8, 32, LatentSpace::Euclidean),
        // Pooling drops a remainder.
        small_conv(1, 17, 4, 8, LatentSpace::Sphere),
        conv28(4, 8, LatentSpace::Sphere),
    ] {
        let spec = spec.unwrap();
        assert_eq!(supports(&spec), Ok(()));
        let image = spec.image();
        let model = model_of(&spec, &plain.clone().autodiff());
        let (burn, cpu) = (BurnFrozen::new(&model), CpuEngine::new(&model, [image.height, image.width], &plain));
        let n = 70;
        let x = NoiseSource::new(1, 0).uniform([n, image.channels, image.height, image.width], &plain);
        let (expected, found) = (burn.visible(x.clone()), cpu.visible(x.clone()));
        assert_close(&values(found.energy), &values(expected.energy), n, "E(x)");
        assert_close(&values(found.gradient), &values(expected.gradient), n, "∇E(x)");

        let (expected_z, z) = (burn.encode(x.clone()), cpu.encode(x));
        assert_close(&values(z.clone()), &values(expected_z), n, "z");
        assert_close(&values(cpu.decode(z.clone())), &values(burn.decode(z.clone())), n, "f_d(z)");
        let (expected, found) = (burn.latent(z.clone()), cpu.latent(z));
        assert_close(&values(found.energy), &values(expected.energy), n, "H(z)");
        assert_close(&values(found.gradient), &values(expected.gradient), n, "∇H(z)");
    }
}

#[test]
fn weight_gradients_are_burns() {
    let plain = Device::flex();
    let autodiff = plain.clone().autodiff();
    let model = model(1, LatentSpace::Sphere, &autodiff);
    let x = NoiseSource::new(2, 0).uniform([40, 1, 16, 16], &plain);
    let cpu = CpuEngine::new(&model, [16, 16], &plain);
    let (_, gradients) = cpu.weights(x.clone(), |e| e / 40.0);
    // With the energy as its own coefficient, held constant, the loss is half the mean squared energy.
    let e = energy(&model, x.autodiff());
    let loss = (e.clone() * e).mean().mul_scalar(0.5);
    let expected = GradientsParams::from_grads(loss.backward(), &model);
    assert_eq!(gradients.len(), 18, "weight and bias of nine layers");
    for (id, shape, found) in gradients {
        let expected = match shape.len() {
            1 => values(expected.get::<1>(id).unwrap()),
            _ => values(expected.get::<4>(id).unwrap()),
        };
        let scale = expected.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let worst = found.iter().zip(&expected).fold(0.0f32, |m, (f, e)| m.max((f - e).abs()));
        assert!(worst <= 2e-4 * scale, "{shape:?}: {worst} of {scale}");
    }
}

#[test]
fn results_do_not_depend_on_how_a_batch_is_cut() {
    let plain = Device::flex();
    let model = model(1, LatentSpace::Sphere, &plain.clone().autodiff());
    let cpu = CpuEngine::new(&model, [16, 16], &plain);
    let x = NoiseSource::new(3, 0).uniform([33, 1, 16, 16], &plain);
    let whole = values(cpu.visible(x.clone()).gradient);
    let last = values(cpu.visible(x.narrow(0, 32, 1)).gradient);
    assert_eq!(whole[32 * 256..], last);
}
