//! Chooses the state of a run to keep. The only outliers it uses are those of the selection set: ConstantGray, as in
//! the paper, or the outliers that the split has in its place.
//!
//! Longer training gives better models until the negative energies diverge: the network then raises the energy only far
//! from the data. By default the latest state is therefore kept, as long as the run has not diverged and the AUROC of
//! ConstantGray against validation images has not fallen by more than its confidence interval allows; if the run
//! diverges, it ends with the last good state.

use serde::{Deserialize, Serialize};

use crate::config::{Keep, Stopping};

/// The measurements of the model at one update.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// The number of completed updates.
    pub update: usize,
    /// The mean energy of validation images.
    pub validation_energy: f64,
    /// The AUROC of the selection set against validation images.
    pub selection_auroc: f64,
    /// The lower end of its 95% confidence interval (`of_auroc`): a later AUROC above it may be lower by chance.
    pub selection_low: f64,
    /// The mean energy of the data since the last look.
    pub positive_energy: Option<f64>,
    /// The mean energy of the negative samples since the last look.
    pub negative_energy: Option<f64>,
    /// The earth mover's distance between the last update's data and its negative samples (`earth_movers_distance`).
    pub earth_movers_distance: Option<f64>,
    /// The share of the last update's negative samples that the threshold would accept as normal
    /// (`share_below_threshold`).
    pub negatives_below_threshold: Option<f64>,
}

impl Look {
    /// Whether the negative energy exceeds its limit, or an energy is not finite.
    pub fn has_diverged(&self, settings: &Stopping) -> bool {
        let (Some(positive), Some(negative)) = (self.positive_energy, self.negative_energy) else { return false };
        let bounded = match settings.max_energy_ratio {
            Some(ratio) => negative <= ratio * positive,
            None => negative.is_finite() && positive.is_finite(),
        };
        // Comparisons with NaN are false, so NaN counts as diverged.
        !bounded || !self.validation_energy.is_finite()
    }
}

/// The decision after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This state is the one to keep so far.
    Best,
    /// An earlier state is better; training continues.
    Worse,
    /// The negative energy exceeds its limit, or an energy is not finite: the run ends with the state kept before.
    Diverged,
}

/// Keeps the best state of a model `M`.
pub struct Watch<M> {
    settings: Stopping,
    best: Look,
    model: M,
}

impl<M: Clone> Watch<M> {
    /// Starts from a look at the pre-trained model.
    pub fn new(settings: Stopping, look: Look, model: M) -> Self {
        Self { settings, best: look, model }
    }

    /// Compares the state of `look` with the best so far and keeps the better one.
    pub fn judge(&mut self, look: Look, model: &M) -> Verdict {
        let verdict = judge(&self.settings, &self.best, &look);
        if verdict == Verdict::Best {
            let Look { selection_auroc, selection_low, .. } =
                if look.selection_auroc >= self.best.selection_auroc { look } else { self.best };
            self.best = Look { selection_auroc, selection_low, ..look };
            self.model = model.clone();
        }
        verdict
    }

    /// The look at the kept state, but with the AUROC and the interval of the state with the highest AUROC so far.
    pub fn best(&self) -> &Look {
        &self.best
    }

    /// The state kept so far.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The update of the kept state, and the state.
    pub fn finish(self) -> (usize, M) {
        (self.best.update, self.model)
    }
}

fn judge(settings: &Stopping, best: &Look, look: &Look) -> Verdict {
    if look.has_diverged(settings) {
        return Verdict::Diverged;
    }
    let least = match settings.keep {
        Keep::Latest => best.selection_low,
        Keep::Best => best.selection_auroc,
    };
    if look.selection_auroc >= least { Verdict::Best } else { Verdict::Worse }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Stopping = Stopping { every: 1, max_energy_ratio: Some(4.0), keep: Keep::Latest };

    fn look(selection_auroc: f64, positive: f64, negative: f64) -> Look {
        Look {
            update: 1,
            validation_energy: 0.01,
            selection_auroc,
            selection_low: selection_auroc - 0.01,
            positive_energy: Some(positive),
            negative_energy: Some(negative),
            earth_movers_distance: None,
            negatives_below_threshold: None,
        }
    }

    #[test]
    fn later_is_better_until_it_is_worse_or_diverges() {
        let best = look(0.99, 1.0, 1.0);
        assert_eq!(judge(&SETTINGS, &best, &look(0.985, 1.0, 2.0)), Verdict::Best);
        assert_eq!(judge(&SETTINGS, &best, &look(0.95, 1.0, 2.0)), Verdict::Worse);
        assert_eq!(judge(&SETTINGS, &best, &look(1.0, 1.0, 4.1)), Verdict::Diverged);
        assert_eq!(judge(&SETTINGS, &best, &look(1.0, f64::NAN, 1.0)), Verdict::Diverged);
        assert_eq!(judge(&SETTINGS, &best, &look(f64::NAN, 1.0, 1.0)), Verdict::Worse);
    }

    #[test]
    fn the_best_is_kept_and_nothing_but_numbers_ends_the_run() {
        let settings = Stopping { max_energy_ratio: None, keep: Keep::Best, ..SETTINGS };
        let best = look(0.99, 1.0, 1.0);
        assert_eq!(judge(&settings, &best, &look(0.985, 1.0, 1.0)), Verdict::Worse, "within noise");
        assert_eq!(judge(&settings, &best, &look(0.99, 1.0, 1.0)), Verdict::Best, "of equals the latest");
        assert_eq!(judge(&settings, &best, &look(0.995, 1.0, 1e6)), Verdict::Best);
        for (positive, negative) in [(1.0, f64::INFINITY), (f64::NAN, 1.0), (1.0, f64::NAN)] {
            assert_eq!(judge(&settings, &best, &look(0.995, positive, negative)), Verdict::Diverged);
        }
        assert_eq!(judge(&settings, &best, &look(f64::NAN, 1.0, 1.0)), Verdict::Worse);
    }

    #[test]
    fn losses_within_noise_do_not_add_up() {
        let mut watch = Watch::new(SETTINGS, look(0.99, 1.0, 1.0), 0);
        assert_eq!(watch.judge(look(0.985, 1.0, 1.0), &1), Verdict::Best);
        assert_eq!(watch.judge(look(0.976, 1.0, 1.0), &2), Verdict::Worse, "measured against 0.99");
        assert_eq!(*watch.model(), 1);
    }
}
