//! Stores alarms on disk until every receiver has them. The file has a fixed size and its space is allocated when it is
//! created, so that a full disk cannot prevent an alarm. An alarm is written to disk before it is sent, and stays until
//! its slot in the ring is reused.
//!
//! | bytes | content |
//! |---|---|
//! | 0…512, 512…1024 | two heads, written alternately: magic, CRC-32, generation, birth, each receiver's position |
//! | 4096… | slots of 1,024 bytes: CRC-32, length, number, the alarm as JSON |
//!
//! Alarm n is in slot n modulo their number, 4,096. If the CRC of a slot or head is wrong, power failed while it was
//! written; the slot is treated as empty, and of the heads the other one is used. [`deliver`](super::deliver) sends the
//! alarms.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of alarms that the file has room for.
const SLOTS: u64 = 4096;
const SLOT: usize = 1024;
const SLOT_HEAD: usize = 16;
const HEAD: usize = 512;
const FIRST_SLOT: u64 = 4096;
const MAGIC: &[u8; 8] = b"NAEALRM1";
/// The number of receivers that a head has room for.
const RECEIVERS: usize = 16;

/// The length of a journal of `slots` slots, in bytes.
const fn length(slots: u64) -> u64 {
    FIRST_SLOT + slots * SLOT as u64
}

/// The path of the journal in a folder.
fn file_in(folder: &Path) -> PathBuf {
    folder.join("alarms.journal")
}

/// Whether a folder contains a journal.
pub(crate) fn is_in(folder: &Path) -> bool {
    file_in(folder).exists()
}

/// Alarms on disk, in a file of fixed size, until every receiver has them.
pub(crate) struct Journal {
    path: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    file: File,
    slots: u64,
    generation: u64,
    /// The time at which the journal was created, in milliseconds of Unix time; with its number, it identifies an alarm
    /// permanently.
    birth: u64,
    /// The number of the next alarm.
    next: u64,
    /// The contents of the slots, by number. Also kept in memory, so that delivery continues if the disk fails.
    alarms: BTreeMap<u64, String>,
    /// The number of the first alarm that each receiver does not have, by the CRC-32 of the receiver's name.
    receivers: BTreeMap<u32, u64>,
    /// The losses of the receivers that subscribed since the start, by the same key.
    lost: BTreeMap<u32, Lost>,
    closed: bool,
}

/// Alarms that a receiver did not have when their slots were reused.
#[derive(Debug, Clone, Copy, Default)]
struct Lost {
    /// The number lost since the start, or before it without having been delivered.
    alarms: u64,
    /// Whether the loss was logged; reset when the receiver has caught up.
    said: bool,
}

impl Journal {
    /// Opens the journal of a folder, or creates it. A journal that is damaged as a whole is renamed.
    ///
    /// # Errors
    /// If there is no space for it, or the folder cannot be written.
    pub(crate) fn open(folder: &Path, now: u64) -> io::Result<Self> {
        Self::open_with(folder, now, SLOTS)
    }

