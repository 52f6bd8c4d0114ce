//! The state of a camera's frames: the energies of the last hour, the alarm, the drift, the frame that is shown.
//! [`Monitor::observe`] receives every frame's score, and raises no alarm while [`Quiet`] suspends them; pages and
//! programs receive events.

mod memory;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nae_core::drift::Drift;
use nae_core::verdict::{AlarmFilter, AlarmSettings, Verdict};
use nae_infer::LONGEST_WINDOW;
use nae_infer::Scored;
use serde::Serialize;
use tokio::sync::broadcast;

use super::day_night::{Condition, DayNightState, PerCondition};
use super::history::{HISTORY, Point, Slice};
use super::history_file::Recorder;
use super::metrics::CameraMetrics;
use super::model::Model;
use super::quiet::{AlarmState, Moment, Off, Quiet};
use super::regions::Sight;
use super::shown::{Latest, Looked, Shown, Taken};
use super::source::{Frame, SourceObserver, SourceState};
use memory::Memory;
pub(crate) use memory::Recent;

/// The number of events that a slow client may be behind before it misses some.
const EVENTS: usize = 256;
/// The maximum number of states of the source that are remembered as logged: some reasons of a loss contain numbers that
/// differ from attempt to attempt.
const LOGGED: usize = 8;

/// The state of a camera's frames.
pub(crate) struct Monitor {
    state: Mutex<State>,
    events: broadcast::Sender<Event>,
    metrics: Arc<CameraMetrics>,
    alarm: AlarmSettings,
    quiet: Arc<Quiet>,
    sight: Arc<Sight>,
    /// Writes energies, and the time at which an alarm is cleared, to disk.
    recorder: Recorder,
}

struct State {
    /// For the model of the day and for that of the night.
    memory: PerCondition<Memory>,
    /// The condition whose model is in use.
    model_for: Condition,
    /// `None` if day and night are not distinguished.
    day_night: Option<DayNightState>,
    filter: AlarmFilter<LONGEST_WINDOW>,
    /// The reason why alarms were suspended at the last check; in that case, the filter is empty.
    off: Option<Off>,
    latest: Option<Latest>,
    /// Why the last frame could not be scored; `None` if it was scored, or if there is no model yet.
    failure: Option<String>,
    /// The frame that raised the last alarm.
    alarmed: Option<Arc<Shown>>,
    source: SourceState,
    /// The states of the source that were logged since the last frame.
    logged: Vec<SourceState>,
    number: u64,
}

/// The events that clients receive.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A frame was scored.
    Frame {
        number: u64,
        energy: f32,
        p_value: Option<f32>,
        threshold: Option<f32>,
        anomaly: bool,
        alarm: bool,
        drift: Drift,
        name: Option<String>,
    },
    /// A frame arrived, and there is no model yet.
    Unscored { number: u64, name: Option<String> },
    /// A frame could not be scored.
    Unreadable { reason: String, name: Option<String> },
    /// An alarm was raised.
    Alarm { number: u64 },
    /// Alarms are raised from now on, or are suspended; in that case, none is active.
    Alarms { alarms: AlarmState },
    /// Another condition holds, the model of the other condition is in use, or another rule determines the condition;
    /// `None` if day and night are no longer distinguished.
    DayNight { day_night: Option<DayNightState> },
    /// The state of the source has changed.
    Source { state: &'static str, reason: Option<String> },
    /// The threshold, the calibration or the model has changed.
    Model,
    /// The regions were set. If the model sees another part of frames now, the alarm is cleared, and the filter starts
    /// over; if only their names or their origin are others, an active alarm stays.
    Regions { alarm: bool },
    /// No more events will follow.
    Stopping,
}

/// The counts of the last hour for another threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct WhatIf {
    pub(crate) threshold: f32,
    pub(crate) frames: usize,
    pub(crate) anomalies: usize,
    pub(crate) alarms: usize,
}

