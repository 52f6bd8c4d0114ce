//! The commands and their arguments. Each argument is checked here as far as it can be by itself; each command has its
//! own file.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use nae_core::model::ResizeFilter;
use nae_infer::{BackendChoice, BackendKind, ExecutionProvider};
use nae_terminal::manual::Completions;
use nae_terminal::verbosity::Verbosity;

#[derive(Parser)]
#[command(name = "nae-infer", version, about = "Scores images with a normalized autoencoder", after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  nae-infer score model.onnx part-*.png
  nae-infer score model.onnx batch.npy --json | jq 'select(.verdict == \"anomaly\")'
  nae-infer score pump.onnx readings.csv
  nae-infer score model.nae photo.jpg --false-positive-rate 0.05 --heat-map maps
  nae-infer inspect model.onnx
  nae-infer calibrate theirs.onnx good -o model.onnx
  nae-infer bench model.onnx
  nae-infer serve --model model.onnx --source folder:frames

Exit status: 0 when all went well, also when anomalies were found; 1 when anything failed (for bench, when no backend ran \
the model); 2 for wrong usage; 3 when anomalies were found, with score --fail-on-anomaly.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print energy, p-value and verdict of images
    #[command(after_help = SCORE_HELP)]
    Score(Score),
    /// Print the properties of a model file
    Inspect(Inspect),
    /// Set a model's threshold from normal images that it was not trained on
    #[command(after_help = CALIBRATE_HELP)]
    Calibrate(Calibrate),
    /// Measure the time and memory of a model on this machine, for each backend
    #[command(after_help = BENCH_HELP)]
    Bench(Bench),
    /// Watch a camera: alarms, a page, and scoring over HTTP
    #[cfg(feature = "serve")]
    #[command(after_help = SERVE_HELP)]
    Serve(Box<nae_serve::Flags>),
    /// Test whether a camera service is ready
    #[cfg(feature = "serve")]
    #[command(after_help = HEALTH_HELP)]
    Health(nae_serve::Health),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(Completions),
    /// Write man pages of the program and its commands into a folder
    Man(ManPages),
}

impl Command {
    /// Whether the command runs until it is stopped.
    pub(crate) fn is_service(&self) -> bool {
        #[cfg(feature = "serve")]
        return matches!(self, Self::Serve(_));
        #[cfg(not(feature = "serve"))]
        false
    }
}

#[cfg(feature = "serve")]
const HEALTH_HELP: &str = "\
Prints nothing; the exit status is 0 where it is ready, and 1 where it is not or cannot be reached within five seconds.

Examples:
  nae-infer health
  nae-infer health http://camera-host:8080";

const COMPLETIONS_HELP: &str = "\
Examples:
  nae-infer completions bash > ~/.local/share/bash-completion/completions/nae-infer
  nae-infer completions zsh > ~/.zfunc/_nae-infer      # a folder of $fpath
  nae-infer completions fish > ~/.config/fish/completions/nae-infer.fish";

#[derive(Args)]
#[command(after_help = "\
Examples:
  nae-infer man ~/.local/share/man/man1 && man nae-infer-score")]
pub(crate) struct ManPages {
    /// The folder; created if it is missing
    pub(crate) folder: PathBuf,
}

#[cfg(feature = "serve")]
const SERVE_HELP: &str = "\
Settings come from the file of --config, then from variables like NAE_INFER_MODEL, then from the flags; \
each overrides the one before. SIGHUP opens the model's file again; SIGTERM and Ctrl-C stop the service \
after it has finished the requests and frames that it has received.

Examples:
  nae-infer serve --model model.onnx --source folder:frames
  nae-infer serve --model model.onnx --source rtsp://camera/stream --source-login-file camera-login
  nae-infer serve --model model.onnx --source http://camera/video.mjpg --webhook http://host/alarm
  nae-infer serve --model model.onnx --source /dev/video0
  ffmpeg -i recording.mp4 -f mjpeg - | nae-infer serve --model model.onnx --source -
  nae-infer serve --config serve.toml --listen 0.0.0.0:8080 --token-file token
  curl --data-binary @part.png http://127.0.0.1:8080/score";

