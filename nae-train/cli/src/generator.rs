//! Draws new images with the model of a run folder and the chains of its preset.

use std::path::Path;

use anyhow::{Context as _, bail};
use burn::tensor::{Device, Tensor};
use nae_train::config::Config;
use nae_train::engine::{Engine, EngineChoice};
use nae_train::methods::{self, Model};
use nae_train::report::{CHECKPOINT, RunFolder};
use nae_train::sample::{NewImages, NoiseSource, Precision};

use crate::eval::warn_unfinished;

pub(crate) struct Generator {
    pub(crate) config: Config,
    model: Box<dyn Model>,
    chains: NewImages,
    engine: Engine,
    device: Device,
}

impl Generator {
    /// Reads the model of the run folder `run`.
    pub(crate) fn read(run: &Path, engine: EngineChoice) -> anyhow::Result<Self> {
        let (device, shown) = (Device::flex(), run.display());
        let (config, _) = RunFolder::read(run)?;
        if config.features().is_some() {
            bail!("{shown}: a run on features; what it draws are features, which no picture can be made of");
        }
        if config.source().samples() != "images" {
            bail!("{shown}: its samples are no images, and no picture can be made of what it draws");
        }
        if config.method().is_fitted() {
            bail!("{shown}: its model was fitted, not trained: images cannot be drawn from its latents");
        }
        warn_unfinished(run);
        let model = methods::load(&config, &run.join(CHECKPOINT), &device)?;
        let Some(chains) = NewImages::new(&config.sampler()) else {
            bail!("{shown}: its preset has no latent chain, and images are drawn by way of one");
        };
        let title = config.method().title();
        model.autoencoder().with_context(|| {
            format!("{shown}: images are drawn by chains on the energy of an autoencoder, which {title} does not have")
        })?;
        let engine = engine.engine(config.architecture())?;
        Ok(Self { config, model, chains, engine, device })
    }

    /// The next `count` images `[N, C, H, W]`.
    pub(crate) fn draw(&self, count: usize, noise: &mut NoiseSource) -> Tensor<4> {
        let spec = self.config.architecture();
        let shape = spec.image();
        let autoencoder = self.model.autoencoder().expect("there is one, or it would not have been read");
        let extents = [shape.channels, shape.height, shape.width];
        let frozen = self.engine.freeze(autoencoder, extents, Precision::F32, &self.device);
        self.chains.draw(&*frozen, count, spec.latent_dim(), self.model.temperature(), noise, &self.device)
    }
}
