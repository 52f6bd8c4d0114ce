//! The arguments of a run: those of `nae-train` without a command, and those that other commands share with it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use burn::tensor::Device;
use clap::{Args, ValueEnum};
use nae_data::own::{Asked, Corrupt};
use nae_onnx::metadata::{Fit, Missing, RowWindow, Tiles, Transforms};
use nae_train::config::MethodKind;
use nae_train::device::DeviceChoice;
use nae_train::engine::EngineChoice;
use nae_train::own::OwnForm;

use crate::output::errln;

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// A preset's name, or a .toml file, such as config.toml of a run folder [see: nae-train presets; default: digits,
    /// or what fits the images of --data].
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) preset: Option<String>,
    /// The method to train, instead of the preset's.
    #[arg(long, value_enum)]
    pub(crate) method: Option<MethodArg>,
    /// Seed of every random number of the run.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Without --preset: your own normal images, in a folder with its sub-folders, or a .tar, .tar.gz, .tgz, .zip, .npy or
    /// .npz file; or a table, .csv or .tsv, of normal readings, or a folder of such tables. With a preset whose data are not
    /// part of the program: their folder, or the folder above it [default: $NAE_DATA].
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outliers to evaluate on, in a folder or file as for --data; never used in training or stopping.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) outliers: Option<PathBuf>,
    /// For your own data: the time of the whole run, such as 90s or 1h [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = budget, requires = "data", conflicts_with = "preset")]
    pub(crate) time_budget: Option<Duration>,
    /// For your own large images: cut them into tiles of this many pixels a side, 12 to 82, instead of resizing them. An
    /// image's score is the largest energy of its tiles.
    #[arg(long, value_name = "SIDE", requires = "data", conflicts_with = "preset", value_parser = clap::value_parser!(u16).range(12..=82))]
    pub(crate) tile: Option<u16>,
    /// For your own images: train on the features of this frozen network at each place of an image, instead of its pixels.
    /// An ONNX file with an input [N, 3, S, S] of values 0 to 1; a script in models/backbones makes one.
    #[arg(long, value_name = "FILE.onnx", requires = "data", conflicts_with_all = ["preset", "tile", "window"])]
    pub(crate) features: Option<PathBuf>,
    /// For your own images: what one sample is [default: tiles with --tile, features with --features; else best, if images
    /// lose detail when they are resized and the time is a minute or more].
    #[arg(long, value_enum, value_name = "FORM", requires = "data", conflicts_with_all = ["preset", "window"])]
    pub(crate) form: Option<FormArg>,
    /// The outputs of the frozen network to use [default: all feature maps].
    #[arg(long, value_name = "NAME,NAME…", requires = "features", value_delimiter = ',')]
    pub(crate) feature_outputs: Vec<String>,
    /// How an image is brought to the size of the network's input.
    #[arg(long, value_enum, default_value_t = FitArg::Stretch, requires = "data", conflicts_with_all = ["preset", "tile"])]
    pub(crate) fit: FitArg,
    /// Pixels from one tile to the next, at most a tile's side [default: half a tile].
    #[arg(long, value_name = "PIXELS", requires = "tile", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) stride: Option<u16>,
    /// An image's score is the mean of the K largest energies of its tiles, or of its places with --features [default: 1
    /// of tiles, 5 of places].
    #[arg(long, value_name = "K", requires = "data", conflicts_with = "preset", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top_k: Option<u16>,
    /// For your own time series: number of rows in one sample.
    #[arg(long, value_name = "ROWS", requires = "data", conflicts_with_all = ["preset", "tile"], value_parser = clap::value_parser!(u16).range(2..))]
    pub(crate) window: Option<u16>,
    /// Rows from the start of one window to the start of the next [default: a quarter of a window].
    #[arg(long, value_name = "ROWS", requires = "window", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) window_stride: Option<u16>,
    /// For your own tables: what to do about missing values.
    #[arg(long, value_enum, default_value_t = MissingArg::Refuse, requires = "data", conflicts_with = "preset")]
    pub(crate) missing: MissingArg,
    /// Raise the threshold so that its false-positive rate holds with this probability over the draw of the calibration
    /// data, such as 0.95; without it the rate holds on average. It takes more data, or a higher rate.
    #[arg(long, value_name = "PROBABILITY", value_parser = confidence)]
    pub(crate) confidence: Option<f64>,
    /// Refuse your own images if a file cannot be read, or if grey and coloured images are mixed; by default such files are
    /// skipped with a warning, and all images are read as coloured.
    #[arg(long)]
    pub(crate) strict: bool,
    /// The class that is held out, instead of the preset's.
    #[arg(long, value_name = "CLASS")]
    pub(crate) held_out: Option<u8>,
    /// The run folder. A finished run of other data or settings is not replaced [default: runs/PRESET-SEED, or runs/DATA-SEED for
    /// your own data, with a number after it if such a run is there].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Continue an interrupted run from the last state in its folder; the model is the same as without the interruption.
    /// Give --data and --outliers as before.
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "preset", "method", "seed", "time_budget", "missing", "held_out", "out", "engine", "device", "tile", "window", "fit", "features",
        "form", "confidence", "top_k",
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// Time between two saved states, from which --resume can continue; Ctrl-C saves one, too.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1m")]
    pub(crate) checkpoint_every: Duration,
    /// Also evaluate on every outlier set during training, and write it to metrics.jsonl; training does not use it.
    #[arg(long)]
    pub(crate) trace_outliers: bool,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) export: ExportFiles,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The value of [`Cli::verbosity`](crate::args::Cli::verbosity).
    #[arg(skip)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    /// The whole image, resized.
    Whole,
    /// A tile of the image; see --tile.
    Tiles,
    /// The features of one place of the image, by the network of --features.
    Features,
    /// The one of these that detects synthetic defects best in a short trial: whole images, tiles (of --tile, or of a side
    /// that fits), and features if --features gives a network.
    Best,
}

