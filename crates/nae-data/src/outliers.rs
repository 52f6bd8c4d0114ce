//! The synthetic outliers of the paper (appendix "Datasets"): ConstantGray, noise, halves and chimeras.

use nae_core::Shape;
use rand::seq::SliceRandom as _;
use rand::{Rng, RngExt as _};

use crate::image_set::ImageSet;

/// Makes `count` images whose pixels all have one value, drawn uniformly from [0, 1] for each image.
///
/// This is the paper's selection set: hyper-parameters and the stopping point may depend on it.
pub fn constant_gray(shape: Shape, count: usize, rng: &mut impl Rng) -> ImageSet {
    let values = (0..count).flat_map(|_| vec![rng.random::<f32>(); shape.len()]).collect();
    of_class(shape, values, count)
}

/// Makes `count` images whose pixels are drawn independently and uniformly from [0, 1].
pub fn noise(shape: Shape, count: usize, rng: &mut impl Rng) -> ImageSet {
    let values = (0..count * shape.len()).map(|_| rng.random::<f32>()).collect();
    of_class(shape, values, count)
}

/// Returns each image with its upper half (even positions) or lower half (odd positions) set to 0.
pub fn halves(images: &ImageSet) -> ImageSet {
    let shape = images.shape();
    let mut values = images.values().to_vec();
    for (index, image) in values.chunks_exact_mut(shape.len()).enumerate() {
        for plane in image.chunks_exact_mut(shape.height * shape.width) {
            let (upper, lower) = plane.split_at_mut(shape.height / 2 * shape.width);
            if index % 2 == 0 { upper.fill(0.0) } else { lower.fill(0.0) }
        }
    }
    of_class(shape, values, images.len())
}

/// Returns each image with its upper half replaced by that of the next image of another class, and `gap` rows set to 0
/// where the halves meet.
///
/// Empty if all images are of one class.
pub fn chimeras(images: &ImageSet, gap: usize) -> ImageSet {
    let shape = images.shape();
    let mut values = Vec::new();
    for (index, donor) in donors(images.labels()).into_iter().enumerate() {
        let Some(donor) = donor else { continue };
        let planes = shape.height * shape.width;
        for (plane, upper) in images.image(index).chunks_exact(planes).zip(images.image(donor).chunks_exact(planes)) {
            let middle = shape.height / 2;
            let end = middle.saturating_sub(gap / 2);
            let start = (end + gap).min(shape.height).max(middle);
            values.extend_from_slice(&upper[..end * shape.width]);
            values.extend(std::iter::repeat_n(0.0, (start - end) * shape.width));
            values.extend_from_slice(&plane[start * shape.width..]);
        }
    }
    let made = values.len() / shape.len();
    of_class(shape, values, made)
}

/// The position of the next image of another class after each image, where the first image follows the last; `None` if
/// all are of one class.
fn donors(labels: &[u8]) -> Vec<Option<usize>> {
    let count = labels.len();
    let mut donors = vec![None; count];
    // One pass over the positions takes the donor of the following image if that is of the same class; in a second pass,
    // the last images have those of the first ones.
    for index in (0..count).rev().chain((0..count).rev()) {
        let next = (index + 1) % count;
        donors[index] = if labels[next] == labels[index] { donors[next] } else { Some(next) };
    }
    donors
}

/// Returns as many images as `images`, where each pixel is a random permutation of its values over the images: each
/// pixel has its normal distribution, but the pixels are independent. The inputs of one column of a table are permuted
/// together: no row of a table has two values of one category.
pub fn shuffled(images: &ImageSet, rng: &mut impl Rng) -> ImageSet {
    let (shape, count) = (images.shape(), images.len());
    let mut values = images.values().to_vec();
    for inputs in images.columns() {
        let mut order: Vec<usize> = (0..count).collect();
        order.shuffle(rng);
        for (row, from) in values.chunks_exact_mut(shape.len()).zip(order) {
            row[inputs.clone()].copy_from_slice(&images.image(from)[inputs.clone()]);
        }
    }
    of_class(shape, values, count)
}

