//! One camera of the service: everything that is a camera's own, so that what happens to one is nothing to the others. What
//! cameras have in common is the pool of the `scorer`, and `http`.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::Notify;
use tokio::task;
use tracing::Span;

use super::alarms::Alarms;
use super::config::{CameraConfig, Config};
use super::day_night::{Condition, DayNight, PerCondition, Rule};
use super::deliver;
use super::history_file::Recorder;
use super::hours;
use super::in_use::InUse;
use super::keeper::{Adjustment, ChangeError, Opened};
use super::learn::{Learn, LearnError, Trainer};
use super::metrics::CameraMetrics;
use super::model::{Current, Models};
use super::monitor::{Event, Monitor};
use super::mqtt;
use super::own::{self, Own};
use super::queue::Queue;
use super::quiet::{Moment, Quiet};
use super::regions::{Regions, Sight};
use super::scorer::Lane;
use super::source::{self, Frame};

/// What to do where the regions are not those that the model knows.
const LEARN_AGAIN: &str = "the model in use has learned from frames of other regions, and its energies of these mean little: collect \
    frames and learn again";

/// A camera: where its frames come from, the model they are scored by, and what has come of them.
pub(crate) struct Camera {
    pub(crate) config: CameraConfig,
    /// The model in use, which is that of the day or of the night; none until one is learned, where the settings name none.
    pub(crate) model: Arc<Current>,
    /// Where its images wait to be scored.
    pub(crate) lane: Lane,
    pub(crate) frames: Arc<Queue<Frame>>,
    pub(crate) monitor: Arc<Monitor>,
    quiet: Arc<Quiet>,
    /// What of its frames the model sees.
    pub(crate) sight: Arc<Sight>,
    pub(crate) day_night: Arc<DayNight>,
    pub(crate) in_use: Arc<InUse>,
    /// What the model of the day, and that of the night, has for itself.
    own: PerCondition<Own>,
    /// Held while a frame is on its way: another model is in use between two only, so that each is of one from beginning to end.
    frame: Mutex<()>,
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
        let night = config.of_night();
        let day_night = Arc::new(DayNight::open(&config.state, config.night.clone()));
        make_room_for_night(&night, &day_night);
        let (night_base, why_missing) = own::open_night(&night, models);
        let in_use = Arc::new(InUse::new(Arc::clone(&model), Arc::clone(&monitor), why_missing));
        let shared = own::Shared { models, trainer, monitor: &monitor, sight: &sight, span: &span };
        let own = PerCondition {
            day: Own::open(&config, Condition::Day, base, &in_use, &shared)?,
            night: Own::open(&night, Condition::Night, night_base, &in_use, &shared)?,
        };
        drop(entered);
        let frames = Arc::new(Queue::new(config.queue));
        let reload = Notify::new();
        let camera = Self {
            config,
            model,
            lane,
            frames,
            monitor,
            quiet,
            sight,
            day_night,
            in_use,
            own,
            frame: Mutex::default(),
            alarms,
            metrics,
            span,
            reload,
        };
        camera.span.in_scope(|| camera.stand(Moment::now()));
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

    /// What the model of a condition has for itself.
    pub(crate) fn of(&self, condition: Condition) -> &Own {
        &self.own[condition]
    }

    /// What the model in use has for itself.
    pub(crate) fn of_in_use(&self) -> &Own {
        self.of(self.in_use.model_for())
    }

    /// All changes that people made to either model, the oldest first.
    pub(crate) fn adjustments(&self) -> Vec<Adjustment> {
        let mut all = Condition::ALL.map(|condition| self.of(condition).keeper.adjustments()).concat();
        // What is no time was written by nobody here; it stays where it is.
        all.sort_by_key(|adjustment| adjustment.time.parse::<Timestamp>().ok());
        all
    }

    /// Learning of either condition.
    pub(crate) fn learning(&self) -> [&Arc<Learn>; 2] {
        Condition::ALL.map(|condition| &self.of(condition).learn)
    }

    /// Opens the files of its models again, each of which is taken if it is fit to be.
    ///
    /// # Errors
    /// The first [`ChangeError`]; that model stays as it was.
    pub(crate) fn reload(&self) -> Result<(), ChangeError> {
        let [day, night] = Condition::ALL.map(|condition| self.of(condition).keeper.reload());
        let reloaded = match (day, night) {
            // There is but one file to open.
            (Err(ChangeError::NoModel(_)), Ok(())) => Ok(()),
            (day, Err(ChangeError::NoModel(_))) => day,
            (day, night) => day.and(night),
        };
        self.lane.reopen();
        reloaded
    }

