//! A camera at `/dev/video…`, by Video4Linux 2, only on Linux: JPEG frames if the camera supports them, uncompressed
//! ones otherwise, at the current size of the device.
//!
//! The device is behind a trait, so that everything but the system calls can be tested without one.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use linuxvideo::format::{PixFormat, PixelFormat};
use linuxvideo::stream::ReadStream;
use linuxvideo::{BufType, Device};

use super::{Lost, Source, jpeg};

/// The time between two checks for a frame.
const LOOK: Duration = Duration::from_millis(2);
/// The supported formats, the best first.
const FORMATS: [PixelFormat; 4] = [PixelFormat::MJPG, PixelFormat::JPEG, PixelFormat::YUYV, PixelFormat::RGB3];

/// The layout of the bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    /// A whole JPEG file.
    Jpeg,
    /// Rows of `stride` bytes: for each two pixels, their two luma values and their common blue and red differences.
    Yuyv { width: usize, height: usize, stride: usize },
    /// Rows of `stride` bytes: red, green, blue.
    Rgb { width: usize, height: usize, stride: usize },
}

/// The operations of a camera.
trait Camera {
    /// Whether a frame is available.
    fn is_ready(&mut self) -> io::Result<bool>;

    /// Takes the frame; `None` if the driver reports that it is damaged.
    fn take(&mut self) -> io::Result<Option<Vec<u8>>>;
}

/// A camera of the system.
struct Video(ReadStream);

impl Camera for Video {
    fn is_ready(&mut self) -> io::Result<bool> {
        self.0.will_block().map(|blocks| !blocks)
    }

    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.0.dequeue(|frame| Ok((!frame.is_error()).then(|| frame.to_vec())))
    }
}

/// A camera at `/dev/video…`.
pub(super) struct V4l2 {
    camera: Box<dyn Camera>,
    layout: Layout,
    silence: Duration,
    /// The start of the wait for a frame; damaged frames do not count. `None` after a frame, so that a wait begins when
    /// the next one is requested.
    waiting_since: Option<Instant>,
}

impl V4l2 {
    pub(super) fn open(path: &Path, silence: Duration) -> Result<Self, Lost> {
        let opened = || {
            let device = Device::open(path)?;
            let offered = device.formats(BufType::VIDEO_CAPTURE).map(|format| format.map(|f| f.pixel_format()));
            let offered = offered.collect::<io::Result<Vec<_>>>()?;
            let wanted = choose(&offered)?;
            // The device's current size is used; `v4l2-ctl --set-fmt-video` changes it.
            let now = device.format(BufType::VIDEO_CAPTURE)?;
            let (width, height) = match &now {
                linuxvideo::format::Format::VideoCapture(format) => (format.width(), format.height()),
                _ => (640, 480),
            };
            let capture = device.video_capture(PixFormat::new(width, height, wanted))?;
            let layout = layout(capture.format())?;
            Ok(Self { camera: Box::new(Video(capture.into_stream()?)), layout, silence, waiting_since: None })
        };
        opened().map_err(|error: io::Error| Lost::Failed(format!("{}: {error}", path.display())))
    }
}

impl Source for V4l2 {
    fn next(&mut self) -> Result<Option<(Bytes, Option<String>)>, Lost> {
        let failed = |error: io::Error| Lost::Failed(format!("the camera: {error}"));
        let silent = || Lost::Failed(format!("the camera gave no frame for {:?}", self.silence));
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        while !self.camera.is_ready().map_err(failed)? {
            if since.elapsed() >= self.silence {
                return Err(silent());
            }
            thread::sleep(LOOK);
        }
        let frame = self.camera.take().map_err(failed)?;
        match frame.and_then(|bytes| encode(bytes, self.layout)) {
            Some(bytes) => {
                self.waiting_since = None;
                Ok(Some((bytes.into(), None)))
            }
            None if since.elapsed() >= self.silence => Err(silent()),
            None => Ok(None),
        }
    }
}

/// The best of the offered formats.
fn choose(offered: &[PixelFormat]) -> io::Result<PixelFormat> {
    FORMATS.into_iter().find(|format| offered.contains(format)).ok_or_else(|| {
        let reason = format!("expected one of the formats {FORMATS:?}, found {offered:?}");
        io::Error::new(io::ErrorKind::Unsupported, reason)
    })
}

/// The layout of frames in the format that the driver has chosen.
fn layout(format: &PixFormat) -> io::Result<Layout> {
    let (width, height) = (format.width() as usize, format.height() as usize);
    let stride = |least: usize| (format.bytes_per_line() as usize).max(least);
    match format.pixel_format() {
        PixelFormat::MJPG | PixelFormat::JPEG => Ok(Layout::Jpeg),
        PixelFormat::YUYV => Ok(Layout::Yuyv { width: width & !1, height, stride: stride(2 * width) }),
        PixelFormat::RGB3 => Ok(Layout::Rgb { width, height, stride: stride(3 * width) }),
        other => choose(&[other]).and(Err(io::ErrorKind::Unsupported.into())),
    }
}

/// Converts the frame to a file that the service can read; `None` if the frame is too short.
fn encode(bytes: Vec<u8>, layout: Layout) -> Option<Vec<u8>> {
    match layout {
        Layout::Jpeg => Some(jpeg::with_tables(bytes)),
        Layout::Rgb { width, height, stride } => {
            let mut file = format!("P6 {width} {height} 255\n").into_bytes();
            for row in 0..height {
                file.extend(bytes.get(row * stride..)?.get(..3 * width)?);
            }
            Some(file)
        }
        Layout::Yuyv { width, height, stride } => {
            let mut file = format!("P6 {width} {height} 255\n").into_bytes();
            for row in 0..height {
                let pairs = bytes.get(row * stride..)?.get(..2 * width)?;
                for [first, blue, second, red] in pairs.as_chunks::<4>().0 {
                    file.extend(rgb(*first, *blue, *red));
                    file.extend(rgb(*second, *blue, *red));
                }
            }
            Some(file)
        }
    }
}

