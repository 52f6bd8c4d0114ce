//! Samples of an untrained model (paper, figure "Sampling with randomly initialized NAE"): contrastive divergence
//! starts at the data, far from where the model's density is high, and stays there; on-manifold initialization
//! starts where it is high.

use burn::tensor::{Device, Tensor};
use serde_json::json;

use super::{Made, PicturesError, SHOWN, mean_of, rows};
use nae_train::arch::Autoencoder;
use nae_train::engine::EngineChoice;
use nae_train::run::Prepared;
use nae_train::sample::{NewImages, Precision};
use nae_train::seed::Stream;
use nae_train::tensors::Batches as _;

/// The number of samples over which energies are averaged.
const SAMPLES: usize = 64;

/// Runs chains in the network of `prepared` with new weights: from its test data, and from the ends of the latent
/// chain.
///
/// # Errors
/// [`PicturesError::NoLatentChain`], [`PicturesError::Engine`].
pub fn random_init(prepared: &Prepared, engine: EngineChoice, device: &Device) -> Result<Made, PicturesError> {
    let (config, seed) = (&prepared.config, prepared.seed);
    let (spec, sampler) = (config.architecture(), config.sampler());
    let chains = NewImages::new(&sampler).ok_or(PicturesError::NoLatentChain)?;
    let weights = Autoencoder::new(spec, Stream::Weights.of(seed).rng(), &device.clone().autodiff());
    let shape = spec.image();
    let model =
        engine.engine(spec)?.freeze(&weights, [shape.channels, shape.height, shape.width], Precision::F32, device);
    let test = &prepared.split.test;
    let data = test.batch(&test.evenly(SAMPLES), device);
    let mut noise = Stream::Chains.of(seed);
    let t = sampler.temperature;
    let contrastive = model.visible_chain(&sampler.visible_chain, data.clone(), t, &mut noise).state;
    let [start, manifold, end] = chains.stages(&*model, SAMPLES, spec.latent_dim(), t, &mut noise, device);

    let stages = [
        ("data", data),
        ("contrastive_divergence", contrastive),
        ("decoded_noise", start),
        ("on_manifold", manifold),
        ("on_manifold_sample", end),
    ];
    let energies: serde_json::Map<_, _> =
        stages.iter().map(|(name, x)| ((*name).to_owned(), json!(mean_of(model.visible(x.clone()).energy)))).collect();
    let few = |x: Tensor<4>| {
        let count = x.dims()[0].min(SHOWN);
        x.narrow(0, 0, count)
    };
    let shown = stages.into_iter().map(|(_, x)| few(x)).collect();
    Ok(Made {
        figures: json!({
            "samples": SAMPLES.min(test.len()),
            "mean_energy": energies,
            "rows": ["data", "after contrastive divergence", "decoded noise", "after the latent chain", "after the visible chain"],
        }),
        pictures: vec![("samples.png", rows(shown, shape))],
    })
}
