//! The distance of a model's new images from its data, measured with a frozen network's features of both: the Fréchet
//! inception distance if the network is Inception (paper, appendix "Image Generation"; Heusel et al., NeurIPS 2017).

use burn::tensor::Tensor;
use nae_features::{Embedding, Moments, frechet_distance};

/// The number of images that are drawn, or evaluated, between two reports of progress.
const TOGETHER: usize = 100;

/// The distance between `real`, images in channel-first order with values in [0, 1], and `count` new images. `draw`
/// returns the given number of new images `[N, C, H, W]`, whose values are clipped to [0, 1]. `seen` is called with the
/// number of additional images evaluated, of both kinds.
///
/// `None` if there are fewer than two images of either kind, or if the network's output is not finite.
pub fn fid(
    embedding: &Embedding,
    real: &[&[f32]],
    count: usize,
    mut draw: impl FnMut(usize) -> Tensor<4>,
    seen: impl Fn(usize),
) -> Option<f64> {
    let mut of_data = Moments::new(embedding.len());
    let add = |moments: &mut Moments, images: &[&[f32]]| {
        embedding.run(images).iter().for_each(|vector| moments.add(vector));
        seen(images.len());
    };
    real.chunks(TOGETHER).for_each(|part| add(&mut of_data, part));
    let mut of_samples = Moments::new(embedding.len());
    for drawn in (0..count).step_by(TOGETHER) {
        let images = draw(TOGETHER.min(count - drawn)).clamp(0.0, 1.0);
        let [n, c, h, w] = images.dims();
        let values: Vec<f32> = images.into_data().iter::<f32>().collect();
        let images: Vec<&[f32]> = values.chunks_exact(c * h * w).collect();
        debug_assert_eq!(images.len(), n);
        add(&mut of_samples, &images);
    }
    frechet_distance(&of_data, &of_samples)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};
    use nae_core::Shape;
    use nae_onnx::builder::{Dim, Gemm, GraphBuilder};

    use super::*;

    /// The network returns both pixels unchanged, so the distance is that of the pixels' Gaussians.
    #[test]
    fn pixels_that_are_given_as_they_are_have_their_own_distance() {
        let mut graph = GraphBuilder::new("pixels");
        let image = graph.image_input("image", [1, 1, 2]).expect("a name");
        let flat = graph.flatten("flat", image).expect("maps");
        let same = Gemm { features: 2, weight: &[1.0, 0.0, 0.0, 1.0], bias: None, transposed: false };
        let pixels = graph.gemm("pixels", flat, &same).expect("fits");
        assert_eq!(graph.shape(pixels).map(<[Dim]>::len), Some(2));
        graph.output("pool", pixels).expect("a name");
        let onnx = graph.finish_bytes().expect("whole");
        let embedding = Embedding::parse(&onnx, None, Shape::new(1, 1, 2)).expect("a network of images");

        let real: Vec<[f32; 2]> = (0..40u8).map(|k| [f32::from(k % 2), 0.5]).collect();
        let real: Vec<&[f32]> = real.iter().map(<[f32; 2]>::as_slice).collect();
        let mut parts = Vec::new();
        let draw = |n: usize| {
            parts.push(n);
            // Values above 1 are clipped to white.
            let values: Vec<f32> = (0..n).flat_map(|_| [0.5, 7.0]).collect();
            Tensor::from_data(TensorData::new(values, [n, 1, 1, 2]), &Device::flex())
        };
        let seen = std::cell::Cell::new(0);
        let distance = fid(&embedding, &real, 250, draw, |more| seen.set(seen.get() + more)).expect("finite");
        assert_eq!((parts, seen.get()), (vec![100, 100, 50], 290));
        // The means of the second pixel differ by half of its range; the first has variance 10/39 in the data and none
        // in the samples.
        assert!((distance - (0.25 + 10.0 / 39.0)).abs() < 1e-6, "{distance}");
        assert_eq!(fid(&embedding, &real, 1, |n| Tensor::zeros([n, 1, 1, 2], &Device::flex()), |_| {}), None);
    }
}
