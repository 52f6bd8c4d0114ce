//! Conformal p-values, and thresholds for a target false-positive rate, from the energies of held-out normal data, in
//! fixed memory. The decision itself is in [`crate::verdict`].
//!
//! With n held-out energies, the conformal p-value of an energy e is
//! p(e) = (1 + #{calibration energies ≥ e})/(n + 1) (Vovk, Gammerman and Shafer, 2005; Bates et
//! al., 2023). For new normal data, exchangeable with the held-out data, P(p ≤ α) ≤ α. The
//! threshold for a rate α is the k-th largest of the energies, k = ⌊α(n + 1)⌋, so that
//!
//! > energy > threshold ⇔ p ≤ α.
//!
//! This holds exactly, also if only the table is kept, and with rounding: k is the largest integer for which k/(n + 1),
//! rounded to `f32`, does not exceed α.
//!
//! Up to [`TABLE_LEN`] energies are all kept. Of more energies, the table keeps order statistics, among them the
//! smallest and the largest; p-values and thresholds are then rounded up, which is the safe side for the false-positive
//! rate. The largest energies are kept more densely ([`Spacing::Tail`]). The 32 largest are all kept, so that
//! thresholds up to a rate of 32/(n + 1) are exact. A p-value is rounded up by at most a sixteenth of itself, and by no
//! more than .008 for up to 60,000 energies, .04 for 2²⁴.

mod collect;
mod confidence;
mod sort;

pub use collect::{CollectError, Collector};
pub use confidence::{confident_rate, count_for_confidence, share_interval};

use core::fmt;
use sort::sort;

/// The largest number of order statistics that a calibration keeps.
pub const TABLE_LEN: usize = 256;

/// The largest number of energies that a calibration can represent: counts up to 2²⁴ are exact in `f32`.
pub const MAX_COUNT: usize = (1 << 24) - 1;

/// The reason why a calibration could not be made or gave no result.
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
    /// The length of the table does not match the number of energies.
    TableLength,
    /// A false-positive rate must lie between 0 and 1, both excluded.
    RateOutOfRange,
    /// The rate is below 1/(n + 1): there are too few held-out energies to guarantee it.
    RateTooLow,
    /// A confidence must lie between 0 and 1, both excluded.
    ConfidenceOutOfRange,
    /// There are too few held-out energies for the rate to hold with that confidence.
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

/// The choice of the order statistics that a table keeps of more than [`TABLE_LEN`] energies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Spacing {
    /// Equal distances in rank. The only threshold for a rate below 1/255 is then the largest energy. Used in files of
    /// earlier versions.
    Even,
    /// Denser at the upper end: starting from the largest energy, each distance in rank is a sixteenth of the number of
    /// energies above, and at least one, until the remaining energies can be spaced evenly without longer distances.
    Tail,
}

