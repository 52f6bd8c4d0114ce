//! Pooling and enlargement, each with its backward pass.

use pulp::{Simd, WithSimd};

use crate::instructions::{lanes, on_vectors_of};
use crate::plane::{Planes, Size};
use crate::pointwise::rectified;
use crate::vector::{load, store};

fn pooled(size: Size, window: usize) -> Size {
    Size { h: size.h / window, w: size.w / window, c: size.c }
}

/// The largest value of each `window` × `window` block, or NaN if it contains NaN; rows and columns that do not fill a
/// block are left out.
pub fn max_pool(x: &Planes, window: usize) -> Planes {
    let mut output = Planes::scratch(x.workspace(), x.n, pooled(x.size, window));
    on_vectors_of(lanes(x.size.c), MaxPool { x, window, output: &mut output });
    output
}

struct MaxPool<'a> {
    x: &'a Planes,
    window: usize,
    output: &'a mut Planes,
}

impl WithSimd for MaxPool<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, window, output } = self;
        let (from, to) = (x.size, output.size);
        for (image, y) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
            for (at, out) in y.chunks_exact_mut(to.c).enumerate() {
                let corner = (at / to.w * from.w + at % to.w) * window;
                for (k, out) in out.chunks_mut(S::F32_LANES).enumerate() {
                    let mut best = simd.splat_f32s(f32::NEG_INFINITY);
                    for tap in 0..window * window {
                        let pixel = (corner + tap / window * from.w + tap % window) * from.c;
                        let value = load(simd, &image[pixel + k * S::F32_LANES..][..out.len()]);
                        best = simd.select_f32s(simd.greater_than_f32s(value, best), value, best);
                        // NaN is greater than nothing, and nothing is greater than NaN: it is taken, and then kept.
                        best = simd.select_f32s(simd.equal_f32s(value, value), best, value);
                    }
                    store(simd, out, best);
                }
            }
        }
    }
}

/// The gradient at the input of [`max_pool`], whose output for `x` is `y`; the first of equal values receives it, and the
/// first of the block if `y` is NaN: its gradient is then NaN as well, as a rule, and must not be lost. If a rectifier of
/// `slope`, not negative, has written `x`, the gradient at the input of that rectifier: the largest value has the sign of
/// its block's output.
pub fn max_pool_backward(x: &Planes, y: &Planes, gradient: &Planes, window: usize, slope: Option<f32>) -> Planes {
    let (from, to) = (x.size, y.size);
    let whole = (to.h * window, to.w * window) == (from.h, from.w);
    let mut input =
        if whole { Planes::scratch(x.workspace(), x.n, from) } else { Planes::zeros(x.workspace(), x.n, from) };
    on_vectors_of(lanes(from.c), MaxPoolBackward { x, y, gradient, window, slope, input: &mut input });
    input
}

struct MaxPoolBackward<'a> {
    x: &'a Planes,
    y: &'a Planes,
    gradient: &'a Planes,
    window: usize,
    slope: Option<f32>,
    input: &'a mut Planes,
}

impl WithSimd for MaxPoolBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, y, gradient, window, slope, input } = self;
        let (from, to) = (x.size, y.size);
        let zero = simd.splat_f32s(0.0);
        let samples = x.data.chunks_exact(from.len()).zip(input.data.chunks_exact_mut(from.len()));
        let pooled = y.data.chunks_exact(to.len()).zip(gradient.data.chunks_exact(to.len()));
        for ((x, input), (y, gradient)) in samples.zip(pooled) {
            for (at, (y, g)) in y.chunks_exact(to.c).zip(gradient.chunks_exact(to.c)).enumerate() {
                let corner = (at / to.w * from.w + at % to.w) * window;
                for (k, (y, g)) in y.chunks(S::F32_LANES).zip(g.chunks(S::F32_LANES)).enumerate() {
                    let (channels, y) = (y.len(), load(simd, y));
                    // The gradient that is still to be assigned.
                    let mut left = load(simd, g);
                    if let Some(slope) = slope {
                        left = rectified(simd, left, y, slope);
                    }
                    for tap in 0..window * window {
                        let pixel = (corner + tap / window * from.w + tap % window) * from.c + k * S::F32_LANES;
                        let lost = simd.less_than_f32s(load(simd, &x[pixel..][..channels]), y);
                        store(simd, &mut input[pixel..][..channels], simd.select_f32s(lost, zero, left));
                        left = simd.select_f32s(lost, left, zero);
                    }
                }
            }
        }
    }
}

