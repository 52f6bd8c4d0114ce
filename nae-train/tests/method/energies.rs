//! The differentiable energies: nae-core's values, and gradients that are those of a float64 reference by finite
//! differences.

use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use nae_core::energy::Energy;
use nae_train::arch::{Autoencoder, LatentSpace, small_conv16};
use nae_train::energy::{distance, energy, l1, mean_squared_norm};
use nae_train::sample::NoiseSource;

const ENERGIES: [Energy; 3] = [Energy::SquaredL2, Energy::L1, Energy::Ssim];
/// Wider and narrower than SSIM's window, in both directions.
const SHAPES: [[usize; 3]; 4] = [[1, 28, 28], [3, 13, 17], [2, 8, 8], [3, 5, 16]];

/// Pairs of random images and reconstructions that are as unlike as `contrast` says.
fn pair(shape: [usize; 4], contrast: f32, seed: u64) -> [Tensor<4>; 2] {
    let (mut noise, device) = (NoiseSource::new(seed, 0), Device::flex());
    let x = noise.uniform(shape, &device);
    let other = noise.uniform(shape, &device);
    [x.clone(), x.mul_scalar(1.0 - contrast) + other.mul_scalar(contrast)]
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().unwrap()
}

/// Channels last, as nae-core reads images.
fn channels_last(x: &[f32], [c, h, w]: [usize; 3]) -> Vec<f32> {
    (0..h * w).flat_map(|pixel| (0..c).map(move |channel| x[channel * h * w + pixel])).collect()
}

#[test]
fn values_are_nae_cores() {
    for [c, h, w] in SHAPES {
        let n = 5;
        for (contrast, seed) in [(1.0, 1), (0.1, 2), (0.0, 3)] {
            let [x, y] = pair([n, c, h, w], contrast, seed);
            for energy in ENERGIES {
                let found = values(distance(energy, x.clone(), y.clone()));
                let (x, y) = (values(x.clone()), values(y.clone()));
                for ((x, y), found) in x.chunks(c * h * w).zip(y.chunks(c * h * w)).zip(found) {
                    let [x, y] = [x, y].map(|image| channels_last(image, [c, h, w]));
                    let expected = energy.evaluate(&x, &y, Shape::new(c, h, w)).unwrap();
                    let bound = 1e-5 * expected + 1e-6;
                    assert!((found - expected).abs() <= bound, "{energy:?} {c}×{h}×{w}: {found} against {expected}");
                }
            }
        }
    }
}

/// The definitions again, channels first in float64.
fn reference(energy: Energy, x: &[f64], y: &[f64], [c, h, w]: [usize; 3]) -> f64 {
    let mean = |term: fn(f64) -> f64| x.iter().zip(y).map(|(x, y)| term(x - y)).sum::<f64>() / x.len() as f64;
    match energy {
        Energy::SquaredL2 => mean(|d| d * d),
        Energy::L1 => mean(f64::abs),
        _ => {
            let (rows, columns) = (h.min(11), w.min(11));
            let gauss = |i: usize, side: usize| (-0.5 * ((i as f64 - (side as f64 - 1.0) / 2.0) / 1.5).powi(2)).exp();
            let (mut sum, mut count) = (0.0, 0.0);
            for channel in 0..c {
                for (top, left) in (0..=h - rows).flat_map(|t| (0..=w - columns).map(move |l| (t, l))) {
                    let window: Vec<(f64, f64, f64)> = (0..rows * columns)
                        .map(|k| {
                            let (i, j) = (k / columns, k % columns);
                            let at = (channel * h + top + i) * w + left + j;
                            (gauss(i, rows) * gauss(j, columns), x[at], y[at])
                        })
                        .collect();
                    let total: f64 = window.iter().map(|v| v.0).sum();
                    let mean = |f: &dyn Fn(f64, f64) -> f64| {
                        window.iter().map(|(weight, x, y)| weight * f(*x, *y)).sum::<f64>() / total
                    };
                    let (mx, my) = (mean(&|x, _| x), mean(&|_, y| y));
                    let (vx, vy) = (mean(&|x, _| (x - mx).powi(2)), mean(&|_, y| (y - my).powi(2)));
                    let cov = mean(&|x, y| (x - mx) * (y - my));
                    sum += (2.0 * mx * my + 1e-4) / (mx * mx + my * my + 1e-4) * (2.0 * cov + 9e-4) / (vx + vy + 9e-4);
                    count += 1.0;
                }
            }
            1.0 - sum / count
        }
    }
}

#[test]
fn gradients_are_those_of_the_reference() {
    const STEP: f64 = 1e-6;
    for shape @ [c, h, w] in [[1, 14, 13], [2, 8, 12]] {
        let images = pair([1, c, h, w], 0.7, 4);
        let exact: [Vec<f64>; 2] = [0, 1].map(|k| values(images[k].clone()).into_iter().map(f64::from).collect());
        for energy in ENERGIES {
            let inputs: Vec<_> = images.iter().map(|image| image.clone().autodiff().require_grad()).collect();
            let mut gradients = distance(energy, inputs[0].clone(), inputs[1].clone()).sum().backward();
            for (which, input) in inputs.iter().enumerate() {
                let found = values(input.grad_remove(&mut gradients).unwrap());
                let expected: Vec<f64> = (0..found.len())
                    .map(|i| {
                        let at = |step: f64| {
                            let mut moved = exact.clone();
                            moved[which][i] += step;
                            reference(energy, &moved[0], &moved[1], shape)
                        };
                        (at(STEP) - at(-STEP)) / (2.0 * STEP)
                    })
                    .collect();
                let scale = expected.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                let worst = found.iter().zip(&expected).fold(0.0f64, |m, (f, e)| m.max((f64::from(*f) - e).abs()));
                assert!(worst <= 1e-4 * scale, "{energy:?}, input {which}: {worst} of {scale}");
            }
        }
    }
}

#[test]
fn a_model_has_the_energy_of_its_description() {
    let device = Device::flex();
    let spec = small_conv16(1, 4, 8, LatentSpace::Sphere).unwrap().with_energy(Energy::L1);
    let model = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device);
    let x = NoiseSource::new(1, 0).uniform([3, 1, 16, 16], &device);
    assert_eq!(model.energy(), Energy::L1);
    assert_eq!(values(energy(&model, x.clone())), values(l1(x.clone(), model.reconstruct(x))));
}

#[test]
fn the_squared_norm_is_a_mean_over_latents() {
    let z = Tensor::from_data(TensorData::new(vec![3.0f32, 4.0, 0.0, 1.0], [2, 2, 1, 1]), &Device::flex());
    let z = z.autodiff().require_grad();
    let value = mean_squared_norm(z.clone());
    let mut gradients = value.clone().backward();
    assert_eq!(values(value.inner()), [13.0]);
    assert_eq!(values(z.grad_remove(&mut gradients).unwrap()), [3.0, 4.0, 0.0, 1.0]);
}
