//! What a model file says about itself beside its graph: typed, versioned, as text in ONNX
//! `metadata_props`. Together with the graph it is all that running the model takes.
//!
//! | key | value |
//! |---|---|
//! | `nae.format_version` | `1` |
//! | `nae.energy` | `squared-l2`, `l1` or `ssim`: how image and reconstruction make an energy |
//! | `nae.temperature` | T of p(x) ∝ exp(−E(x)/T), positive |
//! | `nae.latent.geometry` | `sphere` (unit length) or `euclidean` |
//! | `nae.latent.dimension` | elements of the latent vector |
//! | `nae.preprocessing.width`, `.height`, `.channels` | size of the image the network takes |
//! | `nae.preprocessing.low`, `.high` | what black (0) and white (255 or 1.0) become; linear between |
//! | `nae.preprocessing.resize` | filter for images of another size, a [name](nae_core::model::ResizeFilter::name) |
//! | `nae.preprocessing.crop` | side of the square in the middle that is taken first, in pixels; all of the image without it |
//! | `nae.preprocessing.fit` | `stretch`, as without it, `crop` or `pad`: see [`Fit`] |
//! | `nae.preprocessing.invert` | `true` or, as without it, `false`: whether black and white are exchanged before the range |
//! | `nae.table.columns` | of a model of tables: the columns' names, a JSON array, in the order of the input |
//! | `nae.table.mean`, `.deviation`, `.span` | their centres, scales and spans, separated by spaces: see [`Column`] |
//! | `nae.table.knee` | their knees, 0 for a column without; without it no column has one |
//! | `nae.table.readings` | what is read of their cells, a JSON array of [`Reading`]s; without it all are numbers |
//! | `nae.table.missing` | `refuse` or `fill`: what a reading that is not there becomes |
//! | `nae.table.window`, `nae.table.window_stride` | of a model of time series: rows of a sample, and from one to the next: see [`RowWindow`] |
//! | `nae.tiles.stride`, `nae.tiles.top_k` | of a model that looks at tiles of larger images: see [`Tiles`] |
//! | `nae.features.components`, `.rows`, `.columns` | of a model of features: numbers of a place, and the grid of places: see [`Features`] |
//! | `nae.features.top_k` | how many of the places' largest energies make an image's score |
//! | `nae.calibration.count` | number n of held-out normal energies |
//! | `nae.calibration.table` | their order statistics, ascending, separated by spaces: see [`table`](nae_core::calibration::Calibration::table) |
//! | `nae.calibration.spacing` | `tail` where the table of more than 256 energies is denser at its end (`Spacing::Tail`); else absent |
//! | `nae.calibration.false_positive_rate` | target rate, between 0 and 1 |
//! | `nae.calibration.threshold` | the threshold that follows; an energy above it is an anomaly |
//! | `nae.architecture` | name of the network |
//! | `nae.method` | how it was trained |
//! | `nae.data.description`, `nae.data.sha256` | what it was trained on |
//! | `nae.seed` | seed of the run |
//! | `nae.crate_version` | version of the program that wrote the file |
//!
//! The calibration's four keys come together or not at all, and so do the table's, the latent's, the window's, the
//! tiles' and the features'; those said to be without may be; every other key is required. Numbers are decimal, with as many digits as it
//! takes to read back the same float. Keys under
//! `nae.` that are not in the table are skipped.
//!
//! Files and graphs do not live here; see [`file`](mod@crate::file) and [`check`](crate::check).

mod columns;
mod parts;
mod text;
mod transforms;

use nae_core::contract::Contract;
use prost::Message;

pub use columns::{Column, Columns, ColumnsError, Missing, Reading};
pub use parts::{Features, RowWindow, Tiles};
pub use transforms::{Fit, Transforms};

use crate::builder::GraphBuilder;
use crate::proto::{ModelProto, StringStringEntryProto};

/// Version of the keys and their meaning.
pub const FORMAT_VERSION: u32 = 1;

/// All that a model file says about itself. See the [module](self) for its form in the file.
///
/// ```
/// use nae_core::{Shape, calibration::Calibration, contract::Contract};
/// use nae_onnx::metadata::ModelMetadata;
///
/// let calibration = Calibration::from_sorted(&[0.1; 200])?;
/// let metadata = ModelMetadata::new(Contract::new(Shape::new(1, 16, 16)).with_calibration(calibration, 0.01)?);
/// let entries = metadata.to_entries();
/// let read = ModelMetadata::from_entries(entries.iter().map(|(k, v)| (k.as_str(), v.as_str())))?;
/// assert_eq!(read, Some(metadata));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ModelMetadata {
    /// The image the network takes (channels: 1 grey, 3 RGB, any number for what is no image file), its energy, and what
    /// normal energies are like. Without a calibration the model gives energies, but neither p-values nor verdicts.
    pub contract: Contract,
    /// Where the latent vectors live; `None` for a network of other origin, which does not say.
    pub latent: Option<Latent>,
    /// What is done to an image before it has the input's size.
    pub transforms: Transforms,
    /// How a row of a table becomes the network's input, which has one value a column; `None` for images.
    pub columns: Option<Columns>,
    /// How many rows make a sample, where it is more than one: the input then has one value a row and column.
    pub window: Option<RowWindow>,
    /// How an image larger than the input is cut; `None` where it is resized.
    pub tiles: Option<Tiles>,
    /// What is reconstructed of an image in place of its pixels; `None` where it is the pixels.
    pub features: Option<Features>,
    /// Where the model comes from. Nothing depends on it.
    pub provenance: Provenance,
}

