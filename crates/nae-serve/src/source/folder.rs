//! Watches a folder: takes its images by name, then new ones as they arrive. A file is taken when it is closed after
//! writing, or moved into the folder, so that incomplete files are never read; hidden files are ignored, so that a
//! writer may use a name with a dot and rename it. If the system has lost events, all files newer than those already
//! read are listed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use axum::body::Bytes;
use nae_infer::input::is_image_name;
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::{Lost, MAX_FRAME, Source};

/// The maximum number of events that are taken before the next frame: each frame causes several, and many thousands come
/// at once if a folder of files is moved in.
const EVENTS: usize = 64;
/// The time between two looks at whether the folder is still there: the system does not report a change of its own name.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Folder {
    path: PathBuf,
    /// The folder that is watched, and when it was last compared with that at `path`.
    identity: Identity,
    looked: Instant,
    waiting: Waiting,
    /// The listed files, with the modification time at which each was read: a file that arrives between watching and
    /// listing is listed, and its event may come after it was read.
    listed: HashMap<PathBuf, Option<SystemTime>>,
    /// The modification time of the newest file that was read.
    newest: Option<SystemTime>,
    /// Whether a file was left out because of its name, which is said once.
    left_out: bool,
    events: Receiver<notify::Result<Event>>,
    // Watches until it is dropped.
    _watcher: RecommendedWatcher,
}

/// The files to be read, in their order, each once.
#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Arc<Path>>,
    /// The same files: a search of the queue for each new file would take longer than all else if there are thousands.
    known: HashSet<Arc<Path>>,
}

impl Waiting {
    /// Appends a file that does not wait yet.
    fn push(&mut self, path: PathBuf) {
        let path: Arc<Path> = path.into();
        if self.known.insert(Arc::clone(&path)) {
            self.queue.push_back(path);
        }
    }

    fn pop(&mut self) -> Option<Arc<Path>> {
        let path = self.queue.pop_front()?;
        self.known.remove(&path);
        Some(path)
    }

