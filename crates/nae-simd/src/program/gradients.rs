//! Gradients of weights: their accumulation in the backward pass, and the sums over several shards in the weight order
//! of their owner.

use super::Program;
use crate::outer::Outer;
use crate::plane::Planes;
use crate::pointwise::add;
use crate::workspace::Workspace;

/// A learned parameter: a vector, or a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Vector(usize),
    Kernel(Taps, WeightOrder),
}

/// Slots while a program is compiled.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Slot>);

impl Slots {
    /// Adds a slot for a vector of `len` values.
    pub(super) fn vector(&mut self, len: usize) -> usize {
        self.add(Slot::Vector(len))
    }

    /// Adds a slot for a kernel.
    pub(super) fn kernel(&mut self, taps: Taps, order: WeightOrder) -> usize {
        self.add(Slot::Kernel(taps, order))
    }

    fn add(&mut self, slot: Slot) -> usize {
        self.0.push(slot);
        self.0.len() - 1
    }

    pub(super) fn into_slots(self) -> Vec<Slot> {
        self.0
    }
}

/// A kernel between two planes; the windows lie in the wide one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taps {
    /// Rows and columns.
    pub(crate) kernel: [usize; 2],
    /// Channels of the wide plane.
    pub(crate) wide: usize,
    /// Channels of the narrow plane.
    pub(crate) narrow: usize,
}

/// The order in which the gradient of a kernel's weights is given. Of the two planes between which a kernel lies, the
/// wide one contains the windows: a convolution's input, a transposed convolution's output, a dense layer's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightOrder {
    /// `[narrow channel][wide channel][row][column]`: convolutions and transposed convolutions in PyTorch and burn.
    NarrowFirst,
    /// `[wide channel][row][column][narrow channel]`: dense layers in burn, whose kernel is the whole plane.
    NarrowLast,
}

impl Taps {
    /// Number of weights.
    fn weights(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.wide * self.narrow
    }

    /// The index, in that order, of the weight between channels `a` of the wide plane and `b` of the narrow one at
    /// `row` and `column`.
    fn place(&self, order: WeightOrder, a: usize, b: usize, row: usize, column: usize) -> usize {
        let [rows, columns] = self.kernel;
        match order {
            WeightOrder::NarrowFirst => ((b * self.wide + a) * rows + row) * columns + column,
            WeightOrder::NarrowLast => ((a * rows + row) * columns + column) * self.narrow + b,
        }
    }

    /// Writes `[row][column][wide][narrow]`, for some channels of the narrow plane, in the requested order.
    fn order(&self, order: WeightOrder, values: &[f32], ordered: &mut [f32]) {
        let taps = self.kernel[0] * self.kernel[1];
        if order == WeightOrder::NarrowLast && taps == 1 {
            ordered.copy_from_slice(values);
            return;
        }
        let narrow = values.len() / (taps * self.wide);
        let part = Self { narrow, ..*self };
        // As many channels at once as share a cache line.
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

impl Program {
    /// Returns gradients that are zero, for accumulation.
    pub fn gradients(&self) -> Gradients {
        Gradients {
            gathered: self.slots.iter().map(|_| Gathered::Nothing).collect(),
            lengths: self.slots.iter().map(Slot::len).collect(),
        }
    }

    /// Computes the sums of the gradients of the shards of a batch: for each [learned](super::Learned) node in turn
    /// those of its weights, in the requested order, then of its biases if they are learned; for a group normalization
    /// scale and shift. `work` is given parts that do not depend on each other, and must [run](SumPart::run) all of
    /// them, on any threads. Results do not depend on the order.
    pub fn sums(
        &self,
        workspace: &Workspace,
        shards: Vec<Gradients>,
        work: impl FnOnce(Vec<SumPart<'_>>),
    ) -> Vec<Vec<f32>> {
        let mut by_slot: Vec<Vec<Gathered>> = self.slots.iter().map(|_| Vec::with_capacity(shards.len())).collect();
        for shard in shards {
            for (parts, part) in by_slot.iter_mut().zip(shard.gathered) {
                parts.push(part);
            }
        }
        let mut values: Vec<Vec<f32>> = self.slots.iter().map(|slot| vec![0.0; slot.len()]).collect();
        let mut parts = Vec::new();
        for ((slot, gathered), values) in self.slots.iter().zip(&by_slot).zip(&mut values) {
            let len = slot.piece().max(1);
            let pieces = values.chunks_mut(len).enumerate();
            parts.extend(pieces.map(|(k, values)| SumPart { workspace, slot, gathered, start: k * len, values }));
        }
        work(parts);
        values
    }
}

/// A part of the sums over shards.
#[derive(Debug)]
pub struct SumPart<'a> {
    workspace: &'a Workspace,
    slot: &'a Slot,
    gathered: &'a [Gathered],
    start: usize,
    values: &'a mut [f32],
}

impl SumPart<'_> {
    /// Computes the part.
    pub fn run(self) {
        self.slot.sum(self.workspace, self.gathered, self.start, self.values);
    }
}

/// The number of weights of a kernel in one part of the work, if it is divided: as many as fit the second-level cache.
const PIECE: usize = 1 << 16;

impl Slot {
    fn len(&self) -> usize {
        match self {
            Self::Vector(len) => *len,
            Self::Kernel(taps, _) => taps.weights(),
        }
    }

