//! Sources of frames. A [`Source`] returns frames, encoded as they arrive. A thread runs it, reopens it with growing
//! pauses when it is lost, and drops the oldest waiting frame of a camera if scoring is too slow; files wait instead.
//! Frames are decoded elsewhere.

mod address;
mod authentication;
mod folder;
mod jpeg;
mod mjpeg;
mod multipart;
mod pace;
mod stdin;
mod stream;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod v4l2;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::body::Bytes;

pub(crate) use self::address::{CameraAddress, address_without_login, without_login};
use super::queue::Queue;
use address::Scheme;
use pace::Pace;

/// The maximum size of a frame, in bytes.
pub(crate) const MAX_FRAME: usize = 32 << 20;
/// The first and the longest pause before a lost source is opened again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// The kind and address of a source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SourceAddress {
    /// None: only images sent to `/score`.
    None,
    /// Images in a folder: those present, then new ones.
    Folder(PathBuf),
    /// Motion JPEG over HTTP.
    Mjpeg(CameraAddress),
    /// Streams that `ffmpeg` takes: RTSP, with or without TLS, and HTTPS.
    Stream(CameraAddress),
    /// A camera of this machine.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    Camera(PathBuf),
    /// JPEG images on standard input, one after the other.
    Stdin,
}

impl FromStr for SourceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "-" => Ok(Self::Stdin),
            #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
            _ if text.starts_with("/dev/") => Ok(Self::Camera(text.into())),
            // linuxvideo does not compile on other targets.
            #[cfg(all(target_os = "linux", not(target_pointer_width = "64")))]
            _ if text.starts_with("/dev/") => Err(format!(
                "{text}: cameras of this machine are read by 64-bit programs only; have another program send it by rtsp:// or \
                 http://, or pipe its Motion JPEG into standard input (-)"
            )),
            _ => match (Scheme::of(text), text.strip_prefix("folder:")) {
                (Some(Scheme::Http), _) => text.parse().map(Self::Mjpeg),
                (Some(_), _) => text.parse().map(Self::Stream),
                (None, Some(folder)) if !folder.is_empty() => Ok(Self::Folder(folder.into())),
                (None, None) if Path::new(text).is_dir() => Ok(Self::Folder(text.into())),
                _ => Err("rtsp://…, rtsps://…, https://…, http://…, /dev/video…, a folder that is there, folder:DIR, - or none".into()),
            },
        }
    }
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Folder(path) => write!(f, "folder:{}", path.display()),
            Self::Mjpeg(camera) | Self::Stream(camera) => write!(f, "{camera}"),
            #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
            Self::Camera(path) => write!(f, "{}", path.display()),
            Self::Stdin => f.write_str("standard input"),
        }
    }
}

impl SourceAddress {
    /// The address, if the source is a network camera.
    pub(crate) fn camera(&self) -> Option<&CameraAddress> {
        match self {
            Self::Mjpeg(camera) | Self::Stream(camera) => Some(camera),
            _ => None,
        }
    }

    /// The same source with this login, `USER:PASSWORD`; `None` if the source cannot take one.
    pub(crate) fn with_login(self, login: String) -> Option<Self> {
        match self {
            Self::Mjpeg(camera) => Some(Self::Mjpeg(camera.with_login(login))),
            Self::Stream(camera) => Some(Self::Stream(camera.with_login(login))),
            _ => None,
        }
    }
}

/// The settings of a source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SourceSettings {
    pub(crate) address: SourceAddress,
    /// The minimum time between two frames, in the long run.
    pub(crate) interval: Duration,
    /// How long a camera may send no frame before it counts as lost.
    pub(crate) silence: Duration,
    /// The maximum width and height of a stream's frames, in pixels; larger ones are scaled down.
    pub(crate) largest: (u32, u32),
    /// Additional arguments of `ffmpeg`, for example for decoding in hardware.
    pub(crate) ffmpeg_arguments: Vec<String>,
}

impl Default for SourceSettings {
    fn default() -> Self {
        Self {
            address: SourceAddress::None,
            interval: Duration::ZERO,
            silence: Duration::from_secs(10),
            largest: (1920, 1080),
            ffmpeg_arguments: Vec::new(),
        }
    }
}

/// An encoded image, and the time at which it was taken.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// The name of its file, for display.
    pub(crate) name: Option<String>,
    pub(crate) taken: Instant,
}

/// The reason why there are no more frames.
#[derive(Debug, PartialEq)]
pub(crate) enum Lost {
    /// The source has ended as expected: the end of standard input.
    Ended,
    /// A failure that may be temporary.
    Failed(String),
}

