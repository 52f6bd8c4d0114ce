//! Pictures for browsers, and the pictures of alarms on disk: the frame and its heat map, within a size limit; the
//! oldest are removed first. An alarm is raised even if its picture cannot be stored.

use std::collections::BTreeMap;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use nae_infer::Scored;
use nae_infer::image::{self, ImageFormat, Rgba, RgbaImage};
use nae_infer::input::decode_upright;

use super::private_folder::private_folder;
use super::regions::View;
use super::shown::Shown;

/// The maximum width and height of a thumbnail, in pixels.
const THUMBNAIL: (u32, u32) = (480, 360);
/// The size in bytes below which a picture is not made smaller.
const SMALL_FILE: usize = 32 << 10;

/// The maximum length in pixels of the longer side of a heat map of a part of a frame; browsers scale it.
const LARGEST_MAP: u32 = 640;

/// The kinds of pictures of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The image from the camera.
    Image,
    /// The heat map, to be laid over the image.
    HeatMap,
}

impl Kind {
    /// Both kinds.
    pub(crate) const ALL: [Self; 2] = [Self::Image, Self::HeatMap];

    /// The end of the file's name.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::HeatMap => "heat-map",
        }
    }
}

/// Makes a picture of the frame for browsers; `None` if that fails.
pub(crate) fn picture(shown: &Shown, kind: Kind) -> Option<Bytes> {
    match kind {
        Kind::Image => whole(&shown.frame.image),
        Kind::HeatMap => overlay(&shown.scored, shown.full_error, shown.looked.view.as_deref()),
    }
}

/// The whole frame in a format for browsers; `None` if it cannot be read.
pub(crate) fn whole(frame: &Bytes) -> Option<Bytes> {
    match media_type(frame) {
        Some(_) => Some(frame.clone()),
        None => png(&decode_upright(frame).ok()?),
    }
}

/// A small version of a frame, for pages that show many; `None` if the frame cannot be read.
pub(crate) fn thumbnail(frame: &Bytes) -> Option<Bytes> {
    if frame.len() <= SMALL_FILE && media_type(frame).is_some() {
        return Some(frame.clone());
    }
    small_jpeg(frame, THUMBNAIL).map(Bytes::from)
}

/// The heat map of a score, fully opaque at pixels with the error `full_error`, to be laid over the whole frame. If
/// regions limited the model to a part of the frame, the map covers that part.
pub(crate) fn overlay(scored: &Scored, full_error: f32, view: Option<&View>) -> Option<Bytes> {
    let map = scored.heat_map()?.overlay(full_error);
    let map = match view {
        Some(view) => placed(&map, view),
        None => map,
    };
    png(&image::DynamicImage::ImageRgba8(map))
}

/// Puts the map of a part of a frame in its place, in a picture with the frame's proportions that is transparent
/// elsewhere.
fn placed(map: &RgbaImage, view: &View) -> RgbaImage {
    let (width, height) = view.frame();
    let [left, top, across, down] = view.place();
    let scale = (f64::from(LARGEST_MAP) / width.max(height) as f64).min(1.0);
    let side = |pixels: usize| ((pixels as f64 * scale).round() as u32).max(1);
    let (width, height) = (side(width), side(height));
    // Maps the centre of a pixel of the picture to the pixel of the map below it.
    let below = |at: u32, of: u32, begin: f32, length: f32, pixels: u32| {
        let share = ((at as f32 + 0.5) / of as f32 - begin) / length;
        (0.0..1.0).contains(&share).then(|| ((share * pixels as f32) as u32).min(pixels.saturating_sub(1)))
    };
    RgbaImage::from_fn(width, height, |x, y| {
        let x = below(x, width, left, across, map.width());
        let y = below(y, height, top, down, map.height());
        x.zip(y).and_then(|(x, y)| map.get_pixel_checked(x, y)).copied().unwrap_or(Rgba([0; 4]))
    })
}

