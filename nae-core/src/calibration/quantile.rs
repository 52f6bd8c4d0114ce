//! One quantile of a stream in five numbers: the P² algorithm (Jain and Chlamtac, "The P²
//! algorithm for dynamic calculation of quantiles and histograms without storing observations",
//! CACM 28(10), 1985). An estimate, without the guarantee of a [`Calibration`](super::Calibration).

use core::fmt;

/// Running estimate of one quantile.
///
/// ```
/// use nae_core::calibration::quantile::StreamingQuantile;
/// let mut median = StreamingQuantile::new(0.5)?;
/// for i in 0..1001 {
///     median.observe((i * 389 % 1001) as f32)?;
/// }
/// assert!((median.estimate().unwrap() - 500.0).abs() < 10.0);
/// # Ok::<(), nae_core::calibration::quantile::QuantileError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StreamingQuantile {
    probability: f32,
    count: u32,
    /// Marker heights q: smallest, p/2, p, (1 + p)/2 quantiles, largest.
    heights: [f32; 5],
    /// Marker positions n, counted from 1.
    positions: [u32; 5],
}

/// Why the stream or an observation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum QuantileError {
    /// The probability must lie between 0 and 1, both excluded.
    Probability,
    /// The observation is NaN or infinite.
    NonFinite,
    /// 2³² − 1 observations have been taken.
    Full,
}

impl fmt::Display for QuantileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Probability => "the quantile's probability must lie between 0 and 1",
            Self::NonFinite => "the observation is NaN or infinite",
            Self::Full => "the stream is too long",
        })
    }
}

impl core::error::Error for QuantileError {}

impl StreamingQuantile {
    /// An estimator of the quantile of this probability.
    ///
    /// # Errors
    /// [`QuantileError::Probability`] unless 0 < `probability` < 1.
    pub fn new(probability: f32) -> Result<Self, QuantileError> {
        if !(probability > 0.0 && probability < 1.0) {
            return Err(QuantileError::Probability);
        }
        Ok(Self { probability, count: 0, heights: [0.0; 5], positions: [1, 2, 3, 4, 5] })
    }

    /// Number of observations taken.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Takes one observation. Constant time.
    ///
    /// # Errors
    /// [`QuantileError`] when it is not finite or the count would overflow.
    pub fn observe(&mut self, value: f32) -> Result<(), QuantileError> {
        if !value.is_finite() {
            return Err(QuantileError::NonFinite);
        }
        self.count = self.count.checked_add(1).ok_or(QuantileError::Full)?;
        if self.count <= 5 {
            self.heights[self.count as usize - 1] = value;
            self.heights[..self.count as usize].sort_unstable_by(f32::total_cmp);
            return Ok(());
        }
        // Box B.1 and B.2: the cell of the new value; markers above it move up by one.
        let [lowest, .., highest] = &mut self.heights;
        *lowest = lowest.min(value);
        *highest = highest.max(value);
        for (position, height) in self.positions.iter_mut().zip(&self.heights).skip(1) {
            if value < *height {
                *position += 1;
            }
        }
        self.positions[4] = self.count;
        // Box B.3: move the middle markers towards where they should be.
        for i in 1..4 {
            self.adjust(i);
        }
        Ok(())
    }

    fn adjust(&mut self, i: usize) {
        let share = f64::from(self.probability)
            * match i {
                1 => 0.5,
                2 => 1.0,
                _ => 0.5,
            }
            + if i == 3 { 0.5 } else { 0.0 };
        let desired = 1.0 + f64::from(self.count - 1) * share;
        let behind = desired - f64::from(self.positions[i]);
        let (below, here, above) = (self.positions[i - 1], self.positions[i], self.positions[i + 1]);
        let step: f32 = if behind >= 1.0 && above - here > 1 {
            1.0
        } else if behind <= -1.0 && here - below > 1 {
            -1.0
        } else {
            return;
        };
        let parabolic = self.parabolic(i, step);
        self.heights[i] = if self.heights[i - 1] < parabolic && parabolic < self.heights[i + 1] {
            parabolic
        } else {
            self.linear(i, step)
        };
        self.positions[i] = if step > 0.0 { here + 1 } else { here - 1 };
    }

    /// The piecewise-parabolic prediction that names the algorithm.
    fn parabolic(&self, i: usize, step: f32) -> f32 {
        let q = &self.heights;
        let n = self.positions;
        let up = (n[i + 1] - n[i]) as f32;
        let down = (n[i] - n[i - 1]) as f32;
        q[i] + step / (up + down) * ((down + step) * (q[i + 1] - q[i]) / up + (up - step) * (q[i] - q[i - 1]) / down)
    }

    fn linear(&self, i: usize, step: f32) -> f32 {
        let q = &self.heights;
        let n = self.positions;
        if step > 0.0 {
            q[i] + (q[i + 1] - q[i]) / (n[i + 1] - n[i]) as f32
        } else {
            q[i] - (q[i] - q[i - 1]) / (n[i] - n[i - 1]) as f32
        }
    }

    /// The estimate so far; `None` before the first observation, exact (nearest rank) up to five.
    pub fn estimate(&self) -> Option<f32> {
        match self.count {
            0 => None,
            count @ 1..=5 => {
                let index = libm::floorf(self.probability * count as f32) as usize;
                self.heights.get(index.min(count as usize - 1)).copied()
            }
            _ => Some(self.heights[2]),
        }
    }
}
