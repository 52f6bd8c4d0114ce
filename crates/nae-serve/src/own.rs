//! The parts that each of a camera's two models has: its file and possible replacements, the changes that people made
//! to it, and what is learned for it. The model of the night is opened like that of the day, in a separate folder, and
//! the camera works without it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use tracing::Span;

use super::config::CameraConfig;
use super::day_night::Condition;
use super::in_use::InUse;
use super::keeper::{self, Keeper, Opened};
use super::learn::{self, Learn, Trainer};
use super::model::Models;
use super::monitor::Monitor;
use super::regions::Sight;

/// The parts of one of the two models.
pub(crate) struct Own {
    pub(crate) keeper: Keeper,
    pub(crate) learn: Arc<Learn>,
}

/// The parts that the two models of a camera share.
pub(crate) struct Shared<'a> {
    pub(crate) models: &'a Arc<Models>,
    pub(crate) trainer: &'a Arc<Trainer>,
    pub(crate) monitor: &'a Arc<Monitor>,
    pub(crate) sight: &'a Arc<Sight>,
    pub(crate) span: &'a Span,
}

impl Own {
    /// Continues interrupted learning, and makes `base` the model of this condition, with the changes that were made to
    /// it.
    ///
    /// # Errors
    /// If its state folder cannot be read.
    pub(crate) fn open(
        config: &CameraConfig,
        condition: Condition,
        base: Option<Opened>,
        in_use: &Arc<InUse>,
        Shared { models, trainer, monitor, sight, span }: &Shared<'_>,
    ) -> anyhow::Result<Self> {
        let in_state = |folder: &Path| format!("camera `{}`: its state in {}", config.name, folder.display());
        let (models, trainer) = (Arc::clone(models), Arc::clone(trainer));
        let learn = Learn::open(config.clone(), Arc::clone(&models), trainer, Arc::clone(sight), (*span).clone())
            .with_context(|| in_state(&config.state))?;
        let learn = Arc::new(learn);
        learn.start(base.as_ref().map(|base| base.path.as_path()));
        let (in_use, monitor) = (Arc::clone(in_use), Arc::clone(monitor));
        let keeper = Keeper::start(config.clone(), models, base, condition, in_use, monitor, Arc::clone(sight));
        Ok(Self { keeper, learn })
    }
}

/// Opens the model for the night, if there is one; otherwise, the second value is the reason if one should have been
/// opened. A failure does not prevent the service from starting: it is better to watch a camera with the model of the
/// day alone than not at all.
pub(crate) fn open_night(config: &CameraConfig, models: &Models) -> (Option<Opened>, Option<String>) {
    let learned = learn::model_in_use(config);
    let was_learned = learned.is_some();
    let opened = keeper::open(config, learned, models);
    let usable = opened.map_err(|error| error.to_string()).and_then(|opened| match opened {
        Some(Opened { model, path }) if model.detector.settings().columns.is_some() => {
            Err(format!("{}: this is a model of tables; the service takes images", path.display()))
        }
        opened => Ok(opened),
    });
    match usable {
        Ok(None) if was_learned => (None, Some("the model that was learned for the night cannot be opened".to_owned())),
        Ok(opened) => (opened, None),
        Err(reason) => {
            tracing::error!(reason, "there is no model for the night: that of the day is used at night, too");
            (None, Some(reason))
        }
    }
}