/// A source that returns one frame per call.
pub(crate) trait Source {
    /// Waits about a second for the source to open. Returns whether it is open.
    ///
    /// # Errors
    /// [`Lost`]; the source is then opened again.
    fn is_open(&mut self) -> Result<bool, Lost> {
        Ok(true)
    }

    /// Waits for the next frame, as long as the source allows: about a second, `source_timeout`, or until it comes.
    /// `None` if none has arrived. A frame from a file has the file's name.
    ///
    /// # Errors
    /// [`Lost`]; the source is then opened again.
    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost>;
}

/// A source of which only its first frame shows that it is open.
struct OpenAtFirst<S> {
    source: S,
    first: Option<(Bytes, Option<String>)>,
}

impl<S: Source> OpenAtFirst<S> {
    fn new(source: S) -> Self {
        Self { source, first: None }
    }
}

impl<S: Source> Source for OpenAtFirst<S> {
    fn is_open(&mut self) -> Result<bool, Lost> {
        if self.first.is_none() {
            self.first = self.source.next()?;
        }
        Ok(self.first.is_some())
    }

    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.source.next(),
        }
    }
}

/// The state of a source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SourceState {
    /// There is no source.
    None,
    /// It is being opened for the first time.
    Opening,
    /// It is open.
    Connected,
    /// It was lost, and is being opened again.
    Lost(String),
    /// It has ended.
    Ended,
}

impl SourceState {
    /// Its name for clients, one word.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Opening => "opening",
            Self::Connected => "connected",
            Self::Lost(_) => "lost",
            Self::Ended => "ended",
        }
    }
}

/// Receives the events of a source.
pub(crate) trait SourceObserver: Send + 'static {
    /// The state of the source has changed.
    fn state(&self, state: SourceState);
    /// A frame was dropped because scoring was too slow.
    fn dropped(&self);
}

/// Opens the source.
///
/// # Errors
/// [`Lost::Failed`] with the reason.
fn open(settings: &SourceSettings) -> Result<Box<dyn Source>, Lost> {
    Ok(match &settings.address {
        SourceAddress::None => return Err(Lost::Ended),
        SourceAddress::Folder(path) => Box::new(folder::Folder::open(path)?),
        SourceAddress::Mjpeg(camera) => Box::new(mjpeg::Mjpeg::open(camera, settings.silence)?),
        SourceAddress::Stream(camera) => Box::new(OpenAtFirst::new(stream::Stream::open(camera, settings)?)),
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        SourceAddress::Camera(path) => Box::new(v4l2::V4l2::open(path, settings.silence)?),
        SourceAddress::Stdin => Box::new(OpenAtFirst::new(stdin::Stdin::open(settings.silence))),
    })
}

/// Runs the source in a separate thread until `frames` is closed. Returns the thread if it must end properly, because
/// it would otherwise leave a child process behind.
///
/// # Errors
/// If the system cannot start a thread.
pub(crate) fn spawn(
    settings: SourceSettings,
    frames: Arc<Queue<Frame>>,
    observer: impl SourceObserver,
) -> std::io::Result<Option<JoinHandle<()>>> {
    if settings.address == SourceAddress::None {
        observer.state(SourceState::None);
        return Ok(None);
    }
    let is_stream = matches!(settings.address, SourceAddress::Stream(_));
    // A stream's frames are selected by its own clock, before they are encoded; by the local clock, some of them would
    // seem early.
    let interval = if is_stream { Duration::ZERO } else { settings.interval };
    let runner = Runner { interval, frames, observer, pauses: PAUSES };
    let span = tracing::Span::current();
    let thread = thread::Builder::new().name("source".into()).spawn(move || {
        let _entered = span.enter();
        runner.run(|| open(&settings));
    })?;
    Ok(is_stream.then_some(thread))
}

struct Runner<O> {
    interval: Duration,
    frames: Arc<Queue<Frame>>,
    observer: O,
    pauses: (Duration, Duration),
}

impl<O: SourceObserver> Runner<O> {
    fn run(&self, mut open: impl FnMut() -> Result<Box<dyn Source>, Lost>) {
        let (shortest, longest) = self.pauses;
        let mut pause = shortest;
        self.observer.state(SourceState::Opening);
        loop {
            let lost = open().and_then(|mut source| {
                while !source.is_open()? {
                    if self.frames.wait_closed(Duration::ZERO) {
                        return Ok(());
                    }
                }
                self.observer.state(SourceState::Connected);
                self.read(source.as_mut(), || pause = shortest)
            });
            match lost {
                // The queue is closed: the service is stopping.
                Ok(()) => return,
                Err(Lost::Ended) => return self.observer.state(SourceState::Ended),
                Err(Lost::Failed(reason)) => self.observer.state(SourceState::Lost(reason)),
            }
            if self.frames.wait_closed(pause) {
                return;
            }
            pause = (2 * pause).min(longest);
        }
    }

