//! The collected frames on disk: those to train on in `frames`, those that a user threw out in `thrown-out`. These two
//! folders are the whole state: after a crash, each frame is in one of them. A number is never used twice in a
//! collection. `diverse` decides which frames are kept.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nae_infer::image::{self, ImageFormat};
use nae_infer::input::decode_upright;
use serde::Serialize;

use super::super::private_folder::private_folder;

/// The name of a file while it is being written, which no frame has.
const UNFINISHED: &str = ".unfinished";

/// The collected frames of a camera.
pub(crate) struct Collection {
    frames: PathBuf,
    thrown_out: PathBuf,
    known: Mutex<BTreeMap<u32, Known>>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    format: Format,
    bytes: u64,
    thrown_out: bool,
}

/// The formats of frames that nae-train can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Jpeg,
    Png,
}

/// A frame in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Listed {
    pub(crate) number: u32,
    pub(crate) thrown_out: bool,
}

/// The number of frames and their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Frames to train on.
    pub(crate) kept: usize,
    pub(crate) thrown_out: usize,
    /// The total size of both, in bytes.
    pub(crate) bytes: u64,
}

impl Format {
    const fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
        }
    }
}

/// Parses the number and the format of a file of a collection.
fn parse(name: &str) -> Option<(u32, Format)> {
    let (number, extension) = name.split_once('.')?;
    let format = [Format::Jpeg, Format::Png].into_iter().find(|format| format.extension() == extension)?;
    Some((number.parse().ok()?, format))
}

impl Collection {
    /// Opens the collection in a folder, which need not exist.
    ///
    /// # Errors
    /// If the folder's content cannot be listed.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let this = Self {
            frames: folder.join("frames"),
            thrown_out: folder.join("thrown-out"),
            known: Mutex::new(BTreeMap::new()),
        };
        for (folder, thrown_out) in [(&this.frames, false), (&this.thrown_out, true)] {
            let entries = match std::fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name();
                if let Some((number, format)) = name.to_str().and_then(parse) {
                    let bytes = entry.metadata()?.len();
                    this.lock().insert(number, Known { format, bytes, thrown_out });
                }
            }
        }
        Ok(this)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Known>> {
        // No code panics while it holds the lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder with the frames to train on.
    pub(crate) fn folder(&self) -> &Path {
        &self.frames
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().values().fold(Counts::default(), |counts, known| Counts {
            kept: counts.kept + usize::from(!known.thrown_out),
            thrown_out: counts.thrown_out + usize::from(known.thrown_out),
            bytes: counts.bytes + known.bytes,
        })
    }

    /// The frames from number `from` on, at most `most`.
    pub(crate) fn list(&self, from: u32, most: usize) -> Vec<Listed> {
        let known = self.lock();
        let listed = known.range(from..).take(most);
        listed.map(|(&number, known)| Listed { number, thrown_out: known.thrown_out }).collect()
    }

    fn path(&self, number: u32, known: Known) -> PathBuf {
        let folder = if known.thrown_out { &self.thrown_out } else { &self.frames };
        folder.join(format!("{number:06}.{}", known.format.extension()))
    }

    /// The file of a frame.
    pub(crate) fn file(&self, number: u32) -> Option<PathBuf> {
        let known = *self.lock().get(&number)?;
        Some(self.path(number, known))
    }

    /// Stores a frame, unchanged if nae-train can read its format. It gets its name when it is complete.
    ///
    /// # Errors
    /// If the disk cannot store it; in that case, nothing of it is left.
    pub(crate) fn add(&self, frame: &[u8]) -> io::Result<()> {
        let converted;
        let (bytes, format) = match image::guess_format(frame) {
            Ok(ImageFormat::Jpeg) => (frame, Format::Jpeg),
            Ok(ImageFormat::Png) => (frame, Format::Png),
            _ => {
                converted = png(frame)?;
                (converted.as_slice(), Format::Png)
            }
        };
        let mut known = self.lock();
        let number = known.last_key_value().map_or(1, |(number, _)| number.saturating_add(1));
        let added = Known { format, bytes: bytes.len() as u64, thrown_out: false };
        let unfinished = self.frames.join(UNFINISHED);
        let written = private_folder(&self.frames)
            .and_then(|()| std::fs::write(&unfinished, bytes))
            .and_then(|()| std::fs::rename(&unfinished, self.path(number, added)));
        if written.is_err() {
            // The incomplete file would occupy space.
            let _ = std::fs::remove_file(&unfinished);
        }
        written?;
        known.insert(number, added);
        Ok(())
    }

    /// Throws frames out, or restores them; numbers that do not exist, or are already in that state, are skipped.
    ///
    /// # Errors
    /// If a file cannot be moved; those before it were moved.
    pub(crate) fn throw_out(&self, numbers: &[u32], thrown_out: bool) -> io::Result<()> {
        private_folder(if thrown_out { &self.thrown_out } else { &self.frames })?;
        let mut all = self.lock();
        for number in numbers {
            let Some(known) = all.get_mut(number).filter(|known| known.thrown_out != thrown_out) else { continue };
            let moved = Known { thrown_out, ..*known };
            std::fs::rename(self.path(*number, *known), self.path(*number, moved))?;
            *known = moved;
        }
        Ok(())
    }

    /// Removes a frame that cannot be read from the list.
    pub(crate) fn forget(&self, number: u32) {
        if let Some(known) = self.lock().remove(&number) {
            let _ = std::fs::remove_file(self.path(number, known));
        }
    }

    /// Deletes all frames.
    ///
    /// # Errors
    /// If a folder cannot be removed.
    pub(crate) fn delete(&self) -> io::Result<()> {
        let mut known = self.lock();
        for folder in [&self.frames, &self.thrown_out] {
            gone(std::fs::remove_dir_all(folder))?;
        }
        known.clear();
        Ok(())
    }
}

