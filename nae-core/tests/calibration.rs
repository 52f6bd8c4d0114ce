//! Calibration against its definition, and the guarantee itself.
#![allow(clippy::unwrap_used)]

use nae_core::calibration::{
    Calibration, CalibrationError, CalibrationView, CollectError, Collector, Spacing, TABLE_LEN, confident_rate,
};
use proptest::prelude::*;

/// p by its definition.
fn exact_p(energies: &[f32], energy: f32) -> f64 {
    let at_least = energies.iter().filter(|e| **e >= energy).count();
    (1 + at_least) as f64 / (energies.len() + 1) as f64
}

/// Of energies from a uniform distribution, the rate of a threshold is what is above it.
#[test]
fn confident_rates_and_intervals_hold_as_often_as_they_say() {
    const DRAWS: usize = 4000;
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    for count in [93, 180, 700] {
        let rate = confident_rate(count, 0.05, 0.95).unwrap();
        let (mut kept, mut inside) = (0, 0);
        for _ in 0..DRAWS {
            let mut energies: Vec<f32> = (0..count).map(|_| uniform()).collect();
            let calibration = Calibration::from_energies(&mut energies).unwrap();
            let above = |rate: f32| 1.0 - calibration.threshold(rate).unwrap();
            kept += usize::from(above(rate) <= 0.05);
            let (low, high) = calibration.rate_interval(0.05, 0.9).unwrap();
            inside += usize::from((low..=high).contains(&above(0.05)));
        }
        let (kept, inside) = (kept as f64 / DRAWS as f64, inside as f64 / DRAWS as f64);
        // Three standard deviations of such a share are .010 and .014; whole ranks leave up to .02 on the safe side, the
        // table of more than 256 energies some more.
        assert!((0.940..0.985).contains(&kept), "{count}: {kept}");
        assert!((inside - 0.9).abs() < 0.014, "{count}: {inside}");
    }
}

#[test]
fn rates_that_round_badly_give_the_count_meant() {
    // rate·(n + 1) in f32 or f64 falls on either side of the whole number meant.
    for (count, rate, alarms) in [
        (99, 0.05f32, 5),
        (99, 0.07, 7),
        (99, 0.29, 29),
        (9, 0.7, 7),
        (9, 0.3, 3),
        (19, 0.05, 1),
        (255, 0.1, 25),
        (999, 0.001, 1),
        (999, 0.007, 7),
    ] {
        let energies: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let calibration = Calibration::from_sorted(&energies).unwrap();
        let threshold = calibration.threshold(rate).unwrap();
        let expected = (count - alarms) as f32;
        assert_eq!(threshold, expected, "n {count} rate {rate}");
    }
}

/// One odd image among thousands that calibrate must not become the threshold of a small rate.
#[test]
fn the_largest_of_many_energies_are_kept_as_they_are() {
    let counts = [257, 300, 511, 512, 1000, 4000, 60_000, 1_000_000];
    for count in counts {
        let energies: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let calibration = Calibration::from_sorted(&energies).unwrap();
        assert_eq!(calibration.table().len(), TABLE_LEN);
        assert!(calibration.table().windows(2).all(|pair| pair[0] < pair[1]), "{count}");
        assert_eq!((calibration.table()[0], calibration.table()[TABLE_LEN - 1]), (0.0, (count - 1) as f32));
        for k in 1..=32 {
            let rate = k as f32 / (count + 1) as f32;
            assert_eq!(calibration.threshold(rate), Ok((count - k) as f32), "the {k}th largest of {count}");
        }
        let step = if count > 60_000 { 0.012 } else { 0.008 };
        for k in (33..count).step_by(count / 200) {
            // Of the energy that is the k-th largest: k of them are no less, and so is itself.
            let (exact, p) = ((k + 1) as f32 / (count + 1) as f32, calibration.p_value((count - k) as f32).unwrap());
            assert!(p >= exact && p - exact <= (exact / 16.0).min(step), "{k} of {count}: {p} for {exact}");
        }
    }
}