/// Converts a frame to JPEG, reduced to fit into the given width and height in pixels; `None` if it cannot be read.
pub(crate) fn small_jpeg(frame: &[u8], (width, height): (u32, u32)) -> Option<Vec<u8>> {
    // Browsers rotate a frame by its orientation tag; the picture made from it has no tag.
    let picture = decode_upright(frame).ok()?;
    let fits = picture.width() <= width && picture.height() <= height;
    let picture = if fits { picture } else { picture.thumbnail(width, height) };
    let mut bytes = Cursor::new(Vec::new());
    // JPEG supports neither transparency nor 16 bits.
    picture.to_rgb8().write_to(&mut bytes, ImageFormat::Jpeg).ok()?;
    Some(bytes.into_inner())
}

fn png(picture: &image::DynamicImage) -> Option<Bytes> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).ok()?;
    Some(bytes.into_inner().into())
}

/// The media type of a picture that browsers can show, by its first bytes.
pub(crate) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match image::guess_format(bytes) {
        Ok(ImageFormat::Png) => Some("image/png"),
        Ok(ImageFormat::Jpeg) => Some("image/jpeg"),
        _ => None,
    }
}

/// The longest time that a request waits for pictures that are being made, which usually takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pictures of alarms.
pub(crate) struct Pictures {
    folder: PathBuf,
    limit: u64,
    /// By the number of the alarm.
    kept: Mutex<BTreeMap<u64, Kept>>,
    /// The alarm whose pictures are being made. Its receivers are told of it first, and may ask for them at once.
    making: Mutex<Option<u64>>,
    made: Condvar,
}

/// The pictures of one alarm.
#[derive(Clone, Copy)]
struct Kept {
    bytes: u64,
    /// The order of storing: greater than that of all earlier ones. The numbers of alarms are not in this order, since
    /// a new journal begins at 0.
    order: u64,
}

