//! Selects the file from which a model is opened at the start: the model learned at the camera, that of the settings,
//! or the copy of the last one that worked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nae_infer::OpenError;

use super::super::config::CameraConfig;
use super::super::model::{Model, Models};

/// A model and its file: that of the settings, or one that was learned at the camera.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) model: Arc<Model>,
    pub(crate) path: PathBuf,
}

/// Opens the model that was learned at the camera, if there is one, else that of the settings; if its file is no longer
/// a valid model, opens the copy of the last valid one. `None` if the settings name none.
///
/// # Errors
/// [`OpenError`] if the settings name a model, and none of these can be opened.
pub(crate) fn open(
    config: &CameraConfig,
    learned: Option<PathBuf>,
    models: &Models,
) -> Result<Option<Opened>, OpenError> {
    if let Some(path) = learned {
        match models.open_learned(&path, config) {
            Ok(model) => return Ok(Some(Opened { model, path })),
            Err(error) => tracing::error!(%error, "the model that was learned here cannot be opened"),
        }
    }
    let Some(path) = config.model.clone() else { return Ok(None) };
    let error = match models.open(&path, config) {
        Ok(model) => return Ok(Some(Opened { model, path })),
        Err(error) => error,
    };
    let last_good = last_good(config, &path);
    match models.open(&last_good, config) {
        Ok(model) => {
            tracing::error!(%error, "the model cannot be opened; the last that could is used, from a copy");
            Ok(Some(Opened { model, path }))
        }
        Err(copy) => {
            if last_good.exists() {
                tracing::warn!(error = %copy, "nor can the copy of the last model that could be opened");
            }
            Err(error)
        }
    }
}

/// The path of the copy of the last model in this file of the settings that could be opened.
pub(super) fn last_good(config: &CameraConfig, model: &Path) -> PathBuf {
    // The name depends on the model's path, so that the copy of another model is not used for this one.
    let name = crc32fast::hash(model.as_os_str().as_encoded_bytes());
    config.state.join(format!("last-good-{name:08x}"))
}
