//! The caller's memory as slices, and a value of this library in a struct of the caller. Errors of a pointer that can
//! be found are refused; for all others the caller is responsible.

use crate::Status;
use core::mem::{align_of, size_of};

/// Checks that `data` is not null and aligned, and that its values end within the address space.
fn check<T>(data: *const T, len: usize) -> Result<(), Status> {
    if data.is_null() {
        return Err(Status::Null);
    }
    if !data.addr().is_multiple_of(align_of::<T>()) {
        return Err(Status::Alignment);
    }
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize).ok_or(Status::Length)?;
    data.addr().checked_add(bytes).map(|_| ()).ok_or(Status::Length)
}

/// Returns the `len` values at `data`.
///
/// # Safety
/// `data` is null, or valid for reads of `len` values for as long as the slice is used, and nothing writes to them
/// meanwhile. Any bits are a value of `T`.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize) -> Result<&'a [T], Status> {
    check(data, len)?;
    // SAFETY: not null, aligned and not too long by `check`; valid by this function's contract.
    Ok(unsafe { core::slice::from_raw_parts(data, len) })
}

/// Returns the `len` values at `data`, mutable.
///
/// # Safety
/// `data` is null, or valid for reads and writes of `len` values for as long as the slice is used, and nothing else uses
/// them meanwhile. Any bits are a value of `T`.
pub(crate) unsafe fn slice_mut<'a, T>(data: *mut T, len: usize) -> Result<&'a mut [T], Status> {
    check(data, len)?;
    // SAFETY: not null, aligned and not too long by `check`; valid by this function's contract.
    Ok(unsafe { core::slice::from_raw_parts_mut(data, len) })
}

/// Checks a pointer to one value.
///
/// # Errors
/// [`Status::Null`] if the pointer is null, [`Status::Alignment`] if it is not aligned.
pub(crate) fn place<T>(to: *mut T) -> Result<*mut T, Status> {
    check(to, 1).map(|()| to)
}

/// Whether two ranges of memory overlap, each given by its address and its number of values.
pub(crate) fn overlap<A, B>(a: (*const A, usize), b: (*const B, usize)) -> bool {
    let (start_a, start_b) = (a.0.addr(), b.0.addr());
    let end_a = start_a.saturating_add(a.1.saturating_mul(size_of::<A>()));
    let end_b = start_b.saturating_add(b.1.saturating_mul(size_of::<B>()));
    start_a < end_b && start_b < end_a
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    #[test]
    fn pointers_that_cannot_be_right_are_refused() {
        let words = [7u32, 8];
        let at = words.as_ptr();
        // SAFETY: either refused, or two existing words.
        unsafe {
            assert_eq!(slice(at, 2), Ok(&words[..]));
            assert_eq!(slice(at, 0), Ok(&[][..]));
            assert_eq!(slice::<u32>(ptr::null(), 0), Err(Status::Null));
            assert_eq!(slice(at.wrapping_byte_add(2), 1), Err(Status::Alignment));
            assert_eq!(slice(at, usize::MAX / 4), Err(Status::Length));
            assert_eq!(slice(at, usize::MAX), Err(Status::Length));
            assert_eq!(slice(ptr::without_provenance::<u32>(usize::MAX - 3), 1), Err(Status::Length));
        }
    }

    #[test]
    fn overlaps_are_seen_at_either_end() {
        let words = [0u32; 8];
        let byte = |at: usize| words.as_ptr().cast::<u8>().wrapping_add(at);
        let middle = (words.as_ptr().wrapping_add(2), 2);
        assert!(!overlap(middle, (byte(0), 8)) && !overlap(middle, (byte(16), 8)));
        assert!(overlap(middle, (byte(0), 9)) && overlap(middle, (byte(15), 1)) && overlap(middle, (byte(9), 1)));
        assert!(overlap(middle, (byte(0), usize::MAX)) && !overlap(middle, (byte(16), usize::MAX)));
    }
}
