//! Tables for the log-mel features, computed by the compiler in `f64`: no code or RAM is spent on them.

use super::{BANDS, FRAME, HOP, SAMPLE_RATE};
use core::f64::consts::{LN_2, PI};

/// First half of the periodic Hann window, ½ − ½·cos(2πn/1024).
pub(super) static HANN: [f32; HOP] = {
    let mut table = [0.0; HOP];
    let mut n = 0;
    while n < HOP {
        table[n] = (0.5 - 0.5 * cos(2.0 * PI * n as f64 / FRAME as f64)) as f32;
        n += 1;
    }
    table
};

/// Number of bins that filters contain: all except those of 0 Hz and 8000 Hz.
const BINS: usize = FRAME / 2 - 1;

/// The interval between the filters' 130 frequencies that contains bin n + 1.
pub(super) static INTERVALS: [u8; BINS] = MEL.0;

/// The share of bin n + 1's power in the filter that falls there, and in the filter that rises there.
pub(super) static WEIGHTS: [[f32; 2]; BINS] = MEL.1;

/// `librosa.filters.mel(sr=16000, n_fft=1024)`: triangles between frequencies that are evenly spaced on Slaney's mel
/// scale (Auditory Toolbox, 1998), of equal area. Rounded to `f32` where `librosa` rounds.
const MEL: ([u8; BINS], [[f32; 2]; BINS]) = {
    let mut edges = [0.0; BANDS + 2];
    let mut n = 0;
    while n < edges.len() {
        edges[n] = hertz(n as f64 * HIGHEST_MEL / (BANDS + 1) as f64);
        n += 1;
    }
    let (mut intervals, mut weights) = ([0; BINS], [[0.0; 2]; BINS]);
    let mut bin = 0;
    let mut interval = 0;
    while bin < BINS {
        let frequency = (bin + 1) as f64 * SAMPLE_RATE as f64 / FRAME as f64;
        while edges[interval + 1] <= frequency {
            interval += 1;
        }
        let (low, high) = (edges[interval], edges[interval + 1]);
        intervals[bin] = interval as u8;
        if interval > 0 {
            weights[bin][0] = weight((high - frequency) / (high - low), high - edges[interval - 1]);
        }
        if interval < BANDS {
            weights[bin][1] = weight((frequency - low) / (high - low), edges[interval + 2] - low);
        }
        bin += 1;
    }
    (intervals, weights)
};

/// The height of a triangle at this relative `height`, whose base is `width` Hz and whose area is 1.
const fn weight(height: f64, width: f64) -> f32 {
    (height as f32 as f64 * (2.0 / width)) as f32
}

/// The point at which the scale changes from linear to logarithmic: Hz, mel.
const TURN: (f64, f64) = (1000.0, 15.0);
/// Natural logarithm of 6.4: 27 mel above the turn, frequencies are 6.4 times as high.
const LN_6_4: f64 = 1.856_297_990_365_626_3;
/// Mel of 8000 Hz.
const HIGHEST_MEL: f64 = TURN.1 + 27.0 * (3.0 * LN_2) / LN_6_4;

const fn hertz(mel: f64) -> f64 {
    if mel < TURN.1 { mel * 200.0 / 3.0 } else { TURN.0 * exp((mel - TURN.1) * LN_6_4 / 27.0) }
}

/// eˣ for x from 0 to 3, by its power series.
const fn exp(x: f64) -> f64 {
    let (mut sum, mut term, mut n) = (1.0, 1.0, 1.0);
    while n < 40.0 {
        term *= x / n;
        sum += term;
        n += 1.0;
    }
    sum
}

/// cos x for x from 0 to π, by its power series.
const fn cos(x: f64) -> f64 {
    if x > PI / 2.0 {
        return -cos(PI - x);
    }
    let (mut sum, mut term, mut n) = (1.0, 1.0, 1.0);
    while n < 30.0 {
        term *= -x * x / (n * (n + 1.0));
        sum += term;
        n += 2.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_as_good_as_libm() {
        for n in 0..=1000 {
            let x = f64::from(n) / 1000.0;
            assert!((exp(3.0 * x) / libm::exp(3.0 * x) - 1.0).abs() < 1e-15, "{x}");
            assert!((cos(PI * x) - libm::cos(PI * x)).abs() < 1e-15, "{x}");
        }
        assert!((LN_6_4 - libm::log(6.4)).abs() < 1e-15);
    }

    #[test]
    fn every_filter_holds_a_bin() {
        let mut sums = [0.0f32; BANDS + 2];
        for (&interval, weights) in INTERVALS.iter().zip(&WEIGHTS) {
            sums[usize::from(interval)] += weights[0];
            sums[usize::from(interval) + 1] += weights[1];
        }
        assert!(sums[1..=BANDS].iter().all(|&sum| sum > 0.0));
        assert_eq!((sums[0], sums[BANDS + 1]), (0.0, 0.0));
    }
}
