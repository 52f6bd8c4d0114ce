//! The file for the one thread that writes it: new data are stored in one transaction, so that they are stored
//! completely or not at all. `retention` removes data.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, params};

use super::interval::{Gathered, Interval};
use super::recorder::AlarmRecord;
use super::schema::{self, OpenError};

/// Changes of alarms, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AlarmChange {
    Raised(AlarmRecord),
    /// The time in milliseconds of Unix time.
    Cleared(i64),
}

/// The data to be stored.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The energies of each camera, in the order of the settings.
    pub(super) energies: Vec<Gathered>,
    pub(super) alarms: Vec<(usize, AlarmChange)>,
}

impl Pending {
    pub(super) fn of(cameras: usize) -> Self {
        Self { energies: (0..cameras).map(|_| Gathered::default()).collect(), alarms: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.alarms.is_empty() && self.rows() == 0
    }

    /// The number of rows for the waiting energies.
    pub(super) fn rows(&self) -> usize {
        self.energies.iter().map(Gathered::len).sum()
    }

    fn clear(&mut self) {
        self.energies.iter_mut().for_each(Gathered::clear);
        self.alarms.clear();
    }
}

/// The file, open for writing.
pub(super) struct Store {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    /// The ids of the cameras in the file, in the order of the settings.
    cameras: Vec<i64>,
}

impl Store {
    /// Opens the file, or makes it, and adds cameras that it does not have.
    ///
    /// # Errors
    /// A reason that may be temporary.
    pub(super) fn open(path: &Path, cameras: &[String], now: i64) -> Result<Self, OpenError> {
        let mut connection = schema::open(path, now)?;
        let change = connection.transaction()?;
        let mut ids = Vec::new();
        for name in cameras {
            change.execute("INSERT INTO camera (name) VALUES (?1) ON CONFLICT DO NOTHING", [name])?;
            ids.push(change.query_row("SELECT id FROM camera WHERE name = ?1", [name], |row| row.get(0))?);
        }
        change.commit()?;
        Ok(Self { connection, path: path.to_owned(), cameras: ids })
    }

    /// Stores the pending data and clears them.
    ///
    /// # Errors
    /// If nothing was stored; the data stay pending.
    pub(super) fn add(&mut self, pending: &mut Pending) -> rusqlite::Result<()> {
        let change = self.connection.transaction()?;
        for (camera, gathered) in self.cameras.iter().zip(&pending.energies) {
            for interval in gathered.iter() {
                add_interval(&change, *camera, interval)?;
            }
        }
        for (camera, alarm) in &pending.alarms {
            if let Some(camera) = self.cameras.get(*camera) {
                add_alarm(&change, *camera, alarm)?;
            }
        }
        change.commit()?;
        pending.clear();
        Ok(())
    }

    /// The size of the file and its log, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        length(&self.path) + self.log_bytes()
    }

    /// The size of the log, in bytes.
    pub(super) fn log_bytes(&self) -> u64 {
        length(&schema::log_of(&self.path))
    }
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn model_id(change: &Transaction<'_>, digest: &str) -> rusqlite::Result<i64> {
    change.prepare_cached("INSERT INTO model (digest) VALUES (?1) ON CONFLICT DO NOTHING")?.execute([digest])?;
    change.prepare_cached("SELECT id FROM model WHERE digest = ?1")?.query_row([digest], |row| row.get(0))
}

/// Stores a row, or merges it into an existing one with the same time, which occurs if the service was restarted within
/// a second, if frames are late, and after a clock was set back.
pub(super) fn add_interval(change: &Transaction<'_>, camera: i64, interval: &Interval) -> rusqlite::Result<()> {
    let Interval { time, seconds, count, min, mean, max, threshold, model, night } = interval;
    let model = model_id(change, model)?;
    change
        .prepare_cached(
            "INSERT INTO energy (camera, seconds, time, model, count, min, mean, max, threshold, night)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT DO UPDATE SET
                mean = (mean * count + excluded.mean * excluded.count) / (count + excluded.count),
                count = count + excluded.count,
                min = min(min, excluded.min),
                max = max(max, excluded.max),
                threshold = excluded.threshold,
                night = excluded.night",
        )?
        .execute(params![camera, seconds, time, model, count, min, mean, max, threshold, night])?;
    Ok(())
}

fn add_alarm(change: &Transaction<'_>, camera: i64, alarm: &AlarmChange) -> rusqlite::Result<()> {
    let clear = |time: i64| -> rusqlite::Result<()> {
        change
            .prepare_cached("UPDATE alarm SET cleared = max(time, ?2) WHERE camera = ?1 AND cleared IS NULL")?
            .execute(params![camera, time])
            .map(drop)
    };
    match alarm {
        AlarmChange::Cleared(time) => clear(*time),
        AlarmChange::Raised(AlarmRecord { id, number, time, energy, threshold, model, night }) => {
            let model = model_id(change, model)?;
            let known = change.prepare_cached("SELECT 1 FROM alarm WHERE id = ?1")?.exists([id])?;
            if known {
                // The alarm is from the journal and was stored before.
                return Ok(());
            }
            // A camera has at most one active alarm.
            clear(*time)?;
            change
                .prepare_cached(
                    "INSERT INTO alarm (id, camera, number, time, energy, threshold, model, night)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?
                .execute(params![id, camera, *number as i64, time, energy, threshold, model, night])
                .map(drop)
        }
    }
}
