#![no_std]
#![no_main]
#![allow(unsafe_code)]
//! Calls every 8-bit kernel with values the compiler cannot know. The panic handler calls a
//! function that does not exist: if any path to a panic is left, this does not link. Unsafe for
//! that declaration alone.

use core::hint::black_box;
use cortex_m as _;
use nae_core::Shape;
use nae_core::kernels::int8::{
    self, Add, L2Normalize, Layout, LeakyRelu, Multiplier, Multiply, Range, Requantize, Sums, Weights, Windows,
};
use nae_core::layer::Padding;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe extern "C" {
        fn nae_core_can_panic() -> !;
    }
    // SAFETY: it is not there to be called.
    unsafe { nae_core_can_panic() }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let mut words = [1u32; 64];
    let mut values = [2i8; 256];
    let (words, values) = (black_box(&mut words[..]), black_box(&mut values[..]));
    let (input, rest) = values.split_at_mut_checked(black_box(64)).unwrap_or_default();
    let (other, output) = rest.split_at_mut_checked(black_box(64)).unwrap_or_default();
    let (weights, scratch) = words.split_at_mut_checked(black_box(32)).unwrap_or_default();
    let shape = || black_box(Shape::new(4, 4, 4));
    let windows = Windows {
        input: shape(),
        output: shape(),
        kernel: black_box([2, 2]),
        stride: black_box([1, 1]),
        padding: black_box(Padding::NONE),
    };
    let (range, zero) = (black_box(Range::full(1)), black_box(2));
    let multiplier = || black_box(Multiplier { value: 1 << 30, shift: -3 });
    for layout in black_box([Layout::Plain, Layout::Paired]) {
        let weights = Weights { layout, words: weights, channels: black_box(&[[0, 1 << 30, -3]; 4]) };
        int8::conv2d(&windows, zero, weights, range, scratch, input, output);
        int8::conv_transpose2d(&windows, zero, weights, range, scratch, input, output);
        int8::dense(zero, weights, range, scratch, input, output);
        black_box(int8::conv2d_scratch_words(layout, &windows));
        black_box(int8::conv_transpose2d_scratch_words(layout, &windows));
        black_box(int8::dense_scratch_words(layout, input.len()));
    }
    int8::max_pool2d(&windows, input, output);
    int8::average_pool2d(&windows, black_box(None), input, output);
    int8::average_pool2d(&windows, black_box(Some(3)), input, output);
    int8::nearest(shape(), shape(), input, output);
    int8::bilinear(black_box(true), shape(), shape(), input, output);
    int8::look_up(black_box(&[0; 256]), output);
    int8::requantize(&Requantize { input_zero_point: zero, multiplier: multiplier(), range }, output);
    let leaky = LeakyRelu { input_zero_point: zero, positive: multiplier(), negative: multiplier(), range };
    int8::leaky_relu(&leaky, output);
    let add = Add { input_zero_points: [zero; 2], inputs: [multiplier(); 2], sum: multiplier(), range };
    int8::add(&add, input, other, output);
    int8::add_in_place(&add, input, other);
    let multiply = Multiply { input_zero_points: [zero; 2], multiplier: multiplier(), range };
    int8::multiply(&multiply, input, other, output);
    int8::multiply_in_place(&multiply, input, other);
    let normalize = L2Normalize { input_zero_point: zero, least: black_box(0), gain: multiplier(), range };
    int8::l2_normalize(&normalize, output);
    black_box(Sums::of(input, output));
    loop {
        black_box(());
    }
}
