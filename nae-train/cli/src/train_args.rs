//! What can be said of a run: `nae-train` without a command, and what other commands share with it.

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

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// A preset's name, or a .toml file, such as config.toml of a run folder [see: nae-train presets; default: digits,
    /// or what fits the images of --data].
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) preset: Option<String>,
    /// What to train, in place of the preset's method.
    #[arg(long, value_enum)]
    pub(crate) method: Option<MethodArg>,
    /// Seed of every random number of the run.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Without --preset: normal images of your own, in a folder with its sub-folders, or a .tar, .tar.gz, .tgz, .zip,
    /// .npy or .npz file; or a table, .csv or .tsv, of normal readings, or a folder of such tables. With a preset whose
    /// data is not part of the program: its folder, or one that has it by its name [default: $NAE_DATA].
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outliers to evaluate on, in a folder or file as for --data; never used in training or stopping.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) outliers: Option<PathBuf>,
    /// For data of your own: the time the whole run may take, such as 90s or 1h [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "data", conflicts_with = "preset")]
    pub(crate) time_budget: Option<Duration>,
    /// For images of your own larger than this: cut them into tiles of so many pixels a side, 12 to 82, in place of
    /// making them smaller. An image's score is that of its most unusual tile.
    #[arg(long, value_name = "SIDE", requires = "data", conflicts_with = "preset", value_parser = clap::value_parser!(u16).range(12..=82))]
    pub(crate) tile: Option<u16>,
    /// For images of your own: train on what this frozen network says of each place of an image, in place of its pixels.
    /// An ONNX file with an input [N, 3, S, S] of values 0 to 1; models/backbones has a script that makes one.
    #[arg(long, value_name = "FILE.onnx", requires = "data", conflicts_with_all = ["preset", "tile", "window"])]
    pub(crate) features: Option<PathBuf>,
    /// What a sample of images of your own is [default: tiles or features where --tile or --features asks for them; else the
    /// best, where images lose detail when they are made small and the time is a minute or more].
    #[arg(long, value_enum, value_name = "FORM", requires = "data", conflicts_with_all = ["preset", "window"])]
    pub(crate) form: Option<FormArg>,
    /// The outputs of the frozen network whose features are used [default: all that are maps].
    #[arg(long, value_name = "NAME,NAME…", requires = "features", value_delimiter = ',')]
    pub(crate) feature_outputs: Vec<String>,
    /// How an image of another size becomes the network's.
    #[arg(long, value_enum, default_value_t = FitArg::Stretch, requires = "data", conflicts_with_all = ["preset", "tile"])]
    pub(crate) fit: FitArg,
    /// Pixels from one tile to the next, at most a tile's side [default: half of it].
    #[arg(long, value_name = "PIXELS", requires = "tile", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) stride: Option<u16>,
    /// An image's score is the mean of the K largest energies of its tiles, or of its places with --features [default: 1
    /// of tiles, 5 of places].
    #[arg(long, value_name = "K", requires = "data", conflicts_with = "preset", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top_k: Option<u16>,
    /// For a table of your own that is a time series: so many rows make one sample.
    #[arg(long, value_name = "ROWS", requires = "data", conflicts_with_all = ["preset", "tile"], value_parser = clap::value_parser!(u16).range(2..))]
    pub(crate) window: Option<u16>,
    /// Rows from the beginning of one window to that of the next [default: a quarter of a window].
    #[arg(long, value_name = "ROWS", requires = "window", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) window_stride: Option<u16>,
    /// For a table of your own: what a reading that is not there becomes.
    #[arg(long, value_enum, default_value_t = MissingArg::Refuse)]
    pub(crate) missing: MissingArg,
    /// Choose the threshold so that its false-positive rate holds with this probability, such as 0.95, however the
    /// calibration data were drawn; without it, it holds on average. It takes more data, or a higher rate.
    #[arg(long, value_name = "PROBABILITY", value_parser = confidence)]
    pub(crate) confidence: Option<f64>,
    /// Refuse images of your own where a file cannot be read, or grey and coloured ones are mixed; such files are
    /// skipped with a warning otherwise, and such images taken as coloured.
    #[arg(long)]
    pub(crate) strict: bool,
    /// The class kept out of training, in place of the preset's.
    #[arg(long, value_name = "CLASS")]
    pub(crate) held_out: Option<u8>,
    /// The run folder [default: runs/PRESET-SEED, or runs/DATA-SEED for data of your own].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with a run that was broken off, by Ctrl-C, a power cut or otherwise, from what its folder has; to the same
    /// model as if it had not been. Give --data and --outliers as before.
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "preset", "method", "seed", "time_budget", "missing", "held_out", "out", "engine", "device", "tile", "window", "fit", "features",
        "form", "confidence",
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// Time between two states that --resume can go on from; there is one at Ctrl-C too.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1m")]
    pub(crate) checkpoint_every: Duration,
    /// Also measure every outlier set at each look at the model, into metrics.jsonl: for study, nothing is chosen by
    /// it.
    #[arg(long)]
    pub(crate) trace_outliers: bool,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) export: ExportFiles,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// [`Cli::verbosity`](crate::args::Cli::verbosity)'s.
    #[arg(skip)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    /// The image, made smaller.
    Whole,
    /// A tile of the image; see --tile.
    Tiles,
    /// A place of the image, as the network of --features sees it.
    Features,
    /// Of these, the one in which defects that are made up in some of the images are told best, after a short trial of each:
    /// whole images, tiles (of --tile, or of a side that fits), and features where --features gives a network.
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
    /// The largest square in the middle, resized.
    Crop,
    /// Made smaller with its proportions where it is larger, and put in the middle of black.
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
    /// Its row is refused.
    Refuse,
    /// The column's median, and an input of its own for each column that has gaps says so; also when the model scores.
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

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(confidence) if confidence > 0.0 && confidence <= 0.9999 => Ok(confidence),
        _ => Err("expected a number above 0 and at most 0.9999".into()),
    }
}

