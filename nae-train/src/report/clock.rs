//! The time that a run has taken, in all processes that worked on it.

use std::time::Instant;

use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};

/// The time taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Wall time in seconds.
    pub seconds: f64,
    /// Processor time in seconds, of all threads together.
    pub processor_seconds: f64,
}

/// Measures time in addition to that of earlier processes.
pub(crate) struct Clock {
    earlier: Taken,
    started: Instant,
    processor: ProcessTime,
}

impl Clock {
    /// Starts now, in addition to `earlier`.
    pub(crate) fn after(earlier: Taken) -> Self {
        Self { earlier, started: Instant::now(), processor: ProcessTime::now() }
    }

    /// The time taken so far.
    pub(crate) fn taken(&self) -> Taken {
        let Taken { seconds, processor_seconds } = self.earlier;
        Taken {
            seconds: seconds + self.started.elapsed().as_secs_f64(),
            processor_seconds: processor_seconds + self.processor.elapsed().as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_before_counts() {
        let earlier = Taken { seconds: 100.0, processor_seconds: 50.0 };
        let clock = Clock::after(earlier);
        let busy = (0..10_000_000u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        let Taken { seconds, processor_seconds } = clock.taken();
        assert!(seconds > 100.0 && (50.0..150.0).contains(&processor_seconds) && processor_seconds > 50.0, "{busy}");
    }
}
