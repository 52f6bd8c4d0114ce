//! Langevin chains, shard by shard in the engine and with tensors, against one written down in float64 (paper,
//! equations 8 and 16, and the ratios of [`Metropolis`]) that asks the same network for its gradients.
//!
//! A bound says little where nothing reaches it. So the reference can be changed, one term at a time: drift, T, noise,
//! its steps and samples, annealing, clip, box, projection, each part of the ratio. Every change has to move the end of
//! the chain by a hundred times the bound.

use burn::tensor::{Device, Tensor, TensorData};
use nae_train::arch::{AutoencoderSpec, LatentSpace, conv32, small_conv16};
use nae_train::engine::Engine;
use nae_train::sample::{
    Annealing, Bounds, ChainEnd, ChainNoise, ClipBy, EnergyGradient, GradientClip, Langevin, Leaving, Metropolis,
    NegativeSampler, NewImages, NoiseSource, Precision, SamplerConfig, Start,
};

const LATENT_DIM: usize = 8;
/// Two shards, the second not full.
const SAMPLES: usize = 40;
/// Largest difference of a value; single precision leaves a fifth of it.
const BOUND: f64 = 5e-6;
/// A change of a term moves some sample by more than so many times the bound, and rounding moves none as far.
const MOVED: f64 = 100.0;

/// A chain in float64, with what a test may change of it.
#[derive(Clone)]
struct Reference {
    chain: Langevin,
    temperature: f64,
    drift: f64,
    noise: f64,
    /// Whose noise a sample takes at a step.
    drawn: fn(usize, usize) -> (usize, usize),
    on_sphere: bool,
    /// Whether a direction on the sphere is along it.
    along: bool,
    /// Values in a row.
    width: usize,
    ratio: Option<Ratio>,
}

/// log α = −energy·(E(y) − E(x)) + forward·‖y − x − d(x)‖² − backward·‖x − y − d(y)‖²; d as the ratio has it is `drift`
/// times the chain's.
#[derive(Clone, Copy)]
struct Ratio {
    energy: f64,
    forward: f64,
    backward: f64,
    drift: f64,
}

impl Reference {
    fn new(chain: &Langevin, temperature: f32, space: LatentSpace, width: usize) -> Self {
        let (t, sigma, lambda) = (f64::from(temperature), f64::from(chain.noise), f64::from(chain.step_size));
        let ratio = |weight: f64, drift| Ratio { energy: 1.0 / t, forward: weight, backward: weight, drift };
        Self {
            chain: *chain,
            temperature: t,
            drift: lambda,
            noise: sigma,
            drawn: |sample, step| (sample, step),
            on_sphere: space == LatentSpace::Sphere,
            along: space == LatentSpace::Sphere,
            width,
            ratio: chain.metropolis.map(|kind| match kind {
                Metropolis::Exact => ratio(0.5 / (sigma * sigma), 1.0),
                Metropolis::Code => ratio(0.25 / (lambda * t), t),
            }),
        }
    }