impl From<FormArg> for OwnForm {
    fn from(form: FormArg) -> Self {
        match form {
            FormArg::Whole => Self::Whole,
            FormArg::Tiles => Self::Tiles,
            FormArg::Features => Self::Features,
            FormArg::Best => Self::Best,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FitArg {
    /// Resized, whatever the proportions.
    Stretch,
    /// The largest square in the centre, resized.
    Crop,
    /// Resized with its proportions if it is larger, and padded with black.
    Pad,
}

impl From<FitArg> for Fit {
    fn from(fit: FitArg) -> Self {
        match fit {
            FitArg::Stretch => Self::Stretch,
            FitArg::Crop => Self::Crop,
            FitArg::Pad => Self::Pad,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MissingArg {
    /// A missing value is an error.
    Refuse,
    /// Replaced by the column's median; each column with missing values gets a further input that marks them, in scoring too.
    #[value(alias = "mean")]
    Fill,
}

impl From<MissingArg> for Missing {
    fn from(missing: MissingArg) -> Self {
        match missing {
            MissingArg::Refuse => Self::Refuse,
            MissingArg::Fill => Self::Fill,
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("expected a time, such as 90s, 10m or 1h30m: {error}"))
}

fn budget(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time.is_zero() { Err("expected more than no time".to_owned()) } else { Ok(time) }
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(confidence) if confidence > 0.0 && confidence <= 0.9999 => Ok(confidence),
        _ => Err("expected a number above 0 and at most 0.9999".into()),
    }
}

impl TrainArgs {
    /// The requested form of a user's images.
    pub(crate) fn asked(&self) -> Asked {
        let tiles = self.tile.map(|side| {
            let side = usize::from(side);
            let stride = self.stride.map_or(side / 2, usize::from);
            (side, Tiles { stride, top_k: self.top_k.map_or(1, usize::from) })
        });
        Asked { tiles, shape: None, transforms: Transforms { fit: self.fit.into(), ..Transforms::default() } }
    }

    /// The windows of a time series; `None` without --window.
    pub(crate) fn window(&self) -> Option<RowWindow> {
        let rows = usize::from(self.window?);
        Some(RowWindow { rows, stride: self.window_stride.map_or((rows / 4).max(1), usize::from) })
    }

    /// The treatment of images that cannot be read.
    pub(crate) fn corrupt(&self) -> Corrupt {
        if self.strict { Corrupt::Refuse } else { Corrupt::Skip }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodArg {
    /// Normalized autoencoder.
    Nae,
    /// Plain autoencoder.
    Ae,
    /// Denoising autoencoder.
    Dae,
    /// Variational autoencoder.
    Vae,
    /// Wasserstein autoencoder with an MMD penalty.
    Wae,
    /// Vector-quantized autoencoder.
    Vqvae,
    /// Deep autoencoding Gaussian mixture model.
    Dagmm,
    /// GANomaly.
    Ganomaly,
    /// IGEBM: a network whose output is the energy.
    Igebm,
    /// MPDR-S: a network whose output is the energy, trained with samples near an autoencoder's manifold.
    Mpdr,
    /// Glow, a flow.
    Glow,
    /// PixelCNN++.
    Pixelcnn,
    /// Mahalanobis distance to the data; takes seconds; also for your own data.
    Mahalanobis,
    /// Squared distance to the nearest of up to 4,096 training samples, or to a mean of those about equally near; takes seconds; also
    /// for your own data.
    Knn,
}

impl From<MethodArg> for MethodKind {
    fn from(method: MethodArg) -> Self {
        match method {
            MethodArg::Nae => Self::Nae,
            MethodArg::Ae => Self::Ae,
            MethodArg::Dae => Self::Dae,
            MethodArg::Vae => Self::Vae,
            MethodArg::Wae => Self::Wae,
            MethodArg::Vqvae => Self::Vqvae,
            MethodArg::Dagmm => Self::Dagmm,
            MethodArg::Ganomaly => Self::Ganomaly,
            MethodArg::Igebm => Self::Igebm,
            MethodArg::Mpdr => Self::Mpdr,
            MethodArg::Glow => Self::Glow,
            MethodArg::Pixelcnn => Self::Pixelcnn,
            MethodArg::Mahalanobis => Self::Mahalanobis,
            MethodArg::Knn => Self::Knn,
        }
    }
}

/// The device and engine of a run.
#[derive(Debug, Args)]
pub(crate) struct ComputeArgs {
    /// The engine that computes gradients.
    #[arg(long, visible_alias = "sampler-engine", value_enum, default_value_t = EngineArg::Auto)]
    pub(crate) engine: EngineArg,
    /// The device to compute on: cpu, or one that `nae-train devices` lists.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Cpu)]
    pub(crate) device: DeviceChoice,
}

impl ComputeArgs {
    /// Opens the device, and selects an engine that supports it. `recorded` is the device of a run that is continued.
    pub(crate) fn open(&self, recorded: Option<DeviceChoice>, quiet: bool) -> anyhow::Result<(Device, EngineChoice)> {
        let choice = recorded.unwrap_or(self.device);
        let opened = choice.open().context("--device")?;
        if choice != DeviceChoice::Cpu && !quiet {
            errln!("computed on {}", opened.name);
        }
        let engine = EngineChoice::from(self.engine).on(&opened.device)?;
        Ok((opened.device, engine))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EngineArg {
    /// The engine of this program if it has the network's energy, else burn.
    Auto,
    /// The engine of this program, for the processor.
    Cpu,
    /// burn's automatic differentiation.
    Burn,
}

impl From<EngineArg> for EngineChoice {
    fn from(engine: EngineArg) -> Self {
        match engine {
            EngineArg::Auto => Self::Auto,
            EngineArg::Cpu => Self::Cpu,
            EngineArg::Burn => Self::Burn,
        }
    }
}

/// The files for a model.
#[derive(Debug, Args)]
pub(crate) struct ExportFiles {
    /// Write the model, with preprocessing and calibration, as ONNX.
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) export: Option<PathBuf>,
    /// Also write encoder.onnx and decoder.onnx into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) export_parts: Option<PathBuf>,
}
