//! The CPU engine against burn, for every layer and every architecture: the same energies, input gradients and weight
//! gradients; and against finite differences in float64 for random convolutions. Results depend neither on the number
//! of threads nor on how a batch is cut.

use burn::module::{Module as _, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Tensor};
use nae_core::Shape;
use nae_core::energy::Energy;
use nae_simd::Instructions;
use nae_train::arch::conv28;
use nae_train::arch::small_conv16;
use nae_train::arch::spec::{conv_transpose2d, conv2d, fc};
use nae_train::arch::{Autoencoder, AutoencoderSpec, LatentSpace, LayerSpec};
use nae_train::energy::{energy, on_manifold_energy};
use nae_train::engine::{CpuEngine, supports};
use nae_train::sample::{BurnFrozen, EnergyGradient, FrozenEnergy, NoiseSource, Precision, Recovery};
use nae_train::shard;
use proptest::prelude::*;

/// Samples: more than a shard, and no whole number of tiles.
const N: usize = 37;

/// Largest difference in each sample: relative to its largest value, and absolute.
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 1e-7;

/// The environment variable by which these tests ask for an instruction set.
const INSTRUCTIONS: &str = "NAE_TEST_INSTRUCTIONS";

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().unwrap()
}

fn engine_of(model: &Autoencoder, spec: &AutoencoderSpec) -> CpuEngine {
    // Asked for by the test that runs others on other instructions.
    if let Ok(name) = std::env::var(INSTRUCTIONS) {
        name.parse::<Instructions>().unwrap().choose_for_process().unwrap();
    }
    assert_eq!(supports(spec), Ok(()));
    let image = spec.image();
    CpuEngine::new(model, [image.channels, image.height, image.width], &Device::flex())
}

fn images(spec: &AutoencoderSpec, n: usize, seed: u64) -> Tensor<4> {
    let image = spec.image();
    NoiseSource::new(seed, 0).uniform([n, image.channels, image.height, image.width], &Device::flex())
}

fn every() -> impl Iterator<Item = AutoencoderSpec> {
    let l1 = small_conv16(1, 4, 8, LatentSpace::Sphere).unwrap().with_energy(Energy::L1);
    crate::networks::layers().into_iter().chain(crate::networks::architectures()).chain([l1])
}

/// Error in units of what is allowed.
fn error(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let worst = found.iter().zip(expected).fold(0.0f64, |m, (f, e)| m.max((f64::from(*f) - e).abs()));
    if worst.is_nan() { f64::INFINITY } else { worst / (RELATIVE * scale + ABSOLUTE) }
}

type Of = fn(&Autoencoder, Tensor<4>) -> Tensor<1>;

/// Energies and gradients in float64 near one sample: at itself and at points so near that single precision hardly
/// tells them apart, but may be on the other side of a ReLU's or a maximum's kink.
fn near(model: &Autoencoder, f: Of, sample: &Tensor<4>, radius: f64) -> Vec<(f64, Vec<f64>)> {
    const POINTS: usize = 64;
    let [_, c, h, w] = sample.dims();
    let shifts = NoiseSource::new(9, 0).uniform::<4>([POINTS, c, h, w], &Device::flex()).cast(FloatDType::F64);
    let x = sample.clone().cast(FloatDType::F64).expand([POINTS, c, h, w]);
    let x = (x + shifts.sub_scalar(0.5).mul_scalar(radius)).autodiff().require_grad();
    let energies = f(model, x.clone());
    let mut gradients = energies.clone().sum().backward();
    let gradient: Vec<f64> = x.grad_remove(&mut gradients).unwrap().into_data().try_into_vec().unwrap();
    let energies: Vec<f64> = energies.into_data().try_into_vec().unwrap();
    energies.into_iter().zip(gradient.chunks(c * h * w).map(<[f64]>::to_vec)).collect()
}

