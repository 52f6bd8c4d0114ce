//! Activations, the projection to the sphere, and energies, each with its backward pass.

use nae_core::layer::Activation;
use pulp::Simd;

use crate::plane::Planes;
use crate::vector::{Pair, each};

#[derive(Clone, Copy)]
struct Rectified(f32);

/// Returns `slope`·`a` if `sign` is zero or negative, else `a`. NaN stays NaN: an overflow must not look like a result.
#[inline(always)]
pub fn rectified<S: Simd>(simd: S, a: S::f32s, sign: S::f32s, slope: f32) -> S::f32s {
    let zero = simd.splat_f32s(0.0);
    // There is no product if the slope is zero: it would keep a minus sign, and give NaN for an infinity.
    let other = if slope == 0.0 { zero } else { simd.mul_f32s(a, simd.splat_f32s(slope)) };
    // Every comparison with NaN is false. Therefore the comparison is the one that selects `other`.
    simd.select_f32s(simd.less_than_or_equal_f32s(sign, zero), other, a)
}

/// As [`rectified`], for one value.
#[inline(always)]
pub fn rectified_value(a: f32, sign: f32, slope: f32) -> f32 {
    match sign <= 0.0 {
        true if slope == 0.0 => 0.0,
        true => slope * a,
        false => a,
    }
}

impl Pair for Rectified {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        rectified(simd, a, b, self.0)
    }
}

/// Returns `a` clamped to `[min, max]`. NaN stays NaN.
#[inline(always)]
pub fn clamped<S: Simd>(simd: S, a: S::f32s, min: f32, max: f32) -> S::f32s {
    let (min, max) = (simd.splat_f32s(min), simd.splat_f32s(max));
    // What the instructions for the minimum and maximum return for NaN differs between processors.
    let a = simd.select_f32s(simd.less_than_or_equal_f32s(a, min), min, a);
    simd.select_f32s(simd.greater_than_or_equal_f32s(a, max), max, a)
}

/// Returns `slope`·x if x is zero or negative, else x.
pub fn rectify(x: &Planes, slope: f32) -> Planes {
    let mut output = x.clone();
    each(Rectified(slope), &mut output.data, &x.data);
    output
}

/// Computes the gradient at the input of a rectifier, in place. `decisive` is its input, or its output if `slope` is
/// not negative.
pub fn rectify_backward(decisive: &Planes, slope: f32, gradient: &mut Planes) {
    each(Rectified(slope), &mut gradient.data, &decisive.data);
}

/// Applies an activation that is not a rectifier, in place.
pub fn activate(activation: Activation, x: &mut Planes) {
    let each = |x: &mut Planes, f: &dyn Fn(f32) -> f32| x.data.iter_mut().for_each(|value| *value = f(*value));
    match activation {
        Activation::Elu { alpha } => each(x, &|x| if x < 0.0 { alpha * x.exp_m1() } else { x }),
        Activation::Sigmoid => each(x, &|x| 1.0 / (1.0 + (-x).exp())),
        Activation::Tanh => each(x, &f32::tanh),
        _ => {}
    }
}

/// Clamps every value to `[min, max]`, in place.
pub fn clamp(x: &mut Planes, min: f32, max: f32) {
    x.data.iter_mut().for_each(|value| *value = value.clamp(min, max));
}

/// A factor and an offset for each channel, as exporters insert before a network's first layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// The factors, repeated to some hundred values, so that the loop over them is long.
    factors: Vec<f32>,
    offsets: Vec<f32>,
}

impl Scaling {
    /// Returns the scaling of a 1×1 convolution, whose weights are `[output, input]`; `None` if it mixes channels.
    pub fn of(weights: &[f32], bias: &[f32]) -> Option<Self> {
        let channels = bias.len();
        if channels == 0 || weights.len() != channels * channels {
            return None;
        }
        let mixes = |at: usize| at / channels != at % channels && weights[at] != 0.0;
        if (0..weights.len()).any(mixes) {
            return None;
        }
        let repeated = |of: &dyn Fn(usize) -> f32| (0..64).flat_map(|_| (0..channels).map(of)).collect();
        let factors = repeated(&|channel| weights[channel * channels + channel]);
        Some(Self { factors, offsets: repeated(&|channel| bias[channel]) })
    }

    /// Returns `x` times the factors, plus the offsets.
    pub fn forward(&self, x: &Planes) -> Planes {
        let mut output = Planes::scratch(x.workspace(), x.n, x.size);
        let len = self.factors.len();
        for (x, y) in x.data.chunks(len).zip(output.data.chunks_mut(len)) {
            let pairs = self.factors.iter().zip(&self.offsets);
            for ((y, x), (factor, offset)) in y.iter_mut().zip(x).zip(pairs) {
                *y = x * factor + offset;
            }
        }
        output
    }
}

/// Whether the backward pass of [`activate`] needs only its output, not its input.
pub const fn goes_back_by_output(activation: Activation) -> bool {
    matches!(activation, Activation::Sigmoid | Activation::Tanh)
}