    fn open_with(folder: &Path, now: u64, slots: u64) -> io::Result<Self> {
        let path = file_in(folder);
        let state = match State::read(&path, slots) {
            Ok(Some(state)) => state,
            Ok(None) => State::create(&path, now, slots)?,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let aside = folder.join(format!("alarms.journal.damaged-{now}"));
                tracing::error!(%error, "{} is damaged; it is now {}", path.display(), aside.display());
                std::fs::rename(&path, aside)?;
                State::create(&path, now, slots)?
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held leaves a consistent journal: the file is written before the memory.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an alarm to disk and returns its number; `text` makes the alarm from its number and permanent name. The
    /// error, if any, is the disk's; in that case, the alarm is kept in memory and sent all the same.
    pub(crate) fn append(&self, text: impl FnOnce(u64, &str) -> String) -> (u64, io::Result<()>) {
        let mut state = self.lock();
        let number = state.next;
        let text = text(number, &format!("{}-{number}", state.birth));
        let written = state.write_slot(number, &text);
        state.next += 1;
        state.alarms.insert(number, text);
        let old = number.checked_sub(state.slots);
        let loses = old.is_some_and(|old| state.make_room(old));
        drop(state);
        self.changed.notify_all();
        if loses {
            tracing::warn!("the journal is full: alarms are lost that a receiver does not have; see `nae_alarms_lost`");
        }
        (number, written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))))
    }

    /// Registers `receiver`. A new one receives alarms from now on; one that was called `before` continues from its
    /// position.
    pub(crate) fn subscribe(&self, receiver: &str, before: &str) -> io::Result<()> {
        let mut state = self.lock();
        let next = state.next;
        let key = crc32fast::hash(receiver.as_bytes());
        if let Some(at) = state.receivers.remove(&crc32fast::hash(before.as_bytes())) {
            state.receivers.entry(key).or_insert(at);
        }
        let from = state.receivers.get(&key).copied().unwrap_or(next);
        if !state.receivers.contains_key(&key) && state.receivers.len() >= RECEIVERS {
            // The table contains receivers that are no longer used: of those that were not registered since the start, the one
            // farthest behind is removed.
            let farthest = |(key, at): &(&u32, &u64)| (state.lost.contains_key(*key), **at);
            if let Some(oldest) = state.receivers.iter().min_by_key(farthest).map(|(key, _)| *key) {
                state.receivers.remove(&oldest);
            }
        }
        state.receivers.entry(key).or_insert(next);
        let gone = (next - from).saturating_sub(state.alarms.range(from..).count() as u64);
        state.lost.entry(key).or_insert(Lost { alarms: gone, said: false });
        state.write_head()
    }

    /// Waits up to `time` for the next alarm that `receiver` does not have.
    pub(crate) fn next_for(&self, receiver: &str, time: Duration) -> Option<(u64, String)> {
        let key = crc32fast::hash(receiver.as_bytes());
        let pending = |state: &State| {
            let from = state.receivers.get(&key).copied().unwrap_or(state.next);
            state.alarms.range(from..).next().map(|(number, text)| (*number, text.clone()))
        };
        let state = self.lock();
        let waits = |state: &mut State| !state.closed && pending(state).is_none();
        let (state, _) = self.changed.wait_timeout_while(state, time, waits).unwrap_or_else(PoisonError::into_inner);
        pending(&state)
    }

    /// Records that `receiver` has the alarm and all earlier ones.
    pub(crate) fn acknowledge(&self, receiver: &str, number: u64) -> io::Result<()> {
        let mut state = self.lock();
        let key = crc32fast::hash(receiver.as_bytes());
        state.receivers.insert(key, number + 1);
        if number + 1 == state.next
            && let Some(lost) = state.lost.get_mut(&key)
        {
            lost.said = false;
        }
        state.write_head()
    }

    /// The number of alarms that `receiver` does not have yet, and the number that it lost because their slots were
    /// reused.
    pub(crate) fn behind(&self, receiver: &str) -> (u64, u64) {
        let state = self.lock();
        let key = crc32fast::hash(receiver.as_bytes());
        let from = state.receivers.get(&key).copied().unwrap_or(state.next);
        let lost = state.lost.get(&key).map_or(0, |lost| lost.alarms);
        (state.alarms.range(from..).count() as u64, lost)
    }

    /// The last alarms, the newest first.
    pub(crate) fn recent(&self, count: usize) -> Vec<(u64, String)> {
        self.lock().alarms.iter().rev().take(count).map(|(number, text)| (*number, text.clone())).collect()
    }

    /// Closes the journal and wakes all waiting threads; later calls do not wait.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits up to `time` for the journal to be closed. Returns whether it is.
    pub(crate) fn wait_closed(&self, time: Duration) -> bool {
        let waits = |state: &mut State| !state.closed;
        let (state, _) =
            self.changed.wait_timeout_while(self.lock(), time, waits).unwrap_or_else(PoisonError::into_inner);
        state.closed
    }
}