    /// The number of weights that are summed together, a divisor of their number: some channels of the narrow plane,
    /// or, if those come last, some of the wide plane.
    fn piece(&self) -> usize {
        let &Self::Kernel(taps, order) = self else { return self.len() };
        // For wide channels, whole tiles.
        const { assert!(32 % Outer::TILE == 0) };
        let (unit, units) = match order {
            WeightOrder::NarrowFirst => (taps.weights() / taps.narrow, taps.narrow),
            WeightOrder::NarrowLast if taps.kernel == [1, 1] => (taps.narrow, taps.wide),
            WeightOrder::NarrowLast => (taps.weights(), 1),
        };
        let together = (PIECE / unit).clamp(1, units).next_multiple_of(32);
        unit * if units.is_multiple_of(together) { together } else { units }
    }

    /// Computes the sum over shards of the weights from `start` on, in the requested order.
    fn sum(&self, workspace: &Workspace, parts: &[Gathered], start: usize, values: &mut [f32]) {
        let &Self::Kernel(taps, order) = self else {
            for part in parts {
                if let Gathered::Sums(sums) = part {
                    add(values, sums);
                }
            }
            return;
        };
        // Inputs of the kernel, `[row][column][wide channel]`, and channels of the narrow plane.
        let (mut inputs, mut channels) = (0..taps.weights() / taps.narrow, 0..taps.narrow);
        if order == WeightOrder::NarrowLast && taps.kernel == [1, 1] {
            inputs = start / taps.narrow..(start + values.len()) / taps.narrow;
        } else {
            channels = start / inputs.len()..(start + values.len()) / inputs.len();
        }
        let mut total = workspace.take(values.len());
        total.fill(0.0);
        for part in parts {
            match part {
                Gathered::Outers(outers) => {
                    for outer in outers {
                        outer.add_to(inputs.start, channels.clone(), &mut total);
                    }
                }
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
        workspace.give(total);
    }
}

/// The state of one gradient after the backward pass.
#[derive(Debug)]
enum Gathered {
    Nothing,
    /// The sums themselves; kernels as `[row][column][wide][narrow]`.
    Sums(Vec<f32>),
    /// The vectors of which they are sums of products, of each backward pass, for kernels that are applied only once to
    /// a sample.
    Outers(Vec<Outer>),
}

/// Gradients of the weights of a program, for a shard of a batch.
#[derive(Debug)]
pub struct Gradients {
    gathered: Vec<Gathered>,
    lengths: Vec<usize>,
}

impl Gradients {
    /// The gradient in `slot`, for accumulation.
    pub(super) fn of(&mut self, slot: usize) -> &mut [f32] {
        let gathered = &mut self.gathered[slot];
        if !matches!(gathered, Gathered::Sums(_)) {
            *gathered = Gathered::Sums(vec![0.0; self.lengths[slot]]);
        }
        match gathered {
            Gathered::Sums(sums) => sums,
            Gathered::Nothing | Gathered::Outers(_) => unreachable!("made above"),
        }
    }

    /// Keeps both planes for the gradient of a kernel in `slot`, of which each sample has one window; those of earlier
    /// passes are kept, too.
    pub(super) fn defer(&mut self, slot: usize, wide: &Planes, narrow: &Planes) {
        let sizes = [wide.size.len(), narrow.size.len()];
        let outer = Outer::new(sizes, &wide.data, &narrow.data);
        match &mut self.gathered[slot] {
            Gathered::Outers(outers) => outers.push(outer),
            gathered => *gathered = Gathered::Outers(vec![outer]),
        }
    }
}
