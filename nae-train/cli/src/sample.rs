//! `nae-train sample`: new images from a trained model, as a picture.

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_onnx::file;
use nae_train::engine::EngineChoice;
use nae_train::methods;
use nae_train::report::images;
use nae_train::report::{CHECKPOINT, RunFolder};
use nae_train::sample::{NewImages, Precision};
use nae_train::seed::Stream;

use crate::Done;
use crate::args::SampleArgs;

pub(crate) fn run(args: &SampleArgs) -> anyhow::Result<Done> {
    let device = Device::flex();
    let (config, _) = RunFolder::read(&args.run)?;
    if config.features().is_some() {
        bail!("{}: a run on features; what it draws are features, which no picture can be made of", args.run.display());
    }
    let model = methods::load(&config, &args.run.join(CHECKPOINT), &device)?;
    let shown = args.run.display();
    let Some(chains) = NewImages::new(&config.sampler()) else {
        bail!("{shown}: its preset has no latent chain, and images are drawn by way of one");
    };
    let autoencoder = model.autoencoder().with_context(|| format!("{shown}: its model has no decoder"))?;
    let spec = config.architecture();
    let shape = spec.image();
    let engine = EngineChoice::from(args.engine).engine(spec)?;
    let frozen = engine.freeze(autoencoder, [shape.channels, shape.height, shape.width], Precision::F32, &device);
    let mut noise = Stream::Pictures.of(args.seed);
    let drawn = chains.draw(&*frozen, args.count.into(), spec.latent_dim(), model.temperature(), &mut noise, &device);
    let columns = f64::from(args.count).sqrt().ceil() as usize;
    file::write(&args.output, &images::png(&images::grid(&drawn, shape, columns)))?;
    Ok(Done::Whole)
}