#[test]
fn a_table_of_as_many_energies_as_there_may_be_has_all_ranks() {
    let table: Vec<f32> = (0..TABLE_LEN).map(|j| j as f32).collect();
    let count = nae_core::calibration::MAX_COUNT;
    let calibration = Calibration::from_table(count, Spacing::Tail, &table).unwrap();
    let rates = [1, 32, 33, 34, 1 << 10, 1 << 16, 1 << 20, 1 << 23].map(|k| k as f32 / (count + 1) as f32);
    let thresholds = rates.map(|rate| calibration.threshold(rate).unwrap());
    assert_eq!(thresholds[..3], [255.0, 224.0, 224.0 - 1.0]);
    assert!(thresholds.is_sorted_by(|a, b| a >= b), "{thresholds:?}");
    // Below all but the least: everything but it may be an alarm, and itself.
    assert_eq!(calibration.p_value(0.5), Ok(1.0 - 1.0 / (count + 1) as f32));
}

/// Tables of earlier versions are read as they were written.
#[test]
fn evenly_spaced_tables_keep_their_meaning() {
    let count = 4000;
    // Entry j has rank ⌊j·3,999/255⌋.
    let table: Vec<f32> = (0..TABLE_LEN).map(|j| (j * (count - 1) / 255) as f32).collect();
    let even = Calibration::from_table(count, Spacing::Even, &table).unwrap();
    assert_eq!(even.threshold(0.002), Ok(3999.0));
    // 40 of 4,001 are allowed; the first entry at or above rank 3,960 is 253, of rank 3,967.
    assert_eq!(even.threshold(0.01), Ok(3967.0));
    assert_ne!(even.view().to_owned(), Calibration::from_table(count, Spacing::Tail, &table).unwrap());
    // Of all energies there is one table.
    let all = [1.0, 2.0];
    assert_eq!(Calibration::from_table(2, Spacing::Even, &all), Calibration::from_table(2, Spacing::Tail, &all));
}

/// With rates of whole numbers of n + 1, the threshold for k/(n + 1) is the k-th largest, down to the least.
#[test]
fn a_handful_of_energies_has_a_threshold_for_every_rank() {
    let energies = [1.0, 2.0, 4.0, 8.0];
    for n in 1..=energies.len() {
        let calibration = Calibration::from_sorted(&energies[..n]).unwrap();
        assert_eq!(calibration.table(), &energies[..n]);
        for k in 1..=n {
            let rate = k as f32 / (n + 1) as f32;
            assert_eq!(calibration.threshold(rate), Ok(energies[n - k]), "{k} of {n}");
            assert_eq!(calibration.p_value(energies[n - k]), Ok((k + 1) as f32 / (n + 1) as f32), "{k} of {n}");
        }
        // No more than all of them.
        assert_eq!(calibration.threshold(0.999), Ok(1.0), "{n}");
    }
}

#[test]
fn a_collector_takes_finite_energies_up_to_its_size() {
    let mut collector = Collector::<3>::new();
    assert!(collector.is_empty());
    assert_eq!(collector.clone().finish(), Err(CalibrationError::Empty));
    for energy in [f32::NAN, f32::INFINITY] {
        assert_eq!(collector.observe(energy), Err(CollectError::NonFinite));
    }
    assert_eq!((collector.len(), collector.is_empty()), (0, true));
    for (count, energy) in [3.0, 1.0, 2.0].into_iter().enumerate() {
        assert_eq!((collector.len(), collector.observe(energy)), (count, Ok(())));
        assert!(!collector.is_empty());
    }
    assert_eq!((collector.observe(0.0), collector.len()), (Err(CollectError::Full), 3));
    let calibration = collector.finish().unwrap();
    assert_eq!(calibration.table(), [1.0, 2.0, 3.0]);
    assert_eq!(calibration.threshold(0.25), Ok(3.0));
}

