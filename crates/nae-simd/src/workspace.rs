//! Memory of activations, kept between passes.
//!
//! A Langevin chain runs the same network hundreds of times, so every buffer that is given back is needed again with
//! the same length. Fresh memory would cause page faults at each pass, which cost as much as a convolution.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest number of values kept, over all lengths: 1 GiB.
const MOST: usize = 1 << 28;

/// The memory that [`Planes`](crate::Planes) are taken from, and given back to when they are dropped. Each caller that
/// runs a program owns one; a clone is the same workspace. The results of a pass lie in the workspace of its input.
#[derive(Clone, Debug, Default)]
pub struct Workspace(Arc<Mutex<Free>>);

/// Buffers that are free for their next use, by length.
#[derive(Debug, Default)]
struct Free {
    by_length: HashMap<usize, Vec<Vec<f32>>>,
    values: usize,
}

impl Workspace {
    /// Returns a buffer of `len` values with arbitrary contents.
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

    /// Keeps a buffer for the next [`take`](Self::take) of its length. If too much is kept already, all of it is
    /// released first, since it must come from another network.
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
