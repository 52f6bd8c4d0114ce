//! Where chains start, seen from a model that records what it is asked and leaves every state where it is.

use std::cell::RefCell;
use std::collections::HashSet;

use burn::tensor::{Device, Tensor, TensorData};
use nae_train::arch::LatentSpace;
use nae_train::sample::{
    Bounds, EnergyGradient, FrozenEnergy, Langevin, Leaving, NegativeSampler, NewImages, NoiseSource, Precision,
    Recovery, ReplayConfig, SamplerConfig, Start,
};

const LATENT_DIM: usize = 4;

/// Latents are the images' first four values and images the latents with a 9 behind them; E(x) and H(z) have the slopes
/// of choice.
struct Recorder {
    space: LatentSpace,
    slope: f32,
    latent_slope: f32,
    latents: RefCell<Vec<Vec<f32>>>,
    images: RefCell<Vec<Vec<f32>>>,
}

impl Recorder {
    fn new(space: LatentSpace) -> Self {
        Self { space, slope: 0.0, latent_slope: 0.0, latents: RefCell::default(), images: RefCell::default() }
    }
}

fn tilted(x: &Tensor<4>, slope: f32) -> EnergyGradient {
    EnergyGradient { energy: Tensor::zeros([x.dims()[0]], &x.device()), gradient: x.full_like(slope) }
}

fn values(x: &Tensor<4>) -> Vec<f32> {
    x.clone().into_data().try_into_vec::<f32>().unwrap()
}

impl FrozenEnergy for Recorder {
    fn latent_space(&self) -> LatentSpace {
        self.space
    }

    fn encode(&self, x: Tensor<4>) -> Tensor<4> {
        self.space.project(x.narrow(1, 0, LATENT_DIM))
    }

    fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        let nine = Tensor::full([z.dims()[0], 1, 1, 1], 9.0, &z.device());
        Tensor::cat(vec![z, nine], 1)
    }

    fn visible(&self, x: Tensor<4>) -> EnergyGradient {
        self.images.borrow_mut().push(values(&x));
        tilted(&x, self.slope)
    }

    fn latent(&self, z: Tensor<4>) -> EnergyGradient {
        self.latents.borrow_mut().push(values(&z));
        tilted(&z, self.latent_slope)
    }

    fn recovery(&self, x: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        let EnergyGradient { energy, gradient } = drawn_back(x.clone().narrow(1, 0, LATENT_DIM), recovery);
        EnergyGradient { energy, gradient: Tensor::cat(vec![gradient, x.narrow(1, LATENT_DIM, 1) * 0.0], 1) }
    }

    fn latent_recovery(&self, z: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        drawn_back(z, recovery)
    }
}

/// w/2·‖z − z̃‖² and its gradient at z, of the first values of images.
fn drawn_back(z: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
    let apart = z - recovery.latents.clone();
    let n = apart.dims()[0];
    let weights = Tensor::<1>::from_data(TensorData::new(recovery.weights.clone(), [n]), &apart.device());
    let energy =
        (apart.clone() * apart.clone()).reshape([n, LATENT_DIM]).sum_dim(1).reshape([n]) * weights.clone() * 0.5;
    EnergyGradient { energy, gradient: apart * weights.reshape([n, 1, 1, 1]) }
}

/// A chain of `steps` that go nowhere.
fn still(steps: usize) -> Langevin {
    Langevin::new(steps, 0.1, 0.0)
}

fn sampler(start: Start, bounds: Option<Bounds>) -> NegativeSampler {
    let visible_chain = Langevin { bounds, ..still(2) };
    let latent_chain = start.is_latent().then(|| still(3));
    let config =
        SamplerConfig { start, latent_chain, visible_chain, temperature: 1.0, precision: Precision::F32, reuse: None };
    NegativeSampler::new(config, LATENT_DIM, NoiseSource::new(1, 0))
}

