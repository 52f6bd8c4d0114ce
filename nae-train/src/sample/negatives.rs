//! Negative samples: a latent chain and the decoder if the start is latent, then a visible chain (paper, algorithm 1,
//! but with equations 8 and 16, since the algorithm differs from them by mistake).

use burn::tensor::{Tensor, TensorData};
use nae_core::Shape;
use serde::{Deserialize, Serialize};

use super::frozen::FrozenEnergy;
use super::langevin::{ChainEnd, Langevin};
use super::noise::NoiseSource;
use super::persistent::PersistentChains;
use super::precision::Precision;
use super::recovery::Recovering;
use super::replay_buffer::{ReplayBuffer, ReplayConfig};
use super::start::Start;

/// The chains and their start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerConfig {
    /// The start of the chains.
    pub start: Start,
    /// The chain in the latent space, on H(z) = E(f_d(z)); required if the start is latent.
    #[serde(default)]
    pub latent_chain: Option<Langevin>,
    /// The chain in image space, on E(x).
    pub visible_chain: Langevin,
    /// The temperature T of both chains; its initial value if it is learned.
    pub temperature: f32,
    /// The number format that the chains compute in.
    #[serde(default, skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// Reuse of earlier negative samples: this share of the draws consists of samples from the last `size` images,
    /// without running chains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<ReplayConfig>,
}

impl SamplerConfig {
    /// Adapts chains that are set for normal data of the mean energy `reference` to data of the mean energy `energy`: λ of
    /// the latent chain is multiplied by `reference`/`energy`, and σ of the visible chain by √(`energy`/`reference`).
    ///
    /// The temperature of a chain is proportional to σ²/λ. With these factors, its ratio to the data's energy stays the
    /// same, and so does the length of the latent chain's steps, since latents have the same range for all data. λ of the
    /// visible chain stays, since the curvature of a mean square does not depend on its size. Nothing changes if the
    /// ratio of the energies is not a positive number.
    #[must_use]
    pub fn adapted(mut self, reference: f64, energy: f64) -> Self {
        let ratio = (energy / reference) as f32;
        if ratio.is_normal() && ratio > 0.0 {
            self.visible_chain.noise *= ratio.sqrt();
            if let Some(chain) = &mut self.latent_chain {
                chain.step_size /= ratio;
            }
        }
        self
    }
}

/// The shares of accepted Metropolis–Hastings steps; `None` for a chain without the correction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Acceptance {
    /// The share in the latent chain.
    pub latent: Option<f64>,
    /// The share in the visible chain.
    pub visible: Option<f64>,
}

/// Draws negative samples; it keeps the replay buffer and persistent chains between draws.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NegativeSampler {
    config: SamplerConfig,
    latent_dim: usize,
    buffer: Option<ReplayBuffer>,
    persistent: PersistentChains,
    /// States of earlier versions have none.
    #[serde(default)]
    drawn: Option<ReplayBuffer>,
    noise: NoiseSource,
    #[serde(skip)]
    acceptance: Acceptance,
}

impl NegativeSampler {
    /// A sampler for latents of `latent_dim` values, with random numbers from `noise`.
    pub fn new(config: SamplerConfig, latent_dim: usize, noise: NoiseSource) -> Self {
        let buffer = config.start.replay_buffer().map(ReplayBuffer::new);
        let drawn = config.reuse.map(ReplayBuffer::new);
        let (persistent, acceptance) = (PersistentChains::default(), Acceptance::default());
        Self { config, latent_dim, buffer, persistent, drawn, noise, acceptance }
    }

