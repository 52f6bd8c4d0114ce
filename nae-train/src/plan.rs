//! Chooses settings for a user's own data: what `nae-train --data DIR` does without other options.
//!
//! [`draft`] adapts the preset `digits` to the data: network, division, chains, threshold. [`schedule`] scales its
//! pre-training and its NAE training proportionally to the available time, with the [`Speed`] of a few updates measured
//! on this machine. The chosen numbers are part of the [`Config`]: a run from it measures nothing, and can be repeated.
//!
//! [`data::own`](nae_data::own) and [`data::own_table`](nae_data::own_table) read the data and choose their shape.

use std::time::Duration;

use nae_core::calibration::count_for_confidence;
use nae_data::counted;
use nae_onnx::metadata::Transforms;

use crate::arch::LatentSpace;
use crate::arch::dense::DenseOutput;
use crate::config::{ArchitectureConfig, Config, ConfigError, FeatureSettings, PresetError, RawConfig, preset};
use crate::sample::Langevin;
use crate::sample::gradient_clip::{ClipBy, GradientClip};
use crate::sample::replay_buffer::ReplayConfig;
use crate::sample::start::Start;
use crate::train::speed::Speed;
use nae_data::Source;
use nae_data::SplitShares;
use nae_data::own::OwnImages;
use nae_data::own_table::OwnTable;

/// The preset that is adapted.
const BASE: &str = "digits";
/// The number of updates of its pre-training: 600 epochs of nine batches.
const PRETRAINING_UPDATES: f64 = 5400.0;
/// The largest factor of its updates; more are not known to help.
const MAX_SCALE: f64 = 4.0;
/// The channels of the first layer and D_z, as in the preset.
const WIDTH: usize = 8;
const LATENT_DIM: usize = 32;
/// The widths of the dense network for tables. Its D_z is three quarters of the number of columns, up to that of images.
const TABLE_WIDTHS: [usize; 2] = [128, 64];
/// The learning rate of NAE training on tables; at the preset's, the first updates undo the pre-training.
const TABLE_LEARNING_RATE: f64 = 2e-5;
/// The visible noise for tables, and the energy of normal data that it and the preset's latent chain are for. The energy
/// after pre-training is between 1e-6 and 1e-3: with chains for one energy, negative samples of some tables have 200
/// times the data's energy, and training ends at its first look.
const TABLE_NOISE: f32 = 0.03;
const TABLE_REFERENCE_ENERGY: f64 = 0.01;
/// The last learning rate of pre-training for tables and features, as a share of the first.
const FINAL_RATE: f64 = 0.05;
/// The widths and D_z of the network for features, the samples of a batch, and the updates of NAE training.
const FEATURE_WIDTHS: [usize; 2] = [256, 256];
const FEATURE_LATENT_DIM: usize = 24;
const FEATURE_BATCH: usize = 512;
const FEATURE_UPDATES: usize = 900;
/// The limits of negative samples' energies.
struct Negatives {
    /// The energy they are raised to, in multiples of the energy of normal data after pre-training.
    bound: f64,
    /// The ratio of their energy to the data's energy that ends training.
    max_energy_ratio: f64,
}

/// If negative samples of images have more energy than the data, they are no longer samples of the model, and training
/// moves back towards the autoencoder. The ratio is the one with the least loss over traced runs
/// (models/results/README.md). With a bound of 10, more is lost before the ratio is reached.
const OF_IMAGES: Negatives = Negatives { bound: 3.0, max_energy_ratio: 1.5 };
/// Tables were not among these runs, and the one that was tried still improved at twice the data's energy. The bound is
/// about that of the preset's γ = 25 for normal images after pre-training, 1/(2·25) against 0.002.
const OF_TABLES: Negatives = Negatives { bound: 10.0, max_energy_ratio: 4.0 };
/// Chains on features start at nearly twice the energy of normal places (1.7 times on solar cells), and stay there.
const OF_FEATURES: Negatives = Negatives { bound: 3.0, max_energy_ratio: 4.0 };
/// The share of images for validation, for calibration and for the test each.
const SHARE: f64 = 0.1;
pub(crate) const SHARES: SplitShares = SplitShares { validation: Some(SHARE), calibration: SHARE, test: Some(SHARE) };
/// The least number of looks during NAE training; the preset's interval is reduced if it gives fewer.
const LOOKS: usize = 10;
/// The time of evaluation and calibration, in looks.
const EVALUATION: usize = 10;
/// The share of the time that is reserved for other work of the machine, and for writing files.
const RESERVE: f64 = 0.05;
/// Chains start on the manifold, as in the paper, from a small buffer with the states of the last updates: in a run of
/// minutes, the states in a larger buffer would rarely be used again.
const REPLAY_BUFFER: ReplayConfig = ReplayConfig { size: 1000, ratio: 0.95 };
/// False-positive rates, with the number of calibration images that each needs.
const RATES: [(f64, usize); 5] = [(0.01, 100), (0.02, 50), (0.05, 20), (0.1, 10), (0.2, 5)];

