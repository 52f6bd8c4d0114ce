//! The vector-quantized autoencoder (van den Oord et al., NeurIPS 2017): a latent is replaced by the nearest of a
//! finite set of codes before it is decoded.
//!
//! A latent of this crate's networks is one vector, as in the paper's comparison, where all autoencoders have the same
//! architecture. It is cut into equal parts, by default one, each of which is replaced by a code from one common
//! codebook. Codes are learned from their distance to the latents, as in equation 3 of that paper, and not by moving
//! averages. Unused codes are reinitialized at latents of the batch (Dhariwal et al., "Jukebox", 2020, section 3),
//! since otherwise most of a codebook stays unused.

use std::path::Path;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use nae_core::Shape;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::gradients::{BatchLoss, add_l2};
use super::halves::{Halves, HalvesEngine};
use super::mmd::squared_distances;
use super::state::Kept;
use super::{Decision, Model, Networks, UpdateFigures};
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::{Autoencoder, AutoencoderSpec};
use crate::config::Pretraining;
use crate::config::methods::VectorQuantized;
use crate::energy::distance;
use crate::engine::Engine;
use crate::sample::NoiseSource;

/// The decay of the mean use of codes: the mean covers about a hundred updates.
const USE_DECAY: f32 = 0.99;
/// A code is reinitialized if its use is below this fraction of an equal share of the latents.
const LEAST_USE: f32 = 0.1;

/// An autoencoder and its codebook.
#[derive(Module, Debug)]
pub struct VectorQuantizedAutoencoder {
    /// The encoder and decoder; the decision does not use the reconstruction without codes.
    pub autoencoder: Autoencoder,
    /// The codes `[K, D_z/parts]`.
    pub codes: Param<Tensor<2>>,
}

impl VectorQuantizedAutoencoder {
    /// Combines `autoencoder`, whose latent space must be Euclidean, with codes at zero, all unused.
    pub fn new(autoencoder: Autoencoder, settings: VectorQuantized, device: &Device) -> Self {
        let length = autoencoder.latent_dim() / settings.parts;
        let codes = Param::from_tensor(Tensor::zeros([settings.codes, length], device));
        Self { autoencoder, codes }
    }

    /// A model to load weights into, on the autodiff form of `device`.
    pub(super) fn blank(spec: &AutoencoderSpec, settings: VectorQuantized, device: &Device) -> Self {
        Self::new(checkpoint::blank(spec, device), settings, &device.clone().autodiff())
    }

    /// Cuts latents `[N, D_z, 1, 1]` into parts: `[N·parts, D_z/parts]`.
    fn parts(&self, z: Tensor<4>) -> Tensor<2> {
        let ([n, dim, _, _], [_, length]) = (z.dims(), self.codes.dims());
        z.reshape([n * dim / length, length])
    }

    /// The index of the nearest code for each part.
    fn nearest(&self, parts: Tensor<2>) -> Tensor<1, Int> {
        let m = parts.dims()[0];
        squared_distances(parts, self.codes.val()).argmin(1).reshape([m])
    }

    /// Joins parts to latents `[N, D_z, 1, 1]`.
    fn joined(&self, parts: Tensor<2>) -> Tensor<4> {
        let (m, [_, length], dim) = (parts.dims()[0], self.codes.dims(), self.autoencoder.latent_dim());
        parts.reshape([m * length / dim, dim, 1, 1])
    }

    /// The decoded codes that are nearest to the latents of `x`.
    fn decoded(&self, x: Tensor<4>) -> Tensor<4> {
        let codes = self.codes.val().select(0, self.nearest(self.parts(self.autoencoder.encode(x))));
        self.autoencoder.decode(self.joined(codes))
    }

    /// The distance of every sample of `x` from the decoded codes nearest to its latent: `[N]`.
    pub fn energies(&self, x: Tensor<4>) -> Tensor<1> {
        distance(self.autoencoder.energy(), x.clone(), self.decoded(x))
    }

    /// The terms of equation 3: the reconstruction error of `y`, whose gradient passes the codes unchanged to the
    /// encoder; the codes' distance from the latents, which changes the codes; and the latents' distance from the
    /// codes, which changes the encoder. All are means over samples and dimensions.
    fn terms(&self, x: Tensor<4>, y: Tensor<4>, quantized: Quantized) -> [Tensor<1>; 3] {
        let Quantized { latents, codes } = quantized;
        let energy = distance(self.autoencoder.energy(), x, y).mean();
        let codebook = (codes.clone() - latents.clone().detach()).square().mean();
        let commitment = (latents - codes.detach()).square().mean();
        [energy, codebook, commitment]
    }
}

