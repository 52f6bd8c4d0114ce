//! Every architecture and every layer: gradients against finite differences, shapes, an update, a checkpoint.

use burn::module::Module as _;
use burn::tensor::{Device, FloatDType, Tensor};
use nae_train::arch::checkpoint;
use nae_train::arch::{Autoencoder, AutoencoderSpec, LayerSpec};
use nae_train::config::Pretraining;
use nae_train::config::Regularization;
use nae_train::energy::{energy, on_manifold_energy};
use nae_train::engine::Engine;
use nae_train::methods::Method as _;
use nae_train::methods::autoencoder::AutoencoderMethod;
use nae_train::methods::nae;
use nae_train::sample::{BurnFrozen, FrozenEnergy as _, NoiseSource, Precision};

/// Samples in a batch.
const N: usize = 3;
/// Half the distance of the two points of a difference.
const STEP: f64 = 1e-6;
/// Largest error of a directional derivative, in lengths of the gradient. In float64 the difference is good to some
/// 1e-9; what is more is a ReLU or a maximum decided differently at the two points.
const TOLERANCE: f64 = 1e-6;

fn images(spec: &AutoencoderSpec, seed: u64) -> Tensor<4> {
    let image = spec.image();
    NoiseSource::new(seed, 0).uniform([N, image.channels, image.height, image.width], &Device::flex())
}

fn latents(spec: &AutoencoderSpec, seed: u64) -> Tensor<4> {
    let z = NoiseSource::new(seed, 0).uniform([N, spec.latent_dim(), 1, 1], &Device::flex());
    spec.latent_space().project(z.mul_scalar(2.0).sub_scalar(1.0))
}

/// Compares ∇f·d by burn with (f(x + hd) − f(x − hd)) / 2h, in float64, for random d of length 1 in each sample.
fn check_gradient(model: &Autoencoder, x: Tensor<4>, f: fn(&Autoencoder, Tensor<4>) -> Tensor<1>, what: &str) {
    let model = crate::networks::double(model);
    let x = x.cast(FloatDType::F64);
    let values = |x: Tensor<4>| -> Vec<f64> { f(&model, x.autodiff()).into_data().try_into_vec().unwrap() };
    let per_sample = |x: Tensor<4>| -> Vec<f64> {
        let [n, c, h, w] = x.dims();
        x.reshape([n, c * h * w]).sum_dim(1).into_data().try_into_vec().unwrap()
    };
    let tracked = x.clone().autodiff().require_grad();
    let mut gradients = f(&model, tracked.clone()).sum().backward();
    let gradient = tracked.grad_remove(&mut gradients).unwrap();
    let lengths = per_sample(gradient.clone() * gradient.clone());
    for seed in 0..3 {
        let d =
            NoiseSource::new(100 + seed, 0).uniform(x.dims(), &Device::flex()).cast(FloatDType::F64).sub_scalar(0.5);
        let [n, ..] = d.dims();
        let norm = Tensor::<1>::from_data(per_sample(d.clone() * d.clone()).as_slice(), &Device::flex());
        let d = d / norm.cast(FloatDType::F64).sqrt().reshape([n, 1, 1, 1]);
        let (up, down) =
            (values(x.clone() + d.clone().mul_scalar(STEP)), values(x.clone() - d.clone().mul_scalar(STEP)));
        for (((up, down), expected), square) in up.iter().zip(&down).zip(per_sample(gradient.clone() * d)).zip(&lengths)
        {
            let found = (up - down) / (2.0 * STEP);
            let length = square.sqrt();
            assert!(length > 1e-5, "{what}: the gradient is nearly zero, {length}");
            assert!(
                (found - expected).abs() <= TOLERANCE * length,
                "{what}: difference {found}, gradient {expected}, length {length}"
            );
        }
    }
}

#[test]
fn input_gradients_of_every_layer_are_finite_differences() {
    for spec in crate::networks::layers() {
        let model = crate::networks::trained_scale(&spec, 1);
        check_gradient(&model, images(&spec, 2), energy, spec.name());
    }
}

#[test]
fn input_gradients_of_every_architecture_are_finite_differences() {
    for spec in crate::networks::architectures() {
        let model = crate::networks::trained_scale(&spec, 1);
        check_gradient(&model, images(&spec, 2), energy, spec.name());
        check_gradient(&model, latents(&spec, 3), on_manifold_energy, &format!("{}, latent", spec.name()));
    }
}

