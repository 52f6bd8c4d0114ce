//! Features of sound: log-mel spectra, frame by frame, in fixed memory, as models of machine sound take them.
//!
//! They are those of MLPerf Tiny's anomaly detector and of the baseline of DCASE 2020's second task: 16,000 samples a
//! second, frames of 1024 samples every 512, a periodic Hann window, the power spectrum, 128 mel bands as `librosa` has
//! them (Slaney's scale and areas, 0 to 8000 Hz), in decibels; five frames together are one input.
//!
//! [`LogMel`] makes a frame of every hop of samples, [`FrameWindow`] puts frames together. What is not here: how a frame
//! becomes the model's range or its 8-bit values, which is the model's.
//!
//! # Edges
//! Nothing is padded. Frame k is of samples 512·k to 512·k + 1023: the first comes with the second hop. `librosa` with
//! `center=True` pads by 512 samples, so its frame k + 1 is frame k here, and its first and its last, that are
//! partly padding, have none. (MLPerf Tiny leaves out the first 50 frames of a recording and the last, so none of its
//! frames is one of these.)
//!
//! # Gaps
//! Where hops are lost, or [`LogMel::push`] refuses one, the samples after it do not follow those before.
//! [`LogMel::reset`] and [`FrameWindow::reset`] begin anew: no frame and no input is then of both sides, which would be
//! a click that was never there.
//!
//! # How close
//! Within 0.001 dB of what `librosa` computes from the same 16-bit samples (`tests/audio.rs`; found: 0.00005 dB), and
//! the same bit for bit on every target.
//!
//! # Cost
//! 6.6 KB of RAM for [`LogMel`], 2.6 KB for five frames; some 12 KB of tables in flash, which the compiler computes.

mod log_mel;
mod tables;
mod window;

pub use log_mel::{LogMel, SampleError};
pub use window::FrameWindow;

/// Samples a second.
pub const SAMPLE_RATE: u32 = 16_000;
/// Samples between the starts of two frames.
pub const HOP: usize = 512;
/// Mel bands of a frame.
pub const BANDS: usize = 128;
/// Samples of a frame.
const FRAME: usize = 2 * HOP;
