//! Model files: the description ("card") that `nae-infer inspect` prints, and the settings that a
//! [`Detector`](crate::Detector) needs beside the network. Networks are not run here.

mod columns;
mod entry;

use std::collections::BTreeMap;

use nae_core::Shape;
use nae_core::contract::Contract;
use nae_core::energy::Energy;
use nae_core::format::{Header, Linear};
use nae_core::kernels::int8::Layout;
use nae_core::model::{Model, ModelError, Preprocessing};
use nae_input::{Pixels, PrepareError};
use nae_onnx::builder::display_shape;
use nae_onnx::check::graph::CheckedModel;
use nae_onnx::check::{CheckError, Limits, check, within};
use nae_onnx::ending::ModelFormat;
use nae_onnx::metadata::{Columns, Features, MetadataError, ModelMetadata, Provenance, RowWindow, Tiles, Transforms};

pub use entry::{Card, Entry, Value};

/// Stands for what the file of another program does not say.
const NOT_KNOWN: &str = "not known";

/// In place of the interval of a false-positive rate that windows of rows have.
const DEPENDENT: &str = "its interval is in the report of the training run, unless the model was calibrated again: windows of one stretch of rows \
     depend on each other";

/// A parsed and checked model file.
#[derive(Debug, Clone)]
pub struct ModelFile {
    bytes: Vec<u8>,
    content: Content,
}

/// The contents of a model file.
#[derive(Debug, Clone)]
pub enum Content {
    /// An ONNX model: the checked graph, and the metadata under `nae.`, if any.
    Onnx(Box<CheckedModel>, Option<Box<ModelMetadata>>),
    /// A `.nae` file, nae-core's format.
    Nae,
}

/// Why a model file is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelFileError {
    /// The ONNX model is not acceptable.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The metadata are invalid.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The `.nae` file is malformed.
    #[error("not a valid .nae file: {0}")]
    Nae(ModelError),
}

impl From<ModelError> for ModelFileError {
    fn from(error: ModelError) -> Self {
        Self::Nae(error)
    }
}

/// The settings of a model beside its network: how samples are converted to inputs, and how energies and verdicts are
/// computed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ScoringSettings {
    /// Input, preprocessing, energy, calibration and the file's threshold.
    pub contract: Contract,
    /// Whether samples are made by steps that the file does not contain, which is so for `.nae` files of models with transforms,
    /// tiles or columns. Only samples of exactly the input's size can be scored then.
    pub prepared: bool,
    /// Crop, fit and inversion of an image before it is resized to the input. The defaults for `.nae` files,
    /// which do not store them.
    pub transforms: Transforms,
    /// How a row of a table is converted to the input. `None` for images, and for `.nae` files, which do not store it.
    pub columns: Option<Columns>,
    /// The window of rows that make one sample. `None` if a sample is one row.
    pub window: Option<RowWindow>,
    /// How an image larger than the input is cut into tiles and scored. `None` if it is resized instead, and for `.nae`
    /// files, which score one tile.
    pub tiles: Option<Tiles>,
    /// The features that the network reconstructs instead of pixels. `None` if it reconstructs pixels.
    pub features: Option<Features>,
}

/// Preprocessing and energy for an ONNX model without metadata.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assumed {
    /// The energy.
    pub energy: Energy,
    /// The range of values and the resize filter.
    pub preprocessing: Preprocessing,
}

impl ScoringSettings {
    /// Settings for images that are resized to the input's shape, with this contract.
    pub fn new(contract: Contract) -> Self {
        Self {
            contract,
            prepared: false,
            transforms: Transforms::default(),
            columns: None,
            window: None,
            tiles: None,
            features: None,
        }
    }

    /// Converts an image to the network's input: channels first, in the input's size and the model's range.
    ///
    /// # Errors
    /// [`PrepareError`] if the image cannot be converted.
    pub fn prepare(&self, pixels: &Pixels) -> Result<Vec<f32>, PrepareError> {
        let Shape { height, width, .. } = pixels.shape;
        let input = self.contract.input;
        if self.prepared && (height, width) != (input.height, input.width) {
            return Err(PrepareError::Prepared { width, height, input });
        }
        nae_input::prepare(pixels, input, self.contract.preprocessing, self.transforms)
    }
}

