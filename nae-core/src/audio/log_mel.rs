//! Converts samples to frames of mel bands.

use super::tables::{HANN, INTERVALS, WEIGHTS};
use super::{BANDS, FRAME, HOP};
use core::fmt;

/// Added to the power, so that `log10` stays finite: the epsilon of `f64`, as in the reference of the features.
const EPSILON: f32 = f64::EPSILON as f32;
/// The loudest sample that is accepted, so that every power is finite.
const LOUDEST: f32 = 65_536.0;

/// Converts a stream of samples to log-mel frames, hop by hop.
///
/// ```
/// use nae_core::audio::{HOP, LogMel, FrameWindow};
/// let (mut log_mel, mut window) = (LogMel::new(), FrameWindow::<640>::new());
/// let hop = [0; HOP]; // from a microphone
/// assert!(log_mel.push_i16(&hop).is_none(), "a frame is of two hops");
/// for _ in 0..4 {
///     assert!(log_mel.push_i16(&hop).and_then(|frame| window.push(frame)).is_none());
/// }
/// let input = log_mel.push_i16(&hop).and_then(|frame| window.push(frame)).unwrap();
/// // Silence: 10·log₁₀ of what keeps the logarithm finite.
/// assert!((input[0] + 156.5356).abs() < 1e-3);
/// ```
#[derive(Clone, Debug)]
pub struct LogMel {
    /// The previous hop.
    last: [f32; HOP],
    is_first: bool,
    /// A frame, transformed in place.
    frame: [f32; FRAME],
    bands: [f32; BANDS],
}

/// A sample is NaN, infinite or beyond ±65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SampleError;

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sample is not finite, or beyond 65536")
    }
}

impl core::error::Error for SampleError {}

impl LogMel {
    /// Returns a stream before its first sample.
    pub const fn new() -> Self {
        Self { last: [0.0; HOP], is_first: true, frame: [0.0; FRAME], bands: [0.0; BANDS] }
    }

    /// Takes the next samples, full scale ±1, and returns the bands of the frame that ends with them, from low to high,
    /// in decibels: 10·log₁₀(power + 2⁻⁵²). `None` for the first hop after [`new`](Self::new), which ends no frame.
    ///
    /// # Errors
    /// [`SampleError`] if a sample is not finite or too large. The samples are then ignored, and the next hop counts as
    /// the first, as after [`reset`](Self::reset): a window of frames must be [reset](super::FrameWindow::reset), too.
    pub fn push(&mut self, samples: &[f32; HOP]) -> Result<Option<&[f32; BANDS]>, SampleError> {
        // Also refuses NaN.
        if samples.iter().all(|sample| sample.abs() <= LOUDEST) {
            Ok(self.take(|index| samples[index % HOP]))
        } else {
            self.reset();
            Err(SampleError)
        }
    }

    /// As [`push`](Self::push), for integers of full scale 32,768.
    pub fn push_i16(&mut self, samples: &[i16; HOP]) -> Option<&[f32; BANDS]> {
        self.take(|index| f32::from(samples[index % HOP]) / 32_768.0)
    }

    /// Makes the next hop count as the first: for samples that do not follow the previous ones.
    pub const fn reset(&mut self) {
        self.is_first = true;
    }

    fn take(&mut self, sample: impl Fn(usize) -> f32) -> Option<&[f32; BANDS]> {
        let (older, newer) = self.frame.split_at_mut(HOP);
        let windows = HANN.iter().zip(older.iter_mut().zip(newer));
        for (index, ((&hann, (older, newer)), last)) in windows.zip(&mut self.last).enumerate() {
            let sample = sample(index);
            // The window's second half is one minus its first half.
            *older = hann * *last;
            *newer = (1.0 - hann) * sample;
            *last = sample;
        }
        if core::mem::take(&mut self.is_first) {
            return None;
        }
        let spectrum = microfft::real::rfft_1024(&mut self.frame);
        // Filter n is slot n + 1: the first and the last slot collect the power below and above all filters.
        let mut slots = [0.0f32; BANDS + 2];
        // No filter contains 0 Hz or 8000 Hz.
        for ((&interval, &[falling, rising]), bin) in INTERVALS.iter().zip(&WEIGHTS).zip(&spectrum[1..]) {
            let power = bin.re * bin.re + bin.im * bin.im;
            if let Some([below, above]) = slots.get_mut(usize::from(interval)..).and_then(<[f32]>::first_chunk_mut) {
                *below += falling * power;
                *above += rising * power;
            }
        }
        for (band, &power) in self.bands.iter_mut().zip(&slots[1..]) {
            *band = 10.0 * libm::log10f(power + EPSILON);
        }
        Some(&self.bands)
    }
}

impl Default for LogMel {
    fn default() -> Self {
        Self::new()
    }
}
