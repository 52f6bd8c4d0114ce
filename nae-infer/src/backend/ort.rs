//! ONNX Runtime. Its library is loaded at run time from the given path, else from that in `ORT_DYLIB_PATH`, else from the
//! system's library path.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use nae_onnx::check::graph::OnnxGraph;
use ort::environment::Environment;
use ort::ep::{self, ExecutionProviderDispatch};
use ort::session::Session;
use ort::value::TensorRef;

use super::{Backend, BackendError, BackendKind, BackendOptions, ExecutionProvider, Outputs, Reconstructions, guarded};

const KIND: BackendKind = BackendKind::Ort;

pub(super) struct Ort {
    /// A session runs one call at a time.
    session: Mutex<Session>,
    input: String,
    outputs: Outputs,
    fixed_batch: bool,
}

impl Ort {
    pub(super) fn load(bytes: &[u8], graph: &OnnxGraph, options: &BackendOptions) -> Result<Self, BackendError> {
        let fail = |e: ort::Error| BackendError::Load { backend: KIND, reason: e.to_string() };
        let outputs = Outputs::find(KIND, graph)?;
        let path = options
            .ort_library
            .clone()
            .or_else(|| std::env::var_os("ORT_DYLIB_PATH").filter(|p| !p.is_empty()).map(PathBuf::from))
            .unwrap_or_else(|| PathBuf::from("libonnxruntime.so"));
        let environment = environment(path)?;
        let builder = Session::builder(&environment).map_err(fail)?;
        let builder = builder.with_intra_threads(options.threads.max(1)).map_err(|e| fail(e.into()))?;
        let mut providers = Vec::with_capacity(options.execution_providers.len());
        for &provider in &options.execution_providers {
            providers.extend(dispatch(provider)?);
        }
        let mut builder = builder.with_execution_providers(providers).map_err(|e| fail(e.into()))?;
        let session = builder.commit_from_memory(bytes).map_err(fail)?;
        Ok(Self {
            session: Mutex::new(session),
            input: graph.values[graph.input].name.clone(),
            outputs,
            fixed_batch: graph.fixed_batch.is_some(),
        })
    }

    fn run(&self, batch: &[f32]) -> ort::Result<Reconstructions> {
        let s = self.outputs.shape;
        let n = batch.len() / s.len();
        let input = TensorRef::from_array_view(([n, s.channels, s.height, s.width], batch))?;
        // The session is usable after a panic in another thread.
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let results = session.run(ort::inputs![self.input.as_str() => input])?;
        let take = |name: &str| -> ort::Result<Vec<f32>> { Ok(results[name].try_extract_tensor::<f32>()?.1.to_vec()) };
        let beside = self.outputs.beside.map(take).transpose()?;
        Ok(self.outputs.reconstructions(take(&self.outputs.reconstruction)?, beside))
    }
}

/// The provider in the type of `ort`. `None` for the processor, which every session has.
fn dispatch(provider: ExecutionProvider) -> Result<Option<ExecutionProviderDispatch>, BackendError> {
    fn available<E: ep::ExecutionProvider + Into<ExecutionProviderDispatch>>(
        provider: ExecutionProvider,
        this: E,
    ) -> Result<Option<ExecutionProviderDispatch>, BackendError> {
        match E::is_available() {
            Ok(true) => Ok(Some(this.into().error_on_failure())),
            Ok(false) => Err(BackendError::NoProvider(provider)),
            Err(error) => Err(BackendError::Load { backend: KIND, reason: error.to_string() }),
        }
    }
    match provider {
        ExecutionProvider::Cpu => Ok(None),
        ExecutionProvider::Cuda => available(provider, ep::CUDA::default()),
        ExecutionProvider::TensorRt => available(provider, ep::TensorRT::default()),
        ExecutionProvider::OpenVino => available(provider, ep::OpenVINO::default()),
        ExecutionProvider::Qnn => available(provider, ep::QNN::default()),
        ExecutionProvider::Xnnpack => available(provider, ep::XNNPACK::default()),
        ExecutionProvider::CoreMl => available(provider, ep::CoreML::default()),
        ExecutionProvider::DirectMl => available(provider, ep::DirectML::default()),
        ExecutionProvider::MiGraphX => available(provider, ep::MIGraphX::default()),
    }
}

/// Initialises the environment, of which a process has one, with the first library.
fn environment(path: PathBuf) -> Result<Environment, BackendError> {
    static CURRENT: Mutex<Option<Environment>> = Mutex::new(None);
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*current {
        return Ok(environment.clone());
    }
    // `ort::init` panics without the library, `init_from` returns an error.
    let library = |reason: String| BackendError::Library { path: path.clone(), reason };
    let environment = ort::init_from(&path).map_err(|e| library(e.to_string()))?;
    let environment = environment.build().map_err(|e| library(e.to_string()))?;
    Ok(current.insert(environment).clone())
}

impl Backend for Ort {
    fn kind(&self) -> BackendKind {
        KIND
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        let at_once = if self.fixed_batch { 1 } else { 32 };
        let mut all = Reconstructions::default();
        for part in batch.chunks(at_once * self.outputs.shape.len()) {
            all.append(guarded(KIND, true, || {
                self.run(part).map_err(|e| BackendError::Run { backend: KIND, reason: e.to_string() })
            })?);
        }
        Ok(all)
    }
}
