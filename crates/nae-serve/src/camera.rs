//! One camera of the service: everything that is a camera's own, so that what happens to one is nothing to the others. What
//! cameras have in common is the pool of the `scorer`, and `http`.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use jiff::tz::TimeZone;
use tokio::sync::Notify;
use tokio::task;
use tracing::Span;

use super::alarms::Alarms;
use super::config::{CameraConfig, Config};
use super::deliver;
use super::history_file::Recorder;
use super::keeper::{ChangeError, Keeper, Opened};
use super::learn::{Learn, LearnError, Trainer};
use super::metrics::CameraMetrics;
use super::model::{Current, Models};
use super::monitor::{Event, Monitor};
use super::mqtt;
use super::queue::Queue;
use super::quiet::{self, Moment, Quiet};
use super::regions::{Regions, Sight};
use super::scorer::Lane;
use super::source::{self, Frame};

/// What to do where the regions are not those that the model knows.
const LEARN_AGAIN: &str = "the model in use has learned from frames of other regions, and its energies of these mean little: collect \
    frames and learn again";

/// A camera: where its frames come from, the model they are scored by, and what has come of them.
pub(crate) struct Camera {
    pub(crate) config: CameraConfig,
    /// None until one is learned, where the settings name none.
    pub(crate) model: Arc<Current>,
    /// Where its images wait to be scored.
    pub(crate) lane: Lane,
    pub(crate) frames: Arc<Queue<Frame>>,
    pub(crate) monitor: Arc<Monitor>,
    quiet: Arc<Quiet>,
    /// What of its frames the model sees.
    pub(crate) sight: Arc<Sight>,
    pub(crate) keeper: Keeper,
    pub(crate) learn: Arc<Learn>,
    pub(crate) alarms: Alarms,
    pub(crate) metrics: Arc<CameraMetrics>,
    /// Names it in the log.
    pub(crate) span: Span,
    /// Its model's file is to be opened again.
    pub(crate) reload: Notify,
}

/// What a camera is opened with.
pub(crate) struct Parts {
    /// The model as its file is, if there is one.
    pub(crate) base: Option<Opened>,
    /// Where the one in use is kept, at which `lane` looks.
    pub(crate) model: Arc<Current>,
    pub(crate) lane: Lane,
    pub(crate) metrics: CameraMetrics,
    /// Keeps what becomes of it on disk.
    pub(crate) recorder: Recorder,
}

