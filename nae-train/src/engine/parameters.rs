//! The parameters of a network: where their gradients are gathered, and how they get burn's order.

use burn::module::{Param, ParamId};
use burn::tensor::Tensor;
use nae_simd::buffers;
use nae_simd::outer::Outer;
use nae_simd::plane::Planes;
use nae_simd::pointwise::add;

use crate::arch::spectral::SpectralConv;
use crate::shard;

/// Gradients of weights, by parameter, in burn's order and shape.
pub type WeightGradients = Vec<(ParamId, Vec<usize>, Vec<f32>)>;

/// What is known of each parameter, by slot.
#[derive(Debug, Default)]
pub struct Parameters {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    id: ParamId,
    shape: Vec<usize>,
    kernel: Option<(Taps, Order)>,
    spectral: Option<Spectral>,
}

/// A kernel between two planes, the wide of which has the windows.
#[derive(Clone, Copy, Debug)]
pub struct Taps {
    /// Rows and columns.
    pub kernel: [usize; 2],
    /// Channels of the wide plane.
    pub wide: usize,
    /// Channels of the narrow plane.
    pub narrow: usize,
}

/// burn's order of a kernel's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `[narrow][wide][row][column]`: convolutions and transposed convolutions.
    Convolution,
    /// `[wide][row][column][narrow]`: dense layers, whose kernel is the whole plane.
    Dense,
}

impl Taps {
    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.wide * self.narrow
    }

    /// Where burn keeps the weight between channels `a` of the wide plane and `b` of the narrow at `row` and `column`.
    pub fn place(&self, order: Order, a: usize, b: usize, row: usize, column: usize) -> usize {
        let [rows, columns] = self.kernel;
        match order {
            Order::Convolution => ((b * self.wide + a) * rows + row) * columns + column,
            Order::Dense => ((a * rows + row) * columns + column) * self.narrow + b,
        }
    }

    /// Writes `[row][column][wide][narrow]`, for some channels of the narrow plane, in burn's order.
    fn order(&self, order: Order, values: &[f32], ordered: &mut [f32]) {
        let taps = self.kernel[0] * self.kernel[1];
        if order == Order::Dense && taps == 1 {
            ordered.copy_from_slice(values);
            return;
        }
        let narrow = values.len() / (taps * self.wide);
        let part = Self { narrow, ..*self };
        // As many channels at once as share a line of the cache.
        const LINE: usize = 16;
        for first in (0..narrow).step_by(LINE) {
            let channels = first..(first + LINE).min(narrow);
            for a in 0..self.wide {
                for tap in 0..taps {
                    let (row, column) = (tap / self.kernel[1], tap % self.kernel[1]);
                    let line = &values[(tap * self.wide + a) * narrow..][channels.clone()];
                    for (b, value) in channels.clone().zip(line) {
                        ordered[part.place(order, a, b, row, column)] = *value;
                    }
                }
            }
        }
    }
}

/// What the gradient of W takes of that of W/σ: see [`crate::arch::spectral`].
#[derive(Debug)]
struct Spectral {
    weight: Vec<f32>,
    left: Vec<f32>,
    sigma: f64,
}

impl Spectral {
    /// G/σ − ⟨G, W⟩/σ²·u vᵀ, with v = Wᵀu/σ.
    fn chain(&self, gradient: &mut [f32]) {
        let columns = self.weight.len() / self.left.len();
        let mut right = vec![0.0f64; columns];
        for (row, u) in self.weight.chunks_exact(columns).zip(&self.left) {
            for (sum, w) in right.iter_mut().zip(row) {
                *sum += f64::from(*w) * f64::from(*u) / self.sigma;
            }
        }
        let along: f64 = gradient.iter().zip(&self.weight).map(|(g, w)| f64::from(*g) * f64::from(*w)).sum();
        let factor = along / (self.sigma * self.sigma);
        for (row, u) in gradient.chunks_exact_mut(columns).zip(&self.left) {
            for (g, v) in row.iter_mut().zip(&right) {
                *g = (f64::from(*g) / self.sigma - factor * f64::from(*u) * v) as f32;
            }
        }
    }
}

impl Parameters {
    /// A slot for a vector.
    pub fn add_vector(&mut self, param: &Param<Tensor<1>>) -> usize {
        self.add(Slot { id: param.id, shape: param.dims().to_vec(), kernel: None, spectral: None })
    }

    /// A slot for a kernel.
    pub fn add_kernel<const D: usize>(&mut self, param: &Param<Tensor<D>>, taps: Taps, order: Order) -> usize {
        let (shape, kernel) = (param.dims().to_vec(), Some((taps, order)));
        self.add(Slot { id: param.id, shape, kernel, spectral: None })
    }

    /// Says that the kernel in `slot` is divided by its largest singular value.
    pub fn normalized(&mut self, slot: usize, layer: &SpectralConv) {
        let sigma = values(layer.sigma()).first().copied().unwrap_or(1.0);
        let (weight, left) = (floats(&layer.conv.weight), values(layer.estimate()));
        self.slots[slot].spectral = Some(Spectral { weight, left, sigma: f64::from(sigma) });
    }

    fn add(&mut self, slot: Slot) -> usize {
        self.slots.push(slot);
        self.slots.len() - 1
    }

