//! Requantization, norms, sums for the energy and packing of the quantized kernels.
#![allow(clippy::unwrap_used)]

#[path = "int8/rounding.rs"]
mod rounding;

use nae_core::Shape;
use nae_core::kernels::int8::{self, Layout, Multiplier, Range, Sums};
use nae_core::layer::Padding;
use nae_graph::int8_weights::{self as pack, Unpacked};
use proptest::prelude::*;
use rounding::{multiplier, once, twice};

proptest! {
    #[test]
    fn multipliers_are_the_nearest(real in prop_oneof![1e-9f64..1.0, 1.0f64..1e9]) {
        let m = Multiplier::from_real(real).unwrap();
        prop_assert!(m.value >= 1 << 30);
        let back = f64::from(m.value) * f64::powi(2.0, m.shift - 31);
        prop_assert!((back - real).abs() <= f64::powi(2.0, m.shift - 32), "{} {}", back, real);
    }

    #[test]
    fn requantisation_equals_exact_arithmetic(x in any::<i32>(), m in multiplier()) {
        prop_assert_eq!(m.apply(x), once(x, m));
        prop_assert_eq!(m.apply_twice(x), twice(x, m));
    }

    /// Any sum, and any factor with any shift: no step saturates before the last.
    #[test]
    fn two_roundings_are_those_of_tflite_for_any_sum(
        x in prop_oneof![any::<i32>(), i32::MAX - 100_000..=i32::MAX, i32::MIN..=i32::MIN + 100_000],
        value in prop_oneof![1i32 << 30..=i32::MAX, i32::MAX - 100_000..=i32::MAX],
        shift in -31i32..=30,
    ) {
        // A shift to the left comes first, and wraps.
        let shifted = x.wrapping_shl(shift.max(0) as u32);
        let expected = twice(shifted, Multiplier { value, shift: shift.min(0) });
        prop_assert_eq!(Multiplier { value, shift }.apply_twice(x), expected);
    }

    #[test]
    fn functions_of_a_value_do_not_depend_on_how_many_there_are(
        values in prop::collection::vec(any::<i8>(), 1..1500),
        zero in any::<i8>(), out in any::<i8>(), m in [multiplier(), multiplier()],
    ) {
        let range = Range::full(out);
        let leaky = int8::LeakyRelu { input_zero_point: zero, positive: m[0], negative: m[1], range };
        let scaled = int8::Requantize { input_zero_point: zero, multiplier: m[0], range };
        let (mut a, mut b) = (values.clone(), values.clone());
        int8::leaky_relu(&leaky, &mut a);
        int8::requantize(&scaled, &mut b);
        for (value, (a, b)) in values.iter().zip(a.iter().zip(&b)) {
            let centred = i32::from(*value) - i32::from(zero);
            let hold = |v: i32| (v + i32::from(out)).clamp(-128, 127) as i8;
            prop_assert_eq!(*a, hold(twice(centred, m[usize::from(centred < 0)])));
            prop_assert_eq!(*b, hold(twice(centred, m[0])));
        }
    }

    #[test]
    fn norms_are_divided_out(values in prop::collection::vec(any::<i8>(), 1..200), zero in any::<i8>(), out in any::<i8>()) {
        let gain = Multiplier::from_real(128.0).unwrap();
        let layer = int8::L2Normalize { input_zero_point: zero, least: 0, gain, range: Range::full(out) };
        let centred: Vec<f64> = values.iter().map(|v| f64::from(*v) - f64::from(zero)).collect();
        let norm = centred.iter().map(|v| v * v).sum::<f64>().sqrt().max(1.0);
        let mut y = values;
        int8::l2_normalize(&layer, &mut y);
        for (y, x) in y.iter().zip(&centred) {
            let want = (128.0 * x / norm + f64::from(out)).clamp(-128.0, 127.0);
            prop_assert!((f64::from(*y) - want).abs() <= 0.5 + 2e-6, "{} {}", y, want);
        }
    }
}

#[test]
fn a_factor_of_zero_has_no_sign() {
    let zero = Some(Multiplier { value: 0, shift: 0 });
    assert_eq!((Multiplier::from_real(0.0), Multiplier::from_real(-0.0)), (zero, zero));
    assert_eq!(Multiplier::from_real(-f64::MIN_POSITIVE), None);
}

/// The greatest sums that the layout takes, with the shifts where a half added to them would pass 32 bits.
#[test]
fn large_biases_are_rounded_as_by_tflite() {
    assert_eq!(Multiplier { value: i32::MAX, shift: -24 }.apply_twice(i32::MAX), 128);
    assert_eq!(Multiplier { value: i32::MAX, shift: -31 }.apply_twice(i32::MAX), 1);
    let windows = int8::Windows {
        input: Shape::vector(1),
        output: Shape::vector(2),
        kernel: [1, 1],
        stride: [1, 1],
        padding: Padding::NONE,
    };
    let bias = i32::MAX - 40_000;
    let channels = [[bias, i32::MAX, -24], [-bias, i32::MAX, -24]];
    let weights = int8::Weights { layout: Layout::Plain, words: &[0], channels: &channels };
    let mut output = [0; 2];
    int8::conv2d(&windows, 0, weights, Range::full(-10), &mut [], &[0], &mut output);
    assert_eq!(output, [118, -128]);
}

#[test]
fn sums_are_exact() {
    let x: Vec<i8> = (0..100_000).map(|i| (i * 7 % 256 - 128) as i8).collect();
    let y: Vec<i8> = (0..100_000).map(|i| (i * 13 % 251 - 125) as i8).collect();
    let sum =
        |term: &dyn Fn(i64, i64) -> i64| x.iter().zip(&y).map(|(x, y)| term((*x).into(), (*y).into())).sum::<i64>();
    let want = Sums {
        count: 100_000,
        x: sum(&|x, _| x),
        y: sum(&|_, y| y),
        xx: sum(&|x, _| x * x),
        xy: sum(&|x, y| x * y),
        yy: sum(&|_, y| y * y),
    };
    assert_eq!(Sums::of(&x, &y), want);
}

#[test]
fn layers_that_a_layout_cannot_hold_are_refused() {
    let m = Multiplier { value: 1 << 30, shift: -5 };
    let paired = |weights: &[i8], bias, m| pack_one(Layout::Paired, weights, bias, m);
    assert_eq!(paired(&[1, 2], 3, m), Ok(()));
    assert_eq!(paired(&[1, -128], 3, m), Err(pack::PackError::Weight));
    assert_eq!(paired(&[1, 2], i32::MAX, m), Err(pack::PackError::Output { output: 0 }));
    assert_eq!(paired(&[1, 2], 3, Multiplier { shift: 0, ..m }), Err(pack::PackError::Output { output: 0 }));
    assert_eq!(paired(&[1, 2, 3], 3, m), Err(pack::PackError::Lengths));
    assert_eq!(pack_one(Layout::Plain, &[1, -128], i32::MAX, Multiplier { shift: 0, ..m }), Ok(()));
}

/// A dense layer of two inputs and one output.
fn pack_one(layout: Layout, weights: &[i8], bias: i32, m: Multiplier) -> Result<(), pack::PackError> {
    let layer = Unpacked { outputs: 1, kernel: [1, 1], input_channels: 2, weights, bias: &[bias], multipliers: &[m] };
    pack::conv2d(layout, &layer).map(|_| ())
}
