//! Properties of the quantized kernels: layers of any geometry equal a reference written straight
//! from the definition, in every layout; slices that do not fit are no panic.
#![allow(clippy::unwrap_used)]

#[path = "int8/rounding.rs"]
mod rounding;

use nae_core::Shape;
use nae_core::kernels::int8::{self, Layout, Multiplier, Range, Windows};
use nae_core::layer::Padding;
use nae_graph::int8_weights::{self as pack, Unpacked};
use proptest::prelude::*;
use rounding::{multiplier, once, twice};

/// A convolution or transposed convolution with everything it needs.
#[derive(Clone, Debug)]
struct Layer {
    input: Shape,
    output: Shape,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    transposed: bool,
    zero: i8,
    range: Range,
    weights: Vec<i8>,
    bias: Vec<i32>,
    multipliers: Vec<Multiplier>,
    x: Vec<i8>,
}

impl Layer {
    fn windows(&self) -> Windows {
        let padding = Padding { top: self.padding[0], left: self.padding[1], ..Padding::NONE };
        Windows { input: self.input, output: self.output, kernel: self.kernel, stride: self.stride, padding }
    }

    fn pack(&self, layout: Layout) -> pack::Packed {
        let layer = Unpacked {
            outputs: self.output.channels,
            kernel: self.kernel,
            input_channels: self.input.channels,
            weights: &self.weights,
            bias: &self.bias,
            multipliers: &self.multipliers,
        };
        if self.transposed {
            pack::conv_transpose2d(layout, &layer, self.stride).unwrap()
        } else {
            pack::conv2d(layout, &layer).unwrap()
        }
    }

    fn scratch_words(&self, layout: Layout) -> usize {
        if self.transposed {
            int8::conv_transpose2d_scratch_words(layout, &self.windows())
        } else {
            int8::conv2d_scratch_words(layout, &self.windows())
        }
    }

    fn run(&self, weights: int8::Weights<'_>, scratch: &mut [u32], x: &[i8], y: &mut [i8]) {
        if self.transposed {
            int8::conv_transpose2d(&self.windows(), self.zero, weights, self.range, scratch, x, y);
        } else {
            int8::conv2d(&self.windows(), self.zero, weights, self.range, scratch, x, y);
        }
    }

    /// From the definition: every input meets every tap, and the product goes where it belongs.
    fn reference(&self) -> Vec<i8> {
        let (depth, outputs) = (self.input.channels, self.output.channels);
        let mut sums: Vec<i32> = self.bias.iter().copied().cycle().take(self.output.len()).collect();
        for iy in 0..self.input.height {
            for ix in 0..self.input.width {
                for ky in 0..self.kernel[0] {
                    for kx in 0..self.kernel[1] {
                        let place = |i: usize, k: usize, axis: usize, size: usize| -> Option<usize> {
                            let at = if self.transposed {
                                (i * self.stride[axis] + k).checked_sub(self.padding[axis])?
                            } else {
                                let start = (i + self.padding[axis]).checked_sub(k)?;
                                if !start.is_multiple_of(self.stride[axis]) {
                                    return None;
                                }
                                start / self.stride[axis]
                            };
                            (at < size).then_some(at)
                        };
                        let (Some(oy), Some(ox)) =
                            (place(iy, ky, 0, self.output.height), place(ix, kx, 1, self.output.width))
                        else {
                            continue;
                        };
                        for o in 0..outputs {
                            for i in 0..depth {
                                let weight =
                                    self.weights[((o * self.kernel[0] + ky) * self.kernel[1] + kx) * depth + i];
                                let x = self.x[(iy * self.input.width + ix) * depth + i];
                                sums[(oy * self.output.width + ox) * outputs + o] +=
                                    (i32::from(x) - i32::from(self.zero)) * i32::from(weight);
                            }
                        }
                    }
                }
            }
        }
        let result = |(index, sum): (usize, i32)| self.hold(twice(sum, self.multipliers[index % outputs]));
        sums.into_iter().enumerate().map(result).collect()
    }

    fn hold(&self, value: i32) -> i8 {
        let value = value + i32::from(self.range.zero_point);
        value.clamp(i32::from(self.range.min), i32::from(self.range.max)) as i8
    }
}

