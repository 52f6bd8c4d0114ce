//! A Langevin chain for one shard, from its start to its end, with the steps of [`Langevin::run`]. That function uses
//! tensors on any device; this module uses planes on the CPU.
//!
//! After the network's gradient, a step is one pass over each sample, which applies limit, drift, noise, bounds and
//! projection while the values are in the cache. The next state reuses the gradient's memory, so a step allocates none.

use nae_simd::{Planes, Size, Workspace, normalize};

use crate::arch::LatentSpace;
use crate::sample::langevin::SHORTEST;
use crate::sample::metropolis::Proposal;
use crate::sample::{ChainNoise, Langevin, Metropolis};

/// A chain that is run for each shard.
#[derive(Clone, Copy)]
pub(crate) struct ShardChain<'a> {
    /// The settings of the chain.
    pub chain: &'a Langevin,
    /// The temperature T.
    pub temperature: f32,
    /// The space of the chain: the latent space, or [`LatentSpace::Euclidean`] for images.
    pub space: LatentSpace,
    /// The noise of the chain.
    pub noise: &'a ChainNoise,
}

impl ShardChain<'_> {
    /// Runs the chain from `start`. Returns its end, and with Metropolis–Hastings the number of accepted steps. `first`
    /// is the number of the shard's first sample in the batch. `gradient` computes energies and their gradients; it is
    /// called as often as in [`Langevin::run`].
    pub(crate) fn run(
        &self,
        start: Planes,
        first: usize,
        gradient: impl Fn(&Planes) -> (Vec<f32>, Planes),
    ) -> (Planes, Option<usize>) {
        match self.chain.metropolis {
            Some(metropolis) => {
                let (end, taken) = self.adjusted(metropolis, start, first, gradient);
                (end, Some(taken))
            }
            None => (self.plain(start, first, gradient), None),
        }
    }

    fn plain(&self, mut state: Planes, first: usize, gradient: impl Fn(&Planes) -> (Vec<f32>, Planes)) -> Planes {
        let size = state.size;
        let mut epsilon = Epsilon::new(state.workspace(), size);
        for t in 0..self.chain.steps {
            let (_, mut proposal) = gradient(&state);
            let (step_size, sigma) = (self.chain.step_size, self.chain.sigma(t));
            for (i, (x, g)) in samples(&state).zip(samples_mut(&mut proposal)).enumerate() {
                self.descent(x, g, size);
                let epsilon = epsilon.draw(self.noise, first + i, t);
                for ((g, x), epsilon) in g.iter_mut().zip(x).zip(epsilon) {
                    *g = x - *g * step_size + epsilon * sigma;
                }
                if let Some(bounds) = self.chain.bounds {
                    bounds.hold_sample(x, g);
                }
            }
            self.project(&mut proposal);
            state = proposal;
        }
        state
    }

    fn adjusted(
        &self,
        metropolis: Metropolis,
        mut state: Planes,
        first: usize,
        gradient: impl Fn(&Planes) -> (Vec<f32>, Planes),
    ) -> (Planes, usize) {
        let (n, size) = (state.n, state.size);
        let drifting = |x: &Planes| {
            let (energies, mut drift) = gradient(x);
            for (x, drift) in samples(x).zip(samples_mut(&mut drift)) {
                self.descent(x, drift, size);
                drift.iter_mut().for_each(|d| *d *= -self.chain.step_size);
            }
            (energies, drift)
        };
        let (mut energies, mut drift) = drifting(&state);
        let mut epsilon = Epsilon::new(state.workspace(), size);
        let mut step = Planes::scratch(state.workspace(), n, size);
        let mut inside = vec![true; n];
        let mut taken = 0;
        for t in 0..self.chain.steps {
            let sigma = self.chain.sigma(t);
            let mut proposal = drift.clone();
            for (i, (y, x)) in samples_mut(&mut proposal).zip(samples(&state)).enumerate() {
                let step = &mut step.data[i * size.len()..][..size.len()];
                for (step, epsilon) in step.iter_mut().zip(epsilon.draw(self.noise, first + i, t)) {
                    *step = epsilon * sigma;
                }
                for ((y, x), step) in y.iter_mut().zip(x).zip(&*step) {
                    *y = x + *y + step;
                }
                if let Some(bounds) = self.chain.bounds {
                    inside[i] = bounds.contains_sample(y);
                    bounds.hold_sample(x, y);
                }
            }
            self.project(&mut proposal);

            let (proposed_energies, proposed_drift) = drifting(&proposal);
            let factor = metropolis.drift_factor(self.temperature);
            for i in 0..n {
                let sample = i * size.len()..(i + 1) * size.len();
                let step = &step.data[sample.clone()];
                let drifts = drift.data[sample.clone()].iter().zip(&proposed_drift.data[sample.clone()]);
                let back = drifts.zip(step).map(|((d, proposed), step)| (d + proposed) * factor + step);
                let proposed = Proposal {
                    energy: energies[i].into(),
                    proposed_energy: proposed_energies[i].into(),
                    forward: step.iter().map(|v| v * v).sum::<f32>().into(),
                    backward: back.map(|v| v * v).sum::<f32>().into(),
                };
                let uniform = self.noise.acceptance(first + i, t);
                if inside[i] && metropolis.takes(proposed, self.temperature, self.chain.step_size, sigma, uniform) {
                    taken += 1;
                    energies[i] = proposed_energies[i];
                    drift.data[sample.clone()].copy_from_slice(&proposed_drift.data[sample.clone()]);
                    state.data[sample.clone()].copy_from_slice(&proposal.data[sample]);
                }
            }
        }
        (state, taken)
    }

    /// Converts ∇E at `state`, one sample, to the direction of the drift: ∇E/T after clipping, or the unit vector of
    /// ∇E.
    fn descent(&self, state: &[f32], gradient: &mut [f32], size: Size) {
        if self.chain.normalize {
            if self.space == LatentSpace::Sphere {
                let outward = dot(state, gradient);
                gradient.iter_mut().zip(state).for_each(|(g, x)| *g -= x * outward);
            }
            let norm = dot(gradient, gradient).sqrt().max(SHORTEST);
            return gradient.iter_mut().for_each(|g| *g /= norm);
        }
        if self.temperature != 1.0 {
            gradient.iter_mut().for_each(|g| *g /= self.temperature);
        }
        if let Some(clip) = self.chain.gradient_clip {
            clip.apply_to_sample(gradient, size);
        }
    }

    fn project(&self, state: &mut Planes) {
        match self.space {
            LatentSpace::Sphere => {
                let len = state.size.len();
                drop(normalize(&mut state.data, len, 0.0));
            }
            LatentSpace::Euclidean => {}
        }
    }
}

/// The noise of one sample in the order of planes.
struct Epsilon {
    drawn: Vec<f32>,
    planes: Planes,
}

impl Epsilon {
    fn new(workspace: &Workspace, size: Size) -> Self {
        Self { drawn: vec![0.0; size.len()], planes: Planes::scratch(workspace, 1, size) }
    }

    fn draw(&mut self, noise: &ChainNoise, sample: usize, step: usize) -> &[f32] {
        noise.fill(sample, step, &mut self.drawn);
        self.planes = Planes::from_channels_first(self.planes.workspace(), 1, self.planes.size, &self.drawn);
        &self.planes.data
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn samples(planes: &Planes) -> impl Iterator<Item = &[f32]> {
    planes.data.chunks_exact(planes.size.len())
}

fn samples_mut(planes: &mut Planes) -> impl Iterator<Item = &mut [f32]> {
    let len = planes.size.len();
    planes.data.chunks_exact_mut(len)
}
