//! Settings for a user's own data: what `nae-train --data DIR` does with nothing else said.
//!
//! [`draft`] takes the preset `digits` and fits it to the data: network, division, chains, threshold. [`schedule`]
//! scales its pre-training and its NAE training, in their proportion, to the time there is, by the [`Speed`] of a few
//! updates measured on this machine. The numbers chosen are those of the [`Config`]: a run from it does not measure
//! anything, and can be repeated.
//!
//! Reading the data and choosing its shape is [`data::own`](nae_data::own)'s and
//! [`data::own_table`](nae_data::own_table)'s.

use std::time::Duration;

use nae_core::calibration::count_for_confidence;
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

/// The preset that is fitted.
const BASE: &str = "digits";
/// What its pre-training amounts to: 600 epochs of nine batches.
const PRETRAINING_UPDATES: f64 = 5400.0;
/// It is not known that more than this many times its updates helps.
const MAX_SCALE: f64 = 4.0;
/// Channels of the first layer and D_z, as there.
const WIDTH: usize = 8;
const LATENT_DIM: usize = 32;
/// Widths of the dense network for tables. Its D_z is half the columns, up to that of images.
const TABLE_WIDTHS: [usize; 2] = [128, 64];
/// The span of a table's columns for which the preset's visible noise is right, in scales.
const NOISE_SPAN: f64 = 4.0;
/// Widths and D_z of the network for features, the samples of an update, and the updates of NAE training.
const FEATURE_WIDTHS: [usize; 2] = [256, 256];
const FEATURE_LATENT_DIM: usize = 24;
const FEATURE_BATCH: usize = 512;
const FEATURE_UPDATES: usize = 900;
/// How far negative samples may go.
struct Negatives {
    /// The energy they are pushed to, in energies of normal data after pre-training.
    bound: f64,
    /// The ratio of their energy to the data's that ends training.
    max_energy_ratio: f64,
}

/// Where negative samples of images have more energy than the data, they are no samples any more, and training goes
/// back towards the autoencoder: the ratio is the one that costs least over traced runs (models/results/README.md). At
/// a bound of 10 more is lost by then.
const OF_IMAGES: Negatives = Negatives { bound: 3.0, max_energy_ratio: 1.5 };
/// Tables were not among these runs, and the one that was tried still gained at twice the data's energy. The preset's γ
/// = 25 means about so many times the energy of normal images after pre-training, 1/(2·25) against 0.002.
const OF_TABLES: Negatives = Negatives { bound: 10.0, max_energy_ratio: 4.0 };
/// Chains on features begin at nearly twice the energy of normal places (1.7 times on solar cells), and stay there.
const OF_FEATURES: Negatives = Negatives { bound: 3.0, max_energy_ratio: 4.0 };
/// Of the images, each for validation, calibration and test.
const SHARE: f64 = 0.1;
/// Looks at the model during NAE training, where the preset's every so many updates would be fewer.
const LOOKS: usize = 10;
/// What evaluation and calibration take, in looks.
const EVALUATION: usize = 10;
/// Other work of the machine, and what is written.
const RESERVE: f64 = 0.05;
/// Chains start on the manifold, as the paper's, from a buffer of what the last updates left: in minutes, what is in a
/// larger one hardly comes up again.
const REPLAY_BUFFER: ReplayConfig = ReplayConfig { size: 1000, ratio: 0.95 };
/// False-positive rates, and the calibration images each takes.
const RATES: [(f64, usize); 5] = [(0.01, 100), (0.02, 50), (0.05, 20), (0.1, 10), (0.2, 5)];

/// The fewest images or rows that can be divided: five of them calibrate.
pub const MIN_IMAGES: usize = 50;

/// Data that no run can be planned for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Too few.
    #[error("{title}: {found} images or rows; at least {MIN_IMAGES} are needed, and some hundred to be of use")]
    TooFew {
        /// What they are called.
        title: String,
        /// How many there are.
        found: usize,
    },
    /// Too few for a threshold of such a confidence.
    #[error(
        "a confidence of {confidence} takes {needed} images or rows (or stretches of a time series) for the calibration even with a false-positive rate of \
         {rate}, and there are {found}, a tenth of all: give more data, or a lower confidence"
    )]
    Confidence {
        /// That is asked for.
        confidence: f64,
        /// The highest false-positive rate that is planned for.
        rate: f64,
        /// How many are enough for it.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// The preset that is fitted.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// A value does not fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Settings for `count` a user's images, cut into tiles or not, with the schedule of the preset they come from.
///
/// # Errors
/// [`PlanError::TooFew`] where there are fewer than [`MIN_IMAGES`].
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

/// Settings for the features of `count` a user's images: `features` says of which frozen network.
///
/// # Errors
/// As for [`draft`].
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
    raw.pretraining.final_learning_rate = Some(0.05 * raw.pretraining.learning_rate);
    raw.training.batch_size = FEATURE_BATCH;
    raw.training.learning_rate = 1e-4;
    raw.training.updates = FEATURE_UPDATES;
    // Components have variance 1 where energies are measured in deviations; here they have that of 1/(2·span).
    raw.sampler.latent_chain = Some(Langevin::new(5, 2.9, 0.05));
    raw.sampler.visible_chain.noise = 0.008;
    raw.sampler.start = Start::OnManifold { replay_buffer: Some(ReplayConfig { size: 10_000, ratio: 0.95 }) };
    Ok(Config::new(raw)?)
}

