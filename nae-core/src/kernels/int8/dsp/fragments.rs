//! Assembly text that the functions of `one` and `two` share. The registers are those of `multiply`.

/// Loads bias, multiplier and shift of both outputs of a pair, for [`result_once`]: the multipliers to r2 and r7, the
/// half and the zero point, aligned to the shift, to r1 and r6, the shifts to r5 and r8. Advances r12.
macro_rules! factors_once {
    () => {
        concat!(
            "ldr r11, [sp, #56]\n",
            "ldm r12!, {{r1, r2, r5, r6, r7, r8}}\n",
            // The shift is 31 − shift; the upper word of the product is shifted by 32 already, which leaves −1 − shift.
            "mvn r5, r5\n",
            "mvn r8, r8\n",
            "lsl r1, r11, r5\n",
            "lsl r6, r11, r8\n",
            "asr r1, r1, #1\n",
            "asr r6, r6, #1\n",
        )
    };
}

/// Computes (sum · multiplier + half) >> shift, within 8 bits. It is rounded once, since no bits that matter are lost
/// below the upper word of the product.
#[rustfmt::skip]
macro_rules! result_once {
    ($sum:literal, $multiplier:literal, $half:literal, $shift:literal) => {
        concat!(
            "smmla ", $sum, ", ", $sum, ", ", $multiplier, ", ", $half, "\n",
            "asr ", $sum, ", ", $sum, ", ", $shift, "\n",
            "ssat ", $sum, ", #8, ", $sum, "\n",
        )
    };
}

/// As [`factors_once`], for [`result_twice`].
macro_rules! factors_twice {
    () => {
        concat!(
            "ldr r11, [sp, #56]\n",
            "ldm r12!, {{r1, r2, r5, r6, r7, r8}}\n",
            "rsb r5, r5, #0\n",
            "rsb r8, r8, #0\n",
            // 2 · multiplier − 2^32, as a signed word.
            "lsl r2, r2, #1\n",
            "lsl r7, r7, #1\n",
            "lsl r1, r11, r5\n",
            "lsl r6, r11, r8\n",
            "asr r1, r1, #1\n",
            "asr r6, r6, #1\n",
        )
    };
}

/// Multiplies the sum by 2 · multiplier − 2^32 and adds the sum itself to the upper word, rounded there (SMMLAR); then
/// subtracts one if the result is negative, so that the half added next rounds halves away from zero.
#[rustfmt::skip]
macro_rules! result_twice {
    ($sum:literal, $multiplier:literal, $half:literal, $shift:literal) => {
        concat!(
            "smmlar ", $sum, ", ", $sum, ", ", $multiplier, ", ", $sum, "\n",
            "add ", $sum, ", ", $sum, ", ", $sum, ", asr #31\n",
            "add ", $sum, ", ", $sum, ", ", $half, "\n",
            "asr ", $sum, ", ", $sum, ", ", $shift, "\n",
            "ssat ", $sum, ", #8, ", $sum, "\n",
        )
    };
}

/// Makes the frame: 16 bytes, then [`Arguments`](super::multiply::Arguments), to which the stack pointer points from
/// then on; `multiply` has checked the offsets.
///
/// | offset | |
/// |---|---|
/// | 0 | sums of the odd outputs; one window: and then rows left |
/// | 8 | rows left (two windows) |
/// | 16 | weights |
/// | 20 | activations |
/// | 24 | channels, advancing |
/// | 28, 32 | outputs, advancing |
/// | 36 | pairs left |
/// | 40 | rows |
/// | 44 | row groups; in the short kernels, the bytes of a row |
/// | 48 | row gap |
/// | 52 | pair gap |
/// | 56 | 2 · zero point + 1 |
/// | 60 | address at which the short kernels enter their loop |
macro_rules! enter {
    () => {
        concat!(
            "push {{r3-r11, lr}}\n",
            "ldm r0, {{r1-r12}}\n",
            "push {{r1-r12}}\n",
            "sub sp, sp, #16\n",
            "mov r0, r1\n",
        )
    };
}

/// The next chunk of a row: puts its number of groups in r2, and the number left after it in lr.
macro_rules! chunk {
    () => {
        concat!("mov r2, lr\n", "cmp lr, #{chunk}\n", "it hi\n", "movhi r2, #{chunk}\n", "sub lr, lr, r2\n",)
    };
}

/// One group of four taps of one window.
macro_rules! group_one {
    () => {
        concat!(
            "ldm r0!, {{r5, r6}}\n",
            "ldm r1!, {{r9, r10}}\n",
            "smlad r4, r9, r5, r4\n",
            "sxtb16 r5, r5\n",
            "smlad r4, r10, r6, r4\n",
            "sxtb16 r6, r6\n",
            "smlad r3, r9, r5, r3\n",
            "smlad r3, r10, r6, r3\n",
        )
    };
}

/// Two groups of one window.
macro_rules! groups_one {
    () => {
        concat!(
            "ldm r0!, {{r5-r8}}\n",
            "ldm r1!, {{r9-r12}}\n",
            "smlad r4, r9, r5, r4\n",
            "sxtb16 r5, r5\n",
            "smlad r4, r10, r6, r4\n",
            "sxtb16 r6, r6\n",
            "smlad r4, r11, r7, r4\n",
            "sxtb16 r7, r7\n",
            "smlad r4, r12, r8, r4\n",
            "sxtb16 r8, r8\n",
            "smlad r3, r9, r5, r3\n",
            "smlad r3, r10, r6, r3\n",
            "smlad r3, r11, r7, r3\n",
            "smlad r3, r12, r8, r3\n",
        )
    };
}

/// One group of two windows.
macro_rules! group_two {
    () => {
        concat!(
            "ldm r0!, {{r7, r8}}\n",
            "ldm r1!, {{r9-r12}}\n",
            "smlad r5, r9, r7, r5\n",
            "smlad r6, r10, r7, r6\n",
            "sxtb16 r7, r7\n",
            "smlad r5, r11, r8, r5\n",
            "smlad r6, r12, r8, r6\n",
            "sxtb16 r8, r8\n",
            "smlad r3, r9, r7, r3\n",
            "smlad r4, r10, r7, r4\n",
            "smlad r3, r11, r8, r3\n",
            "smlad r4, r12, r8, r4\n",
        )
    };
}
