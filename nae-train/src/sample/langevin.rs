//! Langevin Monte Carlo (paper, equations 8 and 16): x ← x − λ·∇E(x)/T + σ_t·ε.
//!
//! This module has a chain's settings and its loop with tensors for any device; [`engine::chain`](crate::engine::chain)
//! computes the same on the CPU. The parts are in [`annealing`](super::annealing),
//! [`gradient_clip`](super::gradient_clip), [`bounds`](super::bounds) and [`metropolis`](super::metropolis).
//! [`config`](crate::config) checks which combinations a preset may use.

use burn::tensor::{Bool, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::annealing::Annealing;
use super::bounds::{Bounds, select};
use super::frozen::EnergyGradient;
use super::gradient_clip::{ClipBy, GradientClip};
use super::metropolis::{Metropolis, Proposal};
use super::noise::{ChainNoise, NoiseSource};
use crate::arch::LatentSpace;

/// The settings of one chain.
///
/// A preset may leave out one of `step_size` and `noise`; it then follows from the other by σ² = 2λ, with which an
/// unclipped chain of small steps samples exp(−E/T).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Langevin {
    /// The number of steps τ.
    pub steps: usize,
    /// The step size λ.
    pub step_size: f32,
    /// The standard deviation σ of the noise.
    pub noise: f32,
    /// Whether the gradient is first scaled to a unit vector (on the sphere, its tangential part), so that every drift
    /// has length λ for any energy and T (MPDR's latent chain).
    pub normalize: bool,
    /// How σ changes along the chain.
    pub annealing: Annealing,
    /// The limit on ∇E/T.
    pub gradient_clip: Option<GradientClip>,
    /// The box that the chain stays in.
    pub bounds: Option<Bounds>,
    /// The correction that may reject steps, so that the chain samples exp(−E/T) with steps of any size.
    pub metropolis: Option<Metropolis>,
}

/// The end of a chain.
#[derive(Clone, Debug)]
pub struct ChainEnd {
    /// The last state of each sample.
    pub state: Tensor<4>,
    /// The share of accepted steps; `None` without Metropolis–Hastings or without steps.
    pub acceptance: Option<f64>,
}

impl Langevin {
    /// A chain of `steps` steps of size λ = `step_size` with σ = √(2λ) and no other settings.
    pub fn with_step_size(steps: usize, step_size: f32) -> Self {
        Self::new(steps, step_size, (2.0 * step_size).sqrt())
    }

    /// A chain of `steps` steps with noise σ = `noise`, λ = σ²/2 and no other settings.
    pub fn with_noise(steps: usize, noise: f32) -> Self {
        Self::new(steps, noise * noise / 2.0, noise)
    }

    /// A chain of `steps` steps of size λ = `step_size` with noise σ = `noise` and no other settings.
    pub fn new(steps: usize, step_size: f32, noise: f32) -> Self {
        Self {
            steps,
            step_size,
            noise,
            normalize: false,
            annealing: Annealing::None,
            gradient_clip: None,
            bounds: None,
            metropolis: None,
        }
    }

    /// Runs the chain from `start` `[N, C, H, W]` at temperature T in `space`: the latent space, or
    /// [`LatentSpace::Euclidean`] for images.
    ///
    /// Calls `energy` once for each step, and once more at the start with Metropolis–Hastings.
    pub fn run(
        &self,
        start: Tensor<4>,
        temperature: f32,
        noise: &mut NoiseSource,
        energy: impl Fn(Tensor<4>) -> EnergyGradient,
        space: LatentSpace,
    ) -> ChainEnd {
        let noise = noise.chain();
        match self.metropolis {
            Some(metropolis) => self.run_adjusted(metropolis, start, temperature, &noise, energy, space),
            None => ChainEnd { state: self.run_plain(start, temperature, &noise, energy, space), acceptance: None },
        }
    }

    fn run_plain(
        &self,
        start: Tensor<4>,
        temperature: f32,
        noise: &ChainNoise,
        energy: impl Fn(Tensor<4>) -> EnergyGradient,
        space: LatentSpace,
    ) -> Tensor<4> {
        let (shape, device) = (start.dims(), start.device());
        (0..self.steps).fold(start, |state, t| {
            let gradient = self.descent(&state, energy(state.clone()).gradient, temperature, space);
            let epsilon = noise.normal(t, shape, &device);
            let proposal = state.clone() - gradient.mul_scalar(self.step_size) + epsilon.mul_scalar(self.sigma(t));
            space.project(self.bounds.map_or(proposal.clone(), |bounds| bounds.hold(state, proposal)))
        })
    }