fn range() -> impl Strategy<Value = Range> {
    (any::<i8>(), any::<i8>(), any::<i8>(), any::<bool>()).prop_map(|(zero_point, a, b, full)| {
        if full { Range::full(zero_point) } else { Range { zero_point, min: a.min(b), max: a.max(b) } }
    })
}

fn weight() -> impl Strategy<Value = i8> {
    // The extremes often: they are what could overflow.
    prop_oneof![4 => -127i8..=127, 1 => Just(-127i8), 1 => Just(127i8)]
}

fn layer() -> impl Strategy<Value = Layer> {
    let depth = prop_oneof![3 => 1usize..=5, 2 => Just(8usize), 1 => Just(12usize)];
    let geometry = (depth, [1usize..=7, 1usize..=7], [1usize..=4, 1usize..=4], [1usize..=3, 1usize..=3], 1usize..=5);
    let padding = [any::<prop::sample::Index>(), any::<prop::sample::Index>()];
    let geometry = (geometry, padding, any::<bool>());
    geometry.prop_flat_map(|((depth, size, kernel, stride, outputs), padding, transposed)| {
        let padding = [0, 1].map(|axis| padding[axis].index(kernel[axis]));
        let side = |axis: usize| {
            let (size, kernel, stride, padding): (usize, usize, usize, usize) =
                (size[axis], kernel[axis], stride[axis], padding[axis]);
            if transposed {
                ((size - 1) * stride + kernel).saturating_sub(2 * padding).max(1)
            } else {
                (size + 2 * padding).saturating_sub(kernel) / stride + 1
            }
        };
        let input = Shape::new(depth, size[0], size[1]);
        let output = Shape::new(outputs, side(0), side(1));
        let taps = kernel[0] * kernel[1] * depth;
        (
            prop::collection::vec(weight(), outputs * taps),
            prop::collection::vec(-100_000i32..=100_000, outputs),
            prop::collection::vec(multiplier(), outputs),
            prop::collection::vec(any::<i8>(), input.len()),
            any::<i8>(),
            range(),
        )
            .prop_map(move |(weights, bias, multipliers, x, zero, range)| Layer {
                input,
                output,
                kernel,
                stride,
                padding,
                transposed,
                zero,
                range,
                weights,
                bias,
                multipliers,
                x,
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn convolutions_equal_the_definition_in_every_layout(layer in layer()) {
        let want = layer.reference();
        for layout in [Layout::Plain, Layout::Paired] {
            let packed = layer.pack(layout);
            let mut scratch = vec![0x5A5A_5A5A; layer.scratch_words(layout)];
            let mut y = vec![77; layer.output.len()];
            layer.run(packed.as_weights(), &mut scratch, &layer.x, &mut y);
            prop_assert_eq!(&y, &want, "{:?}", layout);
            let words = if layer.transposed {
                layout.transposed_words(layer.output.channels, layer.kernel, layer.stride, layer.input.channels)
            } else {
                layout.words(layer.output.channels, layer.kernel[0] * layer.kernel[1] * layer.input.channels)
            };
            prop_assert_eq!(packed.words.len(), words);
        }
    }

    #[test]
    fn slices_that_do_not_fit_are_no_panic(layer in layer(), cut in prop::array::uniform5(0usize..=40)) {
        for layout in [Layout::Plain, Layout::Paired] {
            let packed = layer.pack(layout);
            let keep = |len: usize, cut: usize| len.saturating_sub(cut);
            let mut scratch = vec![0; keep(layer.scratch_words(layout), cut[0])];
            let mut y = vec![77; keep(layer.output.len(), cut[1])];
            let x = &layer.x[..keep(layer.x.len(), cut[2])];
            let weights = int8::Weights {
                layout,
                words: &packed.words[..keep(packed.words.len(), cut[3])],
                channels: &packed.channels[..keep(packed.channels.len(), cut[4])],
            };
            layer.run(weights, &mut scratch, x, &mut y);
            int8::dense(layer.zero, weights, layer.range, &mut scratch, x, &mut y);
            int8::max_pool2d(&layer.windows(), x, &mut y);
            int8::average_pool2d(&layer.windows(), Some(layer.zero), x, &mut y);
            int8::nearest(layer.input, layer.output, x, &mut y);
            int8::bilinear(cut[0] % 2 == 0, layer.input, layer.output, x, &mut y);
        }
    }

    #[test]
    fn dense_layers_equal_the_definition(
        (inputs, outputs) in (prop_oneof![1usize..=20, 250usize..=300, 520usize..=540], 1usize..=5),
        seed in any::<u64>(), zero in any::<i8>(), range in range(), m in multiplier(), extreme in any::<bool>(),
    ) {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as i32
        };
        // With all weights and inputs at their extremes, the paired sums come closest to
        // overflowing.
        let weights: Vec<i8> = (0..inputs * outputs)
            .map(|i| if extreme { [127, -127][i / inputs % 2] } else { (next() % 128 * (1 - 2 * (next() & 1))) as i8 })
            .collect();
        let x: Vec<i8> = (0..inputs).map(|_| if extreme { [127, -128][(zero > 0) as usize] } else { next() as i8 }).collect();
        let bias: Vec<i32> = (0..outputs).map(|_| next() % 5000).collect();
        let layer = Unpacked {
            outputs, kernel: [1, 1], input_channels: inputs, weights: &weights, bias: &bias,
            multipliers: &vec![m; outputs],
        };
        let want: Vec<i8> = (0..outputs).map(|o| {
            let products = x.iter().zip(&weights[o * inputs..]).map(|(x, w)| (i32::from(*x) - i32::from(zero)) * i32::from(*w));
            let value = once(bias[o] + products.sum::<i32>(), m) + i32::from(range.zero_point);
            value.clamp(i32::from(range.min), i32::from(range.max)) as i8
        }).collect();
        for layout in [Layout::Plain, Layout::Paired] {
            let packed = pack::conv2d(layout, &layer).unwrap();
            let mut scratch = vec![0x5A5A_5A5A; int8::dense_scratch_words(layout, inputs)];
            let mut y = vec![77; outputs];
            int8::dense(zero, packed.as_weights(), range, &mut scratch, &x, &mut y);
            prop_assert_eq!(&y, &want, "{:?}", layout);
        }
    }

    #[test]
    fn pooling_equals_the_definition(layer in layer(), padding_counts in any::<bool>()) {
        // Pooling keeps the channels; every window meets the image.
        let padding = [0, 1].map(|axis| layer.padding[axis].min(layer.kernel[axis] - 1));
        let sides = [layer.input.height, layer.input.width];
        let out = [0, 1].map(|a| {
            let starts = (0..).map(|o| o * layer.stride[a]);
            starts.take_while(|start| *start < sides[a] + padding[a]).count()
        });
        let channels = layer.input.channels;
        let windows = Windows {
            output: Shape::new(channels, out[0], out[1]),
            padding: Padding { top: padding[0], left: padding[1], ..Padding::NONE },
            ..layer.windows()
        };
        let (mut maximum, mut mean) = (Vec::new(), Vec::new());
        for oy in 0..out[0] {
            for ox in 0..out[1] {
                for c in 0..channels {
                    let mut inside = Vec::new();
                    for ky in 0..layer.kernel[0] {
                        for kx in 0..layer.kernel[1] {
                            let y = (oy * layer.stride[0] + ky).wrapping_sub(padding[0]);
                            let x = (ox * layer.stride[1] + kx).wrapping_sub(padding[1]);
                            if y < sides[0] && x < sides[1] {
                                inside.push(i32::from(layer.x[(y * sides[1] + x) * channels + c]));
                            }
                        }
                    }
                    maximum.push(*inside.iter().max().unwrap() as i8);
                    let all = layer.kernel[0] * layer.kernel[1];
                    let outside = (all - inside.len()) as i32 * i32::from(layer.zero);
                    let (sum, count) = (inside.iter().sum::<i32>(), inside.len());
                    let (sum, count) = if padding_counts { (sum + outside, all) } else { (sum, count) };
                    mean.push((f64::from(sum) / count as f64).round() as i8);
                }
            }
        }
        let mut y = vec![77; windows.output.len()];
        int8::max_pool2d(&windows, &layer.x, &mut y);
        prop_assert_eq!(&y, &maximum);
        int8::average_pool2d(&windows, padding_counts.then_some(layer.zero), &layer.x, &mut y);
        prop_assert_eq!(&y, &mean);
    }
}
