//! Collects frames of a running camera, in a thread of the lowest priority. The camera's own thread offers frames
//! without waiting: a frame that arrives while others are processed is counted and skipped. `diverse` decides which
//! frames are kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use nae_infer::input::decode;

use super::super::regions::Applied;
use super::collection::Collection;
use super::diverse::{Kept, Thumbnail};
use super::lossless;
use super::state::Collecting;

/// The number of frames that may wait.
const WAITING: usize = 8;
/// The maximum time between two checks of the time limit.
const LOOK: Duration = Duration::from_millis(200);

/// The receiver of a camera's frames.
pub(super) struct Offers {
    sender: SyncSender<Offered>,
}

/// A frame, and the regions that limit what the model sees of it.
pub(super) type Offered = (Bytes, Arc<Applied>);

impl Offers {
    pub(super) fn new() -> (Self, Receiver<Offered>) {
        let (sender, receiver) = sync_channel(WAITING);
        (Self { sender }, receiver)
    }

    /// Offers a frame. Returns whether there was room for it.
    pub(super) fn offer(&self, frame: &Bytes, regions: &Arc<Applied>) -> bool {
        !matches!(self.sender.try_send((frame.clone(), Arc::clone(regions))), Err(TrySendError::Full(_)))
    }
}

/// The reason why collecting ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// No more frames are offered.
    Stopped,
    TimeIsUp,
    /// The requested number was reached, or exceeded by frames of before.
    Enough,
    /// The disk space of the settings is used up.
    NoRoom,
    /// The disk cannot store more.
    Disk(io::Error),
}

