//! What the service knows of the frames of a camera: the energies of the last hour, the alarm, the
//! drift, the frame that is shown. Every frame's score comes by [`Monitor::observe`], which raises no alarm while
//! [`Quiet`] says so; pages and programs are told by events.

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
use super::history::{Point, Slice};
use super::history_file::Recorder;
use super::metrics::CameraMetrics;
use super::model::Model;
use super::quiet::{AlarmState, Moment, Off, Quiet};
use super::regions::Sight;
use super::shown::{Latest, Looked, Shown, Taken};
use super::source::{Frame, SourceObserver, SourceState};
use memory::Memory;
pub(crate) use memory::Recent;

/// Events a slow client may be behind before it misses some.
const EVENTS: usize = 256;

/// What the service knows of the frames of a camera.
pub(crate) struct Monitor {
    state: Mutex<State>,
    events: broadcast::Sender<Event>,
    metrics: Arc<CameraMetrics>,
    alarm: AlarmSettings,
    quiet: Arc<Quiet>,
    sight: Arc<Sight>,
    /// Keeps energies, and when an alarm is cleared, on disk.
    recorder: Recorder,
}

struct State {
    /// Of the model of the day, and of that of the night.
    memory: PerCondition<Memory>,
    /// Whose model is in use.
    model_for: Condition,
    /// None where day and night are not told apart.
    day_night: Option<DayNightState>,
    filter: AlarmFilter<LONGEST_WINDOW>,
    /// Why no alarms were raised when that was last looked at; the filter is empty then.
    off: Option<Off>,
    latest: Option<Latest>,
    /// The frame that raised the last alarm.
    alarmed: Option<Arc<Shown>>,
    source: SourceState,
    number: u64,
}

/// What clients are told.
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
    /// A frame came, and there is no model yet.
    Unscored { number: u64, name: Option<String> },
    /// A frame could not be scored.
    Unreadable { reason: String, name: Option<String> },
    /// An alarm was raised.
    Alarm { number: u64 },
    /// Alarms are raised from now on, or are not any more: then none is up.
    Alarms { alarms: AlarmState },
    /// Another condition holds, or the model of the other is in use, or it is told by something else; none where day and night are not
    /// told apart any more.
    DayNight { day_night: Option<DayNightState> },
    /// The source is in another state.
    Source { state: &'static str, reason: Option<String> },
    /// Threshold, calibration or model is another.
    Model,
    /// The regions are others: the alarm begins anew.
    Regions,
    /// There will be no more events.
    Stopping,
}

/// The counts over the last hour had the threshold been another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct WhatIf {
    pub(crate) threshold: f32,
    pub(crate) frames: usize,
    pub(crate) anomalies: usize,
    pub(crate) alarms: usize,
}

impl Monitor {
    /// Nothing seen yet.
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
            alarmed: None,
            source: SourceState::None,
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

