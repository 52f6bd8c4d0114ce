//! The engine against a naive float64 interpreter, over random networks that end in a dense
//! layer bringing them back to the image's shape.
#![allow(clippy::unwrap_used)]

mod reference;

use nae_core::Shape;
use nae_core::energy::Energy;
use nae_core::engine::{Engine, EngineError};
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_core::model::{Kind, Model};
use nae_graph::{AveragePool2d, Dense, Graph, GroupNormalize, MaxPool2d, Op, emit};
use proptest::prelude::*;
use reference::{Operation, Tensor};

/// Bytes at an address divisible by 4, as a file in flash has.
fn aligned(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect()
}

/// Weights with which values stay below about 2, however many a layer sums: the rounding of an f32
/// goes with the values inside the network, the bound of [`close`] with what comes out.
fn weights(count: usize, fan_in: usize, seed: &mut u64) -> Vec<f32> {
    let scale = 1.0 / (fan_in as f32).sqrt();
    values(count, seed).iter().map(|w| w * scale).collect()
}

fn values(count: usize, seed: &mut u64) -> Vec<f32> {
    (0..count)
        .map(|_| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((*seed >> 40) as f32 / (1 << 23) as f32 - 1.0) * 0.7
        })
        .collect()
}

/// Numbers from which a layer is made that fits its input.
type Dice = (u8, [usize; 10], u64);

fn op(dice: &Dice, input: Shape) -> Operation {
    let (kind, n, mut seed) = *dice;
    let kernel = [n[0] % 4 + 1, n[1] % 4 + 1];
    let stride = [n[2] % 3 + 1, n[3] % 3 + 1];
    let channels = n[4] % 19 + 1;
    let padding =
        Padding { top: n[5] % kernel[0], left: n[6] % kernel[1], bottom: n[7] % kernel[0], right: n[8] % kernel[1] };
    let fits = input.height + padding.top + padding.bottom >= kernel[0]
        && input.width + padding.left + padding.right >= kernel[1];
    let i = input.channels;
    match kind {
        0 | 1 if fits => Operation::Conv {
            weights: weights(channels * i * kernel[0] * kernel[1], i * kernel[0] * kernel[1], &mut seed),
            shape: [channels, i, kernel[0], kernel[1]],
            bias: values(channels, &mut seed),
            stride,
            padding,
        },
        2 | 3 => {
            // A large image grows no further: a sum of 100,000 values may be rounded by more than the bound.
            let stride = if kind == 2 || input.height * input.width > 100 { [1, 1] } else { stride };
            let output_padding = [n[9] % stride[0], n[0] % stride[1]];
            let side = |size: usize, axis: usize| (size - 1) * stride[axis] + kernel[axis] + output_padding[axis];
            let keeps = side(input.height, 0) > padding.top + padding.bottom
                && side(input.width, 1) > padding.left + padding.right;
            let fan_in = i * kernel[0].div_ceil(stride[0]) * kernel[1].div_ceil(stride[1]);
            Operation::ConvTranspose {
                weights: weights(channels * i * kernel[0] * kernel[1], fan_in, &mut seed),
                shape: [i, channels, kernel[0], kernel[1]],
                bias: values(channels, &mut seed),
                stride,
                padding: if keeps { padding } else { Padding::NONE },
                output_padding,
            }
        }
        4 if fits => Operation::MaxPool(MaxPool2d { kernel, stride, padding }),
        5 if fits => {
            Operation::AveragePool(AveragePool2d { kernel, stride, padding, count_include_padding: n[9] % 2 == 1 })
        }
        6 => Operation::Resize(n[0] % 9 + 1, n[1] % 9 + 1, ResizeMode::Nearest),
        7 => Operation::Resize(n[0] % 9 + 1, n[1] % 9 + 1, ResizeMode::BilinearAlignCorners),
        8 => Operation::Resize(n[0] % 9 + 1, n[1] % 9 + 1, ResizeMode::BilinearHalfPixel),
        9 => Operation::Normalize(1e-12),
        10 => dense(input, Shape::new(n[0] % 4 + 1, n[1] % 4 + 1, n[2] % 4 + 1), &mut seed),
        11 => Operation::Activation(Activation::Relu),
        12 if n[0] % 2 == 0 => Operation::Activation(Activation::LeakyRelu { slope: 0.2 }),
        12 => Operation::Activation(Activation::Elu { alpha: 0.7 }),
        13 => Operation::Activation(Activation::Sigmoid),
        14 => Operation::GroupNormalize(GroupNormalize {
            groups: (1..=i).rev().find(|groups| i.is_multiple_of(*groups) && *groups <= n[0] % 6 + 1).unwrap(),
            scale: values(i, &mut seed),
            shift: values(i, &mut seed),
            epsilon: 0.1,
        }),
        // 15 and above: additions, where there is something to add.
        _ => Operation::Activation(Activation::Tanh),
    }
}

fn dense(input: Shape, output: Shape, seed: &mut u64) -> Operation {
    Operation::Dense {
        weights: weights(output.len() * input.len(), input.len(), seed),
        bias: values(output.len(), seed),
        output,
    }
}