/// Every sample within the tolerance of burn's; but for half, for which it is enough that float64 finds what the
/// engine found next to the sample: at kinks, and where rounding of the input alone moves the result by more. At full
/// width, of which there are fewer samples, single precision crosses several kinks at once, and no point may be found
/// beyond all of them: there the engine is to be no further from float64 than twice what burn is.
fn assert_burns(
    what: &str,
    model: &Autoencoder,
    f: Of,
    x: &Tensor<4>,
    found: EnergyGradient,
    expected: EnergyGradient,
) {
    let n = x.dims()[0];
    let [found_e, expected_e] = [values(found.energy), values(expected.energy)];
    let [found_g, expected_g] = [values(found.gradient), values(expected.gradient)];
    let len = found_g.len() / n;
    let wide = |v: &[f32]| v.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    let mut model64 = None;
    let mut off = 0;
    for i in 0..n {
        let sample = i * len..(i + 1) * len;
        let (e, g) = (&found_e[i..=i], &found_g[sample.clone()]);
        let difference = error(e, &wide(&expected_e[i..=i])).max(error(g, &wide(&expected_g[sample])));
        if difference <= 1.0 {
            continue;
        }
        off += 1;
        let model64 = model64.get_or_insert_with(|| crate::networks::double(model));
        let points: Vec<_> = [1e-8, 1e-6, 4e-6]
            .iter()
            .flat_map(|radius| near(model64, f, &x.clone().narrow(0, i, 1), *radius))
            .collect();
        let nearest = |e: &[f32], g: &[f32]| {
            let of = |(energy, gradient): &(f64, Vec<f64>)| (error(e, &[*energy]), error(g, gradient));
            let errors: Vec<(f64, f64)> = points.iter().map(of).collect();
            let least = |errors: Vec<f64>| errors.into_iter().fold(f64::INFINITY, f64::min);
            let (energies, gradients) = errors.into_iter().unzip();
            least(energies).max(least(gradients))
        };
        let (own, burns) = (nearest(e, g), nearest(&expected_e[i..=i], &expected_g[i * len..(i + 1) * len]));
        let allowed = if n < N { f64::max(1.0, 2.0 * burns) } else { 1.0 };
        assert!(own <= allowed, "{what}: sample {i} is {difference} off burn's, {own} off float64, burn {burns}");
    }
    assert!(off * 2 <= n || n < N, "{what}: {off} of {n} samples off");
}

fn assert_values(what: &str, n: usize, found: &[f32], expected: &[f32]) {
    let len = found.len() / n;
    for (i, (found, expected)) in found.chunks(len).zip(expected.chunks(len)).enumerate() {
        let expected: Vec<f64> = expected.iter().map(|v| f64::from(*v)).collect();
        let difference = error(found, &expected);
        assert!(difference <= 1.0, "{what}: sample {i} is {difference} times the tolerance off");
    }
}

#[test]
fn energies_and_input_gradients_are_burns() {
    for spec in every() {
        assert_input_gradients(&spec, N);
    }
}

/// The paper's widths, but for the largest three networks, which take too long in float64.
#[test]
fn energies_and_input_gradients_are_burns_at_full_width() {
    if std::env::var_os("NAE_SLOW_TESTS").is_none() {
        eprintln!("skipped: takes minutes; set NAE_SLOW_TESTS=1 to run it");
        return;
    }
    for spec in crate::networks::full_width().into_iter().take(3) {
        assert_input_gradients(&spec, 4);
    }
}

fn assert_input_gradients(spec: &AutoencoderSpec, n: usize) {
    let model = crate::networks::trained_scale(spec, 1);
    let (burn, cpu) = (BurnFrozen::new(&model, Precision::F32), engine_of(&model, spec));
    let what = |part: &str| format!("{part} of {}", spec.name());
    let x = images(spec, n, 2);
    assert_burns(&what("E(x)"), &model, energy, &x, cpu.visible(x.clone()), burn.visible(x.clone()));
    assert_eq!(cpu.energies(x.clone()), values(cpu.visible(x.clone()).energy), "{}", what("E(x) alone"));
    let (expected_z, z) = (burn.encode(x.clone()), cpu.encode(x));
    assert_values(&what("z"), n, &values(z.clone()), &values(expected_z));
    assert_values(&what("f_d(z)"), n, &values(cpu.decode(z.clone())), &values(burn.decode(z.clone())));
    assert_burns(&what("H(z)"), &model, on_manifold_energy, &z, cpu.latent(z.clone()), burn.latent(z.clone()));
}