    /// The name of a part that cannot be a later state of the sampler `begun`, for data of the shape `image`; `None` if
    /// all parts can be.
    pub(crate) fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        let goes_on = |kept: &Option<ReplayBuffer>, begun: &Option<ReplayBuffer>, len| match (kept, begun) {
            (Some(kept), Some(begun)) => kept.goes_on_from(begun, len),
            (kept, begun) => kept.is_none() && begun.is_none(),
        };
        let start = if self.config.start.is_latent() { self.latent_dim } else { image.len() };
        if self.config != begun.config || self.latent_dim != begun.latent_dim {
            Some("sampler")
        } else if !self.noise.is_stream_of(&begun.noise) {
            Some("seed")
        } else if !goes_on(&self.buffer, &begun.buffer, start) {
            Some("replay buffer")
        } else if !goes_on(&self.drawn, &begun.drawn, image.len()) {
            Some("remembered samples")
        } else if !self.persistent.are_of(image.len()) {
            Some("persistent chains")
        } else {
            None
        }
    }

    /// Draws as many negative samples as `data` `[N, C, H, W]` has images, with chains at `temperature`.
    pub fn sample(&mut self, model: &dyn FrozenEnergy, data: Tensor<4>, temperature: f32) -> Tensor<4> {
        self.acceptance = Acceptance::default();
        if let Some(again) = self.again(&data) {
            return again;
        }
        let end = match self.config.start {
            Start::PerturbedData { min_scale, max_scale, recovery } => {
                let (z, scales) = self.perturbed(model, data, min_scale, max_scale);
                if recovery > 0.0 {
                    let model = Recovering::new(model, z.clone(), &floats(scales), recovery, temperature);
                    self.chains(&model, z, temperature)
                } else {
                    self.chains(model, z, temperature)
                }
            }
            Start::OnManifold { .. } => {
                let (space, count, device) = (model.latent_space(), data.dims()[0], data.device());
                let fresh = self.noise.latents(space, count, self.latent_dim, &device);
                let z = self.replayed(fresh);
                self.chains(model, z, temperature)
            }
            Start::Data => self.visible_chain(model, data, temperature),
            Start::Persistent { restart } => {
                let fresh = self.images(&data);
                let start = self.resumed(fresh, restart);
                self.visible_chain(model, start, temperature)
            }
            Start::Noise { .. } => {
                let fresh = self.images(&data);
                let start = self.replayed(fresh);
                self.visible_chain(model, start, temperature)
            }
        };
        self.acceptance.visible = end.acceptance;
        self.keep(&end.state);
        if let Some(drawn) = &mut self.drawn {
            drawn.append(&floats(end.state.clone()), end.state.dims()[1..].iter().product());
        }
        end.state
    }

    /// Returns as many samples of earlier draws as `data` has images, if this draw reuses them; otherwise `None`.
    fn again(&mut self, data: &Tensor<4>) -> Option<Tensor<4>> {
        let (drawn, shape) = (self.drawn.as_ref()?, data.dims());
        let images = drawn.draw_many(shape[0], self.noise.rng())?;
        Some(Tensor::from_data(TensorData::new(images, shape), &data.device()))
    }

    /// The number format that the chains compute in.
    pub fn precision(&self) -> Precision {
        self.config.precision
    }

    /// The shares of accepted steps in the last draw.
    pub fn acceptance(&self) -> Acceptance {
        self.acceptance
    }

    /// Runs both chains. The visible chain starts at the decoder's images of the latent chain's end, clamped to the
    /// visible chain's box as in the authors' code: otherwise a chain that starts outside the box would reject every
    /// step.
    fn chains(&mut self, model: &dyn FrozenEnergy, mut z: Tensor<4>, temperature: f32) -> ChainEnd {
        if let Some(chain) = self.config.latent_chain {
            let end = model.latent_chain(&chain, z, temperature, &mut self.noise);
            self.acceptance.latent = end.acceptance;
            z = end.state;
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.append(&floats(z.clone()), self.latent_dim);
        }
        let x = model.decode(z);
        let x = self.config.visible_chain.bounds.map_or(x.clone(), |bounds| bounds.nearest(x));
        self.visible_chain(model, x, temperature)
    }

    fn visible_chain(&mut self, model: &dyn FrozenEnergy, start: Tensor<4>, temperature: f32) -> ChainEnd {
        model.visible_chain(&self.config.visible_chain, start, temperature, &mut self.noise)
    }

    /// The data's latents with added noise, and the scale of each sample's noise.
    fn perturbed(
        &mut self,
        model: &dyn FrozenEnergy,
        data: Tensor<4>,
        min_scale: f32,
        max_scale: f32,
    ) -> (Tensor<4>, Tensor<4>) {
        let (device, count) = (data.device(), data.dims()[0]);
        let z = model.encode(data);
        let uniform = self.noise.uniform([count, 1, 1, 1], &device);
        let scale = uniform.mul_scalar(max_scale - min_scale).add_scalar(min_scale);
        let moved = z.clone() + self.noise.normal(z.dims(), &device) * scale.clone();
        (model.latent_space().project(moved), scale)
    }

    /// As many images of noise as `data` has, in its shape.
    fn images(&mut self, data: &Tensor<4>) -> Tensor<4> {
        self.noise.images(self.config.visible_chain.bounds, data.dims(), &data.device())
    }

    /// The states of the persistent chains; `fresh` has the starts of new ones.
    fn resumed(&mut self, fresh: Tensor<4>, restart: f64) -> Tensor<4> {
        let (shape, device) = (fresh.dims(), fresh.device());
        let mut states = floats(fresh);
        self.persistent.resume(&mut states, shape[1..].iter().product(), restart, self.noise.rng());
        Tensor::from_data(TensorData::new(states, shape), &device)
    }

    /// Returns `fresh`, with the samples replaced for which the replay buffer returns an earlier state.
    fn replayed(&mut self, fresh: Tensor<4>) -> Tensor<4> {
        let Some(buffer) = &self.buffer else { return fresh };
        let (shape, device) = (fresh.dims(), fresh.device());
        let mut values = floats(fresh);
        buffer.replace(&mut values, shape[1..].iter().product(), self.noise.rng());
        Tensor::from_data(TensorData::new(values, shape), &device)
    }

    /// Stores the ends of visible chains, for starts that continue from them.
    fn keep(&mut self, state: &Tensor<4>) {
        let len = state.dims()[1..].iter().product();
        match self.config.start {
            Start::Persistent { .. } => self.persistent.keep(&floats(state.clone()), len),
            Start::Noise { replay_buffer: Some(_) } => {
                if let Some(buffer) = &mut self.buffer {
                    buffer.append(&floats(state.clone()), len);
                }
            }
            _ => {}
        }
    }
}