fn close(found: &Tensor, expected: &Tensor) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.shape, expected.shape);
    for (found, expected) in found.data.iter().zip(&expected.data) {
        let bound = 2e-5 * expected.abs().max(1.0);
        prop_assert!((found - expected).abs() < bound, "{} is not {}", found, expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_networks_match_float64(
        (channels, height, width) in (1usize..6, 1usize..9, 1usize..9),
        dice in prop::collection::vec((0u8..20, prop::array::uniform10(0usize..100), any::<u64>()), 1..9),
        branches in prop::collection::vec((any::<prop::sample::Index>(), prop::bool::weighted(0.2)), 9),
        latent in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let shape = Shape::new(channels, height, width);
        let mut seed = seed;
        let image = values(shape.len(), &mut seed);
        let mut graph = Graph::new(shape);
        let mut tensors = vec![Tensor::from_hwc(shape, &image)];
        for (dice, (branch, away)) in dice.iter().zip(&branches) {
            // Mostly the tensor before, now and then an older one.
            let from = if *away { branch.index(tensors.len()) } else { tensors.len() - 1 };
            let input = &tensors[from];
            let twin = tensors.iter().rposition(|t| t.shape == input.shape && !std::ptr::eq(t, input));
            let output = match twin {
                Some(other) if dice.0 > 14 => {
                    graph.push_from(from, Op::Add { other });
                    let sums = input.data.iter().zip(&tensors[other].data).map(|(a, b)| a + b);
                    Tensor::new(input.shape, sums.collect())
                }
                _ => {
                    let op = op(dice, input.shape);
                    graph.push_from(from, op.layer(input.shape));
                    op.run(input)
                }
            };
            tensors.push(output);
        }
        let input = tensors.last().unwrap();
        let last = dense(input.shape, shape, &mut seed);
        graph.push_from(dice.len(), last.layer(input.shape));
        let expected = last.run(input);
        let latent = latent.index(dice.len()) + 1;
        graph.latent = Some(latent);

        let bytes = aligned(&emit(&graph).unwrap());
        let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
        let engine = Engine::new(&model).unwrap();
        // What the arena held before must not matter.
        let mut arena = vec![f32::NAN; model.arena_len()];
        let output = engine.run(&image, &mut arena).unwrap();

        close(&Tensor::from_hwc(shape, output.reconstruction), &expected)?;
        let code = Tensor::from_hwc(model.latent_shape().unwrap(), output.latent.unwrap());
        close(&code, &tensors[latent])?;
        let energy = Energy::SquaredL2.evaluate(&image, output.reconstruction, shape);
        prop_assert_eq!(energy, Ok(output.score.energy));
    }
}

/// x → conv → relu → (+ conv's input) → reshape there and back.
fn residual() -> Graph {
    let mut seed = 7;
    let shape = Shape::new(2, 3, 3);
    let mut graph = Graph::new(shape);
    let first = graph.push(Dense::from_out_in(&values(18 * 18, &mut seed), [18, 18], None).unwrap());
    let first = graph.push_from(first, Op::Reshape(shape));
    let second = graph.push(Activation::Tanh);
    graph.push_from(second, Op::Add { other: first });
    graph.push(Op::Reshape(Shape::vector(18)));
    graph.push(Op::Reshape(shape));
    graph
}

#[test]
fn residual_addition_keeps_its_operand() {
    let graph = residual();
    let bytes = aligned(&emit(&graph).unwrap());
    let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let image: Vec<f32> = (0..18).map(|i| i as f32 / 18.0).collect();
    let output = Engine::new(&model).unwrap().run(&image, &mut arena).unwrap();
    let Op::Dense(dense) = &graph.nodes[0].op else { panic!("a dense layer comes first") };
    for (o, found) in output.reconstruction.iter().enumerate() {
        let row = &dense.weights[o * 18..][..18];
        let x: f64 = row.iter().zip(&image).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
        assert!((f64::from(*found) - (x + x.tanh())).abs() < 1e-5);
    }
    // Two tensors are alive at once, and never more.
    assert_eq!(model.arena_len(), 36);
}

#[test]
fn activations_are_fused_and_work_in_place() {
    let shape = Shape::vector(4);
    let identity: Vec<f32> = (0..16).map(|i| if i % 5 == 0 { 1.0 } else { 0.0 }).collect();
    let mut graph = Graph::new(shape);
    graph.push(Dense::from_out_in(&identity, [4, 4], None).unwrap());
    graph.push(Activation::Relu);
    graph.push(Activation::Tanh);
    let bytes = emit(&graph).unwrap();
    let model = Model::parse(&bytes).unwrap();
    let kinds: Vec<Kind> = model.layers().map(|layer| layer.operation.kind()).collect();
    assert_eq!(kinds, [Kind::Dense, Kind::Activation]);
    assert_eq!(model.arena_len(), 4);

    // Before the activation the tensor is wanted as the latent code: not fused, not in place.
    graph.latent = Some(1);
    let bytes = aligned(&emit(&graph).unwrap());
    let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
    assert_eq!((model.layer_count(), model.arena_len()), (3, 8));
    let mut arena = [0.0; 8];
    let output = Engine::new(&model).unwrap().run(&[-1.0, 0.0, 0.5, 1.0], &mut arena).unwrap();
    assert_eq!(output.latent, Some(&[-1.0, 0.0, 0.5, 1.0][..]));
    assert_eq!(output.reconstruction, [0.0, 0.0, 0.5f32, 1.0].map(libm::tanhf));
}

#[test]
fn wrong_lengths_and_non_finite_values_are_errors() {
    let bytes = aligned(&emit(&residual()).unwrap());
    let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
    let engine = Engine::new(&model).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    assert_eq!(engine.run(&[0.0; 17], &mut arena), Err(EngineError::ImageLength));
    assert_eq!(engine.run(&[0.0; 18], &mut arena[1..]), Err(EngineError::ArenaLength));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut image = [0.0; 18];
        image[5] = bad;
        assert_eq!(engine.run(&image, &mut arena), Err(EngineError::NonFiniteImage));
    }
    assert_eq!(engine.run(&[f32::MAX; 18], &mut arena), Err(EngineError::NonFiniteResult));

    let bytes: &[u8] = bytemuck::cast_slice(&bytes);
    let mut shifted = vec![0u8; bytes.len() + 1];
    let at = usize::from((shifted.as_ptr() as usize).is_multiple_of(4));
    shifted[at..at + bytes.len()].copy_from_slice(bytes);
    let model = Model::parse(&shifted[at..at + bytes.len()]).unwrap();
    assert_eq!(Engine::new(&model).map(|_| ()), Err(EngineError::Alignment));
}

