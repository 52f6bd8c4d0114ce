//! The thread that writes the file. It takes the cameras' messages from the queue, and stores their data every few
//! seconds; in between, it removes old data. If the file or disk fails, it continues and tries again.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::interval::Interval;
use super::recorder::{AlarmRecord, Message};
use super::retention::HistoryLimits;
use super::schema::{OpenError, is_damage, set_aside};
use super::store::{AlarmChange, Pending, Store};

/// How often data are stored. A crash loses the data of this time; a shorter time wears out flash memory, since each
/// write needs a page per camera.
const BATCH: Duration = Duration::from_secs(2);
/// How often old data are looked for.
const LOOK: Duration = Duration::from_secs(300);
/// How long that may take before new data are written again.
const LOOK_TIME: Duration = Duration::from_millis(500);
/// The number of rows, and of alarms, that may wait while the file cannot be written; further ones are dropped and
/// counted.
const MOST_ROWS: usize = 20_000;
const MOST_ALARMS: usize = 4096;
/// If the wall clock moves by this much, in milliseconds, against the monotonic clock, it was set; until it has not
/// been set for the time of `SETTLED`, nothing is removed by age.
const JUMP: i64 = 60_000;
const SETTLED: Duration = Duration::from_secs(600);

/// The arguments of the writer.
pub(super) struct Setup {
    pub(super) path: PathBuf,
    pub(super) cameras: Vec<String>,
    pub(super) limits: HistoryLimits,
    /// The number of energies and alarms of each camera that were not kept.
    pub(super) dropped: Vec<Counter>,
    /// Whether the file is being written; the next field: its size in bytes.
    pub(super) writing: Gauge,
    pub(super) bytes: Gauge,
}

pub(super) struct Writer {
    setup: Setup,
    store: Option<Store>,
    pending: Pending,
    /// The last logged reason.
    pub(super) wrong: Option<String>,
    clock: Clock,
    pub(super) looked: Option<Instant>,
}

impl Writer {
    /// Creates a writer with the alarms of the journals, the last of which may be missing in the file; opens the file,
    /// or logs the reason if it cannot be opened.
    pub(super) fn new(setup: Setup, alarms: Vec<Vec<AlarmRecord>>) -> Self {
        let mut pending = Pending::of(setup.cameras.len());
        let expired = now() - i64::from(setup.limits.days) * 86_400_000;
        for (camera, alarms) in alarms.into_iter().enumerate() {
            // Alarms that were active when the service ended are cleared, since the alarm filter starts empty.
            let of_camera = alarms.into_iter().filter(|alarm| alarm.time >= expired).map(AlarmChange::Raised);
            pending.alarms.extend(of_camera.chain([AlarmChange::Cleared(now())]).map(|change| (camera, change)));
        }
        let mut this = Self { setup, store: None, pending, wrong: None, clock: Clock::new(now()), looked: None };
        this.write();
        this
    }