/// The mean of each `window` × `window` block; rows and columns that do not fill a block are left out.
pub fn average_pool(x: &Planes, window: usize) -> Planes {
    let (from, to) = (x.size, pooled(x.size, window));
    let mut output = Planes::zeros(x.workspace(), x.n, to);
    let scale = 1.0 / (window * window) as f32;
    for (image, y) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
        for (at, out) in y.chunks_exact_mut(to.c).enumerate() {
            let corner = (at / to.w * from.w + at % to.w) * window;
            for tap in 0..window * window {
                let pixel = corner + tap / window * from.w + tap % window;
                for (sum, value) in out.iter_mut().zip(&image[pixel * from.c..][..from.c]) {
                    *sum += value;
                }
            }
            out.iter_mut().for_each(|sum| *sum *= scale);
        }
    }
    output
}

/// The gradient at the input of [`average_pool`], for samples of size `from`.
pub fn average_pool_backward(gradient: &Planes, from: Size, window: usize) -> Planes {
    spread(gradient, from, window, 1.0 / (window * window) as f32)
}

/// Windows of a pool that may overlap, or exceed the edge, for scoring; each overlaps the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolWindows {
    /// Rows and columns of a window.
    pub kernel: [usize; 2],
    /// Distance from one window to the next, down and across.
    pub stride: [usize; 2],
    /// Rows above the input and columns to its left that belong to windows.
    pub padding: [usize; 2],
    /// Rows and columns of the output.
    pub to: [usize; 2],
}

impl PoolWindows {
    /// Returns the largest value of each window, or NaN if it contains NaN.
    pub fn max(&self, x: &Planes) -> Planes {
        let larger = |best: f32, value: f32| if value > best || value.is_nan() { value } else { best };
        self.fold(x, f32::NEG_INFINITY, larger, |_| 1.0)
    }

    /// Returns the mean of each window: of the whole window if `padding` counts as zeros, else of the part inside the
    /// input.
    pub fn mean(&self, x: &Planes, padding: bool) -> Planes {
        let whole = self.kernel[0] * self.kernel[1];
        self.fold(x, 0.0, |sum, value| sum + value, |inside| 1.0 / if padding { whole } else { inside } as f32)
    }

    /// Folds the values of each window, and multiplies the result by `scale` of their number.
    fn fold(&self, x: &Planes, start: f32, op: impl Fn(f32, f32) -> f32, scale: impl Fn(usize) -> f32) -> Planes {
        let from = x.size;
        let to = Size { h: self.to[0], w: self.to[1], c: from.c };
        let reach = |axis: usize, at: usize, side: usize| {
            let (start, padding) = (at * self.stride[axis], self.padding[axis]);
            start.saturating_sub(padding)..(start + self.kernel[axis]).saturating_sub(padding).min(side)
        };
        let mut output = Planes::scratch(x.workspace(), x.n, to);
        for (image, y) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
            for (at, out) in y.chunks_exact_mut(to.c).enumerate() {
                let (rows, columns) = (reach(0, at / to.w, from.h), reach(1, at % to.w, from.w));
                out.fill(start);
                for pixel in rows.clone().flat_map(|row| columns.clone().map(move |column| row * from.w + column)) {
                    for (folded, value) in out.iter_mut().zip(&image[pixel * from.c..][..from.c]) {
                        *folded = op(*folded, *value);
                    }
                }
                let scale = scale(rows.len() * columns.len());
                out.iter_mut().for_each(|folded| *folded *= scale);
            }
        }
        output
    }
}

/// Repeats each pixel as a block of `factor` × `factor` equal pixels.
pub fn nearest(x: &Planes, factor: usize) -> Planes {
    spread(x, Size { h: x.size.h * factor, w: x.size.w * factor, c: x.size.c }, factor, 1.0)
}

/// The gradient at the input of [`nearest`]: the sum of each block.
pub fn nearest_backward(gradient: &Planes, factor: usize) -> Planes {
    let mut input = average_pool(gradient, factor);
    let scale = (factor * factor) as f32;
    input.data.iter_mut().for_each(|g| *g *= scale);
    input
}

/// Writes each value of `x`, scaled, to a block of `window` × `window` in planes of size `to`; zero outside all blocks.
fn spread(x: &Planes, to: Size, window: usize, scale: f32) -> Planes {
    let from = x.size;
    let mut output = Planes::zeros(x.workspace(), x.n, to);
    for (x, y) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
        for (at, pixel) in x.chunks_exact(from.c).enumerate() {
            let corner = (at / from.w * to.w + at % from.w) * window;
            for tap in 0..window * window {
                let target = corner + tap / window * to.w + tap % window;
                for (y, x) in y[target * to.c..][..to.c].iter_mut().zip(pixel) {
                    *y = scale * x;
                }
            }
        }
    }
    output
}

/// The pixels that a target pixel is computed from along one axis, and their weights, which sum to 1.
pub type Sources = [(usize, f32); 2];