/// The energy is known; gradients are the other engine's, but for one sample in eight, which may be at a kink. The manifold
/// is another network's.
#[test]
fn what_draws_samples_back_is_the_closed_form_in_both_engines() {
    for spec in every() {
        let [model, manifold] = [2, 1].map(|seed| crate::networks::trained_scale(&spec, seed));
        let image = spec.image();
        let burn = BurnFrozen::new(&model, Precision::F32).on_manifold_of(Some(&manifold));
        let cpu = engine_of(&model, &spec).on_manifold_of(Some(&manifold), [image.channels, image.height, image.width]);
        let weights: Vec<f32> = (0..N).map(|i| 0.5 + i as f32 / 8.0).collect();
        let latents = manifold.valid().encode(images(&spec, N, 3));
        let recovery = Recovery { latents: latents.clone(), weights: weights.clone() };
        let (x, z) = (images(&spec, N, 2), manifold.valid().encode(images(&spec, N, 4)));
        for (input, image, [by_burn, by_cpu]) in [
            (x.clone(), x.clone(), [burn.recovery(x.clone(), &recovery), cpu.recovery(x, &recovery)]),
            (
                z.clone(),
                manifold.valid().decode(z.clone()),
                [burn.latent_recovery(z.clone(), &recovery), cpu.latent_recovery(z, &recovery)],
            ),
        ] {
            let apart = manifold.valid().encode(image) - latents.clone();
            let squares = values((apart.clone() * apart).reshape([N, spec.latent_dim()]).sum_dim(1));
            for EnergyGradient { energy, gradient } in [&by_burn, &by_cpu] {
                assert_eq!(gradient.dims(), input.dims());
                for ((energy, square), weight) in values(energy.clone()).iter().zip(&squares).zip(&weights) {
                    let expected = weight / 2.0 * square;
                    assert!(
                        (energy - expected).abs() <= 1e-4 * expected + 1e-6 * weight,
                        "{}: {energy} {expected}",
                        spec.name()
                    );
                }
            }
            let (found, expected) = (values(by_cpu.gradient), values(by_burn.gradient));
            let len = found.len() / N;
            let wide = |v: &[f32]| v.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
            let errors =
                found.chunks(len).zip(expected.chunks(len)).map(|(found, expected)| error(found, &wide(expected)));
            let off = errors.filter(|error| *error > 10.0).count();
            assert!(off <= N / 8, "{}: {off} gradients differ", spec.name());
            assert!(expected.iter().any(|g| *g != 0.0), "{}", spec.name());
        }
    }
}

/// Largest difference of a weight's gradient from burn's, in each parameter, in parts of its largest.
fn weight_errors(model: &Autoencoder, spec: &AutoencoderSpec, x: &Tensor<4>) -> Vec<f32> {
    struct Tracked;
    impl ModuleMapper for Tracked {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(Tensor::require_grad)
        }
    }
    let n = x.dims()[0] as f32;
    let (_, gradients) = engine_of(model, spec).weights(x.clone(), |e| e / n);
    // With the energy as its own coefficient, held constant, the loss is half the mean squared energy.
    let tracked = model.clone().map(&mut Tracked);
    let e = energy(&tracked, x.clone().autodiff());
    let loss = (e.clone() * e).mean().mul_scalar(0.5);
    let expected = GradientsParams::from_grads(loss.backward(), &tracked);
    assert_eq!(gradients.len(), expected.len(), "{}", spec.name());
    let of = |(id, shape, found): (_, Vec<usize>, Vec<f32>)| {
        let expected = match shape.len() {
            1 => values(expected.get::<1>(id).unwrap()),
            2 => values(expected.get::<2>(id).unwrap()),
            _ => values(expected.get::<4>(id).unwrap()),
        };
        assert_eq!(found.len(), expected.len());
        let scale = expected.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let worst = found.iter().zip(&expected).fold(0.0f32, |m, (f, e)| m.max((f - e).abs()));
        if worst.is_nan() { f32::INFINITY } else { worst / (scale + 1e-3) }
    };
    gradients.into_iter().map(of).collect()
}

/// Besides narrow networks the one that the experiments train, whose channels fill whole vectors in every layer but the
/// last.
#[test]
fn weight_gradients_are_burns() {
    let half = conv28(16, 32, LatentSpace::Sphere).unwrap();
    for spec in every().chain([half]) {
        let model = crate::networks::trained_scale(&spec, 1);
        let errors = weight_errors(&model, &spec, &images(&spec, 5, 3));
        assert!(errors.iter().all(|e| *e <= 2e-4), "{}: {errors:?}", spec.name());
    }
}

/// What other processors run is tested here too, in a process of its own. Without a fused multiply-add, plain code
/// rounds twice where the others round once, and crosses more kinks than `assert_burns` can find: of it, the weights'
/// gradients are compared, which go through every loop.
#[test]
fn every_instruction_set_agrees_with_burn() {
    const WEIGHTS: &str = "engine::weight_gradients_are_burns";
    for (instructions, tests) in
        [("avx2", &["engine::energies_and_input_gradients_are_burns", WEIGHTS][..]), ("plain", &[WEIGHTS])]
    {
        if instructions.parse::<Instructions>().is_err() {
            println!("skipped: this processor has no {instructions}");
            continue;
        }
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.arg("--exact").args(tests).env(INSTRUCTIONS, instructions).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let passed = format!("{} passed", tests.len());
        assert!(output.status.success() && said.contains(&passed), "{instructions}: {said}");
    }
}