impl Monitor {
    /// A monitor that has seen no frame.
    ///
    /// # Errors
    /// If the alarm's window is longer than the filter's memory.
    pub(crate) fn new(
        alarm: AlarmSettings,
        quiet: Arc<Quiet>,
        sight: Arc<Sight>,
        model: Option<&Model>,
        metrics: Arc<CameraMetrics>,
    ) -> Result<Self, nae_core::verdict::AlarmSettingsError> {
        let mut memory = PerCondition::<Memory>::default();
        memory.day.watch_anew(model);
        let state = State {
            memory,
            model_for: Condition::Day,
            day_night: None,
            filter: AlarmFilter::new(alarm)?,
            off: None,
            latest: None,
            failure: None,
            alarmed: None,
            source: SourceState::None,
            logged: Vec::new(),
            number: 0,
        };
        metrics.model_is(model);
        metrics.alarms_on.set(1);
        let this = Self {
            state: Mutex::new(state),
            events: broadcast::channel(EVENTS).0,
            metrics,
            alarm,
            quiet,
            sight,
            recorder: Recorder::default(),
        };
        this.attend(Moment::now());
        Ok(this)
    }

    /// The same monitor with a recorder for its frames.
    pub(crate) fn recorded(self, recorder: Recorder) -> Self {
        Self { recorder, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic, the state may be wrong by one frame, which does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the score of a frame. Returns the frame if it raised an alarm.
    pub(crate) fn observe(&self, frame: &Frame, scored: Scored, model: &Model, looked: Looked) -> Option<Arc<Shown>> {
        let threshold = model.detector.threshold();
        let verdict = scored.verdict.unwrap_or(Verdict::Normal);
        let now = Moment::now();
        let mut state = self.lock();
        // A frame that was being scored when the regions changed shows another picture than later ones. If the model
        // changed meanwhile, its energy is on another scale.
        if !self.sight.is_current(&looked.regions) || !state.memory[model.condition].is_of(model) {
            return None;
        }
        self.attend_to(&mut state, now);
        state.comes();
        state.failure = None;
        let was_on = state.filter.is_raised();
        // The only place that decides whether a frame counts for an alarm.
        let alarm = if self.quiet.counts(frame.taken, now) && model.condition == state.model_for {
            state.filter.observe(verdict)
        } else {
            state.filter.reset();
            false
        };
        let memory = &mut state.memory[model.condition];
        if memory.drifts(scored.energy, threshold) {
            tracing::info!(drift = ?memory.drifted, "the mean energy of the frames");
        }
        memory.history.keep(Point { at: frame.taken, energy: scored.energy });
        memory.remember(Recent { image: frame.bytes.clone(), normal: !verdict.is_anomaly() });
        let largest = scored.heat_map().map_or(0.0, |map| map.largest());
        let full_error = memory.full_error(largest, !verdict.is_anomaly());
        let shown = Arc::new(Shown { frame: state.taken(frame), scored, full_error, looked });
        state.latest = Some(Latest::Scored(Arc::clone(&shown)));
        if alarm && !was_on {
            state.alarmed = Some(Arc::clone(&shown));
        }
        let gone = now.steady.saturating_duration_since(frame.taken).as_millis() as i64;
        let taken = now.wall.as_millisecond() - gone;
        let is_of_night = model.condition == Condition::Night;
        self.recorder.energy(taken, shown.scored.energy, threshold, &model.digest, is_of_night);
        if was_on && !alarm {
            self.recorder.cleared(now.wall.as_millisecond());
        }
        let (number, drift) = (state.number, state.drifted());
        self.metrics.alarm.set(i64::from(alarm));
        self.metrics.drift_is(drift);
        self.tell(Event::Frame {
            number,
            energy: shown.scored.energy,
            p_value: shown.scored.p_value,
            threshold,
            anomaly: verdict.is_anomaly(),
            alarm,
            drift,
            name: frame.name.clone(),
        });
        // The lock is held until here, so that the event of a pause follows those of earlier frames.
        drop(state);
        (alarm && !was_on).then_some(shown)
    }

    /// Takes a frame that was not scored because there is no model: it is shown, and has no other effect.
    pub(crate) fn observe_unscored(&self, frame: &Frame) {
        let mut state = self.lock();
        state.comes();
        state.failure = None;
        let model_for = state.model_for;
        state.memory[model_for].remember(Recent { image: frame.bytes.clone(), normal: false });
        state.latest = Some(Latest::Unscored(Arc::new(state.taken(frame))));
        self.tell(Event::Unscored { number: state.number, name: frame.name.clone() });
    }

    /// Takes a frame that could not be scored, and the reason: from now on, nobody can tell whether frames are normal.
    pub(crate) fn failed(&self, frame: &Frame, reason: String) {
        let mut state = self.lock();
        state.logged.clear();
        state.failure = Some(reason.clone());
        self.tell(Event::Unreadable { reason, name: frame.name.clone() });
    }

    /// Checks whether alarms are raised now: sends an event about a change, and clears an active alarm if they are
    /// suspended.
    pub(crate) fn attend(&self, now: Moment) {
        self.attend_to(&mut self.lock(), now);
    }

    fn attend_to(&self, state: &mut State, now: Moment) {
        let off = self.quiet.off(now);
        if off == state.off {
            return;
        }
        state.off = off;
        self.clear(state, now);
        self.metrics.alarms_on.set(i64::from(off.is_none()));
        let alarms = self.quiet.state(now);
        if alarms.is_on() {
            tracing::info!("alarms are raised again");
        } else {
            tracing::info!(?alarms, "no alarms are raised from now on");
        }
        self.tell(Event::Alarms { alarms });
    }

    /// Empties the filter and ends an active alarm.
    fn clear(&self, state: &mut State, now: Moment) {
        if state.filter.is_raised() {
            self.recorder.cleared(now.wall.as_millisecond());
        }
        state.filter.reset();
        self.metrics.alarm.set(0);
    }

    /// Is called once the history has the alarm that [`observe`](Self::observe) raised. If the alarm was cleared in the
    /// meantime, the history got the end before the beginning, and took it for that of an earlier alarm: it gets it again.
    pub(crate) fn raised_is_recorded(&self) {
        let state = self.lock();
        if !state.filter.is_raised() {
            self.recorder.cleared(Moment::now().wall.as_millisecond());
        }
    }

    /// Whether alarms are raised now.
    pub(crate) fn alarms(&self) -> AlarmState {
        self.quiet.state(Moment::now())
    }

    /// Sends an event to the clients, if there are any.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    /// Subscribes to events from now on.
    pub(crate) fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// The frame to show.
    pub(crate) fn latest(&self) -> Option<Latest> {
        self.lock().latest.clone()
    }

    /// Why the last frame could not be scored; `None` if it was scored, or if there is no model yet.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// The frame that raised the last alarm since the start.
    pub(crate) fn alarmed(&self) -> Option<Arc<Shown>> {
        self.lock().alarmed.clone()
    }

    /// The state of the source.
    pub(crate) fn source(&self) -> SourceState {
        self.lock().source.clone()
    }

    /// Whether the alarm is active, and the direction in which energies have drifted.
    pub(crate) fn alarm_and_drift(&self) -> (bool, Drift) {
        let state = self.lock();
        (state.filter.is_raised(), state.drifted())
    }

    /// The state of day and night; `None` if the two are not distinguished.
    pub(crate) fn day_night(&self) -> Option<DayNightState> {
        self.lock().day_night.clone()
    }

    /// Recent frames on which to test a new model of a condition.
    pub(crate) fn recent(&self, of: Condition) -> Vec<Recent> {
        self.lock().memory[of].recent.iter().cloned().collect()
    }

    /// The energies that the model of a condition gave to frames between `from` and `to` seconds ago.
    pub(crate) fn energies(&self, of: Condition, from: f64, to: f64) -> Vec<f32> {
        self.lock().memory[of].history.between(from, to)
    }

    /// The past `span` of the model in use, in at most `most` slices.
    pub(crate) fn history(&self, span: Duration, most: usize) -> Vec<Slice> {
        // Outside the lock, for which the next frame would wait.
        let past = self.lock().in_use().history.past(span);
        past.slices(most)
    }

    /// The counts of the last hour of the model in use for another threshold.
    pub(crate) fn what_if(&self, threshold: f32) -> WhatIf {
        // Outside the lock, for which the next frame would wait.
        let past = self.lock().in_use().history.past(HISTORY);
        let mut counts = WhatIf { threshold, frames: 0, anomalies: 0, alarms: 0 };
        let mut filter = AlarmFilter::<LONGEST_WINDOW>::new(self.alarm).ok();
        for energy in past.energies() {
            let verdict = Verdict::of(energy, threshold);
            counts.frames += 1;
            counts.anomalies += usize::from(verdict.is_anomaly());
            if let Some(filter) = &mut filter {
                let was_on = filter.is_raised();
                counts.alarms += usize::from(filter.observe(verdict) && !was_on);
            }
        }
        counts
    }

    /// Updates the state after a change of a condition's model. With another threshold or calibration, alarm and drift
    /// start over; with another network, or none, so do the energies. The alarm is that of the model in use.
    pub(crate) fn model_changed(&self, of: Condition, model: Option<&Model>, other_network: bool) {
        let mut state = self.lock();
        if of == state.model_for {
            self.clear(&mut state, Moment::now());
        }
        if other_network {
            state.failure = None;
        }
        let memory = &mut state.memory[of];
        memory.watch_anew(model);
        if other_network {
            memory.forget_energies();
        }
        if model.is_none() {
            // Verdicts of the previous model do not apply to the next one.
            memory.recent.iter_mut().for_each(|recent| recent.normal = false);
        }
        self.metrics.drift_is(state.drifted());
        drop(state);
        self.tell(Event::Model);
    }

    /// Sets the model in use and the condition that it is for. If that is another condition, the alarm is cleared,
    /// since another model raised it in another light.
    pub(crate) fn uses(&self, model: Option<&Model>, model_for: Condition, day_night: Option<DayNightState>) {
        let mut state = self.lock();
        if state.model_for != model_for {
            self.clear(&mut state, Moment::now());
            state.model_for = model_for;
        }
        self.metrics.drift_is(state.drifted());
        self.metrics.model_is(model);
        self.metrics.day_night_is(day_night.as_ref());
        if state.day_night != day_night {
            state.day_night.clone_from(&day_night);
            self.tell(Event::DayNight { day_night });
        }
    }

    /// Tells clients of regions with other names, or of another origin: the model sees the same, and an alarm stays.
    pub(crate) fn regions_renamed(&self) {
        let state = self.lock();
        // Within the lock, so that the event is not overtaken by one of a frame that raises the alarm, or ends it.
        self.tell(Event::Regions { alarm: state.filter.is_raised() });
    }

    /// Resets what was learned of earlier frames: with other regions, they showed another picture.
    pub(crate) fn regions_changed(&self, models: &PerCondition<Option<Arc<Model>>>) {
        let mut state = self.lock();
        self.clear(&mut state, Moment::now());
        // The regions may have left nothing of the frame.
        state.failure = None;
        for condition in Condition::ALL {
            let memory = &mut state.memory[condition];
            memory.watch_anew(models[condition].as_deref());
            memory.forget_energies();
            // The verdicts on earlier frames do not apply to a model that is tested on them.
            memory.recent.clear();
        }
        self.tell(Event::Regions { alarm: false });
    }
}

impl State {
    /// What is stored for the model in use.
    fn in_use(&self) -> &Memory {
        &self.memory[self.model_for]
    }

    fn drifted(&self) -> Drift {
        self.in_use().drifted
    }

    /// Counts a frame. What then happens to the source is logged again.
    fn comes(&mut self) {
        self.number += 1;
        self.logged.clear();
    }

    /// Whether to log that the source is in this state: a camera that is gone is tried again 2,880 times a day, and fails
    /// each time for the same reason.
    fn is_news(&mut self, source: &SourceState) -> bool {
        if self.logged.contains(source) {
            return false;
        }
        if self.logged.len() == LOGGED {
            self.logged.remove(0);
        }
        self.logged.push(source.clone());
        true
    }

    /// The frame, with the current number.
    fn taken(&self, frame: &Frame) -> Taken {
        Taken { number: self.number, image: frame.bytes.clone(), name: frame.name.clone(), at: frame.taken }
    }
}

/// Passes the events of the source on to the monitor.
impl SourceObserver for Arc<Monitor> {
    fn state(&self, state: SourceState) {
        let reason = match &state {
            SourceState::Lost(reason) => Some(reason.clone()),
            _ => None,
        };
        let name = state.name();
        self.metrics.source_up.set(i64::from(state == SourceState::Connected));
        let is_news = {
            let mut own = self.lock();
            own.source = state.clone();
            own.is_news(&state)
        };
        match &reason {
            Some(reason) if is_news => tracing::warn!(reason, "the source is lost; it is tried again"),
            Some(reason) => tracing::debug!(reason, "the source is lost again"),
            None if is_news => tracing::info!(state = name, "source"),
            None => tracing::debug!(state = name, "source"),
        }
        self.tell(Event::Source { state: name, reason });
    }

    fn dropped(&self) {
        self.metrics.dropped.inc();
    }
}

#[cfg(test)]
mod tests;