    /// The same but for one term, for every term there is.
    fn changed(&self) -> Vec<(&'static str, Self)> {
        let mut all = vec![
            ("no drift", Self { drift: 0.0, ..self.clone() }),
            ("half the drift", Self { drift: 0.5 * self.drift, ..self.clone() }),
            ("uphill", Self { drift: -self.drift, ..self.clone() }),
            ("no noise", Self { noise: 0.0, ..self.clone() }),
            ("the first step's noise", Self { drawn: |sample, _| (sample, 0), ..self.clone() }),
            ("the first shard's noise", Self { drawn: |sample, step| (sample % 32, step), ..self.clone() }),
        ];
        let chain = self.chain;
        if chain.normalize {
            let not = Langevin { normalize: false, ..chain };
            all.push(("the gradient's length", Self { chain: not, ..self.clone() }));
        } else {
            all.push(("T left out", Self { temperature: 1.0, ..self.clone() }));
        }
        if chain.normalize && self.on_sphere {
            all.push(("a direction off the sphere", Self { along: false, ..self.clone() }));
        }
        let mut add = |what, chain| all.push((what, Self { chain, ..self.clone() }));
        for (what, annealing) in [
            ("no annealing", Annealing::None),
            ("annealing of the text", Annealing::Harmonic),
            ("annealing of the code", Annealing::HarmonicDelayed),
        ] {
            if chain.annealing != Annealing::None && chain.annealing != annealing {
                add(what, Langevin { annealing, ..chain });
            }
        }
        if let Some(clip) = chain.gradient_clip {
            add("no clip", Langevin { gradient_clip: None, ..chain });
            for by in [ClipBy::Element, ClipBy::Norm, ClipBy::RowNorm] {
                // A latent's rows are its values.
                let one = |by| self.width == 1 && by != ClipBy::Norm;
                if by != clip.by && !(one(by) && one(clip.by)) {
                    add("another clip", Langevin { gradient_clip: Some(GradientClip { by, ..clip }), ..chain });
                }
            }
        }
        if let Some(bounds) = chain.bounds {
            add("no box", Langevin { bounds: None, ..chain });
            let leaving = if bounds.leaving == Leaving::Clamp { Leaving::Reject } else { Leaving::Clamp };
            add("another end at the box", Langevin { bounds: Some(Bounds { leaving, ..bounds }), ..chain });
        }
        if self.on_sphere {
            all.push(("no projection", Self { on_sphere: false, ..self.clone() }));
        }
        if let Some(ratio) = self.ratio {
            let mut add = |what, ratio| all.push((what, Self { ratio, ..self.clone() }));
            add("every step taken", None);
            add("no energies in the ratio", Some(Ratio { energy: 0.0, ..ratio }));
            add("no T in the ratio", Some(Ratio { energy: 1.0, ..ratio }));
            add("no forward step in the ratio", Some(Ratio { forward: 0.0, ..ratio }));
            add("no backward step in the ratio", Some(Ratio { backward: 0.0, ..ratio }));
            let drift = if ratio.drift == 1.0 { self.temperature } else { 1.0 };
            add("the other ratio's drift", Some(Ratio { drift, ..ratio }));
        }
        all
    }

    /// Where the chain ends from `start`, and how many steps were taken. `gradient` has energies and gradients of a
    /// batch.
    fn run(
        &self,
        start: &Tensor<4>,
        noise: &ChainNoise,
        gradient: impl Fn(Tensor<4>) -> EnergyGradient,
    ) -> (Vec<f64>, usize) {
        let shape = start.dims();
        let len: usize = shape[1..].iter().product();
        let evaluate = |states: &[f64]| {
            let single = states.iter().map(|v| *v as f32).collect::<Vec<_>>();
            let EnergyGradient { energy, gradient } =
                gradient(Tensor::from_data(TensorData::new(single, shape), &Device::flex()));
            let mut drifts = wide(gradient);
            for (drift, state) in drifts.chunks_exact_mut(len).zip(states.chunks_exact(len)) {
                if self.chain.normalize {
                    if self.along {
                        let outward: f64 = drift.iter().zip(state).map(|(g, x)| g * x).sum();
                        drift.iter_mut().zip(state).for_each(|(g, x)| *g -= outward * x);
                    }
                    let norm = squares(drift.iter().copied()).sqrt();
                    drift.iter_mut().for_each(|g| *g *= -self.drift / norm);
                    continue;
                }
                drift.iter_mut().for_each(|g| *g /= self.temperature);
                if let Some(clip) = self.chain.gradient_clip {
                    clipped(drift, clip, self.width);
                }
                drift.iter_mut().for_each(|g| *g *= -self.drift);
            }
            (wide(energy), drifts)
        };
        let (mut states, mut taken) = (wide(start.clone()), 0);
        for t in 0..self.chain.steps {
            let sigma = self.noise
                / match self.chain.annealing {
                    Annealing::None => 1.0,
                    Annealing::Harmonic => 1.0 + t as f64,
                    Annealing::HarmonicDelayed => 1f64.max(t as f64),
                };
            let (energies, drifts) = evaluate(&states);
            let mut proposals = states.clone();
            let (mut steps, mut inside) = (Vec::new(), Vec::new());
            for (i, y) in proposals.chunks_exact_mut(len).enumerate() {
                let (sample, step) = (self.drawn)(i, t);
                let mut epsilon = vec![0f32; len];
                noise.fill(sample, step, &mut epsilon);
                let (x, drift) = (y.to_vec(), &drifts[i * len..][..len]);
                steps.extend(epsilon.iter().map(|e| f64::from(*e) * sigma));
                for (k, y) in y.iter_mut().enumerate() {
                    *y = x[k] + drift[k] + steps[i * len + k];
                }
                let mut within = true;
                if let Some(Bounds { min, max, leaving }) = self.chain.bounds {
                    let (min, max) = (f64::from(min), f64::from(max));
                    within = y.iter().all(|y| *y >= min && *y <= max);
                    match leaving {
                        Leaving::Clamp => y.iter_mut().for_each(|y| *y = y.max(min).min(max)),
                        Leaving::Reject if !within => y.copy_from_slice(&x),
                        Leaving::Reject => {}
                    }
                }
                inside.push(within);
                if self.on_sphere {
                    let norm = squares(y.iter().copied()).sqrt();
                    y.iter_mut().for_each(|y| *y /= norm);
                }
            }
            let Some(ratio) = self.ratio else {
                taken += shape[0];
                states = proposals;
                continue;
            };
            let (proposed_energies, proposed_drifts) = evaluate(&proposals);
            for i in 0..shape[0] {
                let sample = i * len..(i + 1) * len;
                // y − x − d(x) is the noise; x − y − d(y) is less the noise and both drifts.
                let forward = squares(steps[sample.clone()].iter().copied());
                let backward =
                    squares(sample.clone().map(|k| steps[k] + ratio.drift * (drifts[k] + proposed_drifts[k])));
                let log_alpha = ratio.energy * (energies[i] - proposed_energies[i]) + ratio.forward * forward
                    - ratio.backward * backward;
                if inside[i] && f64::from(noise.acceptance(i, t)).ln() < log_alpha {
                    taken += 1;
                    states[sample.clone()].copy_from_slice(&proposals[sample]);
                }
            }
        }
        (states, taken)
    }
}

