//! Integration on a square grid: Ω of any energy, and distances between two densities.
//!
//! It uses the midpoint rule, which for smooth densities that are small at the border is far more exact
//! than its step suggests.

use burn::tensor::{Device, Tensor};
use rand::{Rng, RngExt as _};

/// The number of points that are evaluated at once: limits memory, and does not affect the results.
const BATCH: usize = 4096;

/// The square [−half, half]², divided into `cells` × `cells` cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    cells: usize,
    half: f64,
}

/// An energy or log density that is not a valid number, or a density without mass.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// −E/T or log p is NaN or +∞ at a point.
    #[error("the unnormalized log-density at ({}, {}) is {value}", point[0], point[1])]
    NotANumber {
        /// The point.
        point: [f64; 2],
        /// The value found.
        value: f64,
    },
    /// The density is 0 in every cell.
    #[error("the density is 0 everywhere on the grid")]
    NoMass,
    /// The number of values is not that of the cells.
    #[error("{found} values for {expected} cells")]
    Length {
        /// The number of cells.
        expected: usize,
        /// The number of values.
        found: usize,
    },
}

impl Grid {
    /// A grid with `cells` cells along each axis of [−half, half]².
    pub const fn new(cells: usize, half: f64) -> Self {
        Self { cells, half }
    }

    /// The paper's domain, [−4, 4]², with cells of side 0.04.
    pub const fn paper() -> Self {
        Self::new(200, 4.0)
    }

    /// The number of cells along each axis.
    pub fn cells(self) -> usize {
        self.cells
    }

    /// The square's largest coordinate.
    pub fn half(self) -> f64 {
        self.half
    }

    /// The total number of cells.
    pub fn len(self) -> usize {
        self.cells * self.cells
    }

    /// Whether there are no cells.
    pub fn is_empty(self) -> bool {
        self.cells == 0
    }

    /// The side of a cell.
    pub fn step(self) -> f64 {
        2.0 * self.half / self.cells as f64
    }

    /// The midpoint of cell `index`; cells are numbered along the first axis, then along the second.
    pub fn middle(self, index: usize) -> [f64; 2] {
        [index % self.cells, index / self.cells].map(|k| (k as f64 + 0.5) * self.step() - self.half)
    }

    /// The cell that contains `point`; `None` if the point is outside the square.
    pub fn cell(self, point: [f64; 2]) -> Option<usize> {
        let [column, row] = point.map(|v| ((v + self.half) / self.step()).floor());
        let inside = |k: f64| k >= 0.0 && k < self.cells as f64;
        (inside(column) && inside(row)).then(|| row as usize * self.cells + column as usize)
    }

    /// All midpoints, in order, as batches `[N, 2, 1, 1]`.
    pub fn batches(self, device: &Device) -> impl Iterator<Item = Tensor<4>> {
        let points: Vec<[f32; 2]> = (0..self.len()).map(|index| self.middle(index).map(|v| v as f32)).collect();
        let device = device.clone();
        (0..points.len().div_ceil(BATCH)).map(move |k| {
            let end = points.len().min((k + 1) * BATCH);
            super::batch(&points[k * BATCH..end], &device)
        })
    }
}

/// A density on a grid, normalized there: all its mass is in the square.
#[derive(Clone, Debug)]
pub struct GridDensity {
    grid: Grid,
    log_normalizer: f64,
    /// The mass of each cell.
    masses: Vec<f64>,
    /// Its logarithm, which is also exact if the mass is too small for a float.
    log_masses: Vec<f64>,
}

impl GridDensity {
    /// The density p(x) ∝ exp(−E(x)/T), for an energy of batches `[N, 2, 1, 1]`.
    ///
    /// # Errors
    /// [`GridError::NotANumber`] if an energy is NaN or −∞.
    pub fn from_energy(
        grid: Grid,
        temperature: f64,
        device: &Device,
        energy: impl FnMut(Tensor<4>) -> Tensor<1>,
    ) -> Result<Self, GridError> {
        let energies = grid.batches(device).map(energy).flat_map(|e| e.into_data().iter::<f32>().collect::<Vec<_>>());
        Self::new(grid, energies.map(|e| -f64::from(e) / temperature).collect())
    }

    /// The density p(x) ∝ exp(`log_density`(x)).
    ///
    /// # Errors
    /// [`GridError::NotANumber`] if a value is NaN or +∞.
    pub fn from_log_density(grid: Grid, log_density: impl FnMut([f64; 2]) -> f64) -> Result<Self, GridError> {
        Self::new(grid, (0..grid.len()).map(|index| grid.middle(index)).map(log_density).collect())
    }

