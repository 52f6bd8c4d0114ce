//! Plans a run on a user's own data and describes the choices: what `nae-train --data DIR` does without a preset.
//!
//! [`nae_data::own`] and [`nae_data::own_table`] read the data and choose their shape, [`mod@plan`] chooses the
//! settings. This module combines them for images, tables and features, and describes every choice in a sentence.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use burn::tensor::Device;
use nae_data::ImageSet;
use nae_data::Loaded;
use nae_data::Split;
use nae_data::counted;
use nae_data::is_array;
use nae_data::is_tables;
use nae_data::listed;
use nae_data::own::{self, Asked, Collection, Corrupt, OwnImages};
use nae_data::own_table::{self, OwnTable, Rows};
use nae_features::Backbone;
use nae_onnx::metadata::{Missing, Reading, RowWindow, Tiles, Transforms};

use crate::config::{Config, ConfigError, FeatureSettings, MethodKind};
use crate::engine::{Engine, EngineChoice, Unsupported};
use crate::features;
use crate::form::{self, Chosen, Form, FormError, Forms};
use crate::plan::{self, PlanError};
use crate::run::{Prepared, RunError};
use crate::seed::Stream;
use crate::train::speed;

/// The number of values for each place after whitening, if the frozen network has as many.
const COMPONENTS: usize = 64;
/// The number of categories, or of folders, that are named.
const NAMED: usize = 10;
/// The default number of places whose energies an image's score is the mean of.
const PLACES: usize = 5;
/// The addition to the error for a single image in an array: arrays of two axes are often meant as tables.
const SINGLE_IMAGE: &str = "; an array [H, W] is one image: give several as [N, H, W], and a table as .csv";

/// The user's requests for a run; everything else is chosen from the data.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// The method.
    pub method: OwnMethod,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The length of the run.
    pub length: Length,
    /// How images that cannot be read are treated.
    pub corrupt: Corrupt,
    /// Tiles, and how an image is converted to the network's input shape.
    pub images: Asked,
    /// The number of energies of tiles or places that an image's score is the mean of.
    pub top_k: Option<usize>,
    /// The frozen network whose features are trained on, and the names of its outputs; if empty, all outputs that are
    /// maps.
    pub features: Option<(PathBuf, Vec<String>)>,
    /// How missing readings of a table are treated.
    pub missing: Missing,
    /// The rows of a sample of a time series.
    pub window: Option<RowWindow>,
    /// The form of images. If `None`, tiles or features are used if they are requested; otherwise the best form is
    /// determined if the run has a minute or more.
    pub form: Option<OwnForm>,
    /// Outliers for evaluation. They are read with the data, so that their time is part of that of the run.
    pub outliers: Option<PathBuf>,
    /// The class kept out of training.
    pub held_out: Option<u8>,
    /// The probability with which the threshold keeps its false-positive rate; if `None`, it does so on average.
    pub confidence: Option<f64>,
}

impl Default for Wishes {
    /// An NAE with seed 0, [`Length::default`], and everything else chosen from the data.
    fn default() -> Self {
        Self {
            method: OwnMethod::default(),
            seed: 0,
            length: Length::default(),
            corrupt: Corrupt::default(),
            images: Asked::default(),
            top_k: None,
            features: None,
            missing: Missing::Refuse,
            window: None,
            form: None,
            outliers: None,
            held_out: None,
            confidence: None,
        }
    }
}

/// The method for a user's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnMethod {
    /// A normalized autoencoder.
    #[default]
    Nae,
    /// The Mahalanobis distance to the data.
    Mahalanobis,
    /// The distance to the nearest of the data.
    Knn,
}

impl OwnMethod {
    /// The variant for `method`; `None` if the method is not available for a user's data.
    pub fn of(method: MethodKind) -> Option<Self> {
        match method {
            MethodKind::Nae => Some(Self::Nae),
            MethodKind::Mahalanobis => Some(Self::Mahalanobis),
            MethodKind::Knn => Some(Self::Knn),
            _ => None,
        }
    }
}

