//! Energies against float64 references, closed forms, and scikit-image.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_core::energy::{Energy, EnergyError};
use proptest::prelude::*;

const ALL: [Energy; 3] = [Energy::SquaredL2, Energy::L1, Energy::Ssim];

/// Two images from a formula that is short in any language.
fn images(shape: Shape) -> (Vec<f32>, Vec<f32>) {
    (0..shape.len())
        .map(|i| {
            let x = (i * 37 % 101) as f64 / 100.0;
            let y = x + ((i * 17 % 23) as f64 - 11.0) / 100.0;
            (x as f32, y.clamp(0.0, 1.0) as f32)
        })
        .unzip()
}

#[test]
fn sums_stay_within_1e_6_of_float64() {
    let shape = Shape::new(3, 64, 64);
    for scale in [1.0, 1e-4, 1e6] {
        let (x, y) = images(shape);
        let x: Vec<f32> = x.iter().map(|v| v * scale).collect();
        let y: Vec<f32> = y.iter().map(|v| v * scale).collect();
        let differences = || x.iter().zip(&y).map(|(x, y)| f64::from(*x) - f64::from(*y));
        let squared = differences().map(|d| d * d).sum::<f64>() / 12_288.0;
        let absolute = differences().map(f64::abs).sum::<f64>() / 12_288.0;
        let near = |energy: Energy, expected: f64| {
            let found = f64::from(energy.evaluate(&x, &y, shape).unwrap());
            assert!((found / expected - 1.0).abs() < 1e-6, "{energy:?}: {found} is not {expected}");
        };
        near(Energy::SquaredL2, squared);
        near(Energy::L1, absolute);
    }
}

/// scikit-image 0.26.0:
/// `1 - structural_similarity(x, y, data_range=1, gaussian_weights=True, sigma=1.5,
/// use_sample_covariance=False, channel_axis=2)` of the same images.
#[test]
fn ssim_is_that_of_scikit_image() {
    for (shape, ssim) in
        [(Shape::new(1, 16, 16), 0.977_638_204_443_813_7), (Shape::new(3, 20, 13), 0.975_236_600_729_511_2)]
    {
        let (x, y) = images(shape);
        let energy = Energy::Ssim.evaluate(&x, &y, shape).unwrap();
        assert!((f64::from(energy) - (1.0 - ssim)).abs() < 2e-6, "{energy} is not {}", 1.0 - ssim);
    }
}

#[test]
fn ssim_in_closed_form() {
    // Constant images have no variance: the luminance term alone, whatever the window.
    for shape in [Shape::new(1, 1, 1), Shape::new(2, 3, 30), Shape::new(1, 16, 16), Shape::new(3, 11, 4)] {
        let (a, b) = (0.25f64, 0.75);
        let expected = 1.0 - (2.0 * a * b + 1e-4) / (a * a + b * b + 1e-4);
        let energy = Energy::Ssim.evaluate(&vec![0.25; shape.len()], &vec![0.75; shape.len()], shape).unwrap();
        assert!((f64::from(energy) - expected).abs() < 1e-6);
        let (x, _) = images(shape);
        assert!(Energy::Ssim.evaluate(&x, &x, shape).unwrap().abs() < 1e-6);
    }
}

#[test]
fn the_error_maps_mean_is_the_energy() {
    let shape = Shape::new(3, 9, 7);
    let (x, y) = images(shape);
    for energy in [Energy::SquaredL2, Energy::L1] {
        let mut map = [0.0; 63];
        energy.error_map(&x, &y, shape, &mut map).unwrap();
        let mean = map.iter().sum::<f32>() / 63.0;
        assert!((mean / energy.evaluate(&x, &y, shape).unwrap() - 1.0).abs() < 1e-6);
        let third: f32 =
            (0..3).map(|c| x[6 + c] - y[6 + c]).map(|d| if energy == Energy::L1 { d.abs() } else { d * d }).sum();
        assert!((map[2] - third / 3.0).abs() < 1e-7);
    }
}

#[test]
fn bad_input_is_an_error() {
    let shape = Shape::new(1, 2, 2);
    let (x, mut map) = ([0.5; 4], [0.0; 4]);
    for energy in ALL {
        assert_eq!(energy.evaluate(&x[1..], &x, shape), Err(EnergyError::ImageLength));
        assert_eq!(energy.evaluate(&x, &x[1..], shape), Err(EnergyError::ReconstructionLength));
        assert_eq!(energy.evaluate(&[], &[], Shape::new(0, 2, 2)), Err(EnergyError::Empty));
        assert_eq!(energy.error_map(&x, &x, shape, &mut map[1..]), Err(EnergyError::MapLength));
        let huge = Shape::new(usize::MAX, usize::MAX, 2);
        assert_eq!(energy.evaluate(&x, &x, huge), Err(EnergyError::ImageLength));
        for bad in [f32::NAN, f32::INFINITY] {
            let mut y = x;
            y[3] = bad;
            assert_eq!(energy.evaluate(&x, &y, shape), Err(EnergyError::NonFinite));
            assert_eq!(energy.evaluate(&y, &x, shape), Err(EnergyError::NonFinite));
        }
    }
    // Finite input whose energy is not.
    let far = [f32::MAX; 4];
    assert_eq!(Energy::SquaredL2.evaluate(&far, &x, shape), Err(EnergyError::NonFinite));
    assert_eq!(Energy::Ssim.evaluate(&far, &x, shape), Err(EnergyError::NonFinite));
}

#[test]
fn names_and_numbers_are_their_own_inverse() {
    for energy in ALL {
        assert_eq!(Energy::from_name(energy.name()), Some(energy));
        assert_eq!(Energy::from_id(energy.id()), Some(energy));
    }
    assert_eq!((Energy::from_name("l3"), Energy::from_id(3)), (None, None));
}

proptest! {
    #[test]
    fn energies_are_finite_or_refused(
        values in prop::collection::vec(any::<f32>(), 24),
        energy in prop::sample::select(ALL.to_vec()),
    ) {
        let shape = Shape::new(2, 3, 2);
        let (x, y) = values.split_at(12);
        if let Ok(energy) = energy.evaluate(x, y, shape) {
            prop_assert!(energy.is_finite());
        }
    }

    #[test]
    fn ssim_stays_in_its_range(values in prop::collection::vec(0.0f32..=1.0, 2 * 169)) {
        let (x, y) = values.split_at(169);
        let energy = Energy::Ssim.evaluate(x, y, Shape::new(1, 13, 13)).unwrap();
        prop_assert!((0.0..=2.0).contains(&energy));
    }

    /// Rounding could otherwise take the energy of nearly equal images below 0.
    #[test]
    fn ssim_of_nearly_equal_images_is_not_negative(
        x in prop::collection::vec(0.0f32..=1.0, 169),
        changes in prop::collection::vec(-1e-5f32..=1e-5, 169),
    ) {
        let y: Vec<f32> = x.iter().zip(&changes).map(|(x, change)| x + change).collect();
        for y in [&x, &y] {
            let energy = Energy::Ssim.evaluate(&x, y, Shape::new(1, 13, 13)).unwrap();
            prop_assert!((0.0..1e-3).contains(&energy), "{energy}");
        }
    }
}