const SCORE_HELP: &str = "\
An image of another size is resized as the model says. A .npy file holds [N, C, H, W], [N, H, W, C], \
[N, H, W], [H, W, C] or [H, W] of floats from 0 to 1, or uint8; for three or four grey images it is [N, H, W, 1]. \
A model of tables takes .csv and .tsv files: its columns are found by their names, and every row is scored, or every \
window of rows, the last of which ends at the last row. \
Bytes of a file's name that are not UTF-8 are printed as \\xff. A file that cannot be read is reported, \
the others are scored, and the exit status is 1. With --fail-on-anomaly, and where nothing failed, \
the exit status is 3 if anything is an anomaly.

Examples:
  nae-infer score model.onnx part-*.png
  nae-infer score model.onnx batch.npy --json
  nae-infer score model.onnx folder --fail-on-anomaly || echo 'exit status' $?
  curl http://camera/still.jpg | nae-infer score model.onnx -
  ORT_DYLIB_PATH=/opt/libonnxruntime.so nae-infer score model.onnx a.png --backend ort";

#[derive(Args)]
pub(crate) struct Score {
    /// Model: .onnx from nae-train, or .nae
    pub(crate) model: PathBuf,
    /// Images: PNG, JPEG, BMP, TIFF, WebP, PNM or .npy; folders, with their sub-folders; - for standard input;
    /// tables, for a model of tables
    #[arg(required = true)]
    pub(crate) images: Vec<PathBuf>,
    /// Print one JSON object a line: input, energy, p_value, verdict
    #[arg(long)]
    pub(crate) json: bool,
    /// The engine that runs the network; auto tries all and takes the fastest [default: for .onnx simd, or tract if simd
    /// lacks a layer; for .nae native]
    #[arg(long, value_parser = PossibleValuesParser::new(BackendChoice::NAMES))]
    pub(crate) backend: Option<String>,
    /// For the backend ort: execution providers in the order of preference, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = provider_names())]
    pub(crate) execution_provider: Vec<String>,
    /// Share of normal images that may be called anomalies, from 0 to 1 [default: the model's]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) false_positive_rate: Option<f32>,
    /// The energy above which an image is an anomaly, instead of the model's threshold
    #[arg(long, value_name = "ENERGY", allow_negative_numbers = true, conflicts_with = "false_positive_rate")]
    pub(crate) threshold: Option<f32>,
    /// Write a picture of each pixel's contribution to the energy (for ssim, of its squared error) into this folder; white
    /// is the image's largest value
    #[arg(long, value_name = "DIR")]
    pub(crate) heat_map: Option<PathBuf>,
    /// End with exit status 3 if anything is an anomaly
    #[arg(long)]
    pub(crate) fail_on_anomaly: bool,
    /// Number of threads [default: the number of processors]
    #[arg(long)]
    pub(crate) threads: Option<std::num::NonZeroUsize>,
}

