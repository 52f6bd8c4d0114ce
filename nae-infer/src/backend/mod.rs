//! Backends run a network on batches of inputs and return reconstructions. Preprocessing, energies and verdicts are not
//! computed here.

mod native;
#[cfg(feature = "ort")]
mod ort;
mod provider;
#[cfg(feature = "simd")]
mod simd;
#[cfg(feature = "tract")]
mod tract;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

#[cfg(any(feature = "tract", feature = "ort"))]
use nae_core::Shape;
#[cfg(any(feature = "tract", feature = "ort"))]
use nae_onnx::autoencoder::{FEATURES, LATENT};
pub use nae_onnx::check::Limits;
pub use provider::ExecutionProvider;

use crate::card::{Content, ModelFile};

/// The kinds of backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// tract: pure Rust, reads ONNX.
    Tract,
    /// ONNX Runtime, whose library is loaded at run time.
    Ort,
    /// nae-simd, which the trainer also uses: the layers of autoencoders on the processor's vector instructions.
    Simd,
    /// nae-core's portable engine, whose reconstructions are those of the microcontroller, bit for bit. Energies of 8-bit models
    /// are computed from the unquantized image here, and can differ from the microcontroller's in the last digits.
    Native,
}

impl BackendKind {
    /// All backends.
    pub const ALL: [Self; 4] = [Self::Tract, Self::Ort, Self::Simd, Self::Native];

    /// Its name: `tract`, `ort`, `simd` or `native`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tract => "tract",
            Self::Ort => "ort",
            Self::Simd => "simd",
            Self::Native => "native",
        }
    }

    /// The backend with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|b| b.name() == name)
    }

    /// Whether this build includes the backend.
    pub const fn is_built_in(self) -> bool {
        match self {
            Self::Tract => cfg!(feature = "tract"),
            Self::Ort => cfg!(feature = "ort"),
            Self::Simd => cfg!(feature = "simd"),
            Self::Native => true,
        }
    }
}

/// The rule by which a backend is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// For ONNX, simd if it supports every layer of the model, else tract; for `.nae`, native.
    #[default]
    Usual,
    /// The fastest of the backends that support the model, measured on this machine when the model is opened. Opening
    /// therefore takes longer.
    Fastest,
    /// This backend.
    This(BackendKind),
}

/// The backends that [`BackendChoice::Usual`] tries for ONNX, in this order, before native.
const PREFERRED: [BackendKind; 2] = [BackendKind::Simd, BackendKind::Tract];

impl BackendChoice {
    /// The names by which a choice can be made: `auto` for [`Fastest`](Self::Fastest), and those of the backends.
    pub const NAMES: [&'static str; 5] = [
        "auto",
        BackendKind::Tract.name(),
        BackendKind::Ort.name(),
        BackendKind::Simd.name(),
        BackendKind::Native.name(),
    ];

    /// The choice with this [name](Self::NAMES).
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "auto" { Some(Self::Fastest) } else { BackendKind::from_name(name).map(Self::This) }
    }
}

impl From<BackendKind> for BackendChoice {
    fn from(kind: BackendKind) -> Self {
        Self::This(kind)
    }
}

/// Why a backend could not be loaded, or could not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// This build does not include the backend.
    #[error("this build has no backend `{name}`: build nae-infer with `--features {name}`", name = .0.name())]
    NotBuiltIn(BackendKind),
    /// The backend does not read this format.
    #[error("backend `{}` does not read .nae files: use `native`", .0.name())]
    NotOnnx(BackendKind),
    /// ONNX Runtime's library cannot be loaded.
    #[error(
        "cannot load ONNX Runtime from {}: {reason}. Set ORT_DYLIB_PATH to libonnxruntime.so (version 1.17 or \
         later), for example the one in the PyPI package `onnxruntime`",
        path.display()
    )]
    Library {
        /// The path or name that was tried.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// ONNX Runtime's library was built without an execution provider.
    #[error(
        "ONNX Runtime's library has no execution provider `{name}`: load one that was built with it, or take another",
        name = .0.name()
    )]
    NoProvider(ExecutionProvider),
    /// The backend does not support this model.
    #[error("backend `{}` cannot load the model: {reason}", backend.name())]
    Load {
        /// The backend.
        backend: BackendKind,
        /// What it said.
        reason: String,
    },
    /// The backend failed on an image.
    #[error("backend `{}` failed: {reason}", backend.name())]
    Run {
        /// The backend.
        backend: BackendKind,
        /// What it said.
        reason: String,
    },
}