/// 2⁻⁶⁰: gradients that pass back through an activation, and biases, are set to zero below it. The background that a
/// model has learned moves ever deeper into the flat part of the sigmoid, and weight decay moves the biases of dead
/// units ever closer to zero. Both become subnormal numbers, with which some processors are slow, and so are all layers
/// that multiply with them.
pub(crate) const NEGLIGIBLE: f32 = 1.0 / (1u64 << 60) as f32;

/// Returns `value`, or zero if its magnitude is below `least`. NaN remains NaN.
#[inline]
pub fn zero_below(least: f32, value: f32) -> f32 {
    if value.abs() < least { 0.0 } else { value }
}

/// Computes the gradient at the input of [`activate`], in place; zero if it is below 2⁻⁶⁰. Either its input `before` or
/// its `output` is read, depending on [`goes_back_by_output`].
pub fn activate_backward(activation: Activation, before: &Planes, output: &Planes, gradient: &mut Planes) {
    let decisive = if goes_back_by_output(activation) { output } else { before };
    let mut each = |f: &dyn Fn(f32) -> f32| {
        gradient.data.iter_mut().zip(&decisive.data).for_each(|(g, v)| *g = zero_below(NEGLIGIBLE, *g * f(*v)));
    };
    match activation {
        Activation::Elu { alpha } => each(&|x| if x < 0.0 { alpha * x.exp() } else { 1.0 }),
        Activation::Sigmoid => each(&|y| y * (1.0 - y)),
        Activation::Tanh => each(&|y| 1.0 - y * y),
        _ => {}
    }
}

#[derive(Clone, Copy)]
struct Sum;

impl Pair for Sum {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.add_f32s(a, b)
    }
}

/// Computes a + b, in place of a. Both must have as many values.
///
/// # Panics
/// If the lengths differ, in builds with debug assertions; in others the last values are then wrong.
pub fn add(a: &mut [f32], b: &[f32]) {
    each(Sum, a, b);
}

#[derive(Clone, Copy)]
struct Product;

impl Pair for Product {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.mul_f32s(a, b)
    }
}

/// Computes a ⊙ b, in place of a.
pub fn multiply(a: &mut [f32], b: &[f32]) {
    each(Product, a, b);
}

/// The least sum of squares that is used as it is: 2⁻¹⁰³. Squares that are subnormal numbers have lost digits; beside a
/// sum as large as this one, these digits do not count.
const LEAST_SQUARES: f32 = f32::MIN_POSITIVE / f32::EPSILON;

/// Divides each vector of `len` numbers by its norm, or by `least` if that is larger, in place; returns the divisors. Numbers
/// after the last whole vector are not changed. With a `least` of 0, a vector of zeros becomes NaN; a vector with an
/// infinity or NaN always does. The divisor is infinite if the norm is beyond `f32`, although the quotients are right.
///
/// # Panics
/// If `len` is 0.
pub fn normalize(x: &mut [f32], len: usize, least: f32) -> Vec<f32> {
    x.chunks_exact_mut(len)
        .map(|vector| {
            let squares = vector.iter().map(|v| v * v).sum::<f32>();
            if !(LEAST_SQUARES..=f32::MAX).contains(&squares) {
                return normalize_scaled(vector, least);
            }
            let norm = squares.sqrt().max(least);
            for value in vector {
                *value /= norm;
            }
            norm
        })
        .collect()
}

/// As [`normalize`], for one vector whose squares overflow or underflow. The numbers are first divided by the greatest,
/// as `nae-core` does.
#[cold]
fn normalize_scaled(vector: &mut [f32], least: f32) -> f32 {
    let greatest = vector.iter().fold(0.0f32, |greatest, value| greatest.max(value.abs()));
    let scale = if greatest > 0.0 { greatest } else { 1.0 };
    let root = vector.iter().map(|value| value / scale).map(|scaled| scaled * scaled).sum::<f32>().sqrt();
    let norm = scale * root;
    // The norm can exceed `f32` although the numbers do not: then the division takes two steps.
    if norm == f32::INFINITY {
        vector.iter_mut().for_each(|value| *value = *value / scale / root);
        return norm;
    }
    // Not `max`, which would drop NaN.
    let divisor = if norm < least { least } else { norm };
    vector.iter_mut().for_each(|value| *value /= divisor);
    divisor
}

/// Computes the gradient at the input of [`normalize`], whose output was `output`, in place: (g − z·⟨z, g⟩) / norm; and
/// g / `least` where that was the divisor, which does not depend on the input. It is zero if the norm was beyond `f32`,
/// where it is below 10⁻³⁸·|g|.
pub fn normalize_backward(output: &Planes, norms: &[f32], least: f32, gradient: &mut Planes) {
    let len = output.size.len();
    for ((g, z), norm) in gradient.data.chunks_exact_mut(len).zip(output.data.chunks_exact(len)).zip(norms) {
        let along = if *norm > least { g.iter().zip(z).map(|(g, z)| g * z).sum() } else { 0.0f32 };
        for (g, z) in g.iter_mut().zip(z) {
            *g = (*g - z * along) / norm;
        }
    }
}

