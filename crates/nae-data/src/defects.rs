//! Artificial defects in images of any size, made before the images are converted to a form, so that forms can be
//! compared by how well they show the same defect.
//!
//! No model is trained on them. `squares` makes defects in samples that already have their form.

use std::f64::consts::TAU;

use nae_input::Pixels;
use rand::{Rng, RngExt as _};

/// A kind of defect. Sizes are fractions of the image's shorter side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// A square with a side of 1/8, copied from a random place of another image.
    Square,
    /// A straight line of length 1/3 and width 1/64, lighter or darker by 0.3 to 0.6.
    Scratch,
    /// A square with a side of 1/4, in which each pixel is the mean of its neighbourhood of width 1/16.
    Blur,
}

impl Defect {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Square, Self::Scratch, Self::Blur];

    /// The name of the defect in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Square => "squares from other images",
            Self::Scratch => "scratches",
            Self::Blur => "blurs",
        }
    }

    /// Returns `image` with one such defect at a random place; content of other images is copied from `donor`.
    pub fn made_in(self, image: &Pixels, donor: &Pixels, rng: &mut impl Rng) -> Pixels {
        match self {
            Self::Square => square(image, donor, rng),
            Self::Scratch => scratch(image, rng),
            Self::Blur => blur(image, rng),
        }
    }
}

fn part(image: &Pixels, of: usize) -> usize {
    (image.shape.height.min(image.shape.width) / of).max(1)
}

/// The upper left corner of a square of `side` pixels at a random place in `image`.
fn corner(image: &Pixels, side: usize, rng: &mut impl Rng) -> (usize, usize) {
    (rng.random_range(0..=image.shape.height - side), rng.random_range(0..=image.shape.width - side))
}

/// The value of `channel` at a pixel of `donor`, or the mean of the pixel's channels if the two images differ in their
/// number.
fn channel(donor: &Pixels, y: usize, x: usize, channel: usize, channels: usize) -> f32 {
    let from = donor.shape.channels;
    let pixel = &donor.values[(y * donor.shape.width + x) * from..][..from];
    if from == channels { pixel[channel] } else { pixel.iter().sum::<f32>() / from as f32 }
}

fn square(image: &Pixels, donor: &Pixels, rng: &mut impl Rng) -> Pixels {
    let side = part(image, 8).min(donor.shape.height).min(donor.shape.width);
    let (top, left) = corner(image, side, rng);
    let (from_top, from_left) = corner(donor, side, rng);
    let (width, channels) = (image.shape.width, image.shape.channels);
    let mut values = image.values.clone();
    for (y, x) in (0..side * side).map(|at| (at / side, at % side)) {
        for c in 0..channels {
            values[((top + y) * width + left + x) * channels + c] =
                channel(donor, from_top + y, from_left + x, c, channels);
        }
    }
    Pixels { values, ..*image }
}

fn scratch(image: &Pixels, rng: &mut impl Rng) -> Pixels {
    let (height, width, channels) = (image.shape.height, image.shape.width, image.shape.channels);
    let (length, thickness) = (part(image, 3), part(image, 64));
    let angle = rng.random_range(0.0..TAU);
    let (y, x) = (rng.random_range(0..height) as f64, rng.random_range(0..width) as f64);
    let change = rng.random_range(0.3f32..0.6) * if rng.random_bool(0.5) { 1.0 } else { -1.0 };
    let mut inside = vec![false; height * width];
    // In steps of half a pixel, so that no pixel on the line is left out.
    for (along, across) in (0..2 * length).flat_map(|along| (0..2 * thickness).map(move |across| (along, across))) {
        let (along, across) = (0.5 * along as f64 - 0.5 * length as f64, 0.5 * across as f64);
        let row = y + along * angle.sin() + across * angle.cos();
        let column = x + along * angle.cos() - across * angle.sin();
        if row >= 0.0 && column >= 0.0 && (row as usize) < height && (column as usize) < width {
            inside[row as usize * width + column as usize] = true;
        }
    }
    let mut values = image.values.clone();
    for (pixel, _) in values.chunks_exact_mut(channels).zip(inside).filter(|(_, inside)| *inside) {
        pixel.iter_mut().for_each(|value| *value = (*value + change).clamp(0.0, 1.0));
    }
    Pixels { values, ..*image }
}

