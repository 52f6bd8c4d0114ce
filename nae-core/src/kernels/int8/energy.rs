//! Exact integer sums over a quantized image and its reconstruction. The energy that follows from them is computed by
//! [`Energy::evaluate_i8`](crate::energy::Energy::evaluate_i8).

use super::arithmetic;

/// Σx, Σy, Σx², Σxy and Σy² over the stored values of an image x and its reconstruction y.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sums {
    /// Number of values.
    pub count: i64,
    /// Σx
    pub x: i64,
    /// Σy
    pub y: i64,
    /// Σx²
    pub xx: i64,
    /// Σxy
    pub xy: i64,
    /// Σy²
    pub yy: i64,
}

impl Sums {
    /// Returns the sums over `x` and `y`, which have the same length, below 2^28.
    pub fn of(x: &[i8], y: &[i8]) -> Self {
        /// 2^12 products of 2^14 fit 32 bits.
        const RUN: usize = 1 << 12;
        let mut total = Self::default();
        let len = x.len().min(y.len());
        let (x, y) = (x.get(..len).unwrap_or_default(), y.get(..len).unwrap_or_default());
        for (x, y) in x.chunks(RUN).zip(y.chunks(RUN)) {
            total.add(x.len(), arithmetic::sums(x, y));
        }
        // The last chunk may have left out up to three values.
        for (x, y) in x.as_chunks::<4>().1.iter().zip(y.as_chunks::<4>().1) {
            let (x, y) = (i32::from(*x), i32::from(*y));
            total.add(0, [x, y, x * x, x * y, y * y]);
        }
        total
    }

    fn add(&mut self, count: usize, sums: [i32; 5]) {
        let [x, y, xx, xy, yy] = sums.map(i64::from);
        self.count += count as i64;
        self.x += x;
        self.y += y;
        self.xx += xx;
        self.xy += xy;
        self.yy += yy;
    }
}