/// The least number of images or rows that can be divided: five of them are for calibration.
pub const MIN_IMAGES: usize = 50;

/// An error for data that a run cannot be planned for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There are too few images, rows or windows.
    #[error(
        "{title}: {}; at least {MIN_IMAGES} are needed, and a few hundred to be of use",
        counted(*found, noun)
    )]
    TooFew {
        /// The title of the data.
        title: String,
        /// The number of samples.
        found: usize,
        /// The word for a sample.
        noun: &'static str,
    },
    /// There are too few for a threshold with the requested confidence.
    #[error(
        "a confidence of {confidence} takes {needed} images or rows (or stretches of a time series) for the calibration even with a false-positive rate of \
         {rate}, and there are {found}, a tenth of all: give more data, or a lower confidence"
    )]
    Confidence {
        /// The requested confidence.
        confidence: f64,
        /// The highest false-positive rate of a plan.
        rate: f64,
        /// The number that is sufficient for this rate.
        needed: usize,
        /// The number found.
        found: usize,
    },
    /// The base preset cannot be read.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// A value is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The settings for `count` images of a user, cut into tiles or not, with the schedule of the base preset.
///
/// # Errors
/// [`PlanError::TooFew`] if there are fewer than [`MIN_IMAGES`].
pub fn draft(own: &OwnImages, transforms: Transforms, count: usize) -> Result<Config, PlanError> {
    let architecture = ArchitectureConfig::SmallConv {
        channels: own.channels,
        side: own.side,
        width: WIDTH,
        latent_dim: LATENT_DIM,
        latent_space: LatentSpace::Sphere,
    };
    Ok(Config::new(fitted(Source::Own(own.clone()), transforms, architecture, OF_IMAGES, count)?)?)
}

/// The settings for features of `count` images of a user; `features` has the settings of the frozen network.
///
/// # Errors
/// The same as for [`draft`].
pub fn draft_features(
    own: &OwnImages,
    features: FeatureSettings,
    transforms: Transforms,
    count: usize,
) -> Result<Config, PlanError> {
    let architecture = ArchitectureConfig::Dense {
        image: [features.components, 1, 1],
        widths: FEATURE_WIDTHS.to_vec(),
        output: DenseOutput::Linear,
        latent_dim: (features.components / 2).clamp(2, FEATURE_LATENT_DIM),
        latent_space: LatentSpace::Sphere,
    };
    let mut raw = fitted(Source::Own(own.clone()), transforms, architecture, OF_FEATURES, count)?;
    raw.data.features = Some(features);
    raw.pretraining.batch_size = FEATURE_BATCH;
    raw.pretraining.final_learning_rate = Some(FINAL_RATE * raw.pretraining.learning_rate);
    raw.training.batch_size = FEATURE_BATCH;
    raw.training.learning_rate = 1e-4;
    raw.training.updates = FEATURE_UPDATES;
    // The settings are for components with variance 1; scaled to [0, 1], they have a deviation of 1/(2·span).
    raw.sampler.latent_chain = Some(Langevin::new(5, 2.9, 0.05));
    raw.sampler.visible_chain.noise = 0.008;
    raw.sampler.start = Start::OnManifold { replay_buffer: Some(ReplayConfig { size: 10_000, ratio: 0.95 }) };
    Ok(Config::new(raw)?)
}