fn blur(image: &Pixels, rng: &mut impl Rng) -> Pixels {
    let (width, channels) = (image.shape.width, image.shape.channels);
    let (side, reach) = (part(image, 4), part(image, 32));
    let (top, left) = corner(image, side, rng);
    let mut values = image.values.clone();
    for (y, x) in (0..side * side).map(|at| (top + at / side, left + at % side)) {
        let rows = y.saturating_sub(reach)..(y + reach + 1).min(image.shape.height);
        let columns = x.saturating_sub(reach)..(x + reach + 1).min(width);
        let count = (rows.len() * columns.len()) as f32;
        for c in 0..channels {
            let neighbours = rows.clone().flat_map(|row| columns.clone().map(move |column| row * width + column));
            values[(y * width + x) * channels + c] =
                neighbours.map(|at| image.values[at * channels + c]).sum::<f32>() / count;
        }
    }
    Pixels { values, ..*image }
}

#[cfg(test)]
mod tests {
    use nae_core::Shape;
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn plain(shape: Shape, value: f32) -> Pixels {
        Pixels { shape, values: vec![value; shape.len()] }
    }

    fn changed(before: &Pixels, after: &Pixels) -> usize {
        let channels = before.shape.channels;
        let pixels = before.values.chunks_exact(channels).zip(after.values.chunks_exact(channels));
        pixels.filter(|(before, after)| before != after).count()
    }

    #[test]
    fn defects_are_of_their_size_and_within_the_image() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for (shape, other) in
            [(Shape::new(1, 64, 96), Shape::new(3, 40, 50)), (Shape::new(3, 64, 64), Shape::new(1, 4, 4))]
        {
            let (image, donor) = (plain(shape, 0.5), plain(other, 0.25));
            for _ in 0..50 {
                let square = Defect::Square.made_in(&image, &donor, &mut rng);
                let side = 8.min(other.height);
                assert_eq!(changed(&image, &square), side * side);
                assert!(square.values.iter().all(|v| *v == 0.5 || *v == 0.25));
                let scratch = Defect::Scratch.made_in(&image, &donor, &mut rng);
                // The line has 21 pixels; more if it is diagonal, fewer if it leaves the image.
                assert!((1..=2 * 21 + 2).contains(&changed(&image, &scratch)), "{}", changed(&image, &scratch));
                let step = scratch.values.iter().map(|v| (v - 0.5).abs()).fold(0.0, f32::max);
                assert!((0.3..=0.5).contains(&step), "{step}");
                // Blurring an image of one colour changes nothing except for rounding.
                let blur = Defect::Blur.made_in(&image, &donor, &mut rng);
                assert!(blur.values.iter().all(|v| (v - 0.5).abs() < 1e-6));
            }
        }
    }

    #[test]
    fn a_blur_is_the_mean_of_its_neighbourhood() {
        let shape = Shape::new(1, 64, 64);
        let stripes = Pixels { shape, values: (0..64 * 64).map(|at| (at % 64 % 2) as f32).collect() };
        let blur = Defect::Blur.made_in(&stripes, &stripes, &mut ChaCha8Rng::seed_from_u64(0));
        // The neighbourhood reaches two pixels to each side: 2 or 3 of 5 columns are white, 2 of 4 next to the border.
        let grey = blur.values.iter().filter(|v| **v != 0.0 && **v != 1.0);
        assert!(grey.clone().all(|v| [0.4f32, 0.6, 0.5].iter().any(|mean| (v - mean).abs() < 1e-6)));
        assert_eq!(grey.count(), 16 * 16);
    }

    #[test]
    fn images_of_few_pixels_have_defects_too() {
        let (image, donor) = (plain(Shape::new(1, 1, 1), 0.5), plain(Shape::new(3, 1, 2), 0.25));
        for defect in Defect::ALL {
            let made = defect.made_in(&image, &donor, &mut ChaCha8Rng::seed_from_u64(1));
            assert_eq!(made.shape, image.shape);
        }
    }
}
