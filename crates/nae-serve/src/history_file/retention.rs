//! Removal of data from the file: by their age, rows of a second are merged to rows of a minute, and these to rows of a
//! quarter of an hour; rows older than the setting are deleted; and if the file is too large, the oldest are deleted
//! first. Each step is small, so that new data do not wait long, and the work can stop after any step.

use std::time::Duration;

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::interval::{Gathered, Interval, LENGTHS, beginning};
use super::schema::PATIENCE;
use super::store::{Store, add_interval};

const HOUR: i64 = 3600 * 1000;
const DAY: i64 = 24 * HOUR;
/// The age in milliseconds at which rows of each length are merged to the next length.
pub(super) const THINNED_AFTER: [i64; 2] = [2 * DAY, 30 * DAY];
/// The span before the newest row, in milliseconds, that keeps its length if lack of space requires merging.
const KEPT_FINE: [i64; 2] = [2 * HOUR, 2 * DAY];
/// The number of rows per step.
const STEP: i64 = 3600;
/// The number of alarms per step.
const ALARMS: i64 = 100;
/// The part of the space that is reserved for the write-ahead log, in bytes.
const FOR_LOG: u64 = 3_000_000;

/// How long and in how many bytes history is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HistoryLimits {
    pub(crate) days: u32,
    pub(crate) bytes: u64,
}

impl HistoryLimits {
    /// The smallest useful size, in bytes.
    pub(crate) const LEAST_BYTES: u64 = 8_000_000;
}

impl Store {
    /// Makes one step that age requires; false if nothing is left to do.
    ///
    /// # Errors
    /// Those of the file; in that case, nothing was changed.
    pub(super) fn age(&mut self, limits: HistoryLimits, now: i64) -> rusqlite::Result<bool> {
        if !self.has_short_log()? {
            return Ok(false);
        }
        let expired = now - i64::from(limits.days) * DAY;
        let change = self.connection.transaction()?;
        let mut done = expire(&change, expired)?;
        done |= thin_oldest(&change, |_, at| Ok(Some(now - THINNED_AFTER[at])))?;
        change.commit()?;
        if done {
            self.give_back()?;
        }
        Ok(done)
    }

    /// Makes one step that lack of space requires; false if the file fits, or nothing more can be removed.
    ///
    /// # Errors
    /// Those of the file; in that case, nothing was changed.
    pub(super) fn make_room(&mut self, limits: HistoryLimits) -> rusqlite::Result<bool> {
        if self.used()? <= limits.bytes.saturating_sub(FOR_LOG) || !self.has_short_log()? {
            return Ok(false);
        }
        let change = self.connection.transaction()?;
        let newest = |camera, at: usize| edge(&change, Edge::Last, camera, LENGTHS[at]);
        let done = thin_oldest(&change, |camera, at| Ok(newest(camera, at)?.map(|newest| newest - KEPT_FINE[at])))?
            || expire_oldest(&change)?;
        change.commit()?;
        self.give_back()?;
        Ok(done)
    }

    /// The number of bytes of the file that are in use.
    fn used(&self) -> rusqlite::Result<u64> {
        let number = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let pages = number("page_count")? - number("freelist_count")?;
        Ok((pages * number("page_size")?).max(0) as u64)
    }

    /// Whether the log has room for a step. While a reader is active, it is not emptied, and each step would lengthen
    /// it.
    fn has_short_log(&self) -> rusqlite::Result<bool> {
        let is_short = || self.log_bytes() <= FOR_LOG / 2;
        if !is_short() {
            self.give_back()?;
        }
        Ok(is_short())
    }

    /// Returns pages without rows to the file system.
    pub(super) fn give_back(&self) -> rusqlite::Result<()> {
        // The pragma returns one page with each row that is fetched.
        let mut pages = self.connection.prepare_cached("PRAGMA incremental_vacuum")?;
        let mut pages = pages.query(())?;
        while pages.next()?.is_some() {}
        // If a reader is active, the next call does it; this does not wait.
        self.connection.busy_timeout(Duration::ZERO)?;
        let emptied = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        self.connection.busy_timeout(PATIENCE)?;
        emptied
    }
}

/// All cameras in the file, including those that are no longer in the settings.
fn cameras(change: &Transaction<'_>) -> rusqlite::Result<Vec<i64>> {
    change.prepare_cached("SELECT id FROM camera")?.query_map((), |row| row.get(0))?.collect()
}

#[derive(Clone, Copy)]
enum Edge {
    First,
    Last,
}

/// The time of the first or the last row of a length.
fn edge(change: &Transaction<'_>, edge: Edge, camera: i64, seconds: i64) -> rusqlite::Result<Option<i64>> {
    let text = match edge {
        Edge::First => "SELECT time FROM energy WHERE camera = ?1 AND seconds = ?2 ORDER BY time LIMIT 1",
        Edge::Last => "SELECT time FROM energy WHERE camera = ?1 AND seconds = ?2 ORDER BY time DESC LIMIT 1",
    };
    change.prepare_cached(text)?.query_row(params![camera, seconds], |row| row.get(0)).optional()
}