/// The outputs of a network for a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reconstructions {
    /// Reconstructions, one after the other, channels first: of the images, or for a model of features, of the features.
    pub images: Vec<f32>,
    /// Latent vectors, one after the other, channels first. `None` if the model has no such output.
    pub latents: Option<Vec<f32>>,
    /// For a model of features, the features that were reconstructed, in the order of `images`. `None` for other models.
    pub features: Option<Vec<f32>>,
}

impl Reconstructions {
    /// Appends the outputs of the next images.
    #[cfg(any(feature = "tract", feature = "ort", feature = "simd"))]
    fn append(&mut self, next: Self) {
        self.images.extend(next.images);
        for (all, next) in [(&mut self.latents, next.latents), (&mut self.features, next.features)] {
            if let Some(next) = next {
                all.get_or_insert_default().extend(next);
            }
        }
    }
}

/// A runtime with one loaded network.
pub trait Backend: Send + Sync {
    /// The kind of this backend.
    fn kind(&self) -> BackendKind;

    /// Runs the network on images of its input shape, one after the other, channels first, in the model's range of values.
    /// `batch.len()` is a multiple of the length of an image.
    ///
    /// # Errors
    /// [`BackendError::Run`].
    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError>;
}

/// Options for loading a backend.
#[derive(Debug, Clone, Default)]
pub struct BackendOptions {
    /// The number of threads of ONNX Runtime. Other backends run in the caller's thread.
    pub threads: usize,
    /// The file of ONNX Runtime's library. By default it is the one that `ORT_DYLIB_PATH` names, or the system's.
    pub ort_library: Option<PathBuf>,
    /// ONNX Runtime's execution providers: each layer runs on the first of these that supports it, else on the processor.
    pub execution_providers: Vec<ExecutionProvider>,
}

/// Loads a backend by the rule `choice` for a model that has been checked. Its images have `length` values.
///
/// # Errors
/// The [`BackendError`] of the chosen backend, or of the first one that was tried. A panic of a backend is
/// [`BackendError::Load`].
pub fn load(
    file: &ModelFile,
    choice: BackendChoice,
    options: &BackendOptions,
    length: usize,
) -> Result<Arc<dyn Backend>, BackendError> {
    let begun = Instant::now();
    let backend = match choice {
        BackendChoice::This(kind) => load_this(file, kind, options),
        BackendChoice::Usual => load_usual(file, options),
        BackendChoice::Fastest => load_fastest(file, options, length).map_or_else(|| load_usual(file, options), Ok),
    }?;
    tracing::debug!(backend = backend.kind().name(), seconds = begun.elapsed().as_secs_f64(), "model loaded");
    Ok(backend)
}

/// The first of the preferred backends that loads the model, or else native. If none does, the error is that of the most
/// preferred one, which supports the most layers of autoencoders.
fn load_usual(file: &ModelFile, options: &BackendOptions) -> Result<Arc<dyn Backend>, BackendError> {
    let reads = |kind: &BackendKind| kind.is_built_in() && matches!(file.content(), Content::Onnx(..));
    let mut first = None;
    for kind in PREFERRED.into_iter().filter(reads) {
        match load_this(file, kind, options) {
            Ok(backend) => return Ok(backend),
            Err(error) => first = first.or(Some(error)),
        }
    }
    load_this(file, BackendKind::Native, options).map_err(|error| first.unwrap_or(error))
}

/// The same as [`load_kind`], but logs the error, since another backend may be tried next.
fn load_this(file: &ModelFile, kind: BackendKind, options: &BackendOptions) -> Result<Arc<dyn Backend>, BackendError> {
    load_kind(file, kind, options).inspect_err(|error| tracing::debug!(%error, "a backend does not take the model"))
}

