//! `nae-train deploy`: converts ONNX or TFLite to `.nae`; with `--int8`, in 8 bits.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nae_core::calibration::Calibration;
use nae_core::model::Model;
use nae_data::ImageForm;
use nae_data::ImageSet;
use nae_data::is_tables;
use nae_data::own::{self, Corrupt};
use nae_data::own_table::{self, OwnTable};
use nae_graph::quantize::{self, QuantizeOptions, Scales};
use nae_graph::{Graph, emit};
use nae_infer::card::int8_layouts;
use nae_onnx::check::{Limits, check};
use nae_onnx::ending::ModelFormat;
use nae_onnx::metadata::{ModelMetadata, Provenance, Tiles, Transforms};
use nae_onnx::{file, lower, tflite};
use nae_simd::Observer;
use nae_train::deploy::Data;
use nae_train::deploy::report::{self, Report};
use nae_train::export;
use nae_train::recorded;
use nae_train::report::CONFIG;
use nae_train::run::Prepared;
use serde_json::json;

use crate::Done;
use crate::args::{DeployArgs, RangesArg};
use crate::eval::warn_trained_on;
use crate::output::{errln, out, outln};
use crate::output_file;

/// The maximum size of a model in bytes, far above that of any autoencoder for a microcontroller.
const MAX_MODEL_BYTES: u64 = 1 << 30;
/// The false-positive rate of a threshold if neither the model nor the command line gives one.
const FALSE_POSITIVE_RATE: f32 = 0.01;

pub(crate) fn run(args: &DeployArgs) -> anyhow::Result<Done> {
    let data = [&args.calibrate, &args.data, &args.outliers].into_iter().flatten();
    output_file::check(&args.output, data.chain([&args.model]).map(PathBuf::as_path))?;
    ModelFormat::Nae.check_name(&args.output)?;
    let bytes = file::read(&args.model, MAX_MODEL_BYTES)?;
    let mut report = None;
    let mut graph = if tflite::is_tflite(&bytes) {
        if args.int8 {
            bail!("{}: a TFLite model is read with its own scales; leave --int8 out", display(&args.model));
        }
        tflite::lower(&bytes).with_context(|| display(&args.model))?
    } else {
        let model = check(&bytes, &Limits::default()).map_err(lower::LowerError::from);
        let model = model.with_context(|| display(&args.model))?;
        let (graph, scales) = lower::lower_with_scales(&model).with_context(|| display(&args.model))?;
        let metadata = model.metadata().with_context(|| display(&args.model))?;
        if let Some(metadata) = &metadata {
            check_parts(args, metadata)?;
        }
        match &args.calibrate {
            None => {
                if !scales.is_empty() {
                    errln!("{}: it is quantized, and is deployed in f32 without --int8", display(&args.model));
                }
                graph
            }
            Some(path) => {
                let data = read(args, path, &graph, metadata.as_ref())?;
                let (graph, measured) = quantize(args, &graph, scales, &data)?;
                report = Some(measured);
                graph
            }
        }
    };
    graph.layout = args.layout.unwrap_or_default().into();
    let nae = emit(&graph).with_context(|| display(&args.model))?;
    let model = Model::parse(&nae).with_context(|| display(&args.output))?;
    if args.layout.is_some() && int8_layouts(&model).is_none() {
        bail!("--layout: it is of 8-bit weights, and the model has none; leave it out, or give --int8");
    }
    file::write(&args.output, &nae)?;
    say(args, &model, nae.len(), report.as_ref())?;
    Ok(Done::Whole)
}

