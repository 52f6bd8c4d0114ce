//! Memory of activations, kept between passes.
//!
//! A chain runs the same network hundreds of times, so every buffer it gives back is asked for again, of the same
//! length. Fresh memory would be faulted in page by page at each pass, which costs as much as a convolution.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Most values kept, over all lengths: 1 GiB.
const MOST: usize = 1 << 28;

/// Buffers that wait for their next use, by length.
#[derive(Default)]
struct Free {
    by_length: Option<HashMap<usize, Vec<Vec<f32>>>>,
    values: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free { by_length: None, values: 0 });

/// A buffer of `len` values, whatever they are.
pub fn take(len: usize) -> Vec<f32> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    match free.by_length.as_mut().and_then(|lengths| lengths.get_mut(&len)).and_then(Vec::pop) {
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

/// Keeps a buffer for the next [`take`] of its length. Where too much is kept already, all of it is let go: what
/// fills it is from another network.
pub fn give(buffer: Vec<f32>) {
    let len = buffer.len();
    if len == 0 {
        return;
    }
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if free.values + len > MOST {
        *free = Free::default();
    }
    free.values += len;
    free.by_length.get_or_insert_default().entry(len).or_default().push(buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back() {
        // A length that nothing else in these tests asks for.
        let len = 1_234_567;
        let mut buffer = take(len);
        buffer[7] = 3.0;
        give(buffer);
        assert_eq!(take(len)[7], 3.0);
        assert_eq!(take(len)[7], 0.0);
    }
}