impl ModelFile {
    /// Parses and checks the contents of an `.onnx` or `.nae` file. The format is recognized by the first bytes.
    ///
    /// # Errors
    /// [`ModelFileError`].
    pub fn parse(bytes: Vec<u8>, limits: &Limits) -> Result<Self, ModelFileError> {
        let content = if ModelFormat::of(&bytes) == ModelFormat::Nae {
            let model = Model::parse(&bytes)?;
            within("values in memory", limits.elements, model.arena_len() as u64)?;
            within("operations", limits.operations, model.operations())?;
            Content::Nae
        } else {
            let model = check(&bytes, limits)?;
            let metadata = model.metadata()?.map(Box::new);
            Content::Onnx(Box::new(model), metadata)
        };
        Ok(Self { bytes, content })
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The file's bytes; drops the parsed contents.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The parsed contents.
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// The metadata of an ONNX model. `None` if it has none, and for `.nae` files.
    pub fn metadata(&self) -> Option<&ModelMetadata> {
        match &self.content {
            Content::Onnx(_, metadata) => metadata.as_deref(),
            Content::Nae => None,
        }
    }

    /// Settings for an ONNX model without metadata: images of its input's shape, with the given preprocessing and energy.
    /// `None` if the input is not an image `[N, C, H, W]` of 1 or 3 channels, and for `.nae` files.
    pub fn assume(&self, assumed: Assumed) -> Option<ModelMetadata> {
        let Content::Onnx(model, _) = &self.content else { return None };
        let is_image = model.graph.values[model.graph.input].shape.len() == 4;
        let input = model.graph.sample_shape(model.graph.input)?;
        if !is_image || !matches!(input.channels, 1 | 3) {
            return None;
        }
        let mut contract = Contract::new(input);
        contract.energy = assumed.energy;
        contract.preprocessing = assumed.preprocessing;
        Some(ModelMetadata {
            provenance: Provenance {
                architecture: NOT_KNOWN.into(),
                method: NOT_KNOWN.into(),
                data_description: NOT_KNOWN.into(),
                crate_version: env!("CARGO_PKG_VERSION").into(),
                ..Provenance::default()
            },
            ..ModelMetadata::new(contract)
        })
    }

    /// The settings in the file. `None` for an ONNX model without metadata.
    pub fn settings(&self) -> Option<ScoringSettings> {
        match &self.content {
            Content::Onnx(_, metadata) => metadata.as_ref().map(|m| ScoringSettings {
                contract: m.contract.clone(),
                prepared: false,
                transforms: m.transforms,
                columns: m.columns.clone(),
                window: m.window,
                tiles: m.tiles,
                features: m.features,
            }),
            Content::Nae => {
                let header = Header::parse(self.bytes.first_chunk()?).ok()?;
                let settings = ScoringSettings::new(Model::parse(&self.bytes).ok()?.contract().to_owned());
                Some(ScoringSettings { prepared: header.prepared, ..settings })
            }
        }
    }

    /// Describes the file.
    pub fn card(&self) -> Card {
        let mut card = match &self.content {
            Content::Onnx(model, _) => self.onnx_entries(model),
            Content::Nae => self.nae_entries(),
        };
        if let Some(settings) = self.settings() {
            card.extend(settings.entries());
        }
        if let Content::Onnx(_, Some(m)) = &self.content {
            let p = &m.provenance;
            if let Some(latent) = m.latent {
                let (geometry, dimension) = (latent.geometry.name(), latent.dimension);
                let value = Value::fields([("geometry", geometry.into()), ("dimension", dimension.into())]);
                card.push(Entry::new("latent", value, format!("{geometry} of dimension {dimension}")));
            }
            card.extend([
                Entry::text("architecture", &p.architecture),
                Entry::text("method", &p.method),
                Entry::text("data", &p.data_description),
            ]);
            // A model of another program has neither.
            if p.method != NOT_KNOWN {
                card.extend([Entry::text("data_sha256", &p.data_sha256), Entry::count("seed", p.seed)]);
            }
            card.push(Entry::text("crate_version", &p.crate_version));
        }
        Card::new(card)
    }

    fn onnx_entries(&self, model: &CheckedModel) -> Vec<Entry> {
        let graph = &model.graph;
        let mut operators: BTreeMap<&str, usize> = BTreeMap::new();
        graph.nodes.iter().for_each(|n| *operators.entry(n.op_type.as_str()).or_default() += 1);
        let operators: Vec<String> = operators.iter().map(|(name, n)| format!("{name}×{n}")).collect();
        let shape = |value: usize| display_shape(&graph.values[value].shape);
        let fixed = graph.fixed_batch.map(|batch| format!(", of N = {batch} alone")).unwrap_or_default();
        let outputs: Vec<String> = graph.outputs.iter().map(|(n, v)| format!("{n} {}", shape(*v))).collect();
        vec![
            Entry::text("format", format!("ONNX, operator set {}", model.opset)),
            Entry::text("producer", &model.producer),
            Entry::count("bytes", self.bytes.len() as u64),
            Entry::count("parameters", graph.parameters() as u64),
            Entry::count("operations", graph.operations),
            Entry::text("operators", operators.join(" ")),
            Entry::text("input", format!("{} {}{fixed}", graph.values[graph.input].name, shape(graph.input))),
            Entry::text("outputs", outputs.join(", ")),
        ]
    }

    fn nae_entries(&self) -> Vec<Entry> {
        let bytes = Entry::count("bytes", self.bytes.len() as u64);
        let mut card = vec![Entry::text("format", ".nae, version 2"), bytes];
        if let Ok(model) = Model::parse(&self.bytes) {
            let (layers, arena) = (model.layer_count(), 4 * model.arena_len());
            let eight_bit = model.layers().filter(|layer| layer.element.quantization().is_some()).count();
            let of_layers = Value::fields([("all", layers.into()), ("int8", eight_bit.into())]);
            card.extend([
                Entry::count("parameters", model.weight_count()),
                Entry::new("layers", of_layers, format!("{layers}, of which 8-bit {eight_bit}")),
                Entry::new("arena", arena, format!("{arena} bytes")),
            ]);
            card.extend(int8_layouts(&model).map(|layouts| Entry::text("layout", layouts)));
        }
        card
    }
}

impl ScoringSettings {
    fn entries(&self) -> Vec<Entry> {
        let Self { contract, prepared, transforms, columns, window, tiles, features } = self;
        let (Shape { channels, height, width }, preprocessing) = (contract.input, contract.preprocessing);
        let (low, high) = (preprocessing.low(), preprocessing.high());
        let image = format!("{channels} × {height} × {width} (C×H×W)");
        let mut card = vec![
            Entry::text("energy", contract.energy.name()),
            Entry::number("temperature", contract.temperature.get()),
            Entry::new("image", [channels, height, width], image),
            Entry::new("range", [low, high], format!("{low:?} to {high:?}")),
        ];
        if *prepared {
            let text =
                "by the device: the file has no crop, inversion, tiles or columns, and scores samples of its size only";
            card.push(Entry::new("prepared", true, text.to_owned()));
        } else {
            card.push(Entry::text("resize", preprocessing.filter().name()));
        }
        let Transforms { crop, fit, invert } = *transforms;
        if let Some(side) = crop {
            card.push(Entry::new("crop", side, format!("{side} × {side} in the middle")));
        }
        if *transforms != Transforms::default() {
            card.extend([Entry::text("fit", fit.name()), Entry::new("invert", invert, invert.to_string())]);
        }
        if let Some(columns) = columns {
            card.extend(columns::entries(columns));
            card.push(Entry::text("missing", columns.missing().name()));
        }
        if let &Some(RowWindow { rows, stride }) = window {
            let value = Value::fields([("rows", rows.into()), ("stride", stride.into())]);
            card.push(Entry::new("window", value, format!("{rows} rows, {stride} from one to the next")));
        }
        if let &Some(Tiles { stride, top_k }) = tiles {
            let value = Value::fields([("stride", stride.into()), ("top_k", top_k.into())]);
            let score = score_of(top_k);
            let text = format!("{stride} pixels from one to the next, an image's score is {score}");
            card.push(Entry::new("tiles", value, text));
        }
        if let &Some(Features { components, rows, columns, top_k }) = features {
            let value = Value::fields([
                ("components", components.into()),
                ("rows", rows.into()),
                ("columns", columns.into()),
                ("top_k", top_k.into()),
            ]);
            let (places, score) = (format!("{rows} × {columns} places"), score_of(top_k));
            let text = format!("{components} numbers in each of {places}, an image's score is {score}");
            card.push(Entry::new("features", value, text));
        }
        if let Some(c) = contract.calibration() {
            card.push(Entry::new("calibration", c.count(), format!("{} held-out normal energies", c.count())));
        }
        if let Some(t) = contract.threshold() {
            card.push(Entry::number("threshold", t.energy));
            let mut rate = Entry::number("false_positive_rate", t.false_positive_rate);
            // The interval is that of independent samples, and the file does not say of how many stretches the windows are.
            let interval = match window {
                Some(_) => {
                    rate.text = format!("{}; {DEPENDENT}", rate.text);
                    None
                }
                None => contract.calibration().map(|c| c.rate_interval(t.false_positive_rate, 0.95)),
            };
            card.push(rate);
            if let Some(Ok((low, high))) = interval {
                let text = format!("{} to {}, with a probability of 0.95", probability(low), probability(high));
                card.push(Entry::new("rate_interval", [low, high], text));
            }
        }
        card
    }
}

/// The layouts of the weights of a model's 8-bit layers, as text: of all layers, or how many layers have each. `None` if the
/// model has no such layers.
pub fn int8_layouts(model: &Model<'_>) -> Option<String> {
    let layouts = model.layers().filter_map(|layer| match layer.operation.linear() {
        Some(Linear::I8(linear)) => Some(linear.layout),
        _ => None,
    });
    let (paired, plain): (Vec<Layout>, Vec<Layout>) = layouts.partition(|&layout| layout == Layout::Paired);
    match (paired.len(), plain.len()) {
        (0, 0) => None,
        (_, 0) => Some("paired".to_owned()),
        (0, _) => Some("plain".to_owned()),
        (paired, plain) => Some(format!("paired in {paired} layers, plain in {plain}")),
    }
}

/// A p-value or a rate as text: four decimals, or below 0.001 two significant digits, so that only zero looks like zero.
///
/// ```
/// use nae_infer::card::probability;
/// assert_eq!([0.25, 0.001, 0.000_024_99].map(probability), ["0.2500", "0.0010", "0.000025"]);
/// ```
pub fn probability(value: f32) -> String {
    if !(value > 0.0 && value < 0.001) {
        return format!("{value:.4}");
    }
    let decimals = (1.0 - value.log10().floor()) as usize;
    format!("{value:.decimals$}")
}

/// Describes how an image's score is computed from the energies of its parts.
fn score_of(top_k: usize) -> String {
    if top_k == 1 { "the largest energy".to_owned() } else { format!("the mean of the {top_k} largest energies") }
}
