//! Features of sound for models of machine sound: log-mel spectra, frame by frame, in fixed memory.
//!
//! They are those of MLPerf Tiny's anomaly detector and of the baseline of DCASE 2020's second task: 16,000 samples per
//! second, frames of 1024 samples every 512, a periodic Hann window, the power spectrum, 128 mel bands as in `librosa`
//! (Slaney's scale and areas, 0 to 8000 Hz), in decibels; five frames together are one input.
//!
//! [`LogMel`] computes a frame for every hop of samples, [`FrameWindow`] joins frames. The conversion of a frame to the
//! model's range or to its 8-bit values is part of the model.
//!
//! # Edges
//! Nothing is padded. Frame k consists of samples 512·k to 512·k + 1023, so the first frame is complete with the second
//! hop. `librosa` with `center=True` pads by 512 samples, so its frame k + 1 is frame k here; its first and its last
//! frame, which are partly padding, have no equivalent. (MLPerf Tiny leaves out the first 50 frames of a recording and
//! the last, so none of its frames is one of these.)
//!
//! # Gaps
//! If hops are lost, or [`LogMel::push`] refuses one, the samples after the gap do not follow those before.
//! [`LogMel::reset`] and [`FrameWindow::reset`] start over, so that no frame and no input spans the gap, which would be
//! a click that never occurred.
//!
//! # Accuracy
//! For the sound of a motor in noise, within 0.001 dB of the values that `librosa` computes from the same 16-bit samples
//! (`tests/audio.rs`; measured: 0.00005 dB). Values are equal bit for bit on every target.
//!
//! The rounding errors of `f32` are relative to the loudest part of a frame. Compared with the same features in `f64`,
//! errors are below 0.002 dB in bands less than 60 dB below the loudest band, and below 0.05 dB up to 90 dB (largest
//! found among 5,000 tones, pairs of tones, noises, slopes, sawteeth and clicks: 0.0011 and 0.027 dB). They are larger,
//! up to 0.01 and 0.3 dB (found: 0.0051 and 0.134 dB), where
//! - the loudest part is a tone above 7900 Hz, most of whose power is in no band;
//! - everything is in the last five samples of the frame, which the window all but removes: a click there.
//!
//! In quieter bands, the rounding errors can be greater than the power: the features of a constant, of a square wave, or
//! of a sine with a whole number of periods in a frame, which have no noise, differ there by 20 dB and more.
//!
//! # Cost
//! 6.6 KB of RAM for [`LogMel`], 2.6 KB for five frames; some 12 KB of tables in flash, which the compiler computes.

mod log_mel;
mod tables;
mod window;

pub use log_mel::{LogMel, SampleError};
pub use window::FrameWindow;

/// Samples per second.
pub const SAMPLE_RATE: u32 = 16_000;
/// Samples between the starts of two frames.
pub const HOP: usize = 512;
/// Number of mel bands of a frame.
pub const BANDS: usize = 128;
/// Number of samples of a frame.
const FRAME: usize = 2 * HOP;