/// A calibration from held-out normal energies; takes 1 KiB for any number of energies.
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
    /// Makes a calibration from held-out normal energies in any order; sorts them.
    ///
    /// # Errors
    /// [`CalibrationError`] if there are none or too many, or one is not finite.
    pub fn from_energies(energies: &mut [f32]) -> Result<Self, CalibrationError> {
        if !energies.iter().all(|e| e.is_finite()) {
            return Err(CalibrationError::NonFinite);
        }
        sort(energies);
        Self::from_sorted(energies)
    }

    /// Makes a calibration from held-out normal energies in ascending order.
    ///
    /// # Errors
    /// As [`Calibration::from_energies`], and [`CalibrationError::NotSorted`] if they do not ascend.
    pub fn from_sorted(energies: &[f32]) -> Result<Self, CalibrationError> {
        let count = check_count(energies.len())?;
        check_table(energies)?;
        let len = table_len(count);
        let spacing = Spacing::Tail;
        Ok(Self { count, spacing, table: collect(len, |j| energies.get(rank(j, len, count, spacing)).copied())? })
    }

    /// Makes a calibration from the parts of another one: the number of energies, its [`spacing`](Self::spacing) and
    /// its [`table`](Self::table).
    ///
    /// # Errors
    /// [`CalibrationError`] if the table is not valid for this number of energies.
    pub fn from_table(count: usize, spacing: Spacing, table: &[f32]) -> Result<Self, CalibrationError> {
        let CalibrationView { count, spacing, .. } = CalibrationView::new(count, spacing, table)?;
        let table = heapless::Vec::from_slice(table).map_err(|_| CalibrationError::TableLength)?;
        Ok(Self { count, spacing, table })
    }

    /// A borrowed view of this calibration.
    pub fn view(&self) -> CalibrationView<'_> {
        CalibrationView { count: self.count, spacing: self.spacing, table: Table::Floats(&self.table) }
    }

    /// Number n of held-out energies.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// The choice of the order statistics kept; [`Spacing::Tail`] if all are kept.
    pub const fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// The order statistics kept, in ascending order: min(n, [`TABLE_LEN`]) of them.
    pub fn table(&self) -> &[f32] {
        &self.table
    }

    /// See [`CalibrationView::threshold`].
    ///
    /// # Errors
    /// [`CalibrationError::RateOutOfRange`] or [`CalibrationError::RateTooLow`], as documented there.
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
    /// [`CalibrationError::NonFinite`] if `energy` is NaN or infinite.
    pub fn p_value(&self, energy: f32) -> Result<f32, CalibrationError> {
        self.view().p_value(energy)
    }
}

/// A calibration whose table lies elsewhere, for example in a model in flash.
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

    /// Entry `index`; infinite beyond the end, which only a wrong index can reach.
    fn get(&self, index: usize) -> f32 {
        match self {
            Self::Floats(table) => table.get(index).copied(),
            Self::LittleEndian(table) => table.get(index).map(|b| f32::from_le_bytes(*b)),
        }
        .unwrap_or(f32::INFINITY)
    }
}

impl<'a> CalibrationView<'a> {
    /// Returns a view of `table`, which represents `count` energies.
    ///
    /// # Errors
    /// [`CalibrationError`] if the table is not valid for this number of energies.
    pub fn new(count: usize, spacing: Spacing, table: &'a [f32]) -> Result<Self, CalibrationError> {
        let count = check_count(count)?;
        if table.len() != table_len(count) {
            return Err(CalibrationError::TableLength);
        }
        check_table(table)?;
        Ok(Self { count, spacing: spaced(count, spacing), table: Table::Floats(table) })
    }

    /// Returns a view of a table that the model's parser has checked.
    pub(crate) const fn from_checked_bytes(count: u32, spacing: Spacing, table: &'a [[u8; 4]]) -> Self {
        Self { count, spacing: spaced(count, spacing), table: Table::LittleEndian(table) }
    }

    /// Number n of held-out energies.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// A copy that owns its table.
    pub fn to_owned(&self) -> Calibration {
        // No table is too long, so nothing is left out.
        let table = collect(self.table.len(), |j| Some(self.table.get(j))).unwrap_or_default();
        Calibration { count: self.count, spacing: self.spacing, table }
    }

    /// Returns the energy above which an alarm is given, so that at most `false_positive_rate` of new normal data give
    /// one. If only a table is kept, the result is never below the exact threshold.
    ///
    /// # Errors
    /// [`CalibrationError::RateOutOfRange`] unless 0 < rate < 1; [`CalibrationError::RateTooLow`] if the rate is below
    /// 1/(n + 1).
    pub fn threshold(&self, false_positive_rate: f32) -> Result<f32, CalibrationError> {
        Ok(self.table.get(self.threshold_entry(false_positive_rate)?))
    }

    /// The index of the table's entry that is the threshold for `rate`.
    const fn threshold_entry(&self, rate: f32) -> Result<usize, CalibrationError> {
        threshold_entry(self.count, self.spacing, rate)
    }