/// The same for a table of `count` rows or windows.
///
/// # Errors
/// As for [`draft`].
pub fn draft_table(own: &OwnTable, count: usize) -> Result<Config, PlanError> {
    let shape = own.shape();
    let architecture = ArchitectureConfig::Dense {
        image: [shape.channels, shape.height, shape.width],
        widths: TABLE_WIDTHS.to_vec(),
        output: DenseOutput::Sigmoid,
        latent_dim: (shape.len() / 2).clamp(2, LATENT_DIM),
        latent_space: LatentSpace::Sphere,
    };
    let mut raw = fitted(Source::Table(own.clone()), Transforms::default(), architecture, OF_TABLES, count)?;
    // Noise is so many scales, whatever the span.
    let span = own.columns.iter().map(|column| column.span).fold(NOISE_SPAN, f64::max);
    raw.sampler.visible_chain.noise *= (NOISE_SPAN / span) as f32;
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
        return Err(PlanError::TooFew { title: source.title().to_owned(), found: count });
    }
    let mut raw = preset::load(BASE)?.raw().clone();
    "own-data".clone_into(&mut raw.name);
    raw.data.source = source;
    raw.data.transforms = transforms;
    raw.data.held_out = None;
    raw.data.split = SplitShares { validation: Some(SHARE), calibration: SHARE, test: Some(SHARE) };
    raw.architecture = architecture;
    raw.pretraining.output_at_mean = true;
    raw.training.regularization.negative_energy = 0.0;
    raw.training.negative_bound = Some(negatives.bound);
    raw.stopping.max_energy_ratio = Some(negatives.max_energy_ratio);
    raw.sampler.start = Start::OnManifold { replay_buffer: Some(REPLAY_BUFFER) };
    let step_size = visible_step_size(raw.architecture.spec()?.image().len());
    raw.sampler.visible_chain.step_size = step_size;
    // In a step nothing moves further than from one bound to the other; on MNIST this is the paper's 0.01.
    raw.sampler.visible_chain.gradient_clip = Some(GradientClip { limit: 1.0 / step_size, by: ClipBy::Element });
    raw.calibration.false_positive_rate = rate_of((SHARE * count as f64).round() as usize);
    Ok(raw)
}

/// The lowest false-positive rate that `calibration` decisions give a threshold for; the highest where they give none.
fn rate_of(calibration: usize) -> f64 {
    let rate = RATES.into_iter().find(|(_, images)| *images <= calibration);
    rate.map_or(RATES[RATES.len() - 1].0, |(rate, _)| rate)
}

/// `draft` with a threshold for the lowest false-positive rate that `calibration` decisions allow: where data are divided by
/// stretches of a time series, these can be fewer than their share of all.
///
/// # Errors
/// [`ConfigError`] where `draft` is none of [`draft`]'s.
pub fn with_rate(draft: &Config, calibration: usize) -> Result<Config, ConfigError> {
    let mut raw = draft.raw().clone();
    raw.calibration.false_positive_rate = rate_of(calibration);
    Config::new(raw)
}

/// `draft` with a threshold for the lowest false-positive rate that `calibration` images, rows or stretches allow with a probability of
/// at least `confidence`.
///
/// # Errors
/// [`PlanError::Confidence`] where there are too few for any rate, and [`PlanError::Config`] where `confidence` is no
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

/// Half of the longest step of the visible chain that is stable, for images of `values` numbers: E(x) = ‖x − f(x)‖² / D
/// is curved by 2‖I − J‖² / D, at most 8 / D where the autoencoder's Jacobian J stretches nothing, and a step on that
/// is stable up to 2 / (8 / D). The paper's 10 is a tenth of that on MNIST, with ten times as many steps.
fn visible_step_size(values: usize) -> f32 {
    values as f32 / 8.0
}