    fn run_adjusted(
        &self,
        metropolis: Metropolis,
        start: Tensor<4>,
        temperature: f32,
        noise: &ChainNoise,
        energy: impl Fn(Tensor<4>) -> EnergyGradient,
        space: LatentSpace,
    ) -> ChainEnd {
        let (shape, device) = (start.dims(), start.device());
        let n = shape[0];
        let evaluate = |x: Tensor<4>| {
            let EnergyGradient { energy, gradient } = energy(x.clone());
            let drift = self.descent(&x, gradient, temperature, space).mul_scalar(-self.step_size);
            (floats(energy), drift)
        };
        let mut state = start;
        let (mut energies, mut drift) = evaluate(state.clone());
        let mut taken = 0;
        for t in 0..self.steps {
            let sigma = self.sigma(t);
            let step = noise.normal(t, shape, &device).mul_scalar(sigma);
            let proposal = state.clone() + drift.clone() + step.clone();
            // Outside of bounds that reject, the density is zero, so such a step is rejected. The energy there may not
            // be finite and is not computed: `hold` has replaced the proposal by the state.
            let inside = self.bounds.map(|bounds| bounds.contains(&proposal).into_data().iter::<bool>().collect());
            let inside: Vec<bool> = inside.unwrap_or_else(|| vec![true; n]);
            let proposal = self.bounds.map_or(proposal.clone(), |bounds| bounds.hold(state.clone(), proposal));
            let proposal = space.project(proposal);

            let (proposed_energies, proposed_drift) = evaluate(proposal.clone());
            let drifts = (drift.clone() + proposed_drift.clone()).mul_scalar(metropolis.drift_factor(temperature));
            let (forward, backward) = (squared_norms(&step), squared_norms(&(drifts + step)));
            let accept: Vec<bool> = (0..n)
                .map(|i| {
                    let proposed = Proposal {
                        energy: energies[i].into(),
                        proposed_energy: proposed_energies[i].into(),
                        forward: forward[i].into(),
                        backward: backward[i].into(),
                    };
                    let uniform = noise.acceptance(i, t);
                    inside[i] && metropolis.takes(proposed, temperature, self.step_size, sigma, uniform)
                })
                .collect();

            taken += accept.iter().filter(|accepted| **accepted).count();
            for i in (0..n).filter(|&i| accept[i]) {
                energies[i] = proposed_energies[i];
            }
            let accept = Tensor::<1, Bool>::from_data(TensorData::new(accept, [n]), &device);
            drift = select(accept.clone(), proposed_drift, drift);
            state = select(accept, proposal, state);
        }
        ChainEnd { state, acceptance: self.acceptance(taken, n) }
    }

    /// ∇E/T after clipping, or its direction if `normalize` is set.
    fn descent(&self, state: &Tensor<4>, gradient: Tensor<4>, temperature: f32, space: LatentSpace) -> Tensor<4> {
        if self.normalize {
            return unit(match space {
                LatentSpace::Sphere => gradient.clone() - state.clone() * dot(state, &gradient),
                LatentSpace::Euclidean => gradient,
            });
        }
        let gradient = if temperature == 1.0 { gradient } else { gradient.div_scalar(temperature) };
        self.gradient_clip.map_or(gradient.clone(), |clip| clip.apply(gradient))
    }

    /// The share of `taken` steps among all steps of `samples` samples.
    pub(crate) fn acceptance(&self, taken: usize, samples: usize) -> Option<f64> {
        let proposed = samples * self.steps;
        (proposed > 0).then(|| taken as f64 / proposed as f64)
    }

    /// σ at step `t`, from 0.
    pub(crate) fn sigma(&self, t: usize) -> f32 {
        self.noise * self.annealing.factor(t)
    }
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().expect("energies and norms are float")
}

/// The least length that a gradient is divided by. The squares of shorter ones are lost in float32; divided by this, they
/// stay short.
pub(crate) const SHORTEST: f32 = 1e-18;

/// Scales each sample to unit length; a sample near zero stays near zero.
fn unit(x: Tensor<4>) -> Tensor<4> {
    let norm = dot(&x, &x).sqrt();
    x / norm.clamp_min(SHORTEST)
}

/// The dot products of the samples of two batches, `[N, 1, 1, 1]`.
fn dot(a: &Tensor<4>, b: &Tensor<4>) -> Tensor<4> {
    let [n, c, h, w] = a.dims();
    (a.clone() * b.clone()).reshape([n, c * h * w]).sum_dim(1).reshape([n, 1, 1, 1])
}

/// ‖x‖² of each sample.
fn squared_norms(x: &Tensor<4>) -> Vec<f32> {
    floats(dot(x, x))
}

/// The form of a chain in a preset.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    steps: usize,
    step_size: Option<f32>,
    noise: Option<f32>,
    // Not written if false, so that older settings stay unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    normalize: bool,
    #[serde(default)]
    annealing: Annealing,
    gradient_clip: Option<f32>,
    gradient_clip_by: Option<ClipBy>,
    bounds: Option<Bounds>,
    metropolis: Option<Metropolis>,
}