    /// Runs until it is stopped, or all senders are dropped.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        let mut next = Instant::now() + BATCH;
        loop {
            match messages.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Checked after each message, since messages may come without a pause.
            if Instant::now() >= next {
                self.write();
                self.look();
                next = Instant::now() + BATCH;
            }
        }
        self.write();
    }

    pub(super) fn take(&mut self, message: Message) {
        let full = self.pending.rows() >= MOST_ROWS;
        let (camera, change) = match message {
            Message::Energy { camera, .. } if full => return self.drop_one(camera),
            Message::Energy { camera, point } => {
                if let Some(gathered) = self.pending.energies.get_mut(camera) {
                    gathered.add(Interval::of(point));
                }
                return;
            }
            Message::Raised { camera, alarm } => (camera, AlarmChange::Raised(alarm)),
            Message::Cleared { camera, time } => (camera, AlarmChange::Cleared(time)),
            Message::Stop => return,
        };
        if self.pending.alarms.len() >= MOST_ALARMS {
            return self.drop_one(camera);
        }
        self.pending.alarms.push((camera, change));
    }

    fn drop_one(&self, camera: usize) {
        if let Some(dropped) = self.setup.dropped.get(camera) {
            dropped.inc();
        }
    }

    /// Stores the pending data; logs once the reason if that fails, and once that it works again.
    pub(super) fn write(&mut self) {
        self.clock.look(now());
        match self.try_write().or_else(|problem| self.set_aside(problem)) {
            Ok(()) => {
                if self.wrong.take().is_some() {
                    tracing::info!("history is written again");
                }
                self.setup.writing.set(1);
            }
            Err(reason) => {
                self.setup.writing.set(0);
                if self.wrong.as_ref() != Some(&reason) {
                    tracing::error!(
                        reason,
                        "history is not written to {}; it is tried again, and alarms are raised as ever",
                        self.setup.path.display()
                    );
                    self.wrong = Some(reason);
                }
            }
        }
        self.setup.bytes.set(self.store.as_ref().map_or(0, |store| store.bytes() as i64));
    }

    /// Stores the pending data. If that fails, the file is opened again the next time, since the cause may be in the
    /// files beside it.
    fn try_write(&mut self) -> Result<(), Problem> {
        // A file that was deleted or moved would be written where nobody finds it.
        if self.store.as_ref().is_some_and(|store| !store.path.exists()) {
            self.store = None;
        }
        let mut store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.setup.path, &self.setup.cameras, now()).map_err(Problem::of_opening)?,
        };
        if !self.pending.is_empty() {
            if store.bytes() > self.setup.limits.bytes && !self.empty(&mut store)? {
                let reason = "another program that reads the file keeps it from becoming smaller".to_owned();
                return Err(Problem { reason, is_damage: false });
            }
            store.add(&mut self.pending)?;
        }
        self.store = Some(store);
        Ok(())
    }

    /// Makes the file smaller; false if that fails.
    fn empty(&self, store: &mut Store) -> rusqlite::Result<bool> {
        store.give_back()?;
        let before = store.bytes();
        Ok(before <= self.setup.limits.bytes || (store.make_room(self.setup.limits)? && store.bytes() < before))
    }

    /// Renames a file that is found to be damaged, which is closed by then, and creates another.
    fn set_aside(&mut self, Problem { reason, is_damage }: Problem) -> Result<(), String> {
        if !is_damage {
            return Err(reason);
        }
        set_aside(&self.setup.path, &reason, now()).map_err(|error| error.to_string())?;
        self.try_write().map_err(|problem| problem.reason)
    }

    /// Removes old or excess data, for a limited time.
    pub(super) fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        let Some(mut store) = self.store.take() else { return };
        let end = Instant::now() + LOOK_TIME;
        let mut more = true;
        while more && Instant::now() < end {
            let stepped = store
                .make_room(self.setup.limits)
                .and_then(|made| Ok(made || (self.clock.is_settled() && store.age(self.setup.limits, now())?)));
            more = stepped.unwrap_or_else(|error| {
                // If the writing meets the same error, it logs and handles it.
                tracing::warn!(%error, "history was not thinned");
                false
            });
        }
        // The rest of the work continues after the next batch.
        self.looked = (!more).then(Instant::now);
        self.store = Some(store);
    }
}

/// The reason why the file cannot be written.
struct Problem {
    reason: String,
    /// Whether the file itself is damaged.
    is_damage: bool,
}

impl Problem {
    fn of_opening(error: OpenError) -> Self {
        Self { reason: error.to_string(), is_damage: matches!(error, OpenError::Newer { .. } | OpenError::Foreign(_)) }
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Self { reason: error.to_string(), is_damage: is_damage(&error) }
    }
}

/// The current time in milliseconds of Unix time.
pub(super) fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// The wall clock compared with the monotonic clock.
struct Clock {
    wall: i64,
    steady: Instant,
    /// The time at which the wall clock was last set, or the service started.
    since: Instant,
}

impl Clock {
    fn new(wall: i64) -> Self {
        let steady = Instant::now();
        Self { wall, steady, since: steady }
    }

    fn look(&mut self, wall: i64) {
        self.look_at(wall, Instant::now());
    }

    fn look_at(&mut self, wall: i64, steady: Instant) {
        let gone = steady.saturating_duration_since(self.steady).as_millis() as i64;
        if (wall - self.wall - gone).abs() > JUMP {
            self.since = steady;
        }
        (self.wall, self.steady) = (wall, steady);
    }

    fn is_settled(&self) -> bool {
        self.is_settled_at(Instant::now())
    }

    fn is_settled_at(&self, steady: Instant) -> bool {
        steady.saturating_duration_since(self.since) >= SETTLED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_by_age_for_a_while_after_a_jump_of_the_clock() {
        let mut clock = Clock::new(1_000_000);
        let start = clock.since;
        let at = |seconds| start + Duration::from_secs(seconds);
        let wall = |seconds: i64| 1_000_000 + 1000 * seconds;
        clock.look_at(wall(2), at(2));
        assert!(!clock.is_settled_at(at(599)));
        assert!(clock.is_settled_at(at(600)));
        // In small steps, as a slightly wrong clock is corrected.
        for second in 3..700 {
            clock.look_at(wall(second as i64) + 900 * second as i64, at(second));
        }
        assert!(clock.is_settled_at(at(700)));
        clock.look_at(wall(700) + 86_400_000, at(700));
        assert!(!clock.is_settled_at(at(1299)) && clock.is_settled_at(at(1300)));
        clock.look_at(wall(1300), at(1300));
        assert!(!clock.is_settled_at(at(1899)) && clock.is_settled_at(at(1900)));
    }
}
