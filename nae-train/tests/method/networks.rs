//! Networks for tests: every architecture, narrow, and every layer and block in a small autoencoder; with weights of
//! trained scale. Shared with the tests of other crates by path.
#![allow(dead_code)]

use burn::module::{Module as _, ModuleMapper, Param};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use nae_core::Shape;
use nae_train::arch::conv28;
use nae_train::arch::conv32;
use nae_train::arch::conv32_big;
use nae_train::arch::fc_res2;
use nae_train::arch::igebm32;
use nae_train::arch::spec::{conv_transpose2d, conv2d, fc, with_spectral_norm};
use nae_train::arch::{Autoencoder, AutoencoderSpec, LatentSpace, LayerSpec, blocks};
use nae_train::arch::{Conv64Widths, conv64};
use nae_train::arch::{DenseOutput, dense};
use nae_train::arch::{small_conv, small_conv16};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Every architecture at a reduced width.
pub(crate) fn architectures() -> Vec<AutoencoderSpec> {
    use LatentSpace::{Euclidean, Sphere};
    [
        fc_res2(5, 32, 64, 2, Sphere),
        fc_res2(5, 32, 64, 3, Euclidean),
        conv28(4, 8, Sphere),
        conv32(4, 8, Sphere),
        conv32_big(8, 4, 8, Sphere),
        conv64(Conv64Widths { encoder: 8, decoder: 8 }, 4, 16, Sphere),
        igebm32(8, 2, 8, Sphere),
        dense(Shape::vector(640), &[32; 4], 8, DenseOutput::Linear, Euclidean),
        dense(Shape::new(3, 4, 5), &[32], 4, DenseOutput::Sigmoid, Sphere),
        small_conv16(1, 8, 32, Sphere),
        small_conv(3, 28, 4, 8, Sphere),
    ]
    .into_iter()
    .map(|spec| spec.expect("a valid architecture"))
    .collect()
}

/// The networks of the paper and the code at full width.
pub(crate) fn full_width() -> Vec<AutoencoderSpec> {
    use LatentSpace::{Euclidean, Sphere};
    [
        fc_res2(5, 256, 1024, 2, Euclidean),
        conv28(32, 32, Sphere),
        conv32(32, 32, Sphere),
        conv32_big(128, 8, 64, Sphere),
        conv64(Conv64Widths::CODE, 8, 64, Sphere),
        igebm32(128, 2, 32, Sphere),
    ]
    .into_iter()
    .map(|spec| spec.expect("a valid architecture"))
    .collect()
}

/// Every kind of layer and block, each in an autoencoder of 4×6×6 images that is dense otherwise.
pub(crate) fn layers() -> Vec<AutoencoderSpec> {
    [
        vec![conv2d(3, 3, 2, 1)],
        vec![conv_transpose2d(3, 4, 2, 1)],
        with_spectral_norm(vec![conv2d(3, 3, 1, 1)]),
        // Channels and sizes for which the engine has another way with three by three taps.
        vec![conv2d(32, 3, 1, 1), conv2d(64, 3, 1, 0)],
        vec![conv2d(32, 2, 1, 0), conv2d(48, 3, 1, 1)],
        vec![conv2d(32, 2, 1, 0), conv_transpose2d(48, 3, 1, 0)],
        vec![conv2d(32, 3, 1, 1), conv_transpose2d(32, 3, 1, 1)],
        vec![fc(5)],
        vec![LayerSpec::Reshape { shape: [2, 3, 24] }],
        vec![LayerSpec::LeakyRelu { slope: 0.2 }],
        vec![LayerSpec::Elu { alpha: 0.8 }],
        vec![LayerSpec::Sigmoid],
        vec![LayerSpec::Softmax],
        vec![LayerSpec::MaxPool { window: 4 }],
        vec![LayerSpec::AvgPool { window: 4 }],
        vec![LayerSpec::Upsample { size: 13 }],
        vec![LayerSpec::Upsample { size: 32 }],
        vec![LayerSpec::Nearest { factor: 3 }],
        vec![LayerSpec::GroupNorm { groups: 2 }],
        vec![fc(8), blocks::fc_res(8, 16)],
        vec![blocks::res(4, 6, 4)],
        vec![blocks::res(4, 6, 6)],
        vec![blocks::res_up(4, 2, None)],
        vec![blocks::res_up(4, 2, Some(2))],
        vec![blocks::res_att(4, 6)],
        with_spectral_norm(vec![blocks::res(4, 6, 6)]),
    ]
    .into_iter()
    .map(|tested| {
        let names: Vec<String> = tested.iter().map(ToString::to_string).collect();
        let image = Shape::new(4, 6, 6);
        let encoder = [tested, vec![fc(6)]].concat();
        let decoder = vec![fc(image.len()), LayerSpec::Reshape { shape: [4, 6, 6] }];
        AutoencoderSpec::new(names.join(", "), image, encoder, decoder, LatentSpace::Sphere).expect("it fits")
    })
    .collect()
}

/// A network whose reconstructions vary as a trained one's do: fresh weights shrink every signal, so that almost
/// nothing but x is left of the energy.
pub(crate) fn trained_scale(spec: &AutoencoderSpec, seed: u64) -> Autoencoder {
    struct Scale(ChaCha8Rng);
    impl ModuleMapper for Scale {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let shifts: Vec<f32> = (0..param.shape().num_elements()).map(|_| self.0.random_range(-0.2..0.2)).collect();
            param.map(|weights| {
                let weights = weights.inner().mul_scalar(2.5);
                let weights = if D == 1 {
                    weights.clone() + Tensor::from_data(TensorData::new(shifts, weights.dims()), &weights.device())
                } else {
                    weights
                };
                Tensor::from_inner(weights)
            })
        }
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let model = Autoencoder::new(spec, &mut rng, &Device::flex().autodiff()).map(&mut Scale(rng));
    // The estimates of spectral norms were moved with the other vectors.
    (0..20).fold(model, |model, _| model.power_iteration())
}

/// A copy that computes in float64.
pub(crate) fn double(model: &Autoencoder) -> Autoencoder {
    struct Double;
    impl ModuleMapper for Double {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|weights| weights.cast(FloatDType::F64))
        }
    }
    model.clone().no_grad().map(&mut Double)
}
