//! Which file a model is opened from when the service starts: that which was learned at the camera, that of the settings, or the copy
//! of the last that worked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nae_infer::OpenError;

use super::super::config::CameraConfig;
use super::super::model::{Model, Models};

/// A model, and the file that it is of: that of the settings, or one that was learned at the camera.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) model: Arc<Model>,
    pub(crate) path: PathBuf,
}

/// Opens the model that was learned at the camera, if there is one, else that of the settings; if its file is no model any more, the
/// copy of the last that was. None where the settings name none.
///
/// # Errors
/// [`OpenError`] where the settings name one, and there is none of these.
pub(crate) fn open(
    config: &CameraConfig,
    learned: Option<PathBuf>,
    models: &Models,
) -> Result<Option<Opened>, OpenError> {
    if let Some(path) = learned {
        match models.open(&path, config) {
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

/// The copy of the last model of this file, that of the settings, that could be opened.
pub(super) fn last_good(config: &CameraConfig, model: &Path) -> PathBuf {
    // The name of the model is in it, so that another model's copy is not taken for this one's.
    let name = crc32fast::hash(model.as_os_str().as_encoded_bytes());
    config.state.join(format!("last-good-{name:08x}"))
}
