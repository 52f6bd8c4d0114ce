//! Samples along training, and reconstructions of normal images and outliers before and after it (paper, figures
//! "Samples collected from NAE during training" and "Reconstruction examples in MNIST hold-out class detection").

use std::sync::atomic::AtomicBool;

use burn::tensor::{Device, Tensor};
use serde_json::{Value, json};

use super::{Made, PicturesError, SHOWN, mean_of, rows};
use nae_train::config::Config;
use nae_train::engine::{Engine, EngineChoice};
use nae_train::eval::{Table, reconstructed};
use nae_train::methods::Model;
use nae_train::run::Prepared;
use nae_train::sample::{NewImages, Precision};
use nae_train::seed::Stream;
use nae_train::train::{Both, Ending, Look, Observer};

/// The number of looks at the model that are shown, evenly spaced.
const FRAMES: usize = 8;

/// Trains the NAE of `prepared`, and draws the samples of its chains at every look: from the same noise, with a
/// latent chain eight times as long as in training, as for new images.
///
/// # Errors
/// [`PicturesError`]; [`PicturesError::Interrupted`] soon after `stop` is set.
pub fn along_training(
    prepared: &Prepared,
    engine: EngineChoice,
    device: &Device,
    stop: &AtomicBool,
    watch: impl Observer,
) -> Result<Made, PicturesError> {
    let config = &prepared.config;
    let engine = engine.engine(config.architecture())?;
    let chains = NewImages::new(&config.sampler()).ok_or(PicturesError::NoLatentChain)?;
    let frames = Frames { config, seed: prepared.seed, engine, chains, device, frames: Vec::new() };
    let mut both = Both::new(frames, watch);
    let outcome = prepared.train(engine, device, &mut both, stop, None)?;
    if let Ending::Interrupted { .. } = outcome.ending {
        return Err(PicturesError::Interrupted);
    }
    let frames = both.first.frames;
    let shown: Vec<&Frame> = (0..frames.len().min(FRAMES))
        .map(|k| &frames[k * (frames.len() - 1) / (frames.len().min(FRAMES) - 1).max(1)])
        .collect();
    let shape = config.architecture().image();
    // One row for each look: first the ends of the latent chain, then those of the visible chain.
    let samples = shown.iter().map(|frame| Tensor::cat(vec![frame.manifold.clone(), frame.end.clone()], 0)).collect();

    let models = outcome.autoencoder.iter().map(|plain| plain as &dyn Model);
    let models: Vec<&dyn Model> = models.chain([&*outcome.model]).collect();
    let mut pictured = Vec::new();
    for set in [&prepared.split.test, &prepared.split.held_out] {
        if !set.is_empty() {
            pictured.extend(reconstructed(set, SHOWN, &models, device).rows);
        }
    }
    let table = Table::of(&prepared.evaluate(&prepared.columns(&outcome), engine, device));
    Ok(Made {
        figures: json!({
            "looks": frames.iter().map(|frame| frame.figures.clone()).collect::<Vec<_>>(),
            "shown_updates": shown.iter().map(|frame| frame.figures["update"].clone()).collect::<Vec<_>>(),
            "reconstruction_rows": ["normal", "by the autoencoder", "by the NAE", "held out", "by the autoencoder", "by the NAE"],
            "auroc": table,
            "kept_update": outcome.kept_update,
        }),
        pictures: vec![("samples.png", rows(samples, shape)), ("reconstructions.png", rows(pictured, shape))],
    })
}

/// The samples of the chains at the looks.
struct Frames<'a> {
    config: &'a Config,
    seed: u64,
    engine: Engine,
    chains: NewImages,
    device: &'a Device,
    frames: Vec<Frame>,
}

struct Frame {
    figures: Value,
    manifold: Tensor<4>,
    end: Tensor<4>,
}

impl Observer for Frames<'_> {
    fn look(&mut self, look: &Look, model: &dyn Model) {
        let Some(autoencoder) = model.autoencoder() else { return };
        let spec = self.config.architecture();
        let shape = spec.image();
        let frozen =
            self.engine.freeze(autoencoder, [shape.channels, shape.height, shape.width], Precision::F32, self.device);
        let mut noise = Stream::Pictures.of(self.seed);
        let count = SHOWN / 2;
        let [_, manifold, end] =
            self.chains.stages(&*frozen, count, spec.latent_dim(), model.temperature(), &mut noise, self.device);
        let energy = |x: &Tensor<4>| mean_of(frozen.visible(x.clone()).energy);
        let figures = json!({
            "update": look.update,
            "validation_energy": look.validation_energy,
            "on_manifold_energy": energy(&manifold),
            "sample_energy": energy(&end),
        });
        self.frames.push(Frame { figures, manifold, end });
    }
}
