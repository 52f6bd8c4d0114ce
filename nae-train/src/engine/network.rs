//! An autoencoder with its weights laid out: computes latents, reconstructions, energies and their gradients for a
//! shard.

use nae_core::Shape;
use nae_core::energy::Energy;
use nae_simd::program::Trace;
use nae_simd::{Gradients, Options, Planes, Program, Workspace, add, l1, squared_l2};

use super::parameters::{WeightGradients, summed};
use crate::arch::graph::{LearnedGraph, Parameter};
use crate::arch::layer::Sequential;
use crate::arch::{Autoencoder, LatentSpace};

/// Computes the energies of images with their reconstructions, and the gradient with respect to the images; the
/// gradient with respect to the reconstructions is its negative.
pub(crate) type Comparison = fn(&Planes, &Planes) -> (Vec<f32>, Planes);

/// The comparison of images with their reconstructions for `energy`; `None` if the engine does not support it.
pub(crate) fn comparison(energy: Energy) -> Option<Comparison> {
    match energy {
        Energy::SquaredL2 => Some(squared_l2),
        Energy::L1 => Some(l1),
        _ => None,
    }
}

/// An autoencoder with its weights laid out.
pub(crate) struct CpuAutoencoder {
    encoder: Half,
    decoder: Half,
    compare: Comparison,
}

/// The encoder or the decoder, or a part of one.
pub(super) struct Half {
    pub(super) program: Program,
    parameters: Vec<Parameter>,
}

impl Half {
    pub(super) fn new(layers: &Sequential, input: Shape, on_sphere: bool) -> Self {
        let LearnedGraph { graph, learned, parameters, .. } = LearnedGraph::new("", layers, input, on_sphere);
        let program = Program::compile(&graph, &Options::training(&learned))
            .expect("the engine has every layer of `arch`, and their shapes were checked");
        Self { program, parameters }
    }

    /// Sums the gradients of the shards of a batch, in the order of burn's parameters.
    pub(super) fn summed(&self, workspace: &Workspace, shards: Vec<Gradients>) -> WeightGradients {
        summed(&self.program, &self.parameters, workspace, shards)
    }
}

/// The gradients of the weights of both halves, for a shard.
#[derive(Debug)]
pub(crate) struct BothGradients {
    encoder: Gradients,
    decoder: Gradients,
}

impl CpuAutoencoder {
    /// Lays out the weights of `model`, whose energy must have a [`comparison`], for images of `channels` × `height` ×
    /// `width`.
    pub(crate) fn new(model: &Autoencoder, [channels, height, width]: [usize; 3]) -> Self {
        let on_sphere = model.latent_space() == LatentSpace::Sphere;
        Self {
            encoder: Half::new(&model.encoder, Shape::new(channels, height, width), on_sphere),
            decoder: Half::new(&model.decoder, Shape::vector(model.latent_dim()), false),
            compare: comparison(model.energy()).expect("an energy that the engine supports"),
        }
    }

    /// The latents of images.
    pub(crate) fn encode(&self, x: &Planes) -> Planes {
        self.encoder.program.run(x.clone()).output
    }

    /// The images of latents.
    pub(crate) fn decode(&self, z: &Planes) -> Planes {
        self.decoder.program.run(z.clone()).output
    }

    /// E(x).
    pub(crate) fn energies(&self, x: &Planes) -> Vec<f32> {
        (self.compare)(x, &self.decode(&self.encode(x))).0
    }

    /// E(x) and ∇ₓE(x).
    pub(crate) fn visible(&self, x: &Planes) -> (Vec<f32>, Planes) {
        let encoded = self.encoder.program.trace(x);
        let z = encoded.output(x);
        let decoded = self.decoder.program.trace(z);
        let (energies, mut direct) = (self.compare)(x, decoded.output(z));
        let through = self.back_to_image(x, &encoded, &decoded, negated(&direct));
        add(&mut direct.data, &through.data);
        (energies, direct)
    }

