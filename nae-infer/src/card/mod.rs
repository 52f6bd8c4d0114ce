//! Model files: the description ("card") that `nae-infer inspect` prints, and the settings that a
//! [`Detector`](crate::Detector) needs beside the network. Networks are not run here.

use std::collections::BTreeMap;

use nae_core::contract::Contract;
use nae_core::energy::Energy;
use nae_core::format::Linear;
use nae_core::kernels::int8::Layout;
use nae_core::model::{Model, ModelError, Preprocessing};
use nae_input::{Pixels, PrepareError};
use nae_onnx::builder::display_shape;
use nae_onnx::check::graph::CheckedModel;
use nae_onnx::check::{CheckError, Limits, check, within};
use nae_onnx::metadata::{Columns, Features, MetadataError, ModelMetadata, Provenance, RowWindow, Tiles, Transforms};

/// The first bytes of a `.nae` file.
const NAE_MAGIC: &[u8] = b"\x89NAE\r\n\x1a\n";

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
        Self { contract, transforms: Transforms::default(), columns: None, window: None, tiles: None, features: None }
    }

    /// Converts an image to the network's input: channels first, in the input's size and the model's range.
    ///
    /// # Errors
    /// [`PrepareError`] if the image cannot be converted.
    pub fn prepare(&self, pixels: &Pixels) -> Result<Vec<f32>, PrepareError> {
        nae_input::prepare(pixels, self.contract.input, self.contract.preprocessing, self.transforms)
    }
}

impl ModelFile {
    /// Parses and checks the contents of an `.onnx` or `.nae` file. The format is recognised by the first bytes.
    ///
    /// # Errors
    /// [`ModelFileError`].
    pub fn parse(bytes: Vec<u8>, limits: &Limits) -> Result<Self, ModelFileError> {
        let content = if bytes.starts_with(NAE_MAGIC) {
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
    /// `None` if the input is not an image, and for `.nae` files.
    pub fn assume(&self, assumed: Assumed) -> Option<ModelMetadata> {
        let Content::Onnx(model, _) = &self.content else { return None };
        let mut contract = Contract::new(model.graph.sample_shape(model.graph.input)?);
        contract.energy = assumed.energy;
        contract.preprocessing = assumed.preprocessing;
        Some(ModelMetadata {
            provenance: Provenance {
                architecture: "not known".into(),
                method: "not known".into(),
                data_description: "not known".into(),
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
                transforms: m.transforms,
                columns: m.columns.clone(),
                window: m.window,
                tiles: m.tiles,
                features: m.features,
            }),
            Content::Nae => Some(ScoringSettings::new(Model::parse(&self.bytes).ok()?.contract().to_owned())),
        }
    }

    /// The card: names and values in a fixed order. Values are texts from the file and can contain any characters.
    pub fn card(&self) -> Vec<(&'static str, String)> {
        let mut card = Vec::new();
        match &self.content {
            Content::Onnx(model, _) => {
                let graph = &model.graph;
                let mut operators: BTreeMap<&str, usize> = BTreeMap::new();
                graph.nodes.iter().for_each(|n| *operators.entry(n.op_type.as_str()).or_default() += 1);
                let operators: Vec<String> = operators.iter().map(|(name, n)| format!("{name}×{n}")).collect();
                let shape = |value: usize| display_shape(&graph.values[value].shape);
                let outputs: Vec<String> = graph.outputs.iter().map(|(n, v)| format!("{n} {}", shape(*v))).collect();
                card.extend([
                    ("format", format!("ONNX, operator set {}", model.opset)),
                    ("producer", model.producer.clone()),
                    ("bytes", self.bytes.len().to_string()),
                    ("parameters", graph.parameters().to_string()),
                    ("operations", graph.operations.to_string()),
                    ("operators", operators.join(" ")),
                    ("input", format!("{} {}", graph.values[graph.input].name, shape(graph.input))),
                    ("outputs", outputs.join(", ")),
                ]);
            }
            Content::Nae => {
                card.extend([("format", ".nae, version 2".to_owned()), ("bytes", self.bytes.len().to_string())]);
                if let Ok(model) = Model::parse(&self.bytes) {
                    let eight = model.layers().filter(|layer| layer.element.quantization().is_some()).count();
                    card.extend([
                        ("parameters", model.weight_count().to_string()),
                        ("layers", format!("{}, of which 8-bit {eight}", model.layer_count())),
                        ("arena", format!("{} bytes", 4 * model.arena_len())),
                    ]);
                    card.extend(int8_layouts(&model).map(|layouts| ("layout", layouts)));
                }
            }
        }
        if let Some(s) = self.settings() {
            let contract = &s.contract;
            let (input, preprocessing) = (contract.input, contract.preprocessing);
            let (low, high) = (preprocessing.low(), preprocessing.high());
            card.extend([
                ("energy", contract.energy.name().to_owned()),
                ("temperature", format!("{:?}", contract.temperature.get())),
                ("image", format!("{} × {} × {} (C×H×W)", input.channels, input.height, input.width)),
                ("range", format!("{low:?} to {high:?}")),
                ("resize", preprocessing.filter().name().to_owned()),
            ]);
            let Transforms { crop, fit, invert } = s.transforms;
            if let Some(side) = crop {
                card.push(("crop", format!("{side} × {side} in the middle")));
            }
            if s.transforms != Transforms::default() {
                card.extend([("fit", fit.name().to_owned()), ("invert", invert.to_string())]);
            }
            if let Some(columns) = &s.columns {
                let names: Vec<&str> = columns.columns().iter().map(|column| column.name.as_str()).collect();
                card.push(("columns", names.join(", ")));
                card.push(("missing", columns.missing().name().to_owned()));
            }
            if let Some(RowWindow { rows, stride }) = s.window {
                card.push(("window", format!("{rows} rows, {stride} from one to the next")));
            }
            if let Some(Tiles { stride, top_k }) = s.tiles {
                let score = score_of(top_k);
                card.push(("tiles", format!("{stride} pixels from one to the next, an image's score is {score}")));
            }
            if let Some(Features { components, rows, columns, top_k }) = s.features {
                let score = score_of(top_k);
                let places = format!("{components} numbers in each of {rows} × {columns} places");
                card.push(("features", format!("{places}, an image's score is {score}")));
            }
            if let Some(c) = contract.calibration() {
                card.push(("calibration", format!("{} held-out normal energies", c.count())));
            }
            if let Some(t) = contract.threshold() {
                card.push(("threshold", format!("{:?}", t.energy)));
                card.push(("false_positive_rate", format!("{:?}", t.false_positive_rate)));
                let interval = contract.calibration().map(|c| c.rate_interval(t.false_positive_rate, 0.95));
                if let Some(Ok((low, high))) = interval {
                    let (low, high) = (probability(low), probability(high));
                    card.push(("rate_interval", format!("{low} to {high}, with a probability of 0.95")));
                }
            }
        }
        if let Content::Onnx(_, Some(m)) = &self.content {
            let p = &m.provenance;
            if let Some(latent) = m.latent {
                card.push(("latent", format!("{} of dimension {}", latent.geometry.name(), latent.dimension)));
            }
            card.extend([
                ("architecture", p.architecture.clone()),
                ("method", p.method.clone()),
                ("data", p.data_description.clone()),
                ("data_sha256", p.data_sha256.clone()),
                ("seed", p.seed.to_string()),
                ("crate_version", p.crate_version.clone()),
            ]);
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
