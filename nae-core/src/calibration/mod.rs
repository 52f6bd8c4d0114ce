//! What the energies of held-out normal data say about a new one: conformal p-values and a
//! threshold for a target false-positive rate. Fixed memory. The decision itself is in
//! [`crate::verdict`].
//!
//! With n held-out energies, the conformal p-value of an energy e is
//! p(e) = (1 + #{calibration energies ≥ e})/(n + 1) (Vovk, Gammerman and Shafer, 2005; Bates et
//! al., 2023). For new normal data, exchangeable with the held-out data, P(p ≤ α) ≤ α. The
//! threshold for a rate α is the k-th largest of the energies, k = ⌊α(n + 1)⌋, so that
//!
//! > energy > threshold ⇔ p ≤ α,
//!
//! exactly, also where only the table is kept and in the presence of rounding: k is the largest
//! integer for which k/(n + 1), rounded to `f32`, does not exceed α.
//!
//! Up to [`TABLE_LEN`] energies are kept as they are. Of more, the table keeps order statistics, the
//! smallest and the largest among them; p-values and thresholds are then rounded to the safe side for
//! the false-positive rate, up. The largest energies are kept more densely ([`Spacing::Tail`]): the 32
//! largest all, so that thresholds up to a rate of 32/(n + 1) are exact; a p-value is rounded by at most a
//! sixteenth of itself, and by no more than .008 for up to 60,000 energies, .04 for 2²⁴.

mod collect;
mod confidence;

pub use collect::{CollectError, Collector};
pub use confidence::{confident_rate, count_for_confidence};

use core::fmt;

/// Most order statistics a calibration keeps.
pub const TABLE_LEN: usize = 256;

/// Most energies a calibration can stand for: counts up to 2²⁴ are exact in `f32`.
pub const MAX_COUNT: usize = (1 << 24) - 1;

/// Why a calibration could not be made or gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum CalibrationError {
    /// There are no energies.
    Empty,
    /// There are more than [`MAX_COUNT`] energies.
    TooMany,
    /// An energy is NaN or infinite.
    NonFinite,
    /// The table does not ascend.
    NotSorted,
    /// The table has another length than its count of energies implies.
    TableLength,
    /// A false-positive rate must lie between 0 and 1, both excluded.
    RateOutOfRange,
    /// The rate is below 1/(n + 1): too few held-out energies to promise it.
    RateTooLow,
    /// A confidence must lie between 0 and 1, both excluded.
    ConfidenceOutOfRange,
    /// Too few held-out energies for the rate to hold with that confidence.
    ConfidenceTooHigh,
}

impl fmt::Display for CalibrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "there are no energies to calibrate from",
            Self::TooMany => "there are more than 16,777,215 energies",
            Self::NonFinite => "an energy is NaN or infinite",
            Self::NotSorted => "the table of energies does not ascend",
            Self::TableLength => "the table's length does not fit its count of energies",
            Self::RateOutOfRange => "a false-positive rate must lie between 0 and 1",
            Self::RateTooLow => "the false-positive rate is below 1/(n + 1): more energies are needed",
            Self::ConfidenceOutOfRange => "a confidence must lie between 0 and 1",
            Self::ConfidenceTooHigh => "the confidence is too high for so few energies: more are needed",
        })
    }
}

impl core::error::Error for CalibrationError {}

/// Which order statistics a table keeps of more than [`TABLE_LEN`] energies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Spacing {
    /// Of equal distance in rank: no threshold for a rate below 1/255 but the largest energy. In files of earlier versions.
    Even,
    /// From the largest energy down at distances of a sixteenth of the number of energies above, one at least, until what is left
    /// can be spaced evenly without longer ones.
    Tail,
}

/// Calibration from held-out normal energies: 1 KiB, whatever their number.
///
/// ```
/// use nae_core::calibration::Calibration;
/// let mut energies: [f32; 99] = core::array::from_fn(|i| i as f32);
/// let calibration = Calibration::from_energies(&mut energies)?;
/// let threshold = calibration.threshold(0.05)?; // the 5th largest
/// assert_eq!(threshold, 94.0);
/// assert_eq!(calibration.p_value(94.5)?, 0.05);
/// # Ok::<(), nae_core::calibration::CalibrationError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    count: u32,
    spacing: Spacing,
    table: heapless::Vec<f32, TABLE_LEN>,
}

impl Calibration {
    /// From held-out normal energies in any order; sorts them.
    ///
    /// # Errors
    /// [`CalibrationError`] when there are none or too many, or one is not finite.
    pub fn from_energies(energies: &mut [f32]) -> Result<Self, CalibrationError> {
        if !energies.iter().all(|e| e.is_finite()) {
            return Err(CalibrationError::NonFinite);
        }
        energies.sort_unstable_by(f32::total_cmp);
        Self::from_sorted(energies)
    }