#[test]
fn shapes_are_those_of_the_description() {
    for spec in crate::networks::layers().into_iter().chain(crate::networks::architectures()) {
        let model = crate::networks::trained_scale(&spec, 1).valid();
        let x = images(&spec, 2);
        let z = model.encode(x.clone());
        assert_eq!(z.dims(), [N, spec.latent_dim(), 1, 1], "{}", spec.name());
        assert_eq!(model.decode(z).dims(), x.dims(), "{}", spec.name());
        let estimates = estimates(spec.encoder()) + estimates(spec.decoder());
        assert_eq!(model.num_params(), spec.parameters() + estimates, "{}", spec.name());
    }
}

/// Elements of the vectors that spectral norms keep with the weights.
fn estimates(layers: &[LayerSpec]) -> usize {
    let of = |layer: &LayerSpec| match layer {
        LayerSpec::Conv { channels, spectral_norm: true, .. } => *channels,
        LayerSpec::Residual { body: a, skip: b } | LayerSpec::Gated { body: a, gate: b } => estimates(a) + estimates(b),
        _ => 0,
    };
    layers.iter().map(of).sum()
}

/// What the chains ask: shards side by side give what one sample alone gives, and asking changes nothing.
#[test]
fn frozen_networks_answer_alike_in_every_shard() {
    for spec in crate::networks::architectures() {
        let frozen = BurnFrozen::new(&crate::networks::trained_scale(&spec, 1), Precision::F32);
        let image = spec.image();
        let shape = [40, image.channels, image.height, image.width];
        let x = NoiseSource::new(6, 0).uniform(shape, &Device::flex());
        let (all, last) = (frozen.visible(x.clone()), frozen.visible(x.clone().narrow(0, 39, 1)));
        let values = |g: Tensor<4>| g.into_data().try_into_vec::<f32>().unwrap();
        let (all, last) = (values(all.gradient.narrow(0, 39, 1)), values(last.gradient));
        let largest = last.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        for (a, b) in all.iter().zip(&last) {
            assert!((a - b).abs() <= 1e-4 * largest, "{}: {a} {b} of {largest}", spec.name());
        }
        assert_eq!(frozen.latent(latents(&spec, 3)).energy.dims(), [N]);
        assert_eq!(values(frozen.visible(x).gradient.narrow(0, 39, 1)), all, "{}", spec.name());
    }
}

#[test]
fn every_architecture_is_updated_stored_and_read_back() {
    let device = Device::flex();
    let folder = tempfile::tempdir().unwrap();
    for spec in crate::networks::architectures() {
        let x = images(&spec, 2);
        let rng = &mut <rand_chacha::ChaCha8Rng as rand::SeedableRng>::seed_from_u64(4);
        let start = Autoencoder::new(&spec, rng, &device.clone().autodiff());
        let settings = Pretraining::new(1, N, 1e-3);
        let mut method = AutoencoderMethod::new(start, settings, None, Engine::Burn, &device);
        let energies: Vec<f64> = (0..6).map(|_| method.update(x.clone()).get("energy").unwrap()).collect();
        let model = method.into_trained();
        assert!(energies[5] < energies[0], "{}: {energies:?}", spec.name());
        let negatives = images(&spec, 5);
        let regularization = Regularization {
            negative_energy: 1.0,
            positive_energy: 1.0,
            encoder_l2: 1e-4,
            decoder_l2: 1e-4,
            latent_norm: 1e-2,
        };
        let loss = nae::loss(&model, x.clone().autodiff(), negatives.autodiff(), 1.0, regularization);
        assert!(loss.total.into_scalar::<f32>().is_finite(), "{}", spec.name());
        let path = folder.path().join("weights.safetensors");
        checkpoint::save(&model, &path).unwrap();
        let read = checkpoint::load(checkpoint::blank(&spec, &device), spec.name(), &path).unwrap();
        let of = |model: &Autoencoder| energy(&model.valid(), x.clone()).into_data().try_into_vec::<f32>().unwrap();
        assert_eq!(of(&read), of(&model), "{}", spec.name());
    }
}