/// `draft` with as many updates, on `train_images` images, as a machine of `speed` makes in `time`, up to four times
/// the preset's. At least one epoch and some updates, however short the time.
///
/// # Errors
/// [`ConfigError`] where `draft` is none of [`draft`]'s.
pub fn schedule(draft: &Config, train_images: usize, speed: &Speed, time: Duration) -> Result<Config, ConfigError> {
    let mut raw = draft.raw().clone();
    let (updates, every) = (raw.training.updates as f64, raw.stopping.every);
    let look = speed.look.as_secs_f64();
    let update = speed.normalizing.as_secs_f64() + look / every as f64;
    let whole = PRETRAINING_UPDATES * speed.pretraining.as_secs_f64() + updates * update;
    let time = time.as_secs_f64();
    // Where looking takes most of the time, there is too little of it anyway.
    let available = (time * (1.0 - RESERVE) - (LOOKS + EVALUATION) as f64 * look).max(0.3 * time);
    let scale = (available / whole).min(MAX_SCALE);
    let scaled = |updates: f64| (updates * scale).round().max(1.0);
    let batches = batches(draft, train_images);
    raw.pretraining.epochs = (scaled(PRETRAINING_UPDATES) / batches as f64).round().max(1.0) as usize;
    raw.training.updates = scaled(updates) as usize;
    raw.stopping.every = (raw.training.updates / LOOKS).clamp(1, every);
    Config::new(raw)
}

/// `draft` with so many updates on `train_images` images: of pre-training, in whole epochs, and of NAE training, with
/// ten looks at the model; at least one each.
///
/// # Errors
/// [`ConfigError`] where `draft` is none of [`draft`]'s.
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

/// Updates of an epoch of pre-training.
pub(crate) fn batches(config: &Config, train_images: usize) -> usize {
    train_images.div_ceil(config.pretraining().batch_size).max(1)
}

/// The schedule in words, with what it is expected to take.
pub fn describe(config: &Config, train_images: usize, speed: &Speed) -> String {
    let (epochs, updates) = (config.pretraining().epochs, config.training().updates);
    let batches = batches(config, train_images);
    let seconds = |count: usize, each: Duration| (count as f64 * each.as_secs_f64()).ceil();
    format!(
        "pre-training: {epochs} epochs of {batches} updates, about {:.0} s; NAE training: {updates} updates, about {:.0} s \
         (measured: {:.1} and {:.1} ms an update)",
        seconds(epochs * batches, speed.pretraining),
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
            let seconds = pretraining as f64 * 0.01 + updates as f64 * 0.1 + (looks + EVALUATION) as f64 * 0.05;
            let time = time.as_secs_f64();
            assert!(seconds < time && seconds > 0.8 * time.min(831.0), "{minutes} min, {train} images: {seconds} s");
            assert!(looks >= LOOKS, "{looks}");
        }
        // Four times the preset, and no more.
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
        assert!(message.contains("screws: 49 images or rows") && message.contains("50"), "{message}");
    }

    #[test]
    fn a_plan_for_a_table_survives_its_file() {
        let column = |name: &str| Column { knee: Some(3.0), ..Column::number(name, 1.0 / 3.0, 0.1 + 0.2, 4.0) };
        let columns = ["a", "b \"c\"", "d"].map(column).to_vec();
        let own = OwnTable { title: "pump".to_owned(), missing: Missing::Fill, window: None, columns };
        let config = draft_table(&own, 300).expect("enough");
        assert_eq!(config.sampler().visible_chain.noise, 0.05);
        let wide = own.columns.iter().map(|column| Column { span: 8.0, ..column.clone() }).collect();
        let wide = draft_table(&OwnTable { columns: wide, ..own.clone() }, 300).expect("enough");
        assert_eq!(wide.sampler().visible_chain.noise, 0.025);
        assert_eq!((config.architecture().latent_dim(), config.architecture().image()), (2, own.shape()));
        let text = toml::to_string(config.raw()).expect("serialises");
        assert_eq!(preset::parse(&text, "again").expect("parses").raw(), config.raw());
        let damaged = text.replace("scale = 0.30000000000000004", "scale = 0.0");
        let message = preset::parse(&damaged, "again").expect_err("no scale").to_string();
        assert!(message.contains("data.source.table.columns"), "{message}");
    }

    #[test]
    fn a_plan_survives_its_file() {
        let config = draft(&own(), Transforms::default(), 300).expect("enough");
        let text = toml::to_string(config.raw()).expect("serialises");
        assert_eq!(preset::parse(&text, "again").expect("parses").raw(), config.raw());
        assert_eq!(config.source().title(), "screws");
        assert!(text.contains("negative_bound = 3.0"), "{text}");
        // 3 × 28 × 28 values.
        assert_eq!(config.sampler().visible_chain.step_size, 294.0);
    }
}
