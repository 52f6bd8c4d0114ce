//! Joins frames to inputs.

use super::BANDS;

/// The last few frames as one input, the earliest first. `LEN` is a multiple of [`BANDS`]: 640 for five frames.
#[derive(Clone, Debug)]
pub struct FrameWindow<const LEN: usize> {
    values: [f32; LEN],
    missing: usize,
}

impl<const LEN: usize> FrameWindow<LEN> {
    const FRAMES: usize = {
        assert!(LEN > 0 && LEN.is_multiple_of(BANDS), "a window is of one or more whole frames");
        LEN / BANDS
    };

    /// Returns a window before its first frame.
    pub const fn new() -> Self {
        Self { values: [0.0; LEN], missing: Self::FRAMES }
    }

    /// Appends `frame` and drops the earliest; returns the input, or `None` until there are enough frames.
    pub fn push(&mut self, frame: &[f32; BANDS]) -> Option<&[f32; LEN]> {
        self.values.copy_within(BANDS.., 0);
        if let Some(newest) = self.values.last_chunk_mut() {
            *newest = *frame;
        }
        self.missing = self.missing.saturating_sub(1);
        (self.missing == 0).then_some(&self.values)
    }

    /// Makes the next frame count as the first: after hops were lost or refused, so that no input spans the gap.
    pub const fn reset(&mut self) {
        self.missing = Self::FRAMES;
    }
}

impl<const LEN: usize> Default for FrameWindow<LEN> {
    fn default() -> Self {
        Self::new()
    }
}
