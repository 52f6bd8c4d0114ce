//! The command-line arguments.

use std::num::NonZero;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Parser, Subcommand, ValueEnum};
use nae_core::kernels::int8::Layout;
use nae_data::DATA_FOLDER;
use nae_graph::quantize::Ranges;
use nae_lab::Seeds;
use nae_lab::experiments::Scale;
use nae_terminal::manual::Completions;
use nae_terminal::verbosity::Verbosity;

pub(crate) use crate::train_args::{ComputeArgs, EngineArg, ExportFiles, TrainArgs};

const EXAMPLES: &str = "\
Examples:
  nae-train --export model.onnx                 train on the embedded digits, export the model
  nae-train --data DIR --export model.onnx      train on normal images of your own: a folder, or a .tar, .tar.gz, .zip,
                                                .npy or .npz file
  nae-train --data normal.csv --export m.onnx   train on a table of normal readings
  nae-train --data normal.csv --window 20 --export m.onnx
                                                ... on a time series, 20 rows a sample
  nae-train --data DIR --tile 64 --export m.onnx
                                                look for small defects in large images
  nae-train --data DIR --outliers DIR2 --time-budget 30m
                                                ... and evaluate on outliers
  nae-train --preset digits-omi --seed 3        the paper's chains, another seed
  nae-train --preset mnist-holdout --data DIR   the paper's first experiment; days on two cores
  nae-train --method vae                        a baseline of the paper on the same data
  nae-train presets digits > my.toml            a preset to change ...
  nae-train --preset my.toml --out runs/mine    ... and to train with
  nae-train --resume runs/mine --export m.onnx  continue an interrupted run
  nae-train export runs/mine --export m.onnx    ... or export its best model so far
  nae-train sample runs/mine -o samples.png     draw images that the model considers normal
  nae-train eval m.onnx --normal A --outliers B AUROC of a model on two folders
  nae-train compare --seeds 5 --held-out 1,9    NAE and plain autoencoder over seeds
  nae-train deploy model.onnx -o model.nae      the same model for a microcontroller
  nae-train deploy model.onnx --int8 --calibrate runs/mine -o model.nae
                                                ... in 8 bits, with the loss of AUROC

Exit status: 0 when all went well, 1 when anything failed, 2 for wrong usage, 130 when Ctrl-C has ended it.";

/// Trains normalized autoencoders: anomaly detectors whose reconstruction error can be trusted.
///
/// Without a command, trains: pre-training as an autoencoder, NAE training with Langevin sampling, calibration on
/// held-out normal images, evaluation, export.
#[derive(Debug, Parser)]
#[command(name = "nae-train", version = env!("NAE_VERSION"), after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) train: TrainArgs,
    /// Number of threads; results do not depend on it [default: the number of processors].
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train, as without a command.
    Train(Box<TrainArgs>),
    /// Convert an ONNX autoencoder, or a dense int8 TFLite one, to a .nae file for a microcontroller.
    Deploy(DeployArgs),
    /// Calibrate and export the model of a run folder, also of an interrupted run.
    Export(ExportArgs),
    /// Measure how well a model detects outliers: any model, on any data.
    Eval(EvalArgs),
    /// Draw new images from a trained model.
    Sample(SampleArgs),
    /// Draw reconstructions of normal images and of outliers as a picture.
    Reconstruct(ReconstructArgs),
    /// Compute the Fréchet distance (FID) of a model's new images from its training data.
    Fid(FidArgs),
    /// Compare rules for stopping on finished runs: half of them to choose a rule, half to test it.
    StoppingStudy(StudyArgs),
    /// Compare the NAE with a plain autoencoder of the same training time and its own best D_z, over seeds.
    Compare(CompareArgs),
    /// Reproduce an experiment of the paper.
    Reproduce(ReproduceArgs),
    /// Gather cells and seeds from several folders or machines into one table.
    Gather(GatherArgs),
    /// List the presets, or print one.
    Presets(PresetsArgs),
    /// List the devices of this machine, for --device.
    Devices(DevicesArgs),
    /// Print completions for a shell.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(Completions),
    /// Write man pages of the program and its commands into a folder.
    Man(ManArgs),
}

