//! `nae-train fid`: the distance of a model's new images from its data, measured with a frozen
//! network.

use anyhow::{Context as _, bail};
use nae_data::own::Corrupt;
use nae_features::Embedding;
use nae_onnx::check::Limits;
use nae_onnx::file;
use nae_terminal::progress::Progress;
use nae_train::engine::EngineChoice;
use nae_train::eval;
use nae_train::recorded;
use nae_train::seed::Stream;
use serde_json::json;

use crate::Done;
use crate::args::FidArgs;
use crate::generator::Generator;
use crate::output::outln;

pub(crate) fn run(args: &FidArgs) -> anyhow::Result<Done> {
    let generator = Generator::read(&args.run, EngineChoice::from(args.engine))?;
    let shape = generator.config.architecture().image();
    let bytes = file::read(&args.network, Limits::default().bytes)?;
    let embedding = Embedding::parse(&bytes, args.output.as_deref(), shape)
        .with_context(|| format!("{}: no network for a FID", args.network.display()))?;
    let prepared = recorded::prepare(&args.run, args.data.as_deref(), Corrupt::Skip)?;
    let images = &prepared.split.train;
    let of_data = args.real.map_or(images.len(), |most| images.len().min(most));
    if of_data.min(args.count) < 2 {
        bail!("a FID takes two images and more of both kinds, found {of_data} of the data and {}", args.count);
    }
    let real: Vec<&[f32]> = (0..of_data).map(|index| images.image(index)).collect();

    let progress = Progress::new("FID", "images", 0, of_data + args.count, args.quiet);
    let mut noise = Stream::Pictures.of(args.seed);
    let distance =
        eval::fid(&embedding, &real, args.count, |n| generator.draw(n, &mut noise), |more| progress.advance(more));
    progress.finish();
    let distance = distance.with_context(|| {
        format!(
            "{}: expected finite numbers for {of_data} images of the data and {}",
            args.network.display(),
            args.count
        )
    })?;
    let features = embedding.len();
    if args.json {
        let output = embedding.output();
        outln!(
            "{}",
            json!({ "fid": distance, "real": of_data, "generated": args.count, "features": features, "output": output })
        )?;
        return Ok(Done::Whole);
    }
    outln!("FID {distance:.3}: {} new images against {of_data} of the training data", args.count)?;
    outln!("by `{}` of {}, {features} features", embedding.output(), args.network.display())?;
    let fewest = of_data.min(args.count);
    if fewest <= features {
        outln!(
            "{fewest} images are too few for the covariance of {features} features: compare with figures of the same counts only"
        )?;
    }
    Ok(Done::Whole)
}