impl Pictures {
    /// Opens the pictures in the folder, which is created if it does not exist.
    ///
    /// # Errors
    /// If the folder can be neither created nor listed.
    pub(crate) fn open(state: &Path, limit: u64) -> io::Result<Self> {
        let folder = state.join("pictures");
        private_folder(&folder)?;
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.split_once('-')?.0.parse::<u64>().ok());
            if let (Some(number), Ok(metadata)) = (number, entry.metadata()) {
                let (bytes, stored) = found.entry(number).or_insert((0, SystemTime::UNIX_EPOCH));
                *bytes += metadata.len();
                *stored = metadata.modified().map_or(*stored, |modified| modified.max(*stored));
            }
        }
        let mut oldest_first: Vec<_> = found.into_iter().collect();
        // Pictures with the same time stay in the order of their alarms' numbers.
        oldest_first.sort_by_key(|(_, (_, stored))| *stored);
        let kept =
            (0..).zip(oldest_first).map(|(order, (number, (bytes, _)))| (number, Kept { bytes, order })).collect();
        Ok(Self { folder, limit, kept: Mutex::new(kept), making: Mutex::new(None), made: Condvar::new() })
    }

    fn path(&self, alarm: u64, kind: Kind) -> PathBuf {
        self.folder.join(format!("{alarm}-{}", kind.suffix()))
    }

    /// Says that the pictures of an alarm will be [kept](Self::keep) soon: who reads them waits for that.
    pub(crate) fn announce(&self, alarm: u64) {
        *self.making.lock().unwrap_or_else(PoisonError::into_inner) = Some(alarm);
    }

    /// Stores both pictures of the frame that raised an alarm.
    ///
    /// # Errors
    /// If they exceed the size limit, or the disk is full; in that case, neither is kept.
    pub(crate) fn keep(&self, alarm: u64, shown: &Shown) -> io::Result<()> {
        let stored = self.store(alarm, shown);
        *self.making.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.made.notify_all();
        stored
    }

    fn store(&self, alarm: u64, shown: &Shown) -> io::Result<()> {
        let pictures: Vec<_> = Kind::ALL.iter().filter_map(|&kind| Some((kind, picture(shown, kind)?))).collect();
        let bytes: u64 = pictures.iter().map(|(_, picture)| picture.len() as u64).sum();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // A picture of an alarm with the same number in a previous journal.
        if kept.remove(&alarm).is_some() {
            self.remove(alarm);
        }
        if bytes > self.limit {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the room for pictures is smaller than this one"));
        }
        while kept.values().map(|kept| kept.bytes).sum::<u64>() + bytes > self.limit {
            let Some((&oldest, _)) = kept.iter().min_by_key(|(_, kept)| kept.order) else { break };
            kept.remove(&oldest);
            self.remove(oldest);
        }
        for (kind, picture) in pictures {
            if let Err(error) = nae_onnx::file::write(self.path(alarm, kind), &picture) {
                self.remove(alarm);
                return Err(io::Error::other(error));
            }
        }
        let order = kept.values().map(|kept| kept.order + 1).max().unwrap_or(0);
        kept.insert(alarm, Kept { bytes, order });
        Ok(())
    }

    fn remove(&self, alarm: u64) {
        for kind in Kind::ALL {
            // A missing file is not an error.
            let _ = std::fs::remove_file(self.path(alarm, kind));
        }
    }

    /// Whether there are pictures of an alarm.
    pub(crate) fn has(&self, alarm: u64) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&alarm)
    }

    /// Reads a picture of an alarm; waits up to [`PATIENCE`] for one that is being made.
    pub(crate) fn read(&self, alarm: u64, kind: Kind) -> Option<Bytes> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.made.wait_timeout_while(making, PATIENCE, |making| *making == Some(alarm));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        if !self.has(alarm) {
            return None;
        }
        let path = self.path(alarm, kind);
        match std::fs::read(&path) {
            Ok(bytes) => Some(bytes.into()),
            Err(error) => {
                tracing::warn!(alarm, "the picture {} cannot be read: {error}", path.display());
                None
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use nae_infer::Shape;
    use nae_infer::input::Pixels;

    use super::super::regions::{Applied, Regions};
    use super::super::shown::{Looked, Taken};
    use super::*;

    fn shown(image: Vec<u8>) -> Shown {
        let error_map = vec![0.0, 0.25, 0.5, 1.0];
        let error_map_shape = nae_infer::Shape::new(1, 2, 2);
        let scored = Scored { energy: 1.0, p_value: None, verdict: None, latent: None, error_map, error_map_shape };
        let looked = Looked { regions: Applied::new(Regions::default()), view: None };
        let frame = Taken { number: 1, image: image.into(), name: None, at: std::time::Instant::now() };
        Shown { frame, scored, full_error: 1.0, looked }
    }

    /// `bytes` bytes that begin like a JPEG.
    fn jpeg(bytes: usize) -> Vec<u8> {
        let mut image = vec![0xFF, 0xD8, 0xFF];
        image.resize(bytes, 0);
        image
    }

    /// A receiver asks for the picture as soon as it is told of the alarm.
    #[test]
    fn who_asks_for_a_picture_that_is_being_made_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let pictures = Pictures::open(folder.path(), 1 << 20).unwrap();
        pictures.announce(7);
        assert_eq!(pictures.read(6, Kind::Image), None, "another alarm");
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| pictures.read(7, Kind::Image));
            std::thread::sleep(Duration::from_millis(100));
            pictures.keep(7, &shown(jpeg(100))).unwrap();
            assert_eq!(asked.join().unwrap().map(|bytes| bytes.len()), Some(100));
        });
        // Not announced, or not kept: nobody waits.
        pictures.announce(8);
        pictures.keep(8, &shown(jpeg(2 << 20))).unwrap_err();
        let before = std::time::Instant::now();
        assert_eq!(pictures.read(8, Kind::Image), None);
        assert!(before.elapsed() < PATIENCE);
    }

    #[test]
    fn a_frame_of_any_kind_becomes_a_small_jpeg() {
        for (size, largest, expected) in [((40, 20), (10, 10), (10, 5)), ((40, 20), (100, 100), (40, 20))] {
            let picture = image::DynamicImage::new_rgba16(size.0, size.1);
            let small = small_jpeg(&png(&picture).unwrap(), largest).unwrap();
            assert_eq!(media_type(&small), Some("image/jpeg"));
            let small = image::load_from_memory(&small).unwrap();
            assert_eq!((small.width(), small.height()), expected);
        }
        assert_eq!(small_jpeg(b"no image", (10, 10)), None);
    }

    /// A white pixel left of a black one; the file's orientation tag turns the image by a quarter to the right.
    fn turned(format: ImageFormat) -> Vec<u8> {
        use nae_infer::image::ImageEncoder as _;
        use nae_infer::image::codecs::{jpeg::JpegEncoder, webp::WebPEncoder};

        let picture = image::RgbImage::from_fn(32, 16, |x, _| image::Rgb([if x < 16 { 255 } else { 0 }; 3]));
        let tag = [0x112_u16.to_be_bytes(), [0, 3], [0, 0], [0, 1], [0, 6], [0, 0]].concat();
        let exif = [b"MM\0*\0\0\0\x08\0\x01", &tag[..], &[0; 4]].concat();
        let mut bytes = Vec::new();
        let (pixels, width, height) = (picture.as_raw(), picture.width(), picture.height());
        let colour = image::ExtendedColorType::Rgb8;
        if format == ImageFormat::Jpeg {
            let mut encoder = JpegEncoder::new(&mut bytes);
            encoder.set_exif_metadata(exif).unwrap();
            encoder.write_image(pixels, width, height, colour).unwrap();
        } else {
            let mut encoder = WebPEncoder::new_lossless(&mut bytes);
            encoder.set_exif_metadata(exif).unwrap();
            encoder.write_image(pixels, width, height, colour).unwrap();
        }
        bytes
    }

    /// A newly encoded picture has no tag by which a browser would rotate it.
    #[test]
    fn pictures_are_upright() {
        let upright = |bytes: &[u8]| {
            let picture = image::load_from_memory(bytes).unwrap().to_luma8();
            let (top, bottom) = (picture.get_pixel(0, 0).0[0], picture.get_pixel(0, picture.height() - 1).0[0]);
            picture.dimensions() == (16, 32) && top > 200 && bottom < 50
        };
        for format in [ImageFormat::Jpeg, ImageFormat::WebP] {
            assert!(upright(&small_jpeg(&turned(format), (100, 100)).unwrap()), "{format:?}");
        }
        let webp = turned(ImageFormat::WebP);
        assert!(upright(&whole(&webp.clone().into()).unwrap()));
        assert!(upright(&thumbnail(&webp.into()).unwrap()));
        // The browser rotates this one.
        let jpeg = Bytes::from(turned(ImageFormat::Jpeg));
        assert_eq!(whole(&jpeg).unwrap(), jpeg);
    }

    #[test]
    fn a_thumbnail_is_made_only_of_what_is_large() {
        let small = png(&image::DynamicImage::new_rgb8(16, 16)).unwrap();
        assert_eq!(thumbnail(&Bytes::from(small.to_vec())), Some(small));
        let grey = b"P5 2 1 255\n\x00\xFF".to_vec();
        assert_eq!(media_type(&thumbnail(&Bytes::from(grey)).unwrap()), Some("image/jpeg"), "as browsers show it");
        // Noise cannot be compressed.
        let noise = image::RgbImage::from_fn(1920, 1080, |x, y| {
            image::Rgb((x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503)).to_le_bytes()[1..].try_into().unwrap())
        });
        let large = png(&noise.into()).unwrap();
        let made = thumbnail(&Bytes::from(large.to_vec())).unwrap();
        assert!(made.len() < large.len() / 10, "{} of {}", made.len(), large.len());
        let made = image::load_from_memory(&made).unwrap();
        assert_eq!((made.width(), made.height()), (480, 270));
        assert_eq!(thumbnail(&Bytes::from(b"nothing".to_vec())), None);
    }

    /// The map of a part of a frame is in the place of that part, and the rest is transparent.
    #[test]
    fn a_heat_map_is_laid_over_the_whole_frame() {
        let right = r#"[{"kind": "include", "vertices": [[0.5, 0], [1, 0], [1, 0.5], [0.5, 0.5]]}]"#;
        let applied = Applied::new(Regions::from_json(right).unwrap());
        for (frame, expected) in [((8, 4), (8, 4)), ((1920, 1080), (640, 360))] {
            let pixels = Pixels { shape: Shape::new(1, frame.1, frame.0), values: vec![0.0; frame.0 * frame.1] };
            let view = applied.look(pixels).unwrap().into_view();
            let looked = Looked { regions: Arc::clone(&applied), view };
            let picture = picture(&Shown { looked, ..shown(jpeg(3)) }, Kind::HeatMap).unwrap();
            let picture = image::load_from_memory(&picture).unwrap().to_rgba8();
            assert_eq!(picture.dimensions(), expected);
            let map = shown(jpeg(3)).scored.heat_map().unwrap().overlay(1.0);
            for (x, y, pixel) in picture.enumerate_pixels() {
                let (width, height) = expected;
                let inside = x >= width / 2 && y < height / 2;
                let part = || *map.get_pixel(u32::from(x >= width * 3 / 4), u32::from(y >= height / 4));
                assert_eq!(*pixel, if inside { part() } else { Rgba([0; 4]) }, "({x}, {y}) of {frame:?}");
            }
        }
    }

    #[test]
    fn browsers_get_what_they_can_show() {
        let grey = b"P5 2 1 255\n\x00\xFF".to_vec();
        assert_eq!(media_type(&grey), None);
        let picture = picture(&shown(grey), Kind::Image).unwrap();
        assert_eq!(media_type(&picture), Some("image/png"));
        assert_eq!(image::load_from_memory(&picture).unwrap().to_luma8().into_raw(), [0, 255]);
        assert_eq!(super::picture(&shown(b"nothing".to_vec()), Kind::Image), None);
    }

    #[test]
    fn the_oldest_go_when_the_room_is_full_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let pictures = Pictures::open(folder.path(), 25_000).unwrap();
        (1..=2).for_each(|alarm| pictures.keep(alarm, &shown(jpeg(10_000))).unwrap());
        drop(pictures);
        let pictures = Pictures::open(folder.path(), 25_000).unwrap();
        pictures.keep(3, &shown(jpeg(10_000))).unwrap();
        assert_eq!([1, 2, 3].map(|alarm| pictures.has(alarm)), [false, true, true]);
        assert_eq!(pictures.read(3, Kind::Image).unwrap(), jpeg(10_000));
        assert_eq!(media_type(&pictures.read(2, Kind::HeatMap).unwrap()), Some("image/png"));
        assert_eq!(std::fs::read_dir(folder.path().join("pictures")).unwrap().count(), 4);
        let error = pictures.keep(4, &shown(jpeg(30_000))).unwrap_err();
        assert_eq!((error.kind(), pictures.has(2)), (io::ErrorKind::StorageFull, true));
    }

    #[test]
    fn pictures_of_a_new_journal_which_begins_at_0_are_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let pictures = Pictures::open(folder.path(), 25_000).unwrap();
        (3000..=3001).for_each(|alarm| pictures.keep(alarm, &shown(jpeg(10_000))).unwrap());
        (0..=1).for_each(|alarm| pictures.keep(alarm, &shown(jpeg(10_000))).unwrap());
        assert_eq!([0, 1, 3000, 3001].map(|alarm| pictures.has(alarm)), [true, true, false, false]);
        drop(pictures);
        // After a restart, the order follows the files' times.
        let now = SystemTime::now();
        for (alarm, seconds) in [(0, 20), (1, 10)] {
            for kind in Kind::ALL {
                let path = folder.path().join(format!("pictures/{alarm}-{}", kind.suffix()));
                let stored = now - std::time::Duration::from_secs(seconds);
                std::fs::File::open(path).unwrap().set_modified(stored).unwrap();
            }
        }
        let swapped = Pictures::open(folder.path(), 25_000).unwrap();
        swapped.keep(2, &shown(jpeg(10_000))).unwrap();
        assert_eq!([0, 1, 2].map(|alarm| swapped.has(alarm)), [false, true, true]);
        // The earlier picture is removed whether there is room or not: it belongs to another alarm with the same
        // number.
        assert!(swapped.keep(2, &shown(jpeg(30_000))).is_err());
        assert!(!swapped.has(2) && !folder.path().join("pictures/2-image").exists());
        swapped.keep(1, &shown(jpeg(9000))).unwrap();
        swapped.keep(2, &shown(jpeg(9000))).unwrap();
        assert_eq!(swapped.read(1, Kind::Image).unwrap(), jpeg(9000));
    }

    #[test]
    fn a_disk_that_refuses_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let pictures = Pictures::open(folder.path(), 1 << 20).unwrap();
        // A folder of this name prevents the heat map from being written.
        std::fs::create_dir(folder.path().join("pictures/5-heat-map")).unwrap();
        assert!(pictures.keep(5, &shown(jpeg(10))).is_err());
        assert!(!pictures.has(5) && !folder.path().join("pictures/5-image").exists());
    }
}