const COMPLETIONS_HELP: &str = "\
Examples:
  nae-train completions bash > ~/.local/share/bash-completion/completions/nae-train
  nae-train completions zsh > ~/.zfunc/_nae-train      # a folder of $fpath
  nae-train completions fish > ~/.config/fish/completions/nae-train.fish";

/// Parses a number of 1 or more.
fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "expected a whole number, 1 or more".to_owned())
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nae-train man ~/.local/share/man/man1 && man nae-train-compare")]
pub(crate) struct ManArgs {
    /// The folder; created if it is missing.
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Graphics cards are listed if nae-train was built for them: cargo build --release -p nae-train-cli --features wgpu")]
pub(crate) struct DevicesArgs {
    /// Print JSON instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The run folder.
    pub(crate) run: PathBuf,
    /// Your own data that the run was trained on; or the folder of a data set that is not part of the program, or the
    /// folder above it [default: $NAE_DATA].
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) export: ExportFiles,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nae-train eval model.onnx --normal good/ --outliers scratched/ --outliers dented.zip
  nae-train eval model.onnx --normal good.csv --outliers bad.csv --json
  nae-train eval runs/digits-0                 the run's own test data")]
pub(crate) struct EvalArgs {
    /// A model, .onnx or .nae, or a run folder.
    #[arg(value_name = "MODEL|DIR")]
    pub(crate) model: PathBuf,
    /// Normal data that the model was not trained on: a folder, a .tar, .tar.gz, .zip, .npy or .npz file of images, or
    /// a table [default for a run folder: its test data].
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) normal: Option<PathBuf>,
    /// Outliers, likewise; once for each set. For a run folder without --normal they are added to those that the program
    /// makes or reads with the run's data.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) outliers: Vec<PathBuf>,
    /// For a run folder without --normal: the data it was trained on, if they are not part of the program [default: their
    /// folder in $NAE_DATA].
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "normal")]
    pub(crate) data: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nae-train sample runs/digits-0 -o samples.png
  nae-train sample runs/digits-0 --count 100 --seed 3 -o samples.png")]
pub(crate) struct SampleArgs {
    /// The run folder.
    pub(crate) run: PathBuf,
    /// The picture to write.
    #[arg(long, short, value_name = "FILE.png")]
    pub(crate) output: PathBuf,
    /// Number of images.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) count: u16,
    /// Seed of the chains.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// The engine that computes gradients.
    #[arg(long, visible_alias = "sampler-engine", value_enum, default_value_t = EngineArg::Auto)]
    pub(crate) engine: EngineArg,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nae-train reconstruct runs/digits-0 -o reconstructions.png
  nae-train reconstruct runs/mine --data good/ --outliers scratched/ -o reconstructions.png
  nae-train reconstruct runs/mnist-holdout-cpu/digit-4-0 --sets \"normal test images\" --sets \"digit 4 (held out)\" -o 4.png")]