#[test]
fn an_engine_without_an_operator_refuses_the_model() {
    let bytes = emit(&residual()).unwrap();
    let model = Model::parse(&bytes).unwrap();
    let engine = Engine::<0>::with_operators(&model);
    assert_eq!(engine.map(|_| ()), Err(EngineError::Operators));
}

#[test]
fn an_overflow_inside_never_becomes_a_finite_energy() {
    // +∞ and −∞ meet in the second layer; NaN must pass ReLU and pooling.
    let mut graph = Graph::new(Shape::vector(2));
    let huge = [f32::MAX, f32::MAX, -f32::MAX, -f32::MAX];
    graph.push(Dense::from_out_in(&huge, [2, 2], None).unwrap());
    graph.push(Dense::from_out_in(&[1.0; 4], [2, 2], None).unwrap().with_activation(Activation::Relu));
    graph.push(MaxPool2d { kernel: [1, 1], stride: [1, 1], padding: Padding::NONE });
    graph.push(Dense::from_out_in(&[1.0; 4], [2, 2], None).unwrap().with_activation(Activation::Relu));
    let bytes = aligned(&emit(&graph).unwrap());
    let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let result = Engine::new(&model).unwrap().run(&[1.0, 1.0], &mut arena);
    assert_eq!(result, Err(EngineError::NonFiniteResult));
}

/// Their norm is beyond `f32`, their quotients are not.
#[test]
fn values_whose_norm_overflows_are_normalised() {
    let mut graph = Graph::new(Shape::vector(4));
    graph.push(Op::L2Normalize { epsilon: 1e-12 });
    let bytes = aligned(&emit(&graph).unwrap());
    let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let engine = Engine::new(&model).unwrap();
    let result = engine.run(&[3e38, -3e38, 3e38, 3e38], &mut arena);
    // The energy of such an image is beyond `f32`.
    assert_eq!(result.map(|_| ()), Err(EngineError::NonFiniteResult));
    assert_eq!(arena[..4], [0.5, -0.5, 0.5, 0.5]);
}

/// Normalized values do not depend on a gain before them, up to the range of `f32` for their squares; beyond it there is an
/// error, and not a result as of values that are all equal.
#[test]
fn a_variance_beyond_f32_is_no_result() {
    let shape = Shape::new(4, 1, 1);
    let run = |gain: f32| {
        let diagonal: Vec<f32> = (0..16).map(|i| if i % 5 == 0 { gain } else { 0.0 }).collect();
        let mut graph = Graph::new(shape);
        graph.push(Dense::from_out_in(&diagonal, [4, 4], None).unwrap());
        let (scale, shift) = (vec![1.0; 4], vec![0.25; 4]);
        graph.push(GroupNormalize { groups: 1, scale, shift, epsilon: 1e-5 });
        // What limits values must not hide it.
        graph.push(Activation::Relu);
        let bytes = aligned(&emit(&graph).unwrap());
        let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
        let mut arena = vec![0.0; model.arena_len()];
        let output = Engine::new(&model).unwrap().run(&[1.0, 2.0, 3.0, 4.0], &mut arena)?;
        Ok(output.reconstruction.to_vec())
    };
    let near: Vec<f32> = run(1e3).unwrap();
    for (found, expected) in run(1e18).unwrap().iter().zip(&near) {
        assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
    }
    for gain in [1e20, 1e30, 8e37] {
        assert_eq!(run(gain), Err(EngineError::NonFiniteResult), "{gain}");
    }
}