/// Converts a pixel by ITU-R BT.601 with studio range, as cameras send it.
fn rgb(luma: u8, blue: u8, red: u8) -> [u8; 3] {
    let y = 255.0 / 219.0 * (f32::from(luma) - 16.0);
    let (b, r) = (255.0 / 224.0 * (f32::from(blue) - 128.0), 255.0 / 224.0 * (f32::from(red) - 128.0));
    [y + 1.402 * r, y - 0.344_136 * b - 0.714_136 * r, y + 1.772 * b].map(|v| v.round().clamp(0.0, 255.0) as u8)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use nae_infer::image::load_from_memory;

    use super::*;

    /// Returns the given frames, is busy now and then, and is then unplugged.
    struct Fake {
        frames: Vec<Option<Vec<u8>>>,
        busy: bool,
        hangs: bool,
    }

    impl Camera for Fake {
        fn is_ready(&mut self) -> io::Result<bool> {
            self.busy = !self.busy;
            Ok(!self.busy && !self.hangs)
        }

        fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
            if self.frames.is_empty() {
                return Err(io::Error::from_raw_os_error(19));
            }
            Ok(self.frames.remove(0))
        }
    }

    fn camera(frames: Vec<Option<Vec<u8>>>, layout: Layout, hangs: bool) -> V4l2 {
        let camera = Box::new(Fake { frames, busy: false, hangs });
        V4l2 { camera, layout, silence: Duration::from_millis(200), waiting_since: None }
    }

    #[test]
    fn frames_come_until_the_camera_is_unplugged() {
        let mut camera = camera(vec![Some(b"one".to_vec()), None, Some(b"two".to_vec())], Layout::Jpeg, false);
        let mut next = || camera.next().map(|frame| frame.map(|(bytes, _)| bytes.to_vec()));
        assert_eq!([next(), next(), next()], [Ok(Some(b"one".to_vec())), Ok(None), Ok(Some(b"two".to_vec()))]);
        let Err(Lost::Failed(reason)) = next() else { unreachable!() };
        assert!(reason.contains("No such device"), "{reason}");
    }

    #[test]
    fn a_camera_that_hangs_is_lost() {
        let lost = camera(Vec::new(), Layout::Jpeg, true).next();
        assert_eq!(lost, Err(Lost::Failed("the camera gave no frame for 200ms".into())));
    }

    /// Returns a damaged frame at every check, a given number of times.
    struct Damaged(usize);

    impl Camera for Damaged {
        fn is_ready(&mut self) -> io::Result<bool> {
            Ok(true)
        }

        fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::NotFound)?;
            thread::sleep(LOOK);
            Ok(None)
        }
    }

    #[test]
    fn a_camera_of_which_all_frames_are_damaged_is_lost() {
        let mut frames = vec![None; 1000];
        frames.insert(0, Some(b"one".to_vec()));
        let mut camera = camera(frames, Layout::Jpeg, false);
        assert!(camera.next().is_ok_and(|frame| frame.is_some()));
        let damaged = V4l2 { camera: Box::new(Damaged(1000)), ..self::camera(Vec::new(), Layout::Jpeg, false) };
        for mut camera in [camera, damaged] {
            let lost = std::iter::repeat_with(|| camera.next()).find_map(Result::err);
            assert_eq!(lost, Some(Lost::Failed("the camera gave no frame for 200ms".into())));
        }
    }

    #[test]
    fn a_device_that_is_none_is_lost_with_its_name() {
        for path in ["/dev/null", "/dev/video-nothing"] {
            let Err(Lost::Failed(reason)) = V4l2::open(Path::new(path), Duration::from_secs(1)).map(drop) else {
                unreachable!()
            };
            assert!(reason.contains(path), "{reason}");
        }
    }

    #[test]
    fn jpeg_is_taken_before_what_is_uncompressed() {
        let choose = |offered: &[PixelFormat]| choose(offered).ok();
        assert_eq!(choose(&[PixelFormat::YUYV, PixelFormat::MJPG]), Some(PixelFormat::MJPG));
        assert_eq!(choose(&[PixelFormat::RGB3]), Some(PixelFormat::RGB3));
        assert_eq!(choose(&[PixelFormat::BGR3]), None);
    }

    #[test]
    fn uncompressed_frames_have_their_colours() {
        // White, black, and a red pair, with two bytes of padding per row.
        let row = [235, 128, 16, 128, 81, 90, 81, 240, 7, 7];
        let layout = Layout::Yuyv { width: 4, height: 2, stride: 10 };
        let file = encode([row, row].concat(), layout).unwrap();
        let image = load_from_memory(&file).unwrap().to_rgb8();
        assert_eq!(image.dimensions(), (4, 2));
        let pixels: Vec<[u8; 3]> = image.pixels().map(|p| p.0).collect();
        assert_eq!(pixels[..2], [[255; 3], [0; 3]]);
        assert!(pixels[2][0] >= 253 && pixels[2][1] <= 2 && pixels[2][2] <= 2, "{:?}", pixels[2]);
        assert_eq!(encode(row.to_vec(), layout), None, "half a frame");
        let plain = encode(vec![1, 2, 3, 0, 4, 5, 6, 0], Layout::Rgb { width: 1, height: 2, stride: 4 }).unwrap();
        assert_eq!(load_from_memory(&plain).unwrap().to_rgb8().into_raw(), [1, 2, 3, 4, 5, 6]);
    }
}