pub(crate) struct ReconstructArgs {
    /// The run folder.
    pub(crate) run: PathBuf,
    /// The picture to write.
    #[arg(long, short, value_name = "FILE.png")]
    pub(crate) output: PathBuf,
    /// The data that the run was trained on, if they are not part of the program [default: their folder in $NAE_DATA].
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outliers: a folder or an archive of images; may be repeated. The sets that the program makes or reads with the run's
    /// data are added.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) outliers: Vec<PathBuf>,
    /// Show this set only: its name in the run's table, or "normal test images"; may be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) sets: Vec<String>,
    /// Largest number of images of each set.
    #[arg(long, default_value_t = 10, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100))]
    pub(crate) count: usize,
    /// Print the numbers as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nae-train fid runs/celeba --network inception.onnx --data celeba/
  nae-train fid runs/digits-0 --network inception.onnx --count 1000 --json

The network takes images with values from 0 to 1, resized to its input by bilinear interpolation. docs/training.md says \
how to export Inception so that values can be compared with published ones.")]
pub(crate) struct FidArgs {
    /// The run folder.
    pub(crate) run: PathBuf,
    /// The network whose features are compared, with an input [N, 3, H, W] of fixed size.
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) network: PathBuf,
    /// The output of the network to use; a feature map is averaged over its places [default: the only output].
    #[arg(long, value_name = "NAME")]
    pub(crate) output: Option<String>,
    /// The data that the run was trained on, if they are not part of the program [default: their folder in $NAE_DATA].
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Number of images to draw, two or more.
    #[arg(long, default_value_t = 50_000)]
    pub(crate) count: usize,
    /// Number of training images to compare with, two or more [default: all].
    #[arg(long, value_name = "COUNT")]
    pub(crate) real: Option<usize>,
    /// Seed of the chains.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// The engine that computes gradients.
    #[arg(long, visible_alias = "sampler-engine", value_enum, default_value_t = EngineArg::Auto)]
    pub(crate) engine: EngineArg,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(skip)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nae-train --seed 1 --trace-outliers --out runs/a
  nae-train stopping-study runs/a runs/b runs/c runs/d
  nae-train stopping-study runs/mnist-holdout-cpu/digit-*    after reproduce mnist-holdout --trace-outliers
  nae-train stopping-study runs/* --outliers \"digit 1 (held out)\"")]
pub(crate) struct StudyArgs {
    /// Folders of runs with --trace-outliers, by nae-train or by nae-train reproduce.
    #[arg(required = true, num_args = 1.., value_name = "DIR")]
    pub(crate) runs: Vec<PathBuf>,
    /// Use this outlier set only: its name in the run's table; may be repeated [default: all but ConstantGray].
    #[arg(long, value_name = "NAME")]
    pub(crate) outliers: Vec<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    /// The model: any autoencoder whose operators are supported; or a dense int8 network in TFLite.
    #[arg(value_name = "MODEL.onnx|MODEL.tflite")]
    pub(crate) model: PathBuf,
    /// The file to write.
    #[arg(long, short, value_name = "MODEL.nae")]
    pub(crate) output: PathBuf,
    /// Quantize to 8 bits, and measure the loss from it.
    #[arg(long, requires = "calibrate")]
    pub(crate) int8: bool,
    /// Normal data for the ranges and the threshold: the folder of the run that made the model, or images or a table as
    /// for training with --data.
    #[arg(long, value_name = "RUN|DIR|FILE", requires = "int8")]
    pub(crate) calibrate: Option<PathBuf>,
    /// The data of the run, if they are not part of the program.
    #[arg(long, value_name = "DIR|FILE", requires = "int8")]
    pub(crate) data: Option<PathBuf>,
    /// Outliers to measure AUROC on, in addition to those of the run.
    #[arg(long, value_name = "DIR|FILE", requires = "int8")]
    pub(crate) outliers: Option<PathBuf>,
    /// False-positive rate of the threshold [default: the model's, or 0.01].
    #[arg(long, value_name = "RATE", requires = "int8")]
    pub(crate) false_positive_rate: Option<f32>,
    /// How to choose the range of an 8-bit tensor [default: mse; a quantized model keeps its own scales].
    #[arg(long, value_enum, requires = "int8")]
    pub(crate) ranges: Option<RangesArg>,
    /// Whether to equalize the ranges of channels across layers first.
    #[arg(long, value_enum, default_value_t = EqualizeArg::Auto, requires = "int8")]
    pub(crate) equalize: EqualizeArg,
    /// Layout of 8-bit weights; every processor can use both [default: paired].
    #[arg(long, value_enum)]
    pub(crate) layout: Option<LayoutArg>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RangesArg {
    /// The range with the least mean squared error of rounding and clipping.
    Mse,
    /// Excludes a ten-thousandth of the values at either end.
    Percentile,
    /// Includes all values.
    Minmax,
}

impl From<RangesArg> for Ranges {
    fn from(ranges: RangesArg) -> Self {
        match ranges {
            RangesArg::Mse => Self::MeanSquaredError,
            RangesArg::Percentile => Self::Percentile(0.9999),
            RangesArg::Minmax => Self::MinMax,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EqualizeArg {
    /// If it gives the smaller error.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl From<EqualizeArg> for Option<bool> {
    fn from(equalize: EqualizeArg) -> Self {
        match equalize {
            EqualizeArg::Auto => None,
            EqualizeArg::Always => Some(true),
            EqualizeArg::Never => Some(false),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LayoutArg {
    /// For all processors without a vector unit; uses the dual multiply-accumulate of Cortex-M4, M7 and M33.
    #[default]
    Paired,
    /// For the vector unit of Cortex-M55 and M85; up to three times slower on other processors.
    Plain,
}

impl From<LayoutArg> for Layout {
    fn from(layout: LayoutArg) -> Self {
        match layout {
            LayoutArg::Paired => Self::Paired,
            LayoutArg::Plain => Self::Plain,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The NAE's preset.
    #[arg(long, default_value = "digits", value_name = "NAME|FILE.toml")]
    pub(crate) preset: String,
    /// Number of seeds, or a list: 5 for the seeds 0 to 4; 3,7,11 for these; 7, with a comma for the seed 7 alone.
    #[arg(long, default_value = "5", allow_negative_numbers = true)]
    pub(crate) seeds: Seeds,
    /// Held-out classes, one comparison each.
    #[arg(long, value_delimiter = ',', default_value = "1,9", value_name = "DIGITS")]
    pub(crate) held_out: Vec<u8>,
    /// The folder of a data set that is not part of the program, or the folder above it [default: $NAE_DATA].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Latent dimensions to try for the plain autoencoder.
    #[arg(long, value_delimiter = ',', default_value = "8,16,32,64", value_name = "D_Z", value_parser = positive)]
    pub(crate) latent_dims: Vec<usize>,
    /// The engine that computes gradients.
    #[arg(long, visible_alias = "sampler-engine", value_enum, default_value_t = EngineArg::Auto)]
    pub(crate) engine: EngineArg,
    /// Write the results of every run as JSON; until then FILE.json.partial keeps finished parts, with which the same command
    /// continues after an interruption.
    #[arg(long, short, value_name = "FILE.json")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// The value of [`Cli::verbosity`].
    #[arg(skip)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nae-train reproduce gaussians8 --scale smoke           a few seconds, to see that it runs
  nae-train reproduce gaussians8 --seeds 3               table and picture; continues an interrupted experiment
  nae-train reproduce gaussians8 --print > mine.toml     its settings, to change ...
  nae-train reproduce gaussians8 --settings mine.toml    ... and to train with
  nae-train reproduce mnist-holdout --data DIR --cells digit-1,digit-9 --seeds 3
                                                         table 1, some of its cells; DIR has the folder mnist
  nae-train reproduce mnist-holdout --data DIR --seeds 7, --out shared/seven
                                                         the seed 7 alone, to gather with others
  nae-train reproduce mnist-methods --data DIR --cells dae-1,wae-1 --search
                                                         D_z and weights searched by the selection set
  nae-train reproduce mnist-ood --data DIR --json > ood.json")]
pub(crate) struct ReproduceArgs {
    /// The experiment.
    #[arg(value_enum)]
    pub(crate) experiment: ExperimentArg,
    /// Size of the experiment.
    #[arg(long, value_enum, default_value_t = ScaleArg::Cpu)]
    pub(crate) scale: ScaleArg,
    /// Number of seeds, or a list: 3 for the seeds 0 to 2; 3,7,11 for these; 7, with a comma for the seed 7 alone [default: 3].
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) seeds: Option<Seeds>,
    /// The folder for weights, table and picture; an interrupted experiment continues there [default:
    /// runs/EXPERIMENT-SCALE, with --settings runs/EXPERIMENT-SCALE-FILE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run only these cells; the table marks the others as not run [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) cells: Vec<String>,
    /// Search D_z and the weights of penalties by the selection set, as the paper does; the settings have the values to try.
    /// A cell of mnist-methods then trains 8 to 24 models.
    #[arg(long)]
    pub(crate) search: bool,
    /// The folder with a sub-folder for each data set: mnist, fashion-mnist, omniglot and so on [default: $NAE_DATA].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Also evaluate on every outlier set during training, and write it to metrics.jsonl, for stopping-study; training does
    /// not use it.
    #[arg(long)]
    pub(crate) trace_outliers: bool,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    /// Settings to use instead of the paper's.
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) settings: Option<PathBuf>,
    /// Print the paper's settings and do nothing.
    #[arg(long, conflicts_with = "settings")]
    pub(crate) print: bool,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// The value of [`Cli::verbosity`].
    #[arg(skip)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nae-train reproduce mnist-holdout --data DIR --seeds 0, --out shared/a
                                               on one machine, and on another machine:
  nae-train reproduce mnist-holdout --data DIR --seeds 1, --out shared/b
  nae-train gather shared                      both in one table
  nae-train --preset my.toml --seed 7 --out runs/seven
  nae-train gather runs --json -o seeds.json   seeds of one training in one table

Results with different settings, data, outliers, scale, device or version number of the program are refused.")]
pub(crate) struct GatherArgs {
    /// Folders of one experiment (--out of reproduce), or of runs that differ in their seeds only; or folders that contain
    /// such folders.
    #[arg(required = true, num_args = 1.., value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// Also write the result as JSON.
    #[arg(long, short, value_name = "FILE.json")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ExperimentArg {
    /// Density of eight Gaussians in the plane, for different starts of the negative samples.
    Gaussians8,
    /// MNIST, one digit held out in turn: table 1.
    MnistHoldout,
    /// MNIST, one digit held out in turn, by the other methods of table 1.
    MnistMethods,
    /// All of MNIST against other images.
    MnistOod,
    /// CIFAR-10 against other images.
    #[value(name = "cifar10-ood")]
    Cifar10Ood,
    /// ImageNet at 32x32 pixels against other images.
    #[value(name = "imagenet32-ood")]
    Imagenet32Ood,
    /// CelebA at 64x64 pixels: new images of faces.
    #[value(name = "celeba64-sample")]
    Celeba64Sample,
    /// MNIST, 9 held out, by length of pre-training.
    MnistPretraining,
    /// MNIST, 9 held out, by latent chain, replay buffer and latent space.
    MnistSampling,
    /// MNIST, 9 held out, by D_z.
    MnistLatentDim,
    /// MNIST, one digit held out, by manifold projection–diffusion recovery (MPDR, NeurIPS 2023).
    MnistMpdr,
    /// Picture: samples of an untrained model, by CD and OMI.
    RandomInit,
    /// Pictures: samples along training, and reconstructions of digits and of the digit held out.
    AlongTraining,
    /// Picture: reconstruction error of digits and of the digit held out, by D_z.
    ReconstructionError,
    /// Picture: two clusters in the plane, one latent dimension.
    Bimodal,
}

impl ReproduceArgs {
    /// The folder with a sub-folder for each data set: that of `--data`, or of the environment.
    pub(crate) fn data_folder(&self) -> anyhow::Result<PathBuf> {
        let Some(data) = self.data.clone().or_else(|| std::env::var_os(DATA_FOLDER).map(PathBuf::from)) else {
            bail!(
                "the data are not part of the program; give the folder that has them with --data DIR, or set {DATA_FOLDER}"
            );
        };
        Ok(data)
    }

    /// Refuses the first given flag of `unused`, flags that the experiment has no use for: name, whether it is given, reason.
    pub(crate) fn refuse_unused(&self, unused: &[(&str, bool, &str)]) -> anyhow::Result<()> {
        match unused.iter().find(|(_, given, _)| *given) {
            Some((flag, _, reason)) => bail!("{}: {reason}; leave {flag} out", self.experiment.name()),
            None => Ok(()),
        }
    }
}

impl ExperimentArg {
    /// The name on the command line, which is also that of the included settings.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScaleArg {
    /// Takes seconds a model, to test that it runs.
    Smoke,
    /// For two cores, with smaller networks and shorter training.
    Cpu,
    /// The paper's size.
    Paper,
}

impl From<ScaleArg> for Scale {
    fn from(scale: ScaleArg) -> Self {
        match scale {
            ScaleArg::Smoke => Self::Smoke,
            ScaleArg::Cpu => Self::Cpu,
            ScaleArg::Paper => Self::Paper,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PresetsArgs {
    /// Print this preset's TOML.
    pub(crate) name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_lists_are_read_as_they_are_typed() {
        let Some(Command::Compare(args)) = Cli::parse_from(["nae-train", "compare"]).command else { panic!("compare") };
        assert_eq!((args.held_out, args.latent_dims), (vec![1, 9], vec![8, 16, 32, 64]));
    }
}
