//! The gradient of a loss that depends on an image only through its latent and its reconstruction, as for the VAE, the
//! WAE, the VQ-VAE and DAGMM. The engine computes encoder and decoder, which take nearly all of the time; the method's
//! own computation between and after them is written once, for burn to differentiate.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;

use super::UpdateFigures;
use super::gradients::{BatchLoss, figures};
use crate::arch::{Autoencoder, LatentSpace};
use crate::engine::Engine;
use crate::engine::kept::KeptEngine;
use crate::engine::layers::CpuLayers;

/// A model whose loss depends on an image through its latent and its reconstruction.
pub(crate) trait Halves: Module {
    /// The random values drawn for a batch.
    type Drawn: Clone;
    /// The intermediate values that the loss needs.
    type Between;

    /// The encoder and decoder.
    fn autoencoder(&self) -> &Autoencoder;
    /// The number of the encoder's layers before [`between`](Self::between); `None` if the whole encoder is before it.
    fn trunk(&self) -> Option<usize> {
        None
    }
    /// Computes the decoder's input, `[N, D_z, 1, 1]`, from the encoder's output, and the values that the loss needs.
    /// Its only random values are `drawn`, since it may be called twice.
    fn between(&self, encoded: Tensor<4>, drawn: Self::Drawn) -> (Tensor<4>, Self::Between);
}

/// The engine that computes both halves.
pub(crate) struct HalvesEngine(KeptEngine);

impl HalvesEngine {
    /// Uses `engine` for both halves; results are tensors on `device`.
    pub(crate) fn new(engine: Engine, device: &Device) -> Self {
        Self(KeptEngine::new(engine, device))
    }

    /// The same engine, for losses that do not depend on the latent.
    pub(crate) const fn kept(&self) -> &KeptEngine {
        &self.0
    }

    /// The device of the tensors, without autodiff.
    pub(crate) fn device(&self) -> &Device {
        self.0.device()
    }

    /// Returns the gradient of `loss(model, x, y, between)`, where y are the reconstructions of the batch `x`, with
    /// respect to all weights of `model`, and the loss's figures.
    pub(crate) fn gradients<M: Halves>(
        &self,
        model: &M,
        x: Tensor<4>,
        drawn: M::Drawn,
        loss: impl Fn(&M, Tensor<4>, Tensor<4>, M::Between) -> BatchLoss,
    ) -> (GradientsParams, UpdateFigures) {
        match self.0.engine() {
            Engine::Burn => by_burn(model, x, drawn, loss),
            Engine::Cpu => self.by_layers(model, x, drawn, loss),
        }
    }

    /// The encoder's output for the batch `x`, up to [`Halves::trunk`].
    pub(crate) fn encode(&self, model: &impl Halves, x: Tensor<4>) -> Tensor<4> {
        match self.0.engine() {
            Engine::Burn => encode(&model.valid(), x),
            Engine::Cpu => self.encoder(model, &x).forward(x).0,
        }
    }

    /// The images of the latents `z`.
    pub(crate) fn decode(&self, model: &impl Halves, z: Tensor<4>) -> Tensor<4> {
        match self.0.engine() {
            Engine::Burn => model.autoencoder().valid().decode(z),
            Engine::Cpu => self.decoder(model).forward(z).0,
        }
    }

    fn encoder(&self, model: &impl Halves, x: &Tensor<4>) -> CpuLayers {
        let (autoencoder, [_, channels, height, width]) = (model.autoencoder(), x.dims());
        let image = Shape::new(channels, height, width);
        let on_sphere = autoencoder.latent_space() == LatentSpace::Sphere;
        match model.trunk() {
            Some(count) => self.0.layers(&autoencoder.encoder.first(count), image, false),
            None => self.0.layers(&autoencoder.encoder, image, on_sphere),
        }
    }

    fn decoder(&self, model: &impl Halves) -> CpuLayers {
        let autoencoder = model.autoencoder();
        self.0.layers(&autoencoder.decoder, Shape::vector(autoencoder.latent_dim()), false)
    }

    fn by_layers<M: Halves>(
        &self,
        model: &M,
        x: Tensor<4>,
        drawn: M::Drawn,
        loss: impl Fn(&M, Tensor<4>, Tensor<4>, M::Between) -> BatchLoss,
    ) -> (GradientsParams, UpdateFigures) {
        let (encoder, decoder) = (self.encoder(model, &x), self.decoder(model));
        let (encoded, passed_encoder) = encoder.forward(x.clone());
        let (z, between) = model.between(encoded.clone().autodiff(), drawn.clone());
        let (y, passed_decoder) = decoder.forward(z.inner());

        // First, the gradient of the loss at the reconstructions, which the decoder propagates back to the latent.
        let leaf = y.clone().autodiff().require_grad();
        let at_image = loss(model, x.clone().autodiff(), leaf.clone(), between).loss.backward();
        let at_image = leaf.grad(&at_image).unwrap_or_else(|| y.zeros_like());
        let (at_latent, of_decoder) = decoder.backward(passed_decoder, at_image);

        // Then the gradient of the whole loss, where the term z·∂loss/∂z adds the gradient that comes through the
        // decoder.
        let leaf = encoded.autodiff().require_grad();
        let (z, between) = model.between(leaf.clone(), drawn);
        let BatchLoss { loss, report } = loss(model, x.autodiff(), y.autodiff(), between);
        let mut gradients = (loss + (z * at_latent.autodiff()).sum()).backward();
        let at_encoded = leaf.grad_remove(&mut gradients).unwrap_or_else(|| leaf.clone().inner().zeros_like());
        let of_encoder = encoder.weights([(passed_encoder, at_encoded)]);

        let mut gradients = GradientsParams::from_grads(gradients, model);
        self.0.register([of_encoder, of_decoder], &mut gradients);
        (gradients, figures(report))
    }
}

/// Computes everything with burn. The batch is not divided: on the CPU the engine is used instead, and on another
/// device the whole batch is computed at once.
fn by_burn<M: Halves>(
    model: &M,
    x: Tensor<4>,
    drawn: M::Drawn,
    loss: impl Fn(&M, Tensor<4>, Tensor<4>, M::Between) -> BatchLoss,
) -> (GradientsParams, UpdateFigures) {
    let x = x.autodiff();
    let (z, between) = model.between(encode(model, x.clone()), drawn);
    let BatchLoss { loss, report } = loss(model, x, model.autoencoder().decode(z), between);
    (GradientsParams::from_grads(loss.backward(), model), figures(report))
}

fn encode(model: &impl Halves, x: Tensor<4>) -> Tensor<4> {
    let autoencoder = model.autoencoder();
    match model.trunk() {
        Some(count) => autoencoder.encoder.first(count).forward(x),
        None => autoencoder.encode(x),
    }
}
