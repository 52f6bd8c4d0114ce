//! The energy of a quantised image and its reconstruction, from exact integer sums. What an energy
//! means is in [`crate::energy`].

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

/// Scale and zero point of a tensor: real = `scale` · (stored − `zero_point`).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Scale {
    /// Positive and finite.
    pub scale: f32,
    /// Stands for 0.
    pub zero_point: i8,
}

impl Sums {
    /// The sums over `x` and `y`, which have the same length, below 2^28.
    pub fn of(x: &[i8], y: &[i8]) -> Self {
        /// 2^12 products of 2^14 fit 32 bits.
        const RUN: usize = 1 << 12;
        let mut total = Self::default();
        let len = x.len().min(y.len());
        let (x, y) = (x.get(..len).unwrap_or_default(), y.get(..len).unwrap_or_default());
        for (x, y) in x.chunks(RUN).zip(y.chunks(RUN)) {
            total.add(x.len(), arithmetic::sums(x, y));
        }
        // The last chunk may have left some out.
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

    /// The squared error divided by the number of values, ‖x − y‖²/D, of the real numbers that `x`
    /// and `y` stand for; their scales and zero points may differ. NaN without values.
    ///
    /// With x and y less their zero points and δ = scale of y / scale of x − 1, the error in
    /// squares of the scale of x is Σ(x − y)² + 2δ·Σy(y − x) + δ²·Σy². The three sums are exact;
    /// they become `f32` at the end. The closer the scales, the less cancels: the result is within
    /// a few 2^-24 of (1 + δ²Σy²/error) times itself.
    pub fn squared_l2(&self, x: Scale, y: Scale) -> f32 {
        let (n, zx, zy) = (self.count, i64::from(x.zero_point), i64::from(y.zero_point));
        let xx = self.xx - 2 * zx * self.x + n * zx * zx;
        let yy = self.yy - 2 * zy * self.y + n * zy * zy;
        let xy = self.xy - zx * self.y - zy * self.x + n * zx * zy;
        let delta = (y.scale - x.scale) / x.scale;
        let error = (xx - 2 * xy + yy) as f32 + delta * (2.0 * (yy - xy) as f32 + delta * yy as f32);
        // Rounding may leave a little below zero.
        error.max(0.0) * x.scale * x.scale / n as f32
    }
}