/// Merges the oldest rows to the next length, among those before the time that `before` gives for a camera and a
/// length; false if there are none.
fn thin_oldest(
    change: &Transaction<'_>,
    before: impl Fn(i64, usize) -> rusqlite::Result<Option<i64>>,
) -> rusqlite::Result<bool> {
    let mut oldest: Option<(i64, i64, usize, i64)> = None;
    for camera in cameras(change)? {
        for at in 0..KEPT_FINE.len() {
            let (Some(first), Some(before)) = (edge(change, Edge::First, camera, LENGTHS[at])?, before(camera, at)?)
            else {
                continue;
            };
            // Only complete rows of the next length.
            let before = beginning(before, LENGTHS[at + 1]);
            if first < before && oldest.is_none_or(|oldest| first < oldest.0) {
                oldest = Some((first, camera, at, before));
            }
        }
    }
    let Some((first, camera, at, before)) = oldest else { return Ok(false) };
    let end = before.min(beginning(first, LENGTHS[at + 1]) + 1000 * STEP * LENGTHS[at]);
    thin(change, camera, at, end)?;
    Ok(true)
}

/// Merges all rows before a time to the next length.
fn thin(change: &Transaction<'_>, camera: i64, at: usize, end: i64) -> rusqlite::Result<()> {
    let (from, to) = (LENGTHS[at], LENGTHS[at + 1]);
    let mut thinned = Gathered::default();
    let mut rows = change.prepare_cached(&format!(
        "{SELECT} WHERE camera = ?1 AND seconds = ?2 AND energy.time < ?3 ORDER BY energy.time"
    ))?;
    for interval in rows.query_map(params![camera, from, end], row)? {
        thinned.add(interval?.within(to));
    }
    for interval in thinned.iter() {
        add_interval(change, camera, interval)?;
    }
    change
        .prepare_cached("DELETE FROM energy WHERE camera = ?1 AND seconds = ?2 AND time < ?3")?
        .execute(params![camera, from, end])?;
    Ok(())
}

/// Deletes some of the data that are older than a time.
fn expire(change: &Transaction<'_>, before: i64) -> rusqlite::Result<bool> {
    let mut deleted = 0;
    for camera in cameras(change)? {
        for seconds in LENGTHS {
            let Some(first) = edge(change, Edge::First, camera, seconds)? else { continue };
            let end = before.min(first + 1000 * STEP * seconds);
            deleted += change
                .prepare_cached("DELETE FROM energy WHERE camera = ?1 AND seconds = ?2 AND time < ?3")?
                .execute(params![camera, seconds, end])?;
        }
    }
    deleted += change.prepare_cached("DELETE FROM alarm WHERE time < ?1")?.execute([before])?;
    Ok(deleted > 0)
}

/// Deletes a day of energies, the oldest of all cameras; if there are none, some alarms.
fn expire_oldest(change: &Transaction<'_>) -> rusqlite::Result<bool> {
    let mut oldest: Option<i64> = None;
    for camera in cameras(change)? {
        for seconds in LENGTHS {
            let first = edge(change, Edge::First, camera, seconds)?;
            oldest = oldest.into_iter().chain(first).min();
        }
    }
    let Some(oldest) = oldest else {
        let deleted = change
            .prepare_cached("DELETE FROM alarm WHERE id IN (SELECT id FROM alarm ORDER BY time LIMIT ?1)")?
            .execute([ALARMS])?;
        return Ok(deleted > 0);
    };
    let mut deleted = 0;
    for camera in cameras(change)? {
        for seconds in LENGTHS {
            // Of rows of a second only an hour, so that not all of them are deleted if there are no others.
            let end = oldest + if seconds == LENGTHS[0] { HOUR } else { DAY };
            deleted += change
                .prepare_cached("DELETE FROM energy WHERE camera = ?1 AND seconds = ?2 AND time < ?3")?
                .execute(params![camera, seconds, end])?;
        }
    }
    Ok(deleted > 0)
}

/// Selects energies with the digests of their models.
pub(super) const SELECT: &str = "SELECT energy.time, seconds, count, min, mean, max, threshold, digest, night
    FROM energy JOIN model ON model.id = energy.model";

/// Converts a row of [`SELECT`].
pub(super) fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Interval> {
    Ok(Interval {
        time: row.get(0)?,
        seconds: row.get(1)?,
        count: row.get(2)?,
        min: row.get(3)?,
        mean: row.get(4)?,
        max: row.get(5)?,
        threshold: row.get(6)?,
        model: row.get(7)?,
        night: row.get(8)?,
    })
}
