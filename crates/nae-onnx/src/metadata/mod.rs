//! The metadata of a model file: typed, versioned, stored as text in ONNX `metadata_props`. Together with the graph, it
//! is all that is needed to run the model.
//!
//! | key | value |
//! |---|---|
//! | `nae.format_version` | `1` |
//! | `nae.energy` | `squared-l2`, `l1` or `ssim`: the energy of an image and its reconstruction |
//! | `nae.temperature` | T of p(x) ∝ exp(−E(x)/T), positive |
//! | `nae.latent.geometry` | `sphere` (unit length) or `euclidean` |
//! | `nae.latent.dimension` | number of elements of the latent vector |
//! | `nae.preprocessing.width`, `.height`, `.channels` | size of the network's input image |
//! | `nae.preprocessing.low`, `.high` | the values of black (0) and of white (255 or 1.0); linear in between |
//! | `nae.preprocessing.resize` | filter for images of another size, a [name](nae_core::model::ResizeFilter::name) |
//! | `nae.preprocessing.crop` | side in pixels of the square that is cut from the middle first; the whole image if absent |
//! | `nae.preprocessing.fit` | `stretch`, the default, `crop` or `pad`: see [`Fit`] |
//! | `nae.preprocessing.invert` | `true` or, the default, `false`: whether black and white are exchanged before the range is applied |
//! | `nae.table.columns` | for a model of tables: the columns' names, a JSON array, in the order of the input |
//! | `nae.table.mean`, `.deviation`, `.span` | their centres, scales and spans, separated by spaces: see [`Column`] |
//! | `nae.table.knee` | their knees, 0 for a column without one; if absent, no column has one |
//! | `nae.table.readings` | what is read from their cells, a JSON array of [`Reading`]s; if absent, all are numbers |
//! | `nae.table.missing` | `refuse` or `fill`: the treatment of missing values |
//! | `nae.table.window`, `nae.table.window_stride` | for a model of time series: the rows per sample, and from one sample to the next: see [`RowWindow`] |
//! | `nae.tiles.stride`, `nae.tiles.top_k` | for a model of tiles of larger images: see [`Tiles`] |
//! | `nae.features.components`, `.rows`, `.columns` | for a model of features: the numbers per position, and the grid of positions: see [`Features`] |
//! | `nae.features.top_k` | the number of the positions' largest energies whose mean is an image's score |
//! | `nae.calibration.count` | number n of held-out normal energies |
//! | `nae.calibration.table` | their order statistics, ascending, separated by spaces: see [`table`](nae_core::calibration::Calibration::table) |
//! | `nae.calibration.spacing` | `tail` if the table of more than 256 energies is denser at its end (`Spacing::Tail`); else absent |
//! | `nae.calibration.false_positive_rate` | target rate, between 0 and 1 |
//! | `nae.calibration.threshold` | the threshold for this rate; an energy above it is an anomaly |
//! | `nae.architecture` | name of the network |
//! | `nae.method` | the training method |
//! | `nae.data.description`, `nae.data.sha256` | the training data |
//! | `nae.seed` | the seed of the run |
//! | `nae.crate_version` | version of the program that wrote the file |
//!
//! The calibration's count and table must both be present or both be absent, and so must its rate and threshold,
//! without which the calibration is for p-values only. All keys of the table must be present or absent, and so must
//! those of the latent, of the window, of the tiles and of the features; keys for which the table gives a default or a
//! meaning if absent are optional; every other key is required. Numbers are decimal, with as many digits as needed to
//! read back the same float. Other keys under `nae.` are ignored.
//!
//! Files and graphs are handled elsewhere; see [`file`](mod@crate::file) and [`check`](crate::check).

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

/// The version of the keys and their meaning.
pub const FORMAT_VERSION: u32 = 1;