#[derive(Args)]
pub(crate) struct Inspect {
    /// Model: .onnx or .nae
    pub(crate) model: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const CALIBRATE_HELP: &str = "\
Takes any autoencoder in ONNX with one input [N, C, H, W], of 1 or 3 channels, and an output of the same \
shape, whoever trained it. What the file does not say is taken from --range, --resize and --energy; a model \
of nae-train contains these settings, and only its calibration is replaced. One of tables takes .csv and .tsv files, as `score` \
does; the rate of a time series is less certain, as its windows are not independent. \
All samples must be normal and not from the training data: \
a threshold from samples the network has seen is too low. A file that is given several times \
is counted once. Energies that are equal to the threshold are named: then the rate may be below its interval. \
A file that cannot be read is reported, the others are used, and the exit status is 1.

Examples:
  nae-infer calibrate theirs.onnx good -o model.onnx
  nae-infer calibrate theirs.onnx good.npy -o model.onnx --range -1,1 --false-positive-rate 0.001
  nae-infer calibrate theirs.onnx - -o model.onnx < good.npy
  nae-infer calibrate machine.onnx this-month.csv -o machine-now.onnx";

#[derive(Args)]
pub(crate) struct Calibrate {
    /// Model: .onnx
    pub(crate) model: PathBuf,
    /// Normal images: PNG, JPEG, BMP, TIFF, WebP, PNM or .npy; for a model of tables .csv or .tsv; folders, with their
    /// sub-folders; - for standard input
    #[arg(required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// The file to write: the model with its threshold
    #[arg(short, long, value_name = "FILE.onnx")]
    pub(crate) output: PathBuf,
    /// Share of normal samples that may be called anomalies, above 0 and below 1 [default: the model's, or 0.01]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) false_positive_rate: Option<f32>,
    /// Raise the threshold so that the rate holds with this probability over the draw of the samples, such as 0.95; without
    /// it the rate holds on average
    #[arg(long, value_name = "PROBABILITY", value_parser = rate)]
    pub(crate) confidence: Option<f32>,
    /// The network's values for black and white [default: 0,1]
    #[arg(long, value_name = "LOW,HIGH", value_parser = range, allow_hyphen_values = true)]
    pub(crate) range: Option<(f32, f32)>,
    /// Filter for resizing images [default: bilinear]
    #[arg(long, value_parser = PossibleValuesParser::new(ResizeFilter::ALL.map(ResizeFilter::name)))]
    pub(crate) resize: Option<String>,
    /// The energy of an image and its reconstruction [default: squared-l2]
    #[arg(long, value_parser = PossibleValuesParser::new(["squared-l2", "l1", "ssim"]))]
    pub(crate) energy: Option<String>,
    /// Write nothing if a file cannot be read, or a sample cannot be scored
    #[arg(long)]
    pub(crate) strict: bool,
}

fn range(text: &str) -> Result<(f32, f32), String> {
    let parse = |text: &str| text.trim().parse::<f32>().ok().filter(|v| v.is_finite());
    match text.split_once(',').map(|(low, high)| (parse(low), parse(high))) {
        Some((Some(low), Some(high))) if low < high => Ok((low, high)),
        _ => Err("expected two numbers, the lower first, such as -1,1".into()),
    }
}

const BENCH_HELP: &str = "\
Each backend of this build is measured in a process of its own: the time until the first score, the median \
and the 99th percentile of one image at a time, images a second one at a time and 32 at a time, and the \
most memory. The machine should have nothing else to do. A backend that cannot run the model is listed with the reason; \
the exit status is 1 only if no backend can run it.

Examples:
  nae-infer bench model.onnx
  nae-infer bench model.onnx --threads 2 --json";

#[derive(Args)]
pub(crate) struct Bench {
    /// Model: .onnx from nae-train, or .nae
    pub(crate) model: PathBuf,
    /// Only this backend
    #[arg(long, value_parser = PossibleValuesParser::new(BackendKind::ALL.map(BackendKind::name)))]
    pub(crate) backend: Option<String>,
    /// Execution providers of the backend ort in the order of preference, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = provider_names())]
    pub(crate) execution_provider: Vec<String>,
    /// Seconds to measure, for one image at a time and for 32 at a time
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Number of threads
    #[arg(long, default_value = "1")]
    pub(crate) threads: std::num::NonZeroUsize,
    /// Print one JSON object a line, in seconds and bytes
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure in this process
    #[arg(long, hide = true, requires = "backend")]
    pub(crate) alone: bool,
}

fn provider_names() -> PossibleValuesParser {
    PossibleValuesParser::new(ExecutionProvider::ALL.map(ExecutionProvider::name))
}

/// Wrong usage that clap did not detect.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The requested backend and execution providers; execution providers alone select ort.
pub(crate) fn runtime(
    backend: Option<&str>,
    providers: &[String],
) -> anyhow::Result<(BackendChoice, Vec<ExecutionProvider>)> {
    // clap has checked the names.
    let choice = backend.and_then(BackendChoice::from_name);
    let providers: Vec<_> = providers.iter().filter_map(|name| ExecutionProvider::from_name(name)).collect();
    match choice {
        None if !providers.is_empty() => Ok((BackendKind::Ort.into(), providers)),
        Some(BackendChoice::This(kind)) if !providers.is_empty() && kind != BackendKind::Ort => {
            let problem = format!("--execution-provider is for the backend ort; --backend is {}", kind.name());
            Err(UsageError(problem).into())
        }
        choice => Ok((choice.unwrap_or_default(), providers)),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number from 0 to 3600".into()),
    }
}

fn rate(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate < 1.0 => Ok(rate),
        _ => Err("expected a number above 0 and below 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The help wraps lines at the width of the terminal: a paragraph that has line breaks of its own would be ragged.
    #[test]
    fn paragraphs_of_the_help_are_lines() {
        let program = Cli::command();
        let texts = std::iter::once(&program).chain(program.get_subcommands()).filter_map(|c| c.get_after_help());
        for text in texts.map(ToString::to_string) {
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2).filter(|pair| pair.iter().all(|line| !line.is_empty())) {
                assert!(pair[1].starts_with(' '), "{text}");
            }
        }
    }
}
