//! What bounds a step of Conv28: GFLOP/s of each layer of a shard, beside the peak of the processor's multiply-adds
//! measured next to it, and beside `gemm` on the same shape.
//!
//! `cargo bench -p nae-simd --bench roofline`, with `-- --only "decoder 5"` for a single layer. One thread; processor
//! time; the least of interleaved repeats. For `gemm`, "strided" is a product for each kernel row, its input rows being
//! the image itself, and "im2col" a copy of the windows of one image at a time and then one product. Arithmetic counts
//! what a layer needs, without zeros.
#![allow(clippy::expect_used, unsafe_code)]

use cpu_time::ThreadTime;
use nae_simd::loops::{Finish, Kernel, KernelWindow, Negligible, Outer, Reading, correlate, weight_gradient};
use nae_simd::{Planes, Size, Workspace};
use pulp::{Arch, Simd, WithSimd};

const REPEATS: usize = 12;
/// Images that the trainer sends through together.
const SHARD: usize = 32;

struct Layer {
    name: &'static str,
    reading: Reading,
    kernel: usize,
    inp: usize,
    out: usize,
    side: usize,
}

const fn layer(name: &'static str, reading: Reading, kernel: usize, inp: usize, out: usize, side: usize) -> Layer {
    Layer { name, reading, kernel, inp, out, side }
}

/// Conv28 as in the paper.
const LAYERS: [Layer; 11] = [
    layer("encoder 1", Reading::Convolution, 3, 1, 32, 28),
    layer("encoder 2", Reading::Convolution, 3, 32, 64, 26),
    layer("encoder 3", Reading::Convolution, 3, 64, 64, 12),
    layer("encoder 4", Reading::Convolution, 3, 64, 128, 10),
    layer("encoder 5", Reading::Convolution, 4, 128, 1024, 4),
    layer("encoder 6", Reading::Convolution, 1, 1024, 32, 1),
    layer("decoder 1", Reading::Transposed, 4, 32, 128, 1),
    layer("decoder 2", Reading::Transposed, 3, 128, 64, 8),
    layer("decoder 3", Reading::Transposed, 3, 64, 64, 10),
    layer("decoder 4", Reading::Transposed, 3, 64, 32, 24),
    layer("decoder 5", Reading::Transposed, 3, 32, 1, 26),
];

/// Multiply-adds without memory.
struct Peak;

impl WithSimd for Peak {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let mut sums = [simd.splat_f32s(0.5); 12];
        let (x, y) = (simd.splat_f32s(0.999), simd.splat_f32s(0.001));
        const TIMES: usize = 200_000;
        for _ in 0..TIMES {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, x, y);
            }
        }
        std::hint::black_box(sums);
        (TIMES * sums.len() * 2 * S::F32_LANES) as f64
    }
}

fn seconds(f: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    f();
    start.elapsed().as_secs_f64()
}

/// `[m, k]` with rows `stride` apart, times `[k, n]`, added to or put in `[m, n]`.
fn product([m, k, n]: [usize; 3], a: &[f32], stride: usize, b: &[f32], c: &mut [f32], add: bool) {
    assert!(a.len() >= (m - 1) * stride + k && b.len() >= k * n && c.len() >= m * n);
    // SAFETY: the lengths were checked, and the destination is borrowed for itself.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            add,
            a.as_ptr(),
            1,
            stride as isize,
            b.as_ptr(),
            1,
            n as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// A convolution by one product for each image row and kernel row; for all images together where the output is a pixel.
fn strided(x: &Planes, kernel: usize, weights: &[f32], output: &mut Planes) {
    let (from, to) = (x.size, output.size);
    let (row, span) = (from.w * from.c, kernel * from.c);
    if to.h * to.w == 1 {
        for r in 0..kernel {
            let weights = &weights[r * span * to.c..];
            product([x.n, span, to.c], &x.data[r * row..], from.len(), weights, &mut output.data, r > 0);
        }
        return;
    }
    for (image, out) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
        for (oy, out) in out.chunks_exact_mut(to.w * to.c).enumerate() {
            for r in 0..kernel {
                let weights = &weights[r * span * to.c..];
                product([to.w, span, to.c], &image[(oy + r) * row..], from.c, weights, out, r > 0);
            }
        }
    }
}