    /// Gradients that are zero.
    pub fn zeros(&self) -> Gradients {
        Gradients(self.slots.iter().map(|_| Gathered::Nothing).collect(), self.slots.iter().map(Slot::len).collect())
    }

    /// The sum of the gradients of the shards of a batch, as burn's parameters have them.
    pub fn ordered(&self, shards: Vec<Gradients>) -> WeightGradients {
        let mut by_slot: Vec<Vec<Gathered>> = self.slots.iter().map(|_| Vec::with_capacity(shards.len())).collect();
        for shard in shards {
            for (parts, part) in by_slot.iter_mut().zip(shard.0) {
                parts.push(part);
            }
        }
        let mut values: Vec<Vec<f32>> = self.slots.iter().map(|slot| vec![0.0; slot.len()]).collect();
        let mut jobs = Vec::new();
        for ((slot, parts), values) in self.slots.iter().zip(&by_slot).zip(&mut values) {
            let len = slot.piece();
            jobs.extend(values.chunks_mut(len).enumerate().map(move |(k, values)| (slot, parts, k * len, values)));
        }
        shard::map(jobs, |(slot, parts, start, values)| slot.sum(parts, start, values));
        let finished = |(slot, mut values): (&Slot, Vec<f32>)| {
            if let Some(spectral) = &slot.spectral {
                spectral.chain(&mut values);
            }
            (slot.id, slot.shape.clone(), values)
        };
        self.slots.iter().zip(values).map(finished).collect()
    }
}

/// Weights of a kernel in one piece of work, where it is divided: what the second-level cache holds.
const PIECE: usize = 1 << 16;

impl Slot {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Weights that are summed together, a divisor of their number: some channels of the narrow plane, or, where those
    /// are burn's last axis, some of the wide plane.
    fn piece(&self) -> usize {
        let Some((taps, order)) = self.kernel else { return self.len() };
        // Of wide channels, whole tiles.
        const { assert!(32 % Outer::TILE == 0) };
        let (unit, units) = match order {
            Order::Convolution => (taps.weights() / taps.narrow, taps.narrow),
            Order::Dense if taps.kernel == [1, 1] => (taps.narrow, taps.wide),
            Order::Dense => (taps.weights(), 1),
        };
        let together = (PIECE / unit).clamp(1, units).next_multiple_of(32);
        unit * if units.is_multiple_of(together) { together } else { units }
    }

    /// The sum over shards of the weights from `start` on in burn's order.
    fn sum(&self, parts: &[Gathered], start: usize, values: &mut [f32]) {
        let Some((taps, order)) = self.kernel else {
            for part in parts {
                if let Gathered::Sums(sums) = part {
                    add(values, sums);
                }
            }
            return;
        };
        // Inputs of the kernel, `[row][column][wide channel]`, and channels of the narrow plane.
        let (mut inputs, mut channels) = (0..taps.weights() / taps.narrow, 0..taps.narrow);
        if order == Order::Dense && taps.kernel == [1, 1] {
            inputs = start / taps.narrow..(start + values.len()) / taps.narrow;
        } else {
            channels = start / inputs.len()..(start + values.len()) / inputs.len();
        }
        let mut total = buffers::take(values.len());
        total.fill(0.0);
        for part in parts {
            match part {
                Gathered::Outer(outer) => outer.add_to(inputs.start, channels.clone(), &mut total),
                Gathered::Sums(sums) => {
                    for (total, row) in total.chunks_exact_mut(channels.len()).zip(sums.chunks_exact(taps.narrow)) {
                        add(total, &row[channels.clone()]);
                    }
                }
                Gathered::Nothing => {}
            }
        }
        let wide = inputs.len() / (taps.kernel[0] * taps.kernel[1]);
        Taps { wide, narrow: channels.len(), ..taps }.order(order, &total, values);
        buffers::give(total);
    }
}

/// What is known of one gradient after the way back.
#[derive(Debug)]
enum Gathered {
    Nothing,
    /// The sums themselves; kernels as `[row][column][wide][narrow]`.
    Sums(Vec<f32>),
    /// What they are sums of products of, for kernels that see a sample only once.
    Outer(Outer),
}

/// Gradients of all parameters, by slot, and their lengths.
#[derive(Debug)]
pub struct Gradients(Vec<Gathered>, Vec<usize>);

impl Gradients {
    /// The gradient in `slot`, to be added to.
    pub fn of(&mut self, slot: usize) -> &mut [f32] {
        let gathered = &mut self.0[slot];
        if !matches!(gathered, Gathered::Sums(_)) {
            *gathered = Gathered::Sums(vec![0.0; self.1[slot]]);
        }
        match gathered {
            Gathered::Sums(sums) => sums,
            Gathered::Nothing | Gathered::Outer(_) => unreachable!("made above"),
        }
    }

    /// Keeps both planes for the gradient in `slot`: a kernel's, each sample of which has one window.
    pub fn defer(&mut self, slot: usize, wide: &Planes, narrow: &Planes) {
        let sizes = [wide.size.len(), narrow.size.len()];
        self.0[slot] = Gathered::Outer(Outer::new(sizes, &wide.data, &narrow.data));
    }
}

/// The values of a parameter, in burn's order.
pub fn floats<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
    values(param.val())
}

/// The values of weights, in burn's order.
pub fn values<const D: usize>(weights: Tensor<D>) -> Vec<f32> {
    weights.into_data().try_into_vec::<f32>().expect("weights are float")
}
