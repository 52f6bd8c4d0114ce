//! A run on a user's own data, chosen and said: what `nae-train --data DIR` does without a preset.
//!
//! Reading and choosing a shape is [`nae_data::own`]'s and [`nae_data::own_table`]'s, the settings are [`mod@plan`]'s. Here
//! they are put together for images, tables and features, and every choice gets a sentence.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use burn::tensor::Device;
use nae_data::ImageSet;
use nae_data::Loaded;
use nae_data::is_tables;
use nae_data::own::{self, Asked, Collection, Corrupt, OwnImages};
use nae_data::own_table::{self, OwnTable, Rows};
use nae_features::Backbone;
use nae_onnx::metadata::{Missing, Reading, RowWindow, Tiles, Transforms};

use crate::config::{Config, ConfigError, FeatureSettings, MethodKind};
use crate::engine::{Engine, EngineChoice, Unsupported};
use crate::features;
use crate::form::{self, Form, FormError, Forms};
use crate::plan::{self, PlanError};
use crate::run::{Prepared, RunError};
use crate::train::speed;

/// Numbers of a place after whitening, where the frozen network gives as many.
const COMPONENTS: usize = 64;
/// Places whose energies make an image's score, where no number is asked for.
const PLACES: usize = 5;

/// What may be asked for of a run; what is not is chosen by the data.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// What is made of the data.
    pub method: OwnMethod,
    /// Seed of every random number.
    pub seed: u64,
    /// How long it takes.
    pub length: Length,
    /// What is done about images that cannot be read.
    pub corrupt: Corrupt,
    /// Tiles, and how an image is brought to the network's shape.
    pub images: Asked,
    /// So many energies of tiles or places make an image's score.
    pub top_k: Option<usize>,
    /// The frozen network whose features are trained on, and its outputs; all that are maps where none is named.
    pub features: Option<(PathBuf, Vec<String>)>,
    /// What a reading of a table that is not there becomes.
    pub missing: Missing,
    /// The rows that make a sample of a time series.
    pub window: Option<RowWindow>,
    /// The form of images. Without: tiles or features where they are asked for; else the best, where the run has a minute
    /// or more.
    pub form: Option<OwnForm>,
    /// The class kept out of training.
    pub held_out: Option<u8>,
    /// The probability with which the threshold's false-positive rate is kept; on average without.
    pub confidence: Option<f64>,
}

impl Default for Wishes {
    /// An NAE, seed 0, [`Length::default`], and everything else by the data.
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
            held_out: None,
            confidence: None,
        }
    }
}

/// What is made of a user's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnMethod {
    /// A normalized autoencoder.
    #[default]
    Nae,
    /// The Mahalanobis distance to them.
    Mahalanobis,
    /// The distance to the nearest of them.
    Knn,
}

impl OwnMethod {
    /// The method that is made of a user's data by this name of a preset's, if it is one of them.
    pub fn of(method: MethodKind) -> Option<Self> {
        match method {
            MethodKind::Nae => Some(Self::Nae),
            MethodKind::Mahalanobis => Some(Self::Mahalanobis),
            MethodKind::Knn => Some(Self::Knn),
            _ => None,
        }
    }
}

/// What a sample of a user's images is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnForm {
    /// The image, made smaller.
    Whole,
    /// A tile of it.
    Tiles,
    /// A place of it, as a frozen network sees it.
    Features,
    /// Of these the one that a [`trial`](crate::trial) finds best.
    Best,
}

/// How long a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So long in all, by the measured speed of the machine: the same seed need not give the same model elsewhere.
    Time(Duration),
    /// So many updates, whatever they take.
    Updates {
        /// Of pre-training; rounded to whole epochs, at least one.
        pretraining: usize,
        /// Of NAE training.
        training: usize,
    },
}

/// In less time no forms of images are compared, unless that is asked for: the run itself has too little.
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
    /// Ten minutes.
    fn default() -> Self {
        Self::Time(Duration::from_secs(600))
    }
}

