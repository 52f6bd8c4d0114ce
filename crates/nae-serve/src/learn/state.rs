//! The state of learning: the phases, the actions that each permits, and the file that stores them for a restart. The
//! table in [`Record::may`] is the only definition of what is permitted. The other modules execute the actions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::regions::Regions;

/// The maximum size of the file, in bytes.
const MAX_FILE: u64 = 1 << 16;
/// The number of models learned here that are kept for rollbacks, including the one in use.
const USED: usize = 3;

/// The phases of learning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(crate) enum Phase {
    /// There are no frames and no model.
    Idle,
    /// Frames are being collected.
    Collecting(Collecting),
    /// There are frames, or there were when collecting ended.
    Collected,
    /// nae-train is running.
    Training {
        /// The time of the training, in seconds.
        seconds: f64,
        /// The number of starts: one, and one after each restart of the service.
        starts: u32,
    },
    /// There is a model that was not used yet.
    Trained { model: String },
    /// That model scores beside the one in use.
    Shadowing { model: String },
    /// That model is in use.
    Swapped { model: String },
}

/// When collecting ends, and which frames are kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Collecting {
    /// The seconds until it ends by itself; they only count while frames are collected, and do not depend on the wall
    /// clock.
    pub(crate) left: Option<f64>,
    /// The number of frames at which it ends.
    pub(crate) most: usize,
    /// The minimum distance from the nearest kept frame.
    pub(crate) min_distance: f32,
}

/// An action that a client may request. The names are those of the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    /// Collects frames, in addition to existing ones.
    Collect,
    /// Stops collecting.
    Stop,
    ThrowOut,
    BringBack,
    /// Deletes the frames, and the model that is not in use.
    Delete,
    Train,
    Cancel,
    /// Takes a model that was trained elsewhere.
    TakeModel,
    Shadow,
    EndShadow,
    /// Takes the new model into use.
    Swap,
    /// Restores the previous model.
    RollBack,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Collect => "collect",
            Self::Stop => "stop",
            Self::ThrowOut => "throw-out",
            Self::BringBack => "bring-back",
            Self::Delete => "delete",
            Self::Train => "train",
            Self::Cancel => "cancel",
            Self::TakeModel => "take-model",
            Self::Shadow => "shadow",
            Self::EndShadow => "end-shadow",
            Self::Swap => "swap",
            Self::RollBack => "roll-back",
        })
    }
}

impl Phase {
    /// Its name, one word.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Collecting(_) => "collecting",
            Self::Collected => "collected",
            Self::Training { .. } => "training",
            Self::Trained { .. } => "trained",
            Self::Shadowing { .. } => "shadowing",
            Self::Swapped { .. } => "swapped",
        }
    }

    /// The model that was learned last.
    pub(crate) fn model(&self) -> Option<&str> {
        match self {
            Self::Trained { model } | Self::Shadowing { model } | Self::Swapped { model } => Some(model),
            _ => None,
        }
    }
}

/// An action that is not permitted now.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{action}` is not possible while learning is `{phase}`; possible now: {}", list(.may))]
pub(crate) struct Refused {
    action: Action,
    phase: &'static str,
    may: Vec<Action>,
}

fn list(actions: &[Action]) -> String {
    actions.iter().map(Action::to_string).collect::<Vec<_>>().join(", ")
}

/// The record of learning: everything that is stored beside frames and models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) phase: Phase,
    /// The result of the last activity, for display.
    pub(crate) note: Option<String>,
    /// The number of processed frames; the next field: that of frames that arrived too fast to be processed.
    pub(crate) seen: u64,
    pub(crate) missed: u64,
    /// The models learned here that were taken into use; the last is the one in use. If there is none, that of the
    /// settings is in use.
    pub(crate) used: Vec<String>,
    /// The value of `used` when its last model could not be opened: since that may only concern one start, the next
    /// start tries again.
    pub(crate) passed_over: Vec<String>,
    /// Models that were found without a record, so that it is unknown which of them was in use.
    pub(crate) found: Vec<String>,
    /// The digest of the regions of the frames.
    pub(crate) regions: String,
    /// The digest of the regions of each model's frames, if it is known.
    pub(crate) learned_with: BTreeMap<String, String>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            phase: Phase::Idle,
            note: None,
            seen: 0,
            missed: 0,
            used: Vec::new(),
            passed_over: Vec::new(),
            found: Vec::new(),
            // Frames from versions without regions are whole.
            regions: Regions::default().digest(),
            learned_with: BTreeMap::new(),
        }
    }
}

