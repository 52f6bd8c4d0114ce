//! Which of a camera's two models is in use: that of the condition that holds, or that of the day where the night has none. Everything
//! that makes another model the one in use comes through here (its keeper, another condition), so that the threads that score, the
//! monitor and whoever is told never differ.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::day_night::{Condition, DayNightState, PerCondition, Standing};
use super::model::{Current, Model};
use super::monitor::Monitor;

/// What is said where nothing is known to be wrong.
const NONE_YET: &str = "there is no model for the night yet: learn one here, or name one by the setting `night_model`";

/// The model in use.
pub(crate) struct InUse {
    /// At which the threads that score look.
    current: Arc<Current>,
    monitor: Arc<Monitor>,
    state: Mutex<State>,
}

struct State {
    /// None where day and night are not told apart.
    standing: Option<Standing>,
    models: PerCondition<Option<Arc<Model>>>,
    /// Why the night's could not be opened.
    why_missing: Option<String>,
}

impl State {
    fn condition(&self) -> Condition {
        self.standing.map_or(Condition::Day, |standing| standing.condition)
    }

    /// Whose model is in use.
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
    /// Nothing is in use yet but what is in `current`.
    pub(crate) fn new(current: Arc<Current>, monitor: Arc<Monitor>, why_missing: Option<String>) -> Self {
        let state = State { standing: None, models: PerCondition::default(), why_missing };
        Self { current, monitor, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each of its fields is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model of a condition, whether it is in use or not.
    pub(crate) fn of(&self, condition: Condition) -> Option<Arc<Model>> {
        self.lock().models[condition].clone()
    }

    /// Whose model is in use.
    pub(crate) fn model_for(&self) -> Condition {
        self.lock().model_for()
    }

    /// Which condition holds.
    pub(crate) fn condition(&self) -> Condition {
        self.lock().condition()
    }

    /// How it is between day and night; none where the two are not told apart.
    pub(crate) fn day_night(&self) -> Option<DayNightState> {
        self.lock().told()
    }

    /// Another model of a condition, or none, or the same with another threshold.
    pub(crate) fn put(&self, of: Condition, model: Option<Arc<Model>>, other_network: bool) {
        let mut state = self.lock();
        state.models[of] = model;
        if state.models.night.is_some() {
            state.why_missing = None;
        }
        self.show(&state);
        self.monitor.model_changed(of, state.models[of].as_deref(), other_network);
    }

    /// The models of both, as they are.
    pub(crate) fn models(&self) -> PerCondition<Option<Arc<Model>>> {
        self.lock().models.clone()
    }

    /// This condition holds; whether another model is in use then.
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
        self.show(&state);
        now.0 != before.0
    }

    /// Has everyone use what is to be.
    fn show(&self, state: &State) {
        let model_for = state.model_for();
        let model = state.models[model_for].clone();
        self.current.store(model.clone());
        self.monitor.uses(model.as_deref(), model_for, state.told());
    }
}

#[cfg(test)]
mod tests;
