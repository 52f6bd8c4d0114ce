//! Actions on frames: collecting, listing, throwing out and restoring, downloading. `collect` and `diverse` select the
//! frames.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;

use super::super::regions::Applied;
use super::collect::{self, Ending, Offers};
use super::collection::{Counts, Listed};
use super::{Action, Collecting, Learn, LearnError, Phase, Record, archive, lock, record_in};

/// How often the progress of collecting is written to disk.
const SAVE: Duration = Duration::from_secs(10);

impl Learn {
    /// Offers a frame of the camera.
    pub(crate) fn offer(&self, frame: &Bytes, regions: &Arc<Applied>) {
        if let Some(offers) = &*lock(&self.offers)
            && !offers.offer(frame, regions)
        {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Starts to collect frames.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn collect(self: &Arc<Self>, settings: Collecting) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::Collect)?;
        if self.config.learn_bytes == 0 {
            return Err(LearnError::Missing("no frames may be collected: the setting `learn_room` is 0".into()));
        }
        if self.collection.counts() != Counts::default() {
            self.are_of_these_regions()?;
        }
        let regions = self.sight.applied().digest().to_owned();
        self.change(|record| {
            record.regions = regions;
            if matches!(record.phase, Phase::Idle) {
                (record.seen, record.missed) = (0, 0);
            }
            record.phase = Phase::Collecting(settings);
            record.note = None;
        })?;
        self.missed.store(0, Ordering::Relaxed);
        self.start_collecting(settings)?;
        self.tidy();
        Ok(())
    }

    /// Checks that the collected frames have the regions in use, since one model cannot learn from both.
    ///
    /// # Errors
    /// If they have others.
    pub(super) fn are_of_these_regions(&self) -> Result<(), LearnError> {
        if self.lock().record.regions == self.sight.applied().digest() {
            return Ok(());
        }
        let reason =
            "the frames that are kept were collected by other regions: delete them, or set those regions again";
        Err(LearnError::Missing(reason.into()))
    }

    /// Whether frames are being collected.
    pub(crate) fn is_collecting(&self) -> bool {
        matches!(self.lock().record.phase, Phase::Collecting(_))
    }

    pub(super) fn start_collecting(self: &Arc<Self>, settings: Collecting) -> Result<(), LearnError> {
        let (offers, frames) = Offers::new();
        let mut inner = self.lock();
        let (own, activity) = (Arc::clone(self), inner.activity);
        let work = move || {
            let _entered = own.span.enter();
            super::super::child::lowest_priority();
            let looked = |looked: collect::Looked| own.looked(activity, looked);
            let ending = collect::run(settings, own.config.learn_bytes, &own.collection, &frames, &own.holds, looked);
            *lock(&own.offers) = None;
            let kept = own.collection.counts().kept;
            let note = match ending {
                // The action that stopped it has been recorded.
                Ending::Stopped => return,
                Ending::TimeIsUp => format!("the time was up after {kept} frames"),
                Ending::Enough if kept > settings.most => {
                    format!("{kept} frames are kept, more than the {} requested", settings.most)
                }
                Ending::Enough => format!("{kept} frames were collected, as many as requested"),
                Ending::NoRoom => {
                    format!(
                        "the room of `learn_room` ({} MiB) was full after {kept} frames",
                        own.config.learn_bytes >> 20
                    )
                }
                Ending::Disk(error) if error.kind() == io::ErrorKind::StorageFull => {
                    format!("the disk was full after {kept} frames")
                }
                Ending::Disk(error) => format!("the disk took no more after {kept} frames: {error}"),
            };
            tracing::info!(note, "collecting has ended");
            own.ended(activity, |record| {
                record.phase = Phase::Collected;
                record.note = Some(note);
            });
        };
        // Set before the thread starts, which removes it when it ends.
        *lock(&self.offers) = Some(offers);
        inner.thread = Some(thread::Builder::new().name("collect".into()).spawn(work)?);
        Ok(())
    }

    /// Records the progress of collecting, and writes it to disk from time to time. Returns whether to continue.
    pub(super) fn looked(&self, activity: u64, looked: collect::Looked) -> bool {
        let mut inner = self.lock();
        // Also for an activity that was just ended and is being waited for: the frame may be among those that were
        // kept.
        inner.record.seen += looked.seen;
        if inner.activity != activity {
            return false;
        }
        inner.record.missed += self.missed.swap(0, Ordering::Relaxed);
        if let Phase::Collecting(settings) = &mut inner.record.phase {
            settings.left = looked.left;
        }
        if inner.saved.elapsed() >= SAVE {
            inner.saved = Instant::now();
            // The next frame notices a full disk.
            let _ = inner.record.write(&record_in(&self.folder));
        }
        true
    }

    /// Stops collecting.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn stop_collecting(&self) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::Stop)?;
        self.change(|record| record.phase = Phase::Collected)?;
        self.end_activity();
        Ok(())
    }

    /// The frames from number `from` on.
    pub(crate) fn frames(&self, from: u32, most: usize) -> Vec<Listed> {
        self.collection.list(from, most)
    }

    /// The file of a frame.
    pub(crate) fn frame(&self, number: u32) -> Option<Bytes> {
        Some(std::fs::read(self.collection.file(number)?).ok()?.into())
    }

    /// Throws frames out of the collection, or restores them.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn throw_out(&self, numbers: &[u32], thrown_out: bool) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(if thrown_out { Action::ThrowOut } else { Action::BringBack })?;
        Ok(self.collection.throw_out(numbers, thrown_out)?)
    }

    /// Deletes the frames, and the model that is not in use.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn delete(&self) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::Delete)?;
        // Recorded first: after a crash, the next start completes the rest.
        self.change(|record| {
            let (used, learned_with) = (std::mem::take(&mut record.used), std::mem::take(&mut record.learned_with));
            // These may be needed again: which of them was in use is not known, or it could not be opened.
            let (passed_over, found) = (std::mem::take(&mut record.passed_over), std::mem::take(&mut record.found));
            *record = Record { used, passed_over, found, learned_with, ..Record::default() };
        })?;
        self.collection.delete()?;
        self.tidy();
        Ok(())
    }

    /// Sends the frames as a tar file. Blocks, and must be called where that is permitted.
    pub(crate) fn send_frames(
        &self,
        pieces: tokio::sync::mpsc::Sender<io::Result<Bytes>>,
        runtime: &tokio::runtime::Handle,
    ) {
        if let Err(error) = archive::send(&self.collection, pieces.clone(), runtime) {
            tracing::warn!(%error, "a download of frames broke off");
            // Lets the client notice that the file is incomplete.
            let _ = pieces.try_send(Err(error));
        }
    }
}
