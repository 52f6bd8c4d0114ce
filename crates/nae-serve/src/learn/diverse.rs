//! Selects the frames to keep: those that differ from every frame that is already kept. A camera whose view does not
//! change for an hour gives thousands of frames that contain no more information than one.
//!
//! The measure is coarse on purpose. Each frame is averaged into 16×16 grey cells, and the distance of two frames is
//! the mean absolute difference of their cells, in levels of 0 to 255. A cell of a frame of 640×480 is the mean of
//! 1,200 pixels, which removes most of a sensor's noise: of 60 JPEG frames of one scene in colour with noise of 15
//! levels (ffmpeg's `noise=alls=30:allf=t`), 18 were kept at a distance of 0.5 and one at 1. Movement and changes of
//! light remain. An object that covers 1/64 of the picture and differs from its background by 64 levels has a distance
//! of one level: that is [`APART`]. Of such an object of 1/32 that crosses the picture in 50 frames, 17 frames were
//! kept at 1, and 10 at 2; the commands are in `docs/camera.md`. Smaller changes are noticed only with a smaller
//! setting; 0 keeps every frame.

use nae_infer::input::Pixels;

/// The number of cells per side.
const SIDE: usize = 16;
/// The default minimum distance from the nearest kept frame.
pub(crate) const APART: f32 = 1.0;

/// A frame in 16×16 grey cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thumbnail([u8; SIDE * SIDE]);

impl Thumbnail {
    /// The mean over the channels and pixels in each cell. In a picture with fewer pixels than cells, several cells
    /// have the same pixel.
    pub(super) fn of(pixels: &Pixels) -> Self {
        // No side is 0; `max` only keeps chunks and divisions from a panic.
        let (channels, height, width) = (pixels.shape.channels.max(1), pixels.shape.height, pixels.shape.width.max(1));
        let mut sums = [(0.0_f32, 0_usize); SIDE * SIDE];
        let columns: Vec<usize> = (0..width).map(|x| x * SIDE / width).collect();
        for (y, row) in pixels.values.chunks_exact(channels * width).take(height).enumerate() {
            let cells = y * SIDE / height * SIDE;
            for (pixel, column) in row.chunks_exact(channels).zip(&columns) {
                let (sum, count) = &mut sums[cells + column];
                *sum += pixel.iter().sum::<f32>();
                *count += channels;
            }
        }
        let mut last = 0.0;
        Self(sums.map(|(sum, count)| {
            // In a small picture, a cell without a pixel has the value of the previous one.
            last = if count == 0 { last } else { sum / count as f32 };
            (255.0 * last).round().clamp(0.0, 255.0) as u8
        }))
    }

    /// The mean absolute difference of the cells, in levels of 0 to 255.
    fn distance(&self, other: &Self) -> f32 {
        let sum: u32 = self.0.iter().zip(&other.0).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
        sum as f32 / (SIDE * SIDE) as f32
    }
}

/// The thumbnails of the kept frames.
pub(super) struct Kept {
    apart: f32,
    thumbnails: Vec<Thumbnail>,
}

impl Kept {
    /// An empty list; frames that differ by less than `apart` from a kept one are to be dropped.
    pub(super) fn new(apart: f32) -> Self {
        Self { apart, thumbnails: Vec::new() }
    }

    /// Whether a frame differs enough from all kept ones.
    pub(super) fn lacks(&self, frame: &Thumbnail) -> bool {
        // The newest are the most likely to be similar.
        self.thumbnails.iter().rev().all(|kept| kept.distance(frame) >= self.apart)
    }

    pub(super) fn add(&mut self, frame: Thumbnail) {
        self.thumbnails.push(frame);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use nae_infer::Shape;
    use nae_infer::input::decode;

    use super::*;

    /// A grey picture.
    fn picture(side: usize, value: impl Fn(usize, usize) -> f32) -> Pixels {
        let values = (0..side * side).map(|i| value(i / side, i % side)).collect();
        Pixels { shape: Shape::new(1, side, side), values }
    }

    /// A colour picture as a camera's frame is decoded.
    fn colours(side: usize, colour: impl Fn(usize, usize) -> [u8; 3]) -> Pixels {
        let pixels = (0..side * side).flat_map(|i| colour(i / side, i % side)).collect::<Vec<u8>>();
        decode(&[format!("P6 {side} {side} 255\n").as_bytes(), &pixels].concat()).unwrap()
    }

    #[test]
    fn cells_are_means_of_all_channels() {
        // Cells of 2 x 2 pixels: 51 and 153 alternate by columns, in two of three channels; the third is black.
        let thumbnail = Thumbnail::of(&colours(32, |_, x| if x % 2 == 0 { [51, 51, 0] } else { [153, 153, 0] }));
        // (102 + 102 + 0) / 3.
        assert_eq!(thumbnail, Thumbnail([68; SIDE * SIDE]));
    }

    #[test]
    fn a_cell_has_the_pixels_of_its_place_in_the_picture() {
        let thumbnail = Thumbnail::of(&colours(32, |y, x| if y < 2 && x >= 30 { [255; 3] } else { [0; 3] }));
        let white: Vec<usize> = (0..SIDE * SIDE).filter(|&cell| thumbnail.0[cell] != 0).collect();
        assert_eq!((white, thumbnail.0[SIDE - 1]), (vec![SIDE - 1], 255));
    }

    #[test]
    fn an_object_in_nine_places_of_a_colour_picture_is_nine_frames() {
        let mut kept = Kept::new(APART);
        for place in 0..9 {
            // A third of the picture apart, in both directions.
            let (top, left) = (20 + 160 * (place / 3), 20 + 160 * (place % 3));
            let in_it = |y, x| (top..top + 120).contains(&y) && (left..left + 120).contains(&x);
            let frame = Thumbnail::of(&colours(480, |y, x| if in_it(y, x) { [255; 3] } else { [100; 3] }));
            assert!(kept.lacks(&frame), "place {place}");
            kept.add(frame);
        }
    }

    #[test]
    fn a_picture_smaller_than_the_cells_has_one_too() {
        let thumbnail = Thumbnail::of(&picture(1, |_, _| 1.0));
        assert_eq!(thumbnail, Thumbnail([255; SIDE * SIDE]));
    }

    #[test]
    fn noise_is_alike_and_an_object_is_not() {
        let noise = |seed: usize| {
            move |y: usize, x: usize| {
                let hash = (y * 640 + x + seed * 7_919).wrapping_mul(2_654_435_761) >> 8;
                // Uniform over 35 levels: a standard deviation of 10.
                0.5 + ((hash % 1000) as f32 / 1000.0 - 0.5) * 35.0 / 255.0
            }
        };
        let mut kept = Kept::new(APART);
        kept.add(Thumbnail::of(&picture(480, noise(0))));
        for seed in 1..20 {
            assert!(!kept.lacks(&Thumbnail::of(&picture(480, noise(seed)))), "noise {seed}");
        }
        // 64 levels brighter, in 480 x 480 pixels: 63 x 63 are a little more than 1/64.
        let object = |side: usize| {
            let seen = move |y: usize, x: usize| noise(3)(y, x) + if y < side && x < side { 64.0 / 255.0 } else { 0.0 };
            Thumbnail::of(&picture(480, seen))
        };
        assert!(!kept.lacks(&object(40)));
        let object = object(63);
        assert!(kept.lacks(&object));
        kept.add(object.clone());
        assert!(!kept.lacks(&object), "the same again");
        assert!(Kept { apart: 0.0, ..kept }.lacks(&object), "0 keeps every frame");
    }
}