/// Treats a missing file as removed.
pub(super) fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn png(frame: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = io::Cursor::new(Vec::new());
    // The written file has no orientation tag, by which it would be rotated again.
    let picture = decode_upright(frame).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    picture
        .write_to(&mut bytes, ImageFormat::Png)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(bytes.into_inner())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const JPEG: &[u8] = &[0xFF, 0xD8, 0xFF, 0];

    fn numbers(collection: &Collection) -> Vec<(u32, bool)> {
        collection.list(0, 100).into_iter().map(|listed| (listed.number, listed.thrown_out)).collect()
    }

    #[test]
    fn what_is_thrown_out_comes_back_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        (0..3).for_each(|_| collection.add(JPEG).unwrap());
        collection.throw_out(&[2, 3, 99], true).unwrap();
        drop(collection);
        // A crash left this behind, and somebody put other files here.
        std::fs::write(folder.path().join("frames/.unfinished"), b"half").unwrap();
        std::fs::write(folder.path().join("frames/notes.txt"), b"mine").unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        assert_eq!(numbers(&collection), [(1, false), (2, true), (3, true)]);
        assert_eq!(collection.counts(), Counts { kept: 1, thrown_out: 2, bytes: 12 });
        // 3 is thrown out, and its number stays in use.
        collection.add(JPEG).unwrap();
        collection.throw_out(&[3], false).unwrap();
        assert_eq!(numbers(&collection), [(1, false), (2, true), (3, false), (4, false)]);
        assert_eq!(std::fs::read(collection.file(3).unwrap()).unwrap(), JPEG);
        assert_eq!(collection.list(2, 2).len(), 2);
        collection.delete().unwrap();
        assert_eq!((numbers(&collection).len(), collection.file(1)), (0, None));
        collection.delete().unwrap();
    }

    #[test]
    fn frames_of_other_kinds_become_png() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        collection.add(b"P5 2 1 255\n\x00\xFF").unwrap();
        let kept = std::fs::read(collection.file(1).unwrap()).unwrap();
        assert_eq!(image::guess_format(&kept).unwrap(), ImageFormat::Png);
        assert_eq!(image::load_from_memory(&kept).unwrap().to_luma8().into_raw(), [0, 255]);
        assert_eq!(collection.add(b"nothing").unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(numbers(&collection).len(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        // A folder of this name prevents the first frame from being written.
        std::fs::create_dir_all(folder.path().join("frames/000001.jpg/x")).unwrap();
        collection.add(JPEG).unwrap_err();
        assert_eq!(collection.counts(), Counts::default());
        assert!(!folder.path().join("frames/.unfinished").exists());
    }
}