/// Divides exp(x) by the sum of exp(x) over each vector of `len` numbers, in place. The largest is taken as exp(0), so
/// that nothing overflows.
pub fn softmax(x: &mut [f32], len: usize) {
    for vector in x.chunks_exact_mut(len) {
        let largest = vector.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for value in &mut *vector {
            *value = (*value - largest).exp();
            sum += *value;
        }
        for value in vector {
            *value /= sum;
        }
    }
}

/// Computes the gradient at the input of [`softmax`] at each place, whose output was `output`: s·(g − ⟨s, g⟩), in
/// place.
pub fn softmax_backward(output: &Planes, gradient: &mut Planes) {
    let len = output.size.c;
    for (g, shares) in gradient.data.chunks_exact_mut(len).zip(output.data.chunks_exact(len)) {
        let along: f32 = g.iter().zip(shares).map(|(g, share)| g * share).sum();
        for (g, share) in g.iter_mut().zip(shares) {
            *g = share * (*g - along);
        }
    }
}

/// Returns the mean squared difference of each sample, and its gradient with respect to `x`: 2(x − r)/D. The gradient
/// with respect to the reconstruction is its negative.
pub fn squared_l2(x: &Planes, reconstruction: &Planes) -> (Vec<f32>, Planes) {
    let scale = 2.0 / x.size.len() as f32;
    mean_of(x, reconstruction, |difference| (difference * difference, difference * scale))
}

/// Returns the mean absolute difference of each sample, and its gradient with respect to `x`: sign(x − r)/D, 0 for
/// equal values. The gradient with respect to the reconstruction is its negative.
pub fn l1(x: &Planes, reconstruction: &Planes) -> (Vec<f32>, Planes) {
    let scale = 1.0 / x.size.len() as f32;
    let slope = |difference: f32| if difference == 0.0 { 0.0 } else { scale.copysign(difference) };
    mean_of(x, reconstruction, |difference| (difference.abs(), slope(difference)))
}

/// Returns the mean of each sample and the gradient at each value; `part` gives both for a difference.
#[inline(always)]
fn mean_of(x: &Planes, reconstruction: &Planes, part: impl Fn(f32) -> (f32, f32)) -> (Vec<f32>, Planes) {
    let len = x.size.len();
    let mut gradient = Planes::scratch(x.workspace(), x.n, x.size);
    let energies = x
        .data
        .chunks_exact(len)
        .zip(reconstruction.data.chunks_exact(len))
        .zip(gradient.data.chunks_exact_mut(len))
        .map(|((x, r), g)| {
            let mut sum = 0.0;
            for ((x, r), g) in x.iter().zip(r).zip(g) {
                let (value, slope) = part(x - r);
                sum += value;
                *g = slope;
            }
            sum / len as f32
        })
        .collect();
    (energies, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::Size;

    #[test]
    fn what_is_below_is_zero() {
        let values = [0.5, -0.5, 1.0, -1.0, f32::INFINITY].map(|value| zero_below(1.0, value));
        assert_eq!(values, [0.0, 0.0, 1.0, -1.0, f32::INFINITY]);
        assert!(zero_below(1.0, f32::NAN).is_nan());
    }

    #[test]
    fn a_scaling_is_a_convolution_that_mixes_no_channels() {
        let scaling = Scaling::of(&[2.0, 0.0, 0.0, -1.0], &[0.5, 1.0]).expect("diagonal");
        // More values than are repeated at once, for two samples.
        let mut x = Planes::scratch(&crate::workspace::Workspace::default(), 2, Size { h: 10, w: 11, c: 2 });
        x.data.iter_mut().enumerate().for_each(|(at, value)| *value = at as f32);
        for (at, found) in scaling.forward(&x).data.iter().enumerate() {
            let expected = if at % 2 == 0 { 2.0 * at as f32 + 0.5 } else { 1.0 - at as f32 };
            assert_eq!(*found, expected, "{at}");
        }
        assert_eq!(Scaling::of(&[2.0, 0.1, 0.0, -1.0], &[0.5, 1.0]), None);
        assert_eq!(Scaling::of(&[2.0, 1.0], &[0.5]), None);
    }

    #[test]
    fn gradients_of_what_has_saturated_are_zero() {
        let planes = |values: [f32; 4]| {
            Planes::from_channels_first(&crate::workspace::Workspace::default(), 1, Size { h: 1, w: 1, c: 4 }, &values)
        };
        // From the second value on, the outputs for logits of −41, −69 and −92.
        let output = planes([0.25, 1e-18, 1e-30, 1e-40]);
        let mut gradient = planes([8.0, 8.0, 8.0, f32::NAN]);
        activate_backward(Activation::Sigmoid, &output, &output, &mut gradient);
        assert_eq!(gradient.data[..3], [1.5, 8e-18, 0.0]);
        assert!(gradient.data[3].is_nan());
    }
}