#[cfg_attr(not(feature = "ort"), allow(unused_variables))]
fn load_kind(file: &ModelFile, kind: BackendKind, options: &BackendOptions) -> Result<Arc<dyn Backend>, BackendError> {
    if matches!(file.content(), Content::Nae) && kind != BackendKind::Native {
        return Err(BackendError::NotOnnx(kind));
    }
    match (kind, file.content()) {
        #[cfg(feature = "tract")]
        (BackendKind::Tract, Content::Onnx(model, _)) => {
            Ok(Arc::new(guarded(kind, false, || tract::Tract::load(file.bytes(), &model.graph))?))
        }
        #[cfg(feature = "ort")]
        (BackendKind::Ort, Content::Onnx(model, _)) => {
            Ok(Arc::new(guarded(kind, false, || ort::Ort::load(file.bytes(), &model.graph, options))?))
        }
        #[cfg(feature = "simd")]
        (BackendKind::Simd, Content::Onnx(model, _)) => Ok(Arc::new(guarded(kind, false, || simd::Simd::load(model))?)),
        (BackendKind::Native, _) => Ok(Arc::new(native::Native::load(file)?)),
        _ => Err(BackendError::NotBuiltIn(kind)),
    }
}

/// The fastest of the backends that load the model, for images of `length` values. `None` if none loads it.
fn load_fastest(file: &ModelFile, options: &BackendOptions, length: usize) -> Option<Arc<dyn Backend>> {
    /// The number of timed runs. The shortest counts, since the first runs warm up and the machine may be busy.
    const RUNS: usize = 5;
    let image = vec![0.5; length];
    let timed = |kind: BackendKind| {
        let backend = load_this(file, kind, options).ok()?;
        let run = |_| {
            let begun = Instant::now();
            backend.reconstruct(&image).ok().map(|_| begun.elapsed())
        };
        let shortest = (0..RUNS).map(run).collect::<Option<Vec<_>>>()?.into_iter().min()?;
        tracing::debug!(backend = kind.name(), seconds = shortest.as_secs_f64(), "tried on an image");
        Some((shortest, backend))
    };
    let fastest = BackendKind::ALL.into_iter().filter(|kind| kind.is_built_in()).filter_map(timed);
    fastest.min_by_key(|(time, _)| *time).map(|(_, backend)| backend)
}

/// Runs a backend's code and returns a panic in it as an error.
#[cfg(any(feature = "tract", feature = "ort", feature = "simd"))]
fn guarded<T>(
    backend: BackendKind,
    running: bool,
    f: impl FnOnce() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    // State that a panic leaves inconsistent is dropped with the error or never used again.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let reason = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let reason = format!("it panicked: {reason}");
        Err(if running { BackendError::Run { backend, reason } } else { BackendError::Load { backend, reason } })
    })
}

/// The outputs of an ONNX graph that are used: the reconstruction, and a second one.
#[cfg(any(feature = "tract", feature = "ort"))]
struct Outputs {
    reconstruction: String,
    /// The output [`FEATURES`](nae_onnx::autoencoder::FEATURES) if it is what is reconstructed, since energies are computed
    /// from it, or else [`LATENT`](nae_onnx::autoencoder::LATENT), if there is one.
    beside: Option<&'static str>,
    shape: Shape,
}

#[cfg(any(feature = "tract", feature = "ort"))]
impl Outputs {
    fn find(backend: BackendKind, graph: &nae_onnx::check::graph::OnnxGraph) -> Result<Self, BackendError> {
        let fail = |reason: String| BackendError::Load { backend, reason };
        let reconstruction = nae_onnx::lower::reconstruction(graph).map_err(|e| fail(e.to_string()))?;
        let shape = graph.sample_shape(graph.input).ok_or_else(|| fail("its input is not a batch of images".into()))?;
        if graph.values[graph.input].shape.len() != 4 {
            return Err(fail("its input is vectors, not images [N, C, H, W]".into()));
        }
        if let Some(batch) = graph.fixed_batch.filter(|&n| n != 1) {
            return Err(fail(format!(
                "it takes {batch} images at a time, no other number; export it with 1, or a symbol"
            )));
        }
        let beside = if nae_onnx::lower::reconstructs_features(graph) {
            Some(FEATURES)
        } else {
            graph.output(LATENT).map(|_| LATENT)
        };
        Ok(Self { reconstruction: reconstruction.to_owned(), beside, shape })
    }

    /// Assigns the outputs by their names.
    fn reconstructions(&self, images: Vec<f32>, beside: Option<Vec<f32>>) -> Reconstructions {
        match self.beside {
            Some(FEATURES) => Reconstructions { images, latents: None, features: beside },
            _ => Reconstructions { images, latents: beside, features: None },
        }
    }
}