/// The gradient of one image whose rows have `width` values.
fn clipped(gradient: &mut [f64], GradientClip { limit, by }: GradientClip, width: usize) {
    let limit = f64::from(limit);
    let len = match by {
        ClipBy::Element => 1,
        ClipBy::Norm => gradient.len(),
        ClipBy::RowNorm => width,
    };
    for part in gradient.chunks_exact_mut(len) {
        let norm = squares(part.iter().copied()).sqrt();
        if norm > limit {
            part.iter_mut().for_each(|g| *g *= limit / norm);
        }
    }
}

fn squares(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum()
}

fn wide<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f32>().map(f64::from).collect()
}

/// A function of a network to run a chain on.
struct Energy<'a> {
    name: String,
    space: LatentSpace,
    temperature: f32,
    /// σ of a step that energies tell from none.
    far: f32,
    start: Tensor<4>,
    gradient: &'a dyn Fn(Tensor<4>) -> EnergyGradient,
    chain: &'a dyn Fn(&Langevin, Tensor<4>, f32, &mut NoiseSource) -> ChainEnd,
}

impl Energy<'_> {
    /// Root mean square of the gradient's values at the start.
    fn slope(&self) -> f64 {
        let gradient = wide((self.gradient)(self.start.clone()).gradient);
        (squares(gradient.iter().copied()) / gradient.len() as f64).sqrt()
    }

    /// Settings by which every term counts: a step of 0.1 by the drift and half of that by the noise, and a clip between
    /// the gradient and its T-th part. With a correction some steps are taken and some are not: by the exact ratio where
    /// 2λ is half of σ², by the code's where the drift carries a sample to the other side.
    fn chains(&self) -> Vec<Langevin> {
        let [_, c, h, w] = self.start.dims();
        let (slope, t) = (self.slope(), f64::from(self.temperature));
        let plain = Langevin::new(3, (0.1 * t / slope) as f32, 0.05);
        let clip = |by, len: usize| {
            let limit = (slope * (len as f64 / t).sqrt()) as f32;
            Some(GradientClip { limit, by })
        };
        let adjusted =
            |step_size, metropolis| Langevin { metropolis: Some(metropolis), ..Langevin::new(4, step_size, self.far) };
        let start = wide(self.start.clone());
        let across = 2.0 * t * (squares(start.iter().copied()) / start.len() as f64).sqrt() / slope;
        let mut chains = vec![
            plain,
            Langevin { annealing: Annealing::Harmonic, gradient_clip: clip(ClipBy::Element, 1), ..plain },
            Langevin { annealing: Annealing::HarmonicDelayed, gradient_clip: clip(ClipBy::RowNorm, w), ..plain },
            Langevin { gradient_clip: clip(ClipBy::Norm, c * h * w), ..plain },
            Langevin { normalize: true, step_size: 0.1 * ((c * h * w) as f32).sqrt(), ..plain },
        ];
        if self.space == LatentSpace::Euclidean {
            let bounds = |margin: f32, leaving| {
                let (min, max) = if w == 1 { (-1.5 - margin, 1.5 + margin) } else { (-margin, 1.0 + margin) };
                Some(Bounds { min, max, leaving })
            };
            chains.push(Langevin { bounds: bounds(0.0, Leaving::Clamp), ..plain });
            let less = Langevin { step_size: 0.3 * plain.step_size, ..plain };
            chains.push(Langevin { bounds: bounds(0.12, Leaving::Reject), ..less });
            chains.push(adjusted(self.far * self.far / 4.0, Metropolis::Exact));
            // What leaves a box is refused whatever the ratio says.
            let near = Langevin::new(4, 0.05f32.powi(2) / 4.0, 0.05);
            let (metropolis, bounds) = (Some(Metropolis::Exact), bounds(0.12, Leaving::Reject));
            chains.push(Langevin { metropolis, bounds, ..near });
            // Latents that are thrown so far end where rounding is magnified.
            if w > 1 {
                chains.push(adjusted(across as f32, Metropolis::Code));
            }
        }
        chains
    }

    /// Both implementations against the reference, and the reference against its own changes.
    fn check(&self, chain: &Langevin) {
        let reference = Reference::new(chain, self.temperature, self.space, self.start.dims()[3]);
        let noise = source().chain();
        let (expected, taken) = reference.run(&self.start, &noise, self.gradient);
        let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let what = format!("{}, {chain:?}", self.name);
        for (end, by) in [
            ((self.chain)(chain, self.start.clone(), self.temperature, &mut source()), "engine"),
            (chain.run(self.start.clone(), self.temperature, &mut source(), self.gradient, self.space), "tensors"),
        ] {
            let share = taken as f64 / (SAMPLES * chain.steps) as f64;
            assert_eq!(end.acceptance, chain.metropolis.map(|_| share), "{what}, {by}");
            let found = wide(end.state);
            let each: Vec<f64> = expected
                .chunks(expected.len() / SAMPLES)
                .zip(found.chunks(found.len() / SAMPLES))
                .map(|(a, b)| apart(a, b))
                .collect();
            let off = each.iter().copied().fold(0.0, f64::max);
            println!("{what}, {by}: {off:.1e}, {taken} steps taken");
            // Rounding may take a sample past the kink of a ReLU, where its slope jumps: on Zen 3 it does so in one of these chains,
            // with AVX-512 in none.
            let beyond = each.iter().filter(|off| **off >= BOUND).count();
            assert!(beyond <= 1 && off < MOVED * BOUND, "{what}, {by}: {off}, {beyond} samples");
        }
        if chain.metropolis.is_some() {
            assert!(taken > 0 && taken < SAMPLES * chain.steps, "{what}: {taken} steps taken");
        }
        // Within a box steps are too short for energies to tell, and what leaves it is refused whatever happens elsewhere: the rest
        // is told apart without one.
        let in_a_box = chain.metropolis.is_some() && chain.bounds.is_some();
        for (change, reference) in reference.changed() {
            if in_a_box && change != "no box" {
                continue;
            }
            let moved = apart(&reference.run(&self.start, &noise, self.gradient).0, &expected);
            println!("    {change}: {moved:.1e}");
            assert!(moved > MOVED * BOUND, "{what}: a chain with {change} ends {moved} away");
        }
    }
}

