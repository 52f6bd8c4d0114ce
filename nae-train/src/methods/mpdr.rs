//! Manifold projection–diffusion recovery with an energy network (MPDR-S: Yoon, Jin, Noh, Park, "Energy-Based Models
//! for Anomaly Detection: A Manifold Diffusion Recovery Approach", NeurIPS 2023). The first epochs train one or several
//! autoencoders of different D_z; after that their weights are fixed, and negative samples start on their manifolds:
//! the data's latents with added noise, then a short chain in the latent space, then one in image space. The energy is
//! the output of a network that is not an autoencoder.
//!
//! As in the authors' code, each manifold has an equal part of the batch, the network is the autoencoder's encoder with
//! spectral normalization and one output, and that output has a learned scale and shift. MPDR with an autoencoder's
//! energy (MPDR-R) is an NAE with `training.fixed_manifold`.

use burn::module::Module as _;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::energy_network::{Contrast, EnergyNetwork, FrozenNetwork};
use super::manifolds::{Manifolds, parts};
use super::optimizer::Optimizer;
use super::state::{self, Kept, StateError};
use super::{EpochMethod, Method, Model, UpdateFigures};
use crate::arch::spec::{fc, with_spectral_norm};
use crate::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use crate::config::Pretraining;
use crate::config::methods::ManifoldDiffusion;
use crate::engine::Engine;
use crate::engine::layers::CpuLayers;
use crate::sample::{EnergyGradient, FrozenEnergy, NegativeSampler, NoiseSource, Precision, Recovery};

/// The network for the images of `spec`, with weights drawn from `rng`.
pub(crate) fn network(spec: &AutoencoderSpec, rng: &mut impl Rng, device: &Device) -> EnergyNetwork {
    let (trunk, _) = spec.encoder_head();
    let mut features = with_spectral_norm(spec.encoder()[..trunk].to_vec());
    features.push(fc(1));
    EnergyNetwork::new(&features, spec.image(), 1, rng, device)
}

