//! Queries of the file: energies and alarms of an interval of time. Each answer has a limit, and a query holds the file
//! only while it is read: a slow client must not prevent the write-ahead log from being emptied.

use std::path::Path;

use rusqlite::{Connection, params};
use serde::{Serialize, Serializer};

use super::interval::{Gathered, Interval, LENGTHS, as_text};
use super::retention::{SELECT, row};
use super::schema;

/// The maximum number of alarms in an answer.
const ALARMS: i64 = 1000;
/// The length of a piece of a download, in milliseconds.
const PIECE: i64 = 3600 * 1000;

/// A range of time in milliseconds of Unix time: from `from`, included, to `to`, excluded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// An alarm as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PastAlarm {
    #[serde(serialize_with = "as_text")]
    pub(crate) time: i64,
    /// When it was cleared; `None` while it is active.
    #[serde(serialize_with = "as_text_if_any")]
    pub(crate) cleared: Option<i64>,
    pub(crate) number: i64,
    pub(crate) id: String,
    pub(crate) energy: f32,
    pub(crate) threshold: Option<f32>,
    pub(crate) model: String,
    /// Whether that was the model for the night.
    pub(crate) night: bool,
}

/// The data of a chart.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Chart {
    #[serde(serialize_with = "as_text")]
    pub(crate) from: i64,
    #[serde(serialize_with = "as_text")]
    pub(crate) to: i64,
    /// The length of a slice in seconds; if the file has longer rows, these are used as slices.
    pub(crate) seconds: i64,
    /// In order of time.
    pub(crate) slices: Vec<Interval>,
    /// The newest alarms, in order of time.
    pub(crate) alarms: Vec<PastAlarm>,
    /// Whether there are further alarms.
    pub(crate) more_alarms: bool,
}

/// The file, open to read the data of one camera.
pub(crate) struct Past {
    connection: Connection,
    camera: String,
}

impl Past {
    pub(super) fn open(path: &Path, camera: &str) -> rusqlite::Result<Self> {
        Ok(Self { connection: schema::open_to_read(path)?, camera: camera.to_owned() })
    }

    /// The chart of a time span, in about `points` slices.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn chart(&self, span: Span, points: u64) -> rusqlite::Result<Chart> {
        // Computed in whole seconds, so that an hour that ends at this moment does not get longer slices than an hour.
        let seconds = ((span.to - span.from).max(0) as u64 / 1000).div_ceil(points.max(1)).max(1) as i64;
        let mut slices = Gathered::default();
        // Longer rows are older.
        for length in LENGTHS.into_iter().rev() {
            self.each(length, span, |interval| {
                slices.add(if interval.seconds < seconds { interval.within(seconds) } else { interval });
            })?;
        }
        let mut alarms = self.alarms(span, "DESC", ALARMS + 1)?;
        let more_alarms = alarms.len() as i64 > ALARMS;
        alarms.truncate(ALARMS as usize);
        alarms.reverse();
        Ok(Chart { from: span.from, to: span.to, seconds, slices: slices.into_intervals(), alarms, more_alarms })
    }

    /// The rows of a piece of the span, in order of time, and the rest of the span; `None` without rows.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn piece(&self, span: Span) -> rusqlite::Result<Option<(Vec<Interval>, Span)>> {
        let mut first: Option<i64> = None;
        for length in LENGTHS {
            let text = "SELECT min(time) FROM energy
                WHERE camera = (SELECT id FROM camera WHERE name = ?1) AND seconds = ?2 AND time >= ?3 AND time < ?4";
            let found: Option<i64> = self
                .connection
                .prepare_cached(text)?
                .query_row(params![self.camera, length, span.from, span.to], |row| row.get(0))?;
            first = first.into_iter().chain(found).min();
        }
        let Some(first) = first else { return Ok(None) };
        let piece = Span { from: first, to: span.to.min(first + PIECE) };
        let mut rows = Gathered::default();
        for length in LENGTHS {
            self.each(length, piece, |interval| rows.add(interval))?;
        }
        Ok(Some((rows.into_intervals(), Span { from: piece.to, to: span.to })))
    }

    /// The first alarms of a span, and the rest of the span after the last of them; `None` without alarms.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn piece_of_alarms(&self, span: Span) -> rusqlite::Result<Option<(Vec<PastAlarm>, Span)>> {
        let mut alarms = self.alarms(span, "ASC", ALARMS + 1)?;
        let more = alarms.len() as i64 > ALARMS;
        let last = alarms.last().map(|alarm| alarm.time);
        // Alarms with the same time stay together.
        if more && alarms.first().map(|alarm| alarm.time) != last {
            alarms.retain(|alarm| Some(alarm.time) != last);
        }
        let from = if more { alarms.last().map_or(span.to, |alarm| alarm.time + 1) } else { span.to };
        Ok(last.map(|_| (alarms, Span { from, to: span.to })))
    }

    fn each(&self, length: i64, span: Span, mut take: impl FnMut(Interval)) -> rusqlite::Result<()> {
        let mut rows = self.connection.prepare_cached(&format!(
            "{SELECT} WHERE camera = (SELECT id FROM camera WHERE name = ?1) AND seconds = ?2 AND energy.time >= ?3
                AND energy.time < ?4 ORDER BY energy.time"
        ))?;
        for interval in rows.query_map(params![self.camera, length, span.from, span.to], row)? {
            take(interval?);
        }
        Ok(())
    }

    fn alarms(&self, span: Span, order: &'static str, most: i64) -> rusqlite::Result<Vec<PastAlarm>> {
        let mut rows = self.connection.prepare_cached(&format!(
            "SELECT time, cleared, number, alarm.id, energy, threshold, digest, night FROM alarm JOIN model ON model.id = alarm.model
             WHERE camera = (SELECT id FROM camera WHERE name = ?1) AND time >= ?2 AND time < ?3
             ORDER BY time {order}, number {order} LIMIT ?4"
        ))?;
        let alarm = |row: &rusqlite::Row<'_>| {
            Ok(PastAlarm {
                time: row.get(0)?,
                cleared: row.get(1)?,
                number: row.get(2)?,
                id: row.get(3)?,
                energy: row.get(4)?,
                threshold: row.get(5)?,
                model: row.get(6)?,
                night: row.get(7)?,
            })
        };
        rows.query_map(params![self.camera, span.from, span.to, most], alarm)?.collect()
    }
}

fn as_text_if_any<S: Serializer>(time: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_text(time, serializer),
        None => serializer.serialize_none(),
    }
}