fn source() -> NoiseSource {
    NoiseSource::new(5, 0)
}

/// Both chains of a network, with the settings of these numbers, of all where none are given.
fn check(spec: &AutoencoderSpec, chosen: Option<&[usize]>) {
    let (image, space, device) = (spec.image(), spec.latent_space(), Device::flex());
    let model = crate::networks::trained_scale(spec, 1);
    let shape = [image.channels, image.height, image.width];
    let frozen = Engine::Cpu.freeze(&model, shape, Precision::F32, &device);
    let visible = Energy {
        name: format!("{}, visible", spec.name()),
        space: LatentSpace::Euclidean,
        temperature: 0.7,
        far: 1.0,
        start: NoiseSource::new(1, 0).uniform([SAMPLES, shape[0], shape[1], shape[2]], &device),
        gradient: &|x| frozen.visible(x),
        chain: &|chain, x, temperature, noise| frozen.visible_chain(chain, x, temperature, noise),
    };
    // On-manifold energies are small.
    let latent = Energy {
        name: format!("{}, latent", spec.name()),
        space,
        temperature: 0.002,
        far: 0.5,
        start: NoiseSource::new(2, 0).latents(space, SAMPLES, LATENT_DIM, &device),
        gradient: &|z| frozen.latent(z),
        chain: &|chain, z, temperature, noise| frozen.latent_chain(chain, z, temperature, noise),
    };
    for energy in [visible, latent] {
        println!("{}: slope {:.1e}", energy.name, energy.slope());
        for (index, chain) in energy.chains().iter().enumerate() {
            if chosen.is_none_or(|chosen| chosen.contains(&index)) {
                energy.check(chain);
            }
        }
    }
}