    /// Puts frames into the queue, until the source is lost or the queue is closed.
    fn read(&self, source: &mut dyn Source, mut alive: impl FnMut()) -> Result<(), Lost> {
        let mut pace = Pace::new(self.interval);
        while !self.frames.wait_closed(Duration::ZERO) {
            let Some((bytes, name)) = source.next()? else { continue };
            alive();
            // A camera's frames that are early are dropped; a folder's wait.
            if let Some(early) = pace.early(Instant::now()) {
                if name.is_none() {
                    continue;
                }
                if self.frames.wait_closed(early) {
                    break;
                }
            }
            let frame = Frame { bytes, name, taken: Instant::now() };
            pace.take(frame.taken);
            if frame.name.is_some() {
                self.frames.push_waiting(frame);
            } else if self.frames.push_dropping(frame).is_some() {
                self.observer.dropped();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A camera that gives some frames and then fails, a given number of times; then it ends.
    struct Fake {
        frames: usize,
    }

    impl Source for Fake {
        fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
            self.frames = self.frames.checked_sub(1).ok_or_else(|| Lost::Failed("unplugged".into()))?;
            Ok(Some((Bytes::from_static(b"frame"), None)))
        }
    }

    /// A camera that is open at the third check, unless it is unplugged before.
    struct Late(usize);

    impl Source for Late {
        fn is_open(&mut self) -> Result<bool, Lost> {
            self.0 += 1;
            if self.0 > 5 { Err(Lost::Failed("refused".into())) } else { Ok(self.0 == 3) }
        }
        fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
            Err(Lost::Ended)
        }
    }

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<(Vec<SourceState>, usize)>>);

    impl SourceObserver for Seen {
        fn state(&self, state: SourceState) {
            self.0.lock().unwrap().0.push(state);
        }
        fn dropped(&self) {
            self.0.lock().unwrap().1 += 1;
        }
    }

    #[test]
    fn a_lost_camera_is_opened_again_and_old_frames_make_room() {
        let frames = Arc::new(Queue::new(4));
        let seen = Seen::default();
        let pauses = (Duration::from_millis(1), Duration::from_millis(4));
        let runner = Runner { interval: Duration::ZERO, frames: Arc::clone(&frames), observer: seen.clone(), pauses };
        let mut opened = 0;
        runner.run(|| {
            opened += 1;
            match opened {
                1 | 3 => Ok(Box::new(Fake { frames: 3 })),
                2 => Err(Lost::Failed("not there".into())),
                _ => Err(Lost::Ended),
            }
        });
        let (states, dropped) = seen.0.lock().unwrap().clone();
        let lost = |reason: &str| SourceState::Lost(reason.into());
        use SourceState::{Connected, Ended, Opening};
        let expected = [Opening, Connected, lost("unplugged"), lost("not there"), Connected, lost("unplugged"), Ended];
        assert_eq!(states, expected);
        assert_eq!((frames.len(), dropped), (4, 2));
    }

    #[test]
    fn a_camera_is_connected_when_it_is_open() {
        let states = |looks: usize| {
            let seen = Seen::default();
            let frames = Arc::new(Queue::new(4));
            let pauses = (Duration::from_millis(1), Duration::from_millis(4));
            let runner = Runner { interval: Duration::ZERO, frames, observer: seen.clone(), pauses };
            let mut late = Some(Late(looks));
            runner.run(|| Ok(Box::new(late.take().ok_or(Lost::Ended)?)));
            seen.0.lock().unwrap().0.clone()
        };
        use SourceState::{Connected, Ended, Lost as Away, Opening};
        assert_eq!(states(0), [Opening, Connected, Ended]);
        assert_eq!(states(3), [Opening, Away("refused".into()), Ended]);
    }

    #[test]
    fn addresses_are_told_apart() {
        let parse = |text: &str| text.parse::<SourceAddress>();
        assert_eq!(parse("none"), Ok(SourceAddress::None));
        assert_eq!(parse("-"), Ok(SourceAddress::Stdin));
        assert_eq!(parse("folder:a/b"), Ok(SourceAddress::Folder("a/b".into())));
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(parse(folder.path().to_str().unwrap()), Ok(SourceAddress::Folder(folder.path().into())));
        assert!(matches!(parse("http://camera:81/video"), Ok(SourceAddress::Mjpeg(_))));
        for stream in ["rtsp://camera", "rtsps://camera/live", "https://camera/video"] {
            assert!(matches!(parse(stream), Ok(SourceAddress::Stream(_))), "{stream}");
        }
        for wrong in ["", "folder:", "ftp://camera", "rtsp://", "video0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
