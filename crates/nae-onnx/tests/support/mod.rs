//! Models for tests: the network of the `digits` preset, with pseudo-random weights of trained
//! scale. Shared with the tests of other crates by path.
#![allow(dead_code)]

pub(crate) mod reference;

use nae_core::Shape;
use nae_core::calibration::Calibration;
use nae_core::contract::{Contract, Preprocessing, ResizeFilter};
use nae_core::energy::Energy;
use nae_core::layer::Activation;
use nae_onnx::autoencoder;
use nae_onnx::builder::{BuildError, Conv2d, ConvTranspose2d, Gemm, GraphBuilder, Pool2d, Value};
use nae_onnx::metadata::{Features, Geometry, Latent, ModelMetadata, Provenance};

/// SplitMix64 (Steele, Lea and Flood, 2014): the same numbers everywhere.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Uniform, of mean zero, with the deviation that keeps a signal's scale through ReLU layers.
    pub(crate) fn weights(&mut self, n: usize, fan_in: usize) -> Vec<f32> {
        let bound = (6.0 / fan_in as f32).sqrt();
        (0..n).map(|_| (2.0 * self.unit() - 1.0) * bound).collect()
    }
}

pub(crate) fn metadata(input: Shape, dimension: usize, energy: Energy) -> ModelMetadata {
    let table: Vec<f32> = (1..=400).map(|i| i as f32 * 0.001).collect();
    let calibration = Calibration::from_sorted(&table).expect("ascending");
    let mut contract = Contract::new(input);
    contract.energy = energy;
    contract.preprocessing = Preprocessing::unit(ResizeFilter::BilinearAlignCorners);
    ModelMetadata {
        latent: Some(Latent { geometry: Geometry::Sphere, dimension }),
        provenance: Provenance {
            architecture: "digits".into(),
            method: "none: pseudo-random weights".into(),
            data_description: "none".into(),
            data_sha256: String::new(),
            seed: 7,
            crate_version: "nae-onnx tests".into(),
        },
        ..ModelMetadata::new(contract.with_calibration(calibration, 0.01).expect("n is 400"))
    }
}

struct Layers {
    graph: GraphBuilder,
    numbers: Numbers,
}

impl Layers {
    fn conv(&mut self, name: &str, x: Value, [i, o, k]: [usize; 3]) -> Result<Value, BuildError> {
        let (w, b) = (self.numbers.weights(o * i * k * k, i * k * k), self.numbers.weights(o, 600));
        self.graph.conv2d(name, x, &Conv2d::new(o, [k, k], &w, Some(&b)))
    }

    fn transpose(&mut self, name: &str, x: Value, [i, o, k]: [usize; 3]) -> Result<Value, BuildError> {
        // Few kernel elements meet at a border pixel, so the fan-in is taken smaller.
        let (w, b) = (self.numbers.weights(i * o * k * k, i * 4), self.numbers.weights(o, 600));
        self.graph.conv_transpose2d(name, x, &ConvTranspose2d::new(o, [k, k], &w, Some(&b)))
    }
}