#[test]
fn chains_in_space_are_those_of_float64() {
    check(&small_conv16(1, 2, LATENT_DIM, LatentSpace::Euclidean).unwrap(), None);
}

#[test]
fn chains_on_the_sphere_are_those_of_float64() {
    check(&small_conv16(1, 2, LATENT_DIM, LatentSpace::Sphere).unwrap(), None);
}

/// Where an image has channels, the noise has its order of values and a row's norm is one channel's.
#[test]
fn chains_of_images_in_colour_are_those_of_float64() {
    check(&conv32(2, LATENT_DIM, LatentSpace::Sphere).unwrap(), Some(&[2]));
}

/// Without noise, every latent chain ends lower than the noise it began in, and every visible chain lower than where the
/// decoder put it: decoded noise, or a decoder's image handed on as it is, does not pass.
#[test]
fn every_stage_of_a_draw_has_a_lower_energy() {
    let spec = small_conv16(1, 2, LATENT_DIM, LatentSpace::Sphere).unwrap();
    let model = crate::networks::trained_scale(&spec, 1);
    let frozen = Engine::Cpu.freeze(&model, [1, 16, 16], Precision::F32, &Device::flex());
    let config = SamplerConfig {
        start: Start::OnManifold { replay_buffer: None },
        latent_chain: Some(Langevin::new(5, 12.0, 0.0)),
        visible_chain: Langevin::new(5, 10.0, 0.0),
        temperature: 1.0,
        precision: Precision::F32,
        reuse: None,
    };
    let images = NewImages::new(&config).unwrap();
    let stages = images.stages(&*frozen, SAMPLES, LATENT_DIM, 1.0, &mut source(), &Device::flex());
    let energies = stages.map(|x| wide(frozen.visible(x).energy));
    let mean = |e: &[f64]| e.iter().sum::<f64>() / SAMPLES as f64;
    println!("{:?}", energies.each_ref().map(|e| mean(e)));
    for (before, after) in [(0, 1), (1, 2)] {
        assert!(energies[before].iter().zip(&energies[after]).all(|(a, b)| b < a), "{energies:?}");
        assert!(mean(&energies[after]) < 0.9 * mean(&energies[before]), "{energies:?}");
    }
    // The sampler's draws, with and without the visible chain.
    for (steps, share) in [(0, 0.9), (5, 0.5)] {
        let config = SamplerConfig { visible_chain: Langevin::new(steps, 10.0, 0.0), ..config };
        let mut sampler = NegativeSampler::new(config, LATENT_DIM, source());
        let data = Tensor::zeros([SAMPLES, 1, 16, 16], &Device::flex());
        let drawn = wide(frozen.visible(sampler.sample(&*frozen, data, 1.0)).energy);
        assert!(mean(&drawn) < share * mean(&energies[0]), "{steps} steps: {drawn:?}");
    }
}
