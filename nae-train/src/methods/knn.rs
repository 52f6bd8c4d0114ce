//! The distance to the nearest stored sample, expressed as the reconstruction error of an autoencoder: nothing is
//! trained, and it runs wherever an autoencoder runs.
//!
//! The stored samples m₁ … m_M are a coreset of the training samples, chosen as in PatchCore (Roth et al., CVPR 2022,
//! section 3.2): each next sample is the one that is farthest from all samples chosen before. The latents are shares
//! that sum to 1, z = softmax(−‖x − m_k‖²/τ), and the reconstruction is Σ z_k m_k. With a small τ this is the nearest
//! sample, and the energy ‖x − f(x)‖²/D is the squared distance to it per dimension; with the default τ it is less where several
//! samples are about equally near, as many are in whitened features of 64 dimensions. ‖x‖² is the same for all k, so the
//! scores can be computed by a dense layer: 2⟨x, m_k⟩/τ − ‖m_k‖²/τ.

use burn::tensor::Device;
use nae_data::ImageSet;

use crate::arch::{Autoencoder, AutoencoderSpec, checkpoint};
use crate::config::methods::Neighbours;

/// The number of samples that the coreset is chosen from, of all parts of the data.
const CANDIDATES: usize = 1 << 14;
/// The bias of a place in the memory that stays empty: its share is exp(−10³⁰), which is zero.
const EMPTY: f32 = -1e30;
/// The least τ, as a fraction of the mean squared distance from the mean: scores above 10⁵ would be inaccurate due to
/// rounding.
const LEAST_TEMPERATURE: f64 = 1e-5;

/// Makes the autoencoder that stores samples of `train`, with the layers of `spec`, which must be those of
/// [`memory`](crate::arch::memory::memory), on the autodiff form of `device`.
pub(crate) fn fit(train: &ImageSet, spec: &AutoencoderSpec, settings: Neighbours, device: &Device) -> Autoencoder {
    let (dimension, places) = (train.shape().len(), spec.latent_dim());
    let candidates = train.select(&train.scattered(CANDIDATES));
    let vector = |at: usize| &candidates.values()[at * dimension..(at + 1) * dimension];
    let chosen = coreset(candidates.values(), dimension, places);
    let mean = train.mean();
    let spread = (0..candidates.len()).map(|at| f64::from(squared_distance(vector(at), &mean))).sum::<f64>()
        / candidates.len().max(1) as f64;
    let temperature = (f64::from(settings.temperature) * nearest_other(&chosen, &vector))
        .max(LEAST_TEMPERATURE * spread)
        .max(f64::from(f32::MIN_POSITIVE));

    // Weights in the order of `Linear`: inputs by rows, outputs by columns. Scores are relative to the mean, which
    // reduces cancellation in the products.
    let mut scores = vec![0.0; dimension * places];
    let mut bias = vec![EMPTY; places];
    let mut remembered = vec![0.0; places * dimension];
    for (place, &at) in chosen.iter().enumerate() {
        let (mut offset, mut norm) = (0.0, 0.0);
        for (input, (&value, &mean)) in vector(at).iter().zip(&mean).enumerate() {
            let mean = f64::from(mean);
            let centred = f64::from(value) - mean;
            scores[input * places + place] = (2.0 * centred / temperature) as f32;
            offset += mean * centred;
            norm += centred * centred;
        }
        bias[place] = (-(2.0 * offset + norm) / temperature) as f32;
        remembered[place * dimension..(place + 1) * dimension].copy_from_slice(vector(at));
    }
    let mut autoencoder = checkpoint::blank(spec, device);
    autoencoder.encoder = autoencoder.encoder.with_dense(scores, bias);
    autoencoder.decoder = autoencoder.decoder.with_dense(remembered, vec![0.0; dimension]);
    autoencoder
}

/// Chooses from `vectors`, of `dimension` numbers each, the ones to store: at most `most`, fewer if fewer are
/// different.
fn coreset(vectors: &[f32], dimension: usize, most: usize) -> Vec<usize> {
    let vector = |at: usize| &vectors[at * dimension..(at + 1) * dimension];
    let count = vectors.len() / dimension;
    let mut distances = vec![f32::INFINITY; count];
    let mut chosen = Vec::new();
    while chosen.len() < most {
        let farthest = (0..count).max_by(|&a, &b| distances[a].total_cmp(&distances[b]).then(b.cmp(&a)));
        let Some(next) = farthest.filter(|&at| distances[at] > 0.0) else { break };
        chosen.push(next);
        for (distance, other) in distances.iter_mut().zip(vectors.chunks_exact(dimension)) {
            *distance = distance.min(squared_distance(vector(next), other));
        }
    }
    chosen
}