/// A model to load weights into, on the autodiff form of `device`.
pub(super) fn blank(spec: &AutoencoderSpec, device: &Device) -> EnergyNetwork {
    // All drawn weights are replaced, so the seed does not matter.
    network(spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
}

/// Trains autoencoders, and then a network with negative samples that start on their manifolds.
pub(crate) struct MpdrMethod {
    manifolds: Manifolds,
    /// The chains that start on each manifold.
    samplers: Vec<NegativeSampler>,
    /// The number of samples that the manifolds are trained on, before the network is trained.
    first: usize,
    /// The number of samples so far.
    seen: usize,
    model: EnergyNetwork,
    optimizer: Optimizer,
    rate: f64,
    contrast: Contrast,
}

impl MpdrMethod {
    /// Starts from the state `model`, and manifolds that start as `autoencoders` and are trained on the first `first`
    /// samples; chains use random numbers from `noise`.
    #[expect(clippy::too_many_arguments, reason = "each is a thing of its own, and there is one caller")]
    pub(crate) fn new(
        model: EnergyNetwork,
        autoencoders: Vec<Autoencoder>,
        first: usize,
        pretraining: Pretraining,
        settings: &ManifoldDiffusion,
        mut noise: NoiseSource,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let sampler = |autoencoder: &Autoencoder| {
            let noise = NoiseSource::new(noise.rng().random(), 0);
            NegativeSampler::new(settings.sampler(), autoencoder.latent_dim(), noise)
        };
        Self {
            samplers: autoencoders.iter().map(sampler).collect(),
            manifolds: Manifolds::new(autoencoders, pretraining, engine, device),
            first,
            seen: 0,
            model,
            optimizer: Optimizer::new(pretraining.max_gradient_norm),
            rate: pretraining.learning_rate,
            contrast: Contrast::new(settings.regularization, engine, device),
        }
    }

    /// Makes one update of the network.
    fn train_network(&mut self, x: Tensor<4>) -> UpdateFigures {
        let negatives = self.negatives(&x);
        let (gradients, figures) = self.contrast.gradients(&self.model, x, negatives);
        self.model = self.optimizer.step(self.rate, self.model.clone(), gradients).power_iteration();
        figures
    }

    /// Draws as many negative samples as `x` has images, each part of them on the manifold that this part of `x` is
    /// assigned to.
    fn negatives(&mut self, x: &Tensor<4>) -> Tensor<4> {
        let network = self.contrast.freeze(&self.model, x);
        let drawn = parts(x.dims()[0], self.manifolds.len()).map(|(k, part)| {
            let part = x.clone().narrow(0, part.start, part.len());
            let frozen = OnManifold::new(&network, self.manifolds.get(k), &self.contrast, &part);
            self.samplers[k].sample(&frozen, part, 1.0)
        });
        Tensor::cat(drawn.collect(), 0)
    }

    /// The state kept besides the network, with the states of the manifolds' autoencoders.
    fn rest(&self, states: Vec<ByteBuf>) -> Rest {
        Rest { seen: self.seen, manifolds: states.into_iter().zip(self.samplers.iter().cloned()).collect() }
    }
}

impl Method for MpdrMethod {
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures {
        let learns = self.seen < self.first;
        self.seen = self.seen.saturating_add(x.dims()[0]);
        if learns { self.manifolds.update(x) } else { self.train_network(x) }
    }

    fn model(&self) -> &dyn Model {
        &self.model
    }

    fn state(&self) -> Result<ByteBuf, StateError> {
        state::save(&self.model, &self.optimizer, self.rest(self.manifolds.states()?))
    }

    fn restore(&mut self, state: &[u8], image: Shape) -> Result<(), StateError> {
        // Only the samplers are compared here; the autoencoders compare their own states.
        let mut rest = self.rest(vec![ByteBuf::new(); self.samplers.len()]);
        state::restore(state, image, &mut self.model, &mut self.optimizer, &mut rest)?;
        self.seen = rest.seen;
        let (states, samplers): (Vec<_>, _) = rest.manifolds.into_iter().unzip();
        self.samplers = samplers;
        self.manifolds.restore_states(&states, image)
    }

    fn into_model(self: Box<Self>) -> Box<dyn Model> {
        Box::new(self.model)
    }
}

impl EpochMethod for MpdrMethod {
    fn set_learning_rate(&mut self, rate: f64) {
        self.rate = rate;
        self.manifolds.set_learning_rate(rate);
    }
}

/// The state kept besides the network's weights and moments.
#[derive(Serialize, Deserialize)]
struct Rest {
    seen: usize,
    manifolds: Vec<(ByteBuf, NegativeSampler)>,
}

impl Kept for Rest {
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        if self.manifolds.len() != begun.manifolds.len() {
            return Some("manifolds");
        }
        self.manifolds.iter().zip(&begun.manifolds).find_map(|((_, kept), (_, begun))| kept.difference(begun, image))
    }
}

/// The network's energy for chains that start on the manifold of an autoencoder, with fixed weights of both.
struct OnManifold<'a> {
    network: &'a FrozenNetwork,
    manifold: Box<dyn FrozenEnergy>,
    decoder: Decoder,
}

/// The manifold's decoder, for gradients through it.
enum Decoder {
    Engine(CpuLayers),
    Burn(Autoencoder),
}

impl<'a> OnManifold<'a> {
    /// Prepares for images in the shape of `x`.
    fn new(network: &'a FrozenNetwork, autoencoder: &Autoencoder, contrast: &Contrast, x: &Tensor<4>) -> Self {
        let [_, c, h, w] = x.dims();
        let engine = contrast.engine();
        let decoder = match engine.engine() {
            Engine::Cpu => {
                let latent = Shape::vector(autoencoder.latent_dim());
                Decoder::Engine(engine.layers(&autoencoder.decoder, latent, false))
            }
            Engine::Burn => Decoder::Burn(autoencoder.clone().no_grad()),
        };
        Self { network, manifold: engine.freeze(autoencoder, None, [c, h, w], Precision::F32), decoder }
    }
}

