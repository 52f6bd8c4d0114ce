//! A pause or snooze that a user set, stored on disk so that it survives a restart.

use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::super::kept_file;
use super::{Asked, LONGEST, Moment};

/// The maximum size of the file, in bytes.
const MAX_FILE: u64 = 1 << 12;

/// The JSON of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "alarms", rename_all = "snake_case", deny_unknown_fields)]
enum Kept {
    On,
    Paused,
    /// Until a time of the wall clock, which continues while the service is stopped. The time that was left when the
    /// file was written limits the remaining time, in case that clock was set back.
    Snoozed {
        until: String,
        seconds: f64,
    },
}

/// Reads the file; the default if there is none.
///
/// # Errors
/// A description of what is wrong with it.
pub(super) fn read(path: &Path, now: Moment) -> Result<Asked, String> {
    let asked = kept_file::read(path, MAX_FILE, "the state of the alarms", |bytes| parse(bytes, now))?;
    Ok(asked.unwrap_or(Asked::Nothing))
}

fn parse(bytes: &[u8], now: Moment) -> Result<Asked, String> {
    let (until, seconds) = match serde_json::from_slice(bytes).map_err(|error| error.to_string())? {
        Kept::On => return Ok(Asked::Nothing),
        Kept::Paused => return Ok(Asked::Pause),
        Kept::Snoozed { until, seconds } => (until, seconds),
    };
    let until: Timestamp = until.parse().map_err(|_| format!("expected a time, found `{until}`"))?;
    if !(0.0..=LONGEST.as_secs_f64()).contains(&seconds) {
        return Err(format!("expected a snooze of up to 7 days, found {seconds} seconds"));
    }
    let left = until.duration_since(now.wall).max(SignedDuration::ZERO).unsigned_abs();
    let left = left.min(Duration::from_secs_f64(seconds));
    Ok(if left.is_zero() { Asked::Nothing } else { Asked::Snooze { until: now.steady + left } })
}

/// Replaces the file.
///
/// # Errors
/// If writing fails; in that case, the file is unchanged.
pub(super) fn write(path: &Path, asked: Asked, now: Moment) -> Result<(), nae_onnx::file::FileError> {
    let kept = match asked {
        Asked::Nothing => Kept::On,
        Asked::Snooze { until } if until <= now.steady => Kept::On,
        Asked::Pause => Kept::Paused,
        Asked::Snooze { until } => {
            let left = until.saturating_duration_since(now.steady);
            let until = now.wall.checked_add(left).unwrap_or(Timestamp::MAX).to_string();
            Kept::Snoozed { until, seconds: left.as_secs_f64() }
        }
    };
    // Cannot fail: the state consists of texts and finite numbers.
    nae_onnx::file::write(path, &serde_json::to_vec(&kept).unwrap_or_default())
}