/// The settings for a table of `count` rows or windows.
///
/// # Errors
/// The same as for [`draft`].
pub fn draft_table(own: &OwnTable, count: usize) -> Result<Config, PlanError> {
    let shape = own.shape();
    let architecture = ArchitectureConfig::Dense {
        image: [shape.channels, shape.height, shape.width],
        widths: TABLE_WIDTHS.to_vec(),
        output: DenseOutput::Sigmoid,
        latent_dim: (3 * shape.len() / 4).clamp(2, LATENT_DIM),
        latent_space: LatentSpace::Sphere,
    };
    let mut raw = fitted(Source::Table(own.clone()), Transforms::default(), architecture, OF_TABLES, count)?;
    raw.pretraining.final_learning_rate = Some(FINAL_RATE * raw.pretraining.learning_rate);
    raw.training.learning_rate = TABLE_LEARNING_RATE;
    raw.training.reference_energy = Some(TABLE_REFERENCE_ENERGY);
    raw.sampler.visible_chain.noise = TABLE_NOISE;
    Ok(Config::new(raw)?)
}

fn fitted(
    source: Source,
    transforms: Transforms,
    architecture: ArchitectureConfig,
    negatives: Negatives,
    count: usize,
) -> Result<RawConfig, PlanError> {
    if count < MIN_IMAGES {
        let noun = source.samples().trim_end_matches('s');
        return Err(PlanError::TooFew { title: source.title().to_owned(), found: count, noun });
    }
    let mut raw = preset::load(BASE)?.raw().clone();
    "own-data".clone_into(&mut raw.name);
    raw.data.source = source;
    raw.data.transforms = transforms;
    raw.data.held_out = None;
    raw.data.split = SHARES;
    raw.architecture = architecture;
    raw.pretraining.output_at_mean = true;
    raw.training.regularization.negative_energy = 0.0;
    raw.training.negative_bound = Some(negatives.bound);
    raw.stopping.max_energy_ratio = Some(negatives.max_energy_ratio);
    raw.sampler.start = Start::OnManifold { replay_buffer: Some(REPLAY_BUFFER) };
    let step_size = visible_step_size(raw.architecture.spec()?.image().len());
    raw.sampler.visible_chain.step_size = step_size;
    // No step moves a value by more than the width of the box; on MNIST this limit is the paper's 0.01.
    raw.sampler.visible_chain.gradient_clip = Some(GradientClip { limit: 1.0 / step_size, by: ClipBy::Element });
    raw.calibration.false_positive_rate = rate_of((SHARE * count as f64).round() as usize);
    Ok(raw)
}

/// The lowest false-positive rate that `calibration` decisions give a threshold for; the highest rate if they give
/// none.
fn rate_of(calibration: usize) -> f64 {
    let rate = RATES.into_iter().find(|(_, images)| *images <= calibration);
    rate.map_or(RATES[RATES.len() - 1].0, |(rate, _)| rate)
}

/// Returns `draft` with a threshold for the lowest false-positive rate that `calibration` decisions allow. If data are
/// divided by stretches of a time series, there can be fewer decisions than their share of all.
///
/// # Errors
/// [`ConfigError`] if `draft` is not from [`draft`].
pub fn with_rate(draft: &Config, calibration: usize) -> Result<Config, ConfigError> {
    let mut raw = draft.raw().clone();
    raw.calibration.false_positive_rate = rate_of(calibration);
    Config::new(raw)
}

/// Returns `draft` with a threshold for the lowest false-positive rate that `calibration` images, rows or stretches
/// allow with a probability of at least `confidence`.
///
/// # Errors
/// [`PlanError::Confidence`] if there are too few for any rate, and [`PlanError::Config`] if `confidence` is not a
/// probability.
pub fn with_confidence(draft: &Config, calibration: usize, confidence: f64) -> Result<Config, PlanError> {
    let mut raw = draft.raw().clone();
    raw.calibration.confidence = Some(confidence);
    let draft = Config::new(raw.clone())?;
    let needed = |rate: f64| count_for_confidence(rate as f32, confidence as f32).unwrap_or(usize::MAX);
    let lowest = draft.false_positive_rate();
    let rates = RATES.map(|(rate, _)| rate).into_iter().filter(|rate| *rate >= lowest);
    let Some(rate) = rates.into_iter().find(|rate| needed(*rate) <= calibration) else {
        let rate = RATES[RATES.len() - 1].0;
        return Err(PlanError::Confidence { confidence, rate, needed: needed(rate), found: calibration });
    };
    raw.calibration.false_positive_rate = rate;
    Ok(Config::new(raw)?)
}

