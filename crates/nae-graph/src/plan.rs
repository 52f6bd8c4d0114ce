//! The arena plan: where each step's output lies, so that tensors alive at the same time do not
//! overlap. Greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net
//! inference", 2020): the largest buffer first, each into the smallest gap that holds it. The image
//! is the caller's and not in the arena.

use nae_core::format::Record;

use crate::steps::{Step, readers};

/// Offsets of the steps' outputs and scratch memory, and the arena's length, in words of four
/// bytes.
pub(crate) struct Plan {
    pub(crate) offsets: Vec<usize>,
    /// 0 where a step needs none.
    pub(crate) scratch: Vec<usize>,
    pub(crate) len: usize,
}

/// Memory shared by tensors of which each is made from the one before in place.
struct Buffer {
    len: usize,
    /// First and last step that touch it.
    first: usize,
    last: usize,
    offset: Option<usize>,
}

/// `records` are those of the steps; `scratch` says how many words each step may write to beside its output.
pub(crate) fn plan(steps: &[Step<'_>], records: &[Record], scratch: &[usize]) -> Plan {
    let readers = readers(steps);
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut buffer_of = Vec::with_capacity(steps.len());
    for (index, (step, record)) in steps.iter().zip(records).enumerate() {
        let last = readers.last(index + 1).unwrap_or(index);
        let reuses = record.operation.kind().works_in_place()
            && step.input > 0
            && readers.last(step.input) == Some(index)
            && step.other != Some(step.input);
        if reuses {
            let buffer: usize = buffer_of[step.input - 1];
            buffers[buffer].last = last;
            buffer_of.push(buffer);
        } else {
            buffer_of.push(buffers.len());
            buffers.push(Buffer { len: step.element.words(step.output.len()), first: index, last, offset: None });
        }
    }
    let outputs = buffers.len();
    let needed = scratch.iter().enumerate().filter(|&(_, &len)| len > 0);
    buffers.extend(needed.map(|(step, &len)| Buffer { len, first: step, last: step, offset: None }));
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&i| (core::cmp::Reverse(buffers[i].len), i));
    for i in order {
        buffers[i].offset = Some(best_gap(&buffers, i));
    }
    let offset = |buffer: &Buffer| buffer.offset.unwrap_or(0);
    Plan {
        offsets: buffer_of.iter().map(|&b| offset(&buffers[b])).collect(),
        scratch: (0..steps.len())
            .map(|step| buffers[outputs..].iter().find(|b| b.first == step).map_or(0, offset))
            .collect(),
        len: buffers.iter().map(|b| offset(b) + b.len).max().unwrap_or(0),
    }
}

/// The start of the smallest gap for buffer `index` between the placed buffers that live when it does, or
/// the end of the last of them.
fn best_gap(buffers: &[Buffer], index: usize) -> usize {
    let wanted = &buffers[index];
    let mut taken: Vec<(usize, usize)> = buffers
        .iter()
        .filter(|b| b.first <= wanted.last && wanted.first <= b.last)
        .filter_map(|b| b.offset.map(|offset| (offset, offset + b.len)))
        .collect();
    taken.sort_unstable();
    let mut best: Option<(usize, usize)> = None;
    let mut end = 0;
    for (from, to) in taken {
        if from >= end + wanted.len && best.is_none_or(|(size, _)| from - end < size) {
            best = Some((from - end, end));
        }
        end = end.max(to);
    }
    best.map_or(end, |(_, offset)| offset)
}
