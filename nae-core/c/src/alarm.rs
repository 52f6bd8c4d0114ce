//! The alarm filter in the caller's memory.

use crate::{Status, memory};
use core::mem::{MaybeUninit, align_of, offset_of, size_of};
use nae_core::verdict::{AlarmFilter, AlarmSettings, Verdict};

/// Marks an `Alarm` as started. Other memory is unlikely to start with these bytes.
const STARTED: u64 = u64::from_le_bytes(*b"nae-alrm");

/// The longest window of an alarm, in verdicts.
pub const NAE_CORE_ALARM_WINDOW_MAX: usize = 32;

type Filter = AlarmFilter<NAE_CORE_ALARM_WINDOW_MAX>;

/// An alarm that `nae_core_alarm_start` has started: it turns on at `raise` anomalies among the last `window` images,
/// and off at `clear` or fewer. Its fields are private to the library. It contains no pointers, so it may be copied by
/// `=`. Nothing needs to be freed. One thread at a time may use it.
#[repr(C)]
pub struct Alarm {
    /// Whether it was started: not for the caller.
    started: u64,
    /// Not for the caller.
    state: MaybeUninit<[usize; 20]>,
}

// The header guarantees this much room, on every target.
const _: () = assert!(
    size_of::<Filter>() <= size_of::<[usize; 20]>()
        && align_of::<Filter>() <= align_of::<Alarm>()
        && offset_of!(Alarm, state).is_multiple_of(align_of::<Filter>())
);

/// Starts an alarm, off and without a verdict, or restarts it. Among the last `window` verdicts, `raise` anomalies turn
/// it on, and `clear` or fewer turn it off.
///
/// Errors: NULL; ALIGNMENT; ALARM_SETTINGS unless 0 <= clear < raise <= window <= NAE_CORE_ALARM_WINDOW_MAX. After
/// ALARM_SETTINGS, `alarm` is refused with NOT_READY.
///
/// # Safety
/// `alarm` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_alarm_start(alarm: *mut Alarm, raise: usize, clear: usize, window: usize) -> Status {
    let work = || {
        let alarm = memory::place(alarm)?;
        // SAFETY: `place` has checked that it is aligned and not null, and the caller guarantees that it is valid for a
        // write.
        unsafe { (&raw mut (*alarm).started).write(0) };
        let settings = AlarmSettings::new(raise, clear, window).map_err(|_| Status::AlarmSettings)?;
        let filter = Filter::new(settings).map_err(|_| Status::AlarmSettings)?;
        // SAFETY: as above; the state has room for the filter and its alignment, which is asserted at compile time.
        unsafe {
            (&raw mut (*alarm).state).cast::<Filter>().write(filter);
            (&raw mut (*alarm).started).write(STARTED);
        }
        Ok(())
    };
    Status::of(work())
}

/// Adds the verdict on the next image, the `anomaly` of its score: 1 for an anomaly; any other number counts as normal,
/// also -1 for a model without threshold. Writes to `is_on` whether the alarm is on. Takes constant time.
///
/// Errors: NULL, NOT_READY, ALIGNMENT; the verdict is not added then.
///
/// # Safety
/// `alarm` is null, zeros, or from `nae_core_alarm_start`; `is_on` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_alarm_observe(alarm: *mut Alarm, anomaly: i32, is_on: *mut bool) -> Status {
    let work = || {
        let (alarm, is_on) = (memory::place(alarm)?, memory::place(is_on)?);
        let verdict = if anomaly == 1 { Verdict::Anomaly } else { Verdict::Normal };
        // SAFETY: `place` has checked that both are aligned and not null, and the caller guarantees that they are
        // valid. An alarm that is marked as started contains a filter.
        unsafe {
            if (&raw const (*alarm).started).read() != STARTED {
                return Err(Status::NotReady);
            }
            let filter = &mut *(&raw mut (*alarm).state).cast::<Filter>();
            is_on.write(filter.observe(verdict));
        }
        Ok(())
    };
    Status::of(work())
}
