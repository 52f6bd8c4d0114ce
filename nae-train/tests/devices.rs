//! A graphics card computes what the processor does: energies, gradients, updates, whole chains. On the software
//! driver, `wgpu:software`, which `tests/gpu/software.sh` sets up.
#![cfg(feature = "wgpu")]
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, OnceLock, PoisonError};

use burn::tensor::{Device, Tensor};
use nae_train::arch::{
    Autoencoder, AutoencoderSpec, DenseOutput, LatentSpace, conv28, conv32, dense, fc_res2, small_conv16,
};
use nae_train::config::preset;
use nae_train::device::{Adapter, DeviceChoice, on_processor};
use nae_train::engine::{Engine, EngineChoice};
use nae_train::methods::Method as _;
use nae_train::methods::nae::{NaeMethod, NormalizedAutoencoder};
use nae_train::sample::{BurnFrozen, EnergyGradient, FrozenEnergy as _, NegativeSampler, NoiseSource, Precision};

/// Images of a batch.
const N: usize = 9;
/// Largest difference of an energy, relative to it, and of a gradient, relative to the largest of its sample.
const RELATIVE: f32 = 2e-4;

/// A device is opened once in a process.
fn card() -> Device {
    static CARD: OnceLock<Device> = OnceLock::new();
    CARD.get_or_init(|| DeviceChoice::Wgpu(Adapter::Software).open().unwrap().device).clone()
}

/// burn has one generator for all of a process that draws on the card: who seeds it draws alone.
static DRAWING: Mutex<()> = Mutex::new(());

fn networks() -> Vec<AutoencoderSpec> {
    use LatentSpace::{Euclidean, Sphere};
    vec![
        fc_res2(1, 16, 32, 3, Euclidean).unwrap(),
        conv28(4, 8, Sphere).unwrap(),
        conv32(4, 8, Sphere).unwrap(),
        small_conv16(1, 8, 32, Sphere).unwrap(),
        dense(nae_core::Shape::vector(20), &[16], 4, DenseOutput::Linear, Euclidean).unwrap(),
    ]
}

