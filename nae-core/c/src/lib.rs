#![no_std]
//! `nae-core` for C, on microcontrollers: a model from bytes, energies of images, p-values, verdicts and the alarm filter.
//! The header is `nae_core.h`. No allocation, no state of its own, no panic on any bytes.
//!
//! All unsafe code is at this boundary: pointers come from the caller, and each function documents its requirements.
//! `memory` makes slices of them, and refuses those that can be found to be invalid.
//!
//! Not included: latent codes and reconstructions, the error map by pixel, the log density, sound, drift detection,
//! calibration on the device.

// The tests and `embed` run on hosts, whose standard library has the panic handler.
#[cfg(not(target_os = "none"))]
extern crate std;

mod alarm;
mod memory;
mod model;
#[cfg(target_os = "none")]
mod panic;
mod score;
mod status;

pub use alarm::{Alarm, NAE_CORE_ALARM_WINDOW_MAX, nae_core_alarm_observe, nae_core_alarm_start};
pub use model::{Info, Model, nae_core_describe, nae_core_open, nae_core_p_value, nae_core_threshold};
pub use score::{Score, nae_core_score_f32, nae_core_score_i8, nae_core_score_u8};
pub use status::{Status, nae_core_status_text, nae_core_version};