    fn contains(&self, path: &Path) -> bool {
        self.known.contains(path)
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Extend<PathBuf> for Waiting {
    fn extend<T: IntoIterator<Item = PathBuf>>(&mut self, paths: T) {
        paths.into_iter().for_each(|path| self.push(path));
    }
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, Lost> {
        let failed = |error: &dyn std::fmt::Display| Lost::Failed(format!("{}: {error}", path.display()));
        let (sender, events) = channel();
        let mut watcher = notify::recommended_watcher(sender).map_err(|e| failed(&e))?;
        // Comes first: if the folder is replaced meanwhile, the other is watched, and opened again at the first look.
        let identity = std::fs::metadata(path).map(|metadata| Identity::of(&metadata)).map_err(|e| failed(&e))?;
        // Starts before the listing, so that no file is missed in between.
        watcher.watch(path, RecursiveMode::NonRecursive).map_err(|e| failed(&e))?;
        let found = images_in(path).map_err(|e| failed(&e))?;
        let listed = found.iter().map(|path| (path.clone(), None)).collect();
        let mut waiting = Waiting::default();
        waiting.extend(found);
        let (path, looked) = (path.to_owned(), Instant::now());
        Ok(Self { path, identity, looked, waiting, listed, newest: None, left_out: false, events, _watcher: watcher })
    }

    fn take(&mut self, event: notify::Result<Event>) -> Result<(), Lost> {
        let event = event.map_err(|e| Lost::Failed(format!("{}: {e}", self.path.display())))?;
        if event.need_rescan() {
            return self.list_again();
        }
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => {
                for path in event.paths {
                    if !is_image(&path) {
                        self.leave_out(&path);
                    } else if !self.waiting.contains(&path) && !self.was_read(&path) {
                        self.waiting.push(path);
                    }
                }
            }
            EventKind::Remove(_) if event.paths.contains(&self.path) => {
                return Err(Lost::Failed(format!("{}: the folder was removed", self.path.display())));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the files that arrived while events were lost: more than the system keeps, 16,384 by default, or because
    /// the watch failed.
    fn list_again(&mut self) -> Result<(), Lost> {
        let mut found = images_in(&self.path).map_err(|e| self.gone(e))?;
        found.retain(|path| !self.waiting.contains(path) && modified(path) > self.newest);
        tracing::warn!(
            "{}: the system lost events of this folder; {} images that are newer than all that were read are taken, older ones \
             that came meanwhile are not",
            self.path.display(),
            found.len()
        );
        self.listed.extend(found.iter().map(|path| (path.clone(), None)));
        self.waiting.extend(found);
        Ok(())
    }

    /// Logs the first file that is left out because of its name: a camera that changes the form of its files would otherwise
    /// look as if it took none.
    fn leave_out(&mut self, path: &Path) {
        if !self.left_out && !is_hidden(path) {
            self.left_out = true;
            let file = path.file_name().unwrap_or_default();
            tracing::info!(?file, "a file is left out: its name is not that of an image; further ones are not logged");
        }
    }

    fn gone(&self, reason: impl std::fmt::Display) -> Lost {
        Lost::Failed(format!("{}: the folder is gone: {reason}", self.path.display()))
    }

    /// Checks once in a while that the folder at the path is the one that is watched.
    fn look(&mut self) -> Result<(), Lost> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        match std::fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_dir() => Err(self.gone("it is no folder any more")),
            Ok(metadata) if Identity::of(&metadata) != self.identity => {
                Err(Lost::Failed(format!("{}: another folder has this name now", self.path.display())))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.gone(error)),
        }
    }

    /// Whether the file was listed, and read in its current state.
    fn was_read(&self, path: &Path) -> bool {
        self.listed.get(path).is_some_and(|read| read.is_some() && *read == modified(path))
    }
}

impl Source for Folder {
    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
        if self.waiting.is_empty() {
            match self.events.recv_timeout(LOOK) {
                Ok(event) => self.take(event)?,
                // No event comes this late.
                Err(RecvTimeoutError::Timeout) => self.listed.clear(),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone("the system does not watch it any more")),
            }
        }
        // Some at a time: the next frame does not wait until all are taken.
        for _ in 0..EVENTS {
            let Ok(event) = self.events.try_recv() else { break };
            self.take(event)?;
        }
        self.look()?;
        let Some(path) = self.waiting.pop() else { return Ok(None) };
        // The time is taken before reading: a file that is written meanwhile is read again.
        let of = modified(&path);
        // A file with a time in the future must not make later files look old.
        self.newest = self.newest.max(of.map(|time| time.min(SystemTime::now())));
        if let Some(read) = self.listed.get_mut(&*path) {
            *read = of;
        }
        // A file that was removed or cannot be read does not mean that the folder is lost.
        match read(&path) {
            Ok(bytes) => Ok(Some((bytes.into(), path.file_name().map(|n| n.to_string_lossy().into_owned())))),
            Err(error) => {
                // As a text, whose control characters are escaped: a file's name must not add lines to the log.
                tracing::warn!(error, "a file is passed over");
                Ok(None)
            }
        }
    }
}

/// Reads a regular file: the opening of a pipe would wait until somebody writes to it. This is checked here and not when
/// the file is found, since another may have its name by now.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if !metadata.is_file() {
        return Err(format!("{}: expected a regular file, found a folder, a pipe or a device", path.display()));
    }
    nae_onnx::file::read(path, MAX_FRAME as u64).map_err(|error| error.to_string())
}