/// A run that is about to start.
pub struct Planned {
    /// Settings and data.
    pub prepared: Prepared,
    /// What computes gradients.
    pub engine: Engine,
    /// What was chosen and why, one sentence each.
    pub choices: Vec<String>,
}

/// Why no run can be planned. Texts name the options as the program calls them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
    /// What is asked for does not fit the data, or each other.
    #[error("{0}")]
    Wishes(String),
    /// What is given with an option cannot be used.
    #[error("{option}")]
    Given {
        /// The option.
        option: String,
        /// Why not.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// There are too few samples.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The data cannot be divided, or made features of.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A value does not fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The engine that is asked for does not have the network.
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

/// Reads the data at `path` and plans a run on them; of a time, what has gone since `started` is taken off.
///
/// # Errors
/// [`OwnError`].
pub fn plan(
    wishes: &Wishes,
    path: &Path,
    engines: EngineChoice,
    device: &Device,
    started: Instant,
) -> Result<Planned, OwnError> {
    let refuse = |problem: String| Err(OwnError::Wishes(problem));
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
        ];
        if let Some((_, option)) = of_images.into_iter().find(|(is_given, _)| *is_given) {
            return refuse(format!("{option}: it is for images, and {} is a table; leave it out", path.display()));
        }
        let (table, rows) =
            own_table::choose(path, wishes.missing, wishes.window).map_err(OwnError::given("--data"))?;
        let found = describe_rows(&table, &rows);
        (plan::draft_table(&table, rows.samples.len())?, Loaded::from(rows), found)
    } else {
        if wishes.window.is_some() {
            return refuse(format!("--window: {} is no table, .csv or .tsv; windows are of its rows", path.display()));
        }
        if wishes.missing != Missing::Refuse {
            return refuse(format!("--missing: {} is no table, .csv or .tsv; leave it out", path.display()));
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
        let (form, said) = chosen_form(wishes, path, backbone.as_ref(), engines, device)?;
        choices = said;
        asked.tiles = if let Form::Tiles(side, tiles) = form { Some((side, tiles)) } else { None };
        let backbone = backbone.filter(|_| form == Form::Features);
        if backbone.is_none() {
            asked.shape = wishes.images.shape;
        }
        let (images, collection) = own::choose_with(path, &asked, wishes.corrupt).map_err(OwnError::given("--data"))?;
        let found = describe_images(&images, &collection);
        let count = collection.images.decisions();
        let draft = match backbone.zip(wishes.features.as_ref()) {
            Some((backbone, (file, _))) => {
                let settings = feature_settings(wishes, file, &backbone)?;
                plan::draft_features(&images, settings, asked.transforms, count)?
            }
            None => plan::draft(&images, asked.transforms, count)?,
        };
        (draft, Loaded::from(collection), found)
    };
    if wishes.held_out.is_some() {
        let mut raw = draft.raw().clone();
        raw.data.held_out = wishes.held_out;
        draft = Config::new(raw).map_err(OwnError::given("--held-out"))?;
    }
    let fitted = match wishes.method {
        OwnMethod::Nae => None,
        OwnMethod::Mahalanobis => Some((MethodKind::Mahalanobis, "the Mahalanobis distance to the data")),
        OwnMethod::Knn => Some((MethodKind::Knn, "the distance to the nearest of the data")),
    };
    if let Some((method, _)) = fitted {
        let mut raw = draft.raw().clone();
        raw.method = method;
        if method == MethodKind::Knn {
            raw.baselines.knn.vectors = raw.baselines.knn.vectors.min(loaded.train.len().max(1));
        }
        draft = Config::new(raw).map_err(OwnError::given("--method"))?;
    }
    let engine = engines.engine(draft.architecture())?;
    let mut prepared = Prepared::of(draft, wishes.seed, loaded)?;
    prepared.config = plan::with_rate(&prepared.config, prepared.split.calibration.decisions())?;
    prepared.check_counts()?;
    if let Some(confidence) = wishes.confidence {
        prepared.config = plan::with_confidence(&prepared.config, prepared.independent(), confidence)
            .map_err(OwnError::given("--confidence"))?;
    }

    let train = prepared.split.train.len();
    let (config, schedule) = match wishes.length {
        _ if let Some((_, distance)) = fitted => {
            (prepared.config.clone(), format!("{distance}: nothing is trained, whatever the time"))
        }
        Length::Time(time) => {
            let speed = speed::measure(&prepared.config, &prepared.split, engine, device);
            let config = plan::schedule(&prepared.config, train, &speed, time.saturating_sub(started.elapsed()))?;
            let schedule = plan::describe(&config, train, &speed);
            (config, format!("{schedule}, for {} in all", humantime::format_duration(time)))
        }
        Length::Updates { pretraining, training } => {
            let config = plan::with_updates(&prepared.config, train, pretraining, training)?;
            let (epochs, updates) = (config.pretraining().epochs, config.training().updates);
            (config, format!("pre-training: {epochs} epochs; NAE training: {updates} updates"))
        }
    };
    choices.insert(0, format!("{}: {found}", config.source().title()));
    choices.extend(describe(&prepared, &config));
    choices.push(schedule);
    prepared.config = config;
    Ok(Planned { prepared, engine, choices })
}

