//! The parameters of a network: where their gradients are gathered, and how they get burn's order.

use burn::module::{Param, ParamId};
use burn::tensor::Tensor;

use crate::arch::spectral::SpectralConv;

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
    pub fn len(&self) -> usize {
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

    /// From `[row][column][wide][narrow]` to burn's order.
    fn ordered(&self, order: Order, values: &[f32]) -> Vec<f32> {
        let mut ordered = vec![0.0; values.len()];
        for (tap, block) in values.chunks_exact(self.wide * self.narrow).enumerate() {
            let (row, column) = (tap / self.kernel[1], tap % self.kernel[1]);
            for (a, values) in block.chunks_exact(self.narrow).enumerate() {
                for (b, value) in values.iter().enumerate() {
                    ordered[self.place(order, a, b, row, column)] = *value;
                }
            }
        }
        ordered
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
        Gradients(self.slots.iter().map(|slot| vec![0.0; slot.shape.iter().product()]).collect())
    }

    /// Gradients as burn's parameters have them.
    pub fn ordered(&self, gradients: Gradients) -> WeightGradients {
        let ordered = |(slot, values): (&Slot, Vec<f32>)| {
            let mut values = match slot.kernel {
                Some((taps, order)) => taps.ordered(order, &values),
                None => values,
            };
            if let Some(spectral) = &slot.spectral {
                spectral.chain(&mut values);
            }
            (slot.id, slot.shape.clone(), values)
        };
        self.slots.iter().zip(gradients.0).map(ordered).collect()
    }
}

/// Gradients of all parameters, by slot; kernels as `[row][column][wide][narrow]`.
#[derive(Debug)]
pub struct Gradients(Vec<Vec<f32>>);

impl Gradients {
    /// The gradient in `slot`.
    pub fn of(&mut self, slot: usize) -> &mut [f32] {
        &mut self.0[slot]
    }

    /// Adds those of another part of the batch.
    pub fn add(&mut self, part: &Self) {
        for (sums, values) in self.0.iter_mut().zip(&part.0) {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
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
