//! The part of a camera's picture that its model sees: included or ignored polygons, applied between decoding a frame
//! and preparing it for the network. `polygon` is one of them, `list` has all of a camera, `view` is their effect on
//! frames of one size, `kept` stores them on disk. Everything that scores or stores frames of a camera takes them from
//! its [`Sight`]: the scorer, a model that is tested beside it, a new model, the frames to train on. Pictures for
//! people show the whole frame.

mod kept;
mod list;
mod polygon;
mod view;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use nae_infer::input::Pixels;
use nae_onnx::file::FileError;
use serde::Serialize;

use kept::{Before, Kept};
pub(crate) use list::{Regions, Wanted};
pub(crate) use view::{NothingSeen, Seen, View};

/// The number of frame sizes whose view is kept. A camera has one, and another after a change of its settings.
const SIZES: usize = 4;

/// The number of models for which the regions before a change are stored. A camera rarely alternates between more.
const MODELS: usize = 8;

/// The regions in use, with their effect on frames.
#[derive(Debug)]
pub(crate) struct Applied {
    regions: Regions,
    digest: String,
    /// The most recently used one is the last.
    views: Mutex<Vec<Arc<View>>>,
}

impl Applied {
    pub(crate) fn new(regions: Regions) -> Arc<Self> {
        Arc::new(Self { digest: regions.digest(), regions, views: Mutex::default() })
    }

    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// A digest that is equal for regions with the same effect.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Applies the regions to a frame.
    ///
    /// # Errors
    /// [`NothingSeen`] if they leave no pixel.
    pub(crate) fn look(&self, pixels: Pixels) -> Result<Seen, NothingSeen> {
        if self.regions.is_empty() {
            return Ok(Seen::whole(pixels));
        }
        let view = self.view((pixels.shape.width, pixels.shape.height))?;
        Ok(Seen { pixels: view.apply(&pixels), view: Some(view) })
    }

    /// Computed once for each size, since every frame of a camera needs it.
    fn view(&self, frame: (usize, usize)) -> Result<Arc<View>, NothingSeen> {
        let views = || self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views().iter().find(|view| view.frame() == frame) {
            return Ok(Arc::clone(view));
        }
        // Outside the lock: two simultaneous calls compute it twice, which does no harm.
        let view = Arc::new(View::new(&self.regions, frame)?);
        let mut views = views();
        if views.len() == SIZES {
            views.remove(0);
        }
        views.push(Arc::clone(&view));
        Ok(view)
    }
}

/// The origin of the regions in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// The settings.
    Settings,
    /// A user set them on the page or by HTTP.
    Kept,
}

/// The part of frames that a camera's model sees: the regions in use, and those that a user set in place of the
/// settings', which are stored.
pub(crate) struct Sight {
    current: ArcSwap<Applied>,
    of_settings: Regions,
    file: PathBuf,
    /// Locked while the file is written, so that the last state is in it; frames do not wait for the disk.
    kept: Mutex<Kept>,
}

impl Sight {
    /// Opens the state stored in `folder`; without one, the regions are those of the settings. A file that cannot be
    /// read is treated as missing.
    pub(crate) fn open(folder: &Path, of_settings: Regions) -> Self {
        let file = folder.join("regions.json");
        let kept = kept::read(&file).unwrap_or_else(|error| {
            tracing::error!(error, "the regions that were set are not known: those of the settings are used");
            Kept::default()
        });
        if kept.regions.is_some() {
            tracing::info!("the regions are those that were set on the page or by HTTP, whatever the settings say");
        }
        let regions = kept.regions.clone().unwrap_or_else(|| of_settings.clone());
        Self { current: ArcSwap::new(Applied::new(regions)), of_settings, file, kept: Mutex::new(kept) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each field is consistent at any time.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The regions in use.
    pub(crate) fn applied(&self) -> Arc<Applied> {
        self.current.load_full()
    }

    /// Whether these regions are in use.
    pub(crate) fn is_current(&self, applied: &Arc<Applied>) -> bool {
        Arc::ptr_eq(&self.current.load(), applied)
    }

    pub(crate) fn origin(&self) -> Origin {
        if self.kept().regions.is_some() { Origin::Kept } else { Origin::Settings }
    }

    /// Sets the regions from the next frame on; `None` restores those of the settings. `models` are the models that are
    /// in use or may be.
    ///
    /// # Errors
    /// If they cannot be stored; they hold until the service stops.
    pub(crate) fn set<'a>(
        &self,
        regions: Option<Regions>,
        models: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), FileError> {
        let mut kept = self.kept();
        let before = self.applied();
        for model in models {
            if kept.before.iter().any(|before| before.model == model) {
                continue;
            }
            kept.before.push(Before { model: model.to_owned(), regions: before.digest.clone() });
            let old = kept.before.len().saturating_sub(MODELS);
            kept.before.drain(..old);
        }
        kept.regions = regions;
        let used = kept.regions.as_ref().unwrap_or(&self.of_settings);
        // Unchanged regions stay, with the computed views.
        if *used != before.regions {
            self.current.store(Applied::new(used.clone()));
        }
        kept::write(&self.file, &kept)
    }

    /// Whether this model in use was trained on frames of other regions: those that it was `learned_with`, or if that
    /// is unknown, those that were in use before they were changed under it.
    pub(crate) fn is_strange_to(&self, model: &str, learned_with: Option<&str>) -> bool {
        let kept = self.kept();
        let before = kept.before.iter().find(|before| before.model == model).map(|before| before.regions.as_str());
        learned_with.or(before).is_some_and(|known| known != self.current.load().digest)
    }
}

#[cfg(test)]
mod tests;
