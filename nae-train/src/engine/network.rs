//! An autoencoder with its weights laid out: latents, reconstructions, energies and their gradients for a shard.

use nae_core::energy::Energy;
use nae_simd::plane::{Planes, Size};
use nae_simd::pointwise::{add, l1, squared_l2};

use super::parameters::{Gradients, Parameters, WeightGradients};
use super::steps::{Step, Trace, back, compile, forward};
use crate::arch::{Autoencoder, LatentSpace};

/// Energies of images, given their reconstructions, and the gradient with respect to the images; that with respect to
/// the reconstructions is its negative.
pub type Comparison = fn(&Planes, &Planes) -> (Vec<f32>, Planes);

/// How images are compared with their reconstructions; `None` for energies that the engine does not have.
pub fn comparison(energy: Energy) -> Option<Comparison> {
    match energy {
        Energy::SquaredL2 => Some(squared_l2),
        Energy::L1 => Some(l1),
        _ => None,
    }
}

/// An autoencoder with its weights laid out.
pub struct Network {
    encoder: Vec<Step>,
    decoder: Vec<Step>,
    compare: Comparison,
    parameters: Parameters,
}

impl Network {
    /// Lays out the weights of `model`, whose energy has a [`comparison`], for images of `channels` × `height` ×
    /// `width`.
    pub fn new(model: &Autoencoder, [channels, height, width]: [usize; 3]) -> Self {
        let mut size = Size { h: height, w: width, c: channels };
        let mut parameters = Parameters::default();
        let mut encoder = compile(&model.encoder, &mut size, &mut parameters);
        if model.latent_space() == LatentSpace::Sphere {
            encoder.push(Step::Sphere);
        }
        let decoder = compile(&model.decoder, &mut size, &mut parameters);
        let compare = comparison(model.energy()).expect("an energy that the engine supports");
        Self { encoder, decoder, compare, parameters }
    }

    /// Latents of images.
    pub fn encode(&self, x: &Planes) -> Planes {
        forward(&self.encoder, x).into_output(x)
    }

    /// Images of latents.
    pub fn decode(&self, z: &Planes) -> Planes {
        forward(&self.decoder, z).into_output(z)
    }

    /// E(x).
    pub fn energies(&self, x: &Planes) -> Vec<f32> {
        let encoded = forward(&self.encoder, x);
        let z = encoded.output(x);
        (self.compare)(x, forward(&self.decoder, z).output(z)).0
    }

    /// E(x) and ∇ₓE(x).
    pub fn visible(&self, x: &Planes) -> (Vec<f32>, Planes) {
        let encoded = forward(&self.encoder, x);
        let z = encoded.output(x);
        let decoded = forward(&self.decoder, z);
        let (energies, mut direct) = (self.compare)(x, decoded.output(z));
        let through = self.back_to_image(x, &encoded, &decoded, negated(&direct));
        add(&mut direct.data, &through.data);
        (energies, direct)
    }

    /// H(z) = E(f_d(z)) and ∇H(z).
    pub fn latent(&self, z: &Planes) -> (Vec<f32>, Planes) {
        let generated = forward(&self.decoder, z);
        let (energies, gradient) = self.visible(generated.output(z));
        (energies, back(&self.decoder, z, &generated, gradient, true, None))
    }

    /// Energies of `target` compared with the reconstruction of `input`, and the gradient of Σ coefficient(Eᵢ)·Eᵢ with
    /// respect to the weights, coefficients held constant.
    pub fn weights(&self, input: &Planes, target: &Planes, coefficient: impl Fn(f32) -> f32) -> (Vec<f32>, Gradients) {
        let encoded = forward(&self.encoder, input);
        let z = encoded.output(input);
        let decoded = forward(&self.decoder, z);
        let (energies, direct) = (self.compare)(target, decoded.output(z));
        let mut gradient = negated(&direct);
        let len = gradient.size.len();
        for (sample, energy) in gradient.data.chunks_exact_mut(len).zip(&energies) {
            let factor = coefficient(*energy);
            sample.iter_mut().for_each(|g| *g *= factor);
        }
        let mut gradients = self.parameters.zeros();
        let at_latent = back(&self.decoder, z, &decoded, gradient, true, Some(&mut gradients));
        back(&self.encoder, input, &encoded, at_latent, false, Some(&mut gradients));
        (energies, gradients)
    }

    /// The sum of the gradients of the shards of a batch, as burn's parameters have them.
    pub fn ordered(&self, gradients: Vec<Gradients>) -> WeightGradients {
        self.parameters.ordered(gradients)
    }

    fn back_to_image(&self, x: &Planes, encoded: &Trace, decoded: &Trace, gradient: Planes) -> Planes {
        let at_latent = back(&self.decoder, encoded.output(x), decoded, gradient, true, None);
        back(&self.encoder, x, encoded, at_latent, true, None)
    }
}

fn negated(planes: &Planes) -> Planes {
    let mut negated = planes.clone();
    negated.data.iter_mut().for_each(|v| *v = -*v);
    negated
}