/// Reports what a device has to do by itself, and refuses what it cannot do.
fn check_parts(args: &DeployArgs, metadata: &ModelMetadata) -> anyhow::Result<()> {
    let model = display(&args.model);
    if metadata.transforms != Transforms::default() {
        errln!(
            "{model}: the .nae file does not contain the crop, padding and inversion of images (see nae-infer inspect): the \
             device has to apply them"
        );
    }
    if metadata.columns.is_some() {
        let windows = metadata.window.map(|_| ", to form windows of rows").unwrap_or_default();
        errln!(
            "{model}: the .nae file does not contain what is done to a table's columns (see nae-infer inspect): the device has \
             to scale them{windows}, and to give the values as an image"
        );
    }
    if metadata.features.is_some() {
        bail!(
            "{model}: a model of features; a .nae file holds only networks that reconstruct their input: run it on a host, by \
             nae-infer"
        );
    }
    let Some(Tiles { stride, top_k }) = metadata.tiles else { return Ok(()) };
    if top_k > 1 {
        bail!(
            "{model}: an image's score is the mean of its {top_k} largest tiles' energies, and the threshold is for \
             such scores; a .nae file scores one tile at a time. Train with --top-k 1"
        );
    }
    if args.int8 {
        bail!("{model}: it looks at tiles; 8-bit models of tiles cannot be calibrated by image yet. Leave --int8 out");
    }
    errln!(
        "{model}: the .nae file scores one tile; the device cuts the image, {stride} pixels from one tile to the next. An \
         image is an anomaly where one of its tiles is: the threshold is for the largest energy of an image"
    );
    Ok(())
}

fn say(args: &DeployArgs, model: &Model<'_>, flash: usize, report: Option<&Report>) -> anyhow::Result<()> {
    let arena = model.arena_len() * size_of::<f32>();
    let input = model.input_shape();
    let is_int8 = model.image_quantization().is_some();
    if args.json {
        let mut line = json!({
            "output": display(&args.output),
            "flash_bytes": flash,
            "arena_bytes": arena,
            "layers": model.layer_count(),
            "input": [input.channels, input.height, input.width],
            "input_type": if is_int8 { "int8" } else { "float32" },
            "calibrated": model.calibration().is_some(),
            "layout": int8_layouts(model),
        });
        if let Some(report) = report {
            line["quantization"] = json!(report);
        }
        return outln!("{line}");
    }
    if let Some(report) = report {
        out!("{}", report.terminal())?;
    }
    outln!(
        "{}: {} layers, {flash} bytes of flash, {arena} bytes of RAM for the arena, input {}×{}×{}{}{}",
        display(&args.output),
        model.layer_count(),
        input.channels,
        input.height,
        input.width,
        match (is_int8, int8_layouts(model)) {
            (false, _) => String::new(),
            (true, None) => " of 8 bits".to_owned(),
            (true, Some(layouts)) => format!(" of 8 bits, weights {layouts}"),
        },
        match (model.calibration().is_some(), model.threshold().is_some()) {
            (false, _) => "; not calibrated: it gives energies, no verdicts".to_owned(),
            (true, false) => {
                let needed = report.and_then(|report| report.images_needed);
                let needed = needed.map(|needed| format!(" ({needed} samples would do)")).unwrap_or_default();
                format!("; no threshold: too few calibration data for the rate{needed}, so it gives no verdicts")
            }
            (true, true) => String::new(),
        },
    )
}

fn quantize(args: &DeployArgs, graph: &Graph, scales: Scales, data: &Data) -> anyhow::Result<(Graph, Report)> {
    // Requested ranges apply to all tensors.
    let scales = if args.ranges.is_none() { scales } else { Scales::default() };
    let equalize = args.equalize.into();
    if equalize == Some(true) && !scales.is_empty() {
        bail!(
            "--equalize always: {} comes with scales, which are wrong for other channels; choose new ones by --ranges",
            display(&args.model)
        );
    }
    let ranges = args.ranges.unwrap_or(RangesArg::Mse).into();
    let options = QuantizeOptions { ranges, equalize, layout: args.layout.unwrap_or_default().into(), scales };
    let mut quantized = quantize::quantize(graph, &data.ranges, &options, &Observer)?;
    let rate = args
        .false_positive_rate
        .or(graph.contract.threshold().map(|t| t.false_positive_rate))
        .unwrap_or(FALSE_POSITIVE_RATE);
    if !(rate > 0.0 && rate < 1.0) {
        bail!("--false-positive-rate: expected a number between 0 and 1, found {rate}");
    }
    let report = report::calibrate(graph, &mut quantized, data, rate)?;
    Ok((quantized.graph, report))
}