/// Half of the longest stable step of the visible chain, for images of `values` numbers. The curvature of E(x) = ‖x −
/// f(x)‖² / D is 2‖I − J‖² / D, at most 8 / D if the autoencoder's Jacobian J expands nothing, and a step on it is
/// stable up to 2 / (8 / D). The paper's 10 is a tenth of that on MNIST, with ten times as many steps.
fn visible_step_size(values: usize) -> f32 {
    values as f32 / 8.0
}

/// Returns `draft` with as many updates, on `train_images` images, as a machine of `speed` makes in `time`, up to four
/// times those of the preset. There are at least one epoch and one update, even in a short time.
///
/// # Errors
/// [`ConfigError`] if `draft` is not from [`draft`].
pub fn schedule(draft: &Config, train_images: usize, speed: &Speed, time: Duration) -> Result<Config, ConfigError> {
    let mut raw = draft.raw().clone();
    let (updates, every) = (raw.training.updates as f64, raw.stopping.every);
    let look = speed.look.as_secs_f64();
    let update = speed.normalizing.as_secs_f64() + look / every as f64;
    let whole = PRETRAINING_UPDATES * speed.pretraining.as_secs_f64() + updates * update;
    let time = time.as_secs_f64();
    // If looks take most of the time, the time is too short anyway.
    let available = (time * (1.0 - RESERVE) - (LOOKS + EVALUATION) as f64 * look).max(0.3 * time);
    let scale = (available / whole).min(MAX_SCALE);
    let scaled = |updates: f64| (updates * scale).round().max(1.0);
    let batches = batches(draft, train_images);
    raw.pretraining.epochs = (scaled(PRETRAINING_UPDATES) / batches as f64).round().max(1.0) as usize;
    raw.training.updates = scaled(updates) as usize;
    raw.stopping.every = (raw.training.updates / LOOKS).clamp(1, every);
    Config::new(raw)
}

/// Returns `draft` with the given numbers of updates on `train_images` images: of pre-training, rounded to whole
/// epochs, and of NAE training, with at least ten looks if there are as many updates; at least one each.
///
/// # Errors
/// [`ConfigError`] if `draft` is not from [`draft`].
pub fn with_updates(
    draft: &Config,
    train_images: usize,
    pretraining: usize,
    training: usize,
) -> Result<Config, ConfigError> {
    let mut raw = draft.raw().clone();
    let epochs = pretraining as f64 / batches(draft, train_images) as f64;
    raw.pretraining.epochs = epochs.round().max(1.0) as usize;
    raw.training.updates = training.max(1);
    raw.stopping.every = (raw.training.updates / LOOKS).clamp(1, raw.stopping.every);
    Config::new(raw)
}

/// The number of updates in an epoch of pre-training.
pub(crate) fn batches(config: &Config, train_images: usize) -> usize {
    train_images.div_ceil(config.pretraining().batch_size).max(1)
}

/// The expected time of a schedule, without evaluation.
pub fn duration(config: &Config, train_images: usize, speed: &Speed) -> Duration {
    let (epochs, updates) = (config.pretraining().epochs, config.training().updates);
    let looks = updates / config.stopping().every.max(1);
    let times = |each: Duration, count: usize| each.mul_f64(count as f64);
    times(speed.pretraining, epochs * batches(config, train_images))
        + times(speed.normalizing, updates)
        + times(speed.look, looks)
}

/// Describes the schedule, with the expected time.
pub fn describe(config: &Config, train_images: usize, speed: &Speed) -> String {
    let (epochs, updates) = (config.pretraining().epochs, config.training().updates);
    let batches = batches(config, train_images);
    let seconds = |count: usize, each: Duration| (count as f64 * each.as_secs_f64()).ceil();
    format!(
        "pre-training: {} of {}, about {:.0} s; NAE training: {}, about {:.0} s (measured: {:.1} and {:.1} ms an update)",
        counted(epochs, "epoch"),
        counted(batches, "update"),
        seconds(epochs * batches, speed.pretraining),
        counted(updates, "update"),
        seconds(updates, speed.normalizing),
        1e3 * speed.pretraining.as_secs_f64(),
        1e3 * speed.normalizing.as_secs_f64(),
    )
}

#[cfg(test)]
mod tests {
    use nae_onnx::metadata::{Column, Missing};

    use super::*;

    fn own() -> OwnImages {
        OwnImages { title: "screws".to_owned(), channels: 3, side: 28, tiles: None }
    }