#[test]
fn results_depend_neither_on_threads_nor_on_how_a_batch_is_cut() {
    for spec in crate::networks::architectures() {
        let model = crate::networks::trained_scale(&spec, 1);
        let cpu = engine_of(&model, &spec);
        let x = images(&spec, N, 4);
        let run = |threads: usize| {
            shard::with_threads(threads.try_into().unwrap(), || {
                let (energies, gradients) = cpu.weights(x.clone(), |e| e - 0.1);
                let gradients: Vec<f32> = gradients.into_iter().flat_map(|(_, _, values)| values).collect();
                (values(cpu.visible(x.clone()).gradient), energies, gradients)
            })
        };
        let one = run(1);
        assert!(run(2) == one && run(3) == one, "{}", spec.name());
        let last = values(cpu.visible(x.clone().narrow(0, N - 1, 1)).gradient);
        assert_eq!(one.0[one.0.len() - last.len()..], last, "{}", spec.name());
    }
}

/// A convolution or a transposed one, with channels in that are fewer or more than a vector's.
#[derive(Clone, Debug)]
struct Case {
    transposed: bool,
    channels: [usize; 2],
    kernel: usize,
    stride: usize,
    padding: usize,
    size: [usize; 2],
}

fn case() -> impl Strategy<Value = Case> {
    let sizes = ((1usize..8), (1usize..8));
    let channels = (prop_oneof![1usize..4, 7usize..19, 30usize..36], prop_oneof![1usize..10, 15usize..18, 30usize..50]);
    (any::<bool>(), channels, 1usize..5, 1usize..4, 0usize..3, sizes).prop_map(
        |(transposed, (a, b), kernel, stride, padding, (h, w))| Case {
            transposed,
            channels: [a, b],
            kernel,
            stride,
            padding,
            size: [h, w],
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// ∇E·d by the engine and (E(x + hd) − E(x − hd)) / 2h by burn in float64; weights' gradients by both.
    #[test]
    fn random_convolutions_are_differentiated(case in case()) {
        let Case { transposed, channels: [inp, out], kernel, stride, padding, size: [h, w] } = case;
        let layer =
            if transposed { conv_transpose2d(out, kernel, stride, padding) } else { conv2d(out, kernel, stride, padding) };
        let image = Shape::new(inp, h, w);
        // Smooth: at a kink, one sum that rounding moves across 0 is a wrong derivative of neither.
        let encoder = vec![layer, LayerSpec::Elu { alpha: 1.0 }, fc(3)];
        let decoder = vec![fc(image.len()), LayerSpec::Reshape { shape: [inp, h, w] }];
        let Ok(spec) = AutoencoderSpec::new("random", image, encoder, decoder, LatentSpace::Euclidean) else {
            return Err(TestCaseError::reject("the kernel does not fit"));
        };
        const FEW: usize = 3;
        const STEP: f64 = 1e-6;
        let model = crate::networks::trained_scale(&spec, 1);
        let x = images(&spec, FEW, 5);
        let gradient = values(engine_of(&model, &spec).visible(x.clone()).gradient);
        let model64 = crate::networks::double(&model);
        let d = NoiseSource::new(6, 0).uniform::<4>(x.dims(), &Device::flex()).sub_scalar(0.5);
        let at = |h: f64| -> Vec<f64> {
            let x = x.clone().cast(FloatDType::F64) + d.clone().cast(FloatDType::F64).mul_scalar(h);
            energy(&model64, x.autodiff()).into_data().try_into_vec().unwrap()
        };
        let slopes = at(STEP).into_iter().zip(at(-STEP)).map(|(up, down)| (up - down) / (2.0 * STEP));
        let (d, len) = (values(d.clone()), image.len());
        for (i, slope) in slopes.enumerate() {
            let (g, d) = (&gradient[i * len..][..len], &d[i * len..][..len]);
            let along: f64 = g.iter().zip(d).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
            let size = |v: &[f32]| v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
            let bound = 2e-5 * size(g) * size(d) + 1e-7;
            prop_assert!((along - slope).abs() <= bound, "{along} {slope}");
        }
        let errors = weight_errors(&model, &spec, &x);
        prop_assert!(errors.iter().all(|e| *e <= 1e-4), "{errors:?}");
    }
}
