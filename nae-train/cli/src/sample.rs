//! `nae-train sample`: a picture of new images from a trained model.

use nae_onnx::file;
use nae_train::engine::EngineChoice;
use nae_train::report::images;
use nae_train::seed::Stream;

use crate::Done;
use crate::args::SampleArgs;
use crate::generator::Generator;
use crate::output_file;

pub(crate) fn run(args: &SampleArgs) -> anyhow::Result<Done> {
    output_file::check_picture(&args.output)?;
    let generator = Generator::read(&args.run, EngineChoice::from(args.engine))?;
    let drawn = generator.draw(args.count.into(), &mut Stream::Pictures.of(args.seed));
    let columns = f64::from(args.count).sqrt().ceil() as usize;
    let shape = generator.config.architecture().image();
    file::write(&args.output, &images::png(&images::grid(&drawn, shape, columns)))?;
    Ok(Done::Whole)
}
