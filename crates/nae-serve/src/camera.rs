//! One camera of the service, with everything that belongs to it alone, so that a failure of one camera does not affect
//! the others. Cameras share only the pool of threads of `scorer`, and `http`.

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

/// The advice if the current regions differ from those of the frames that the model was trained on.
const LEARN_AGAIN: &str = "the model in use has learned from frames of other regions, and its energies of these mean little: collect \
    frames and learn again";

/// A camera: its source, its models, and its state.
pub(crate) struct Camera {
    pub(crate) config: CameraConfig,
    /// The model in use, which is that of the day or of the night; `None` until one is learned if the settings name
    /// none.
    pub(crate) model: Arc<Current>,
    /// The queue of its images for the scorer.
    pub(crate) lane: Arc<Lane>,
    pub(crate) frames: Arc<Queue<Frame>>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) quiet: Arc<Quiet>,
    /// The regions that limit what the model sees of a frame.
    pub(crate) sight: Arc<Sight>,
    pub(crate) day_night: Arc<DayNight>,
    pub(crate) in_use: Arc<InUse>,
    /// What belongs to the model of the day and to that of the night.
    own: PerCondition<Own>,
    /// Held while a frame is processed, so that the model of the other condition comes into use only between two frames.
    /// The model of a condition may be exchanged meanwhile: whoever takes a score checks which model it is of.
    frame: Mutex<()>,
    pub(crate) alarms: Alarms,
    pub(crate) metrics: Arc<CameraMetrics>,
    /// The span that names the camera in the log.
    pub(crate) span: Span,
    /// Requests that its models' files be opened again.
    pub(crate) reload: Notify,
}

/// The parts from which a camera is opened.
pub(crate) struct Parts {
    /// The model as it is in its file, without adjustments, if there is one.
    pub(crate) base: Option<Opened>,
    /// The model in use, which `lane` reads.
    pub(crate) model: Arc<Current>,
    pub(crate) lane: Lane,
    pub(crate) metrics: CameraMetrics,
    /// Writes its history to disk.
    pub(crate) recorder: Recorder,
}

