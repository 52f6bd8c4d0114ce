//! The weight k of the negative samples in the loss E⁺ − k·E⁻, controlled so that the data's energy stays below a
//! limit. A weight that follows the energies is an idea of BEGAN (Berthelot, Schumm, Metz 2017), where it controls
//! their ratio.

use serde::{Deserialize, Serialize};

/// The rate of change of log k: log k falls by this in an update if the data's energy is twice its limit.
const RATE: f64 = 0.5;
/// The least k: negative samples keep some weight, so that k can recover.
const LEAST: f64 = 0.01;

/// The weight k and the limit of the data's energy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Balance {
    limit: f64,
    weight: f64,
}

impl Balance {
    /// Starts with k = 1, for data whose mean energy is to stay below `limit`.
    pub(crate) fn new(limit: f64) -> Self {
        Self { limit, weight: 1.0 }
    }

    /// The weight k.
    pub(crate) fn weight(&self) -> f32 {
        self.weight as f32
    }

    /// Updates k after an update on data of the mean energy `energy`: k falls if it is above the limit and rises, at
    /// most to 1, if it is below.
    pub(crate) fn follow(&mut self, energy: f64) {
        let excess = energy / self.limit - 1.0;
        // If the limit is 0, since data are reconstructed exactly, it cannot be kept.
        if excess.is_finite() {
            self.weight = (self.weight * (-RATE * excess).exp()).clamp(LEAST, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_falls_above_the_limit_and_rises_below() {
        let mut balance = Balance::new(0.01);
        balance.follow(0.005);
        assert_eq!(balance.weight(), 1.0);
        balance.follow(0.02);
        assert!((f64::from(balance.weight()) - (-RATE).exp()).abs() < 1e-7);
        balance.follow(0.01);
        assert!((f64::from(balance.weight()) - (-RATE).exp()).abs() < 1e-7, "at the limit, it stays");
        balance.follow(0.0);
        assert_eq!(balance.weight(), 1.0);
        for _ in 0..100 {
            balance.follow(1.0);
        }
        assert_eq!(f64::from(balance.weight()), f64::from(LEAST as f32));
    }

    #[test]
    fn no_limit_of_zero_is_held() {
        let mut balance = Balance::new(0.0);
        balance.follow(0.0);
        balance.follow(1.0);
        assert_eq!(balance.weight(), 1.0);
    }
}
