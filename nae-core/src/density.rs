//! Gibbs relations: p(x) = exp(−E(x)/T)/Ω (Yoon, Noh and Park, ICML 2021). The normalizer Ω is not estimated here; it
//! is used if the trainer provides it.

use core::fmt;

/// Temperature T of the Gibbs distribution: finite and above zero, in units of energy.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Temperature(f32);

/// The temperature is NaN, infinite, zero or negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TemperatureError;

impl fmt::Display for TemperatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the temperature must be finite and above zero")
    }
}

impl core::error::Error for TemperatureError {}

impl Temperature {
    /// T = 1.
    pub const ONE: Self = Self(1.0);

    /// Returns a temperature of this value.
    ///
    /// # Errors
    /// [`TemperatureError`] if `value` is NaN, infinite, zero or below.
    pub const fn new(value: f32) -> Result<Self, TemperatureError> {
        if value.is_finite() && value > 0.0 { Ok(Self(value)) } else { Err(TemperatureError) }
    }

    /// The value of T.
    pub const fn get(self) -> f32 {
        self.0
    }

    /// log p(x) up to the constant −log Ω: −E/T, in nats.
    pub fn log_density_unnormalized(self, energy: f32) -> f32 {
        -energy / self.0
    }

    /// log p(x) = −E/T − log Ω, in nats, for a known log Ω (`log_normalizer`).
    ///
    /// ```
    /// use nae_core::density::Temperature;
    /// // E = x²/2 on the line at T = 1: Ω = √(2π), and p(0) = 0.39894.
    /// let log_normalizer = 0.5 * (2.0 * core::f32::consts::PI).ln();
    /// let log_p = Temperature::ONE.log_density(0.0, log_normalizer);
    /// assert!((log_p.exp() - 0.398_942_3).abs() < 1e-6);
    /// ```
    pub fn log_density(self, energy: f32, log_normalizer: f32) -> f32 {
        self.log_density_unnormalized(energy) - log_normalizer
    }

    /// log p(a)/p(b) of two inputs from their energies, in nats; Ω cancels.
    pub fn log_ratio(self, energy_a: f32, energy_b: f32) -> f32 {
        (energy_b - energy_a) / self.0
    }
}

impl Default for Temperature {
    fn default() -> Self {
        Self::ONE
    }
}