/// A still visible chain after a latent one.
fn with_latent_chain(start: Start, latent_chain: Langevin) -> NegativeSampler {
    let config = SamplerConfig {
        start,
        latent_chain: Some(latent_chain),
        visible_chain: still(1),
        temperature: 1.0,
        precision: Precision::F32,
        reuse: None,
    };
    NegativeSampler::new(config, LATENT_DIM, NoiseSource::new(1, 0))
}

fn data(count: usize) -> Tensor<4> {
    let values = (0..count * 5).map(|v| v as f32).collect::<Vec<_>>();
    Tensor::from_data(TensorData::new(values, [count, 5, 1, 1]), &Device::flex())
}

#[test]
fn contrastive_divergence_starts_at_the_data() {
    let (model, x) = (Recorder::new(LatentSpace::Sphere), data(3));
    let negatives = sampler(Start::Data, None).sample(&model, x.clone(), 1.0);
    assert_eq!(values(&negatives), values(&x));
    assert_eq!(model.images.borrow().len(), 2);
    assert!(model.latents.borrow().is_empty(), "no latent chain");
}

#[test]
fn the_temperature_is_that_of_the_draw() {
    let model = Recorder { slope: 1.0, ..Recorder::new(LatentSpace::Sphere) };
    let mut sampler = sampler(Start::Data, None);
    for (temperature, way) in [(1.0, 0.2), (0.5, 0.4), (0.1, 2.0)] {
        let negatives = values(&sampler.sample(&model, data(3), temperature));
        let moved = negatives.iter().zip(values(&data(3)));
        assert!(moved.into_iter().all(|(y, x)| (x - y - way).abs() < 1e-5), "two steps of 0.1/{temperature}");
    }
}

/// T = T_z: both chains of a draw, and of new images, which take 3 and 24 latent steps of 0.1/T, and 2 visible ones.
#[test]
fn the_temperature_is_that_of_both_chains() {
    for temperature in [1.0, 0.5, 0.1] {
        let step = 0.1 / temperature;
        let moved = |x: &[f32], z: &[f32], way: f32| {
            let pairs = x.chunks(5).flat_map(|x| &x[..LATENT_DIM]).zip(z);
            pairs.into_iter().all(|(x, z)| (z - x - way).abs() < 1e-4)
        };
        for latent in [true, false] {
            let slopes = if latent { (0.0, 1.0) } else { (1.0, 0.0) };
            let recorder =
                || Recorder { slope: slopes.0, latent_slope: slopes.1, ..Recorder::new(LatentSpace::Euclidean) };
            let (start, model) = (Start::OnManifold { replay_buffer: None }, recorder());
            let drawn = values(&sampler(start, None).sample(&model, data(6), temperature));
            let began = model.latents.borrow()[0].clone();
            assert!(moved(&drawn, &began, if latent { 3.0 } else { 2.0 } * step), "a draw, {latent}, {temperature}");
            let config = SamplerConfig {
                start,
                latent_chain: Some(still(3)),
                visible_chain: still(2),
                temperature: 1.0,
                precision: Precision::F32,
                reuse: None,
            };
            let (model, mut noise) = (recorder(), NoiseSource::new(1, 0));
            let images = NewImages::new(&config).unwrap();
            let drawn = values(&images.draw(&model, 6, LATENT_DIM, temperature, &mut noise, &Device::flex()));
            let began = model.latents.borrow()[0].clone();
            assert!(moved(&drawn, &began, if latent { 24.0 } else { 2.0 } * step), "new, {latent}, {temperature}");
        }
    }
}

#[test]
fn persistent_chains_go_on_where_they_were() {
    let model = Recorder::new(LatentSpace::Sphere);
    let mut sampler = sampler(Start::Persistent { restart: 0.0 }, None);
    let first = values(&sampler.sample(&model, data(6), 1.0));
    assert_eq!(values(&sampler.sample(&model, data(6), 1.0)), first);
    let smaller = values(&sampler.sample(&model, data(2), 1.0));
    assert_eq!(smaller, first[..10], "a smaller batch takes the first chains");
    let larger = values(&sampler.sample(&model, data(7), 1.0));
    assert_eq!(larger[..30], first, "a larger one adds a chain");
}

