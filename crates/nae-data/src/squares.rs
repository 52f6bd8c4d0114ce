//! Artificial local defects: outliers for models that score parts of larger images.
//!
//! Every image gets one square at a random place. All overlapping tiles that contain pixels of the square show the same
//! square.

use rand::{Rng, RngExt as _};

use crate::image_set::ImageSet;
use crate::parts::Part;

/// The content of a square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Pixels drawn independently and uniformly from [0, 1].
    Noise,
    /// One value, drawn uniformly from [0, 1].
    Gray,
    /// A square of the same size, copied from a random place of the next image.
    Another,
}

/// Returns `images`, cut into tiles or not, each image with one square of `side` pixels. `side` is reduced to a
/// sample's shorter side if that is smaller.
pub fn squares(images: &ImageSet, side: usize, fill: Fill, rng: &mut impl Rng) -> ImageSet {
    let shape = images.shape();
    let side = side.clamp(1, shape.height.min(shape.width));
    let wholes = images.units();
    let places: Vec<Part> = match images.parts() {
        Some(parts) => parts.places().to_vec(),
        None => (0..images.len()).map(|image| Part { whole: image as u32, top: 0, left: 0 }).collect(),
    };
    let mut values = images.values().to_vec();
    for (number, whole) in wholes.iter().enumerate() {
        let tiles = &places[whole.clone()];
        let end = |of: fn(&Part) -> u32| tiles.iter().map(|tile| of(tile) as usize).max().unwrap_or(0);
        let (height, width) = (end(|tile| tile.top) + shape.height, end(|tile| tile.left) + shape.width);
        let (top, left) = (rng.random_range(0..=height - side), rng.random_range(0..=width - side));
        let square = match fill {
            Fill::Noise => (0..shape.channels * side * side).map(|_| rng.random()).collect(),
            Fill::Gray => vec![rng.random(); shape.channels * side * side],
            Fill::Another => {
                let donor = wholes[(number + 1) % wholes.len()].clone();
                let tile = images.image(rng.random_range(donor));
                let (y, x) = (rng.random_range(0..=shape.height - side), rng.random_range(0..=shape.width - side));
                let planes = tile.chunks_exact(shape.height * shape.width);
                let rows = planes.flat_map(|plane| plane.chunks_exact(shape.width).skip(y).take(side));
                rows.flat_map(|row| row[x..x + side].iter().copied()).collect::<Vec<f32>>()
            }
        };
        for index in whole.clone() {
            let (from_top, from_left) = (places[index].top as usize, places[index].left as usize);
            let tile = &mut values[index * shape.len()..][..shape.len()];
            for (plane, square) in
                tile.chunks_exact_mut(shape.height * shape.width).zip(square.chunks_exact(side * side))
            {
                for (at, &value) in square.iter().enumerate() {
                    let (y, x) = ((top + at / side).wrapping_sub(from_top), (left + at % side).wrapping_sub(from_left));
                    if y < shape.height && x < shape.width {
                        plane[y * shape.width + x] = value;
                    }
                }
            }
        }
    }
    images.with_values(values)
}

#[cfg(test)]
mod tests {
    use nae_core::Shape;
    use rand::SeedableRng as _;

    use super::*;
    use crate::parts::Parts;

    #[test]
    fn overlapping_tiles_see_the_same_square() {
        // Two images of 4 rows and 6 columns, in tiles of 4×4 that are two columns apart.
        let places: Vec<Part> =
            [(0, 0), (0, 2), (1, 0), (1, 2)].into_iter().map(|(whole, left)| Part { whole, top: 0, left }).collect();
        let shape = Shape::new(1, 4, 4);
        let images = ImageSet::new(shape, vec![0.5; 4 * 16], vec![0; 4]).expect("valid");
        let images = images.with_parts(Parts::tiles(places, 1)).expect("as many");
        for seed in 0..20 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let made = squares(&images, 2, Fill::Noise, &mut rng);
            for (a, b) in [(0, 1), (2, 3)] {
                let (a, b) = (made.image(a), made.image(b));
                let changed: usize = a.iter().chain(b).filter(|&&v| v != 0.5).count();
                assert!((4..=8).contains(&changed), "{changed}");
                for y in 0..4 {
                    assert_eq!(a[y * 4 + 2..][..2], b[y * 4..][..2]);
                }
            }
            assert_eq!(squares(&images, 2, Fill::Another, &mut rng).values(), images.values());
        }
    }

    #[test]
    fn whole_images_get_a_square_too() {
        let images = ImageSet::new(Shape::new(2, 5, 6), vec![0.25; 3 * 60], vec![0; 3]).expect("valid");
        let made = squares(&images, 3, Fill::Gray, &mut rand_chacha::ChaCha8Rng::seed_from_u64(4));
        for image in (0..3).map(|index| made.image(index)) {
            assert_eq!(image.iter().filter(|&&v| v != 0.25).count(), 2 * 9);
        }
    }
}