/// Reads the data for quantization: those of a run, or a user's own.
fn read(args: &DeployArgs, path: &Path, graph: &Graph, metadata: Option<&ModelMetadata>) -> anyhow::Result<Data> {
    if path.join(CONFIG).is_file() {
        let mut prepared = recorded::prepare(path, args.data.as_deref(), Corrupt::Skip)?;
        let (run, model) = (prepared.config.source().image(), graph.input());
        if run != model {
            bail!("--calibrate: the run in {} has samples of {run}, the model takes {model}", display(path));
        }
        if let Some(metadata) = metadata {
            check_run(path, &prepared, metadata)?;
        }
        if let Some(outliers) = &args.outliers {
            prepared.add_outliers(outliers, Corrupt::Skip)?;
        }
        return Ok(Data::of_run(&prepared, graph));
    }
    if args.data.is_some() {
        bail!("--data: {} is not the folder of a run, which would be divided as in the run", display(path));
    }
    // Normal data are divided afterwards, so that windows of both parts must not overlap.
    let load = |path: &Path, option: &'static str, divided: bool| -> anyhow::Result<(ImageSet, String)> {
        if !is_tables(path) {
            if metadata.is_some_and(|metadata| metadata.columns.is_some()) {
                bail!(
                    "{option}: {}: expected a table, .csv or .tsv, since the model was trained on one",
                    display(path)
                );
            }
            let filter = graph.contract.preprocessing.filter();
            let transforms = metadata.map(|metadata| metadata.transforms).unwrap_or_default();
            let form = ImageForm { transforms, ..ImageForm::resized(graph.input(), filter) };
            let read = own::load(path, &form, Corrupt::Skip).context(option)?;
            return Ok((read.images, read.sha256));
        }
        let Some(columns) = metadata.and_then(|metadata| metadata.columns.as_ref()) else {
            bail!("{option}: {} is a table, and the model was not trained on one", display(path));
        };
        let window = metadata.and_then(|metadata| metadata.window);
        let (title, missing) = (own::title(path), columns.missing());
        let own = OwnTable { title, missing, window, columns: columns.columns().to_vec() };
        let load = if divided { own_table::load } else { own_table::load_whole };
        let read = load(path, &own).context(option)?;
        Ok((read.samples, read.sha256))
    };
    let (normal, sha256) = load(path, "--calibrate", true)?;
    if metadata.is_some_and(|metadata| metadata.provenance.data_sha256 == sha256) {
        let remedy = "give normal data that it was not trained on, or the folder of its run, with --data";
        warn_trained_on(path, &format!("the threshold is too low: {remedy}"));
    }
    let outliers = match &args.outliers {
        Some(path) => Some((format!("{} (given)", own::title(path)), load(path, "--outliers", false)?.0)),
        None => None,
    };
    Ok(Data::of_images(&normal, outliers.as_ref().map(|(name, set)| (name.clone(), set)), graph))
}

/// Checks that the model, of this `metadata`, is one of the run in `path`: another division of the data, or others, would
/// calibrate it with what it was trained on.
fn check_run(path: &Path, prepared: &Prepared, metadata: &ModelMetadata) -> anyhow::Result<()> {
    let of = |seed: u64, data: &str, sha256: &str| format!("seed {seed} and data \"{data}\" of SHA-256 {sha256}");
    let Provenance { seed, data_description, data_sha256, .. } = &metadata.provenance;
    let model = of(*seed, data_description, data_sha256);
    let run = of(prepared.seed, &export::data_description(&prepared.config), &prepared.data_sha256);
    if model != run {
        bail!(
            "--calibrate: expected the run that the model is from, of {model}; found {}, of {run}, which divided its data \
             otherwise; give the folder of the model's own run, or new normal data",
            display(path)
        );
    }
    // The shares of the parts are not in the model's file.
    let (energies, part) =
        (metadata.contract.calibration().map(Calibration::count), prepared.split.calibration.decisions());
    if let Some(energies) = energies
        && energies != part
    {
        errln!(
            "warning: the model was calibrated with {energies} energies, and the calibration part of the run in {} has {part}: if \
             the model is of a run that divided the data otherwise, the threshold is too low",
            display(path)
        );
    }
    Ok(())
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