    /// Rank, among 0…n − 1, of entry `j`.
    fn rank(&self, j: usize) -> usize {
        rank(j, self.table.len(), self.count, self.spacing)
    }

    /// Returns the conformal p-value of `energy`, in (0, 1]: (1 + #{calibration energies ≥ energy})/(n + 1). If only a
    /// table is kept, the result is never below the exact p-value.
    ///
    /// # Errors
    /// [`CalibrationError::NonFinite`] if `energy` is NaN or infinite.
    pub fn p_value(&self, energy: f32) -> Result<f32, CalibrationError> {
        if !energy.is_finite() {
            return Err(CalibrationError::NonFinite);
        }
        let len = self.table.len();
        let below = partition_point(len, |j| self.table.get(j) < energy);
        // Every energy with a higher rank than the last entry known to be below may be at or above `energy`.
        let at_least = match below {
            0 => self.count,
            _ => (self.count - 1).saturating_sub(self.rank(below - 1) as u32),
        };
        Ok(ratio(at_least + 1, self.count))
    }
}

/// The index of the entry that is the threshold for `rate`, in a table of `count` energies with this spacing.
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
    // Not `partition_point`: models are parsed at compile time, too, and a const function cannot call its closure.
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
    // The product in f64 differs from k by at most one; the loop below corrects for rounding.
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

/// Returns the smallest number n of held-out energies that have a threshold for `rate`: 1/(n + 1) does not exceed it.
///
/// # Errors
/// [`CalibrationError::RateOutOfRange`] unless 0 < rate < 1; [`CalibrationError::TooMany`] if more than [`MAX_COUNT`]
/// energies would be needed.
///
/// ```
/// use nae_core::calibration::count_for_rate;
/// assert_eq!(count_for_rate(0.01), Ok(99));
/// ```
pub fn count_for_rate(rate: f32) -> Result<usize, CalibrationError> {
    check_rate(rate)?;
    // At most the number that is needed; the loop below corrects for rounding.
    let mut count = (1.0 / f64::from(rate) - 1.0) as usize;
    count = count.saturating_sub(1).max(1);
    while check_count(count).is_ok_and(|count| alarms_allowed(count, rate) == 0) {
        count += 1;
    }
    check_count(count).map(|_| count)
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

/// Collects the entries of a table of `len`. A `collect` of the standard library would link a panic, for a table that is
/// too long.
fn collect(
    len: usize,
    entry: impl Fn(usize) -> Option<f32>,
) -> Result<heapless::Vec<f32, TABLE_LEN>, CalibrationError> {
    let mut table = heapless::Vec::new();
    for energy in (0..len).filter_map(entry) {
        table.push(energy).map_err(|_| CalibrationError::TableLength)?;
    }
    Ok(table)
}

/// Length of the table that represents `count` energies.
pub(crate) const fn table_len(count: u32) -> usize {
    if (count as usize) < TABLE_LEN { count as usize } else { TABLE_LEN }
}

/// The spacing of a table for `count` energies. If all energies are kept, both spacings give the same table.
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

/// The number of energies above entry `i`, counted from the end, of a table of `len` ≥ 2 entries for `count` energies,
/// by [`Spacing::Tail`].
const fn above(i: u32, len: u32, count: u32) -> u32 {
    let mut above = 0;
    let mut at = 0;
    while at < i {
        // The number of entries further down, which represent the energies left. It is at least one; the compiler
        // cannot derive this, and without the explicit case the division below would link a panic.
        let entries = match (len - 1).saturating_sub(at) {
            0 => 1,
            entries => entries,
        };
        let left = count - 1 - above;
        let step = if above < 32 { 1 } else { above / 16 };
        // Products of a table's length and a count are below 2³².
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
    // Not `is_sorted`, which links a panic.
    if !table.iter().zip(table.iter().skip(1)).all(|(energy, next)| energy <= next) {
        return Err(CalibrationError::NotSorted);
    }
    Ok(())
}
