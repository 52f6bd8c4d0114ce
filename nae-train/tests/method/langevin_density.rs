//! Metropolis–Hastings adjusted Langevin chains sample a known density; without the correction, the known bias appears.
//!
//! Every chain is a sample of its own, so errors are those of independent draws. Bounds on moments are four standard
//! errors (by chance, one moment in 16,000 fails); those on χ² are its mean and four standard deviations. Seeds are
//! fixed.

use burn::tensor::{Device, Tensor, TensorData};
use nae_lab::density::{Grid, GridDensity, Mixture, points};
use nae_train::arch::LatentSpace;
use nae_train::sample::{Bounds, ClipBy, EnergyGradient, GradientClip, Langevin, Leaving, Metropolis, NoiseSource};

const CHAINS: usize = 20_000;

/// Three overlapping Gaussians without any symmetry.
fn mixture() -> Mixture {
    Mixture { centers: vec![[-1.2, 0.1], [1.0, 0.7], [0.1, -1.3]], sigma: 0.7 }
}

/// E(x) = −log p(x), up to a constant, and its gradient.
fn energy(x: Tensor<4>) -> EnergyGradient {
    let mixture = mixture();
    let n = x.dims()[0];
    let x = x.autodiff().require_grad();
    let rows = x.clone().reshape([n, 1, 2]);
    let centers = mixture.centers.concat().into_iter().map(|v| v as f32).collect::<Vec<_>>();
    let centers = Tensor::<3>::from_data(TensorData::new(centers, [1, 3, 2]), &rows.device());
    let distance = rows - centers;
    let exponents = (distance.clone() * distance).sum_dim(2).reshape([n, 3]);
    let exponents = exponents.mul_scalar(-1.0 / (2.0 * mixture.sigma * mixture.sigma));
    let largest = exponents.clone().detach().max_dim(1);
    let energy = ((exponents - largest.clone()).exp().sum_dim(1).log() + largest).neg().reshape([n]);
    let mut gradients = energy.clone().sum().backward();
    EnergyGradient { energy: energy.inner(), gradient: x.grad_remove(&mut gradients).unwrap() }
}

/// exp(−E/T), integrated; twenty of its cells make the side of a square of the histogram.
fn density(temperature: f64) -> GridDensity {
    let mixture = mixture();
    GridDensity::from_log_density(Grid::new(480, 6.0), |x| mixture.log_density(x) / temperature).unwrap()
}

/// χ² of `samples` in squares of side 0.5, and the mean and standard deviation it has for the right density.
fn chi_square(samples: &[[f32; 2]], density: &GridDensity) -> (f64, f64, f64) {
    let coarse = Grid::new(24, 6.0);
    let mut expected = vec![0.0; coarse.len()];
    for (index, mass) in density.masses().iter().enumerate() {
        expected[coarse.cell(density.grid().middle(index)).unwrap()] += mass * samples.len() as f64;
    }
    let mut found = vec![0.0; coarse.len()];
    let mut rest = [0.0, 0.0];
    for sample in samples {
        match coarse.cell(sample.map(f64::from)) {
            Some(cell) => found[cell] += 1.0,
            None => rest[0] += 1.0,
        }
    }
    // Squares that few samples fall into are taken together.
    let (mut sum, mut squares) = (0.0, 0.0);
    for (found, expected) in found.into_iter().zip(expected) {
        if expected < 10.0 {
            rest = [rest[0] + found, rest[1] + expected];
        } else {
            sum += (found - expected) * (found - expected) / expected;
            squares += 1.0;
        }
    }
    if rest[1] > 0.0 {
        sum += (rest[0] - rest[1]) * (rest[0] - rest[1]) / rest[1];
    }
    (sum, squares, (2.0f64 * squares).sqrt())
}

/// The largest of the moments' deviations, in standard errors.
fn worst_moment(samples: &[[f32; 2]], density: &GridDensity) -> f64 {
    let moments: [fn([f64; 2]) -> f64; 6] =
        [|x| x[0], |x| x[1], |x| x[0] * x[0], |x| x[1] * x[1], |x| x[0] * x[1], |x| x[0].powi(3)];
    let deviation = |f: fn([f64; 2]) -> f64| {
        let expected = density.mean(f);
        let variance = density.mean(|x| (f(x) - expected).powi(2));
        let found = samples.iter().map(|x| f(x.map(f64::from))).sum::<f64>() / samples.len() as f64;
        (found - expected).abs() / (variance / samples.len() as f64).sqrt()
    };
    moments.into_iter().map(deviation).fold(0.0, f64::max)
}

/// Ends of chains that start all over the square.
fn sample(chain: &Langevin, temperature: f32, seed: u64) -> (Vec<[f32; 2]>, Option<f64>) {
    let mut noise = NoiseSource::new(seed, 0);
    let square = Bounds { min: -3.0, max: 3.0, leaving: Leaving::Clamp };
    let start = noise.images(Some(square), [CHAINS, 2, 1, 1], &Device::flex());
    let end = chain.run(start, temperature, &mut noise, energy, LatentSpace::Euclidean);
    (points(end.state), end.acceptance)
}