    /// From held-out normal energies in ascending order.
    ///
    /// # Errors
    /// As [`Calibration::from_energies`], and when they do not ascend.
    pub fn from_sorted(energies: &[f32]) -> Result<Self, CalibrationError> {
        let count = check_count(energies.len())?;
        check_table(energies)?;
        let len = table_len(count);
        let spacing = Spacing::Tail;
        let table = (0..len).filter_map(|j| energies.get(rank(j, len, count, spacing)).copied());
        Ok(Self { count, spacing, table: table.collect() })
    }

    /// From the parts of another calibration: the number of energies, and its [`spacing`](Self::spacing) and
    /// [`table`](Self::table).
    ///
    /// # Errors
    /// [`CalibrationError`] when the table is not one of so many energies.
    pub fn from_table(count: usize, spacing: Spacing, table: &[f32]) -> Result<Self, CalibrationError> {
        let CalibrationView { count, spacing, .. } = CalibrationView::new(count, spacing, table)?;
        let table = heapless::Vec::from_slice(table).map_err(|_| CalibrationError::TableLength)?;
        Ok(Self { count, spacing, table })
    }

    /// The same, borrowed.
    pub fn view(&self) -> CalibrationView<'_> {
        CalibrationView { count: self.count, spacing: self.spacing, table: Table::Floats(&self.table) }
    }

    /// Number n of held-out energies.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Which order statistics are kept; [`Spacing::Tail`] where all are.
    pub const fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// The order statistics kept, ascending: as many as n and [`TABLE_LEN`] allow.
    pub fn table(&self) -> &[f32] {
        &self.table
    }

    /// See [`CalibrationView::threshold`].
    ///
    /// # Errors
    /// [`CalibrationError::RateOutOfRange`] or [`CalibrationError::RateTooLow`].
    pub fn threshold(&self, false_positive_rate: f32) -> Result<f32, CalibrationError> {
        self.view().threshold(false_positive_rate)
    }

    /// See [`CalibrationView::rate_interval`].
    ///
    /// # Errors
    /// Those of [`Calibration::threshold`], and [`CalibrationError::ConfidenceOutOfRange`].
    pub fn rate_interval(&self, rate: f32, confidence: f32) -> Result<(f32, f32), CalibrationError> {
        self.view().rate_interval(rate, confidence)
    }

    /// See [`CalibrationView::p_value`].
    ///
    /// # Errors
    /// [`CalibrationError::NonFinite`] when `energy` is NaN or infinite.
    pub fn p_value(&self, energy: f32) -> Result<f32, CalibrationError> {
        self.view().p_value(energy)
    }
}

/// A calibration whose table lies elsewhere, such as in a model in flash.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationView<'a> {
    count: u32,
    spacing: Spacing,
    table: Table<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Table<'a> {
    Floats(&'a [f32]),
    LittleEndian(&'a [[u8; 4]]),
}

impl Table<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Floats(table) => table.len(),
            Self::LittleEndian(table) => table.len(),
        }
    }

    /// Entry `index`; infinite beyond the end, which only a wrong index reaches.
    fn get(&self, index: usize) -> f32 {
        match self {
            Self::Floats(table) => table.get(index).copied(),
            Self::LittleEndian(table) => table.get(index).map(|b| f32::from_le_bytes(*b)),
        }
        .unwrap_or(f32::INFINITY)
    }
}

impl<'a> CalibrationView<'a> {
    /// A view of `table` standing for `count` energies.
    ///
    /// # Errors
    /// [`CalibrationError`] when the table is not one of so many energies.
    pub fn new(count: usize, spacing: Spacing, table: &'a [f32]) -> Result<Self, CalibrationError> {
        let count = check_count(count)?;
        if table.len() != table_len(count) {
            return Err(CalibrationError::TableLength);
        }
        check_table(table)?;
        Ok(Self { count, spacing: spaced(count, spacing), table: Table::Floats(table) })
    }

    /// A view of a table that the model's parser has checked.
    pub(crate) const fn from_checked_bytes(count: u32, spacing: Spacing, table: &'a [[u8; 4]]) -> Self {
        Self { count, spacing: spaced(count, spacing), table: Table::LittleEndian(table) }
    }

    /// Number n of held-out energies.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// A copy that owns its table.
    pub fn to_owned(&self) -> Calibration {
        let table = (0..self.table.len()).map(|j| self.table.get(j)).collect();
        Calibration { count: self.count, spacing: self.spacing, table }
    }

    /// The energy above which an alarm is given, so that at most `false_positive_rate` of new
    /// normal data give one. Where only a table is kept, never below the exact one.
    ///
    /// # Errors
    /// [`CalibrationError::RateOutOfRange`] unless 0 < rate < 1, and
    /// [`CalibrationError::RateTooLow`] when the rate is below 1/(n + 1).
    pub fn threshold(&self, false_positive_rate: f32) -> Result<f32, CalibrationError> {
        Ok(self.table.get(self.threshold_entry(false_positive_rate)?))
    }