/// What images become: as asked for, or by a trial.
fn chosen_form(
    wishes: &Wishes,
    path: &Path,
    backbone: Option<&Backbone>,
    engines: EngineChoice,
    device: &Device,
) -> Result<(Form, Vec<String>), OwnError> {
    let given = wishes.features.as_ref().zip(backbone);
    let tiles = wishes.images.tiles;
    let refuse = |problem: &str| Err(OwnError::Wishes(problem.to_owned()));
    let told = |form| Ok((form, Vec::new()));
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
    };
    match form::best(path, &forms, engines, device, wishes.length.time(), wishes.seed) {
        Err(FormError::Data(cause)) => Err(OwnError::given("--data")(cause)),
        chosen => Ok(chosen?),
    }
}

/// What is recorded of the frozen network in `file`: where it is, from any folder, and which it is.
fn feature_settings(wishes: &Wishes, file: &Path, backbone: &Backbone) -> Result<FeatureSettings, OwnError> {
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
    let (count, classes) = (found.images.units().len(), found.classes.len());
    let folders = if classes > 1 { format!(" in {classes} folders") } else { String::new() };
    let colour = if *channels == 1 { "grey" } else { "RGB" };
    let how = match images.tiles {
        None => format!("brought to {side}x{side} pixels ({})", own::RESIZE.name()),
        Some(Tiles { stride, top_k }) => format!(
            "cut into {} tiles of {side}x{side} pixels, {stride} apart; an image's score is {}",
            found.images.len(),
            if top_k == 1 { "the largest energy".to_owned() } else { format!("the mean of the {top_k} largest") }
        ),
    };
    format!("{count} images{folders}, {colour}, {how}")
}

fn describe_rows(table: &OwnTable, rows: &Rows) -> String {
    let windows = table.window.map(|RowWindow { rows: size, stride }| {
        format!("; {} windows of {size}, {stride} from one to the next", rows.samples.len())
    });
    let count = |of: fn(&Reading) -> bool| table.columns.iter().filter(|column| of(&column.reading)).count();
    let numbers = count(Reading::is_number);
    let values = count(|reading| matches!(reading, Reading::Is(_)));
    let gaps = count(|reading| matches!(reading, Reading::Absent));
    let also = [(values, "inputs for the values of categories"), (gaps, "for gaps")].into_iter();
    let also: String = also.filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}")).collect();
    format!(
        "{} rows, {numbers} columns of numbers, scaled by their quartiles{also}{}",
        rows.rows,
        windows.unwrap_or_default()
    )
}

/// How many samples there are, and how many images where they are tiles.
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

/// Refuses outliers that would be trained on, and data that would be evaluated as outliers.
///
/// # Errors
/// [`OwnError::Wishes`] where one of `outliers` and `data` lies in the other.
pub fn apart(data: &Path, outliers: &Path) -> Result<(), OwnError> {
    // What is not there is said when it is read.
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