impl TryFrom<Written> for Langevin {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { steps, normalize, annealing, bounds, metropolis, .. } = written;
        let chain = match (written.step_size, written.noise) {
            (Some(step_size), Some(noise)) => Self::new(steps, step_size, noise),
            (Some(step_size), None) => Self::with_step_size(steps, step_size),
            (None, Some(noise)) => Self::with_noise(steps, noise),
            (None, None) => return Err("a chain needs `step_size`, `noise` or both"),
        };
        let gradient_clip = match (written.gradient_clip, written.gradient_clip_by) {
            (Some(limit), by) => Some(GradientClip { limit, by: by.unwrap_or_default() }),
            (None, None) => None,
            (None, Some(_)) => return Err("`gradient_clip_by` needs `gradient_clip`, the limit"),
        };
        Ok(Self { normalize, annealing, gradient_clip, bounds, metropolis, ..chain })
    }
}

impl From<Langevin> for Written {
    fn from(chain: Langevin) -> Self {
        let Langevin { steps, step_size, noise, normalize, annealing, gradient_clip, bounds, metropolis } = chain;
        Self {
            steps,
            step_size: Some(step_size),
            noise: Some(noise),
            normalize,
            annealing,
            gradient_clip: gradient_clip.map(|clip| clip.limit),
            gradient_clip_by: gradient_clip.map(|clip| clip.by),
            bounds,
            metropolis,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use burn::tensor::Device;

    use super::super::bounds::Leaving;
    use super::*;

    fn quadratic(x: Tensor<4>) -> EnergyGradient {
        let n = x.dims()[0];
        EnergyGradient { energy: (x.clone() * x.clone()).reshape([n]).mul_scalar(0.5), gradient: x }
    }

    /// For E = x²/2, the steps x ← (1 − λ/T)·x + σ·ε have the stationary variance σ² / (1 − (1 − λ/T)²).
    #[test]
    fn a_quadratic_energy_gives_the_closed_form_variance() {
        let device = Device::flex();
        let (step_size, temperature) = (0.1f32, 0.5f32);
        let chain = Langevin::with_step_size(200, step_size);
        let n = 20_000;
        let mut noise = NoiseSource::new(1, 0);
        let start = Tensor::zeros([n, 1, 1, 1], &device);
        let end = chain.run(start, temperature, &mut noise, quadratic, LatentSpace::Euclidean);
        assert_eq!(end.acceptance, None);
        let variance = floats(end.state).iter().map(|v| f64::from(v * v)).sum::<f64>() / n as f64;
        let contraction = 1.0 - f64::from(step_size / temperature);
        let expected = 2.0 * f64::from(step_size) / (1.0 - contraction * contraction);
        // The standard error of a variance estimated from n normal values is expected·√(2/n); the bound is four of
        // them.
        let bound = 4.0 * expected * (2.0 / n as f64).sqrt();
        assert!((variance - expected).abs() < bound, "{variance} against {expected} ± {bound}");
    }

    /// Each field differs from its default.
    #[test]
    fn a_chain_is_read_as_it_is_written() {
        let chain = Langevin {
            normalize: true,
            annealing: Annealing::Harmonic,
            gradient_clip: Some(GradientClip { limit: 0.25, by: ClipBy::Norm }),
            bounds: Some(Bounds { min: -1.0, max: 2.0, leaving: Leaving::Reject }),
            metropolis: Some(Metropolis::Code),
            ..Langevin::new(3, 0.5, 0.125)
        };
        let text = toml::to_string(&chain).expect("writes");
        for line in
            ["annealing = \"harmonic\"", "gradient_clip = 0.25", "gradient_clip_by = \"norm\"", "metropolis = \"code\""]
        {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert_eq!(toml::from_str::<Langevin>(&text).expect("reads"), chain);
    }

    #[test]
    fn acceptance_is_a_share_of_all_steps_where_there_are_any() {
        let acceptance = |steps, taken| Langevin::with_step_size(steps, 0.1).acceptance(taken, 4);
        assert_eq!(acceptance(2, 6), Some(0.75));
        assert_eq!(acceptance(0, 0), None);
    }

    #[test]
    fn clipping_bounds_the_drift() {
        let device = Device::flex();
        let steep =
            |x: Tensor<4>| EnergyGradient { energy: Tensor::zeros([1], &x.device()), gradient: x.ones_like() * 7.0 };
        let gradient_clip = Some(GradientClip { limit: 0.01, by: ClipBy::Element });
        let chain = Langevin { gradient_clip, ..Langevin::new(3, 10.0, 0.0) };
        let start = Tensor::zeros([1, 1, 1, 1], &device);
        let end = chain.run(start, 1.0, &mut NoiseSource::new(0, 0), steep, LatentSpace::Euclidean);
        assert!((end.state.into_scalar::<f32>() + 0.3).abs() < 1e-6);
    }

    /// The squares of the last one are zero in float32.
    #[test]
    fn short_gradients_have_unit_length_and_vanishing_ones_stay_short() {
        for (each, length) in [(3.0, 1.0), (1e-15, 1.0), (1e-24, 0.0)] {
            let unit = unit(Tensor::full([1, 32, 1, 1], each, &Device::flex()));
            let found = floats(unit).iter().map(|v| f64::from(v * v)).sum::<f64>().sqrt();
            assert!((found - length).abs() < 1e-4, "{each}: {found}");
        }
    }

    #[test]
    fn a_chain_asks_for_one_gradient_a_step() {
        let asked = Cell::new(0);
        let counted = |x: Tensor<4>| {
            asked.set(asked.get() + 1);
            quadratic(x)
        };
        let run = |metropolis| {
            asked.set(0);
            let chain = Langevin { metropolis, ..Langevin::with_noise(7, 0.5) };
            let start = Tensor::zeros([3, 1, 1, 1], &Device::flex());
            chain.run(start, 1.0, &mut NoiseSource::new(0, 0), counted, LatentSpace::Euclidean);
            asked.get()
        };
        assert_eq!((run(None), run(Some(Metropolis::Exact))), (7, 8));
    }

    #[test]
    fn energies_that_are_not_numbers_are_refused() {
        let broken = |x: Tensor<4>| {
            let EnergyGradient { energy, gradient } = quadratic(x);
            let outside = energy.clone().greater_elem(0.5);
            EnergyGradient { energy: energy.mask_fill(outside, f32::NAN), gradient }
        };
        let chain = Langevin { metropolis: Some(Metropolis::Exact), ..Langevin::with_noise(50, 1.0) };
        let start = Tensor::zeros([100, 1, 1, 1], &Device::flex());
        let end = chain.run(start, 1.0, &mut NoiseSource::new(0, 0), broken, LatentSpace::Euclidean);
        assert!(floats(end.state).iter().all(|x| x.abs() <= 1.0));
        assert!(end.acceptance.is_some_and(|rate| rate > 0.2 && rate < 1.0), "{:?}", end.acceptance);
    }

    #[test]
    fn bounds_hold_with_and_without_refusals() {
        for (leaving, metropolis) in
            [(Leaving::Clamp, None), (Leaving::Reject, None), (Leaving::Reject, Some(Metropolis::Exact))]
        {
            let bounds = Some(Bounds { min: -0.5, max: 0.25, leaving });
            let chain = Langevin { bounds, metropolis, ..Langevin::with_noise(20, 0.4) };
            let start = Tensor::zeros([200, 1, 1, 1], &Device::flex());
            let end = chain.run(start, 1.0, &mut NoiseSource::new(0, 0), quadratic, LatentSpace::Euclidean);
            let state = floats(end.state);
            assert!(state.iter().all(|x| (-0.5..=0.25).contains(x)));
            let at_the_wall = state.contains(&0.25);
            assert_eq!(at_the_wall, leaving == Leaving::Clamp);
        }
    }

    #[test]
    fn either_of_step_and_noise_follows_from_the_other() {
        let read = |text: &str| toml::from_str::<Langevin>(text);
        let chain = read("steps = 3\nnoise = 0.1").expect("valid");
        assert!((chain.step_size - 0.005).abs() < 1e-9 && chain.noise == 0.1);
        let chain = read("steps = 3\nstep_size = 0.005").expect("valid");
        assert!((chain.noise - 0.1).abs() < 1e-7 && chain.step_size == 0.005);
        let chain =
            read("steps = 3\nstep_size = 10.0\nnoise = 0.05\ngradient_clip = 0.01\ngradient_clip_by = \"norm\"");
        assert_eq!(chain.expect("valid").gradient_clip, Some(GradientClip { limit: 0.01, by: ClipBy::Norm }));
        for (text, named) in [
            ("steps = 3", "step_size"),
            ("steps = 3\nnoise = 0.1\ngradient_clip_by = \"norm\"", "gradient_clip"),
            ("steps = 3\nnoise = 0.1\nmetropolis = \"exct\"", "exct"),
            ("steps = 3\nnoise = 0.1\nbounds = { min = 0.0, max = 1.0 }", "leaving"),
            ("steps = 3\nnois = 0.1", "nois"),
        ] {
            let message = read(text).expect_err("refused").to_string();
            assert!(message.contains(named), "{message}");
        }
    }
}
