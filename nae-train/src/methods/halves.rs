//! The gradient of a loss that looks at an image only through its latent and its reconstruction: of the VAE, the WAE, the
//! VQ-VAE and DAGMM. Encoder and decoder, which take nearly all of the time, are the engine's; what a method computes
//! between and after them is written once, for burn to differentiate.

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

/// A model whose loss looks at an image through its latent and its reconstruction.
pub(crate) trait Halves: Module {
    /// What is drawn for a batch.
    type Drawn: Clone;
    /// What the loss wants to know of the way to the latent.
    type Between;

    /// Encoder and decoder.
    fn autoencoder(&self) -> &Autoencoder;
    /// How many of the encoder's layers come before [`between`](Self::between), where not all do.
    fn trunk(&self) -> Option<usize> {
        None
    }
    /// What is decoded, `[N, D_z, 1, 1]`, given what the encoder makes of the batch; and what the loss wants of it. It
    /// draws nothing but what is `drawn`: it may be asked twice.
    fn between(&self, encoded: Tensor<4>, drawn: Self::Drawn) -> (Tensor<4>, Self::Between);
}

/// What computes both halves.
pub(crate) struct HalvesEngine(KeptEngine);

impl HalvesEngine {
    /// Both halves by `engine`; results are tensors on `device`.
    pub(crate) fn new(engine: Engine, device: &Device) -> Self {
        Self(KeptEngine::new(engine, device))
    }

    /// Where tensors live, without autodiff.
    pub(crate) fn device(&self) -> &Device {
        self.0.device()
    }

    /// The gradient of `loss(model, x, y, between)`, y being the reconstructions of the batch `x`, with respect to all
    /// weights of `model`, and the loss's figures.
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

    /// What the encoder makes of the batch `x`, up to [`Halves::trunk`].
    pub(crate) fn encode(&self, model: &impl Halves, x: Tensor<4>) -> Tensor<4> {
        match self.0.engine() {
            Engine::Burn => encode(&model.valid(), x),
            Engine::Cpu => self.encoder(model, &x).forward(x).0,
        }
    }

    /// Images of the latents `z`.
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

        // First what the loss says of the reconstructions, which the decoder takes back to the latent.
        let leaf = y.clone().autodiff().require_grad();
        let at_image = loss(model, x.clone().autodiff(), leaf.clone(), between).loss.backward();
        let at_image = leaf.grad(&at_image).unwrap_or_else(|| y.zeros_like());
        let (at_latent, of_decoder) = decoder.backward(passed_decoder, at_image);

        // Then the whole: z·∂loss/∂z stands for what comes by way of the decoder.
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

/// All of it by burn. A batch is not divided: on the processor the engine does this, and elsewhere one device has all of
/// it.
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