#[test]
fn a_share_of_persistent_chains_begins_anew() {
    let model = Recorder::new(LatentSpace::Sphere);
    let n = 4000;
    let mut sampler = sampler(Start::Persistent { restart: 0.05 }, None);
    let first = values(&sampler.sample(&model, data(n), 1.0));
    let second = values(&sampler.sample(&model, data(n), 1.0));
    let restarted = first.chunks(5).zip(second.chunks(5)).filter(|(a, b)| a != b).count() as f64 / n as f64;
    assert!((restarted - 0.05).abs() < 4.0 * (0.05f64 * 0.95 / n as f64).sqrt(), "{restarted}");
}

#[test]
fn noise_fills_the_box_of_the_chain() {
    let model = Recorder::new(LatentSpace::Sphere);
    let bounds = Some(Bounds { min: -5.0, max: 5.0, leaving: Leaving::Reject });
    let x = values(&sampler(Start::Noise { replay_buffer: None }, bounds).sample(&model, data(1000), 1.0));
    assert!(x.iter().all(|v| (-5.0..5.0).contains(v)));
    assert!(x.iter().any(|v| *v > 4.5) && x.iter().any(|v| *v < -4.5));
}

#[test]
fn a_replay_buffer_of_images_gives_earlier_ends() {
    let model = Recorder::new(LatentSpace::Sphere);
    let replay_buffer = Some(ReplayConfig { size: 50, ratio: 1.0 });
    let mut sampler = sampler(Start::Noise { replay_buffer }, None);
    let first = values(&sampler.sample(&model, data(20), 1.0));
    let second = values(&sampler.sample(&model, data(20), 1.0));
    assert!(second.chunks(5).all(|x| first.chunks(5).any(|kept| kept == x)));
}

/// Latent chains that move, so that where they ended is not where they began: a later draw begins at ends of earlier
/// ones, and of the last `size` of them only.
#[test]
fn a_replay_buffer_of_latents_gives_earlier_ends() {
    let (n, size) = (20, 50);
    let model = Recorder::new(LatentSpace::Sphere);
    let start = Start::OnManifold { replay_buffer: Some(ReplayConfig { size, ratio: 1.0 }) };
    let mut sampler = with_latent_chain(start, Langevin::new(3, 0.1, 0.3));
    let mut ends: Vec<Vec<f32>> = Vec::new();
    let mut used = HashSet::new();
    for draw in 0..6 {
        let negatives = values(&sampler.sample(&model, data(n), 1.0));
        let began = model.latents.borrow()[3 * draw].clone();
        for z in began.chunks(LATENT_DIM) {
            let kept = ends.iter().rposition(|end| end == z);
            assert_eq!(kept.is_some(), draw > 0, "draw {draw} begins at {z:?}");
            used.extend(kept.map(|kept| (draw, kept)));
        }
        // A latent's image has it in front.
        ends.extend(negatives.chunks(5).map(|x| x[..LATENT_DIM].to_vec()));
        ends.drain(..ends.len().saturating_sub(size));
    }
    // Of 20 kept states, twenty draws leave out a third; of 40, three fifths.
    assert!(used.len() > 50, "{} states were begun at", used.len());
}