/// The reason why a learned model was not taken into use, or the previous one was not restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SwapError {
    #[error(transparent)]
    Learn(#[from] LearnError),
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// The threads and tasks that run beside a camera, and end after it.
#[derive(Default)]
pub(crate) struct Beside {
    /// The threads that deliver alarms, one for each receiver.
    pub(crate) deliveries: Vec<JoinHandle<()>>,
    /// The task of the connection to the broker.
    pub(crate) link: Option<task::JoinHandle<()>>,
}

impl Camera {
    /// Opens the camera's stored state, starts to deliver pending alarms, and continues interrupted learning. Frames
    /// are not taken yet.
    ///
    /// # Errors
    /// If its state folder cannot be read or written, or the system cannot start a thread.
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
        let lane = Arc::new(lane);
        let in_use = InUse::new(Arc::clone(&model), Arc::clone(&monitor), why_missing);
        let in_use = Arc::new(in_use.scored_in(Arc::clone(&lane)));
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

    /// Starts to take frames. Returns the thread if the caller has to wait for its end.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn watch(&self) -> std::io::Result<Option<JoinHandle<()>>> {
        let _entered = self.span.enter();
        source::spawn(self.config.source.clone(), Arc::clone(&self.frames), Arc::clone(&self.monitor))
    }

    /// What belongs to the model of a condition.
    pub(crate) fn of(&self, condition: Condition) -> &Own {
        &self.own[condition]
    }

    /// What belongs to the model in use.
    pub(crate) fn of_in_use(&self) -> &Own {
        self.of(self.in_use.model_for())
    }

    /// All changes that people made to either model, the oldest first.
    pub(crate) fn adjustments(&self) -> Vec<Adjustment> {
        let mut all = Condition::ALL.map(|condition| self.of(condition).keeper.adjustments()).concat();
        // A time that does not parse was not written by this service; it sorts before all others.
        all.sort_by_key(|adjustment| adjustment.time.parse::<Timestamp>().ok());
        all
    }

    /// The learning of both conditions.
    pub(crate) fn learning(&self) -> [&Arc<Learn>; 2] {
        Condition::ALL.map(|condition| &self.of(condition).learn)
    }

    /// Opens the files of both models again and takes each model into use if it passes its test.
    ///
    /// # Errors
    /// The first [`ChangeError`]; that model is not changed.
    pub(crate) fn reload(&self) -> Result<(), ChangeError> {
        let [day, night] = Condition::ALL.map(|condition| {
            let Own { keeper, learn } = self.of(condition);
            // A swap during the trial of the file would be undone by the exchange after it.
            let _acting = learn.acting();
            keeper.reload()
        });
        let reloaded = match (day, night) {
            // Only one of the two has a file to open.
            (Err(ChangeError::NoModel(_)), Ok(())) => Ok(()),
            (day, Err(ChangeError::NoModel(_))) => day,
            (day, night) => day.and(night),
        };
        // Also if the file was refused: whoever asks for a reload wants the model in use to be tried again.
        let was_working = self.lane.is_working();
        self.lane.reopen();
        if !was_working && self.lane.is_working() {
            self.monitor.tell(Event::Model);
        }
        reloaded
    }

    /// Takes the model that was learned for a condition into use, if it passes its test. With `anyway`, it is also
    /// taken if it calls frames anomalies that the previous one calls normal.
    ///
    /// # Errors
    /// [`SwapError`]; the previous model stays in use.
    pub(crate) fn swap(&self, condition: Condition, anyway: bool) -> Result<(), SwapError> {
        let Own { keeper, learn } = self.of(condition);
        let _acting = learn.acting();
        let (model, path) = learn.to_swap()?;
        let new = keeper.fit(path, !anyway)?;
        // Recorded first, so that the model is in use after a crash, too; it has passed its test.
        learn.swapped(model)?;
        keeper.exchange(new);
        Ok(())
    }

    /// Restores the previous model of a condition, or no model if there was none before.
    ///
    /// # Errors
    /// [`SwapError`]; the model in use stays.
    pub(crate) fn roll_back(&self, condition: Condition) -> Result<(), SwapError> {
        let Own { keeper, learn } = self.of(condition);
        let _acting = learn.acting();
        // Its verdicts on recent frames were accepted before; this tests only that it works.
        let before = learn.to_roll_back()?.map(|file| keeper.fit(file, false)).transpose()?;
        learn.rolled_back()?;
        keeper.go_back(before);
        Ok(())
    }

    /// Prevents a change between day and night while a frame is processed.
    pub(crate) fn on_its_way(&self) -> MutexGuard<'_, ()> {
        // A poisoned lock does no harm: it contains no data.
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares for the scoring of a frame: measures its light if the rule for day and night needs that, and takes the
    /// model of the current condition into use.
    pub(crate) fn before(&self, frame: &Frame, now: Moment) {
        self.day_night.look(&frame.bytes, frame.taken);
        self.stand(now);
    }

    /// Applies a change between day and night also if no frames come. If a frame is being processed, the next frame
    /// applies it.
    pub(crate) fn attend_to_day_night(&self, now: Moment) {
        if let Ok(_between) = self.frame.try_lock() {
            self.stand(now);
        }
    }

    /// Takes the model of the current condition into use, and tells the learning of both which one is current.
    fn stand(&self, now: Moment) {
        let standing = self.day_night.standing(now);
        self.in_use.stand(standing);
        let holds = standing.map_or(Condition::Day, |standing| standing.condition);
        for condition in Condition::ALL {
            self.of(condition).learn.holds(condition == holds);
        }
    }

    /// Sets the rule that distinguishes day from night; `None` restores that of the settings.
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

    /// Suspends alarms for this time, or until [`resume`](Self::resume) if `None`; an active alarm is cleared.
    ///
    /// # Errors
    /// [`ChangeError::Kept`].
    pub(crate) fn pause(&self, length: Option<Duration>) -> Result<(), ChangeError> {
        let now = Moment::now();
        let kept = self.quiet.pause(length, now);
        self.monitor.attend(now);
        Ok(kept?)
    }

    /// Ends a pause; alarms are raised again in the hours of the settings.
    ///
    /// # Errors
    /// [`ChangeError::Kept`].
    pub(crate) fn resume(&self) -> Result<(), ChangeError> {
        let now = Moment::now();
        let kept = self.quiet.resume(now);
        self.monitor.attend(now);
        Ok(kept?)
    }

    /// Sets the regions that the model sees, from the next frame on; `None` restores those of the settings. An active
    /// alarm is cleared.
    ///
    /// # Errors
    /// [`ChangeError::Collecting`], in which case nothing is changed; [`ChangeError::Kept`].
    pub(crate) fn set_regions(&self, regions: Option<Regions>) -> Result<(), ChangeError> {
        let learning = self.learning();
        let _acting = learning.map(|learn| learn.acting());
        if learning.iter().any(|learn| learn.is_collecting()) {
            return Err(ChangeError::Collecting);
        }
        let (before, models) = (self.sight.applied(), self.in_use.models());
        let digests = models.day.iter().chain(&models.night).map(|model| model.digest.as_str());
        let kept = self.sight.set(regions, digests);
        let now = self.sight.applied();
        if now.digest() == before.digest() {
            self.monitor.regions_renamed();
        } else {
            // Comes first: whoever is told of the change finds the counts of a tested model at zero.
            learning.iter().for_each(|learn| learn.regions_changed(now.digest()));
            self.monitor.regions_changed(&models);
        }
        tracing::info!(regions = self.sight.applied().regions().len(), "regions were set");
        if let Some(warning) = self.regions_warning() {
            tracing::warn!("{warning}");
        }
        Ok(kept?)
    }

    /// The advice if the model in use was trained on frames of other regions.
    pub(crate) fn regions_warning(&self) -> Option<&'static str> {
        let model = self.model.load_full()?;
        let learned_with = self.of(model.condition).learn.learned_with(&model.digest);
        self.sight.is_strange_to(&model.digest, learned_with.as_deref()).then_some(LEARN_AGAIN)
    }

    /// Records that the model with the digest `by` scored a frame, or failed on it.
    pub(crate) fn scored(&self, by: &str, failure: Option<&str>) {
        // The caller holds the lock on day and night. If the model was exchanged meanwhile, the keeper notices that it
        // is not the model `by`.
        let Own { keeper, learn } = self.of_in_use();
        if keeper.scored(by, failure) {
            learn.taken_back(failure.unwrap_or_default());
        }
    }

    /// Updates the metrics with the numbers of pending and lost items.
    pub(crate) fn measure(&self) {
        self.metrics.waiting.set((self.lane.waiting() + self.frames.len()) as i64);
        self.metrics.stuck.set(self.lane.stuck() as i64);
        self.metrics.scoring.set(i64::from(self.lane.is_working()));
        self.alarms.measure();
    }
}

/// Creates the state folder of the night's model if day and night are distinguished.
fn make_room_for_night(night: &CameraConfig, day_night: &DayNight) {
    if day_night.rule().is_some()
        && let Err(error) = std::fs::create_dir_all(&night.state)
    {
        tracing::error!(%error, "no folder {}: what is changed for the night is not kept", night.state.display());
    }
}

/// Opens the pauses and hours of alarms. The time zone, and a warning if it is unknown, matter only if hours are set.
fn open_quiet(config: &CameraConfig) -> Quiet {
    let now = Moment::now();
    let zone = config.alarm_hours.as_ref().map_or(TimeZone::UTC, |_| hours::local_zone());
    if config.alarm_hours.is_some() {
        let local_time = zone.to_datetime(now.wall).strftime("%a %H:%M");
        tracing::info!(%local_time, "alarms are raised in the hours of the settings");
    }
    Quiet::open(&config.state, config.alarm_hours.clone(), zone, now)
}
