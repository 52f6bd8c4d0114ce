//! Windows against the weights of a single output.

use core::arch::naked_asm;
use core::marker::PhantomData;

use super::super::lone::Filter;
use super::widen::centre;

/// One group of four taps of two windows.
macro_rules! group_lone {
    () => {
        concat!(
            "ldr r6, [r0], #4\n",
            "ldr r7, [r1], #4\n",
            "ldm r2!, {{r10, r11}}\n",
            "sxtab16 lr, r3, r6\n",
            "smlad r8, lr, r10, r8\n",
            "sxtab16 lr, r3, r7\n",
            "smlad r9, lr, r10, r9\n",
            "sxtab16 lr, r3, r6, ror #8\n",
            "smlad r8, lr, r11, r8\n",
            "sxtab16 lr, r3, r7, ror #8\n",
            "smlad r9, lr, r11, r9\n",
        )
    };
}

/// Arguments of the assembly.
#[repr(C)]
struct Arguments {
    first: *const i8,
    second: *const i8,
    weights: *const u32,
    centre: u32,
    rows: usize,
    groups: usize,
    /// Bytes from the end of a row of values, and of weights, to the next.
    values_gap: usize,
    weights_gap: usize,
}

/// A filter whose weights have been checked.
pub(in super::super) struct Lone<'a> {
    arguments: Arguments,
    /// Number of values from a window's first to its last.
    values: usize,
    borrows: PhantomData<&'a [u32]>,
}

impl<'a> Lone<'a> {
    /// `None` if there are no taps or weights would be read beyond their end.
    pub(in super::super) fn new(filter: &Filter<'a>) -> Option<Self> {
        let arguments = || Arguments {
            first: core::ptr::null(),
            second: core::ptr::null(),
            weights: filter.weights.as_ptr(),
            centre: centre(filter.zero_point),
            rows: filter.rows,
            groups: filter.groups,
            // With a single row, the gap to a next row is not used and may be beyond any address.
            values_gap: filter.row_len.wrapping_sub(4 * filter.groups),
            weights_gap: filter.weights_row.wrapping_sub(2 * filter.groups).wrapping_mul(4),
        };
        let fits = filter.fits();
        fits.then(|| Self { arguments: arguments(), values: filter.values(), borrows: PhantomData })
    }

    /// The sum of the window at the start of `values`; 0 if they are too short.
    pub(in super::super) fn one(&mut self, values: &[i8]) -> i32 {
        if values.len() < self.values {
            return 0;
        }
        self.arguments.first = values.as_ptr();
        // SAFETY: `fits` has checked that neither rows nor groups are 0 and that all rows of weights lie in the slice;
        // the window's values lie in `values`.
        unsafe { one_asm(&self.arguments) }
    }

    /// The sums of the window at the start of `values` and of another, `next` values after it; 0 if they are too short.
    pub(in super::super) fn two(&mut self, values: &[i8], next: usize) -> [i32; 2] {
        let second = values.get(next..).unwrap_or_default();
        if second.len() < self.values {
            return [0; 2];
        }
        (self.arguments.first, self.arguments.second) = (values.as_ptr(), second.as_ptr());
        // SAFETY: as in `one`, for the second window, and thus for the first one, which begins before it.
        let sums = unsafe { two_asm(&self.arguments) };
        [sums as u32 as i32, (sums >> 32) as u32 as i32]
    }
}

/// # Safety
/// `rows` rows of `groups` groups lie at `first` and `weights`, with the gaps between them; neither is 0.
#[unsafe(naked)]
unsafe extern "C" fn one_asm(arguments: &Arguments) -> i32 {
    naked_asm!(
        dsp!(),
        "push {{r4-r11, lr}}",
        "mov r12, r0",
        "ldm r12, {{r0-r4}}",
        "mov r8, #0",
        "2:",
        "ldr r5, [r12, #20]",
        "1:",
        "ldr r6, [r0], #4",
        "ldm r2!, {{r10, r11}}",
        "sxtab16 r7, r3, r6",
        "smlad r8, r7, r10, r8",
        "sxtab16 r7, r3, r6, ror #8",
        "smlad r8, r7, r11, r8",
        "subs r5, r5, #1",
        "bne 1b",
        "ldrd r6, r7, [r12, #24]",
        "add r0, r0, r6",
        "add r2, r2, r7",
        "subs r4, r4, #1",
        "bne 2b",
        "mov r0, r8",
        "pop {{r4-r11, pc}}",
    )
}

/// Returns the first window's sum in the lower word, the second one's in the upper. The loop is entered at the point
/// from which the groups of a row come out even.
///
/// # Safety
/// As [`one_asm`], and the rows lie at `second`, too.
#[unsafe(naked)]
unsafe extern "C" fn two_asm(arguments: &Arguments) -> u64 {
    naked_asm!(
        dsp!(),
        "push {{r4-r11, lr}}",
        "mov r12, r0",
        "ldm r12, {{r0-r4}}",
        "mov r8, #0",
        "mov r9, #0",
        "2:",
        "ldr r5, [r12, #20]",
        // If the number of groups is odd, the first pass has one group.
        "lsrs r6, r5, #1",
        "bcs 3f",
        "1:",
        group_lone!(),
        "3:",
        group_lone!(),
        "subs r5, r5, #2",
        "bhi 1b",
        "ldrd r6, r7, [r12, #24]",
        "add r0, r0, r6",
        "add r1, r1, r6",
        "add r2, r2, r7",
        "subs r4, r4, #1",
        "bne 2b",
        "mov r0, r8",
        "mov r1, r9",
        "pop {{r4-r11, pc}}",
    )
}
