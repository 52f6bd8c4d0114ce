//! Which part of a camera's picture its model sees: polygons that are included or ignored, applied between decoding a frame and
//! preparing it for the network. `polygon` is one of them, `list` all of a camera, `view` what they leave of frames of one size,
//! `kept` what is on disk. Everything that scores or keeps frames of a camera has them from its [`Sight`]: the scorer, a model
//! beside, a model that is tried, the frames to train on. Pictures for people are whole.

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

/// Sizes of frames whose view is kept. A camera has one, and another after it was set otherwise.
const SIZES: usize = 4;

/// Models of which it is noted what regions there were before they were changed. Few are in use in turn.
const MODELS: usize = 8;

/// The regions in use, with what they leave of frames.
#[derive(Debug)]
pub(crate) struct Applied {
    regions: Regions,
    digest: String,
    /// The one asked for last in the end.
    views: Mutex<Vec<Arc<View>>>,
}

impl Applied {
    pub(crate) fn new(regions: Regions) -> Arc<Self> {
        Arc::new(Self { digest: regions.digest(), regions, views: Mutex::default() })
    }

    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The same for all by which a model sees the same.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// What a model sees of a frame.
    ///
    /// # Errors
    /// [`NothingSeen`].
    pub(crate) fn look(&self, pixels: Pixels) -> Result<Seen, NothingSeen> {
        if self.regions.is_empty() {
            return Ok(Seen::whole(pixels));
        }
        let view = self.view((pixels.shape.width, pixels.shape.height))?;
        Ok(Seen { pixels: view.apply(&pixels), view: Some(view) })
    }

    /// Made once for each size: every frame of a camera asks for it.
    fn view(&self, frame: (usize, usize)) -> Result<Arc<View>, NothingSeen> {
        let views = || self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views().iter().find(|view| view.frame() == frame) {
            return Ok(Arc::clone(view));
        }
        // Outside the lock: of two that come at once each makes its own, which is no harm.
        let view = Arc::new(View::new(&self.regions, frame)?);
        let mut views = views();
        if views.len() == SIZES {
            views.remove(0);
        }
        views.push(Arc::clone(&view));
        Ok(view)
    }
}

/// Where the regions in use are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// The settings.
    Settings,
    /// Somebody set them on the page or by HTTP.
    Kept,
}

/// What a camera's model sees of its frames: the regions in use, and what was set in place of those of the settings, which is kept.
pub(crate) struct Sight {
    current: ArcSwap<Applied>,
    of_settings: Regions,
    file: PathBuf,
    /// Locked while it is written, so that the file has what was set last; frames do not wait for the disk.
    kept: Mutex<Kept>,
}

impl Sight {
    /// As what is kept in `folder` says, or else the settings. What is kept and cannot be read is as if it were not.
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
        // Each of its fields is whole at any time.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The regions in use.
    pub(crate) fn applied(&self) -> Arc<Applied> {
        self.current.load_full()
    }

    /// Whether these are in use.
    pub(crate) fn is_current(&self, applied: &Arc<Applied>) -> bool {
        Arc::ptr_eq(&self.current.load(), applied)
    }

    pub(crate) fn origin(&self) -> Origin {
        if self.kept().regions.is_some() { Origin::Kept } else { Origin::Settings }
    }

    /// Uses these from the next frame on, or those of the settings. `models` are in use by now, or may be.
    ///
    /// # Errors
    /// They cannot be kept, and hold until the service stops.
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
        // What is the same stays, with what was computed of it.
        if *used != before.regions {
            self.current.store(Applied::new(used.clone()));
        }
        kept::write(&self.file, &kept)
    }

    /// Whether this model, which is in use, knows frames of other regions: of those that its own were `learned_with`, or if that is not
    /// known, of those that were in use before they were changed under it.
    pub(crate) fn is_strange_to(&self, model: &str, learned_with: Option<&str>) -> bool {
        let kept = self.kept();
        let before = kept.before.iter().find(|before| before.model == model).map(|before| before.regions.as_str());
        learned_with.or(before).is_some_and(|known| known != self.current.load().digest)
    }
}

#[cfg(test)]
mod tests;