/// The form of a sample of a user's images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnForm {
    /// The whole image, reduced in size.
    Whole,
    /// A tile of the image.
    Tiles,
    /// The features of a frozen network at a place of the image.
    Features,
    /// The form that a [`trial`](crate::trial) finds best.
    Best,
}

/// The length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A total time, with updates chosen by the measured speed of the machine: the same seed may give another model on
    /// another machine.
    Time(Duration),
    /// Numbers of updates, regardless of the time.
    Updates {
        /// The updates of pre-training; rounded to whole epochs, at least one.
        pretraining: usize,
        /// The updates of NAE training.
        training: usize,
    },
}

/// Below this time forms of images are only compared on request, since the run itself has too little time.
const SHORT: Duration = Duration::from_secs(60);

impl Length {
    fn time(self) -> Option<Duration> {
        if let Self::Time(time) = self { Some(time) } else { None }
    }

    fn is_short(self) -> bool {
        self.time().is_some_and(|time| time < SHORT)
    }
}

impl Default for Length {
    /// A time of ten minutes.
    fn default() -> Self {
        Self::Time(Duration::from_secs(600))
    }
}

/// A run that is ready to start.
pub struct Planned {
    /// The settings and data.
    pub prepared: Prepared,
    /// The engine that computes gradients.
    pub engine: Engine,
    /// The choices and their reasons, one sentence each.
    pub choices: Vec<String>,
}

