//! Fixed-point requantization: converts 32-bit sums back to 8 bits, value by value.

/// The numbers of a layer with weights for each output channel: `[bias, multiplier, shift]`.
///
/// `bias` is in units of scale of input · scale of the channel's weights. `multiplier` and `shift` are those of the
/// [`Multiplier`] for this unit / scale of output.
pub type Channel = [i32; 3];

/// A real factor as an integer and a power of two: `value` · 2^(`shift` − 31).
///
/// This is TFLite's representation (`QuantizeMultiplier`); `shift` > 0 shifts to the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Multiplier {
    /// In [2^30, 2^31), or 0.
    pub value: i32,
    /// In [`Multiplier::SHIFTS`].
    pub shift: i32,
}

impl Multiplier {
    /// Shifts that a multiplier may have. For any other shift, the nearest of these is used.
    pub const SHIFTS: core::ops::RangeInclusive<i32> = -31..=30;

    /// Returns the multiplier nearest to `real`; `None` if `real` is negative, not finite, or 2^30 or more. Values
    /// below 2^-32 give 0, as in TFLite.
    ///
    /// ```
    /// use nae_core::kernels::int8::Multiplier;
    /// let half = Multiplier::from_real(0.5).unwrap();
    /// assert_eq!(half, Multiplier { value: 1 << 30, shift: 0 });
    /// assert_eq!((half.apply(5), half.apply(-5)), (3, -2)); // halves go up
    /// ```
    pub const fn from_real(real: f64) -> Option<Self> {
        const ZERO: Multiplier = Multiplier { value: 0, shift: 0 };
        if !(real >= 0.0 && real < (1u64 << 30) as f64) {
            return None;
        }
        // Also −0, whose sign would be taken for a part of the exponent.
        if real == 0.0 {
            return Some(ZERO);
        }
        let bits = real.to_bits();
        let exponent = (bits >> 52) as i32 - 1022;
        if exponent < -31 {
            return Some(ZERO);
        }
        // real = fraction · 2^(exponent − 53), the fraction with its leading one at bit 52.
        let fraction = (bits & ((1 << 52) - 1)) | 1 << 52;
        // Round half up at bit 22, so that bit 30 leads.
        let value = (fraction + (1 << 21)) >> 22;
        if value == 1 << 31 {
            let shift = exponent + 1;
            return if shift > 30 { None } else { Some(Self { value: 1 << 30, shift }) };
        }
        Some(Self { value: value as i32, shift: exponent })
    }

    /// Returns x times the factor, rounded once, with halves up: ⌊x · value / 2^(31 − shift) + ½⌋, saturated to 32
    /// bits.
    #[inline(always)]
    pub const fn apply(self, x: i32) -> i32 {
        let shift = if self.shift < -31 {
            -31
        } else if self.shift > 30 {
            30
        } else {
            self.shift
        };
        let right = (31 - shift) as u32;
        let rounded = (x as i64 * self.value as i64 + (1 << (right - 1))) >> right;
        if rounded > i32::MAX as i64 {
            i32::MAX
        } else if rounded < i32::MIN as i64 {
            i32::MIN
        } else {
            rounded as i32
        }
    }
}

impl Multiplier {
    /// Returns x times the factor, rounded twice: ⌊x · value / 2^31 + ½⌋, then a shift to the right, with halves
    /// rounded away from zero. A shift to the left comes first, and wraps.
    ///
    /// ```
    /// use nae_core::kernels::int8::Multiplier;
    /// let m = Multiplier::from_real(0.3).unwrap();
    /// // 8.4 becomes 8. By steps: 28 · 0.6 = 16.8 becomes 17, and a half of that 9.
    /// assert_eq!((m.apply(28), m.apply_twice(28)), (8, 9));
    /// ```
    #[inline(always)]
    pub const fn apply_twice(self, x: i32) -> i32 {
        let twice = self.twice();
        let Twice { right, sign, .. } = twice;
        let high = twice.high(x);
        // A half added to a large value would pass 32 bits. So the last bit that is shifted out is added after the
        // shift, of one less if a negative value is shifted.
        let less = high.wrapping_add((high >> 31) & sign);
        (less >> right) + ((less >> (right + sign)) & sign & 1)
    }

