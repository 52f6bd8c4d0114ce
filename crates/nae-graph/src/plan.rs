//! The arena plan: the places of the steps' outputs, such that tensors alive at the same time do not overlap. Greedy by
//! size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020): the largest buffer
//! first, each in the smallest gap that has room for it. The image belongs to the caller and is not in the arena.
//!
//! A step's output may lie over rows of its input that the step has read ([`Record::lead`]), if that makes the arena
//! shorter: the engine then runs the step in bands of rows, which takes a little longer.

use core::cmp::Reverse;

use nae_core::format::Record;

use crate::steps::{Step, readers};

/// The minimum number of rows of a band: kernels take windows of two rows together.
const ROWS: usize = 2;

/// Offsets of the steps' outputs and scratch memory, and the arena's length, in words of four
/// bytes.
pub(crate) struct Plan {
    pub(crate) offsets: Vec<usize>,
    /// 0 for a step that needs none.
    pub(crate) scratch: Vec<usize>,
    pub(crate) len: usize,
}

/// Memory shared by tensors, each of which is made from the previous one in place.
struct Buffer {
    len: usize,
    /// First and last step that use it.
    first: usize,
    last: usize,
    /// The buffer that the first step reads, if a part of this one may lie over it: this number of last words of this
    /// buffer over the same number of first words of that one.
    over: Option<(usize, usize)>,
    /// The start. A buffer placed below others starts below 0 until all are placed.
    offset: Option<isize>,
}

/// A step whose output may lie over its input, and the number of words that may.
#[derive(Clone, Copy)]
struct Over {
    step: usize,
    words: usize,
}

/// Plans the arena. `records` are those of the steps; `scratch` is the number of words that each step may write to
/// besides its output.
pub(crate) fn plan(steps: &[Step<'_>], records: &[Record], scratch: &[usize]) -> Plan {
    let mut over = Vec::new();
    for (index, (step, record)) in steps.iter().zip(records).enumerate() {
        let [input, output] = [step.from, step.output].map(|shape| step.element.words(shape.len()));
        let lead = record.lead(step.from, ROWS).filter(|&lead| step.input > 0 && lead < output);
        if let Some(lead) = lead {
            let words = (output - lead).min(input);
            over.push((Reverse(input + output + scratch[index]), Over { step: index, words }));
        }
    }
    // Those that need most memory first; of these, the smallest number that makes the arena as short as possible.
    over.sort_by_key(|&(needed, over)| (needed, over.step));
    let over: Vec<Over> = over.into_iter().map(|(_, over)| over).collect();
    let apart = plan_over(steps, records, scratch, &[]);
    (1..=over.len())
        .map(|count| plan_over(steps, records, scratch, &over[..count]))
        .fold(apart, |best, plan| if plan.len < best.len { plan } else { best })
}

/// The plan in which these outputs may lie over their inputs.
fn plan_over(steps: &[Step<'_>], records: &[Record], scratch: &[usize], over: &[Over]) -> Plan {
    let readers = readers(steps);
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut buffer_of = Vec::with_capacity(steps.len());
    for (index, (step, record)) in steps.iter().zip(records).enumerate() {
        let last = readers.last(index + 1).unwrap_or(index);
        let reads_last = step.input > 0 && readers.last(step.input) == Some(index) && step.other != Some(step.input);
        if reads_last && record.operation.kind().works_in_place() {
            let buffer: usize = buffer_of[step.input - 1];
            buffers[buffer].last = last;
            buffer_of.push(buffer);
        } else {
            let over = over.iter().find(|over| reads_last && over.step == index);
            let over = over.map(|over| (buffer_of[step.input - 1], over.words));
            buffer_of.push(buffers.len());
            buffers.push(Buffer { len: step.element.words(step.output.len()), first: index, last, over, offset: None });
        }
    }
    let outputs = buffers.len();
    let needed = scratch.iter().enumerate().filter(|&(_, &len)| len > 0);
    buffers.extend(needed.map(|(step, &len)| Buffer { len, first: step, last: step, over: None, offset: None }));
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&i| (Reverse(buffers[i].len), i));
    for i in order {
        buffers[i].offset = Some(place(&buffers, i));
    }
    let (from, to) = extent(&buffers);
    let offset = |buffer: &Buffer| buffer.offset.map_or(0, |offset| offset.abs_diff(from));
    Plan {
        offsets: buffer_of.iter().map(|&b| offset(&buffers[b])).collect(),
        scratch: (0..steps.len())
            .map(|step| buffers[outputs..].iter().find(|b| b.first == step).map_or(0, offset))
            .collect(),
        len: to.abs_diff(from),
    }
}

/// From the start of the lowest placed buffer to the end of the highest.
fn extent(buffers: &[Buffer]) -> (isize, isize) {
    let placed = || buffers.iter().filter_map(|b| b.offset.map(|offset| (offset, offset + b.len as isize)));
    let (from, to) = (placed().map(|(from, _)| from).min(), placed().map(|(_, to)| to).max());
    (from.unwrap_or(0), to.unwrap_or(0))
}

/// Returns the start of the smallest gap for buffer `index` between the placed buffers that are alive at the same time.
/// If there is no gap, it is placed above or below them, whichever makes the arena longer by less; if both are equal,
/// below for an output that may lie over its input there.
fn place(buffers: &[Buffer], index: usize) -> isize {
    let (wanted, (from, to)) = (&buffers[index], extent(buffers));
    let len = wanted.len as isize;
    let mut taken: Vec<(isize, isize)> = Vec::new();
    for (other, buffer) in buffers.iter().enumerate() {
        let meet = buffer.first <= wanted.last && wanted.first <= buffer.last;
        if let (true, Some(offset)) = (meet, buffer.offset) {
            // An output may lie over its input's first words; an input may lie under its output's last ones.
            let shared = |over: Option<(usize, usize)>, input| {
                over.filter(|&(buffer, _)| buffer == input).map_or(0, |(_, words)| words as isize)
            };
            let (first, last) = (shared(wanted.over, other), shared(buffer.over, index));
            taken.push((offset + first, offset + buffer.len as isize - last));
        }
    }
    taken.sort_unstable();
    let mut best: Option<(isize, isize)> = None;
    let mut end = from;
    for &(start, stop) in &taken {
        if start - end >= len && best.is_none_or(|(size, _)| start - end < size) {
            best = Some((start - end, end));
        }
        end = end.max(stop);
    }
    let below = taken.first().map_or(from, |&(start, _)| start) - len;
    let (longer_below, longer_above) = ((from - below).max(0), (end + len - to).max(0));
    match best {
        Some((_, offset)) => offset,
        None if longer_below < longer_above || longer_below == longer_above && wanted.over.is_some() => below,
        None => end,
    }
}
