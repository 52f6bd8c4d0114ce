//! How the noise changes along a chain (paper, "Sampling Parameters and Techniques").

use serde::{Deserialize, Serialize};

/// How the noise changes along a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Annealing {
    /// The noise is σ at every step.
    #[default]
    None,
    /// The noise is σ / (1 + t) with t = 0, 1, …, as in the paper's text.
    Harmonic,
    /// The noise is σ, σ, σ/2, σ/3, …, as in the authors' code, which changes σ after the step.
    HarmonicDelayed,
}

impl Annealing {
    /// The factor of σ at step `t`, from 0.
    pub fn factor(self, t: usize) -> f32 {
        match self {
            Self::None => 1.0,
            Self::Harmonic => 1.0 / (1 + t) as f32,
            Self::HarmonicDelayed => 1.0 / t.max(1) as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annealing_as_in_the_text_and_as_in_the_code() {
        let factors = |a: Annealing| (0..4).map(|t| a.factor(t)).collect::<Vec<_>>();
        assert_eq!(factors(Annealing::None), [1.0; 4]);
        assert_eq!(factors(Annealing::Harmonic), [1.0, 0.5, 1.0 / 3.0, 0.25]);
        assert_eq!(factors(Annealing::HarmonicDelayed), [1.0, 1.0, 0.5, 1.0 / 3.0]);
    }
}