/// Takes frames until there is a reason to end. The time limit only counts while frames are of the condition for which
/// they are collected (`holds`). `looked` is called for each frame after it was kept or not, and from time to time with
/// the remaining seconds; it returns whether to continue.
pub(super) fn run(
    settings: Collecting,
    room: u64,
    collection: &Collection,
    frames: &Receiver<Offered>,
    holds: &AtomicBool,
    mut looked: impl FnMut(Looked) -> bool,
) -> Ending {
    // There may be as many from before: then, not one more is wanted.
    if collection.counts().kept >= settings.most {
        return Ending::Enough;
    }
    let Some(mut kept) = known(settings, collection, &mut looked) else { return Ending::Stopped };
    let (mut left, mut last) = (settings.left, Instant::now());
    loop {
        let gone = std::mem::replace(&mut last, Instant::now());
        if holds.load(Ordering::Relaxed) {
            left = left.map(|left| left - (last - gone).as_secs_f64());
        }
        if left.is_some_and(|left| left <= 0.0) {
            return Ending::TimeIsUp;
        }
        let (frame, regions) = match frames.recv_timeout(LOOK) {
            Ok(offered) => offered,
            Err(RecvTimeoutError::Timeout) => {
                if !looked(Looked { seen: 0, left }) {
                    return Ending::Stopped;
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ending::Stopped,
        };
        if !looked(Looked { seen: 0, left }) {
            return Ending::Stopped;
        }
        let taken = take((&frame, &regions), settings, room, collection, &mut kept);
        // Afterwards: when a client sees that a frame was processed, the frame is already among those that are kept.
        let wanted = looked(Looked { seen: 1, left });
        if let Some(ending) = taken {
            return ending;
        }
        if !wanted {
            return Ending::Stopped;
        }
    }
}

/// Keeps a frame if it differs from those that are kept. Returns the reason to end, if there is one.
fn take(
    (frame, regions): (&Bytes, &Applied),
    settings: Collecting,
    room: u64,
    collection: &Collection,
    kept: &mut Kept,
) -> Option<Ending> {
    // A frame that cannot be read is useless; scoring reports the error.
    let Ok(pixels) = decode(frame) else { return None };
    let Ok(seen) = regions.look(pixels) else { return None };
    let thumbnail = Thumbnail::of(seen.pixels());
    if !kept.lacks(&thumbnail) {
        return None;
    }
    // The model must learn from what it will see; if that is the whole frame, it is stored unchanged.
    let frame = if seen.is_whole() { Ok(frame.clone()) } else { lossless::png(seen.pixels()).map(Bytes::from) };
    let Ok(frame) = frame else { return None };
    let counts = collection.counts();
    if counts.bytes + frame.len() as u64 > room {
        return Some(Ending::NoRoom);
    }
    if let Err(error) = collection.add(&frame) {
        return Some(Ending::Disk(error));
    }
    kept.add(thumbnail);
    (counts.kept + 1 >= settings.most).then_some(Ending::Enough)
}

/// The progress of collecting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked {
    /// The number of frames processed since the last call.
    pub(super) seen: u64,
    /// The seconds until it ends.
    pub(super) left: Option<f64>,
}

/// The thumbnails of the stored frames, including those that were thrown out, so that similar ones are not collected
/// again. `None` if collecting is stopped meanwhile, since many frames take a while.
fn known(settings: Collecting, collection: &Collection, looked: &mut impl FnMut(Looked) -> bool) -> Option<Kept> {
    let mut kept = Kept::new(settings.min_distance);
    for listed in collection.list(0, usize::MAX) {
        if !looked(Looked { seen: 0, left: settings.left }) {
            return None;
        }
        let Some(file) = collection.file(listed.number) else { continue };
        match std::fs::read(&file).map(|bytes| decode(&bytes)) {
            Ok(Ok(pixels)) => kept.add(Thumbnail::of(&pixels)),
            Ok(Err(error)) => {
                tracing::warn!(error = error.to_string(), "{} is no image any more, and is removed", file.display());
                collection.forget(listed.number);
            }
            Err(error) => tracing::warn!(%error, "{} cannot be read", file.display()),
        }
    }
    Some(kept)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use nae_infer::Shape;
    use nae_infer::input::Pixels;

    use super::super::super::regions::Regions;
    use super::*;

    /// A grey picture.
    fn picture(level: u8) -> Bytes {
        [b"P5 4 4 255\n".as_slice(), &[level; 16]].concat().into()
    }

    fn whole() -> Arc<Applied> {
        Applied::new(Regions::default())
    }

    static HOLDS: AtomicBool = AtomicBool::new(true);

    const SETTINGS: Collecting = Collecting { left: None, most: 100, min_distance: 2.0 };

    /// Collects from these frames. Returns the ending, and the number of processed frames.
    fn collect(settings: Collecting, room: u64, collection: &Collection, frames: &[Bytes]) -> (Ending, u64) {
        let (sender, receiver) = std::sync::mpsc::channel();
        frames.iter().for_each(|frame| sender.send((frame.clone(), whole())).unwrap());
        drop(sender);
        let mut seen = 0;
        let ending = run(settings, room, collection, &receiver, &HOLDS, |looked| {
            seen += looked.seen;
            true
        });
        (ending, seen)
    }

    #[test]
    fn alike_frames_are_left_out_also_of_those_kept_before_or_thrown_out() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        let frames = [picture(10), picture(11), picture(12), b"no image".as_slice().into(), picture(200)];
        let (ending, seen) = collect(SETTINGS, 1 << 20, &collection, &frames);
        assert!(matches!(ending, Ending::Stopped) && seen == 5, "{ending:?} {seen}");
        assert_eq!(collection.counts().kept, 3, "10, 12 and 200");
        collection.throw_out(&[3], true).unwrap();
        drop(collection);
        // Damaged while the service was stopped.
        std::fs::write(folder.path().join("frames/000001.png"), b"").unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        collect(SETTINGS, 1 << 20, &collection, &[picture(200), picture(13), picture(10)]);
        let counts = collection.counts();
        assert_eq!((counts.kept, counts.thrown_out), (2, 1), "10 is lacking again, 12 and 200 are not");
    }

    /// If a client sees that a frame was processed, and then requests the number of kept frames, the frame is counted.
    #[test]
    fn a_frame_is_counted_once_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        [10, 50, 90].iter().for_each(|&level| sender.send((picture(level), whole())).unwrap());
        drop(sender);
        let (mut seen, mut kept) = (0, vec![]);
        let settings = Collecting { most: 3, ..SETTINGS };
        run(settings, 1 << 20, &collection, &receiver, &HOLDS, |looked| {
            seen += looked.seen;
            if looked.seen > 0 {
                kept.push((seen, collection.counts().kept));
            }
            true
        });
        assert_eq!(kept, [(1, 1), (2, 2), (3, 3)]);
    }

    /// Frames that differ only in hidden parts are equal.
    #[test]
    fn what_is_kept_is_what_the_model_sees() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        let left = r#"[{"kind": "include", "vertices": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]}]"#;
        let regions = Applied::new(Regions::from_json(left).unwrap());
        let frame = |left: u8, right: u8| -> Bytes {
            [b"P5 4 2 255\n".as_slice(), &[left, left, right, right, left, left, right, right]].concat().into()
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        for frame in [frame(10, 10), frame(10, 200), frame(60, 10)] {
            sender.send((frame, Arc::clone(&regions))).unwrap();
        }
        drop(sender);
        run(SETTINGS, 1 << 20, &collection, &receiver, &HOLDS, |_| true);
        let kept =
            collection.list(0, 9).into_iter().map(|listed| std::fs::read(collection.file(listed.number).unwrap()));
        let kept: Vec<_> = kept.map(|bytes| decode(&bytes.unwrap()).unwrap()).collect();
        let grey = |level: u8| Pixels { shape: Shape::new(1, 2, 2), values: vec![f32::from(level) / 255.0; 4] };
        assert_eq!(kept, [grey(10), grey(60)]);
    }

    #[test]
    fn it_ends_at_the_number_the_room_and_the_time_that_were_given() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        let frames: Vec<_> = (0..20).map(|i| picture(10 * i)).collect();
        let (ending, seen) = collect(Collecting { most: 3, ..SETTINGS }, 1 << 20, &collection, &frames);
        assert!(matches!(ending, Ending::Enough) && seen == 3, "{ending:?} {seen}");
        let (ending, _) = collect(SETTINGS, collection.counts().bytes + 5, &collection, &frames);
        assert!(matches!(ending, Ending::NoRoom), "{ending:?}");
        assert_eq!(collection.counts().kept, 3);
        let (ending, _) = collect(Collecting { left: Some(0.0), ..SETTINGS }, 1 << 20, &collection, &frames);
        assert!(matches!(ending, Ending::TimeIsUp), "{ending:?}");
    }

    /// A client asks for fewer than there are from before, or a kill came after the last was kept.
    #[test]
    fn not_one_more_is_kept_than_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        [10, 50, 90].iter().for_each(|&level| collection.add(&picture(level)).unwrap());
        for most in [1, 3] {
            let (ending, seen) = collect(Collecting { most, ..SETTINGS }, 1 << 20, &collection, &[picture(200)]);
            assert!(matches!(ending, Ending::Enough) && seen == 0, "{ending:?} {seen}");
            assert_eq!(collection.counts().kept, 3);
        }
        collection.throw_out(&[2], true).unwrap();
        let (ending, _) = collect(Collecting { most: 3, ..SETTINGS }, 1 << 20, &collection, &[picture(200)]);
        assert!(matches!(ending, Ending::Enough), "{ending:?}");
        assert_eq!(collection.counts().kept, 3, "in place of the one that was thrown out");
    }

    /// Frames of the night, requested by day.
    #[test]
    fn the_time_stands_still_while_frames_are_of_another_condition() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        let (_offers, receiver) = Offers::new();
        let holds = AtomicBool::new(false);
        let settings = Collecting { left: Some(0.1), ..SETTINGS };
        let (mut looks, mut least) = (0, f64::MAX);
        let ending = run(settings, 1 << 20, &collection, &receiver, &holds, |looked| {
            looks += 1;
            // After three calls of 0.2 seconds, the night begins.
            if looks == 3 {
                least = looked.left.unwrap();
                holds.store(true, Ordering::Relaxed);
            }
            true
        });
        assert!(matches!(ending, Ending::TimeIsUp), "{ending:?}");
        assert!((least - 0.1).abs() < 1e-9 && looks >= 3, "{least} {looks}");
    }

    #[test]
    fn a_disk_that_refuses_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        std::fs::write(folder.path().join("frames"), b"in the way").unwrap();
        let (ending, _) = collect(SETTINGS, 1 << 20, &collection, &[picture(1)]);
        assert!(matches!(ending, Ending::Disk(_)), "{ending:?}");
    }

    #[test]
    fn it_ends_when_no_more_are_wanted_also_while_it_looks_at_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::open(folder.path()).unwrap();
        collection.add(&picture(1)).unwrap();
        let (_offers, receiver) = Offers::new();
        for wanted in [0, 1] {
            let mut asked = 0;
            let ending = run(SETTINGS, 1 << 20, &collection, &receiver, &HOLDS, |_| {
                asked += 1;
                asked <= wanted
            });
            assert!(matches!(ending, Ending::Stopped) && asked == wanted + 1, "{ending:?} {asked}");
        }
    }

    #[test]
    fn whoever_offers_does_not_wait() {
        let (offers, receiver) = Offers::new();
        let taken = (0..WAITING + 3).filter(|_| offers.offer(&picture(1), &whole())).count();
        assert_eq!(taken, WAITING);
        drop(receiver);
        assert!(offers.offer(&picture(1), &whole()), "the end is nobody's miss");
    }
}
