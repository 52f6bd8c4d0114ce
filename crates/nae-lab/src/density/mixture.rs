//! Mixtures of equal isotropic Gaussians, including the paper's eight.

use std::f64::consts::{PI, SQRT_2};

use rand::{Rng, RngExt as _};
use rand_distr::StandardNormal;

/// A mixture of isotropic Gaussians with the same standard deviation and equal weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// The means.
    pub centers: Vec<[f64; 2]>,
    /// The standard deviation of each, along any axis.
    pub sigma: f64,
}

impl Mixture {
    /// The paper's eight Gaussians, on a circle (after Grathwohl et al. 2018): centres at distance 4 from the origin
    /// and σ = 0.5, both divided by √2.
    ///
    /// The paper's appendix calls √2/4 the covariance; it is the standard deviation, as in the data from which it was
    /// taken.
    pub fn eight_gaussians() -> Self {
        let centers = (0..8)
            .map(|k| {
                let angle = f64::from(k) * PI / 4.0;
                [angle.cos(), angle.sin()].map(|v| 4.0 / SQRT_2 * v)
            })
            .collect();
        Self { centers, sigma: 0.5 / SQRT_2 }
    }

    /// log p(x), in nats.
    pub fn log_density(&self, x: [f64; 2]) -> f64 {
        let variance = self.sigma * self.sigma;
        let exponents: Vec<f64> =
            self.centers.iter().map(|c| -((x[0] - c[0]).powi(2) + (x[1] - c[1]).powi(2)) / (2.0 * variance)).collect();
        let largest = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = exponents.iter().map(|e| (e - largest).exp()).sum();
        largest + sum.ln() - (2.0 * PI * variance * self.centers.len() as f64).ln()
    }

    /// Draws `count` independent points.
    pub fn sample(&self, count: usize, rng: &mut impl Rng) -> Vec<[f32; 2]> {
        (0..count)
            .map(|_| {
                let center = self.centers[rng.random_range(0..self.centers.len())];
                center.map(|c| {
                    let epsilon: f64 = rng.sample(StandardNormal);
                    (c + self.sigma * epsilon) as f32
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn the_ring_is_the_papers() {
        let mixture = Mixture::eight_gaussians();
        for expected in [[2.0 * SQRT_2, 0.0], [0.0, 2.0 * SQRT_2], [2.0, 2.0], [-2.0, 2.0], [-2.0, -2.0]] {
            assert!(mixture.centers.iter().any(|c| (c[0] - expected[0]).hypot(c[1] - expected[1]) < 1e-12));
        }
        assert!((mixture.sigma * mixture.sigma - 1.0 / 8.0).abs() < 1e-12);
        // Each of the two neighbours at d² = 2·8·(1 − cos 45°) adds exp(−d²/2σ²), with σ² = 1/8; the others are much
        // further away.
        let neighbours = 2.0 * (-16.0 * (1.0 - SQRT_2 / 2.0) * 4.0).exp();
        let expected = ((1.0 + neighbours) / (8.0 * 2.0 * PI / 8.0)).ln();
        assert!((mixture.log_density([2.0, 2.0]) - expected).abs() < 1e-9);
        assert!((mixture.log_density([2.0, 2.0]) - mixture.log_density([0.0, -2.0 * SQRT_2])).abs() < 1e-12);
    }

    /// Within four standard errors each: by chance, one seed in several thousand fails.
    #[test]
    fn samples_have_the_mixtures_moments() {
        let (mixture, n) = (Mixture::eight_gaussians(), 40_000);
        let points = mixture.sample(n, &mut ChaCha8Rng::seed_from_u64(1));
        let mean = |f: &dyn Fn([f64; 2]) -> f64| {
            let values: Vec<f64> = points.iter().map(|p| f(p.map(f64::from))).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
            (mean, 4.0 * (variance / n as f64).sqrt())
        };
        for (f, expected) in [
            (&(|p: [f64; 2]| p[0]) as &dyn Fn([f64; 2]) -> f64, 0.0),
            (&|p| p[1], 0.0),
            (&|p| p[0] * p[0], 4.0 + 1.0 / 8.0),
            (&|p| p[1] * p[1], 4.0 + 1.0 / 8.0),
            (&|p| p[0] * p[1], 0.0),
        ] {
            let (found, error) = mean(f);
            assert!((found - expected).abs() < error, "{found} against {expected} ± {error}");
        }
    }
}