/// Where the latent vectors live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latent {
    /// Sphere or plane.
    pub geometry: Geometry,
    /// Elements of a latent vector.
    pub dimension: usize,
}

/// Geometry of the latent space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Geometry {
    /// Vectors of unit length.
    Sphere,
    /// All vectors.
    Euclidean,
}

impl Geometry {
    /// `sphere` or `euclidean`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sphere => "sphere",
            Self::Euclidean => "euclidean",
        }
    }

    /// The geometry with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Sphere, Self::Euclidean].into_iter().find(|g| g.name() == name)
    }
}

/// Where a model comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Name of the network.
    pub architecture: String,
    /// How it was trained.
    pub method: String,
    /// What it was trained on, for people.
    pub data_description: String,
    /// SHA-256 of the data, in hexadecimal.
    pub data_sha256: String,
    /// Seed of the run.
    pub seed: u64,
    /// Version of the program that wrote the file.
    pub crate_version: String,
}

/// What is wrong with a model's metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// A key is not there.
    #[error("metadata `{key}` is missing, expected {expected}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What its value must be.
        expected: &'static str,
    },
    /// A value is not what its key asks for.
    #[error("metadata `{key}` must be {expected}, found {found}")]
    Invalid {
        /// The key.
        key: &'static str,
        /// What its value must be.
        expected: String,
        /// The value, shortened.
        found: String,
    },
    /// A key comes twice.
    #[error("metadata `{key}` comes twice")]
    Duplicate {
        /// The key, shortened.
        key: String,
    },
}

impl ModelMetadata {
    /// Of a network with this contract that says nothing else: images as they are, of unknown origin.
    pub fn new(contract: Contract) -> Self {
        Self {
            contract,
            latent: None,
            transforms: Transforms::default(),
            columns: None,
            window: None,
            tiles: None,
            features: None,
            provenance: Provenance::default(),
        }
    }

    /// Keys and values, in the order of the [module](self)'s table.
    pub fn to_entries(&self) -> Vec<(String, String)> {
        text::write(self)
    }

    /// Reads keys and values in any order; keys outside `nae.` are skipped. `None` where there is
    /// no key under `nae.` at all: a model of other origin.
    ///
    /// # Errors
    /// [`MetadataError`] names the key, what was expected, and what was found.
    pub fn from_entries<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Option<Self>, MetadataError> {
        text::read(entries)
    }

    /// Reads a model's metadata; see [`from_entries`](Self::from_entries).
    ///
    /// # Errors
    /// As for [`from_entries`](Self::from_entries).
    pub fn read(model: &ModelProto) -> Result<Option<Self>, MetadataError> {
        Self::from_entries(model.metadata_props.iter().map(|e| (e.key(), e.value())))
    }

    /// Adds the metadata to a graph under construction.
    pub fn add_to(&self, graph: &mut GraphBuilder) {
        for (key, value) in self.to_entries() {
            graph.metadata(&key, &value);
        }
    }

    /// The bytes of a model with the metadata in place of what it had under `nae.`. Where it had nothing, all
    /// else stays as it is, byte for byte.
    ///
    /// # Errors
    /// If the bytes are not a model.
    pub fn attach(&self, bytes: &[u8]) -> Result<Vec<u8>, prost::DecodeError> {
        let mut model = ModelProto::decode(bytes)?;
        if model.metadata_props.iter().any(|e| e.key().starts_with(text::PREFIX)) {
            self.replace_in(&mut model);
            return Ok(model.encode_to_vec());
        }
        // Messages one after the other are one message with the fields of both.
        let mut more = ModelProto::default();
        self.replace_in(&mut more);
        Ok([bytes, &more.encode_to_vec()].concat())
    }

    /// Writes the metadata into a model, in place of what it had under `nae.`.
    pub fn replace_in(&self, model: &mut ModelProto) {
        model.metadata_props.retain(|e| !e.key().starts_with(text::PREFIX));
        model.metadata_props.extend(
            self.to_entries()
                .into_iter()
                .map(|(key, value)| StringStringEntryProto { key: Some(key), value: Some(value) }),
        );
    }
}
