//! Alarm filter, drift watch and Gibbs relations against their definitions.
#![allow(clippy::unwrap_used)]

use nae_core::density::{Temperature, TemperatureError};
use nae_core::drift::{Drift, DriftError, PageHinkley};
use nae_core::verdict::{AlarmFilter, AlarmSettings, AlarmSettingsError, Verdict};
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_alarm_filter_counts_the_window(
        anomalies in prop::collection::vec(any::<bool>(), 0..60),
        window in 1usize..9,
        raise in 1usize..9,
        clear in 0usize..9,
    ) {
        let settings = AlarmSettings::new(raise, clear, window);
        if raise > window {
            prop_assert_eq!(settings, Err(AlarmSettingsError::Raise));
            return Ok(());
        }
        if clear >= raise {
            prop_assert_eq!(settings, Err(AlarmSettingsError::Clear));
            return Ok(());
        }
        let mut filter = AlarmFilter::<8>::new(settings.unwrap()).unwrap();
        let mut raised = false;
        for seen in 1..=anomalies.len() {
            let verdict = if anomalies[seen - 1] { Verdict::Anomaly } else { Verdict::Normal };
            let count = anomalies[seen.saturating_sub(window)..seen].iter().filter(|a| **a).count();
            raised = if raised { count > clear } else { count >= raise };
            prop_assert_eq!(filter.observe(verdict), raised);
            prop_assert_eq!(filter.is_raised(), raised);
        }
        filter.reset();
        prop_assert!(!filter.is_raised());
        prop_assert_eq!(filter.observe(Verdict::Anomaly), raise == 1);
    }
}

#[test]
fn a_window_longer_than_the_memory_is_refused() {
    let settings = AlarmSettings::new(2, 0, 5).unwrap();
    assert!(matches!(AlarmFilter::<4>::new(settings), Err(AlarmSettingsError::Window)));
}

/// Page-Hinkley as its papers have it, in f64: the cumulative sum against its minimum so far.
fn reference(energies: &[f64], tolerance: f64, limit: f64) -> Vec<bool> {
    let (mut mean, mut sum, mut least) = (0.0, 0.0, 0.0f64);
    let mut rising = Vec::new();
    for (index, energy) in energies.iter().enumerate() {
        mean += (energy - mean) / (index + 1) as f64;
        sum += energy - mean - tolerance;
        least = least.min(sum);
        rising.push(sum - least > limit);
    }
    rising
}

#[test]
fn page_hinkley_matches_its_definition_and_is_symmetric() {
    // A level of 0.02 that becomes 0.05, with a wobble.
    let wobble = |i: usize| (i * 37 % 11) as f64 / 1000.0;
    let energies: Vec<f64> = (0..400).map(|i| if i < 200 { 0.02 } else { 0.05 } + wobble(i)).collect();
    let expected = reference(&energies, 0.005, 0.2);
    let mut up = PageHinkley::new(0.005, 0.2).unwrap();
    let mut down = PageHinkley::new(0.005, 0.2).unwrap();
    for (energy, rising) in energies.iter().zip(&expected) {
        let found = up.observe(*energy as f32).unwrap();
        assert_eq!(found, if *rising { Drift::Rising } else { Drift::Steady });
        let mirrored = down.observe(-*energy as f32).unwrap();
        assert_eq!(mirrored == Drift::Falling, *rising);
    }
    let first = expected.iter().position(|r| *r).unwrap();
    assert!((201..230).contains(&first), "reported at {first}");
    up.reset();
    assert_eq!((up.mean(), up.observe(0.05)), (0.0, Ok(Drift::Steady)));
}

#[test]
fn the_watch_refuses_what_is_not_a_number() {
    assert_eq!(PageHinkley::new(-0.1, 1.0), Err(DriftError::Tolerance));
    assert_eq!(PageHinkley::new(0.0, 0.0), Err(DriftError::Limit));
    let mut watch = PageHinkley::new(0.0, 1.0).unwrap();
    let before = watch.clone();
    assert_eq!(watch.observe(f32::NAN), Err(DriftError::NonFinite));
    assert_eq!(watch, before);
}

/// Halves and whole numbers, so that every sum is exact: 0, then 4, has the mean 2 and an excess of 2.
#[test]
fn drift_is_reported_above_the_limit_and_not_at_it() {
    for sign in [1.0, -1.0] {
        let after = |limit| {
            let mut watch = PageHinkley::new(0.5, limit).unwrap();
            assert_eq!(watch.observe(0.0), Ok(Drift::Steady));
            let found = watch.observe(4.0 * sign).unwrap();
            assert_eq!(watch.mean(), 2.0 * sign);
            found
        };
        assert_eq!(after(1.5), Drift::Steady);
        assert_eq!(after(1.25), if sign > 0.0 { Drift::Rising } else { Drift::Falling });
    }
}

#[test]
fn sums_that_no_longer_are_numbers_are_refused() {
    let third = |energies: [f32; 3]| {
        let mut watch = PageHinkley::new(0.0, 1.0).unwrap();
        energies.map(|energy| watch.observe(energy))[2]
    };
    // The mean is a number and so is one sum; the other is infinite.
    for sign in [1.0, -1.0] {
        assert_eq!(third([-1.5e38 * sign, 1.5e38 * sign, 3e38 * sign]), Err(DriftError::Overflow));
    }
    let mut watch = PageHinkley::new(0.0, 1.0).unwrap();
    assert_eq!(watch.observe(f32::MAX), Ok(Drift::Steady));
    assert_eq!(watch.observe(-f32::MAX), Err(DriftError::Overflow), "the mean is infinite");
    // A wrong energy is not taken, whatever has become of the sums, and only a reset mends them.
    assert_eq!(watch.observe(f32::NAN), Err(DriftError::NonFinite));
    assert_eq!(watch.observe(0.0), Err(DriftError::Overflow));
    watch.reset();
    assert_eq!(watch, PageHinkley::new(0.0, 1.0).unwrap());
    assert_eq!(watch.observe(0.5), Ok(Drift::Steady));
}

#[test]
fn gibbs_relations() {
    let t = Temperature::new(0.5).unwrap();
    assert_eq!(t.log_density_unnormalized(3.0), -6.0);
    assert_eq!(t.log_density(3.0, 1.0), -7.0);
    assert_eq!(t.log_ratio(1.0, 2.0), t.log_density(1.0, 9.0) - t.log_density(2.0, 9.0));
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_eq!(Temperature::new(bad), Err(TemperatureError));
    }
}