    /// H(z) = E(f_d(z)) and ∇H(z), where f_d is the decoder of `manifold`.
    pub(crate) fn latent(&self, manifold: &Self, z: &Planes) -> (Vec<f32>, Planes) {
        let decoder = &manifold.decoder.program;
        let generated = decoder.trace(z);
        let (energies, gradient) = self.visible(generated.output(z));
        (energies, decoder.backward(z, &generated, gradient, true, None))
    }

    /// w/2·‖f_e(x) − z̃‖² and its gradient at x, for latents z̃ and weights w of the shard's samples.
    pub(crate) fn recovery(&self, x: &Planes, latents: &Planes, weights: &[f32]) -> (Vec<f32>, Planes) {
        let encoded = self.encoder.program.trace(x);
        let mut apart = encoded.output(x).clone();
        let len = apart.size.len();
        let samples = apart.data.chunks_exact_mut(len).zip(latents.data.chunks_exact(len)).zip(weights);
        let energies = samples.map(|((apart, latents), weight)| {
            let mut squares = 0.0;
            for (apart, latent) in apart.iter_mut().zip(latents) {
                *apart -= latent;
                squares += *apart * *apart;
                *apart *= weight;
            }
            0.5 * weight * squares
        });
        let energies = energies.collect();
        (energies, self.encoder.program.backward(x, &encoded, apart, true, None))
    }

    /// Same as [`recovery`](Self::recovery) with x = f_d(z), and its gradient at z.
    pub(crate) fn latent_recovery(&self, z: &Planes, latents: &Planes, weights: &[f32]) -> (Vec<f32>, Planes) {
        let decoder = &self.decoder.program;
        let generated = decoder.trace(z);
        let (energies, gradient) = self.recovery(generated.output(z), latents, weights);
        (energies, decoder.backward(z, &generated, gradient, true, None))
    }

    /// Returns the energies of `target` compared with the reconstruction of `input`, and the gradient of Σ
    /// coefficient(Eᵢ)·Eᵢ with respect to the weights, with constant coefficients.
    pub(crate) fn weights(
        &self,
        input: &Planes,
        target: &Planes,
        coefficient: impl Fn(f32) -> f32,
    ) -> (Vec<f32>, BothGradients) {
        let encoded = self.encoder.program.trace(input);
        let z = encoded.output(input);
        let decoded = self.decoder.program.trace(z);
        let (energies, direct) = (self.compare)(target, decoded.output(z));
        let mut gradient = negated(&direct);
        let len = gradient.size.len();
        for (sample, energy) in gradient.data.chunks_exact_mut(len).zip(&energies) {
            let factor = coefficient(*energy);
            sample.iter_mut().for_each(|g| *g *= factor);
        }
        let mut encoder = self.encoder.program.gradients();
        let mut decoder = self.decoder.program.gradients();
        let at_latent = self.decoder.program.backward(z, &decoded, gradient, true, Some(&mut decoder));
        self.encoder.program.backward(input, &encoded, at_latent, false, Some(&mut encoder));
        (energies, BothGradients { encoder, decoder })
    }

    /// Sums the gradients of the shards of a batch, in the order of burn's parameters.
    pub(crate) fn summed(&self, workspace: &Workspace, shards: Vec<BothGradients>) -> WeightGradients {
        let (encoder, decoder) = shards.into_iter().map(|shard| (shard.encoder, shard.decoder)).unzip();
        let mut gradients = self.encoder.summed(workspace, encoder);
        gradients.extend(self.decoder.summed(workspace, decoder));
        gradients
    }

    fn back_to_image(&self, x: &Planes, encoded: &Trace, decoded: &Trace, gradient: Planes) -> Planes {
        let at_latent = self.decoder.program.backward(encoded.output(x), decoded, gradient, true, None);
        self.encoder.program.backward(x, encoded, at_latent, true, None)
    }
}

fn negated(planes: &Planes) -> Planes {
    let mut negated = planes.clone();
    negated.data.iter_mut().for_each(|v| *v = -*v);
    negated
}
