//! Determines which of a camera's two models is in use: that of the current condition, or that of the day if there is
//! none for the night. Every change of the model in use (by its keeper, or by another condition) passes through here,
//! so that the scoring threads, the monitor and the clients always agree.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::day_night::{Condition, DayNightState, PerCondition, Standing};
use super::model::{Current, Model};
use super::monitor::Monitor;
use super::scorer::Lane;

/// The reason for a missing model of the night if no error is known.
const NONE_YET: &str = "there is no model for the night yet: learn one here, or name one by the setting `night_model`";

/// The model in use.
pub(crate) struct InUse {
    /// The model that the scoring threads read.
    current: Arc<Current>,
    /// The lane of the threads that read it; `None` in tests without such threads.
    lane: Option<Arc<Lane>>,
    monitor: Arc<Monitor>,
    state: Mutex<State>,
}

struct State {
    /// `None` if day and night are not distinguished.
    standing: Option<Standing>,
    models: PerCondition<Option<Arc<Model>>>,
    /// The reason why the night's model could not be opened.
    why_missing: Option<String>,
}

impl State {
    fn condition(&self) -> Condition {
        self.standing.map_or(Condition::Day, |standing| standing.condition)
    }

    /// The condition whose model is in use.
    fn model_for(&self) -> Condition {
        match self.condition() {
            Condition::Night if self.models.night.is_none() && self.models.day.is_some() => Condition::Day,
            condition => condition,
        }
    }

    fn told(&self) -> Option<DayNightState> {
        let Standing { condition, by } = self.standing?;
        let missing = || self.why_missing.clone().unwrap_or_else(|| NONE_YET.to_owned());
        let night_model_missing = self.models.night.is_none().then(missing);
        Some(DayNightState { condition, model_for: self.model_for(), by, night_model_missing })
    }
}

impl InUse {
    /// A state in which only the model in `current` is in use.
    pub(crate) fn new(current: Arc<Current>, monitor: Arc<Monitor>, why_missing: Option<String>) -> Self {
        let state = State { standing: None, models: PerCondition::default(), why_missing };
        Self { current, lane: None, monitor, state: Mutex::new(state) }
    }

    /// The same with the lane in which the model scores. It is opened again for each other model, since it may have been
    /// given up because of the model before.
    pub(crate) fn scored_in(self, lane: Arc<Lane>) -> Self {
        Self { lane: Some(lane), ..self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each field is consistent at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model of a condition, even if it is not in use.
    pub(crate) fn of(&self, condition: Condition) -> Option<Arc<Model>> {
        self.lock().models[condition].clone()
    }

    /// The condition whose model is in use.
    pub(crate) fn model_for(&self) -> Condition {
        self.lock().model_for()
    }

    /// The current condition.
    pub(crate) fn condition(&self) -> Condition {
        self.lock().condition()
    }

    /// The state of day and night; `None` if the two are not distinguished.
    pub(crate) fn day_night(&self) -> Option<DayNightState> {
        self.lock().told()
    }

    /// Sets the model of a condition: another network, no model, or the same network with another threshold.
    pub(crate) fn put(&self, of: Condition, model: Option<Arc<Model>>, other_network: bool) {
        let mut state = self.lock();
        state.models[of] = model;
        if state.models.night.is_some() {
            state.why_missing = None;
        }
        self.show(&state, other_network);
        self.monitor.model_changed(of, state.models[of].as_deref(), other_network);
    }

    /// The current models of both conditions.
    pub(crate) fn models(&self) -> PerCondition<Option<Arc<Model>>> {
        self.lock().models.clone()
    }

    /// Sets the current condition. Returns whether another model is in use now.
    pub(crate) fn stand(&self, standing: Option<Standing>) -> bool {
        let mut state = self.lock();
        if state.standing == standing {
            return false;
        }
        let before = (state.model_for(), state.condition());
        state.standing = standing;
        let now = (state.model_for(), state.condition());
        if now != before {
            tracing::info!(condition = %now.1, model_for = %now.0, by = standing.map(|standing| standing.by), "another condition holds");
        }
        let is_other = now.0 != before.0;
        self.show(&state, is_other);
        is_other
    }

    /// Passes the model in use on to the scoring threads and the monitor. `is_other` tells whether it is another network,
    /// or that of the other condition.
    fn show(&self, state: &State, is_other: bool) {
        let model_for = state.model_for();
        let model = state.models[model_for].clone();
        self.current.store(model.clone());
        // Before the monitor tells clients: whoever asks then is told that images are scored.
        if is_other && let Some(lane) = &self.lane {
            lane.reopen();
        }
        self.monitor.uses(model.as_deref(), model_for, state.told());
    }
}

#[cfg(test)]
mod tests;
