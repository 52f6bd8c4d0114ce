//! Heat maps: pictures of an error map, and the regions of the map above a threshold. The error map itself is
//! [`Scored::error_map`](crate::Scored::error_map).

use colorous::INFERNO;
use image::{Rgba, RgbaImage};

/// An error map: each pixel's contribution to the energy, row by row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeatMap<'a> {
    width: usize,
    values: &'a [f32],
}

/// A connected region of pixels above a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// The leftmost column.
    pub left: usize,
    /// The topmost row.
    pub top: usize,
    /// The number of columns of the bounding box, in pixels of the map.
    pub width: usize,
    /// The number of rows of the bounding box.
    pub height: usize,
    /// The number of pixels in the region.
    pub pixels: usize,
    /// The largest value of the region's pixels.
    pub largest: f32,
}

impl<'a> HeatMap<'a> {
    /// A map with rows of `width` values. `None` if the values are not a whole number of rows.
    pub fn new(values: &'a [f32], width: usize) -> Option<Self> {
        (width > 0 && values.len().is_multiple_of(width)).then_some(Self { width, values })
    }

    /// The number of pixels in a row.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    pub const fn height(&self) -> usize {
        self.values.len() / self.width
    }

    /// The largest value; 0 for an empty map.
    pub fn largest(&self) -> f32 {
        self.values.iter().copied().fold(0.0, f32::max)
    }

    /// A picture to overlay on the image, in the colours of matplotlib's *inferno*. A pixel with the value `full` or more is
    /// opaque and bright, a pixel with the value 0 is transparent.
    pub fn overlay(&self, full: f32) -> RgbaImage {
        RgbaImage::from_fn(self.width as u32, self.height() as u32, |x, y| {
            let value = self.values[y as usize * self.width + x as usize];
            let share = if full > 0.0 { f64::from((value / full).clamp(0.0, 1.0)) } else { 0.0 };
            let colour = INFERNO.eval_continuous(share);
            Rgba([colour.r, colour.g, colour.b, (share * 255.0).round() as u8])
        })
    }

    /// The regions of pixels above `threshold`, connected by sides or corners, ordered by their largest value, the largest
    /// first.
    pub fn regions(&self, threshold: f32) -> Vec<Region> {
        let (width, height) = (self.width, self.height());
        let mut waiting: Vec<bool> = self.values.iter().map(|&v| v > threshold).collect();
        let mut regions = Vec::new();
        for start in 0..waiting.len() {
            if !waiting[start] {
                continue;
            }
            waiting[start] = false;
            let mut open = vec![start];
            let (mut left, mut right, mut top, mut bottom) = (width, 0, height, 0);
            let (mut pixels, mut largest) = (0, f32::MIN);
            while let Some(at) = open.pop() {
                let (x, y) = (at % width, at / width);
                (left, right) = (left.min(x), right.max(x));
                (top, bottom) = (top.min(y), bottom.max(y));
                pixels += 1;
                largest = largest.max(self.values[at]);
                for near_y in y.saturating_sub(1)..=(y + 1).min(height - 1) {
                    for near_x in x.saturating_sub(1)..=(x + 1).min(width - 1) {
                        let near = near_y * width + near_x;
                        if std::mem::take(&mut waiting[near]) {
                            open.push(near);
                        }
                    }
                }
            }
            regions.push(Region { left, top, width: right - left + 1, height: bottom - top + 1, pixels, largest });
        }
        regions.sort_by(|a, b| b.largest.total_cmp(&a.largest));
        regions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_touch_by_corners_and_come_by_size_of_error() {
        #[rustfmt::skip]
        let values = [
            5.0, 0.0, 0.0, 0.0, 9.0,
            0.0, 6.0, 0.0, 0.0, 0.0,
            0.0, 0.0, 0.0, 1.0, 0.0,
        ];
        let map = HeatMap::new(&values, 5).unwrap_or_else(|| unreachable!());
        let regions = map.regions(2.0);
        assert_eq!(regions.len(), 2);
        assert_eq!(regions[0], Region { left: 4, top: 0, width: 1, height: 1, pixels: 1, largest: 9.0 });
        assert_eq!(regions[1], Region { left: 0, top: 0, width: 2, height: 2, pixels: 2, largest: 6.0 });
        assert!(map.regions(9.0).is_empty(), "a pixel at the threshold is not above it");
    }

    #[test]
    fn an_overlay_is_clear_at_nothing_and_full_from_its_scale_on() {
        let map = HeatMap::new(&[0.0, 0.5, 1.0, 7.0], 2).unwrap_or_else(|| unreachable!());
        let picture = map.overlay(1.0);
        assert_eq!(picture.dimensions(), (2, 2));
        assert_eq!([(0, 0), (1, 0), (0, 1), (1, 1)].map(|(x, y)| picture.get_pixel(x, y)[3]), [0, 128, 255, 255]);
        assert_eq!(picture.get_pixel(0, 1), picture.get_pixel(1, 1));
        assert_eq!(map.overlay(0.0).get_pixel(1, 1)[3], 0, "no scale, no picture");
    }

    #[test]
    fn only_whole_rows_are_a_map() {
        assert_eq!(HeatMap::new(&[0.0; 7], 2), None);
        assert_eq!(HeatMap::new(&[], 0), None);
        assert_eq!(HeatMap::new(&[], 3).map(|map| (map.largest(), map.regions(0.0).len())), Some((0.0, 0)));
    }
}
