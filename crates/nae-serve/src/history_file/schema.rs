//! The file `history.sqlite`: its tables, its version, and the handling of a file that cannot be used. docs/camera.md
//! describes the tables, since users open the file, too.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

/// The version of the tables, in `user_version` of the file. A new version needs a step in [`MIGRATIONS`].
pub(super) const VERSION: usize = MIGRATIONS.len();

/// The steps that convert tables of version n to version n + 1.
pub(super) const MIGRATIONS: [&str; 2] = ["
    CREATE TABLE camera (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE model (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE energy (
        camera INTEGER NOT NULL REFERENCES camera (id),
        seconds INTEGER NOT NULL,
        time INTEGER NOT NULL,
        model INTEGER NOT NULL REFERENCES model (id),
        count INTEGER NOT NULL,
        min REAL NOT NULL,
        mean REAL NOT NULL,
        max REAL NOT NULL,
        threshold REAL,
        PRIMARY KEY (camera, seconds, time, model)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE alarm (
        id TEXT PRIMARY KEY,
        camera INTEGER NOT NULL REFERENCES camera (id),
        number INTEGER NOT NULL,
        time INTEGER NOT NULL,
        cleared INTEGER,
        energy REAL NOT NULL,
        threshold REAL,
        model INTEGER NOT NULL REFERENCES model (id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX alarm_by_time ON alarm (camera, time);
    CREATE VIEW energies AS
        SELECT camera.name AS camera, strftime('%Y-%m-%dT%H:%M:%fZ', time / 1000.0, 'unixepoch') AS time, seconds, count,
            min, mean, max, threshold, model.digest AS model
        FROM energy JOIN camera ON camera.id = energy.camera JOIN model ON model.id = energy.model;
    CREATE VIEW alarms AS
        SELECT camera.name AS camera, strftime('%Y-%m-%dT%H:%M:%fZ', time / 1000.0, 'unixepoch') AS time,
            strftime('%Y-%m-%dT%H:%M:%fZ', cleared / 1000.0, 'unixepoch') AS cleared, number, alarm.id AS id, energy,
            threshold, model.digest AS model
        FROM alarm JOIN camera ON camera.id = alarm.camera JOIN model ON model.id = alarm.model;
", "
    ALTER TABLE energy ADD COLUMN night INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE alarm ADD COLUMN night INTEGER NOT NULL DEFAULT 0;
    DROP VIEW energies;
    DROP VIEW alarms;
    CREATE VIEW energies AS
        SELECT camera.name AS camera, strftime('%Y-%m-%dT%H:%M:%fZ', time / 1000.0, 'unixepoch') AS time, seconds, count,
            min, mean, max, threshold, model.digest AS model, night
        FROM energy JOIN camera ON camera.id = energy.camera JOIN model ON model.id = energy.model;
    CREATE VIEW alarms AS
        SELECT camera.name AS camera, strftime('%Y-%m-%dT%H:%M:%fZ', time / 1000.0, 'unixepoch') AS time,
            strftime('%Y-%m-%dT%H:%M:%fZ', cleared / 1000.0, 'unixepoch') AS cleared, number, alarm.id AS id, energy,
            threshold, model.digest AS model, night
        FROM alarm JOIN camera ON camera.id = alarm.camera JOIN model ON model.id = alarm.model;
"];

/// Selects all columns that are read and written; succeeds only for a file of this service.
const COLUMNS: &str = "
    SELECT energy.camera, seconds, energy.time, energy.model, count, min, mean, max, energy.threshold, name, digest, alarm.id,
        number, cleared, alarm.energy, energy.night, alarm.night
    FROM energy, alarm, camera, model";

/// The number of pages in the write-ahead log after which they are moved into the file, and the size of the log after
/// that, in bytes.
const LOG_PAGES: u32 = 256;
const LOG_BYTES: u32 = 1 << 20;
/// How long to wait for another writer of the file.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("its tables are of version {found}, which a newer program wrote; this one knows {VERSION}")]
    Newer { found: i64 },
    #[error("it is no history of this service: {0}")]
    Foreign(String),
    /// The disk is full, or a permission is missing: the file itself is valid.
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error(transparent)]
    Disk(#[from] io::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::Foreign(error.to_string()) } else { Self::Sqlite(error) }
    }
}

/// Whether an error means that the file is damaged.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The path of the file in the state folder.
pub(crate) fn file_in(folder: &Path) -> PathBuf {
    folder.join("history.sqlite")
}

/// The path of SQLite's write-ahead log, with data that are not in the file yet.
pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Opens the file for writing, or creates it. A file that cannot be used is renamed, and a new one is created.
///
/// # Errors
/// A reason that may be temporary.
pub(super) fn open(path: &Path, now: i64) -> Result<Connection, OpenError> {
    match try_open(path) {
        Err(error @ (OpenError::Newer { .. } | OpenError::Foreign(_))) => {
            set_aside(path, &error, now)?;
            try_open(path)
        }
        opened => opened,
    }
}

/// Renames a file that cannot be used.
///
/// # Errors
/// If renaming fails.
pub(super) fn set_aside(path: &Path, reason: &impl std::fmt::Display, now: i64) -> io::Result<()> {
    let aside = beside(path, &format!(".aside-{now}"));
    tracing::error!("{}: {reason}; it is now {}, and a new history begins", path.display(), aside.display());
    std::fs::rename(path, &aside)?;
    // SQLite finds the log by its name. The log's index is created again.
    let log = log_of(path);
    if log.exists() {
        std::fs::rename(log, log_of(&aside))?;
    }
    let index = beside(path, "-shm");
    if index.exists() {
        std::fs::remove_file(index)?;
    }
    Ok(())
}

fn try_open(path: &Path) -> Result<Connection, OpenError> {
    // SQLite gives the log and its index the permissions of this file.
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path)?);
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE,
    )?;
    connection.busy_timeout(PATIENCE)?;
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let version = usize::try_from(found).ok().filter(|version| *version <= VERSION);
    let version = version.ok_or(OpenError::Newer { found })?;
    if version == 0 {
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        if tables > 0 {
            return Err(OpenError::Foreign("other tables are in it".to_owned()));
        }
    }
    if version == 0 {
        // Has no effect once there are tables.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    let steps = connection.transaction()?;
    for (step, to) in MIGRATIONS.iter().zip(1..).skip(version) {
        steps.execute_batch(step)?;
        steps.pragma_update(None, "user_version", to)?;
    }
    steps.commit()?;
    connection.prepare(COLUMNS).map_err(|error| match error {
        // A missing table or column.
        rusqlite::Error::SqlInputError { msg, .. } => OpenError::Foreign(msg),
        error => error.into(),
    })?;
    Ok(connection)
}

/// Opens the file for reading.
///
/// # Errors
/// If there is no file, or it cannot be read.
pub(super) fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}