fn model(spec: &AutoencoderSpec, device: &Device) -> Autoencoder {
    Autoencoder::new(spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
}

/// Values drawn on the processor, on `device`.
fn uniform(seed: u64, shape: [usize; 4], device: &Device) -> Tensor<4> {
    Tensor::from_data(NoiseSource::new(seed, 0).uniform::<4>(shape, &Device::flex()).into_data(), device)
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

fn compare(what: &str, found: EnergyGradient, expected: EnergyGradient) {
    for (found, expected) in floats(found.energy).into_iter().zip(floats(expected.energy)) {
        assert!((found - expected).abs() <= RELATIVE * expected, "{what}: energy {found}, expected {expected}");
    }
    let len = expected.gradient.dims()[1..].iter().product();
    let (found, expected) = (floats(found.gradient), floats(expected.gradient));
    for (found, expected) in found.chunks(len).zip(expected.chunks(len)) {
        let largest = expected.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        let apart = found.iter().zip(expected).fold(0.0f32, |apart, (a, b)| apart.max((a - b).abs()));
        assert!(apart <= RELATIVE * largest, "{what}: gradient off by {apart} of {largest}");
    }
}

#[test]
fn energies_and_input_gradients_are_the_processors() {
    for spec in networks() {
        let image = spec.image();
        let on = |device: &Device| {
            let frozen = BurnFrozen::new(&model(&spec, device), Precision::F32);
            let visible = frozen.visible(uniform(1, [N, image.channels, image.height, image.width], device));
            let latent = frozen.latent(uniform(2, [N, spec.latent_dim(), 1, 1], device));
            (visible, latent)
        };
        let ((visible, latent), (expected_visible, expected_latent)) = (on(&card()), on(&Device::flex()));
        compare(&format!("{}, visible", spec.name()), visible, expected_visible);
        compare(&format!("{}, latent", spec.name()), latent, expected_latent);
    }
}

/// Adam's first steps follow the gradient's sign, so a few weights whose gradient is all rounding may part.
#[test]
fn an_update_is_the_processors() {
    let config = preset::load("digits").unwrap();
    let spec = small_conv16(1, 8, 16, LatentSpace::Sphere).unwrap();
    let after = |device: &Device| {
        let start = NormalizedAutoencoder::new(model(&spec, device), 1.0);
        let sampler = NegativeSampler::new(config.sampler(), 16, NoiseSource::new(3, 0));
        let mut nae = NaeMethod::new(start, &config.training(), sampler, Engine::Burn, device);
        let [x, negatives] = [1, 2].map(|seed| uniform(seed, [40, 1, 16, 16], device));
        let figures = nae.update_against(x.clone(), negatives);
        let frozen = BurnFrozen::new(nae.model().autoencoder().unwrap(), Precision::F32);
        (
            figures.get("positive_energy").unwrap(),
            figures.get("negative_energy").unwrap(),
            floats(frozen.visible(x).energy),
        )
    };
    let (found, expected) = (after(&card()), after(&Device::flex()));
    let near = |a: f64, b: f64| assert!((a - b).abs() <= f64::from(RELATIVE) * b, "{a} {b}");
    near(found.0, expected.0);
    near(found.1, expected.1);
    for (found, expected) in found.2.into_iter().zip(expected.2) {
        // After an update of 1e-3 in every weight.
        assert!((found - expected).abs() <= 1e-2 * expected, "{found} {expected}");
    }
}

#[test]
fn noise_is_drawn_on_the_card_from_the_runs_seed() {
    let _alone = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    let draw = |seed: u64| {
        let mut noise = NoiseSource::new(seed, 1);
        let first = noise.normal::<2>([200, 200], &card());
        assert!(!on_processor(&first.device()));
        [floats(first), floats(noise.normal::<2>([200, 200], &card()))]
    };
    let [first, second] = draw(5);
    // Not by assert_eq: nobody reads 80,000 numbers.
    assert!(draw(5) == [first.clone(), second.clone()], "the same seed draws something else");
    assert!(first != second && draw(6)[0] != first, "another draw, another seed, the same noise");
    let n = first.len() as f64;
    let moment = |power: i32| first.iter().map(|value| f64::from(*value).powi(power)).sum::<f64>() / n;
    // Five standard errors each.
    assert!(moment(1).abs() < 5.0 / n.sqrt(), "mean {}", moment(1));
    assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "variance {}", moment(2));
    assert!((moment(4) - 3.0).abs() < 5.0 * (96.0 / n).sqrt(), "fourth moment {}", moment(4));
}

#[test]
fn a_chain_is_a_function_of_the_seed() {
    let _alone = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    let config = preset::load("digits").unwrap();
    let spec = small_conv16(1, 4, 16, LatentSpace::Sphere).unwrap();
    let frozen = BurnFrozen::new(&model(&spec, &card()), Precision::F32);
    let draw = |seed| {
        let mut sampler = NegativeSampler::new(config.sampler(), 16, NoiseSource::new(seed, 3));
        let x = sampler.sample(&frozen, uniform(9, [40, 1, 16, 16], &card()), 1.0);
        floats(x)
    };
    let once = draw(1);
    assert!(once.iter().all(|value| (0.0..=1.0).contains(value)));
    assert!(draw(1) == once && draw(2) != once);
}

/// On a card that has no f16, the preset that asks for it is refused by its key.
#[test]
fn half_precision_is_near_or_refused() {
    let spec = small_conv16(1, 8, 32, LatentSpace::Sphere).unwrap();
    let image = uniform(1, [N, 1, 16, 16], &card());
    if let Err(error) = Precision::F16.check(&card()) {
        assert!(error.to_string().contains("sampler.precision is \"f16\""), "{error}");
        eprintln!("{error}");
        return;
    }
    let energies = |precision| floats(BurnFrozen::new(&model(&spec, &card()), precision).visible(image.clone()).energy);
    for (half, single) in energies(Precision::F16).into_iter().zip(energies(Precision::F32)) {
        assert!((half - single).abs() < 5e-3 * single, "{half} {single}");
    }
}

#[test]
fn the_engine_for_a_card_is_burns() {
    assert_eq!(EngineChoice::Auto.on(&card()), Ok(EngineChoice::Burn));
    let error = EngineChoice::Cpu.on(&card()).unwrap_err().to_string();
    assert!(error.contains("--engine"), "{error}");
}
