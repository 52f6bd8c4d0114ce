//! JPEG images on standard input, one after the other, as `ffmpeg … -f mjpeg -` writes them. A thread reads them, since
//! a read cannot be ended if the writer hangs. It reads as long as the process runs, so that nothing is lost while the
//! source counts as lost: standard input cannot be opened again.

use std::io::{self, BufReader, Read, stdin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;

use super::{Lost, MAX_FRAME, Source, jpeg};

/// The maximum wait for a frame, after which the caller checks whether the service is stopping.
const LOOK: Duration = Duration::from_millis(200);

/// The images that the thread has read; it holds one until it is taken.
type Images = Mutex<Receiver<io::Result<Vec<u8>>>>;

static IMAGES: OnceLock<Images> = OnceLock::new();

/// The number of bytes that were read since the last image.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts what it reads in [`BYTES`].
struct Counted<R>(R);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        BYTES.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// What came in place of images; empty if nothing came.
fn instead() -> String {
    match BYTES.load(Ordering::Relaxed) {
        0 => String::new(),
        bytes => format!(
            "; {bytes} bytes came without a whole JPEG image: expected JPEG images, one after the other, as `ffmpeg … -f mjpeg -` \
             writes them"
        ),
    }
}

pub(super) struct Stdin {
    images: &'static Images,
    silence: Duration,
    last: Instant,
}

impl Stdin {
    pub(super) fn open(silence: Duration) -> Self {
        Self { images: IMAGES.get_or_init(read), silence, last: Instant::now() }
    }
}

impl Source for Stdin {
    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
        let failed = |reason: &dyn std::fmt::Display| Lost::Failed(format!("standard input: {reason}"));
        // A panic leaves the channel as it is.
        let images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        match images.recv_timeout(LOOK.min(self.silence)) {
            Ok(Ok(image)) => {
                self.last = Instant::now();
                Ok(Some((jpeg::with_tables(image).into(), None)))
            }
            Ok(Err(error)) => Err(failed(&error)),
            Err(RecvTimeoutError::Disconnected) => Err(Lost::Ended),
            Err(RecvTimeoutError::Timeout) if self.last.elapsed() < self.silence => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(failed(&format!("no frame for {:?}{}", self.silence, instead()))),
        }
    }
}

/// Starts the thread. If the system cannot start it, the source has ended.
fn read() -> Images {
    let (sender, images) = sync_channel(0);
    let work = move || {
        let mut input = BufReader::with_capacity(1 << 16, Counted(stdin().lock()));
        let mut images = 0u64;
        // After an error, for example an image that is too large, the next may be read again.
        while let Some(image) = jpeg::read(&mut input, MAX_FRAME).transpose() {
            images += 1;
            BYTES.store(0, Ordering::Relaxed);
            if sender.send(image).is_err() {
                return;
            }
        }
        if images == 0 {
            tracing::warn!("standard input had no image{}", instead());
        }
    };
    if let Err(error) = thread::Builder::new().name("standard input".into()).spawn(work) {
        tracing::error!(%error, "no thread to read standard input");
    }
    Mutex::new(images)
}