impl TrainArgs {
    /// What is asked for of a user's images.
    pub(crate) fn asked(&self) -> Asked {
        let tiles = self.tile.map(|side| {
            let side = usize::from(side);
            let stride = self.stride.map_or(side / 2, usize::from);
            (side, Tiles { stride, top_k: self.top_k.map_or(1, usize::from) })
        });
        Asked { tiles, shape: None, transforms: Transforms { fit: self.fit.into(), ..Transforms::default() } }
    }

    /// The windows of a time series.
    pub(crate) fn window(&self) -> Option<RowWindow> {
        let rows = usize::from(self.window?);
        Some(RowWindow { rows, stride: self.window_stride.map_or((rows / 4).max(1), usize::from) })
    }

    /// What to do about images that cannot be read.
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
    /// Vector-quantised autoencoder.
    Vqvae,
    /// Deep autoencoding Gaussian mixture model.
    Dagmm,
    /// GANomaly.
    Ganomaly,
    /// IGEBM, a feed-forward energy.
    Igebm,
    /// MPDR-S: a network that is an energy, trained on samples from near the manifold of an autoencoder.
    Mpdr,
    /// Glow, a flow.
    Glow,
    /// PixelCNN++.
    Pixelcnn,
    /// Mahalanobis distance to the data, which takes seconds; also of data of your own.
    Mahalanobis,
    /// Distance to the nearest of the data that are remembered, which takes seconds; also of data of your own.
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

/// With what a run is computed.
#[derive(Debug, Args)]
pub(crate) struct ComputeArgs {
    /// What computes gradients.
    #[arg(long, visible_alias = "sampler-engine", value_enum, default_value_t = EngineArg::Auto)]
    engine: EngineArg,
    /// Where: cpu, or a graphics card that this program was built for, as `nae-train devices` lists them.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Cpu)]
    pub(crate) device: DeviceChoice,
}

impl ComputeArgs {
    /// The device, and the engine that is left on it. A run that is gone on with has `recorded` its device.
    pub(crate) fn open(&self, recorded: Option<DeviceChoice>, quiet: bool) -> anyhow::Result<(Device, EngineChoice)> {
        let choice = recorded.unwrap_or(self.device);
        let opened = choice.open().context("--device")?;
        if choice != DeviceChoice::Cpu && !quiet {
            eprintln!("computed on {}", opened.name);
        }
        let engine = EngineChoice::from(self.engine).on(&opened.device)?;
        Ok((opened.device, engine))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EngineArg {
    /// The engine of this program where it has the network's energy, burn otherwise.
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

/// Files a model is written to.
#[derive(Debug, Args)]
pub(crate) struct ExportFiles {
    /// Write the model, with preprocessing and calibration, as ONNX.
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) export: Option<PathBuf>,
    /// Also write encoder.onnx and decoder.onnx into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) export_parts: Option<PathBuf>,
}