    /// Makes the model that was learned here for a condition its own, if it is fit to be; `anyway` also where it calls anomalies what the
    /// one before calls normal.
    ///
    /// # Errors
    /// [`SwapError`]; the model before stays.
    pub(crate) fn swap(&self, condition: Condition, anyway: bool) -> Result<(), SwapError> {
        let Own { keeper, learn } = self.of(condition);
        let _acting = learn.acting();
        let (model, path) = learn.to_swap()?;
        let new = keeper.fit(path, !anyway)?;
        // Written down before: after a kill it is in use, as it was tried.
        learn.swapped(model)?;
        keeper.exchange(new);
        self.lane.reopen();
        Ok(())
    }

    /// Makes the model of a condition before that one its own again; none where there was none.
    ///
    /// # Errors
    /// [`SwapError`]; the model stays.
    pub(crate) fn roll_back(&self, condition: Condition) -> Result<(), SwapError> {
        let Own { keeper, learn } = self.of(condition);
        let _acting = learn.acting();
        // What it makes of recent frames was good enough before; only that it works is asked for.
        let before = learn.to_roll_back()?.map(|file| keeper.fit(file, false)).transpose()?;
        learn.rolled_back()?;
        keeper.go_back(before);
        self.lane.reopen();
        Ok(())
    }

    /// Holds other models off while a frame is on its way.
    pub(crate) fn on_its_way(&self) -> MutexGuard<'_, ()> {
        // There is nothing in it.
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before a frame is scored: has its light looked at, where day is told from night by that, and the model of the condition that
    /// holds be the one in use.
    pub(crate) fn before(&self, frame: &Frame, now: Moment) {
        self.day_night.look(&frame.bytes, frame.taken);
        self.stand(now);
    }

    /// Has the condition that holds begin also while no frames come. Where one is on its way, the next has it begin.
    pub(crate) fn attend_to_day_night(&self, now: Moment) {
        if let Ok(_between) = self.frame.try_lock() {
            self.stand(now);
        }
    }

    /// Has the model of the condition that holds in use, and learning know of it.
    fn stand(&self, now: Moment) {
        let standing = self.day_night.standing(now);
        if self.in_use.stand(standing) {
            // The other may have been given up.
            self.lane.reopen();
        }
        let holds = standing.map_or(Condition::Day, |standing| standing.condition);
        for condition in Condition::ALL {
            self.of(condition).learn.holds(condition == holds);
        }
    }

    /// Tells day from night by this rule, or by that of the settings.
    ///
    /// # Errors
    /// [`ChangeError::Kept`].
    pub(crate) fn set_day_night(&self, rule: Option<Rule>) -> Result<(), ChangeError> {
        let kept = self.day_night.set(rule);
        make_room_for_night(&self.config.of_night(), &self.day_night);
        let _between = self.on_its_way();
        self.stand(Moment::now());
        Ok(kept?)
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
        let learning = self.learning();
        let _acting = learning.map(|learn| learn.acting());
        if learning.iter().any(|learn| learn.is_collecting()) {
            return Err(ChangeError::Collecting);
        }
        let (before, models) = (self.sight.applied(), self.in_use.models());
        let digests = models.day.iter().chain(&models.night).map(|model| model.digest.as_str());
        let kept = self.sight.set(regions, digests);
        if self.sight.applied().digest() != before.digest() {
            self.monitor.regions_changed(&models);
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
        let learned_with = self.of(model.condition).learn.learned_with(&model.digest);
        self.sight.is_strange_to(&model.digest, learned_with.as_deref()).then_some(LEARN_AGAIN)
    }

    /// A frame was scored by the model of the digest `by`, or that model failed on it.
    pub(crate) fn scored(&self, by: &str, failure: Option<&str>) {
        // That of the other condition is not in use while a frame is on its way.
        let Own { keeper, learn } = self.of_in_use();
        if keeper.scored(by, failure) {
            learn.taken_back(failure.unwrap_or_default());
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

/// Where day and night are told apart, the night has a folder for what is its own.
fn make_room_for_night(night: &CameraConfig, day_night: &DayNight) {
    if day_night.rule().is_some()
        && let Err(error) = std::fs::create_dir_all(&night.state)
    {
        tracing::error!(%error, "no folder {}: what is changed for the night is not kept", night.state.display());
    }
}

/// Only hours ask for a time zone, and for a warning where there is none.
fn open_quiet(config: &CameraConfig) -> Quiet {
    let now = Moment::now();
    let zone = config.alarm_hours.as_ref().map_or(TimeZone::UTC, |_| hours::local_zone());
    if config.alarm_hours.is_some() {
        let local_time = zone.to_datetime(now.wall).strftime("%a %H:%M");
        tracing::info!(%local_time, "alarms are raised in the hours of the settings");
    }
    Quiet::open(&config.state, config.alarm_hours.clone(), zone, now)
}
