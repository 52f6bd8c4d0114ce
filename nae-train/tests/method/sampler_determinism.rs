//! Every sampler, each start with each kind of chain, is reproducible from its seed, and its result does not depend on
//! the number of threads: bit for bit, with both engines.

use std::num::NonZero;

use burn::tensor::{Device, Tensor};
use nae_train::arch::{Autoencoder, LatentSpace, small_conv16};
use nae_train::engine::Engine;
use nae_train::sample::{
    Acceptance, Annealing, Bounds, ClipBy, FrozenEnergy, GradientClip, Langevin, Leaving, Metropolis, NegativeSampler,
    NewImages, NoiseSource, Precision, ReplayConfig, SamplerConfig, Start,
};
use nae_train::shard;

const LATENT_DIM: usize = 8;
/// Three shards.
const IMAGES: usize = 70;

fn starts() -> Vec<Start> {
    let replay_buffer = Some(ReplayConfig { size: 100, ratio: 0.9 });
    vec![
        Start::OnManifold { replay_buffer: None },
        Start::OnManifold { replay_buffer },
        Start::PerturbedData { min_scale: 0.0, max_scale: 0.3, recovery: 0.0 },
        Start::PerturbedData { min_scale: 0.1, max_scale: 0.3, recovery: 1e-3 },
        Start::Data,
        Start::Persistent { restart: 0.0 },
        Start::Persistent { restart: 0.3 },
        Start::Noise { replay_buffer: None },
        Start::Noise { replay_buffer },
    ]
}

fn chains() -> Vec<Langevin> {
    let plain = Langevin::with_noise(2, 0.05);
    // Data fills [0, 1]; some room is needed for a step of a whole image to stay inside.
    let bounds = |margin: f32, leaving| Some(Bounds { min: -margin, max: 1.0 + margin, leaving });
    vec![
        plain,
        Langevin {
            annealing: Annealing::Harmonic,
            gradient_clip: Some(GradientClip { limit: 1e-3, by: ClipBy::Element }),
            bounds: bounds(0.0, Leaving::Clamp),
            ..plain
        },
        Langevin {
            annealing: Annealing::HarmonicDelayed,
            gradient_clip: Some(GradientClip { limit: 1e-3, by: ClipBy::RowNorm }),
            bounds: bounds(0.15, Leaving::Reject),
            ..plain
        },
        Langevin {
            gradient_clip: Some(GradientClip { limit: 1e-3, by: ClipBy::Norm }),
            metropolis: Some(Metropolis::Exact),
            ..plain
        },
        Langevin { metropolis: Some(Metropolis::Code), ..plain },
        Langevin { normalize: true, ..plain },
    ]
}

fn model(space: LatentSpace) -> Autoencoder {
    let spec = small_conv16(1, 2, LATENT_DIM, space).unwrap();
    Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &Device::flex().autodiff())
}

/// Two draws, so that buffers and persistent chains take part.
fn draws(frozen: &dyn FrozenEnergy, config: SamplerConfig, seed: u64, threads: usize) -> (Vec<u32>, Acceptance) {
    shard::with_threads(NonZero::new(threads).unwrap(), || {
        let mut sampler = NegativeSampler::new(config, LATENT_DIM, NoiseSource::new(seed, 3));
        let data: Tensor<4> = NoiseSource::new(9, 0).uniform([IMAGES, 1, 16, 16], &Device::flex());
        let images = [(); 2].map(|()| sampler.sample(frozen, data.clone(), 0.7));
        let bits = images.into_iter().flat_map(|x| x.into_data().iter::<f32>().collect::<Vec<_>>());
        (bits.map(f32::to_bits).collect(), sampler.acceptance())
    })
}

/// One sampler with each number of threads, and with another seed.
fn check(engine: Engine, space: LatentSpace, start: Start, visible_chain: Langevin) {
    let frozen = engine.freeze(&model(space), [1, 16, 16], Precision::F32, &Device::flex());
    // Detailed balance ends at the sphere, so a latent chain is corrected in the plane only.
    let metropolis = visible_chain.metropolis.filter(|_| space == LatentSpace::Euclidean);
    let latent_chain = start.is_latent().then_some(Langevin { metropolis, ..Langevin::with_noise(2, 0.1) });
    let config =
        SamplerConfig { start, latent_chain, visible_chain, temperature: 0.7, precision: Precision::F32, reuse: None };
    let (once, acceptance) = draws(&*frozen, config, 1, 1);
    assert!(once.iter().all(|bits| f32::from_bits(*bits).is_finite()), "{config:?}");
    assert!(draws(&*frozen, config, 1, 3) == (once.clone(), acceptance), "{engine:?}, 3 threads: {config:?}");
    assert_ne!(draws(&*frozen, config, 2, 3).0, once, "another seed draws the same: {config:?}");
    assert_eq!(acceptance.visible.is_some(), visible_chain.metropolis.is_some());
    assert_eq!(acceptance.latent.is_some(), metropolis.is_some() && start.is_latent());
}

#[test]
fn a_draw_is_a_function_of_the_seed_alone() {
    for start in starts() {
        for chain in chains() {
            check(Engine::Cpu, LatentSpace::Euclidean, start, chain);
        }
        check(Engine::Cpu, LatentSpace::Sphere, start, chains()[1]);
    }
}

/// The chains do not know what computes gradients, so one kind of chain will do.
#[test]
fn a_draw_by_burn_is_a_function_of_the_seed_alone() {
    for start in starts() {
        check(Engine::Burn, LatentSpace::Euclidean, start, chains()[3]);
    }
}

#[test]
fn new_images_are_a_function_of_the_seed_alone() {
    let model = model(LatentSpace::Sphere);
    let frozen = Engine::Cpu.freeze(&model, [1, 16, 16], Precision::F32, &Device::flex());
    let config = SamplerConfig {
        start: Start::OnManifold { replay_buffer: Some(ReplayConfig { size: 100, ratio: 0.9 }) },
        latent_chain: Some(Langevin::with_noise(2, 0.1)),
        visible_chain: chains()[1],
        temperature: 1.0,
        precision: Precision::F32,
        reuse: None,
    };
    let images = NewImages::new(&config).unwrap();
    let draw = |seed, threads| {
        shard::with_threads(NonZero::new(threads).unwrap(), || {
            let x = images.draw(&*frozen, IMAGES, LATENT_DIM, 1.0, &mut NoiseSource::new(seed, 0), &Device::flex());
            assert_eq!(x.dims(), [IMAGES, 1, 16, 16]);
            x.into_data().iter::<f32>().map(f32::to_bits).collect::<Vec<_>>()
        })
    };
    assert_eq!(draw(1, 1), draw(1, 4));
    assert_ne!(draw(1, 1), draw(2, 1));
}