    fn new(grid: Grid, log_weights: Vec<f64>) -> Result<Self, GridError> {
        if log_weights.len() != grid.len() {
            return Err(GridError::Length { expected: grid.len(), found: log_weights.len() });
        }
        if let Some(index) = log_weights.iter().position(|w| w.is_nan() || *w == f64::INFINITY) {
            return Err(GridError::NotANumber { point: grid.middle(index), value: log_weights[index] });
        }
        let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return Err(GridError::NoMass);
        }
        let weights: Vec<f64> = log_weights.iter().map(|w| (w - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        let log_normalizer = largest + total.ln() + 2.0 * grid.step().ln();
        let masses = weights.into_iter().map(|w| w / total).collect();
        let log_masses = log_weights.into_iter().map(|w| w - largest - total.ln()).collect();
        Ok(Self { grid, log_normalizer, masses, log_masses })
    }

    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// log Ω, where Ω = ∫ exp(−E(x)/T) dx over the square; for a log density, the logarithm of its mass
    /// there.
    pub fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }

    /// The mass of each cell, in the grid's order; the sum is 1.
    pub fn masses(&self) -> &[f64] {
        &self.masses
    }

    /// p(x) at the midpoint of each cell.
    pub fn densities(&self) -> impl Iterator<Item = f64> {
        let area = self.grid.step().powi(2);
        self.masses.iter().map(move |mass| mass / area)
    }

    /// The mean of `f` under the density.
    pub fn mean(&self, mut f: impl FnMut([f64; 2]) -> f64) -> f64 {
        self.masses.iter().enumerate().map(|(index, mass)| mass * f(self.grid.middle(index))).sum()
    }

    /// The total variation distance, half the integral of |p − q|: 0 to 1.
    ///
    /// # Panics
    /// If `other` is on another grid.
    pub fn total_variation(&self, other: &Self) -> f64 {
        assert_eq!(self.grid, other.grid, "distances are between densities on one grid");
        self.masses.iter().zip(&other.masses).map(|(p, q)| (p - q).abs()).sum::<f64>() / 2.0
    }

    /// KL(self‖model) in nats; +∞ if the model has no mass somewhere and this density has.
    ///
    /// # Panics
    /// If `model` is on another grid.
    pub fn kl_divergence(&self, model: &Self) -> f64 {
        assert_eq!(self.grid, model.grid, "distances are between densities on one grid");
        let logs = self.log_masses.iter().zip(&model.log_masses);
        let terms = self.masses.iter().zip(logs).filter(|(p, _)| **p > 0.0);
        terms.map(|(p, (log_p, log_q))| p * (log_p - log_q)).sum()
    }