/// The points of the two images that coincide when the size changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// The centres of the corner pixels.
    Corners,
    /// The corners of the images: pixel centres are at halves.
    HalfPixel,
    /// Without interpolation: pixel i is source pixel ⌊i·from/to⌋.
    Nearest,
}

impl Alignment {
    /// Returns the sources of each of `to` pixels among `from`.
    pub fn sources(self, from: usize, to: usize) -> Vec<Sources> {
        let position = |i: usize| match self {
            Self::Nearest => (i * from / to) as f64,
            Self::Corners if to > 1 => i as f64 * ((from - 1) as f64 / (to - 1) as f64),
            Self::Corners => 0.0,
            Self::HalfPixel => ((i as f64 + 0.5) * (from as f64 / to as f64) - 0.5).max(0.0),
        };
        (0..to)
            .map(|i| {
                let position = position(i);
                let low = (position.floor() as usize).min(from - 1);
                let fraction = position - low as f64;
                let last = low + 1 >= from;
                let fraction = if last { 0.0 } else { fraction };
                let high = if fraction == 0.0 { low } else { low + 1 };
                [(low, (1.0 - fraction) as f32), (high, fraction as f32)]
            })
            .collect()
    }
}

impl Alignment {
    /// Returns the weights `[to, from]` of one axis: row i contains the weight of each source pixel in pixel i.
    pub fn weights(self, from: usize, to: usize) -> Vec<f32> {
        let mut weights = vec![0.0; to * from];
        for (row, sources) in weights.chunks_exact_mut(from.max(1)).zip(self.sources(from, to)) {
            for (pixel, weight) in sources {
                row[pixel] += weight;
            }
        }
        weights
    }
}

/// A change of size: for each target pixel its sources and their weights.
#[derive(Clone, Debug)]
pub struct Enlargement {
    from: [usize; 2],
    to: [usize; 2],
    taps: Vec<[(u32, f32); 4]>,
}

impl Enlargement {
    /// The size of the table of an enlargement to `to` rows and columns, in bytes. The sources of rows and of columns
    /// would be far less, but to combine them for each pixel takes time whenever an image is scored.
    pub const fn table_bytes(to: [usize; 2]) -> u64 {
        (to[0] as u64).saturating_mul(to[1] as u64).saturating_mul(size_of::<[(u32, f32); 4]>() as u64)
    }

    /// Returns the enlargement from `from` to `to` rows and columns.
    pub fn new(from: [usize; 2], to: [usize; 2], alignment: Alignment) -> Self {
        let (rows, columns) = (alignment.sources(from[0], to[0]), alignment.sources(from[1], to[1]));
        let mut taps = Vec::with_capacity(to[0] * to[1]);
        for row in &rows {
            for column in &columns {
                taps.push(std::array::from_fn(|k| {
                    let ((y, a), (x, b)) = (row[k / 2], column[k % 2]);
                    ((y * from[1] + x) as u32, a * b)
                }));
            }
        }
        Self { from, to, taps }
    }

    /// Returns the enlarged planes.
    pub fn forward(&self, x: &Planes) -> Planes {
        let c = x.size.c;
        let mut output = Planes::scratch(x.workspace(), x.n, Size { h: self.to[0], w: self.to[1], c });
        on_vectors_of(lanes(c), Enlarge { taps: &self.taps, x, output: &mut output });
        output
    }

    /// Returns the gradient at the input of the enlargement.
    pub fn backward(&self, gradient: &Planes) -> Planes {
        let c = gradient.size.c;
        let mut input = Planes::zeros(gradient.workspace(), gradient.n, Size { h: self.from[0], w: self.from[1], c });
        on_vectors_of(lanes(c), EnlargeBackward { taps: &self.taps, gradient, input: &mut input });
        input
    }
}

struct Enlarge<'a> {
    taps: &'a [[(u32, f32); 4]],
    x: &'a Planes,
    output: &'a mut Planes,
}

impl WithSimd for Enlarge<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (c, source, target) = (self.x.size.c, self.x.size.len(), self.output.size.len());
        for (from, to) in self.x.data.chunks_exact(source).zip(self.output.data.chunks_exact_mut(target)) {
            for (pixel, taps) in to.chunks_exact_mut(c).zip(self.taps) {
                for (k, out) in pixel.chunks_mut(S::F32_LANES).enumerate() {
                    let mut sum = simd.splat_f32s(0.0);
                    for (index, weight) in taps {
                        let value = load(simd, &from[*index as usize * c + k * S::F32_LANES..][..out.len()]);
                        sum = simd.add_f32s(sum, simd.mul_f32s(value, simd.splat_f32s(*weight)));
                    }
                    store(simd, out, sum);
                }
            }
        }
    }
}

struct EnlargeBackward<'a> {
    taps: &'a [[(u32, f32); 4]],
    gradient: &'a Planes,
    input: &'a mut Planes,
}

