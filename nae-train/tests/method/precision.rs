//! Chains in lower precision: energies and gradients near those of f32, by as much as the numbers are coarser.

use burn::tensor::{DType, Device, Tensor};
use nae_train::arch::{Autoencoder, LatentSpace, conv28, small_conv16};
use nae_train::engine::Engine;
use nae_train::sample::{EnergyGradient, FrozenEnergy, NoiseSource, Precision};

const N: usize = 9;

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    assert_eq!(tensor.dtype(), DType::F32, "what goes in and comes out is f32");
    tensor.into_data().try_into_vec().unwrap()
}

/// Root of the mean squared difference, relative to `expected`'s root mean square.
fn apart(found: &[f32], expected: &[f32]) -> f32 {
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>();
    let difference = square(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    (difference / square(&mut expected.iter().copied())).sqrt()
}

fn both(frozen: &dyn FrozenEnergy, image: nae_core::Shape, latent_dim: usize) -> [Vec<f32>; 6] {
    let device = Device::flex();
    let x = NoiseSource::new(1, 0).uniform([N, image.channels, image.height, image.width], &device);
    let z = NoiseSource::new(2, 0).latents(frozen.latent_space(), N, latent_dim, &device);
    let parts = |EnergyGradient { energy, gradient }| [floats(energy), floats(gradient)];
    let ([e, g], [h, d]) = (parts(frozen.visible(x.clone())), parts(frozen.latent(z.clone())));
    [e, g, h, d, floats(frozen.encode(x)), floats(frozen.decode(z))]
}

/// Rounding errors of a network are some times those of its numbers: 2⁻¹¹ = .0005 for f16, 2⁻⁸ = .004 for bf16.
/// Gradients have more: where rounding takes a ReLU or a maximum beyond its kink, they jump.
#[test]
fn lower_precision_is_near_f32() {
    for spec in [conv28(4, 8, LatentSpace::Sphere), small_conv16(1, 8, 32, LatentSpace::Sphere)] {
        let spec = spec.unwrap();
        let model: Autoencoder = crate::networks::trained_scale(&spec, 1);
        let image = spec.image();
        let results = |engine: Engine, precision| {
            let shape = [image.channels, image.height, image.width];
            both(&*engine.freeze(&model, shape, precision, &Device::flex()), image, spec.latent_dim())
        };
        let expected = results(Engine::Burn, Precision::F32);
        for (precision, values, gradients) in [(Precision::F16, 0.005, 0.1), (Precision::Bf16, 0.04, 0.2)] {
            // The CPU engine has f32 alone: either engine asks burn.
            let found = results(Engine::Cpu, precision);
            assert_eq!(found, results(Engine::Burn, precision));
            let bounds = [
                ("E(x)", values),
                ("∇E(x)", gradients),
                ("H(z)", values),
                ("∇H(z)", gradients),
                ("latents", values),
                ("images", values),
            ];
            for ((name, bound), (found, expected)) in bounds.into_iter().zip(found.iter().zip(&expected)) {
                let apart = apart(found, expected);
                println!("{} {} {name}: {apart:.5}", spec.name(), precision.name());
                assert!(apart > 0.0 && apart < bound, "{} {} {name}: {apart}", spec.name(), precision.name());
            }
        }
    }
}
