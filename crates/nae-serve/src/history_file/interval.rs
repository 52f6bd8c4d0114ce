//! The frames of an interval as one row: their number, and their lowest, mean and highest energy. Rows of a second are
//! merged to rows of a minute, and these to rows of a quarter of an hour. This module has the operations on rows,
//! without the file.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// The lengths of the rows of the file, in seconds. Each divides the next, so that a row lies in only one longer row.
pub(crate) const LENGTHS: [i64; 3] = [1, 60, 900];

/// One frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// When it was taken, in milliseconds of Unix time.
    pub(crate) time: i64,
    pub(crate) energy: f32,
    pub(crate) threshold: Option<f32>,
    /// The digest of the model.
    pub(crate) model: String,
    /// Whether that was the model for the night.
    pub(crate) night: bool,
}

/// The frames of an interval that one model scored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Interval {
    /// The beginning, in milliseconds of Unix time.
    #[serde(serialize_with = "as_text")]
    pub(crate) time: i64,
    pub(crate) seconds: i64,
    pub(crate) count: i64,
    pub(crate) min: f32,
    pub(crate) mean: f64,
    pub(crate) max: f32,
    /// The threshold at the last frame; energies above it are anomalies.
    pub(crate) threshold: Option<f32>,
    pub(crate) model: String,
    /// Whether the model was in use as that for the night, at the last frame.
    pub(crate) night: bool,
}

impl Interval {
    /// The interval of one second that contains only this frame.
    pub(crate) fn of(point: Point) -> Self {
        let Point { time, energy, threshold, model, night } = point;
        let first =
            Self { time, seconds: 1, count: 1, min: energy, mean: energy.into(), max: energy, threshold, model, night };
        first.within(1)
    }

    /// The same frames as a part of the interval of this length that contains the beginning.
    pub(crate) fn within(self, seconds: i64) -> Self {
        Self { time: beginning(self.time, seconds), seconds, ..self }
    }

    /// Adds a later interval of the same model.
    pub(crate) fn merge(&mut self, later: &Self) {
        let (here, there) = (self.count as f64, later.count as f64);
        self.mean = (self.mean * here + later.mean * there) / (here + there);
        self.count += later.count;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        self.threshold = later.threshold;
        self.night = later.night;
    }
}

/// The beginning of the interval of this length that contains the time.
pub(crate) fn beginning(time: i64, seconds: i64) -> i64 {
    time - time.rem_euclid(1000 * seconds)
}

/// The intervals of one camera, by time, length and model.
#[derive(Debug, Default)]
pub(crate) struct Gathered(BTreeMap<(i64, i64, String), Interval>);

impl Gathered {
    /// Adds an interval that is later than the previous ones.
    pub(crate) fn add(&mut self, interval: Interval) {
        let key = (interval.time, interval.seconds, interval.model.clone());
        match self.0.get_mut(&key) {
            Some(known) => known.merge(&interval),
            None => drop(self.0.insert(key, interval)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Interval> {
        self.0.values()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The intervals in order of time.
    pub(crate) fn into_intervals(self) -> Vec<Interval> {
        self.0.into_values().collect()
    }
}

/// A time as RFC 3339 in UTC, or as a number if its year cannot be represented.
pub(crate) fn text(time: i64) -> String {
    Timestamp::from_millisecond(time).map_or_else(|_| time.to_string(), |time| format!("{time:.3}"))
}

pub(crate) fn as_text<S: Serializer>(time: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}