    /// The entry of the table that is the threshold for `rate`.
    const fn threshold_entry(&self, rate: f32) -> Result<usize, CalibrationError> {
        threshold_entry(self.count, self.spacing, rate)
    }

    /// Rank, among 0…n − 1, of entry `j`.
    fn rank(&self, j: usize) -> usize {
        rank(j, self.table.len(), self.count, self.spacing)
    }

    /// Conformal p-value of `energy`, in (0, 1]: (1 + #{calibration energies ≥ energy})/(n + 1).
    /// Where only a table is kept, never below the exact one.
    ///
    /// # Errors
    /// [`CalibrationError::NonFinite`] when `energy` is NaN or infinite.
    pub fn p_value(&self, energy: f32) -> Result<f32, CalibrationError> {
        if !energy.is_finite() {
            return Err(CalibrationError::NonFinite);
        }
        let len = self.table.len();
        let below = partition_point(len, |j| self.table.get(j) < energy);
        // Every energy ranked above the last entry known to be below may be at or above `energy`.
        let at_least = match below {
            0 => self.count,
            _ => (self.count - 1).saturating_sub(self.rank(below - 1) as u32),
        };
        Ok(ratio(at_least + 1, self.count))
    }
}

/// The entry that is the threshold for `rate`, of a table of `count` energies of this spacing.
pub(crate) const fn threshold_entry(count: u32, spacing: Spacing, rate: f32) -> Result<usize, CalibrationError> {
    if let Err(error) = check_rate(rate) {
        return Err(error);
    }
    let alarms = alarms_allowed(count, rate);
    if alarms == 0 {
        return Err(CalibrationError::RateTooLow);
    }
    // The k-th largest has rank n − k; take the lowest entry of the table at or above it.
    let least = (count - alarms) as usize;
    let len = table_len(count);
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if rank(middle, len, count, spacing) < least {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// The largest k ≤ n, n being `count`, for which k/(n + 1), as an `f32`, does not exceed `rate`.
const fn alarms_allowed(count: u32, rate: f32) -> u32 {
    // The product in f64 is within one of k; the loop below settles rounding.
    let mut k = (rate as f64 * (count as f64 + 1.0)) as u32 + 1;
    while k > 0 && (k > count || ratio(k, count) > rate) {
        k -= 1;
    }
    k
}

/// k/(n + 1), both exact in `f32`, so rounded once.
const fn ratio(k: u32, count: u32) -> f32 {
    k as f32 / (count + 1) as f32
}

fn partition_point(len: usize, mut before: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Length of the table that stands for `count` energies.
pub(crate) const fn table_len(count: u32) -> usize {
    if (count as usize) < TABLE_LEN { count as usize } else { TABLE_LEN }
}

/// The spacing of a table for `count` energies: that of a table of all of them is one and the same.
const fn spaced(count: u32, spacing: Spacing) -> Spacing {
    if count as usize <= TABLE_LEN { Spacing::Tail } else { spacing }
}

/// Rank, among 0…count − 1, of entry `j` of a table of `len`.
const fn rank(j: usize, len: usize, count: u32, spacing: Spacing) -> usize {
    if len < 2 {
        return 0;
    }
    match spacing {
        Spacing::Even => (j as u64 * (count as u64 - 1) / (len as u64 - 1)) as usize,
        Spacing::Tail => (count - 1 - above((len - 1 - j) as u32, len as u32, count)) as usize,
    }
}

/// How many energies are above entry `i`, counted from the end, of a table of `len` ≥ 2 for `count` energies, by [`Spacing::Tail`].
const fn above(i: u32, len: u32, count: u32) -> u32 {
    let mut above = 0;
    let mut at = 0;
    while at < i {
        // Entries further down, and the energies they stand for. There is one at least, which a compiler does not see, and a
        // division that cannot panic needs it to.
        let entries = match (len - 1).saturating_sub(at) {
            0 => 1,
            entries => entries,
        };
        let left = count - 1 - above;
        let step = if above < 32 { 1 } else { above / 16 };
        // Products are below 2³²: of a table's length and a count.
        if entries == 1 || step * entries >= left {
            return above + (i - at) * left / entries;
        }
        above += step;
        at += 1;
    }
    above
}

fn check_count(count: usize) -> Result<u32, CalibrationError> {
    match count {
        0 => Err(CalibrationError::Empty),
        1..=MAX_COUNT => Ok(count as u32),
        _ => Err(CalibrationError::TooMany),
    }
}

const fn check_rate(rate: f32) -> Result<(), CalibrationError> {
    if rate > 0.0 && rate < 1.0 { Ok(()) } else { Err(CalibrationError::RateOutOfRange) }
}

fn check_table(table: &[f32]) -> Result<(), CalibrationError> {
    if !table.iter().all(|e| e.is_finite()) {
        return Err(CalibrationError::NonFinite);
    }
    if !table.is_sorted() {
        return Err(CalibrationError::NotSorted);
    }
    Ok(())
}