/// An error that prevents the planning of a run. Texts contain the names of the program's options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
    /// The requests do not fit the data, or each other.
    #[error("{0}")]
    Wishes(String),
    /// The value of an option cannot be used.
    #[error("{option}")]
    Given {
        /// The option.
        option: String,
        /// The reason.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// There are too few samples.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The data cannot be divided, or converted to features.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A value is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The requested engine does not support the network.
    #[error(transparent)]
    Engine(#[from] Unsupported),
    /// No form can be chosen.
    #[error(transparent)]
    Form(#[from] FormError),
}

impl OwnError {
    fn given<E: Error + Send + Sync + 'static>(option: impl ToString) -> impl FnOnce(E) -> Self {
        move |cause| Self::Given { option: option.to_string(), cause: Box::new(cause) }
    }
}

/// Reads the data at `path` and plans a run on them; the time since `started` is subtracted from a requested time.
///
/// # Errors
/// [`OwnError`] if the data cannot be read, or do not allow the requested run.
pub fn plan(
    wishes: &Wishes,
    path: &Path,
    engines: EngineChoice,
    device: &Device,
    started: Instant,
) -> Result<Planned, OwnError> {
    let refuse = |problem: String| Err(OwnError::Wishes(problem));
    if wishes.held_out.is_some() {
        return refuse(
            "--held-out: your own data have no numbered classes; leave it out, and keep outliers apart (--outliers)"
                .into(),
        );
    }
    let divided = wishes.images.tiles.is_some() || wishes.features.is_some() || wishes.form == Some(OwnForm::Best);
    if wishes.top_k.is_some() && !divided {
        return refuse(
            "--top-k: an image that is not divided has one energy; give --tile or --features with it".into(),
        );
    }
    let mut choices = Vec::new();
    let (mut draft, loaded, found) = if is_tables(path) {
        let of_images = [
            (wishes.images.tiles.is_some(), "--tile"),
            (wishes.features.is_some(), "--features"),
            (wishes.form.is_some(), "--form"),
            (wishes.images.transforms != Transforms::default(), "--fit"),
            (wishes.corrupt == Corrupt::Refuse, "--strict"),
        ];
        if let Some((_, option)) = of_images.into_iter().find(|(is_given, _)| *is_given) {
            return refuse(format!("{option}: it is for images, and {} is a table; leave it out", path.display()));
        }
        let trained = |units: usize| {
            // With so few rows the plan returns an error.
            if wishes.window.is_none() && units < plan::MIN_IMAGES {
                return Vec::new();
            }
            Split::trained(units, plan::SHARES, Stream::Split.of(wishes.seed).rng())
        };
        if let Some(RowWindow { rows, stride }) = wishes.window
            && stride > rows
        {
            return refuse(format!(
                "--window-stride: {stride} rows from one window of {rows} to the next would leave some out"
            ));
        }
        let (table, rows) =
            own_table::choose_by(path, wishes.missing, wishes.window, trained).map_err(OwnError::given("--data"))?;
        let found = describe_rows(&table, &rows);
        (plan::draft_table(&table, rows.samples.len())?, Loaded::from(rows), found)
    } else {
        if wishes.window.is_some() {
            return refuse(format!("--window: {} is no table, .csv or .tsv; windows are of its rows", path.display()));
        }
        if wishes.missing != Missing::Refuse {
            return refuse(format!("--missing: {} is no table, .csv or .tsv; leave it out", path.display()));
        }
        if wishes.images.tiles.is_some() && form::changes_size(&wishes.images.transforms) {
            return refuse("--fit: images that are cut into tiles keep their size; leave --fit or --tile out".into());
        }
        let backbone = wishes.features.as_ref().map(|(file, outputs)| features::read(file, outputs));
        let backbone = backbone.transpose().map_err(OwnError::given("--features"))?;
        let shape = backbone.as_ref().map(|backbone| (backbone.input().channels, backbone.input().height));
        let mut asked = Asked { shape: shape.or(wishes.images.shape), ..wishes.images };
        if let Some((side, Tiles { stride, .. })) = asked.tiles
            && stride > side
        {
            return refuse(format!(
                "--stride: {stride} pixels from one tile of {side} to the next would leave some out"
            ));
        }
        let Chosen { form, said, warnings } = chosen_form(wishes, path, backbone.as_ref(), engines, device)?;
        choices = said;
        if let (Form::Whole, Some(top_k)) = (form, wishes.top_k) {
            choices.push(format!("--top-k {top_k} is not used: a whole image has one energy"));
        }
        asked.tiles = if let Form::Tiles(side, tiles) = form { Some((side, tiles)) } else { None };
        let backbone = backbone.filter(|_| form == Form::Features);
        if backbone.is_none() {
            asked.shape = wishes.images.shape;
        }
        let (images, collection) = own::choose_with(path, &asked, wishes.corrupt).map_err(OwnError::given("--data"))?;
        let found = describe_images(&images, &collection);
        let count = collection.images.decisions();
        if let Some(Tiles { top_k, .. }) = images.tiles {
            check_top_k(top_k, collection.images.units().iter().map(ExactSizeIterator::len).max(), "tiles")?;
        }
        let draft = match backbone.zip(wishes.features.as_ref()) {
            Some((backbone, (file, _))) => {
                let settings = feature_settings(wishes, file, &backbone)?;
                plan::draft_features(&images, settings, asked.transforms, count)
            }
            None => plan::draft(&images, asked.transforms, count),
        };
        let draft = draft.map_err(|error| match error {
            PlanError::TooFew { found: 1, .. } if is_array(path) => OwnError::Wishes(format!("{error}{SINGLE_IMAGE}")),
            error => error.into(),
        })?;
        let doubtful = collection.doubtful();
        let mut loaded = Loaded::from(collection);
        loaded.warnings.extend(doubtful.into_iter().chain(warnings));
        (draft, loaded, found)
    };
    let fitted = match wishes.method {
        OwnMethod::Nae => None,
        OwnMethod::Mahalanobis => Some((MethodKind::Mahalanobis, "the Mahalanobis distance to the data")),
        OwnMethod::Knn => Some((MethodKind::Knn, "the distance to the nearest of the data")),
    };
    if let Some((method, _)) = fitted {
        let mut raw = draft.raw().clone();
        raw.method = method;
        draft = Config::new(raw).map_err(OwnError::given("--method"))?;
    }
    let engine = engines.engine(draft.architecture())?;
    let mut prepared = Prepared::of(draft, wishes.seed, loaded)?;
    if prepared.config.method() == MethodKind::Knn {
        // Only now are the samples known: the places of images, if it is a run on features.
        let mut raw = prepared.config.raw().clone();
        raw.baselines.knn.vectors = raw.baselines.knn.vectors.min(prepared.split.train.len().max(1));
        prepared.config = Config::new(raw).map_err(OwnError::given("--method"))?;
    }
    prepared.config = plan::with_rate(&prepared.config, prepared.split.calibration.decisions())?;
    prepared.check_counts()?;
    if let Some(confidence) = wishes.confidence {
        prepared.config = plan::with_confidence(&prepared.config, prepared.independent(), confidence)
            .map_err(OwnError::given("--confidence"))?;
    }

    if let Some(path) = &wishes.outliers {
        prepared.add_outliers(path, wishes.corrupt).map_err(OwnError::given("--outliers"))?;
    }
    let train = prepared.split.train.len();
    let (config, schedule) = match wishes.length {
        _ if let Some((_, distance)) = fitted => {
            (prepared.config.clone(), format!("{distance}: nothing is trained, whatever the time"))
        }
        Length::Time(time) => {
            let reading = started.elapsed();
            let speed = speed::measure(&prepared.config, &prepared.split, engine, device);
            let evaluation = prepared.evaluation_time(device);
            let taken = started.elapsed();
            let left = time.saturating_sub(taken + evaluation);
            let config = plan::schedule(&prepared.config, train, &speed, left)?;
            let expected = plan::duration(&config, train, &speed);
            if expected > left.mul_f64(TOO_SHORT) {
                prepared.warnings.push(too_short(time, reading, taken - reading, expected + evaluation));
            }
            let schedule = plan::describe(&config, train, &speed);
            (config, format!("{schedule}, for {} in all", humantime::format_duration(time)))
        }
        Length::Updates { pretraining, training } => {
            let config = plan::with_updates(&prepared.config, train, pretraining, training)?;
            let (epochs, updates) = (config.pretraining().epochs, config.training().updates);
            (
                config,
                format!("pre-training: {}; NAE training: {}", counted(epochs, "epoch"), counted(updates, "update")),
            )
        }
    };
    choices.insert(0, format!("{}: {found}", config.source().title()));
    choices.extend(describe(&prepared, &config));
    choices.push(schedule);
    prepared.config = config;
    Ok(Planned { prepared, engine, choices })
}

/// A schedule of more than this many times the time that is left gives a warning; what is measured varies by less.
const TOO_SHORT: f64 = 1.5;

/// The warning that a requested `time` is too short for the `reading` of the data, the `measuring` of the network's speed, and the
/// `rest` of the shortest run.
fn too_short(time: Duration, reading: Duration, measuring: Duration, rest: Duration) -> String {
    format!(
        "the run takes about {:.0} s in place of {}: reading and preparing the data took {:.0} s, measuring the network's speed {:.0} s, \
         and the rest of the shortest run takes about {:.0} s; give it more time",
        (reading + measuring + rest).as_secs_f64(),
        humantime::format_duration(time),
        reading.as_secs_f64(),
        measuring.as_secs_f64(),
        rest.as_secs_f64(),
    )
}

/// Chooses the form of images: the requested one, or the best one in a trial.
fn chosen_form(
    wishes: &Wishes,
    path: &Path,
    backbone: Option<&Backbone>,
    engines: EngineChoice,
    device: &Device,
) -> Result<Chosen, OwnError> {
    let given = wishes.features.as_ref().zip(backbone);
    let tiles = wishes.images.tiles;
    let refuse = |problem: &str| Err(OwnError::Wishes(problem.to_owned()));
    let told = |form| Ok(Chosen { form, said: Vec::new(), warnings: Vec::new() });
    match (wishes.form, tiles, given) {
        (Some(OwnForm::Tiles), None, _) => return refuse("--form tiles: give the side of the tiles with --tile"),
        (Some(OwnForm::Features), _, None) => {
            return refuse("--form features: give the frozen network with --features");
        }
        (Some(OwnForm::Whole | OwnForm::Features), Some(_), _) => {
            return refuse("--tile: --form asks for no tiles; leave one of them out");
        }
        (Some(OwnForm::Whole | OwnForm::Tiles), _, Some(_)) => {
            return refuse("--features: --form asks for no features; leave one of them out");
        }
        (Some(OwnForm::Whole), ..) => return told(Form::Whole),
        (Some(OwnForm::Features) | None, _, Some(_)) => return told(Form::Features),
        (Some(OwnForm::Tiles) | None, Some((side, tiles)), _) => return told(Form::Tiles(side, tiles)),
        (None, None, None) if wishes.images.shape.is_some() || wishes.length.is_short() => return told(Form::Whole),
        (Some(OwnForm::Best), ..) | (None, None, None) => {}
    }
    let features = given.map(|((file, _), backbone)| {
        let input = backbone.input();
        Ok::<_, OwnError>((feature_settings(wishes, file, backbone)?, (input.channels, input.height)))
    });
    let forms = Forms {
        transforms: wishes.images.transforms,
        tiles,
        top_k: wishes.top_k.unwrap_or(1),
        features: features.transpose()?,
        corrupt: wishes.corrupt,
    };
    let mut chosen = match form::best(path, &forms, engines, device, wishes.length.time(), wishes.seed) {
        Err(FormError::Data(cause)) => return Err(OwnError::given("--data")(cause)),
        chosen => chosen?,
    };
    if wishes.form == Some(OwnForm::Best) && chosen.said.is_empty() {
        chosen.said.push(
            "form: whole images; they lose little detail when they are resized, so no forms were compared".into(),
        );
    }
    Ok(chosen)
}

/// Checks that an image has at least `top_k` parts, of which the largest number is `most`.
fn check_top_k(top_k: usize, most: Option<usize>, parts: &str) -> Result<(), OwnError> {
    match most {
        Some(most) if top_k > most => Err(OwnError::Wishes(format!(
            "--top-k: expected at most the number of an image's {parts}, {most}, found {top_k}; give a smaller one"
        ))),
        _ => Ok(()),
    }
}

/// The recorded settings of the frozen network in `file`: its absolute path and its digest.
fn feature_settings(wishes: &Wishes, file: &Path, backbone: &Backbone) -> Result<FeatureSettings, OwnError> {
    let [rows, columns] = backbone.grid();
    if let Some(top_k) = wishes.top_k {
        check_top_k(top_k, Some(rows * columns), "places")?;
    }
    Ok(FeatureSettings {
        backbone: file.canonicalize().map_err(OwnError::given(file.display()))?,
        sha256: backbone.sha256().to_owned(),
        outputs: backbone.outputs(),
        components: COMPONENTS.min(backbone.features()),
        data_sha256: None,
        top_k: wishes.top_k.unwrap_or(PLACES),
    })
}

fn describe_images(images: &OwnImages, found: &Collection) -> String {
    let OwnImages { channels, side, .. } = images;
    let count = found.images.units().len();
    let folders = if found.classes.len() > 1 { format!(" in {}", folders(found)) } else { String::new() };
    let colour = if *channels == 1 { "grey" } else { "RGB" };
    let how = match images.tiles {
        None => format!("brought to {side}x{side} pixels ({})", own::RESIZE.name()),
        Some(Tiles { stride, top_k }) => format!(
            "cut into {} tiles of {side}x{side} pixels, {stride} apart; an image's score is {}",
            found.images.len(),
            if top_k == 1 { "the largest energy".to_owned() } else { format!("the mean of the {top_k} largest") }
        ),
    };
    format!("{}{folders}, {colour}, {how}", counted(count, "image"))
}

/// The number of folders, with the names of the first and the number of images in each.
fn folders(found: &Collection) -> String {
    let name = |name: &str| if name.is_empty() { "outside of them".to_owned() } else { name.to_owned() };
    let each = found.classes.iter().zip(&found.counts);
    let named: Vec<String> = each.map(|(class, count)| format!("{}: {count}", name(class))).collect();
    // Images beside the folders are in none.
    let count = found.classes.iter().filter(|class| !class.is_empty()).count();
    format!("{} ({})", counted(count, "folder"), listed(&named, NAMED, ", "))
}

fn describe_rows(table: &OwnTable, rows: &Rows) -> String {
    let windows = table.window.map(|RowWindow { rows: size, stride }| {
        format!("; {} windows of {size}, {stride} from one to the next", rows.samples.len())
    });
    let count = |of: fn(&Reading) -> bool| table.columns.iter().filter(|column| of(&column.reading)).count();
    let numbers = count(Reading::is_number);
    let values = count(|reading| matches!(reading, Reading::Is(_)));
    let gaps = count(|reading| matches!(reading, Reading::Absent));
    let categories = table.columns.iter().filter(|column| matches!(column.reading, Reading::Is(_)));
    // The inputs of a category follow each other.
    let mut categories: Vec<String> = categories.map(|column| format!("{:?}", column.name)).collect();
    categories.dedup();
    let mut inputs = Vec::new();
    if numbers > 0 {
        inputs.push(format!("{} of numbers, scaled by their quartiles", counted(numbers, "column")));
    }
    if values > 0 {
        let more = categories.len().saturating_sub(NAMED);
        categories.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let categories = categories.join(", ");
        inputs.push(format!("{} for the values of the categories {categories}{more}", counted(values, "input")));
    }
    if gaps > 0 {
        inputs.push(format!("{} for gaps", counted(gaps, "input")));
    }
    format!("{}, {}{}", counted(rows.rows, "row"), inputs.join(", "), windows.unwrap_or_default())
}

/// The number of samples; if they are tiles, also the number of images.
fn count(set: &ImageSet) -> String {
    if set.are_tiles() { format!("{} ({} parts)", set.decisions(), set.len()) } else { set.len().to_string() }
}

fn describe(prepared: &Prepared, config: &Config) -> Vec<String> {
    let (split, spec) = (&prepared.split, config.architecture());
    let features = prepared.features().zip(config.features()).map(|(features, settings)| {
        let shape = features.front().shape();
        format!(
            "features: outputs {} of {}, in {} × {} places, whitened to {} numbers; an image's score is the mean of the {} \
             largest energies",
            settings.outputs.join(", "),
            settings.backbone.display(),
            shape.height,
            shape.width,
            shape.channels,
            features.top_k(),
        )
    });
    let mut said: Vec<String> = features.into_iter().collect();
    said.extend([
        format!("network: {}, {} parameters", spec.name(), spec.parameters()),
        format!(
            "{} to train on, {} for validation, {} for calibration, {} for the test",
            count(&split.train),
            count(&split.validation),
            count(&split.calibration),
            count(&split.test)
        ),
        format!(
            "threshold for a false-positive rate of {}{}, calibrated on {}",
            config.false_positive_rate(),
            config.confidence().map(|confidence| format!(" with a confidence of {confidence}")).unwrap_or_default(),
            split.calibration.decisions()
        ),
    ]);
    said
}

/// Checks that outliers are not part of the training data, and that the data are not part of the outliers.
///
/// # Errors
/// [`OwnError::Wishes`] if one of `outliers` and `data` contains the other.
pub fn apart(data: &Path, outliers: &Path) -> Result<(), OwnError> {
    // Missing files are reported when they are read.
    let (Ok(data), Ok(outliers)) = (data.canonicalize(), outliers.canonicalize()) else { return Ok(()) };
    let problem = if outliers.starts_with(&data) {
        format!("{} lies in {}, and would be trained on; keep it apart", outliers.display(), data.display())
    } else if data.starts_with(&outliers) {
        format!(
            "{} contains {}, and the data would be taken for outliers; keep it apart",
            outliers.display(),
            data.display()
        )
    } else {
        return Ok(());
    };
    Err(OwnError::Wishes(format!("--outliers: {problem}")))
}
