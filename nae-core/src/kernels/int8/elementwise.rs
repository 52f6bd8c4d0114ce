//! Functions of every value, sums and products of tensors, division by the norm. All except the norm round twice.

use super::quantize::{Multiplier, Range, Twice};

/// Replaces every value v by `table[v + 128]`: sigmoid, tanh, or any other function of one value.
pub fn look_up(table: &[i8; 256], values: &mut [i8]) {
    // The exclusive or maps −128..=127 to 0..=255, for four values at once.
    let (blocks, rest) = values.as_chunks_mut::<4>();
    for block in blocks {
        let indices = u32::from_le_bytes(block.map(|value| value as u8)) ^ 0x8080_8080;
        for (value, index) in block.iter_mut().zip(indices.to_le_bytes()) {
            *value = table[usize::from(index)];
        }
    }
    for value in rest {
        *value = table[usize::from(*value as u8 ^ 0x80)];
    }
}

/// Replaces every value by a function of it: by a table of all results, if there are enough values to make that faster.
fn replace(values: &mut [i8], function: impl Fn(i8) -> i8) {
    if values.len() > 512 {
        let mut table = [0; 256];
        for (value, entry) in (i8::MIN..=i8::MAX).zip(&mut table) {
            *entry = function(value);
        }
        look_up(&table, values);
    } else {
        for value in values {
            *value = function(*value);
        }
    }
}

/// Conversion of the same real values to another scale and zero point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requantize {
    /// Zero point of the input.
    pub input_zero_point: i8,
    /// Scale of input / scale of output.
    pub multiplier: Multiplier,
    /// Values of the output.
    pub range: Range,
}

/// Converts values to another scale and zero point, in place. For more than 512 values it makes a table on the stack.
pub fn requantize(layer: &Requantize, values: &mut [i8]) {
    let (zero, multiplier, range) = (i32::from(layer.input_zero_point), layer.multiplier.twice(), layer.range);
    replace(values, |value| range.hold(multiplier.apply(i32::from(value) - zero)));
}

/// Leaky ReLU: x for x ≥ 0, else slope · x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyRelu {
    /// Zero point of the input.
    pub input_zero_point: i8,
    /// Scale of input / scale of output.
    pub positive: Multiplier,
    /// Slope · scale of input / scale of output. The slope is not negative.
    pub negative: Multiplier,
    /// Values of the output.
    pub range: Range,
}

/// Applies leaky ReLU, in place. For more than 512 values it makes a table on the stack.
pub fn leaky_relu(layer: &LeakyRelu, values: &mut [i8]) {
    let (zero, range) = (i32::from(layer.input_zero_point), layer.range);
    let (positive, negative) = (layer.positive.twice(), layer.negative.twice());
    replace(values, |value| {
        let centred = i32::from(value) - zero;
        let multiplier = if centred >= 0 { positive } else { negative };
        range.hold(multiplier.apply(centred))
    });
}

/// The sum of two tensors, each with its own scale.
///
/// With t twice the greater input scale: `a` = scale of a / t, `b` = scale of b / t, `sum` = t /
/// (2^20 · scale of output), at most 1. Inputs are shifted 20 bits to the left first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Add {
    /// Zero points of the two inputs.
    pub input_zero_points: [i8; 2],
    /// Factors of the two inputs, at most ½ each.
    pub inputs: [Multiplier; 2],
    /// Factor of the sum.
    pub sum: Multiplier,
    /// Values of the output.
    pub range: Range,
}

impl Add {
    /// Returns the sum for these scales; `None` if a scale is not a positive number or the ratio is beyond
    /// [`Multiplier`].
    pub fn new(input_scales: [f32; 2], input_zero_points: [i8; 2], output_scale: f32, range: Range) -> Option<Self> {
        let [a, b] = input_scales.map(f64::from);
        let twice = 2.0 * if a > b { a } else { b };
        let output = f64::from(output_scale);
        if !(a > 0.0 && b > 0.0 && output > 0.0) {
            return None;
        }
        Some(Self {
            input_zero_points,
            inputs: [Multiplier::from_real(a / twice)?, Multiplier::from_real(b / twice)?],
            sum: Multiplier::from_real(twice / ((1 << 20) as f64 * output))?,
            range,
        })
    }