/// The paper's 95%, and the rest from the noise distribution: within four standard deviations.
#[test]
fn the_share_of_latents_from_the_replay_buffer_is_the_ratio() {
    let n = 4000;
    let model = Recorder::new(LatentSpace::Sphere);
    let start = Start::OnManifold { replay_buffer: Some(ReplayConfig { size: 10_000, ratio: 0.95 }) };
    let mut sampler = with_latent_chain(start, Langevin::new(1, 0.1, 0.3));
    let bits = |z: &[f32]| z.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let first = values(&sampler.sample(&model, data(n), 1.0));
    let ends: HashSet<Vec<u32>> = first.chunks(5).map(|x| bits(&x[..LATENT_DIM])).collect();
    sampler.sample(&model, data(n), 1.0);
    let began = model.latents.borrow()[1].clone();
    let kept = began.chunks(LATENT_DIM).filter(|z| ends.contains(&bits(z))).count() as f64 / n as f64;
    assert!((kept - 0.95).abs() < 4.0 * (0.95f64 * 0.05 / n as f64).sqrt(), "{kept}");
}

#[test]
fn the_manifold_is_the_decoders_image_of_the_latent_chains_end() {
    for space in [LatentSpace::Sphere, LatentSpace::Euclidean] {
        let model = Recorder::new(space);
        let negatives = values(&sampler(Start::OnManifold { replay_buffer: None }, None).sample(&model, data(5), 1.0));
        assert_eq!((model.latents.borrow().len(), model.images.borrow().len()), (3, 2));
        for (x, z) in negatives.chunks(5).zip(model.latents.borrow()[2].chunks(LATENT_DIM)) {
            assert!(x[4] == 9.0 && x[..4].iter().zip(z).all(|(x, z)| (x - z).abs() < 1e-6));
            let norm: f32 = z.iter().map(|v| v * v).sum();
            assert_eq!((norm - 1.0).abs() < 1e-5, space == LatentSpace::Sphere);
        }
    }
}

/// The decoder's fifth value is 9, outside of the box: a chain that rejects what lies outside could never leave it.
#[test]
fn a_start_outside_of_the_box_is_brought_to_its_border() {
    for leaving in [Leaving::Reject, Leaving::Clamp] {
        let bounds = Bounds { min: -5.0, max: 5.0, leaving };
        let model = Recorder::new(LatentSpace::Sphere);
        let start = Start::OnManifold { replay_buffer: None };
        let negatives = values(&sampler(start, Some(bounds)).sample(&model, data(5), 1.0));
        assert!(negatives.chunks(5).all(|x| x[4] == 5.0), "{negatives:?}");
    }
}

#[test]
fn perturbed_data_is_near_the_datas_latents() {
    let model = Recorder::new(LatentSpace::Euclidean);
    let start = |min_scale| Start::PerturbedData { min_scale, max_scale: 0.1, recovery: 0.0 };
    let x = data(200);
    let unmoved = Start::PerturbedData { min_scale: 0.0, max_scale: 0.0, recovery: 0.0 };
    let samples = values(&sampler(unmoved, None).sample(&model, x.clone(), 1.0));
    assert!(samples.chunks(5).zip(values(&x).chunks(5)).all(|(found, x)| found[..4] == x[..4]), "{samples:?}");
    // The mean square of noise whose scale is uniform on [a, b] is (a² + ab + b²)/3.
    for (min_scale, variance) in [(0.0, 0.01 / 3.0), (0.1, 0.01)] {
        let moved = values(&sampler(start(min_scale), None).sample(&model, x.clone(), 1.0));
        let mut squares = 0.0;
        for (found, x) in moved.chunks(5).zip(values(&x).chunks(5)) {
            // Six standard deviations of the largest scale.
            assert!(found[..4] != x[..4] && found[..4].iter().zip(x).all(|(f, x)| (f - x).abs() < 0.6));
            squares += found[..4].iter().zip(x).map(|(f, x)| (f - x) * (f - x)).sum::<f32>();
        }
        let found = squares / (4 * 200) as f32;
        assert!((found / variance - 1.0).abs() < 0.3, "{min_scale}: {found} against {variance}");
    }
}