impl WithSimd for EnlargeBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (c, source, target) = (self.input.size.c, self.input.size.len(), self.gradient.size.len());
        for (to, from) in self.gradient.data.chunks_exact(target).zip(self.input.data.chunks_exact_mut(source)) {
            for (pixel, taps) in to.chunks_exact(c).zip(self.taps) {
                for &(index, weight) in taps {
                    let weight = simd.splat_f32s(weight);
                    let sums = from[index as usize * c..][..c].chunks_mut(S::F32_LANES);
                    for (sum, value) in sums.zip(pixel.chunks(S::F32_LANES)) {
                        let total = simd.add_f32s(load(simd, sum), simd.mul_f32s(load(simd, value), weight));
                        store(simd, sum, total);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_side_by_side_are_the_blocks_of_a_pool() {
        let size = Size { h: 4, w: 6, c: 3 };
        let mut x = Planes::zeros(&crate::Workspace::default(), 2, size);
        x.data.iter_mut().enumerate().for_each(|(i, value)| *value = (i as f32 * 1.7).sin());
        let windows = PoolWindows { kernel: [2, 2], stride: [2, 2], padding: [0, 0], to: [2, 3] };
        assert_eq!(windows.max(&x), max_pool(&x, 2));
        assert_eq!(windows.mean(&x, false), average_pool(&x, 2));
        // In a corner window, one pixel of four is in the input.
        let over = PoolWindows { padding: [1, 1], to: [3, 4], ..windows };
        assert_eq!(over.max(&x).data[..3], x.data[..3]);
        assert_eq!(over.mean(&x, true).data[0], x.data[0] / 4.0);
        assert_eq!(over.mean(&x, false).data[0], x.data[0]);
    }

    /// Compares the means with the definition in f64: the divisor is the size of the window with its padding, or of its
    /// part inside the input. Once of the windows themselves, once by the layer of a graph.
    #[test]
    fn means_divide_by_the_window_or_by_its_part_inside() {
        use nae_core::{Shape, layer::Padding};
        use nae_graph::{AveragePool2d, Graph};

        let size = Size { h: 4, w: 5, c: 3 };
        let values: Vec<f32> = (0..size.len()).map(|i| (i as f32 * 1.7).sin()).collect();
        let x = Planes::from_channels_first(&crate::Workspace::default(), 1, size, &values);
        let padding = Padding { top: 1, left: 2, bottom: 1, right: 0 };
        let windows = PoolWindows { kernel: [2, 3], stride: [2, 2], padding: [1, 2], to: [3, 3] };
        for count_include_padding in [true, false] {
            let mut graph = Graph::new(Shape::new(size.c, size.h, size.w));
            let (kernel, stride) = (windows.kernel, windows.stride);
            graph.push(AveragePool2d { kernel, stride, padding, count_include_padding });
            let program = crate::Program::compile(&graph, &crate::Options::scoring()).expect("a program");
            let found = windows.mean(&x, count_include_padding);
            assert_eq!(program.run(x.clone()).output, found);
            for (at, mean) in found.data.iter().enumerate() {
                let [y, x, channel] = [at / 9, at / 3 % 3, at % 3];
                let inside = |start: usize, len: usize, before: usize, side: usize| {
                    (start..start + len).filter_map(move |at| at.checked_sub(before).filter(|at| *at < side))
                };
                let (mut sum, mut count) = (0.0, 0);
                for row in inside(2 * y, 2, 1, size.h) {
                    for column in inside(2 * x, 3, 2, size.w) {
                        sum += f64::from(values[(channel * size.h + row) * size.w + column]);
                        count += 1;
                    }
                }
                let expected = sum / f64::from(if count_include_padding { 6 } else { count });
                assert!((f64::from(*mean) - expected).abs() < 1e-6, "{count_include_padding} {at}: {mean} {expected}");
            }
        }
    }

    #[test]
    fn weights_of_an_enlargement_sum_to_one() {
        for alignment in [Alignment::Corners, Alignment::HalfPixel, Alignment::Nearest] {
            for (from, to) in [(1, 5), (3, 5), (6, 12), (8, 16), (5, 5), (4, 1), (7, 3)] {
                for [(low, a), (high, b)] in alignment.sources(from, to) {
                    assert!((a + b - 1.0).abs() < 1e-6 && low <= high && high < from, "{from} to {to}");
                }
            }
        }
        assert_eq!(Alignment::HalfPixel.sources(2, 4)[1], [(0, 0.75), (1, 0.25)]);
        assert_eq!(Alignment::Corners.sources(3, 5)[1], [(0, 0.5), (1, 0.5)]);
        assert_eq!(
            Alignment::Nearest.sources(3, 4).iter().map(|[(pixel, _), _]| *pixel).collect::<Vec<_>>(),
            [0, 0, 1, 2]
        );
    }
}