/// The median over the stored samples of the squared distance to the nearest other one; 0 if there is no other.
fn nearest_other<'v>(chosen: &[usize], vector: &impl Fn(usize) -> &'v [f32]) -> f64 {
    let nearest = |&at: &usize| {
        let others = chosen.iter().filter(|&&other| other != at);
        others.map(|&other| squared_distance(vector(at), vector(other))).reduce(f32::min)
    };
    let mut distances: Vec<f32> = chosen.iter().filter_map(nearest).collect();
    distances.sort_unstable_by(f32::total_cmp);
    distances.get(distances.len() / 2).copied().map_or(0.0, f64::from)
}

fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use nae_core::Shape;

    use super::*;
    use crate::arch::memory::memory;
    use crate::methods::reference::tests::energies;

    /// Sixty points on a curve that does not lie in a plane.
    fn points() -> ImageSet {
        let numbers = (0..60u32).flat_map(|at| {
            let t = at as f32 * 0.1;
            [0.5 + 0.3 * t.sin(), 0.5 + 0.3 * t.cos(), 0.1 * t]
        });
        ImageSet::new(Shape::vector(3), numbers.collect(), vec![0; 60]).expect("valid")
    }

    fn fitted(train: &ImageSet, places: usize, temperature: f32) -> Autoencoder {
        let spec = memory(train.shape(), places).expect("valid");
        fit(train, &spec, Neighbours { vectors: places, temperature }, &Device::flex())
    }

    /// The squared distance of each of `asked` to the nearest of `known`, per dimension, in 64 bits.
    fn nearest(known: &ImageSet, asked: &[f32]) -> Vec<f64> {
        let dimension = known.shape().len();
        let distance = |a: &[f32], b: &[f32]| {
            a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>() / dimension as f64
        };
        let to_all = |x| known.values().chunks_exact(dimension).map(move |m| distance(x, m));
        asked.chunks_exact(dimension).map(|x| to_all(x).fold(f64::INFINITY, f64::min)).collect()
    }

    #[test]
    fn the_energy_is_the_distance_to_the_nearest() {
        let train = points();
        let asked = [0.51, 0.79, 0.02, 0.9, 0.9, 0.9, -1.0, 0.0, 2.0, 0.5, 0.5, 0.3];
        // There are more places than samples; an empty place is never the nearest.
        for places in [60, 80] {
            let found = energies(&fitted(&train, places, 1e-3), &asked, train.shape());
            for (found, expected) in found.iter().zip(nearest(&train, &asked)) {
                assert!((f64::from(*found) - expected).abs() < 1e-4 * expected.max(0.1), "{found} {expected}");
            }
        }
        // Images are used as vectors of their values.
        let shape = Shape::new(1, 1, 3);
        let images = ImageSet::new(shape, train.values().to_vec(), vec![0; 60]).expect("valid");
        assert_eq!(
            energies(&fitted(&images, 60, 0.1), &asked, shape),
            energies(&fitted(&train, 60, 0.1), &asked, train.shape())
        );
    }

    #[test]
    fn a_softer_memory_reconstructs_what_lies_between() {
        // Halfway between two stored samples, both shares are a half and the reconstruction is exact.
        let train = ImageSet::new(Shape::vector(2), vec![0.0, 0.0, 0.1, 0.0, 0.0, 0.9], vec![0; 3]).expect("valid");
        let found = energies(&fitted(&train, 3, 0.1), &[0.05, 0.0, 0.06, 0.0], train.shape());
        assert!(found[0] < 1e-8, "{found:?}");
        // The nearest others are at squared distances .01, .01 and .81, so τ is .001. The ratio of shares is 1 to
        // e^{-(.0036 - .0016)/.001}.
        let share = 1.0 / (1.0 + (-2.0_f32).exp());
        assert!((found[1] - (0.06 - 0.1 * share).powi(2) / 2.0).abs() < 1e-7, "{found:?}");
    }

    #[test]
    fn the_farthest_are_remembered_first() {
        // After the first: 10, then 4 (at a distance of 4 from 0, where 1 and 9 are at 1), then 1 or 9, of which the
        // first is chosen.
        let line = [0.0, 1.0, 4.0, 9.0, 10.0, 10.0];
        assert_eq!(coreset(&line, 1, 4), [0, 4, 2, 1]);
        // Duplicates are stored once.
        assert_eq!(coreset(&line, 1, 9), [0, 4, 2, 1, 3]);
        assert_eq!(coreset(&[], 1, 3), [0; 0]);
    }

    #[test]
    fn data_that_are_all_alike_are_one_sample() {
        let alike = ImageSet::new(Shape::vector(2), vec![0.25; 8], vec![0; 4]).expect("valid");
        assert_eq!(energies(&fitted(&alike, 4, 0.1), &[0.25, 0.25, 0.75, 0.25], Shape::vector(2)), [0.0, 0.125]);
    }
}