#[test]
fn what_cannot_be_promised_is_refused() {
    let calibration = Calibration::from_sorted(&[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(calibration.threshold(0.249), Err(CalibrationError::RateTooLow));
    assert_eq!(calibration.threshold(0.25), Ok(3.0));
    for rate in [0.0, 1.0, -0.5, 1.5, f32::NAN, f32::INFINITY] {
        assert_eq!(calibration.threshold(rate), Err(CalibrationError::RateOutOfRange));
    }
    assert_eq!(Calibration::from_sorted(&[]), Err(CalibrationError::Empty));
    assert_eq!(Calibration::from_sorted(&[2.0, 1.0]), Err(CalibrationError::NotSorted));
    assert_eq!(Calibration::from_energies(&mut [1.0, f32::NAN]), Err(CalibrationError::NonFinite));
    assert_eq!(calibration.p_value(f32::NAN), Err(CalibrationError::NonFinite));
    assert_eq!(CalibrationView::new(3, Spacing::Tail, &[1.0]).map(|_| ()), Err(CalibrationError::TableLength));
    assert_eq!(Calibration::from_table(1 << 24, Spacing::Tail, &[1.0; 256]), Err(CalibrationError::TooMany));
}

#[test]
fn the_table_always_has_the_extremes() {
    let mut energies: Vec<f32> = (0..10_007).map(|i| (i * 7919 % 10_007) as f32).collect();
    let calibration = Calibration::from_energies(&mut energies).unwrap();
    let table = calibration.table();
    assert_eq!((table.len(), table[0], table[255]), (256, 0.0, 10_006.0));
    assert_eq!(calibration.p_value(20_000.0), Ok(1.0 / 10_008.0));
    assert_eq!(calibration.p_value(-1.0), Ok(1.0));
    let copy = Calibration::from_table(calibration.count(), calibration.spacing(), table).unwrap();
    assert_eq!((copy.view().to_owned(), &copy), (calibration.clone(), &calibration));
    assert_eq!((copy.count(), copy.view().count()), (10_007, 10_007));
}

#[test]
fn false_positives_keep_to_the_rate() {
    // The probability that a new energy is above the threshold, over calibration sets of 99 and
    // energies uniform on (0, 1): it must not exceed the rate, and is the rate for these n.
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let trials = 4000;
    let mut above = 0.0;
    for _ in 0..trials {
        let mut energies: Vec<f32> = (0..99).map(|_| uniform()).collect();
        let threshold = Calibration::from_energies(&mut energies).unwrap().threshold(0.05).unwrap();
        above += f64::from(1.0 - threshold);
    }
    // Standard error: Beta(5, 95) has deviation 0.0217; over 4000 trials 0.00034.
    assert!((above / f64::from(trials) - 0.05).abs() < 4.0 * 0.00035);
}

proptest! {
    #[test]
    fn alarm_if_and_only_if_p_is_within_the_rate(
        levels in prop::collection::vec(0u16..400, 1..1200),
        energy in 0u16..400,
        rate in 0.0001f32..0.9999,
    ) {
        // Few levels: many ties.
        let mut energies: Vec<f32> = levels.iter().map(|l| f32::from(*l)).collect();
        let energy = f32::from(energy);
        let calibration = Calibration::from_energies(&mut energies).unwrap();
        let p = calibration.p_value(energy).unwrap();
        let exact = exact_p(&energies, energy);
        if energies.len() <= TABLE_LEN {
            prop_assert_eq!(p, exact as f32);
        } else {
            // Never below the exact one, and above it by one step of the table where energies differ.
            prop_assert!(f64::from(p) >= exact - 1e-7);
            let lower = energies.iter().rev().find(|e| **e < energy).map_or(1.0, |e| exact_p(&energies, *e));
            prop_assert!(f64::from(p) <= lower + (lower / 16.0).min(0.008) + 1.0 / (energies.len() + 1) as f64);
        }
        match calibration.threshold(rate) {
            Ok(threshold) => {
                prop_assert_eq!(energy > threshold, p <= rate);
                // The exact threshold is the k-th largest.
                let n = energies.len();
                let k = (f64::from(rate) * (n + 1) as f64) as usize;
                prop_assert!(threshold >= energies[n - k.max(1)]);
            }
            Err(error) => {
                prop_assert_eq!(error, CalibrationError::RateTooLow);
                prop_assert!(rate < 1.0 / (energies.len() + 1) as f32);
            }
        }
    }
}
