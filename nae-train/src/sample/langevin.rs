//! Langevin Monte Carlo (paper, equations 10 and 14): x ← x − λ·∇E(x)/T + σ_t·ε.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::frozen::EnergyGradient;
use super::noise::NoiseSource;

/// How the noise changes along a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Annealing {
    /// σ at every step.
    #[default]
    None,
    /// σ / (1 + t), t = 0, 1, …: the paper's text.
    Harmonic,
    /// σ, σ, σ/2, σ/3, …: the authors' code, which changes σ after the step.
    HarmonicDelayed,
}

impl Annealing {
    /// What σ is multiplied by at step `t`, from 0.
    pub fn factor(self, t: usize) -> f32 {
        match self {
            Self::None => 1.0,
            Self::Harmonic => 1.0 / (1 + t) as f32,
            Self::HarmonicDelayed => 1.0 / t.max(1) as f32,
        }
    }
}

/// The settings of one chain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Langevin {
    /// Number of steps τ.
    pub steps: usize,
    /// Step size λ.
    pub step_size: f32,
    /// Standard deviation σ of the noise.
    pub noise: f32,
    /// How σ changes along the chain.
    #[serde(default)]
    pub annealing: Annealing,
    /// Each element of the gradient is clipped to ± this.
    #[serde(default)]
    pub gradient_clip: Option<f32>,
}

impl Langevin {
    /// Runs the chain from `start` at temperature T; `confine` brings each state back into its space.
    ///
    /// Returns the last state.
    pub fn run(
        &self,
        start: Tensor<4>,
        temperature: f32,
        noise: &mut NoiseSource,
        energy: impl Fn(Tensor<4>) -> EnergyGradient,
        confine: impl Fn(Tensor<4>) -> Tensor<4>,
    ) -> Tensor<4> {
        let (shape, device) = (start.dims(), start.device());
        (0..self.steps).fold(start, |state, t| {
            let mut gradient = energy(state.clone()).gradient;
            if temperature != 1.0 {
                gradient = gradient.div_scalar(temperature);
            }
            if let Some(limit) = self.gradient_clip {
                gradient = gradient.clamp(-limit, limit);
            }
            let sigma = self.noise * self.annealing.factor(t);
            let epsilon = noise.normal(shape, &device);
            confine(state - gradient.mul_scalar(self.step_size) + epsilon.mul_scalar(sigma))
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn annealing_as_in_the_text_and_as_in_the_code() {
        let factors = |a: Annealing| (0..4).map(|t| a.factor(t)).collect::<Vec<_>>();
        assert_eq!(factors(Annealing::None), [1.0; 4]);
        assert_eq!(factors(Annealing::Harmonic), [1.0, 0.5, 1.0 / 3.0, 0.25]);
        assert_eq!(factors(Annealing::HarmonicDelayed), [1.0, 1.0, 0.5, 1.0 / 3.0]);
    }

    /// For E = x²/2 a chain with σ² = 2λ has a normal stationary law of variance T/(1 − λ/(2T))·…; with
    /// x ← (1 − λ/T)·x + σ·ε the variance is exactly σ² / (1 − (1 − λ/T)²).
    #[test]
    fn a_quadratic_energy_gives_the_closed_form_variance() {
        let device = Device::flex();
        let quadratic = |x: Tensor<4>| {
            let n = x.dims()[0];
            EnergyGradient { energy: (x.clone() * x.clone()).reshape([n]).mul_scalar(0.5), gradient: x }
        };
        let (step_size, temperature) = (0.1f32, 0.5f32);
        let chain = Langevin {
            steps: 200,
            step_size,
            noise: (2.0 * step_size).sqrt(),
            annealing: Annealing::None,
            gradient_clip: None,
        };
        let n = 20_000;
        let mut noise = NoiseSource::new(1, 0);
        let x = chain.run(Tensor::zeros([n, 1, 1, 1], &device), temperature, &mut noise, quadratic, |x| x);
        let values = x.into_data().try_into_vec::<f32>().expect("float data");
        let variance = values.iter().map(|v| f64::from(v * v)).sum::<f64>() / n as f64;
        let contraction = 1.0 - f64::from(step_size / temperature);
        let expected = 2.0 * f64::from(step_size) / (1.0 - contraction * contraction);
        // The standard error of a variance from n normal values is expected·√(2/n); four of them.
        let bound = 4.0 * expected * (2.0 / n as f64).sqrt();
        assert!((variance - expected).abs() < bound, "{variance} against {expected} ± {bound}");
    }

    #[test]
    fn clipping_bounds_the_drift() {
        let device = Device::flex();
        let steep =
            |x: Tensor<4>| EnergyGradient { energy: Tensor::zeros([1], &x.device()), gradient: x.ones_like() * 7.0 };
        let chain =
            Langevin { steps: 3, step_size: 10.0, noise: 0.0, annealing: Annealing::None, gradient_clip: Some(0.01) };
        let x = chain.run(Tensor::zeros([1, 1, 1, 1], &device), 1.0, &mut NoiseSource::new(0, 0), steep, |x| x);
        assert!((x.into_scalar::<f32>() + 0.3).abs() < 1e-6);
    }
}