/// The metadata of a model file. See the [module](self) for its form in the file.
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
    /// The input of the network (1 channel for grey, 3 for RGB, any number for data other than image files), its
    /// energy, and the distribution of normal energies. Without a calibration, the model gives energies, but neither
    /// p-values nor verdicts.
    pub contract: Contract,
    /// The latent space; `None` for a network of other origin, which does not declare it.
    pub latent: Option<Latent>,
    /// The transforms of an image before it has the input's size.
    pub transforms: Transforms,
    /// The conversion of a table's row to the network's input, which has one value per column; `None` for images.
    pub columns: Option<Columns>,
    /// The number of rows per sample, if it is more than one: the input then has one value per row and column.
    pub window: Option<RowWindow>,
    /// How an image larger than the input is cut into tiles; `None` if it is resized.
    pub tiles: Option<Tiles>,
    /// The features that are reconstructed instead of an image's pixels; `None` if the pixels are.
    pub features: Option<Features>,
    /// The origin of the model, which has no effect on scores.
    pub provenance: Provenance,
}

/// The latent space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latent {
    /// The geometry of the latent vectors.
    pub geometry: Geometry,
    /// The number of elements of a latent vector.
    pub dimension: usize,
}

/// The geometry of the latent space.
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

/// The origin of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The name of the network.
    pub architecture: String,
    /// The training method.
    pub method: String,
    /// A description of the training data, for users.
    pub data_description: String,
    /// The SHA-256 of the data, in hexadecimal.
    pub data_sha256: String,
    /// The seed of the run.
    pub seed: u64,
    /// The version of the program that wrote the file.
    pub crate_version: String,
}

/// An error in a model's metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// A key is missing.
    #[error("metadata `{key}` is missing, expected {expected}")]
    Missing {
        /// The key.
        key: &'static str,
        /// The value that it must have.
        expected: &'static str,
    },
    /// A key has an invalid value.
    #[error("metadata `{key}` must be {expected}, found {found}")]
    Invalid {
        /// The key.
        key: &'static str,
        /// The value that it must have.
        expected: String,
        /// The value found, shortened.
        found: String,
    },
    /// A key is repeated.
    #[error("metadata `{key}` comes twice")]
    Duplicate {
        /// The key, shortened.
        key: String,
    },
}

impl ModelMetadata {
    /// Metadata with this contract and defaults: images without transforms, and unknown provenance.
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

    /// The keys and values, in the order of the [module](self)'s table.
    pub fn to_entries(&self) -> Vec<(String, String)> {
        text::write(self)
    }

    /// Parses keys and values in any order; keys outside `nae.` are ignored. `None` if there is no key under `nae.` at
    /// all, which means a model of other origin.
    ///
    /// # Errors
    /// [`MetadataError`], with the key, what was expected, and what was found.
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

    /// Returns the bytes of a model in which this metadata replaces its keys under `nae.`. If it had none, all other
    /// bytes are unchanged.
    ///
    /// # Errors
    /// If the bytes are not an ONNX model.
    pub fn attach(&self, bytes: &[u8]) -> Result<Vec<u8>, prost::DecodeError> {
        let mut model = ModelProto::decode(bytes)?;
        if model.metadata_props.iter().any(|e| e.key().starts_with(text::PREFIX)) {
            self.replace_in(&mut model);
            return Ok(model.encode_to_vec());
        }
        // Concatenated protobuf messages are one message with the fields of both.
        let mut more = ModelProto::default();
        self.replace_in(&mut more);
        Ok([bytes, &more.encode_to_vec()].concat())
    }

    /// Writes the metadata into a model, and replaces its keys under `nae.`.
    pub fn replace_in(&self, model: &mut ModelProto) {
        model.metadata_props.retain(|e| !e.key().starts_with(text::PREFIX));
        model.metadata_props.extend(
            self.to_entries()
                .into_iter()
                .map(|(key, value)| StringStringEntryProto { key: Some(key), value: Some(value) }),
        );
    }
}