impl State {
    /// Creates a journal. It gets its final name when it is complete.
    fn create(path: &Path, now: u64, slots: u64) -> io::Result<Self> {
        let unfinished = path.with_extension("new");
        let created = Self::create_by(&unfinished, path, now, slots);
        if created.is_err() {
            // What a full disk has of it would keep the disk full.
            let _ = std::fs::remove_file(&unfinished);
        }
        created
    }

    fn create_by(unfinished: &Path, path: &Path, now: u64, slots: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(unfinished)?;
        // Writes zeros instead of only setting the length, so that the space is allocated.
        for _ in 0..length(slots).div_ceil(FIRST_SLOT) {
            file.write_all(&[0; FIRST_SLOT as usize])?;
        }
        file.set_len(length(slots))?;
        let mut state = Self {
            file,
            slots,
            generation: 0,
            birth: now,
            next: 0,
            alarms: BTreeMap::new(),
            receivers: BTreeMap::new(),
            lost: BTreeMap::new(),
            closed: false,
        };
        state.write_head()?;
        state.file.sync_all()?;
        std::fs::rename(unfinished, path)?;
        // On other systems, a folder cannot be opened as a file.
        #[cfg(unix)]
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(state)
    }

    /// Reads the journal in the file; `None` if there is no file.
    fn read(path: &Path, slots: u64) -> io::Result<Option<Self>> {
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
        if file.metadata()?.len() != length(slots) {
            return Err(damaged("its length is not a journal's"));
        }
        let mut bytes = vec![0; length(slots) as usize];
        file.read_exact(&mut bytes)?;
        let heads = bytes[..2 * HEAD].chunks(HEAD).filter_map(read_head);
        let (generation, birth, receivers) =
            heads.max_by_key(|head| head.0).ok_or_else(|| damaged("both its heads are"))?;
        let mut alarms = BTreeMap::new();
        for (index, slot) in bytes[FIRST_SLOT as usize..].chunks(SLOT).enumerate() {
            if let Some((number, text)) = read_slot(slot).filter(|(number, _)| number % slots == index as u64) {
                alarms.insert(number, text);
            }
        }
        // An acknowledged alarm existed, even if its slot can no longer be read.
        let newest = alarms.last_key_value().map_or(0, |(number, _)| number + 1);
        let next = receivers.values().copied().fold(newest, u64::max);
        Ok(Some(Self { file, slots, generation, birth, next, alarms, receivers, lost: BTreeMap::new(), closed: false }))
    }

    /// Removes an alarm whose slot is reused. Returns whether a receiver loses it and that has to be logged.
    fn make_room(&mut self, old: u64) -> bool {
        let mut to_say = false;
        if self.alarms.remove(&old).is_some() {
            for (key, lost) in &mut self.lost {
                if self.receivers.get(key).is_some_and(|at| *at <= old) {
                    lost.alarms += 1;
                    to_say |= !std::mem::replace(&mut lost.said, true);
                }
            }
        }
        to_say
    }

    fn write_slot(&mut self, number: u64, text: &str) -> io::Result<()> {
        let mut slot = [0; SLOT];
        let text = text.as_bytes();
        let Some(place) = slot.get_mut(SLOT_HEAD..SLOT_HEAD + text.len()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an alarm of more than a slot"));
        };
        place.copy_from_slice(text);
        slot[4..8].copy_from_slice(&(text.len() as u32).to_le_bytes());
        slot[8..16].copy_from_slice(&number.to_le_bytes());
        let crc = crc32fast::hash(&slot[4..]);
        slot[..4].copy_from_slice(&crc.to_le_bytes());
        self.write(&slot, FIRST_SLOT + number % self.slots * SLOT as u64)
    }

    fn write_head(&mut self) -> io::Result<()> {
        let generation = self.generation + 1;
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        head[16..24].copy_from_slice(&generation.to_le_bytes());
        head[24..32].copy_from_slice(&self.birth.to_le_bytes());
        for (entry, (key, at)) in head[32..].chunks_mut(16).zip(&self.receivers) {
            entry[..4].copy_from_slice(&1u32.to_le_bytes());
            entry[4..8].copy_from_slice(&key.to_le_bytes());
            entry[8..].copy_from_slice(&at.to_le_bytes());
        }
        let crc = crc32fast::hash(&head[12..]);
        head[8..12].copy_from_slice(&crc.to_le_bytes());
        self.write(&head, generation % 2 * HEAD as u64)?;
        // After an error the next head goes to the same place, and not over the other, which is whole.
        self.generation = generation;
        Ok(())
    }