#[test]
fn adjusted_chains_sample_a_mixture_at_both_temperatures() {
    let exact = Some(Metropolis::Exact);
    let clip = Some(GradientClip { limit: 0.8, by: ClipBy::Norm });
    let cases = [
        ("σ² = 2λ", 1.0, Langevin { metropolis: exact, ..Langevin::with_step_size(120, 0.3) }),
        ("σ² = 2λ", 0.5, Langevin { metropolis: exact, ..Langevin::with_step_size(160, 0.2) }),
        ("σ² = 4λ", 0.5, Langevin { metropolis: exact, ..Langevin::new(160, 0.1, 0.4f32.sqrt()) }),
        ("clipped", 0.5, Langevin { metropolis: exact, gradient_clip: clip, ..Langevin::with_step_size(200, 0.2) }),
    ];
    for (what, temperature, chain) in cases {
        let density = density(temperature.into());
        let (samples, acceptance) = sample(&chain, temperature, 11);
        let (chi, mean, deviation) = chi_square(&samples, &density);
        let moment = worst_moment(&samples, &density);
        println!("{what}, T = {temperature}: χ² {chi:.1} ({mean} ± {deviation:.1}), {moment:.2} SE, {acceptance:?}");
        assert!(chi < mean + 4.0 * deviation, "{what}, T = {temperature}: χ² {chi} of {mean} ± {deviation}");
        assert!(moment < 4.0, "{what}, T = {temperature}: a moment is {moment} standard errors off");
        assert!(acceptance.is_some_and(|rate| rate > 0.3 && rate < 0.99), "{acceptance:?}");
    }
}

#[test]
fn without_the_correction_the_histogram_is_off() {
    for (temperature, step_size) in [(1.0, 0.3), (0.5, 0.2)] {
        let density = density(f64::from(temperature));
        let (samples, acceptance) = sample(&Langevin::with_step_size(160, step_size), temperature, 11);
        let (chi, mean, deviation) = chi_square(&samples, &density);
        assert_eq!(acceptance, None);
        assert!(chi > mean + 20.0 * deviation, "T = {temperature}: χ² {chi} of {mean} ± {deviation}");
    }
}

/// Variance of chains on E = x²/2 after many steps; that of exp(−E/T) is T.
fn variance(chain: &Langevin, temperature: f32, seed: u64) -> f64 {
    let quadratic = |x: Tensor<4>| {
        let n = x.dims()[0];
        EnergyGradient { energy: (x.clone() * x.clone()).reshape([n]).mul_scalar(0.5), gradient: x }
    };
    let mut noise = NoiseSource::new(seed, 0);
    let start = noise.normal([CHAINS, 1, 1, 1], &Device::flex());
    let end = chain.run(start, temperature, &mut noise, quadratic, LatentSpace::Euclidean);
    let values: Vec<f64> = end.state.into_data().iter::<f32>().map(f64::from).collect();
    values.iter().map(|v| v * v).sum::<f64>() / CHAINS as f64
}

/// Unadjusted, the variance is σ²/(1 − (1 − λ/T)²); adjusted, it is T.
#[test]
fn the_bias_of_a_gaussian_is_the_closed_forms() {
    let relative_error = (2.0 / CHAINS as f64).sqrt();
    for (temperature, step_size) in [(1.0f32, 0.4f32), (0.5, 0.2)] {
        let chain = Langevin::with_step_size(150, step_size);
        let target = f64::from(temperature);
        let contraction = 1.0 - f64::from(step_size) / target;
        let biased = 2.0 * f64::from(step_size) / (1.0 - contraction * contraction);
        let found = variance(&chain, temperature, 5);
        assert!((found - biased).abs() < 4.0 * biased * relative_error, "{found} against {biased}");
        assert!((found - target).abs() > 20.0 * target * relative_error, "{found} is biased away from {target}");
        let adjusted = Langevin { metropolis: Some(Metropolis::Exact), ..chain };
        let found = variance(&adjusted, temperature, 5);
        assert!((found - target).abs() < 4.0 * target * relative_error, "{found} against {target}");
    }
}

/// Its drift lacks T in the ratio, and the whole is divided by T: detailed balance is lost for another temperature.
#[test]
fn the_codes_ratio_is_right_at_temperature_one_only() {
    let relative_error = (2.0 / CHAINS as f64).sqrt();
    let chain = Langevin { metropolis: Some(Metropolis::Code), ..Langevin::with_step_size(150, 0.2) };
    let at_one = variance(&chain, 1.0, 6);
    assert!((at_one - 1.0).abs() < 4.0 * relative_error, "{at_one}");
    let at_half = variance(&chain, 0.5, 6);
    assert!((at_half - 0.5).abs() > 8.0 * 0.5 * relative_error, "{at_half}");
}

/// With bounds that reject, the density is cut off at the box and otherwise as it was.
#[test]
fn bounds_that_reject_cut_the_density_off() {
    let bounds = Some(Bounds { min: -1.0, max: 1.5, leaving: Leaving::Reject });
    let chain = Langevin { bounds, metropolis: Some(Metropolis::Exact), ..Langevin::with_step_size(150, 0.3) };
    let mut noise = NoiseSource::new(8, 0);
    let start = noise.images(bounds, [CHAINS, 2, 1, 1], &Device::flex());
    let end = chain.run(start, 0.5, &mut noise, energy, LatentSpace::Euclidean);
    let mixture = mixture();
    let inside = |x: [f64; 2]| x.iter().all(|v| (-1.0..=1.5).contains(v));
    let cut = |x| if inside(x) { mixture.log_density(x) / 0.5 } else { f64::NEG_INFINITY };
    let density = GridDensity::from_log_density(Grid::new(480, 6.0), cut).unwrap();
    let samples = points(end.state);
    assert!(samples.iter().all(|x| inside(x.map(f64::from))));
    let (chi, mean, deviation) = chi_square(&samples, &density);
    assert!(chi < mean + 4.0 * deviation, "χ² {chi} of {mean} ± {deviation}");
    assert!(worst_moment(&samples, &density) < 4.0);
}
