//! Metropolis–Hastings correction of a Langevin step (Roberts and Tweedie 1996), sample by sample.
//!
//! A step proposes y = x + d(x) + σε, where d is the drift: −λ∇E(x)/T, possibly clipped. The proposal's density is
//! therefore q(y|x) = N(y; x + d(x), σ²I), and a step is accepted with probability min(1, α),
//!
//! log α = −(E(y) − E(x))/T + log q(x|y) − log q(y|x)
//!       = −(E(y) − E(x))/T + (‖y − x − d(x)‖² − ‖x − y − d(y)‖²) / (2σ²).
//!
//! **What is exact.** [`Metropolis::Exact`] is exact in all cases: the formula requires neither σ² = 2λ nor the true
//! gradient. With any σ > 0, any λ and any drift that is a function of the state alone, p(x) ∝ exp(−E(x)/T) stays the
//! stationary density; σ² = 2λ without clipping is only the choice that rejects few steps. With bounds that reject, p
//! is restricted to the box: its density outside is 0, so steps out of the box are rejected.
//!
//! **What is not exact**, and is an error in a preset: clamping to a box and projection to the sphere, since the step's
//! density is then not q; and annealing (each step would be exact with its own σ_t, but with a constant λ the drift
//! soon exceeds the noise and nearly all steps are rejected).

use serde::{Deserialize, Serialize};

/// The ratio that decides whether a step is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metropolis {
    /// The ratio in the module's documentation: the chain's stationary density is p(x) ∝ exp(−E(x)/T).
    Exact,
    /// The ratio of the authors' code: log α = [−(E(y) − E(x)) − (‖λ(∇E(x) + ∇E(y)) − σε‖² − ‖σε‖²) / (4λ)] / T. Its
    /// drift lacks the factor 1/T, and its proposal term is divided by T, so it is only exact for T = 1 and σ² = 2λ.
    Code,
}

/// One proposed step of one sample, reduced to the values that both ratios need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proposal {
    /// E(x).
    pub(crate) energy: f64,
    /// E(y).
    pub(crate) proposed_energy: f64,
    /// ‖σε‖² = ‖y − x − d(x)‖².
    pub(crate) forward: f64,
    /// ‖d(x) + d(y) + σε‖² = ‖x − y − d(y)‖², with the drifts of the chosen ratio.
    pub(crate) backward: f64,
}

impl Metropolis {
    /// The factor of the drift −λ∇E/T in the backward step.
    pub(crate) fn drift_factor(self, temperature: f32) -> f32 {
        match self {
            Self::Exact => 1.0,
            Self::Code => temperature,
        }
    }

    /// Whether a step is accepted, given a `uniform` draw from [0, 1). A NaN, which results from infinite energies, is
    /// rejected.
    pub(crate) fn takes(self, step: Proposal, temperature: f32, step_size: f32, noise: f32, uniform: f32) -> bool {
        let ratio = self.log_ratio(step, temperature.into(), step_size.into(), noise.into());
        f64::from(uniform).ln() < ratio
    }

    /// log α.
    fn log_ratio(self, step: Proposal, temperature: f64, step_size: f64, noise: f64) -> f64 {
        let energies = step.energy - step.proposed_energy;
        let proposals = step.forward - step.backward;
        match self {
            Self::Exact => energies / temperature + proposals / (2.0 * noise * noise),
            Self::Code => (energies + proposals / (4.0 * step_size)) / temperature,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Proposal = Proposal { energy: 1.0, proposed_energy: 1.5, forward: 0.2, backward: 0.3 };

    #[test]
    fn both_ratios_agree_at_temperature_one_and_the_theoretical_noise() {
        let step_size = 0.1f64;
        let noise = (2.0 * step_size).sqrt();
        let exact = Metropolis::Exact.log_ratio(STEP, 1.0, step_size, noise);
        assert!((exact - Metropolis::Code.log_ratio(STEP, 1.0, step_size, noise)).abs() < 1e-12);
        assert!((exact - (-0.5 - 0.1 / 0.4)).abs() < 1e-12);
    }

    /// Not even by a draw of 0, whose logarithm is −∞.
    #[test]
    fn energies_that_are_not_finite_are_never_gone_to() {
        for metropolis in [Metropolis::Exact, Metropolis::Code] {
            let takes = |proposed_energy| metropolis.takes(Proposal { proposed_energy, ..STEP }, 1.0, 0.1, 0.4, 0.0);
            assert!(takes(1e6));
            assert!(!takes(f64::INFINITY));
            assert!(!takes(f64::NAN));
        }
    }

    #[test]
    fn the_codes_ratio_differs_at_another_temperature() {
        let step_size = 0.1f64;
        let noise = (2.0 * step_size).sqrt();
        let exact = Metropolis::Exact.log_ratio(STEP, 0.5, step_size, noise);
        assert!((exact - (-1.0 - 0.25)).abs() < 1e-12);
        assert!((Metropolis::Code.log_ratio(STEP, 0.5, step_size, noise) - (-1.5)).abs() < 1e-12);
    }
}
