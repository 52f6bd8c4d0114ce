//! Shows the progress of training on a terminal, or in a log.

use nae_terminal::progress;

use crate::methods::Model;
use crate::train::observer::{Observer, Phase, Progress};
use crate::train::stopping::Look;

/// Shows each phase of a run on standard error: as a bar on a terminal, otherwise as a line every half minute; nothing
/// if quiet.
pub struct Bars {
    quiet: bool,
    bar: progress::Progress,
    look: String,
}

impl Bars {
    /// Makes bars that are hidden if `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, bar: progress::Progress::hidden(), look: String::new() }
    }
}

impl Observer for Bars {
    fn begin(&mut self, phase: Phase, done: usize, total: usize) {
        let (name, unit) = match phase {
            Phase::Pretraining => ("pre-training", "epochs"),
            Phase::Normalizing => ("NAE training", "updates"),
            Phase::Training => ("training", "epochs"),
        };
        self.bar = progress::Progress::new(name, unit, done, total, self.quiet);
        self.look.clear();
    }

    fn progress(&mut self, progress: &Progress) {
        self.bar.set_message(format!("{}{}", progress.figures, self.look));
        self.bar.advance(1);
    }

    fn look(&mut self, look: &Look, _model: &dyn Model) {
        self.look = format!(", selection AUROC {:.3}", look.selection_auroc);
    }

    fn end(&mut self, _phase: Phase) {
        self.bar.finish();
    }
}