/// The `digits` network: 16×16 grey images, latent of 32 on the sphere.
pub(crate) fn digits(seed: u64, energy: Energy) -> Result<Vec<u8>, BuildError> {
    let mut l = Layers { graph: GraphBuilder::new("digits"), numbers: Numbers(seed) };
    let image = l.graph.image_input(autoencoder::IMAGE, [1, 16, 16])?;
    let mut x = l.conv("encoder.0", image, [1, 8, 3])?;
    x = l.graph.relu("encoder.0.relu", x)?;
    x = l.conv("encoder.1", x, [8, 16, 3])?;
    x = l.graph.relu("encoder.1.relu", x)?;
    x = l.graph.max_pool2d("encoder.pool", x, &Pool2d::square(2))?;
    x = l.conv("encoder.2", x, [16, 32, 3])?;
    x = l.graph.relu("encoder.2.relu", x)?;
    x = l.conv("encoder.3", x, [32, 128, 4])?;
    x = l.graph.relu("encoder.3.relu", x)?;
    x = l.conv("encoder.4", x, [128, 32, 1])?;
    let latent = l.graph.l2_normalize("sphere", x)?;
    x = l.transpose("decoder.0", latent, [32, 32, 3])?;
    x = l.graph.relu("decoder.0.relu", x)?;
    x = l.graph.resize_bilinear_align_corners("decoder.up.0", x, [5, 5])?;
    x = l.transpose("decoder.1", x, [32, 16, 3])?;
    x = l.graph.relu("decoder.1.relu", x)?;
    x = l.graph.resize_bilinear_align_corners("decoder.up.1", x, [12, 12])?;
    x = l.transpose("decoder.2", x, [16, 8, 3])?;
    x = l.graph.relu("decoder.2.relu", x)?;
    x = l.transpose("decoder.3", x, [8, 1, 3])?;
    let reconstruction = l.graph.sigmoid("decoder.3.sigmoid", x)?;
    autoencoder::add_outputs(&mut l.graph, image, reconstruction, latent, energy)?;
    metadata(Shape::new(1, 16, 16), 32, energy).add_to(&mut l.graph);
    l.graph.finish_bytes()
}

/// An autoencoder of 3-channel 12×10 images of the layers of MobileNet and EfficientNet-Lite: depthwise convolutions
/// between pointwise ones, ReLU6, a sum with what was before.
pub(crate) fn mobile(seed: u64) -> Result<Vec<u8>, BuildError> {
    let mut l = Layers { graph: GraphBuilder::new("mobile"), numbers: Numbers(seed) };
    let image = l.graph.image_input(autoencoder::IMAGE, [3, 12, 10])?;
    let mut x = l.conv("stem", image, [3, 20, 1])?;
    x = l.graph.clip("stem.relu6", x, [0.0, 6.0])?;
    for (name, kernel, stride, padding) in [("a", 3, 1, [1; 4]), ("b", 5, 1, [2; 4]), ("c", 3, 2, [0, 0, 1, 1])] {
        let (w, b) = (l.numbers.weights(20 * kernel * kernel, kernel * kernel), l.numbers.weights(20, 20));
        let depthwise =
            Conv2d { groups: 20, stride: [stride; 2], padding, ..Conv2d::new(20, [kernel; 2], &w, Some(&b)) };
        let mut y = l.graph.conv2d(&format!("{name}.depthwise"), x, &depthwise)?;
        y = l.graph.clip(&format!("{name}.relu6"), y, [-0.5, 0.5])?;
        y = l.conv(&format!("{name}.project"), y, [20, 20, 1])?;
        x = if stride == 1 { l.graph.add(&format!("{name}.sum"), x, y)? } else { y };
    }
    let latent = l.graph.average_pool2d("code", x, &Pool2d { kernel: [6, 5], stride: [1, 1], padding: [0; 4] })?;
    x = l.graph.resize_nearest("up", x, [12, 10])?;
    x = l.conv("out", x, [20, 3, 1])?;
    let reconstruction = l.graph.sigmoid("out.sigmoid", x)?;
    autoencoder::add_outputs(&mut l.graph, image, reconstruction, latent, Energy::SquaredL2)?;
    let mut metadata = metadata(Shape::new(3, 12, 10), 20, Energy::SquaredL2);
    metadata.latent = metadata.latent.map(|latent| Latent { geometry: Geometry::Euclidean, ..latent });
    metadata.add_to(&mut l.graph);
    l.graph.finish_bytes()
}