/// Both chains of MPDR on energies of one slope, without noise: every step is −λ·(slope/T + c·(z − z̃)/s²), so that how far
/// a sample is from z̃ is known.
#[test]
fn chains_are_drawn_back_to_the_latents_that_they_started_from() {
    const T: f32 = 0.5;
    let (strength, scale, lambda) = (0.3, 0.2, 0.1);
    for recovery in [0.0, strength] {
        let model = Recorder { slope: 2.0, latent_slope: 0.25, ..Recorder::new(LatentSpace::Euclidean) };
        let config = SamplerConfig {
            start: Start::PerturbedData { min_scale: scale, max_scale: scale, recovery },
            latent_chain: Some(Langevin::new(3, lambda, 0.0)),
            visible_chain: Langevin::new(2, lambda, 0.0),
            temperature: T,
            precision: Precision::F32,
            reuse: None,
        };
        let mut sampler = NegativeSampler::new(config, LATENT_DIM, NoiseSource::new(1, 0));
        let negatives = values(&sampler.sample(&model, data(40), T));
        let step = |apart: f32, slope: f32| apart - lambda * (slope / T + recovery * apart / (scale * scale));
        let expected = (0..2).fold((0..3).fold(0.0, |apart, _| step(apart, 0.25)), |apart, _| step(apart, 2.0));
        let started = model.latents.borrow()[0].clone();
        for (x, z) in negatives.chunks(5).zip(started.chunks(4)) {
            assert!(x[..4].iter().zip(z).all(|(x, z)| (x - z - expected).abs() < 1e-4), "{x:?} {z:?} {expected}");
            // The encoder does not see the fifth.
            assert!((x[4] - (9.0 - 2.0 * lambda * 2.0 / T)).abs() < 1e-5, "{x:?}");
        }
    }
}

#[test]
fn new_images_take_a_latent_chain_eight_times_as_long() {
    let model = Recorder::new(LatentSpace::Sphere);
    let start = Start::OnManifold { replay_buffer: Some(ReplayConfig { size: 50, ratio: 1.0 }) };
    let config = SamplerConfig {
        start,
        latent_chain: Some(still(3)),
        visible_chain: still(2),
        temperature: 1.0,
        precision: Precision::F32,
        reuse: None,
    };
    let images = NewImages::new(&config).unwrap();
    let mut noise = NoiseSource::new(1, 0);
    let draws = [(); 2].map(|()| values(&images.draw(&model, 5, LATENT_DIM, 1.0, &mut noise, &Device::flex())));
    assert_eq!((model.latents.borrow().len(), model.images.borrow().len()), (2 * 24, 2 * 2));
    assert!(draws[0].chunks(5).all(|x| draws[1].chunks(5).all(|y| x != y)), "no buffer");
    let visible_only = SamplerConfig { start: Start::Data, latent_chain: None, ..config };
    assert_eq!(NewImages::new(&visible_only), None);
}

#[test]
fn draws_are_used_again_for_the_share_that_is_asked_for() {
    let model = Recorder::new(LatentSpace::Sphere);
    let reuse = Some(ReplayConfig { size: 60, ratio: 0.25 });
    let config = SamplerConfig {
        start: Start::OnManifold { replay_buffer: None },
        latent_chain: Some(still(1)),
        visible_chain: still(1),
        temperature: 1.0,
        precision: Precision::F32,
        reuse,
    };
    let mut sampler = NegativeSampler::new(config, LATENT_DIM, NoiseSource::new(6, 0));
    let mut last: Vec<Vec<f32>> = Vec::new();
    let (draws, mut again) = (400, 0);
    for draw in 0..draws {
        let chains = model.images.borrow().len();
        let images = values(&sampler.sample(&model, data(20), 1.0));
        let images: Vec<Vec<f32>> = images.chunks(5).map(<[f32]>::to_vec).collect();
        if model.images.borrow().len() > chains {
            last.extend(images);
            last.drain(..last.len().saturating_sub(60));
        } else {
            assert!(draw > 0 && images.iter().all(|image| last.contains(image)), "draw {draw}");
            again += 1;
        }
    }
    // Four standard deviations.
    assert!((again - draws / 4_i32).abs() < 35, "{again} of {draws}");
}