/// A convolution by one product for each image, of its windows copied side by side; for all images together, without a
/// copy, where the output is a pixel.
fn im2col(x: &Planes, kernel: usize, weights: &[f32], windows: &mut [f32], output: &mut Planes) {
    let (from, to) = (x.size, output.size);
    let (row, span) = (from.w * from.c, kernel * from.c);
    if to.h * to.w == 1 {
        product([x.n, kernel * span, to.c], &x.data, from.len(), weights, &mut output.data, false);
        return;
    }
    for (image, out) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
        for (pixel, window) in windows.chunks_exact_mut(kernel * span).enumerate() {
            for (r, part) in window.chunks_exact_mut(span).enumerate() {
                part.copy_from_slice(&image[(pixel / to.w + r) * row + pixel % to.w * from.c..][..span]);
            }
        }
        product([to.h * to.w, kernel * span, to.c], windows, kernel * span, weights, out, false);
    }
}

fn main() {
    let workspace = Workspace::default();
    println!("{SHARD} images; GFLOP/s of one thread, and the share of the peak measured beside it");
    println!(
        "{:10} {:>6} {:>6} {:>6} {:>14} {:>14} {:>14} {:>9} {:>9}",
        "", "K", "out", "peak", "forward", "to the input", "to the weights", "strided", "im2col"
    );
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    let mut totals = [0.0; 4];
    for Layer { name, reading, kernel, inp, out, side } in LAYERS {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let other = match reading {
            Reading::Convolution => side + 1 - kernel,
            Reading::Transposed => side + kernel - 1,
        };
        let (from, to) = (Size { h: side, w: side, c: inp }, Size { h: other, w: other, c: out });
        let values = |n: usize| (0..n).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<f32>>();
        let weight = values(kernel * kernel * inp * out);
        let window = KernelWindow { kernel: [kernel, kernel], stride: 1, padding: [0; 2] };
        let back = match reading {
            Reading::Convolution => Reading::Transposed,
            Reading::Transposed => Reading::Convolution,
        };
        // Which weight stands where does not change the time.
        let any = |o: usize, i: usize, r: usize, c: usize| weight[(o * inp.max(out) + i + r + c) % weight.len()];
        let negligible = Negligible::trained(&weight);
        let forward = Kernel::new(reading, window, [from, to], negligible, &[], any);
        let backward = Kernel::new(back, window, [to, from], negligible, &[], any);
        let x = Planes::from_channels_first(&workspace, SHARD, from, &values(SHARD * from.len()));
        let g = Planes::from_channels_first(&workspace, SHARD, to, &values(SHARD * to.len()));
        let (wide, narrow) = if reading == Reading::Convolution { (&x, &g) } else { (&g, &x) };
        let mut gradient = vec![0.0; weight.len()];
        let (once, sizes) = (narrow.size.h == 1, [wide.size.len(), narrow.size.len()]);
        // `gemm` is given the convolution among the two directions: the other one needs zeros.
        let (wide_size, narrow_size) = (wide.size, narrow.size);
        let mut result = Planes::zeros(&workspace, SHARD, narrow_size);
        let mut windows = vec![0.0; narrow_size.h * narrow_size.w * kernel * kernel * wide_size.c];
        let smaller = side.min(other);
        let flops = 2.0 * (SHARD * kernel * kernel * inp * out * smaller * smaller) as f64;
        let mut best = [f64::INFINITY; 6];
        let mut peak_flops = 0.0;
        for _ in 0..REPEATS {
            let times = [
                seconds(|| peak_flops = Arch::new().dispatch(Peak)),
                seconds(|| drop(correlate(&x, &forward, Finish::Keep))),
                seconds(|| drop(correlate(&g, &backward, Finish::Keep))),
                seconds(|| match once {
                    true => Outer::new(sizes, &wide.data, &narrow.data).add_to(0, 0..sizes[1], &mut gradient),
                    false => weight_gradient(wide, narrow, window, &mut gradient),
                }),
                seconds(|| strided(wide, kernel, &weight, &mut result)),
                seconds(|| im2col(wide, kernel, &weight, &mut windows, &mut result)),
            ];
            for (best, time) in best.iter_mut().zip(times) {
                *best = best.min(time);
            }
        }
        let peak = peak_flops / best[0] / 1e9;
        let rate = |k: usize| flops / best[k] / 1e9;
        let share = |k: usize| format!("{:.1} {:>3.0}%", rate(k), 100.0 * rate(k) / peak);
        println!(
            "{name:10} {:>6} {out:>6} {peak:>6.1} {:>14} {:>14} {:>14} {:>9.1} {:>9.1}",
            kernel * kernel * inp,
            share(1),
            share(2),
            share(3),
            rate(4),
            rate(5)
        );
        for (total, add) in totals.iter_mut().zip([flops, best[1], best[2], best[3]]) {
            *total += add;
        }
    }
    let all = |k: usize| totals[0] / totals[k] / 1e9;
    println!("{:10} {:>20} {:>14.1} {:>14.1} {:>14.1}", "all", "", all(1), all(2), all(3));
}