/// A model of features: 6 numbers in each of 6×5 places of 3-channel 12×10 images, latents on a sphere in each; an image's
/// score is the mean of its 4 largest energies.
pub(crate) fn features(seed: u64) -> Result<Vec<u8>, BuildError> {
    let mut l = Layers { graph: GraphBuilder::new("features"), numbers: Numbers(seed) };
    let image = l.graph.image_input(autoencoder::IMAGE, [3, 12, 10])?;
    // As exporters write the division by the deviations of ImageNet.
    let (factors, offsets) = ([2.0, 0.0, 0.0, 0.0, 1.5, 0.0, 0.0, 0.0, 4.0], [-1.0, -0.5, -2.0]);
    let normalize = Conv2d::new(3, [1; 2], &factors, Some(&offsets));
    let normal = l.graph.conv2d("normalize", image, &normalize)?;
    let mut x = l.conv("stem", normal, [3, 8, 1])?;
    x = l.graph.clip("stem.relu6", x, [0.0, 6.0])?;
    x = l.graph.max_pool2d("half", x, &Pool2d { kernel: [2; 2], stride: [2; 2], padding: [0; 4] })?;
    x = l.conv("whiten", x, [8, 6, 1])?;
    x = l.graph.average_pool2d("around", x, &Pool2d { kernel: [3; 2], stride: [1; 2], padding: [1; 4] })?;
    let features = l.graph.clip("range", x, [0.0, 1.0])?;
    x = l.conv("encoder.0", features, [6, 9, 1])?;
    x = l.graph.relu("encoder.1", x)?;
    x = l.conv("encoder.2", x, [9, 3, 1])?;
    x = l.graph.l2_normalize_places("encoder.sphere", x)?;
    x = l.conv("decoder.0", x, [3, 6, 1])?;
    autoencoder::add_feature_outputs(&mut l.graph, features, x, Energy::SquaredL2, 4)?;
    let mut metadata = metadata(Shape::new(3, 12, 10), 3, Energy::SquaredL2);
    metadata.features = Some(Features { components: 6, rows: 6, columns: 5, top_k: 4 });
    metadata.add_to(&mut l.graph);
    l.graph.finish_bytes()
}

/// A dense autoencoder of 2-channel 3×4 images with a Euclidean latent of 5, LeakyReLU, ELU, tanh, a
/// reshape between a dense layer and a convolution, both pools and the other two resizes.
pub(crate) fn odd(seed: u64, energy: Energy) -> Result<Vec<u8>, BuildError> {
    let mut l = Layers { graph: GraphBuilder::new("odd"), numbers: Numbers(seed) };
    let image = l.graph.image_input(autoencoder::IMAGE, [3, 6, 8])?;
    let mut x = l.conv("mix", image, [3, 4, 1])?;
    x = l.graph.activation("mix.leaky", x, Activation::LeakyRelu { slope: 0.1 })?;
    x = l.graph.activation("mix.elu", x, Activation::Elu { alpha: 0.7 })?;
    x = l.graph.average_pool2d("mean", x, &Pool2d { kernel: [3, 3], stride: [1, 2], padding: [1; 4] })?;
    x = l.graph.max_pool2d("max", x, &Pool2d { kernel: [2, 2], stride: [2, 1], padding: [0, 0, 0, 1] })?;
    x = l.graph.flatten("flat", x)?;
    let (w, b) = (l.numbers.weights(5 * 48, 48), l.numbers.weights(5, 600));
    let latent = l.graph.gemm("code", x, &Gemm { features: 5, weight: &w, bias: Some(&b), transposed: true })?;
    let (w, b) = (l.numbers.weights(5 * 24, 5), l.numbers.weights(24, 600));
    x = l.graph.gemm("grow", latent, &Gemm { features: 24, weight: &w, bias: Some(&b), transposed: false })?;
    x = l.graph.activation("grow.tanh", x, Activation::Tanh)?;
    x = l.graph.reshape("map", x, &[4, 3, 2])?;
    x = l.graph.resize_nearest("near", x, [3, 4])?;
    x = l.graph.resize_bilinear_half_pixel("half", x, [6, 8])?;
    x = l.conv("out", x, [4, 3, 1])?;
    let reconstruction = l.graph.sigmoid("out.sigmoid", x)?;
    autoencoder::add_outputs(&mut l.graph, image, reconstruction, latent, energy)?;
    let mut metadata = metadata(Shape::new(3, 6, 8), 5, energy);
    metadata.latent = metadata.latent.map(|latent| Latent { geometry: Geometry::Euclidean, ..latent });
    metadata.add_to(&mut l.graph);
    l.graph.finish_bytes()
}
