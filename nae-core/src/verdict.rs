//! From energy to decision: score, verdict, and the filter that turns verdicts over time into an
//! alarm. The threshold comes from [`crate::calibration`].

use core::fmt;
use heapless::Deque;

/// Energy and p-value of one image.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Score {
    /// Energy: the higher, the less normal. Its units are those of the [`crate::energy::Energy`].
    pub energy: f32,
    /// Conformal p-value in (0, 1]: the share of normal data with an energy at least as high. `None` if the model has
    /// no calibration.
    pub p_value: Option<f32>,
}

/// The decision on one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Verdict {
    /// The energy is at or below the threshold.
    Normal,
    /// The energy is above the threshold.
    Anomaly,
}

impl Verdict {
    /// [`Verdict::Normal`] if `energy` ≤ `threshold`, else [`Verdict::Anomaly`], also if one of them is NaN.
    ///
    /// ```
    /// use nae_core::verdict::Verdict;
    /// assert_eq!(Verdict::of(0.5, 0.5), Verdict::Normal);
    /// assert_eq!(Verdict::of(f32::NAN, 0.5), Verdict::Anomaly);
    /// ```
    pub const fn of(energy: f32, threshold: f32) -> Self {
        if energy <= threshold { Self::Normal } else { Self::Anomaly }
    }

    /// Whether this is [`Verdict::Anomaly`].
    pub const fn is_anomaly(self) -> bool {
        matches!(self, Self::Anomaly)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::Anomaly => "anomaly",
        })
    }
}

/// The conditions under which the alarm turns on and off, checked at construction: it turns on at `raise` anomalies
/// among the last `window` verdicts, and off at `clear` or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AlarmSettings {
    raise: usize,
    clear: usize,
    window: usize,
}

/// The reason why alarm settings were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum AlarmSettingsError {
    /// `raise` is zero or above `window`: the alarm would always be on, or never turn on.
    Raise,
    /// `clear` is not below `raise`: the alarm would turn off as it turns on.
    Clear,
    /// `window` is longer than the filter's memory.
    Window,
}

impl fmt::Display for AlarmSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raise => "the raising count must be between 1 and the window's length",
            Self::Clear => "the clearing count must be below the raising count",
            Self::Window => "the window is longer than the filter's memory",
        })
    }
}

impl core::error::Error for AlarmSettingsError {}

impl AlarmSettings {
    /// Returns settings that raise the alarm at `raise` anomalies among the last `window` verdicts and clear it at
    /// `clear` or fewer.
    ///
    /// # Errors
    /// [`AlarmSettingsError`] unless 0 ≤ `clear` < `raise` ≤ `window`.
    pub const fn new(raise: usize, clear: usize, window: usize) -> Result<Self, AlarmSettingsError> {
        if raise == 0 || raise > window {
            Err(AlarmSettingsError::Raise)
        } else if clear >= raise {
            Err(AlarmSettingsError::Clear)
        } else {
            Ok(Self { raise, clear, window })
        }
    }
}

/// k-of-n alarm with hysteresis over the last verdicts; `N` is the longest window it supports.
///
/// ```
/// use nae_core::verdict::{AlarmFilter, AlarmSettings, Verdict::{Anomaly, Normal}};
/// // On at 2 anomalies of the last 3, off if none is left.
/// let mut alarm = AlarmFilter::<8>::new(AlarmSettings::new(2, 0, 3)?)?;
/// let states = [Anomaly, Normal, Anomaly, Normal, Normal, Normal].map(|v| alarm.observe(v));
/// assert_eq!(states, [false, false, true, true, true, false]);
/// # Ok::<(), nae_core::verdict::AlarmSettingsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AlarmFilter<const N: usize> {
    settings: AlarmSettings,
    recent: Deque<Verdict, N>,
    anomalies: usize,
    raised: bool,
}

impl<const N: usize> AlarmFilter<N> {
    /// A filter with the alarm off and no verdict seen.
    ///
    /// # Errors
    /// [`AlarmSettingsError::Window`] if the window is longer than `N`.
    pub fn new(settings: AlarmSettings) -> Result<Self, AlarmSettingsError> {
        if settings.window > N {
            return Err(AlarmSettingsError::Window);
        }
        Ok(Self { settings, recent: Deque::new(), anomalies: 0, raised: false })
    }

    /// Adds the next verdict and returns whether the alarm is on, in constant time.
    pub fn observe(&mut self, verdict: Verdict) -> bool {
        if self.recent.len() == self.settings.window
            && let Some(oldest) = self.recent.pop_front()
        {
            self.anomalies -= usize::from(oldest.is_anomaly());
        }
        // The window fits in N, so there is room.
        if self.recent.push_back(verdict).is_ok() {
            self.anomalies += usize::from(verdict.is_anomaly());
        }
        let limit = if self.raised { self.settings.clear + 1 } else { self.settings.raise };
        self.raised = self.anomalies >= limit;
        self.raised
    }

    /// Whether the alarm is on.
    pub const fn is_raised(&self) -> bool {
        self.raised
    }

    /// Forgets all verdicts and turns the alarm off.
    pub fn reset(&mut self) {
        self.recent.clear();
        self.anomalies = 0;
        self.raised = false;
    }
}