    const SPEED: Speed = Speed {
        pretraining: Duration::from_millis(10),
        normalizing: Duration::from_millis(100),
        look: Duration::from_millis(50),
    };

    #[test]
    fn the_time_is_used_and_not_more() {
        let draft = draft(&own(), Transforms::default(), 1000).expect("enough");
        for (minutes, train) in [(1, 700), (5, 700), (10, 70), (10, 50_000)] {
            let time = Duration::from_secs(60 * minutes);
            let config = schedule(&draft, train, &SPEED, time).expect("valid");
            let pretraining = config.pretraining().epochs * train.div_ceil(128);
            let updates = config.training().updates;
            let looks = updates / config.stopping().every;
            let seconds = pretraining as f64 * 0.01 + updates as f64 * 0.1 + looks as f64 * 0.05;
            assert!((duration(&config, train, &SPEED).as_secs_f64() - seconds).abs() < 1e-6, "{seconds}");
            let seconds = seconds + EVALUATION as f64 * 0.05;
            let time = time.as_secs_f64();
            assert!(seconds < time && seconds > 0.8 * time.min(831.0), "{minutes} min, {train} images: {seconds} s");
            assert!(looks >= LOOKS, "{looks}");
        }
        // The limit is four times the preset.
        let config = schedule(&draft, 700, &SPEED, Duration::from_secs(100_000)).expect("valid");
        assert_eq!((config.pretraining().epochs, config.training().updates), (3600, 6000));
        let config = schedule(&draft, 700, &SPEED, Duration::ZERO).expect("valid");
        assert_eq!((config.pretraining().epochs, config.training().updates), (1, 1));
    }

    #[test]
    fn updates_that_are_asked_for_are_made() {
        let draft = draft(&own(), Transforms::default(), 1000).expect("enough");
        // 700 images are six batches of 128.
        let lengths = |pretraining, training| {
            let config = with_updates(&draft, 700, pretraining, training).expect("valid");
            (config.pretraining().epochs, config.training().updates, config.stopping().every)
        };
        assert_eq!(lengths(600, 40), (100, 40, 4));
        assert_eq!(lengths(8, 3), (1, 3, 1));
        assert_eq!(lengths(0, 0), (1, 1, 1));
        assert_eq!(lengths(6, 100_000).2, draft.stopping().every);
    }

    #[test]
    fn the_threshold_is_what_the_images_allow() {
        for (count, rate) in [(50, 0.2), (100, 0.1), (200, 0.05), (999, 0.01), (490, 0.05), (500, 0.02)] {
            assert_eq!(
                draft(&own(), Transforms::default(), count).expect("enough").false_positive_rate(),
                rate,
                "{count}"
            );
        }
        let message = draft(&own(), Transforms::default(), 49).expect_err("too few").to_string();
        assert!(message.contains("screws: 49 images;") && message.contains("50"), "{message}");
    }

    #[test]
    fn a_plan_for_a_table_survives_its_file() {
        let column = |name: &str| Column { knee: Some(3.0), ..Column::number(name, 1.0 / 3.0, 0.1 + 0.2, 4.0) };
        let columns = ["a", "b \"c\"", "d"].map(column).to_vec();
        let own = OwnTable { title: "pump".to_owned(), missing: Missing::Fill, window: None, columns };
        let config = draft_table(&own, 300).expect("enough");
        assert_eq!((config.architecture().latent_dim(), config.architecture().image()), (2, own.shape()));
        let text = toml::to_string(config.raw()).expect("serializes");
        assert_eq!(preset::parse(&text, "again").expect("parses").raw(), config.raw());
        let damaged = text.replace("scale = 0.30000000000000004", "scale = 0.0");
        let message = preset::parse(&damaged, "again").expect_err("no scale").to_string();
        assert!(message.contains("data.source.table.columns"), "{message}");
    }

    #[test]
    fn a_plan_survives_its_file() {
        let config = draft(&own(), Transforms::default(), 300).expect("enough");
        let text = toml::to_string(config.raw()).expect("serializes");
        assert_eq!(preset::parse(&text, "again").expect("parses").raw(), config.raw());
        assert_eq!(config.source().title(), "screws");
        assert!(text.contains("negative_bound = 3.0"), "{text}");
        // There are 3 × 28 × 28 values.
        assert_eq!(config.sampler().visible_chain.step_size, 294.0);
    }
}