/// The images in the folder, by name.
fn images_in(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(path)?.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    let mut images: Vec<PathBuf> = paths.into_iter().filter(|path| is_image(path)).collect();
    images.sort();
    Ok(images)
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn is_image(path: &Path) -> bool {
    !is_hidden(path) && is_image_name(path)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// What a folder is, whatever its name: the numbers of the device and of the file. Systems other than Unix do not tell.
#[derive(Debug, PartialEq, Eq)]
struct Identity(Option<(u64, u64)>);

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self(Some((metadata.dev(), metadata.ino())))
    }

    #[cfg(not(unix))]
    fn of(_: &std::fs::Metadata) -> Self {
        Self(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use notify::event::Flag;

    use super::*;

    fn names(folder: &mut Folder, count: usize) -> Vec<String> {
        let mut found = Vec::new();
        // Waits without a limit; the test's own time limit ends it otherwise.
        while found.len() < count {
            found.extend(folder.next().unwrap().and_then(|(_, name)| name));
        }
        found
    }

    #[test]
    fn what_is_there_comes_by_name_then_what_is_written_and_moved_in() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("frames");
        std::fs::create_dir(&path).unwrap();
        for name in ["b.png", "a.JPG", "notes.txt", ".hidden.png"] {
            std::fs::write(path.join(name), "x").unwrap();
        }
        let mut folder = Folder::open(&path).unwrap();
        assert_eq!(names(&mut folder, 2), ["a.JPG", "b.png"]);
        std::fs::write(path.join("c.png"), "x").unwrap();
        std::fs::write(path.join(".d"), "x").unwrap();
        std::fs::rename(path.join(".d"), path.join("d.pgm")).unwrap();
        assert_eq!(names(&mut folder, 2), ["c.png", "d.pgm"]);
        std::fs::remove_dir_all(&path).unwrap();
        let lost = loop {
            if let Err(lost) = folder.next() {
                break lost;
            }
        };
        assert_eq!(lost, Lost::Failed(format!("{}: the folder was removed", path.display())));
    }

    #[test]
    fn a_folder_in_whose_place_there_is_a_file_says_so() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("frames");
        std::fs::create_dir(&path).unwrap();
        let mut folder = Folder::open(&path).unwrap();
        // The system reports events in the folder, but not a change of its own name.
        std::fs::rename(&path, place.path().join("elsewhere")).unwrap();
        std::fs::write(&path, "x").unwrap();
        let lost = loop {
            if let Err(lost) = folder.next() {
                break lost;
            }
        };
        assert_eq!(lost, Lost::Failed(format!("{}: the folder is gone: it is no folder any more", path.display())));
    }

    /// Its images were never read, and the source looked as if it was connected.
    #[test]
    #[cfg(unix)]
    fn another_folder_under_the_same_name_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let (first, second, path) =
            (place.path().join("first"), place.path().join("second"), place.path().join("frames"));
        [&first, &second].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        std::os::unix::fs::symlink(&first, &path).unwrap();
        for is_busy in [false, true] {
            let mut folder = Folder::open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(if is_busy { &first } else { &second }, &path).unwrap();
            let lost = loop {
                if is_busy {
                    // The watched folder still gets images.
                    std::fs::write(second.join("a.png"), "x").unwrap();
                }
                if let Err(lost) = folder.next() {
                    break lost;
                }
            };
            assert_eq!(lost, Lost::Failed(format!("{}: another folder has this name now", path.display())));
        }
    }

    #[test]
    #[cfg(unix)]
    fn names_need_not_be_unicode() {
        use std::os::unix::ffi::OsStrExt as _;
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.png")), "x").unwrap();
        assert_eq!(names(&mut Folder::open(place.path()).unwrap(), 1), ["caf\u{fffd}.png"]);
    }

    #[test]
    fn a_file_listed_whose_event_comes_late_is_read_once_and_again_when_it_is_new() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.png");
        std::fs::write(&file, "x").unwrap();
        let mut folder = Folder::open(place.path()).unwrap();
        assert_eq!(names(&mut folder, 1), ["a.png"]);
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        folder.take(Ok(Event::new(closed).add_path(file.clone()))).unwrap();
        assert!(folder.waiting.is_empty());
        let later = SystemTime::now() + Duration::from_secs(1);
        std::fs::File::options().append(true).open(&file).unwrap().set_modified(later).unwrap();
        assert_eq!(names(&mut folder, 1), ["a.png"]);
    }

    #[test]
    fn what_came_while_events_were_lost_is_listed_and_read_once() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, second: u64| {
            let file = std::fs::File::create(place.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
        };
        write("a.png", 10);
        write("b.png", 30);
        let mut folder = Folder::open(place.path()).unwrap();
        assert_eq!(names(&mut folder, 2), ["a.png", "b.png"]);
        write("d.png", 50);
        write("c.png", 40);
        write("older.png", 20);
        let closed = |event: &Event| event.kind == EventKind::Access(AccessKind::Close(AccessMode::Write));
        let mut lost = 0;
        while lost < 3 {
            lost += usize::from(closed(&folder.events.recv().unwrap().unwrap()));
        }
        folder.take(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan))).unwrap();
        assert_eq!(names(&mut folder, 2), ["c.png", "d.png"]);
        // An event that was not lost comes after the listing.
        folder
            .take(Ok(Event::new(EventKind::Access(AccessKind::Close(AccessMode::Write)))
                .add_path(place.path().join("d.png"))))
            .unwrap();
        assert!(folder.waiting.is_empty());
    }

    /// Each event was compared with all waiting files, and all events were taken before the first frame: of 25,000 files
    /// that were moved into the folder, none was read for minutes.
    #[test]
    fn a_frame_comes_soon_also_if_very_many_files_come_at_once() {
        const FILES: usize = 200_000;
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(place.path()).unwrap();
        let (sender, events) = channel();
        folder.events = events;
        let file = |number: usize| place.path().join(format!("{number:06}.png"));
        let moved = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        std::fs::write(file(0), "x").unwrap();
        std::fs::write(file(1), "y").unwrap();
        for number in 0..FILES {
            // Twice, as if it was written again before it was read.
            (0..2).for_each(|_| sender.send(Ok(Event::new(moved).add_path(file(number)))).unwrap());
        }
        for name in ["000000.png", "000001.png"] {
            assert_eq!(folder.next().unwrap().unwrap().1.as_deref(), Some(name));
        }
        let left = folder.events.try_iter().collect::<Vec<_>>();
        assert!(left.len() >= 2 * FILES - 3 * EVENTS, "{} of {} events are left", left.len(), 2 * FILES);
        // Comparisons of each file with all others would be 20,000 million.
        left.into_iter().for_each(|event| folder.take(event).unwrap());
        assert_eq!((folder.waiting.queue.len(), folder.waiting.known.len()), (FILES - 2, FILES - 2));
    }

    #[test]
    fn a_file_dated_in_the_future_hides_none_that_come_after_it() {
        let place = tempfile::tempdir().unwrap();
        let ahead = std::fs::File::create(place.path().join("ahead.png")).unwrap();
        ahead.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
        let mut folder = Folder::open(place.path()).unwrap();
        assert_eq!(names(&mut folder, 1), ["ahead.png"]);
        let after = std::fs::File::create(place.path().join("after.png")).unwrap();
        after.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
        folder.list_again().unwrap();
        assert!(folder.waiting.contains(&place.path().join("after.png")), "{:?}", folder.waiting);
    }

    /// The opening of a pipe that nobody writes to would never end.
    #[test]
    #[cfg(unix)]
    fn what_is_no_regular_file_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let made = std::process::Command::new("mkfifo").arg(place.path().join(name)).status();
            assert!(made.unwrap().success());
        };
        pipe("a.png");
        std::fs::create_dir(place.path().join("b.png")).unwrap();
        std::fs::write(place.path().join("c.png"), "x").unwrap();
        std::os::unix::fs::symlink("c.png", place.path().join("d.png")).unwrap();
        let mut folder = Folder::open(place.path()).unwrap();
        // A file whose place a pipe takes before it is read.
        std::fs::remove_file(place.path().join("c.png")).unwrap();
        pipe("c.png");
        std::fs::write(place.path().join("e.png"), "x").unwrap();
        let (sender, found) = channel();
        std::thread::spawn(move || sender.send(names(&mut folder, 1)));
        assert_eq!(found.recv_timeout(Duration::from_secs(30)).unwrap(), ["e.png"]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_lost() {
        let place = tempfile::tempdir().unwrap();
        let missing = place.path().join("missing");
        let Err(Lost::Failed(reason)) = Folder::open(&missing).map(drop) else { unreachable!() };
        assert!(reason.contains("missing"), "{reason}");
    }
}