/// Why a model that was learned did not take over, or the one before did not come back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SwapError {
    #[error(transparent)]
    Learn(#[from] LearnError),
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// What goes on beside a camera, and comes to its end after it.
#[derive(Default)]
pub(crate) struct Beside {
    /// A thread for each receiver of alarms.
    pub(crate) deliveries: Vec<JoinHandle<()>>,
    /// The connection to the broker.
    pub(crate) link: Option<task::JoinHandle<()>>,
}

impl Camera {
    /// Opens what it keeps, begins to deliver the alarms that wait, and goes on with what it learns; frames are not taken yet.
    ///
    /// # Errors
    /// If its folder of the state cannot be read or written, or the system gives no thread.
    pub(crate) fn open(
        config: CameraConfig,
        service: &Config,
        models: &Arc<Models>,
        trainer: &Arc<Trainer>,
        Parts { base, model, lane, metrics, recorder }: Parts,
    ) -> anyhow::Result<(Self, Beside)> {
        let span = tracing::error_span!("camera", name = %config.name);
        let entered = span.clone().entered();
        let in_state = |folder: &Path| format!("camera `{}`: its state in {}", config.name, folder.display());
        let metrics = Arc::new(metrics);
        let quiet = Arc::new(open_quiet(&config));
        let sight = Arc::new(Sight::open(&config.state, config.regions.clone()));
        let first = base.as_ref().map(|base| &*base.model);
        let monitor = Monitor::new(config.alarm, Arc::clone(&quiet), Arc::clone(&sight), first, Arc::clone(&metrics))?;
        let monitor = Arc::new(monitor.recorded(recorder.clone()));
        let mut receivers = deliver::receivers(service);
        let mut link = None;
        if let Some(broker) = &config.mqtt {
            let (receiver, task) =
                mqtt::start(broker, &service.state, &monitor, &metrics).with_context(|| in_state(&service.state))?;
            receivers.push(receiver);
            link = Some(task);
        }
        let (alarms, deliveries) =
            Alarms::open(&config, receivers, &metrics, recorder).with_context(|| in_state(&config.state))?;
        let learn =
            Learn::open(config.clone(), Arc::clone(models), Arc::clone(trainer), Arc::clone(&sight), span.clone())
                .with_context(|| in_state(&config.state))?;
        let learn = Arc::new(learn);
        learn.start(base.as_ref().map(|base| base.path.as_path()));
        let (current, watching) = (Arc::clone(&model), Arc::clone(&monitor));
        let keeper = Keeper::start(config.clone(), Arc::clone(models), base, current, watching, Arc::clone(&sight))
            .with_context(|| in_state(&config.state))?;
        drop(entered);
        let frames = Arc::new(Queue::new(config.queue));
        let reload = Notify::new();
        let camera =
            Self { config, model, lane, frames, monitor, quiet, sight, keeper, learn, alarms, metrics, span, reload };
        if let Some(warning) = camera.regions_warning() {
            camera.span.in_scope(|| tracing::warn!("{warning}"));
        }
        Ok((camera, Beside { deliveries, link }))
    }

    /// Starts to take frames; the thread is given back where it is to be waited for.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn watch(&self) -> std::io::Result<Option<JoinHandle<()>>> {
        let _entered = self.span.enter();
        source::spawn(self.config.source.clone(), Arc::clone(&self.frames), Arc::clone(&self.monitor))
    }

    /// Opens its model's file again and takes the model if it is fit to.
    ///
    /// # Errors
    /// [`ChangeError`]; the model in use stays.
    pub(crate) fn reload(&self) -> Result<(), ChangeError> {
        self.keeper.reload()?;
        self.lane.reopen();
        Ok(())
    }

    /// Makes the model that was learned here the one in use, if it is fit to; `anyway` also where it calls anomalies what the one
    /// before calls normal.
    ///
    /// # Errors
    /// [`SwapError`]; the model in use stays.
    pub(crate) fn swap(&self, anyway: bool) -> Result<(), SwapError> {
        let _acting = self.learn.acting();
        let (model, path) = self.learn.to_swap()?;
        let new = self.keeper.fit(path, !anyway)?;
        // Written down before: after a kill it is in use, as it was tried.
        self.learn.swapped(model)?;
        self.keeper.exchange(new);
        self.lane.reopen();
        Ok(())
    }

    /// Makes the model before that one the one in use again; none where there was none.
    ///
    /// # Errors
    /// [`SwapError`]; the model in use stays.
    pub(crate) fn roll_back(&self) -> Result<(), SwapError> {
        let _acting = self.learn.acting();
        // What it makes of recent frames was good enough before; only that it works is asked for.
        let before = self.learn.to_roll_back()?.map(|file| self.keeper.fit(file, false)).transpose()?;
        self.learn.rolled_back()?;
        self.keeper.go_back(before);
        self.lane.reopen();
        Ok(())
    }

    /// Raises no alarms for this time, or until they are resumed; one that is up is cleared.
    ///
    /// # Errors
    /// [`ChangeError::Kept`].
    pub(crate) fn pause(&self, length: Option<Duration>) -> Result<(), ChangeError> {
        let now = Moment::now();
        let kept = self.quiet.pause(length, now);
        self.monitor.attend(now);
        Ok(kept?)
    }

    /// Raises alarms again, in the hours of the settings.
    ///
    /// # Errors
    /// [`ChangeError::Kept`].
    pub(crate) fn resume(&self) -> Result<(), ChangeError> {
        let now = Moment::now();
        let kept = self.quiet.resume(now);
        self.monitor.attend(now);
        Ok(kept?)
    }

    /// Has the model see by these regions from the next frame on, or by those of the settings. An alarm that is up is cleared.
    ///
    /// # Errors
    /// [`ChangeError::Collecting`], and nothing is changed; [`ChangeError::Kept`].
    pub(crate) fn set_regions(&self, regions: Option<Regions>) -> Result<(), ChangeError> {
        let _acting = self.learn.acting();
        if self.learn.is_collecting() {
            return Err(ChangeError::Collecting);
        }
        let (before, model) = (self.sight.applied(), self.model.load_full());
        let kept = self.sight.set(regions, model.as_ref().map(|model| model.digest.as_str()));
        if self.sight.applied().digest() != before.digest() {
            self.monitor.regions_changed(model.as_deref());
        } else {
            self.monitor.tell(Event::Regions);
        }
        tracing::info!(regions = self.sight.applied().regions().len(), "regions were set");
        if let Some(warning) = self.regions_warning() {
            tracing::warn!("{warning}");
        }
        Ok(kept?)
    }

    /// What is to be done where the model in use knows frames of other regions.
    pub(crate) fn regions_warning(&self) -> Option<&'static str> {
        let model = self.model.load_full()?;
        let learned_with = self.learn.learned_with(&model.digest);
        self.sight.is_strange_to(&model.digest, learned_with.as_deref()).then_some(LEARN_AGAIN)
    }

    /// A frame was scored, or the model failed on it.
    pub(crate) fn scored(&self, failure: Option<&str>) {
        if self.keeper.scored(failure) {
            self.learn.taken_back(failure.unwrap_or_default());
        }
    }

    /// Brings what waits and what was lost into the figures.
    pub(crate) fn measure(&self) {
        self.metrics.waiting.set((self.lane.waiting() + self.frames.len()) as i64);
        self.metrics.stuck.set(self.lane.stuck() as i64);
        self.metrics.scoring.set(i64::from(self.lane.is_working()));
        self.alarms.measure();
    }
}

/// Only hours ask for a time zone, and for a warning where there is none.
fn open_quiet(config: &CameraConfig) -> Quiet {
    let now = Moment::now();
    let zone = config.alarm_hours.as_ref().map_or(TimeZone::UTC, |_| quiet::local_zone());
    if config.alarm_hours.is_some() {
        let local_time = zone.to_datetime(now.wall).strftime("%a %H:%M");
        tracing::info!(%local_time, "alarms are raised in the hours of the settings");
    }
    Quiet::open(&config.state, config.alarm_hours.clone(), zone, now)
}