    /// The same, with what becomes of its frames taken down.
    pub(crate) fn recorded(self, recorder: Recorder) -> Self {
        Self { recorder, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whatever panicked while it held the lock, a frame more or less is no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the score of a frame; gives it back for an alarm if it raised one.
    pub(crate) fn observe(&self, frame: &Frame, scored: Scored, model: &Model, looked: Looked) -> Option<Arc<Shown>> {
        let threshold = model.detector.threshold();
        let verdict = scored.verdict.unwrap_or(Verdict::Normal);
        let now = Moment::now();
        let mut state = self.lock();
        // One that was being scored when the regions were changed is of another picture than those that follow; and when the model was,
        // its energy has no scale in common with theirs.
        if !self.sight.is_current(&looked.regions) || !state.memory[model.condition].is_of(model) {
            return None;
        }
        self.attend_to(&mut state, now);
        state.number += 1;
        let was_on = state.filter.is_raised();
        // Here alone it is decided whether a frame may have to do with an alarm.
        let alarm = if self.quiet.counts(frame.taken, now) && model.condition == state.model_for {
            state.filter.observe(verdict)
        } else {
            state.filter.reset();
            false
        };
        let memory = &mut state.memory[model.condition];
        memory.drifts(scored.energy, threshold);
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
        // Until here, so that a pause is told after the frames of before.
        drop(state);
        (alarm && !was_on).then_some(shown)
    }

    /// Takes a frame that no model has seen, since there is none: it is shown, and has no part in anything else.
    pub(crate) fn observe_unscored(&self, frame: &Frame) {
        let mut state = self.lock();
        state.number += 1;
        let model_for = state.model_for;
        state.memory[model_for].remember(Recent { image: frame.bytes.clone(), normal: false });
        state.latest = Some(Latest::Unscored(Arc::new(state.taken(frame))));
        self.tell(Event::Unscored { number: state.number, name: frame.name.clone() });
    }

    /// Takes note of whether alarms are raised now: what has changed is told, and an alarm that is up when they no longer are is
    /// cleared.
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

    /// The filter begins empty; an alarm that is up is no more.
    fn clear(&self, state: &mut State, now: Moment) {
        if state.filter.is_raised() {
            self.recorder.cleared(now.wall.as_millisecond());
        }
        state.filter.reset();
        self.metrics.alarm.set(0);
    }

    /// Whether alarms are raised now.
    pub(crate) fn alarms(&self) -> AlarmState {
        self.quiet.state(Moment::now())
    }

    /// Tells the clients; nobody listening is fine.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    /// Events from now on.
    pub(crate) fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// The frame to show.
    pub(crate) fn latest(&self) -> Option<Latest> {
        self.lock().latest.clone()
    }

    /// The frame that raised the last alarm since the start.
    pub(crate) fn alarmed(&self) -> Option<Arc<Shown>> {
        self.lock().alarmed.clone()
    }

    /// How the source is.
    pub(crate) fn source(&self) -> SourceState {
        self.lock().source.clone()
    }

    /// Whether the alarm is on, and which way energies have drifted.
    pub(crate) fn alarm_and_drift(&self) -> (bool, Drift) {
        let state = self.lock();
        (state.filter.is_raised(), state.drifted())
    }

    /// How it is between day and night; none where the two are not told apart.
    pub(crate) fn day_night(&self) -> Option<DayNightState> {
        self.lock().day_night.clone()
    }

    /// Frames to try a new model of a condition on.
    pub(crate) fn recent(&self, of: Condition) -> Vec<Recent> {
        self.lock().memory[of].recent.iter().cloned().collect()
    }

    /// Energies that the model of a condition gave to frames between `from` and `to` seconds ago.
    pub(crate) fn energies(&self, of: Condition, from: f64, to: f64) -> Vec<f32> {
        self.lock().memory[of].history.between(from, to)
    }

    /// The past `span` of the model in use, in at most `most` slices.
    pub(crate) fn history(&self, span: Duration, most: usize) -> Vec<Slice> {
        self.lock().in_use().history.slices(span, most)
    }

    /// What the last hour of the model in use would have been with another threshold.
    pub(crate) fn what_if(&self, threshold: f32) -> WhatIf {
        let state = self.lock();
        let mut counts = WhatIf { threshold, frames: 0, anomalies: 0, alarms: 0 };
        let mut filter = AlarmFilter::<LONGEST_WINDOW>::new(self.alarm).ok();
        for point in state.in_use().history.iter() {
            let verdict = Verdict::of(point.energy, threshold);
            counts.frames += 1;
            counts.anomalies += usize::from(verdict.is_anomaly());
            if let Some(filter) = &mut filter {
                let was_on = filter.is_raised();
                counts.alarms += usize::from(filter.observe(verdict) && !was_on);
            }
        }
        counts
    }

    /// Another threshold or calibration of the model of a condition: alarm and drift begin anew. Another network, or none: so do
    /// energies. The alarm is that of the model in use.
    pub(crate) fn model_changed(&self, of: Condition, model: Option<&Model>, other_network: bool) {
        let mut state = self.lock();
        if of == state.model_for {
            self.clear(&mut state, Moment::now());
        }
        let memory = &mut state.memory[of];
        memory.watch_anew(model);
        if other_network {
            memory.forget_energies();
        }
        if model.is_none() {
            // What was made of them says nothing of the next model.
            memory.recent.iter_mut().for_each(|recent| recent.normal = false);
        }
        self.metrics.drift_is(state.drifted());
        drop(state);
        self.tell(Event::Model);
    }

    /// This model is in use, which is that for a condition. Where that is another, the alarm is cleared: it was of another model, and
    /// of another light.
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

    /// Other regions are in use: what was seen before was another picture.
    pub(crate) fn regions_changed(&self, models: &PerCondition<Option<Arc<Model>>>) {
        let mut state = self.lock();
        self.clear(&mut state, Moment::now());
        for condition in Condition::ALL {
            let memory = &mut state.memory[condition];
            memory.watch_anew(models[condition].as_deref());
            memory.forget_energies();
            // How they were judged says nothing of a model that is tried on them.
            memory.recent.clear();
        }
        drop(state);
        self.tell(Event::Regions);
    }
}

impl State {
    /// What is remembered of the model in use.
    fn in_use(&self) -> &Memory {
        &self.memory[self.model_for]
    }

    fn drifted(&self) -> Drift {
        self.in_use().drifted
    }

    /// The frame, as the last that was counted.
    fn taken(&self, frame: &Frame) -> Taken {
        Taken { number: self.number, image: frame.bytes.clone(), name: frame.name.clone(), at: frame.taken }
    }
}

/// Tells the monitor of the source's doings.
impl SourceObserver for Arc<Monitor> {
    fn state(&self, state: SourceState) {
        let reason = match &state {
            SourceState::Lost(reason) => Some(reason.clone()),
            _ => None,
        };
        match &reason {
            Some(reason) => tracing::warn!(reason, "the source is lost; it is tried again"),
            None => tracing::info!(state = state.name(), "source"),
        }
        self.metrics.source_up.set(i64::from(state == SourceState::Connected));
        let name = state.name();
        self.lock().source = state;
        self.tell(Event::Source { state: name, reason });
    }

    fn dropped(&self) {
        self.metrics.dropped.inc();
    }
}

#[cfg(test)]
mod tests;
