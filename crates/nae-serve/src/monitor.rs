//! What the service knows of the frames of a camera: the energies of the last hour, the alarm, the
//! drift, the frame that is shown. Every frame's score comes by [`Monitor::observe`], which raises no alarm while
//! [`Quiet`] says so; pages and programs are told by events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use nae_core::drift::{Drift, PageHinkley};
use nae_core::verdict::{AlarmFilter, AlarmSettings, Verdict};
use nae_infer::LONGEST_WINDOW;
use nae_infer::Scored;
use serde::Serialize;
use tokio::sync::broadcast;

use super::history::{History, Point, Slice};
use super::history_file::Recorder;
use super::metrics::CameraMetrics;
use super::model::Model;
use super::quiet::{AlarmState, Moment, Off, Quiet};
use super::regions::Sight;
use super::shown::{Latest, Looked, Shown, Taken};
use super::source::{Frame, SourceObserver, SourceState};

/// Frames kept to try a new model on.
const RECENT: usize = 32;
/// Events a slow client may be behind before it misses some.
const EVENTS: usize = 256;
/// Drift: shifts of the mean within this share of the threshold are ignored, and the sum of what is
/// beyond may reach so many thresholds.
const DRIFT: (f32, f32) = (0.25, 5.0);

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
    history: History,
    filter: AlarmFilter<LONGEST_WINDOW>,
    /// Why no alarms were raised when that was last looked at; the filter is empty then.
    off: Option<Off>,
    drift: Option<PageHinkley>,
    drifted: Drift,
    latest: Option<Latest>,
    /// The frame that raised the last alarm.
    alarmed: Option<Arc<Shown>>,
    recent: VecDeque<Recent>,
    source: SourceState,
    number: u64,
    /// Mean of the largest pixel errors of normal frames: what a heat map is bright against.
    usual_error: Option<f32>,
}

/// A frame of the past whose image is still there.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    pub(crate) image: Bytes,
    /// Whether a model that is, or was, in use called it so; not where none has seen it.
    pub(crate) normal: bool,
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
        let state = State {
            history: History::default(),
            filter: AlarmFilter::new(alarm)?,
            off: None,
            drift: watch(model),
            drifted: Drift::Steady,
            latest: None,
            alarmed: None,
            recent: VecDeque::new(),
            source: SourceState::None,
            number: 0,
            usual_error: None,
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
        // One that was being scored when the regions were changed is of another picture than those that follow.
        if !self.sight.is_current(&looked.regions) {
            return None;
        }
        self.attend_to(&mut state, now);
        state.number += 1;
        let was_on = state.filter.is_raised();
        // Here alone it is decided whether a frame may have to do with an alarm.
        let alarm = if self.quiet.counts(frame.taken, now) {
            state.filter.observe(verdict)
        } else {
            state.filter.reset();
            false
        };
        // Drift is of the many: one anomaly counts as no more than a frame at the threshold.
        let energy = threshold.map_or(scored.energy, |threshold| scored.energy.min(threshold));
        if let Some(seen) = state.drift.as_mut().and_then(|drift| drift.observe(energy).ok())
            && seen != Drift::Steady
        {
            state.drifted = seen;
        }
        state.history.keep(Point { at: frame.taken, energy: scored.energy });
        state.remember(Recent { image: frame.bytes.clone(), normal: !verdict.is_anomaly() });
        let largest = scored.heat_map().map_or(0.0, |map| map.largest());
        if !verdict.is_anomaly() {
            state.usual_error = Some(state.usual_error.map_or(largest, |usual| usual + (largest - usual) / 32.0));
        }
        let shown = Arc::new(Shown {
            frame: state.taken(frame),
            scored,
            full_error: largest.max(2.0 * state.usual_error.unwrap_or(0.0)),
            looked,
        });
        state.latest = Some(Latest::Scored(Arc::clone(&shown)));
        if alarm && !was_on {
            state.alarmed = Some(Arc::clone(&shown));
        }
        let gone = now.steady.saturating_duration_since(frame.taken).as_millis() as i64;
        let taken = now.wall.as_millisecond() - gone;
        self.recorder.energy(taken, shown.scored.energy, threshold, &model.digest);
        if was_on && !alarm {
            self.recorder.cleared(now.wall.as_millisecond());
        }
        let (number, drift) = (state.number, state.drifted);
        self.metrics.alarm.set(i64::from(alarm));
        self.metrics.drift.set(match drift {
            Drift::Steady => 0,
            Drift::Rising => 1,
            Drift::Falling => -1,
        });
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
        state.remember(Recent { image: frame.bytes.clone(), normal: false });
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

    /// What is judged over several frames begins anew, for this model.
    fn judge_anew(&self, state: &mut State, model: Option<&Model>) {
        self.clear(state, Moment::now());
        state.drift = watch(model);
        state.drifted = Drift::Steady;
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
        (state.filter.is_raised(), state.drifted)
    }

    /// Frames to try a new model on.
    pub(crate) fn recent(&self) -> Vec<Recent> {
        self.lock().recent.iter().cloned().collect()
    }

    /// Energies of the frames between `from` and `to` seconds ago.
    pub(crate) fn energies(&self, from: f64, to: f64) -> Vec<f32> {
        self.lock().history.between(from, to)
    }

    /// The past `span`, in at most `most` slices.
    pub(crate) fn history(&self, span: Duration, most: usize) -> Vec<Slice> {
        self.lock().history.slices(span, most)
    }

    /// What the last hour would have been with another threshold.
    pub(crate) fn what_if(&self, threshold: f32) -> WhatIf {
        let state = self.lock();
        let mut counts = WhatIf { threshold, frames: 0, anomalies: 0, alarms: 0 };
        let mut filter = AlarmFilter::<LONGEST_WINDOW>::new(self.alarm).ok();
        for point in state.history.iter() {
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

    /// Another threshold or calibration: alarm and drift begin anew. Another network, or none: so do energies.
    pub(crate) fn model_changed(&self, model: Option<&Model>, other_network: bool) {
        let mut state = self.lock();
        self.judge_anew(&mut state, model);
        if other_network {
            state.begin_anew();
        }
        if model.is_none() {
            // What was made of them says nothing of the next model.
            state.recent.iter_mut().for_each(|recent| recent.normal = false);
        }
        drop(state);
        self.metrics.model_is(model);
        self.tell(Event::Model);
    }

    /// Other regions are in use: what was seen before was another picture.
    pub(crate) fn regions_changed(&self, model: Option<&Model>) {
        let mut state = self.lock();
        self.judge_anew(&mut state, model);
        state.begin_anew();
        // How they were judged says nothing of a model that is tried on them.
        state.recent.clear();
        drop(state);
        self.tell(Event::Regions);
    }
}

impl State {
    /// Energies have no scale in common with those of before.
    fn begin_anew(&mut self) {
        self.history.clear();
        self.usual_error = None;
    }

    /// The frame, as the last that was counted.
    fn taken(&self, frame: &Frame) -> Taken {
        Taken { number: self.number, image: frame.bytes.clone(), name: frame.name.clone(), at: frame.taken }
    }

    fn remember(&mut self, frame: Recent) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(frame);
    }
}

/// A watch for drift on a model's energies; none without a threshold to measure by.
fn watch(model: Option<&Model>) -> Option<PageHinkley> {
    let threshold = model?.detector.threshold()?;
    PageHinkley::new(DRIFT.0 * threshold, DRIFT.1 * threshold).ok()
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
