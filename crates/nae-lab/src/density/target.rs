//! The densities to be learned: the paper's eight Gaussians, and two others that are common in the literature
//! (Grathwohl et al., ICLR 2019, "FFJORD"), all known exactly.

use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};

use super::Mixture;

/// The name of a density.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The eight Gaussians of the paper.
    #[default]
    EightGaussians,
    /// Two arms with one and a half turns, made of Gaussians with σ = 0.1.
    TwoSpirals,
    /// Alternate squares of 4 × 4, each with side 2.
    Checkerboard,
}

impl Target {
    /// The title for display.
    pub fn title(self) -> &'static str {
        match self {
            Self::EightGaussians => "8 Gaussians",
            Self::TwoSpirals => "two spirals",
            Self::Checkerboard => "checkerboard",
        }
    }

    /// The density itself.
    pub fn density(self) -> Density {
        match self {
            Self::EightGaussians => Density::Mixture(Mixture::eight_gaussians()),
            Self::TwoSpirals => Density::Mixture(two_spirals()),
            Self::Checkerboard => Density::Checkerboard,
        }
    }
}

/// The number of Gaussians along an arm: their distance is less than σ everywhere.
const ALONG: usize = 300;

/// Both arms. The Gaussians are evenly spaced in the square of the angle, so that the density along an arm is nearly
/// constant.
fn two_spirals() -> Mixture {
    let arm = (0..ALONG).map(|k| {
        let angle = ((k as f64 + 0.5) / ALONG as f64).sqrt() * 3.0 * std::f64::consts::PI;
        [-angle.cos() * angle / 3.0, angle.sin() * angle / 3.0]
    });
    let centers = arm.flat_map(|[x, y]| [[x, y], [-x, -y]]).collect();
    Mixture { centers, sigma: 0.1 }
}

/// A density in the plane, known exactly.
#[derive(Clone, Debug, PartialEq)]
pub enum Density {
    /// A mixture of equal isotropic Gaussians.
    Mixture(Mixture),
    /// Uniform on eight squares of side 2 in [−4, 4]², those for which column and row are both even or both odd.
    Checkerboard,
}

impl Density {
    /// log p(x), in nats; −∞ outside the support.
    pub fn log_density(&self, x: [f64; 2]) -> f64 {
        match self {
            Self::Mixture(mixture) => mixture.log_density(x),
            Self::Checkerboard => {
                let [column, row] = x.map(|v| ((v + 4.0) / 2.0).floor());
                let inside = [column, row].iter().all(|k| (0.0..4.0).contains(k));
                if inside && (column + row) % 2.0 == 0.0 { -32f64.ln() } else { f64::NEG_INFINITY }
            }
        }
    }

    /// Draws `count` independent points.
    pub fn sample(&self, count: usize, rng: &mut impl Rng) -> Vec<[f32; 2]> {
        match self {
            Self::Mixture(mixture) => mixture.sample(count, rng),
            Self::Checkerboard => (0..count)
                .map(|_| {
                    let (column, half) = (rng.random_range(0..4u8), rng.random_range(0..2u8));
                    let row = 2 * half + column % 2;
                    [column, row].map(|k| 2.0 * f32::from(k) - 4.0 + 2.0 * rng.random_range(0.0..1.0f32))
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::density::{Grid, GridDensity};

    /// The fraction of points in each cell of a coarse grid is the density's mass there, within five standard errors.
    #[test]
    fn samples_are_of_the_density() {
        for target in [Target::EightGaussians, Target::TwoSpirals, Target::Checkerboard] {
            let (density, n) = (target.density(), 40_000);
            let fine = Grid::paper();
            let exact = GridDensity::from_log_density(fine, |x| density.log_density(x)).expect("a density");
            let place = |x: [f64; 2]| {
                let [column, row] = x.map(|v| ((v + 4.0) / 8.0 * 10.0).floor().clamp(0.0, 9.0) as usize);
                row * 10 + column
            };
            let mut masses = [0.0; 100];
            for (index, mass) in exact.masses().iter().enumerate() {
                masses[place(fine.middle(index))] += mass;
            }
            let mut counts = [0usize; 100];
            for point in density.sample(n, &mut ChaCha8Rng::seed_from_u64(1)) {
                counts[place(point.map(f64::from))] += 1;
            }
            for (count, mass) in counts.iter().zip(masses) {
                let share = *count as f64 / n as f64;
                // The error of the fine grid at the edges of squares is below a hundredth of a cell.
                let error = 5.0 * (mass * (1.0 - mass) / n as f64).sqrt() + 0.01 * mass + 1e-4;
                assert!((share - mass).abs() < error, "{}: {share} against {mass}", target.title());
            }
        }
    }

    #[test]
    fn densities_integrate_to_one() {
        for target in [Target::TwoSpirals, Target::Checkerboard] {
            let density = target.density();
            let step = 0.02;
            let sum: f64 = (0..450 * 450)
                .map(|k| [k % 450, k / 450].map(|k| (f64::from(k) + 0.5) * step - 4.5))
                .map(|x| density.log_density(x).exp() * step * step)
                .sum();
            assert!((sum - 1.0).abs() < 5e-3, "{}: {sum}", target.title());
        }
        assert_eq!(Density::Checkerboard.log_density([-3.5, -3.5]), -32f64.ln());
        assert_eq!(Density::Checkerboard.log_density([-1.5, -3.5]), f64::NEG_INFINITY);
    }
}