    /// Returns [`Multiplier::apply_twice`] in parts, for many values with the same factor, all below 2^30 in size.
    #[inline(always)]
    pub(super) const fn twice(self) -> Twice {
        let (left, right) = match self.shift {
            ..-31 => (0, 31),
            -31..=0 => (0, -self.shift),
            1..=30 => (self.shift, 0),
            31.. => (30, 0),
        };
        let (half, sign) = if right > 0 { (1 << (right - 1), -1) } else { (0, 0) };
        Twice { value: self.value, left, right, half, sign }
    }
}

/// A factor and two shifts, ready for use.
#[derive(Clone, Copy)]
pub(super) struct Twice {
    value: i32,
    left: i32,
    right: i32,
    /// A half, added before the shift to the right.
    half: i32,
    /// −1 if there is a shift to the right, else 0: added to negative values before the shift, so that halves are
    /// rounded away from zero.
    sign: i32,
}

impl Twice {
    /// Returns [`Multiplier::apply_twice`] of a value below 2^30 in size, as are the sums of
    /// [`Layout::Paired`](super::Layout) and the values of layers without weights. A larger one saturates before the
    /// shift to the right.
    #[inline(always)]
    pub(super) const fn apply(self, x: i32) -> i32 {
        let high = self.high(x);
        high.saturating_add(self.half + ((high >> 31) & self.sign)) >> self.right
    }

    /// The value after the shift to the left and the multiplication, rounded.
    #[inline(always)]
    const fn high(self, x: i32) -> i32 {
        let product = x.wrapping_shl(self.left as u32) as i64 * self.value as i64;
        ((product + (1 << 30)) >> 31) as i32
    }
}

/// The number of times a layer with weights rounds its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// Once, by [`Multiplier::apply`].
    #[cfg_attr(nae_mve, expect(dead_code, reason = "the assembly of dense layers rounds by itself"))]
    Once,
    /// Twice, as by [`Multiplier::apply_twice`], which sums of the layout `Paired` are small enough for.
    Twice,
}

/// The 8-bit values that a layer can output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Range {
    /// The integer that represents 0.
    pub zero_point: i8,
    /// Least value; the zero point for a fused ReLU.
    pub min: i8,
    /// Greatest value; not below `min`.
    pub max: i8,
}

impl Range {
    /// Returns the range of all 8-bit values.
    pub const fn full(zero_point: i8) -> Self {
        Self { zero_point, min: i8::MIN, max: i8::MAX }
    }

    /// Returns the range of values from 0 up: a fused ReLU.
    pub const fn relu(zero_point: i8) -> Self {
        Self { zero_point, min: zero_point, max: i8::MAX }
    }

    /// Whether `min` and `max` exclude no value.
    pub const fn is_full(self) -> bool {
        self.min == i8::MIN && self.max == i8::MAX
    }

    /// Clamps values to the range.
    pub(super) fn clamp(self, values: &mut [i8]) {
        for value in values {
            *value = (*value).min(self.max).max(self.min);
        }
    }

    /// Adds the zero point and clamps the sum to the range.
    #[inline(always)]
    pub(super) fn hold(self, value: i32) -> i8 {
        let value = value.saturating_add(i32::from(self.zero_point));
        // The bounds are 8-bit; `min` comes last, so that min > max does no harm.
        value.min(i32::from(self.max)).max(i32::from(self.min)) as i8
    }

    /// Converts a sum to the result of a channel.
    #[inline(always)]
    pub(super) fn finish(self, rounding: Rounding, sum: i32, [_, value, shift]: Channel) -> i8 {
        let multiplier = Multiplier { value, shift };
        self.hold(match rounding {
            Rounding::Once => multiplier.apply(sum),
            Rounding::Twice => multiplier.twice().apply(sum),
        })
    }
}
