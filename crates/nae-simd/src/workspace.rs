//! Memory of activations, kept between passes.
//!
//! A chain runs the same network hundreds of times, so every buffer it gives back is asked for again, of the same
//! length. Fresh memory would be faulted in page by page at each pass, which costs as much as a convolution.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most values kept, over all lengths: 1 GiB.
const MOST: usize = 1 << 28;

/// Where [`Planes`](crate::Planes) take their memory from, and give it back to when they are dropped. Whoever runs a
/// program owns one; a clone is the same workspace. What a pass makes lies in the workspace of its input.
#[derive(Clone, Debug, Default)]
pub struct Workspace(Arc<Mutex<Free>>);

/// Buffers that wait for their next use, by length.
#[derive(Debug, Default)]
struct Free {
    by_length: HashMap<usize, Vec<Vec<f32>>>,
    values: usize,
}

impl Workspace {
    /// A buffer of `len` values, whatever they are.
    pub(crate) fn take(&self, len: usize) -> Vec<f32> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match free.by_length.get_mut(&len).and_then(Vec::pop) {
            Some(buffer) => {
                free.values -= len;
                buffer
            }
            None => {
                drop(free);
                vec![0.0; len]
            }
        }
    }

    /// Keeps a buffer for the next [`take`](Self::take) of its length. Where too much is kept already, all of it is let
    /// go: what fills it is from another network.
    pub(crate) fn give(&self, buffer: Vec<f32>) {
        let len = buffer.len();
        if len == 0 {
            return;
        }
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.values + len > MOST {
            *free = Free::default();
        }
        free.values += len;
        free.by_length.entry(len).or_default().push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back() {
        let workspace = Workspace::default();
        let mut buffer = workspace.take(9);
        buffer[7] = 3.0;
        workspace.clone().give(buffer);
        assert_eq!(workspace.take(9)[7], 3.0);
        assert_eq!(workspace.take(9)[7], 0.0);
    }
}
