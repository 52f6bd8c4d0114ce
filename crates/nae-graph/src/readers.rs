//! The readers of each tensor in a list of steps, for fusion, memory plans and quantization.

use crate::TensorId;

/// The steps that read each tensor, in order. Step k writes tensor k + 1; the number of steps represents the end, where
/// results are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readers {
    by_tensor: Vec<Vec<usize>>,
}

impl Readers {
    /// Makes the readers from the tensors that each step reads, and the `results` that are read at the end. Tensors
    /// that no step writes are left out.
    pub fn new(
        reads: impl ExactSizeIterator<Item = [Option<TensorId>; 2]>,
        results: impl IntoIterator<Item = Option<TensorId>>,
    ) -> Self {
        let end = reads.len();
        let mut by_tensor = vec![Vec::new(); end + 1];
        let results = results.into_iter().map(|tensor| (end, tensor));
        let reads = reads.enumerate().flat_map(|(step, tensors)| tensors.map(|tensor| (step, tensor)));
        for (step, tensor) in reads.chain(results) {
            if let Some(readers) = tensor.and_then(|tensor| by_tensor.get_mut(tensor)) {
                readers.push(step);
            }
        }
        Self { by_tensor }
    }

    /// The steps that read a tensor; a step that reads it twice occurs twice.
    pub fn of(&self, tensor: TensorId) -> &[usize] {
        self.by_tensor.get(tensor).map_or(&[], Vec::as_slice)
    }

    /// The only step that reads a tensor, once; `None` if there is none, there are more, or the tensor is a result.
    pub fn only(&self, tensor: TensorId) -> Option<usize> {
        match self.of(tensor) {
            &[step] if step + 1 < self.by_tensor.len() => Some(step),
            _ => None,
        }
    }

    /// The last step that reads a tensor; `None` if no step does.
    pub fn last(&self, tensor: TensorId) -> Option<usize> {
        self.of(tensor).last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_at_the_end() {
        // 0 → 1 → 2, and 3 = 2 + 1; tensor 2 is a result in addition to the last.
        let readers =
            Readers::new([[Some(0), None], [Some(1), None], [Some(2), Some(1)]].into_iter(), [Some(3), Some(2)]);
        assert_eq!((readers.of(1), readers.last(1), readers.only(1)), (&[1, 2][..], Some(2), None));
        assert_eq!((readers.of(2), readers.only(2)), (&[2, 3][..], None));
        assert_eq!((readers.of(3), readers.only(3)), (&[3][..], None));
        assert_eq!(readers.only(0), Some(0));
    }
}
