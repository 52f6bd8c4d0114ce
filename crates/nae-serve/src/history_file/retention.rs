//! What goes out of the file again: rows of a second become rows of a minute, and these of a quarter of an hour, by their age;
//! what is older than the settings say goes; and what is more than the file has room for, the oldest first. Each step is small, so
//! that what has come does not wait long to be written, and can be the last at any time.

use std::time::Duration;

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::interval::{Gathered, Interval, LENGTHS, beginning};
use super::schema::PATIENCE;
use super::store::{Store, add_interval};

const HOUR: i64 = 3600 * 1000;
const DAY: i64 = 24 * HOUR;
/// The age at which rows of each length become rows of the next.
pub(super) const THINNED_AFTER: [i64; 2] = [2 * DAY, 30 * DAY];
/// What is left of rows of each length where the room asks for them to become rows of the next: so much before the newest.
const KEPT_FINE: [i64; 2] = [2 * HOUR, 2 * DAY];
/// Rows of one step.
const STEP: i64 = 3600;
/// Alarms of one step.
const ALARMS: i64 = 100;
/// What of the room is left to the log beside the file.
const FOR_LOG: u64 = 3_000_000;

/// How long and on how many bytes history is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HistoryLimits {
    pub(crate) days: u32,
    pub(crate) bytes: u64,
}

impl HistoryLimits {
    /// The least room that is of use.
    pub(crate) const LEAST_BYTES: u64 = 8_000_000;
}

impl Store {
    /// One step of what age asks for; false where nothing is left to do.
    ///
    /// # Errors
    /// The file's; nothing was done then.
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

    /// One step of what the room asks for; false where the file fits, or nothing more can go.
    ///
    /// # Errors
    /// The file's; nothing was done then.
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

    /// Bytes of the file that hold something.
    fn used(&self) -> rusqlite::Result<u64> {
        let number = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let pages = number("page_count")? - number("freelist_count")?;
        Ok((pages * number("page_size")?).max(0) as u64)
    }

    /// Whether there is room in the log for a step. While somebody reads, it is not emptied, and each step would make it longer.
    fn has_short_log(&self) -> rusqlite::Result<bool> {
        let is_short = || self.log_bytes() <= FOR_LOG / 2;
        if !is_short() {
            self.give_back()?;
        }
        Ok(is_short())
    }

    /// Gives pages without rows back to the disk.
    pub(super) fn give_back(&self) -> rusqlite::Result<()> {
        // It gives back a page with each row that is asked for.
        let mut pages = self.connection.prepare_cached("PRAGMA incremental_vacuum")?;
        let mut pages = pages.query(())?;
        while pages.next()?.is_some() {}
        // Where somebody reads, the next time does it: he is not waited for.
        self.connection.busy_timeout(Duration::ZERO)?;
        let emptied = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        self.connection.busy_timeout(PATIENCE)?;
        emptied
    }
}

/// All that are in the file, also those that the settings do not have any more.
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

/// Makes rows of the next length of some, the oldest of those that lie before the time that `before` says for a camera and a
/// length; false where there are none.
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
            // Whole rows of the next length.
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

/// Makes rows of the next length of all that lie before a time.
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

/// Deletes some of what is older than a time.
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

/// Deletes a day of energies, the oldest of all cameras; where there are none, some alarms.
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
            // Of rows of a second an hour, so that not all of them go where there are no others.
            let end = oldest + if seconds == LENGTHS[0] { HOUR } else { DAY };
            deleted += change
                .prepare_cached("DELETE FROM energy WHERE camera = ?1 AND seconds = ?2 AND time < ?3")?
                .execute(params![camera, seconds, end])?;
        }
    }
    Ok(deleted > 0)
}

/// Energies with the digests of their models.
pub(super) const SELECT: &str = "SELECT energy.time, seconds, count, min, mean, max, threshold, digest, night
    FROM energy JOIN model ON model.id = energy.model";

/// A row of [`SELECT`].
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