/// Outliers have no class of their own; the label is not used.
fn of_class(shape: Shape, values: Vec<f32>, count: usize) -> ImageSet {
    ImageSet::new(shape, values, vec![0; count]).expect("values made from images or drawn from [0, 1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> ImageSet {
        ImageSet::new(Shape::new(1, 2, 1), vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6], vec![1, 1, 2]).expect("valid")
    }

    /// The number of images drawn in each test of a random set.
    const COUNT: usize = 10_000;

    fn drawn(seed: u64, draw: impl FnOnce(Shape, usize, &mut rand_chacha::ChaCha8Rng) -> ImageSet) -> ImageSet {
        use rand::SeedableRng as _;
        draw(Shape::new(2, 3, 2), COUNT, &mut rand_chacha::ChaCha8Rng::seed_from_u64(seed))
    }

    /// Mean and variance within four standard errors of 1/2 and 1/12; the fourth moment about the mean is 1/80.
    fn assert_uniform(values: &[f32], what: &str) {
        let count = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let errors = [1.0 / 12.0, 1.0 / 80.0 - 1.0 / 144.0].map(|variance: f64| (variance / count).sqrt());
        assert!((mean - 0.5).abs() < 4.0 * errors[0], "{what}: mean {mean}");
        assert!((variance - 1.0 / 12.0).abs() < 4.0 * errors[1], "{what}: variance {variance}");
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)), "{what}");
    }

    #[test]
    fn constant_gray_is_one_level_an_image_uniform_over_images() {
        let images = drawn(1, constant_gray);
        assert_eq!((images.len(), images.shape()), (COUNT, Shape::new(2, 3, 2)));
        let levels: Vec<f32> = (0..COUNT).map(|index| images.image(index)[0]).collect();
        for (index, &level) in levels.iter().enumerate() {
            assert_eq!(images.image(index), [level; 12]);
        }
        assert_uniform(&levels, "levels");
        // Successive levels are independent: the correlation of independent values deviates from 0 by about 1/√n.
        let centred = |level: f32| f64::from(level) - 0.5;
        let products = levels.windows(2).map(|pair| centred(pair[0]) * centred(pair[1])).sum::<f64>();
        let correlation = 12.0 * products / COUNT as f64;
        assert!(correlation.abs() < 4.0 / (COUNT as f64).sqrt(), "{correlation}");
        let [same, other] = [1, 2].map(|seed| drawn(seed, constant_gray));
        assert_eq!(same.values(), images.values());
        assert_ne!(other.values(), images.values());
    }

    #[test]
    fn noise_is_uniform_in_every_pixel_and_independent() {
        let images = drawn(1, noise);
        assert_eq!((images.len(), images.shape()), (COUNT, Shape::new(2, 3, 2)));
        let column = |pixel: usize| -> Vec<f32> { (0..COUNT).map(|index| images.image(index)[pixel]).collect() };
        for pixel in 0..12 {
            assert_uniform(&column(pixel), &format!("pixel {pixel}"));
        }
        assert_uniform(images.values(), "all pixels");
        // Pixels are independent of each other.
        let centred = |pixel| column(pixel).into_iter().map(|v| f64::from(v) - 0.5).collect::<Vec<_>>();
        for (a, b) in (0..12).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let products = centred(a).iter().zip(centred(b)).map(|(a, b)| a * b).sum::<f64>();
            let correlation = 12.0 * products / COUNT as f64;
            assert!(correlation.abs() < 4.0 / (COUNT as f64).sqrt(), "pixels {a} and {b}: {correlation}");
        }
        assert!((1..COUNT).all(|index| images.image(index) != images.image(index - 1)));
        let [same, other] = [1, 2].map(|seed| drawn(seed, noise));
        assert_eq!(same.values(), images.values());
        assert_ne!(other.values(), images.values());
    }

    #[test]
    fn halves_alternate() {
        assert_eq!(halves(&two()).values(), [0.0, 0.2, 0.3, 0.0, 0.0, 0.6]);
    }

    #[test]
    fn shuffled_pixels_stay_what_they_are_and_come_apart() {
        use rand::SeedableRng as _;
        let values: Vec<f32> = (0..100).flat_map(|n| [n as f32 / 100.0, n as f32 / 100.0]).collect();
        let images = ImageSet::new(Shape::new(1, 2, 1), values, vec![0; 100]).expect("valid");
        let shuffled = shuffled(&images, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
        for pixel in 0..2 {
            let column = |set: &ImageSet| {
                let mut column: Vec<f32> = (0..100).map(|index| set.image(index)[pixel]).collect();
                column.sort_by(f32::total_cmp);
                column
            };
            assert_eq!(column(&shuffled), column(&images));
        }
        assert!((0..100).filter(|&index| shuffled.image(index)[0] == shuffled.image(index)[1]).count() < 10);
    }

    #[test]
    fn chimeras_join_different_classes() {
        assert_eq!(chimeras(&two(), 0).values(), [0.5, 0.2, 0.5, 0.4, 0.1, 0.6]);
        let columns = ImageSet::new(Shape::new(1, 4, 1), (1..=8).map(|v| v as f32 / 10.0).collect(), vec![1, 2]);
        let gapped = chimeras(&columns.expect("valid"), 2);
        assert_eq!(gapped.values(), [0.5, 0.0, 0.0, 0.4, 0.1, 0.0, 0.0, 0.8]);
        let one_class = ImageSet::new(Shape::new(1, 2, 1), vec![0.1; 4], vec![3, 3]).expect("valid");
        assert!(chimeras(&one_class, 0).is_empty());
    }

    /// The position that was once found for each image, by a search from it to the next of another label.
    fn searched(labels: &[u8]) -> Vec<Option<usize>> {
        let count = labels.len();
        let of = |index| (1..count).map(|step| (index + step) % count).find(|&other| labels[other] != labels[index]);
        (0..count).map(of).collect()
    }

    #[test]
    fn donors_are_the_next_of_another_class() {
        let digits = crate::digits::load().expect("embedded");
        for labels in [digits.labels(), &[], &[1], &[1, 1], &[1, 2], &[2, 1, 1, 1], &[1, 1, 1, 2]] {
            assert_eq!(donors(labels), searched(labels), "{} labels", labels.len());
        }
    }

    /// A search of all others for each image would take minutes.
    #[test]
    fn one_class_of_many_samples_has_no_chimeras_at_once() {
        let shape = Shape::new(1, 1, 1);
        let started = std::time::Instant::now();
        let mut labels = vec![0; 300_000];
        let of = |labels: &[u8]| {
            chimeras(&ImageSet::new(shape, vec![0.5; labels.len()], labels.to_vec()).expect("valid"), 0)
        };
        assert!(of(&labels).is_empty());
        labels[7] = 1;
        assert_eq!(of(&labels).len(), labels.len());
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