impl Record {
    /// Reads the record in a file; a new one if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let record: Self = serde_json::from_slice(&nae_onnx::file::read(path, MAX_FILE)?)
            .map_err(|error| anyhow::anyhow!("{}: expected the state of learning: {error}", path.display()))?;
        // The digests are used as file names.
        let wrong = record.models().into_iter().find(|model| !is_digest(model));
        match wrong {
            Some(model) => anyhow::bail!("{}: expected the digest of a model, found `{model}`", path.display()),
            None => Ok(record),
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// If writing fails; in that case, the file is unchanged.
    pub(crate) fn write(&self, path: &Path) -> Result<(), nae_onnx::file::FileError> {
        // Cannot fail: the record consists of texts and finite numbers.
        nae_onnx::file::write(path, &serde_json::to_vec_pretty(self).unwrap_or_default())
    }

    /// The actions that are permitted now.
    pub(crate) fn may(&self) -> Vec<Action> {
        use Action::{
            BringBack, Cancel, Collect, Delete, EndShadow, RollBack, Shadow, Stop, Swap, TakeModel, ThrowOut, Train,
        };
        let actions: &[Action] = match self.phase {
            Phase::Idle => &[Collect, TakeModel],
            Phase::Collecting(_) => &[Stop],
            Phase::Collected | Phase::Swapped { .. } => &[Collect, ThrowOut, BringBack, Train, TakeModel, Delete],
            Phase::Training { .. } => &[Cancel],
            Phase::Trained { .. } => &[Shadow, Swap, Collect, ThrowOut, BringBack, Train, TakeModel, Delete],
            Phase::Shadowing { .. } => &[EndShadow, Swap],
        };
        // A rollback of a model in use does not depend on what is learned meanwhile.
        let back = (!self.used.is_empty()).then_some(RollBack);
        actions.iter().copied().chain(back).collect()
    }

    /// Checks whether an action is permitted now.
    ///
    /// # Errors
    /// [`Refused`], with the actions that are permitted.
    pub(crate) fn check(&self, action: Action) -> Result<(), Refused> {
        let may = self.may();
        if may.contains(&action) { Ok(()) } else { Err(Refused { action, phase: self.phase.name(), may }) }
    }

    /// Records a new model, trained on the frames here or on others.
    pub(crate) fn trained(&mut self, model: String, of_frames: bool) {
        self.phase = Phase::Trained { model: model.clone() };
        if of_frames {
            self.learned_with.insert(model, self.regions.clone());
        } else {
            self.learned_with.remove(&model);
        }
        let needed: BTreeSet<String> = self.models().into_iter().map(str::to_owned).collect();
        self.learned_with.retain(|model, _| needed.contains(model));
    }

    /// Records that the model of the phase is in use from now on.
    pub(crate) fn swapped(&mut self, model: String) {
        self.used.push(model.clone());
        if self.used.len() > USED {
            self.used.remove(0);
        }
        // This model replaces them.
        self.passed_over.clear();
        self.found.clear();
        self.phase = Phase::Swapped { model };
    }

    /// Records that the previous model is in use again; the replaced one can be tested again.
    pub(crate) fn rolled_back(&mut self) {
        let model = self.used.pop();
        if let Phase::Swapped { model: newest } = &self.phase
            && model.as_ref() == Some(newest)
        {
            self.phase = Phase::Trained { model: newest.clone() };
        }
    }

    /// The model learned here that is to be in use.
    pub(crate) fn wanted(&self) -> Option<&str> {
        self.used.last().or(self.passed_over.last()).map(String::as_str)
    }

    /// Records that the model in use could not be opened, so that that of the settings is in use, or none.
    pub(crate) fn passed_over(&mut self) {
        self.passed_over = std::mem::take(&mut self.used);
        if let Phase::Swapped { model } = &self.phase {
            self.phase = Phase::Trained { model: model.clone() };
        }
    }

    /// Records that the model that could not be opened is in use again.
    pub(crate) fn opened_again(&mut self) {
        self.used = std::mem::take(&mut self.passed_over);
        if let Phase::Trained { model } = &self.phase
            && self.used.last() == Some(model)
        {
            self.phase = Phase::Swapped { model: model.clone() };
        }
    }

    /// All models whose files are needed.
    pub(crate) fn models(&self) -> BTreeSet<&str> {
        let kept = [&self.used, &self.passed_over, &self.found].into_iter().flatten();
        self.phase.model().into_iter().chain(kept.map(String::as_str)).collect()
    }
}

/// Whether a text is the digest of a model's file, by which its copy here is named.
pub(super) fn is_digest(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const A: &str = "0000000a";
    const B: &str = "0000000b";

    fn trained(model: &str) -> Record {
        Record { phase: Phase::Trained { model: model.into() }, ..Record::default() }
    }

    #[test]
    fn every_phase_says_what_may_follow() {
        let collecting = Collecting { left: None, most: 1, min_distance: 0.0 };
        let expected = [
            (Phase::Idle, "collect, take-model"),
            (Phase::Collecting(collecting), "stop"),
            (Phase::Collected, "collect, throw-out, bring-back, train, take-model, delete"),
            (Phase::Training { seconds: 1.0, starts: 1 }, "cancel"),
            (
                Phase::Trained { model: A.into() },
                "shadow, swap, collect, throw-out, bring-back, train, take-model, delete",
            ),
            (Phase::Shadowing { model: A.into() }, "end-shadow, swap"),
            (Phase::Swapped { model: A.into() }, "collect, throw-out, bring-back, train, take-model, delete"),
        ];
        for (phase, may) in expected {
            let mut record = Record { phase, ..Record::default() };
            assert_eq!(list(&record.may()), may, "{:?}", record.phase);
            record.used.push(B.into());
            assert_eq!(list(&record.may()), format!("{may}, roll-back"), "{:?}", record.phase);
        }
    }

    #[test]
    fn a_refusal_says_what_is_possible() {
        let refused = Record::default().check(Action::Train).unwrap_err().to_string();
        assert_eq!(refused, "`train` is not possible while learning is `idle`; possible now: collect, take-model");
        Record::default().check(Action::Collect).unwrap();
    }

    #[test]
    fn the_way_back_leads_through_the_models_that_were_in_use() {
        let mut record = trained(A);
        record.swapped(A.into());
        assert_eq!((record.phase.name(), record.used.as_slice()), ("swapped", [A.to_owned()].as_slice()));
        record.phase = Phase::Trained { model: B.into() };
        record.swapped(B.into());
        record.rolled_back();
        assert_eq!((&record.phase, record.used.as_slice()), (&trained(B).phase, [A.to_owned()].as_slice()));
        // Back to the model of the settings; what was learned since stays.
        record.rolled_back();
        assert_eq!((&record.phase, record.used.len()), (&trained(B).phase, 0));
        for n in 0..9 {
            record.swapped(format!("{n:08x}"));
        }
        assert_eq!(record.used, ["00000006", "00000007", "00000008"]);
    }

    #[test]
    fn which_regions_a_model_was_learned_with_is_known_as_long_as_it_is_there() {
        let mut record = Record { regions: "0000000c".into(), ..Record::default() };
        record.trained(A.into(), true);
        record.swapped(A.into());
        record.trained(B.into(), true);
        assert_eq!(record.learned_with.keys().collect::<Vec<_>>(), [A, B]);
        assert!(record.learned_with.values().all(|regions| regions == "0000000c"));
        // A model that was uploaded and not trained on the frames here; the previous one is removed.
        record.trained("0000000d".into(), false);
        assert_eq!(record.learned_with.keys().collect::<Vec<_>>(), [A]);
        let old: Record = serde_json::from_str(r#"{"phase": "collected"}"#).unwrap();
        assert_eq!(old.regions, Regions::default().digest(), "frames of before there were regions");
    }

    #[test]
    fn the_file_is_read_as_it_was_written_and_hostile_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        assert_eq!(Record::read(&path).unwrap(), Record::default());
        let mut record = trained(A);
        record.swapped(A.into());
        record.note = Some("a note".into());
        for phase in [
            record.phase.clone(),
            Phase::Collecting(Collecting { left: Some(1.5), most: 7, min_distance: 2.0 }),
            Phase::Training { seconds: 600.0, starts: 2 },
        ] {
            record.phase = phase;
            record.learned_with.insert(A.into(), record.regions.clone());
            record.write(&path).unwrap();
            assert_eq!(Record::read(&path).unwrap(), record);
        }
        for text in ["", "{}", r#"{"phase": "trained", "model": "../../x"}"#, r#"{"phase": "trained"}"#, "[1]"] {
            std::fs::write(&path, text).unwrap();
            assert!(Record::read(&path).is_err(), "{text}");
        }
    }
}