    /// Returns the function that adds two values.
    #[inline(always)]
    fn sum(&self) -> impl Fn(i8, i8) -> i8 + use<> {
        let [zero_a, zero_b] = self.input_zero_points.map(i32::from);
        let [scale_a, scale_b] = self.inputs.map(Multiplier::twice);
        let (sum, range): (Twice, Range) = (self.sum.twice(), self.range);
        move |a, b| {
            let a = scale_a.apply((i32::from(a) - zero_a) << 20);
            let b = scale_b.apply((i32::from(b) - zero_b) << 20);
            range.hold(sum.apply(a.wrapping_add(b)))
        }
    }
}

/// Computes `output = a + b`.
pub fn add(layer: &Add, a: &[i8], b: &[i8], output: &mut [i8]) {
    let sum = layer.sum();
    for ((value, a), b) in output.iter_mut().zip(a).zip(b) {
        *value = sum(*a, *b);
    }
}

/// Computes `a = a + b`.
pub fn add_in_place(layer: &Add, a: &mut [i8], b: &[i8]) {
    let sum = layer.sum();
    for (a, b) in a.iter_mut().zip(b) {
        *a = sum(*a, *b);
    }
}

/// The product of two tensors, each with its own scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiply {
    /// Zero points of the two inputs.
    pub input_zero_points: [i8; 2],
    /// Scale of a · scale of b / scale of output.
    pub multiplier: Multiplier,
    /// Values of the output.
    pub range: Range,
}

impl Multiply {
    /// Returns the function that multiplies two values.
    #[inline(always)]
    fn product(&self) -> impl Fn(i8, i8) -> i8 + use<> {
        let [zero_a, zero_b] = self.input_zero_points.map(i32::from);
        let (multiplier, range): (Twice, Range) = (self.multiplier.twice(), self.range);
        move |a, b| range.hold(multiplier.apply((i32::from(a) - zero_a) * (i32::from(b) - zero_b)))
    }
}

/// Computes `output = a · b`, value by value.
pub fn multiply(layer: &Multiply, a: &[i8], b: &[i8], output: &mut [i8]) {
    let product = layer.product();
    for ((value, a), b) in output.iter_mut().zip(a).zip(b) {
        *value = product(*a, *b);
    }
}

/// Computes `a = a · b`, value by value.
pub fn multiply_in_place(layer: &Multiply, a: &mut [i8], b: &[i8]) {
    let product = layer.product();
    for (a, b) in a.iter_mut().zip(b) {
        *a = product(*a, *b);
    }
}

/// Division by the Euclidean norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2Normalize {
    /// Zero point of the input. Its scale cancels.
    pub input_zero_point: i8,
    /// The least square of the norm to divide by, in squares of the input's scale, rounded up: (ε / scale)².
    pub least: u32,
    /// 1 / scale of output. TFLite fixes the scale 1/128.
    pub gain: Multiplier,
    /// Values of the output.
    pub range: Range,
}

/// Divides all values by their common Euclidean norm, in place.
///
/// The norm's square is exact. Its root and reciprocal have 30 bits, so a result is the rounded quotient, except that a
/// quotient within 2^-20 of a half may be rounded either way. TFLite's reference kernel differs from it by at most one.
pub fn l2_normalize(layer: &L2Normalize, values: &mut [i8]) {
    let zero = i32::from(layer.input_zero_point);
    let mut square = 0u64;
    for value in values.iter() {
        let centred = i32::from(*value) - zero;
        square += u64::from((centred * centred).unsigned_abs());
    }
    let square = square.max(u64::from(layer.least)).max(1);
    let multiplier = layer.gain.over_root(square);
    for value in values {
        *value = layer.range.hold(multiplier.apply(i32::from(*value) - zero));
    }
}

impl Multiplier {
    /// This factor divided by the root of `square`, which is not 0.
    fn over_root(self, square: u64) -> Self {
        // square · 4^k with its leading one at bit 60 or 61, so that the root's is at bit 30.
        let pairs = (square.leading_zeros() / 2).min(31) as i32 - 1;
        let scaled = if pairs >= 0 { square << (2 * pairs) } else { square >> 2 };
        let root = scaled.isqrt().max(1);
        // value / root, both in [2^30, 2^31), as a 31-bit fraction: in (2^30, 2^32).
        let quotient = ((self.value.unsigned_abs() as u64) << 31) / root;
        let (value, carry) = if quotient >> 31 == 0 { (quotient, 0) } else { (quotient >> 1, 1) };
        // 1/√square = 2^pairs / root; value has the factor 2^-31 and the quotient 2^31.
        let shift = self.shift.clamp(*Self::SHIFTS.start(), *Self::SHIFTS.end());
        Self { value: value.min(i32::MAX as u64) as i32, shift: shift + pairs - 31 + carry }
    }
}