fn floats(tensor: Tensor<4>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().expect("images and latents are float")
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::arch::LatentSpace;
    use crate::sample::frozen::EnergyGradient;

    /// The energy k·‖x‖² of each sample.
    fn quadratic(k: f32) -> impl Fn(Tensor<4>) -> EnergyGradient {
        move |x: Tensor<4>| EnergyGradient {
            energy: x.clone().powf_scalar(2.0).flatten::<2>(1, 3).sum_dim(1).squeeze_dim::<1>(1).mul_scalar(k),
            gradient: x.mul_scalar(2.0 * k),
        }
    }

    #[test]
    fn adapted_chains_do_at_another_energy_what_they_did_at_theirs() {
        const RATIO: f32 = 2.5e-3;
        let config = SamplerConfig {
            start: Start::OnManifold { replay_buffer: None },
            latent_chain: Some(Langevin::new(3, 0.2, 0.05)),
            visible_chain: Langevin::new(3, 0.3, 0.03),
            temperature: 1.0,
            precision: Precision::F32,
            reuse: None,
        };
        let adapted = config.adapted(0.01, 0.01 * f64::from(RATIO));
        let device = Device::flex();
        let start = NoiseSource::new(3, 0).uniform([4, 2, 3, 1], &device);
        let run = |chain: Langevin, start: Tensor<4>, k: f32| {
            let end = chain.run(start, 1.0, &mut NoiseSource::new(5, 0), quadratic(k), LatentSpace::Euclidean);
            floats(end.state)
        };
        let close = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5 * (1.0 + b.abs()));
        let latent = |config: SamplerConfig, k| run(config.latent_chain.expect("given"), start.clone(), k);
        // Latents have the same range at every energy, and E changes by the ratio.
        assert!(close(latent(adapted, RATIO), latent(config, 1.0)));
        assert!(!close(latent(config, RATIO), latent(config, 1.0)));
        // Residuals change by the root of the ratio, and E is the same function of them.
        let root = RATIO.sqrt();
        let visible = |config: SamplerConfig, scale| run(config.visible_chain, start.clone().mul_scalar(scale), 1.0);
        let scaled: Vec<f32> = visible(config, 1.0).into_iter().map(|value| root * value).collect();
        assert!(close(visible(adapted, root), scaled.clone()));
        assert!(!close(visible(config, root), scaled));
        for energy in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(config.adapted(0.01, energy), config);
        }
    }

    #[test]
    fn a_run_goes_on_with_its_own_sampler_only() {
        const LATENT_DIM: usize = 3;
        let image = Shape::new(1, 2, 2);
        let buffer = Some(ReplayConfig { size: 2, ratio: 0.5 });
        let config = |start| SamplerConfig {
            start,
            latent_chain: None,
            visible_chain: Langevin::new(1, 0.1, 0.0),
            temperature: 1.0,
            precision: Precision::F16,
            reuse: buffer,
        };
        let kept = |len| {
            let mut kept = buffer.map(ReplayBuffer::new);
            kept.iter_mut().for_each(|kept| kept.append(&vec![0.0; len], len));
            kept
        };
        let starts = [Start::OnManifold { replay_buffer: buffer }, Start::Noise { replay_buffer: buffer }];
        for (start, len) in starts.into_iter().zip([LATENT_DIM, image.len()]) {
            let begun = NegativeSampler::new(config(start), LATENT_DIM, NoiseSource::new(7, 1));
            assert_eq!(begun.precision(), Precision::F16);
            let mut going = NegativeSampler { buffer: kept(len), drawn: kept(image.len()), ..begun.clone() };
            going.persistent.keep(&[0.0; 8], image.len());
            assert_eq!(going.difference(&begun, image), None);
            assert_eq!(begun.difference(&begun, image), None, "before the first draw");
            let mut chains = PersistentChains::default();
            chains.keep(&[0.0; 3], 3);
            let others = [
                ("sampler", NegativeSampler { config: config(Start::Data), ..going.clone() }),
                ("sampler", NegativeSampler { latent_dim: 4, ..going.clone() }),
                ("seed", NegativeSampler { noise: NoiseSource::new(8, 1), ..going.clone() }),
                ("replay buffer", NegativeSampler { buffer: kept(len + 1), ..going.clone() }),
                ("replay buffer", NegativeSampler { buffer: None, ..going.clone() }),
                ("remembered samples", NegativeSampler { drawn: kept(image.len() + 1), ..going.clone() }),
                ("remembered samples", NegativeSampler { drawn: None, ..going.clone() }),
                ("persistent chains", NegativeSampler { persistent: chains, ..going.clone() }),
            ];
            for (what, other) in others {
                assert_eq!(other.difference(&begun, image), Some(what));
            }
            let without = NegativeSampler { buffer: None, drawn: None, ..begun };
            assert_eq!(without.difference(&without, image), None);
            assert_eq!(going.difference(&without, image), Some("replay buffer"));
        }
    }
}