    /// Writes `bytes` at an offset of the file and flushes them to the disk.
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }
}

/// Parses the generation, birth and receivers of a valid head.
fn read_head(head: &[u8]) -> Option<(u64, u64, BTreeMap<u32, u64>)> {
    if head.get(..8)? != MAGIC || word(head, 8)? != crc32fast::hash(head.get(12..)?) {
        return None;
    }
    let entries = head.get(32..)?.chunks_exact(16).filter(|entry| word(entry, 0) == Some(1));
    let receivers = entries.filter_map(|entry| Some((word(entry, 4)?, long(entry, 8)?))).collect();
    Some((long(head, 16)?, long(head, 24)?, receivers))
}

/// Parses the number and alarm of a valid slot.
fn read_slot(slot: &[u8]) -> Option<(u64, String)> {
    if word(slot, 0)? != crc32fast::hash(slot.get(4..)?) {
        return None;
    }
    let text = slot.get(SLOT_HEAD..)?.get(..word(slot, 4)? as usize)?;
    // The CRC of zeros is not zero, so that this slot was written.
    Some((long(slot, 8)?, std::str::from_utf8(text).ok()?.to_owned()))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn add(journal: &Journal, text: &str) -> u64 {
        let (number, written) = journal.append(|_, _| text.to_owned());
        written.unwrap();
        number
    }

    #[test]
    fn alarms_wait_for_each_receiver_across_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path(), 77).unwrap();
        add(&journal, "before anyone listens");
        journal.subscribe("hook", "hook").unwrap();
        journal.subscribe("broker", "broker").unwrap();
        assert_eq!(journal.next_for("hook", NOW), None);
        assert_eq!([add(&journal, "one"), add(&journal, "two")], [1, 2]);
        assert_eq!(journal.next_for("hook", NOW), Some((1, "one".into())));
        assert_eq!(journal.next_for("hook", NOW), Some((1, "one".into())), "until it is acknowledged");
        journal.acknowledge("hook", 1).unwrap();
        drop(journal);

        let journal = Journal::open(folder.path(), 99).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        journal.subscribe("broker", "broker").unwrap();
        assert_eq!(journal.next_for("hook", NOW), Some((2, "two".into())));
        assert_eq!((journal.behind("hook"), journal.behind("broker")), ((1, 0), (2, 0)));
        let (number, _) = journal.append(|number, name| format!("{number} {name}"));
        assert_eq!(journal.recent(1), [(number, "3 77-3".to_owned())], "numbers and names go on");
    }

    /// A receiver that is down for long is farther behind than those that are no longer used.
    #[test]
    fn room_for_a_new_receiver_is_taken_from_those_that_are_no_longer_used() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path(), 77).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        let waiting = add(&journal, "waiting");
        for number in 1..RECEIVERS {
            let unused = format!("unused {number}");
            journal.subscribe(&unused, &unused).unwrap();
        }
        drop(journal);

        let journal = Journal::open(folder.path(), 99).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        journal.subscribe("new", "new").unwrap();
        assert_eq!(journal.next_for("hook", NOW), Some((waiting, "waiting".into())));
        assert_eq!(journal.lock().receivers.len(), RECEIVERS);
    }

    #[test]
    fn the_oldest_is_lost_when_the_ring_is_full_and_that_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        for number in 0..13 {
            add(&journal, &number.to_string());
        }
        assert_eq!(journal.behind("hook"), (10, 3));
        drop(journal);
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        assert_eq!(journal.next_for("hook", NOW), Some((3, "3".into())));
        assert_eq!(journal.recent(1)[0].0, 12);
        assert_eq!(journal.behind("hook"), (10, 3));
        journal.acknowledge("hook", 3).unwrap();
        assert_eq!(journal.behind("hook"), (9, 3), "what it has since does not bring them back");
        // The receiver has the alarm that is overwritten first; of the next two, it lacks only the second.
        for number in 13..15 {
            add(&journal, &number.to_string());
        }
        assert_eq!(journal.behind("hook"), (10, 4));
    }

    /// The thread that delivers counts and logs it, but not for a receiver that is no longer used and loses the same
    /// alarms.
    #[test]
    fn a_loss_is_counted_and_said_once_until_the_receiver_has_caught_up() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        journal.subscribe("long ago", "long ago").unwrap();
        drop(journal);
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        let lose = |from: u64| -> Vec<bool> {
            (from..from + 12)
                .map(|number| {
                    add(&journal, "alarm");
                    let was_said = journal.lock().lost.values().next().unwrap().said;
                    assert_eq!(journal.lock().lost.len(), 1);
                    assert_eq!(journal.behind("hook").1 > 0, number >= 10, "{number}");
                    was_said
                })
                .collect()
        };
        assert_eq!(lose(0), [vec![false; 10], vec![true; 2]].concat());
        assert_eq!((journal.behind("hook"), journal.behind("long ago").1), ((10, 2), 0));
        journal.acknowledge("hook", 10).unwrap();
        assert!(journal.lock().lost.values().next().unwrap().said, "there is one left");
        journal.acknowledge("hook", 11).unwrap();
        assert_eq!((journal.behind("hook"), journal.lock().make_room(5)), ((0, 2), false), "it had that");
        assert_eq!(lose(12), [vec![false; 10], vec![true; 2]].concat());
        assert_eq!(journal.behind("hook"), (10, 4));
    }

    #[test]
    fn damage_costs_what_is_damaged_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alarms.journal");
        let journal = Journal::open(folder.path(), 5).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        for text in ["0", "1", "2"] {
            add(&journal, text);
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let slot = |n: usize| FIRST_SLOT as usize + n * SLOT;
        for (at, left) in [(slot(1) + 9, vec![0, 2]), (slot(2) + 16, vec![0, 1]), (9, vec![0, 1, 2])] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let journal = Journal::open(folder.path(), 6).unwrap();
            let numbers: Vec<u64> = journal.recent(9).iter().rev().map(|(n, _)| *n).collect();
            assert_eq!(numbers, left, "byte {at}");
        }
        for bytes in [whole[..5000].to_vec(), vec![0; whole.len()], Vec::new()] {
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(Journal::open(folder.path(), 7).unwrap().recent(9), []);
            assert_eq!(std::fs::read(folder.path().join("alarms.journal.damaged-7")).unwrap(), bytes);
        }
    }

    #[test]
    fn any_byte_may_be_anything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alarms.journal");
        let journal = Journal::open(folder.path(), 5).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        add(&journal, "only");
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for at in (0..1024).chain(FIRST_SLOT as usize..FIRST_SLOT as usize + 2 * SLOT) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x81;
            if let Some((number, text)) = read_slot(&bytes[FIRST_SLOT as usize..][..SLOT]) {
                assert_eq!((number, text.as_str()), (0, "only"));
            }
            let heads: Vec<_> = bytes[..1024].chunks(HEAD).filter_map(read_head).collect();
            assert!(!heads.is_empty(), "one head is left whichever is damaged");
        }
    }

    #[test]
    fn of_too_many_receivers_whoever_is_farthest_behind_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        let names: Vec<String> = (0..RECEIVERS).map(|n| format!("receiver {n}")).collect();
        for name in &names {
            journal.subscribe(name, name).unwrap();
        }
        add(&journal, "first");
        for name in names.iter().filter(|name| **name != names[3]) {
            journal.acknowledge(name, 0).unwrap();
        }
        journal.subscribe(&names[0], &names[0]).unwrap();
        assert_eq!(journal.behind(&names[3]), (1, 0), "one that is known takes no room");
        journal.subscribe("another", "another").unwrap();
        assert_eq!(journal.behind(&names[3]), (0, 0), "it is not known any more");
        add(&journal, "second");
        for name in names.iter().filter(|name| **name != names[3]).map(String::as_str).chain(["another"]) {
            assert_eq!(journal.next_for(name, NOW), Some((1, "second".into())), "{name}");
        }
    }

    #[test]
    fn a_receiver_of_another_name_gets_what_the_first_did_not_have() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        journal.subscribe("old", "old").unwrap();
        add(&journal, "for old");
        journal.subscribe("new", "old").unwrap();
        assert_eq!((journal.behind("new"), journal.behind("old")), ((1, 0), (0, 0)));
    }

    /// A head whose write was cut short already has its magic number.
    #[test]
    fn a_head_that_is_half_written_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alarms.journal");
        let journal = Journal::open(folder.path(), 5).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        for number in 0..3 {
            add(&journal, "text");
            journal.acknowledge("hook", number).unwrap();
        }
        drop(journal);
        let mut bytes = std::fs::read(&path).unwrap();
        let generation = |head: &[u8]| read_head(head).map(|(generation, ..)| generation);
        let latest = usize::from(generation(&bytes[..HEAD]) < generation(&bytes[HEAD..2 * HEAD]));
        bytes[latest * HEAD + 24..(latest + 1) * HEAD].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        let journal = Journal::open(folder.path(), 6).unwrap();
        assert_eq!(journal.next_for("hook", NOW), Some((2, "text".into())), "the head before is gone on from");
    }

    #[test]
    fn heads_are_written_in_turn_and_spare_the_slots() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_in(folder.path()));
        let journal = Journal::open_with(folder.path(), 0, 50).unwrap();
        assert!(is_in(folder.path()));
        journal.subscribe("hook", "hook").unwrap();
        for number in 0..40 {
            add(&journal, &number.to_string());
            journal.acknowledge("hook", number).unwrap();
        }
        drop(journal);
        let journal = Journal::open_with(folder.path(), 0, 50).unwrap();
        assert_eq!((journal.behind("hook"), journal.recent(50).len()), ((0, 0), 40));
        assert_eq!(add(&journal, "40"), 40);
    }

    #[test]
    fn an_alarm_may_fill_its_slot_and_one_that_is_longer_is_sent_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        let full = "x".repeat(SLOT - SLOT_HEAD);
        add(&journal, &full);
        let longer = format!("{full}x");
        let (number, written) = journal.append(|_, _| longer.clone());
        assert_eq!((number, written.unwrap_err().kind()), (1, io::ErrorKind::InvalidInput));
        journal.acknowledge("hook", 0).unwrap();
        assert_eq!(journal.next_for("hook", NOW), Some((1, longer)));
        drop(journal);
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        assert_eq!(journal.recent(9), [(0, full)]);
    }

    #[test]
    fn whoever_waits_is_woken_by_an_alarm_and_by_the_end() {
        const LONG: Duration = Duration::from_secs(60);
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open_with(folder.path(), 0, 10).unwrap();
        journal.subscribe("hook", "hook").unwrap();
        let began = std::time::Instant::now();
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| journal.next_for("hook", LONG));
            std::thread::sleep(Duration::from_millis(50));
            add(&journal, "now");
            assert_eq!(waiting.join().unwrap(), Some((0, "now".into())));
        });
        assert_eq!(journal.next_for("hook", LONG), Some((0, "now".into())), "without waiting");
        journal.acknowledge("hook", 0).unwrap();
        assert!(!journal.wait_closed(NOW));
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| (journal.next_for("hook", LONG), journal.wait_closed(LONG)));
            std::thread::sleep(Duration::from_millis(50));
            journal.close();
            assert_eq!(waiting.join().unwrap(), (None, true));
        });
        assert!(began.elapsed() < LONG / 2);
    }

    #[test]
    fn what_is_no_file_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("alarms.journal")).unwrap();
        assert!(Journal::open(folder.path(), 5).is_err());
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["alarms.journal"]);
    }

    /// The rename fails here; on a full disk, a write does.
    #[test]
    fn a_journal_that_cannot_be_made_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alarms.journal");
        std::fs::create_dir(&path).unwrap();
        assert!(State::create(&path, 5, SLOTS).is_err());
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["alarms.journal"]);
    }
}