/// Latents cut into parts, and the codes that replace them.
pub(crate) struct Quantized {
    latents: Tensor<2>,
    codes: Tensor<2>,
}

impl Halves for VectorQuantizedAutoencoder {
    type Drawn = ();
    type Between = Quantized;

    fn autoencoder(&self) -> &Autoencoder {
        &self.autoencoder
    }

    fn between(&self, encoded: Tensor<4>, (): ()) -> (Tensor<4>, Quantized) {
        let latents = self.parts(encoded);
        let codes = self.codes.val().select(0, self.nearest(latents.clone()));
        let through = latents.clone() + (codes.clone() - latents.clone()).detach();
        (self.joined(through), Quantized { latents, codes })
    }
}

impl Model for VectorQuantizedAutoencoder {
    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        self.valid().energies(x)
    }

    /// `None`, since the decision uses the reconstruction of the codes.
    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn reconstruct(&self, x: Tensor<4>) -> Option<Tensor<4>> {
        Some(self.valid().decoded(x))
    }

    fn networks(&self) -> Option<Networks<'_>> {
        Some(Networks::Reconstruction { autoencoder: &self.autoencoder, codes: Some(&self.codes) })
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// Trains a vector-quantized autoencoder.
pub(crate) type VqvaeMethod = GradientMethod<Quantization>;

/// The reconstruction error, and the distance of latents and codes.
pub(crate) struct Quantization {
    engine: HalvesEngine,
    commitment: f32,
    encoder_l2: f32,
}

/// The use of the codes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Use {
    /// The share of latents that each code replaces, as a moving average; all are zero before the first update.
    shares: Vec<f32>,
    /// The source of random numbers for reinitialized codes.
    draws: NoiseSource,
}

impl Kept for Use {
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        let codes = self.shares.len() == begun.shares.len();
        if codes { self.draws.difference(&begun.draws, image) } else { Some("count of codes") }
    }
}

impl VqvaeMethod {
    /// Starts from the state `model`; reinitialized codes are drawn with `draws`.
    pub(crate) fn new(
        model: VectorQuantizedAutoencoder,
        pretraining: Pretraining,
        settings: VectorQuantized,
        draws: NoiseSource,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let objective = Quantization {
            engine: HalvesEngine::new(engine, device),
            commitment: settings.commitment,
            encoder_l2: pretraining.encoder_l2,
        };
        Self::begin(objective, model, Use { shares: vec![0.0; settings.codes], draws }, pretraining)
    }
}

impl Use {
    /// Records which codes `latents` use, given as parts, and reinitializes unused codes at some of them. Returns
    /// `model` with these codes, and the share of codes that this batch uses.
    fn renewed(&mut self, model: VectorQuantizedAutoencoder, latents: Tensor<2>) -> (VectorQuantizedAutoencoder, f64) {
        let plain = model.valid();
        let [count, length] = latents.dims();
        let nearest = plain.nearest(latents.clone()).into_data();
        let mut counts = vec![0usize; self.shares.len()];
        nearest.iter::<i64>().filter_map(|code| usize::try_from(code).ok()).for_each(|code| counts[code] += 1);
        let equal = 1.0 / self.shares.len() as f32;
        let is_first = self.shares.iter().all(|&share| share == 0.0);
        let latents: Vec<f32> = latents.into_data().iter::<f32>().collect();
        let mut codes: Vec<f32> = plain.codes.val().into_data().iter::<f32>().collect();
        for ((share, &uses), code) in self.shares.iter_mut().zip(&counts).zip(codes.chunks_mut(length)) {
            *share = USE_DECAY * *share + (1.0 - USE_DECAY) * uses as f32 / count as f32;
            // Before the first update all codes are equal, and one of them is the nearest to all latents.
            if is_first || *share < LEAST_USE * equal {
                let at = self.draws.rng().random_range(0..count) * length;
                code.copy_from_slice(&latents[at..at + length]);
                *share = equal;
            }
        }
        let shape = plain.codes.dims();
        let codes = model.codes.map(|old| {
            let codes = TensorData::new(codes, shape);
            Tensor::from_data(codes, &old.device()).require_grad()
        });
        let used = counts.iter().filter(|&&uses| uses > 0).count() as f64 / counts.len() as f64;
        (VectorQuantizedAutoencoder { codes, ..model }, used)
    }
}

