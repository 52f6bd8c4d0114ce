//! Progress bars with the time left, for training.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::methods::Model;
use crate::train::observer::{Observer, Phase, Progress};
use crate::train::stopping::Look;

/// Draws a bar for each part of a run on standard error; nothing where that is no terminal, or when quiet.
pub struct Bars {
    quiet: bool,
    bar: ProgressBar,
    look: String,
}

impl Bars {
    /// Bars, or none where `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, bar: ProgressBar::hidden(), look: String::new() }
    }
}

impl Observer for Bars {
    fn begin(&mut self, phase: Phase, done: usize, total: usize) {
        if self.quiet {
            return;
        }
        let (name, unit) = match phase {
            Phase::Pretraining => ("pre-training", "epochs"),
            Phase::Normalizing => ("NAE training", "updates"),
            Phase::Training => ("training", "epochs"),
        };
        let template = format!("{name:<13} {{bar:32}} {{pos}}/{{len}} {unit}, {{eta}} left  {{msg}}");
        // The template is fixed text with indicatif's own fields.
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr()).with_style(style);
        self.bar.set_position(done as u64);
        self.bar.reset_eta();
        self.bar.enable_steady_tick(Duration::from_millis(500));
        self.look.clear();
    }

    fn progress(&mut self, progress: &Progress) {
        self.bar.inc(1);
        self.bar.set_message(format!("{}{}", progress.figures, self.look));
    }

    fn look(&mut self, look: &Look, _model: &dyn Model) {
        self.look = format!(", selection AUROC {:.3}", look.selection_auroc);
    }

    fn end(&mut self, _phase: Phase) {
        self.bar.finish();
    }
}