impl FrozenEnergy for OnManifold<'_> {
    fn latent_space(&self) -> LatentSpace {
        self.manifold.latent_space()
    }

    fn encode(&self, x: Tensor<4>) -> Tensor<4> {
        self.manifold.encode(x)
    }

    fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        self.manifold.decode(z)
    }

    fn visible(&self, x: Tensor<4>) -> EnergyGradient {
        self.network.energy_gradient(x)
    }

    fn latent(&self, z: Tensor<4>) -> EnergyGradient {
        match &self.decoder {
            Decoder::Engine(layers) => {
                let (x, passed) = layers.forward(z);
                let EnergyGradient { energy, gradient } = self.network.energy_gradient(x);
                EnergyGradient { energy, gradient: layers.inputs(&passed, gradient) }
            }
            Decoder::Burn(autoencoder) => self.network.through(z, |z| autoencoder.decode(z)),
        }
    }

    fn recovery(&self, x: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        self.manifold.recovery(x, recovery)
    }

    fn latent_recovery(&self, z: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        self.manifold.latent_recovery(z, recovery)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::finite_differences::{
        self, close, images, latent_energies_agree, moved, numbers, scaled, smooth, wide,
    };

    fn energy_network(rng: u64) -> EnergyNetwork {
        network(&smooth(LatentSpace::Euclidean), NoiseSource::new(rng, 0).rng(), &Device::flex().autodiff())
    }

    /// Uses two manifolds, the second of which makes darker images.
    fn method(first: usize, settings: &ManifoldDiffusion, engine: Engine) -> MpdrMethod {
        let autoencoder = finite_differences::network(LatentSpace::Euclidean);
        let manifolds = vec![autoencoder.clone(), scaled(&autoencoder, 0.8)];
        let pretraining = Pretraining::new(1, 37, 1e-2);
        let noise = NoiseSource::new(4, 0);
        MpdrMethod::new(energy_network(3), manifolds, first, pretraining, settings, noise, engine, &Device::flex())
    }

    /// H(z) is the network's energy of the manifold's image; its gradient is compared with finite differences in
    /// float64.
    #[test]
    fn latent_chains_go_down_the_energy_of_the_manifolds_images() {
        let (model, manifold) = (energy_network(3), finite_differences::network(LatentSpace::Euclidean));
        let (exact, exact_manifold) = (moved(&model, usize::MAX, &[], 0.0), moved(&manifold, usize::MAX, &[], 0.0));
        for engine in [Engine::Cpu, Engine::Burn] {
            let contrast = Contrast::new(1.0, engine, &Device::flex());
            let x = images(1);
            let network = contrast.freeze(&model, &x);
            let frozen = OnManifold::new(&network, &manifold, &contrast, &x);
            latent_energies_agree(engine, &frozen, |z| wide(exact.energies(exact_manifold.decode(z))));
            assert!(close(&wide(frozen.visible(x.clone()).energy), &wide(model.valid().energies(x.clone()))));
            assert!(close(&wide(frozen.encode(x.clone())), &wide(manifold.valid().encode(x))));
        }
    }

    /// Without steps and noise, a negative sample is the reconstruction by the manifold of its part of the batch.
    #[test]
    fn every_manifold_has_its_part_of_the_batch() {
        let still = ManifoldDiffusion { min_scale: 0.0, max_scale: 0.0, recovery: 0.0, ..ManifoldDiffusion::default() };
        let still = ManifoldDiffusion { latent_steps: 0, steps: 0, ..still };
        let mut method = method(0, &still, Engine::Cpu);
        let x = images(1);
        let found = wide(method.negatives(&x));
        let [first, second] = [0, 1].map(|k| {
            let whole = method.manifolds.get(k).valid().reconstruct(x.clone());
            wide(whole.clamp(0.0, 1.0))
        });
        let (of_first, of_second) = (&first[..18 * 36], &second[18 * 36..]);
        let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart(&found[..18 * 36], of_first) < 1e-5 && apart(&found[18 * 36..], of_second) < 1e-5);
        assert_eq!(found.len(), 37 * 36);
        assert!(apart(&first, &second) > 1e-2, "the manifolds are told apart");
        // The two manifolds draw their own random numbers, and a single image goes to the last manifold.
        assert_eq!(wide(method.negatives(&x.narrow(0, 0, 1))).len(), 36);
        let settings = ManifoldDiffusion { latent_steps: 0, steps: 0, ..Default::default() };
        let mut moving = self::method(0, &settings, Engine::Cpu);
        let same = images(1).narrow(0, 0, 1).repeat_dim(0, 36);
        let twice = [0, 0].map(|k| moving.manifolds.get(k).clone());
        moving.manifolds = Manifolds::new(twice, Pretraining::new(1, 37, 1e-2), Engine::Cpu, &Device::flex());
        let drawn = wide(moving.negatives(&same));
        assert!(apart(&drawn[..36], &drawn[18 * 36..19 * 36]) > 1e-3, "the same noise in both parts");
    }

    /// The manifolds are trained on the first samples and fixed while the network is trained; both use the rate that is
    /// set.
    #[test]
    fn the_manifolds_learn_before_the_network_does() {
        let mut method = method(2 * 37, &ManifoldDiffusion { steps: 2, ..ManifoldDiffusion::default() }, Engine::Cpu);
        let state = |method: &MpdrMethod| {
            let manifolds = (0..2).flat_map(|k| numbers(method.manifolds.get(k))).collect();
            // The power iteration's vectors are not compared, since they change at every update.
            (manifolds, numbers(&method.model.head)) as (Vec<f64>, Vec<f64>)
        };
        let mut before = state(&method);
        for (update, rate) in [0.0, 1e-2, 1e-2, 0.0].into_iter().enumerate() {
            method.set_learning_rate(rate);
            let figures = method.update(images(update as u64));
            assert_eq!(figures.get("energy").is_some(), update < 2, "{figures}");
            assert_eq!(figures.get("negative_energy").is_some(), update >= 2, "{figures}");
            let after = state(&method);
            assert_eq!(after.0 != before.0, update == 1, "manifolds, update {update}");
            assert_eq!(after.1 != before.1, update == 2, "network, update {update}");
            before = after;
        }
    }

    /// Each image has one grey level of about 0.3: the energy is lowest there, and higher on either side of it and for
    /// noise.
    #[test]
    fn it_learns_a_density_that_is_known() {
        let settings = ManifoldDiffusion { min_scale: 0.5, max_scale: 2.0, ..ManifoldDiffusion::default() };
        let settings = ManifoldDiffusion { step_size: 1.0, noise: 0.05, ..settings };
        let mut method = method(200 * 32, &settings, Engine::Cpu);
        let mut levels = NoiseSource::new(7, 0);
        for _ in 0..700 {
            let level = levels.normal::<4>([32, 1, 1, 1], &Device::flex()).mul_scalar(0.03).add_scalar(0.3);
            method.update(level.repeat_dim(2, 6).repeat_dim(3, 6));
        }
        let energy = |x: Tensor<4>| wide(method.model.valid().energies(x));
        let of_level = |level: f32| energy(Tensor::full([1, 1, 6, 6], level, &Device::flex()))[0];
        let noise = energy(images(3)).iter().sum::<f64>() / 37.0;
        let (data, others) = (of_level(0.3), [of_level(0.0), of_level(0.8), noise]);
        println!("{data} {others:?}");
        assert!(others.iter().all(|other| data + 0.01 < *other), "{data} {others:?}");
    }
}