impl Quantization {
    /// Returns the gradient of the loss with respect to all weights and codes, and the loss's parts.
    fn gradients(&self, model: &VectorQuantizedAutoencoder, x: Tensor<4>) -> (GradientsParams, UpdateFigures) {
        let (mut gradients, figures) = self.engine.gradients(model, x, (), |model, x, y, quantized| {
            let [energy, codebook, commitment] = model.terms(x, y, quantized);
            let loss = energy.clone() + codebook + commitment.clone().mul_scalar(self.commitment);
            BatchLoss { loss, report: vec![("energy", energy), ("distance_from_codes", commitment)] }
        });
        add_l2(&model.autoencoder.encoder, self.encoder_l2, &mut gradients);
        (gradients, figures)
    }
}

impl Objective for Quantization {
    type Model = VectorQuantizedAutoencoder;
    type Kept = Use;

    fn update(
        &self,
        kept: &mut Use,
        model: VectorQuantizedAutoencoder,
        x: Tensor<4>,
        step: OptimizerStep<'_>,
    ) -> (VectorQuantizedAutoencoder, UpdateFigures) {
        let latents = model.parts(self.engine.encode(&model, x.clone()));
        let (model, used) = kept.renewed(model, latents);
        let (gradients, mut figures) = self.gradients(&model, x);
        figures.add(&UpdateFigures::new([("codes_in_use", used)]), 1.0);
        let VectorQuantizedAutoencoder { autoencoder, codes } = step.along(gradients, model);
        (VectorQuantizedAutoencoder { autoencoder: autoencoder.power_iteration(), codes }, figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::LatentSpace;
    use crate::methods::finite_differences::{SAMPLES, changed, images, network, slopes_agree, wide};
    use burn::tensor::FloatDType;

    const SETTINGS: VectorQuantized = VectorQuantized { codes: 8, parts: 2, commitment: 0.25 };

    fn method(codes: &[f32], engine: Engine) -> VqvaeMethod {
        let device = Device::flex().autodiff();
        let settings = VectorQuantized { codes: codes.len() / 2, ..SETTINGS };
        let mut model = VectorQuantizedAutoencoder::new(network(LatentSpace::Euclidean), settings, &device);
        let data = TensorData::new(codes.to_vec(), [codes.len() / 2, 2]);
        model.codes = Param::from_data(data, &device);
        let draws = NoiseSource::new(4, 0);
        VqvaeMethod::new(model, Pretraining::new(1, SAMPLES, 1e-2), settings, draws, engine, &Device::flex())
    }

    fn latents(model: &VectorQuantizedAutoencoder, x: Tensor<4>) -> Tensor<2> {
        model.parts(model.autoencoder.encode(x))
    }

    /// Codes spread over the latents of this network, so that several are used.
    fn spread() -> Vec<f32> {
        NoiseSource::new(9, 0).normal::<1>([16], &Device::flex()).mul_scalar(1.5).into_data().iter::<f32>().collect()
    }

    /// Compared with float64: the decoder's gradient from the reconstruction error of the codes, the codes' from their
    /// distance to the latents, the encoder's from the slope of the reconstruction error at the codes and its distance
    /// to them.
    #[test]
    fn it_steps_by_the_straight_through_gradient() {
        for engine in [Engine::Cpu, Engine::Burn] {
            steps_by_the_gradient(engine);
        }
    }

    fn steps_by_the_gradient(engine: Engine) {
        let x = images(1);
        let method = method(&spread(), engine);
        let model = &method.model;
        let nearest: Vec<usize> = model
            .valid()
            .nearest(latents(&model.valid(), x.clone()))
            .into_data()
            .iter::<i64>()
            .map(|k| k as usize)
            .collect();
        let used: std::collections::BTreeSet<_> = nearest.iter().collect();
        assert!(used.len() >= 3, "{used:?}");
        let (gradients, _) = method.objective.gradients(model, x.clone());
        let targets = wide(x.clone());
        let energy = |model: &VectorQuantizedAutoencoder, parts: Tensor<2>| {
            let decoded = wide(model.autoencoder.decode(model.joined(parts)));
            decoded.iter().zip(&targets).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / targets.len() as f64
        };
        let tensor = |values: Vec<f64>, like: &Tensor<2>| {
            Tensor::<2>::from_data(TensorData::new(values, like.dims()), (&like.device(), like.dtype()))
        };
        let parts = |model: &VectorQuantizedAutoencoder| latents(model, x.clone().cast(FloatDType::F64));
        let chosen = |model: &VectorQuantizedAutoencoder| -> Vec<f64> {
            let codes = wide(model.codes.val());
            nearest.iter().flat_map(|&k| codes[2 * k..2 * k + 2].to_vec()).collect()
        };
        // Fixed while weights move: the codes chosen, the latents, and the slope at the codes.
        let unmoved = crate::methods::finite_differences::moved(model, usize::MAX, &[], 0.0);
        let (fixed_parts, fixed_codes) = (parts(&unmoved), chosen(&unmoved));
        let fixed_latents = wide(fixed_parts.clone());
        let slope: Vec<f64> = (0..fixed_codes.len())
            .map(|k| {
                let at = |step: f64| {
                    let mut codes = fixed_codes.clone();
                    codes[k] += step;
                    energy(&unmoved, tensor(codes, &fixed_parts))
                };
                (at(1e-5) - at(-1e-5)) / 2e-5
            })
            .collect();
        let squared =
            |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / a.len() as f64;
        // [reconstruction for the decoder, straight through to the encoder, codebook, commitment]
        let right = [1.0, 1.0, 1.0, 0.25];
        slopes_agree(
            &format!("VQ-VAE by {engine:?}"),
            model,
            &gradients,
            &right,
            &changed(right),
            |model, terms: &[f64; 4]| {
                let latents = wide(parts(model));
                terms[0] * energy(model, tensor(fixed_codes.clone(), &fixed_parts))
                    + terms[1] * latents.iter().zip(&slope).map(|(z, g)| z * g).sum::<f64>()
                    + terms[2] * squared(&chosen(model), &fixed_latents)
                    + terms[3] * squared(&latents, &fixed_codes)
            },
        );
    }

    /// Every code starts at a latent of the first batch, in a codebook of any size.
    #[test]
    fn codes_begin_at_latents() {
        for codes in [8, 512] {
            let mut method = method(&vec![0.0; 2 * codes], Engine::Burn);
            let parts = latents(&method.model.valid(), images(1));
            method.model = method.kept.renewed(method.model.clone(), parts.clone()).0;
            let (latents, codes) = (wide(parts), wide(method.model.codes.val()));
            for code in codes.chunks(2) {
                assert!(latents.chunks(2).any(|z| z == code), "{code:?} of {}", codes.len() / 2);
            }
        }
    }

    /// A code far from all latents is reinitialized, the others stay.
    #[test]
    fn unused_codes_begin_again_at_latents() {
        let x = images(1);
        let mut method = method(&[0.0; 16], Engine::Burn);
        let parts = latents(&method.model.valid(), x);
        let renew = |method: &mut VqvaeMethod| {
            method.model = method.kept.renewed(method.model.clone(), parts.clone()).0;
        };
        renew(&mut method);
        let latents = wide(parts.clone());
        let is_latent = |code: &[f64]| latents.chunks(2).any(|z| z == code);
        let mut moved: Vec<f32> = wide(method.model.codes.val()).iter().map(|&v| v as f32).collect();
        moved[..2].copy_from_slice(&[50.0, 50.0]);
        let data = TensorData::new(moved.clone(), [8, 2]);
        let device = method.model.codes.val().device();
        method.model.codes = method.model.codes.clone().map(|_| Tensor::from_data(data, &device).require_grad());
        // This takes ln 0.1/ln 0.99 updates without use.
        for update in 1..=229 {
            renew(&mut method);
            assert_eq!(wide(method.model.codes.val())[0], 50.0, "update {update}");
        }
        renew(&mut method);
        let renewed = wide(method.model.codes.val());
        assert!(is_latent(&renewed[..2]), "{renewed:?}");
    }

    /// With one code there is only one reconstruction, for any image.
    #[test]
    fn it_decides_by_the_codes() {
        let x = images(1);
        let code = [0.3f32, -0.2, 0.3, -0.2];
        let model = method(&code[..2], Engine::Cpu).model.valid();
        let latent = Tensor::<4>::from_data(TensorData::new(code.to_vec(), [1, 4, 1, 1]), &Device::flex());
        let reconstruction = wide(model.autoencoder.decode(latent));
        let found = wide(model.decide(Decision::Reconstruction, x.clone()));
        for (found, x) in found.iter().zip(wide(x).chunks(36)) {
            let expected = x.iter().zip(&reconstruction).map(|(x, r)| (x - r) * (x - r)).sum::<f64>() / 36.0;
            assert!((found / expected - 1.0).abs() < 1e-5, "{found} against {expected}");
        }
        assert!(Model::autoencoder(&model).is_none());
    }
}