    /// Draws `count` independent points: a cell by its mass, then a position in it.
    pub fn sample(&self, count: usize, rng: &mut impl Rng) -> Vec<[f32; 2]> {
        let cumulative: Vec<f64> = self
            .masses
            .iter()
            .scan(0.0, |sum, mass| {
                *sum += mass;
                Some(*sum)
            })
            .collect();
        (0..count)
            .map(|_| {
                let uniform: f64 = rng.random();
                let cell = cumulative.partition_point(|sum| *sum <= uniform).min(self.masses.len() - 1);
                self.grid.middle(cell).map(|v| (v + (rng.random::<f64>() - 0.5) * self.grid.step()) as f32)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::super::Mixture;
    use super::*;

    /// An isotropic Gaussian around (`x`, 0).
    fn gaussian(x: f64, sigma: f64) -> GridDensity {
        let mixture = Mixture { centers: vec![[x, 0.0]], sigma };
        GridDensity::from_log_density(Grid::paper(), |point| mixture.log_density(point)).expect("finite")
    }

    #[test]
    fn cells_and_middles_are_inverse() {
        let grid = Grid::new(7, 2.0);
        assert!((0..grid.len()).all(|index| grid.cell(grid.middle(index)) == Some(index)));
        assert_eq!(grid.middle(8), [grid.step() * 1.5 - 2.0; 2]);
        assert_eq!((grid.cell([-2.0, -2.0]), grid.cell([2.0, 0.0]), grid.cell([f64::NAN, 0.0])), (Some(0), None, None));
    }

    /// E = ‖x‖²/2 has Ω = 2πT; 1e-8 of it is beyond 4 = 5.6√T.
    #[test]
    fn omega_of_a_quadratic_energy() {
        let temperature = 0.5;
        let quadratic = |x: Tensor<4>| {
            let n = x.dims()[0];
            (x.clone() * x).reshape([n, 2]).sum_dim(1).reshape([n]).mul_scalar(0.5)
        };
        let density = GridDensity::from_energy(Grid::paper(), temperature, &Device::flex(), quadratic).expect("finite");
        let expected = (2.0 * PI * temperature).ln();
        assert!((density.log_normalizer() - expected).abs() < 1e-6, "{}", density.log_normalizer());
        assert!((density.mean(|x| x[0] * x[0]) - temperature).abs() < 1e-6);
        assert!((density.densities().fold(0.0, f64::max) - 1.0 / (2.0 * PI * temperature)).abs() < 1e-3);
    }

    /// The mass of the eight Gaussians in the square: the centres of four are 1.17 = 3.3σ from a side.
    #[test]
    fn the_eight_gaussians_are_normalized() {
        let mixture = Mixture::eight_gaussians();
        let mass = |half| {
            let grid = Grid::new((half * 50.0) as usize, half);
            let density = GridDensity::from_log_density(grid, |point| mixture.log_density(point));
            density.expect("finite").log_normalizer().exp()
        };
        assert!((mass(6.0) - 1.0).abs() < 1e-9, "{}", mass(6.0));
        // The mass of a Gaussian beyond 3.3137σ on one side is 4.6e-4; half of the eight have such a side.
        assert!((mass(4.0) - (1.0 - 4.6e-4 / 2.0)).abs() < 1e-5, "{}", mass(4.0));
    }

    /// Between N(0, 1) and N(δ, 1): total variation 2Φ(δ/2) − 1, divergence δ²/2. Here, in units of σ =
    /// 0.5.
    #[test]
    fn distances_between_gaussians() {
        let (a, b) = (gaussian(-0.25, 0.5), gaussian(0.25, 0.5));
        assert!((a.total_variation(&b) - 0.382_924_9).abs() < 1e-4, "{}", a.total_variation(&b));
        assert!((a.kl_divergence(&b) - 0.5).abs() < 1e-9, "{}", a.kl_divergence(&b));
        assert_eq!((a.total_variation(&a), a.kl_divergence(&a)), (0.0, 0.0));
        // KL(N(0, σ²I) ‖ N(0, s²I)) = 2(ln(s/σ) + σ²/2s² − 1/2).
        let (narrow, wide) = (gaussian(0.0, 0.4), gaussian(0.0, 0.6));
        let expected = 2.0 * (1.5f64.ln() + 0.16 / 0.72 - 0.5);
        assert!((narrow.kl_divergence(&wide) - expected).abs() < 1e-8);
        // Where one has mass, that of the other is too small for a float; the divergence is still (120
        // σ)²/2.
        let apart = gaussian(-3.0, 0.05).kl_divergence(&gaussian(3.0, 0.05));
        assert!((apart / 7200.0 - 1.0).abs() < 1e-6, "{apart}");
    }

    #[test]
    fn samples_follow_the_masses() {
        let density = gaussian(1.0, 0.5);
        let n = 40_000;
        let points = density.sample(n, &mut ChaCha8Rng::seed_from_u64(2));
        let mean = |f: &dyn Fn(&[f32; 2]) -> f64| points.iter().map(f).sum::<f64>() / n as f64;
        let error = 4.0 * 0.5 / (n as f64).sqrt();
        assert!((mean(&|p| p[0].into()) - 1.0).abs() < error && mean(&|p| p[1].into()).abs() < error);
        assert!((mean(&|p| (f64::from(p[0]) - 1.0).powi(2)) - 0.25).abs() < 4.0 * 0.25 * (2.0 / n as f64).sqrt());
    }

    #[test]
    fn energies_that_are_no_numbers_are_named() {
        let broken = |point: [f64; 2]| if point[0] > 2.0 { f64::NAN } else { 0.0 };
        let error = GridDensity::from_log_density(Grid::new(4, 4.0), broken).expect_err("NaN").to_string();
        assert_eq!(error, "the unnormalized log-density at (3, -3) is NaN");
        let empty = GridDensity::from_log_density(Grid::new(4, 4.0), |_| f64::NEG_INFINITY);
        assert_eq!(empty.expect_err("no mass"), GridError::NoMass);
        let short = GridDensity::from_energy(Grid::new(4, 4.0), 1.0, &Device::flex(), |_| {
            Tensor::<1>::zeros([3], &Device::flex())
        });
        assert_eq!(short.expect_err("too few"), GridError::Length { expected: 16, found: 3 });
    }
}
