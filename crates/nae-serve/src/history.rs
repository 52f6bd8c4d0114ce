//! The energies of the frames of the last hour. `monitor` has those of each condition's model, `learn` those of a model
//! that is tried beside it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

/// How far back energies are kept.
pub(crate) const HISTORY: Duration = Duration::from_secs(3600);
/// The maximum number of energies: one hour at 60 frames per second.
const MOST_POINTS: usize = 216_000;

/// One past frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// The time of the frame, by the monotonic clock.
    pub(crate) at: Instant,
    pub(crate) energy: f32,
}

/// The highest energy of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Slice {
    /// How long ago the highest energy was, in seconds.
    pub(crate) ago: f64,
    pub(crate) energy: f32,
}

/// The energies, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<Point>);

impl History {
    /// Adds a point and removes those that are too old.
    pub(crate) fn keep(&mut self, point: Point) {
        let old = |p: &Point| point.at.duration_since(p.at) > HISTORY;
        while self.0.len() >= MOST_POINTS || self.0.front().is_some_and(old) {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The energies of the frames between `from` and `to` seconds ago.
    pub(crate) fn between(&self, from: f64, to: f64) -> Vec<f32> {
        let now = Instant::now();
        let ago = |point: &Point| now.duration_since(point.at).as_secs_f64();
        let first = self.0.partition_point(|point| ago(point) > from);
        let end = self.0.partition_point(|point| ago(point) >= to);
        self.0.range(first..end.max(first)).map(|point| point.energy).collect()
    }

    /// A copy of the points of the past `span`. Whoever shares the history with the frames works on that, since an hour may
    /// have hundreds of thousands of points.
    pub(crate) fn past(&self, span: Duration) -> Past {
        let now = Instant::now();
        let first = self.0.partition_point(|point| now.duration_since(point.at) > span);
        Past { now, span, points: self.0.range(first..).copied().collect() }
    }
}

/// The points of a span until now, the oldest first.
pub(crate) struct Past {
    now: Instant,
    span: Duration,
    points: Vec<Point>,
}

impl Past {
    pub(crate) fn energies(&self) -> impl Iterator<Item = f32> {
        self.points.iter().map(|point| point.energy)
    }

    /// Divides the span into at most `most` slices.
    pub(crate) fn slices(&self, most: usize) -> Vec<Slice> {
        let width = self.span.as_secs_f64() / most.max(1) as f64;
        let mut slices: Vec<Slice> = Vec::new();
        for point in &self.points {
            let ago = self.now.duration_since(point.at).as_secs_f64();
            let here = Slice { ago, energy: point.energy };
            match slices.last_mut().filter(|last| (last.ago / width).floor() == (ago / width).floor()) {
                Some(last) if last.energy < here.energy => *last = here,
                Some(_) => {}
                None => slices.push(here),
            }
        }
        slices
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A history of energies, each with its age in seconds.
    fn history(points: &[(u64, f32)]) -> History {
        let now = Instant::now();
        let mut history = History::default();
        for &(ago, energy) in points {
            let at = now.checked_sub(Duration::from_secs(ago)).unwrap();
            history.keep(Point { at, energy });
        }
        history
    }

    #[test]
    fn a_span_of_the_past_has_both_ends() {
        let history = history(&[(40, 4.0), (30, 3.0), (20, 2.0), (10, 1.0)]);
        assert_eq!(history.between(35.0, 15.0), [3.0, 2.0]);
        assert_eq!(history.between(100.0, 0.0).len(), 4);
        assert_eq!((history.between(5.0, 0.0).len(), history.between(100.0, 50.0).len()), (0, 0));
        assert_eq!(history.between(15.0, 35.0), [0.0; 0], "an empty span");
        for (span, energies) in [(25, vec![2.0, 1.0]), (5, vec![]), (100, vec![4.0, 3.0, 2.0, 1.0])] {
            assert_eq!(history.past(Duration::from_secs(span)).energies().collect::<Vec<_>>(), energies, "{span} s");
        }
    }

    #[test]
    fn a_slice_has_the_highest_of_its_seconds() {
        let history = history(&[(90, 9.0), (38, 1.0), (35, 5.0), (32, 2.0), (8, 3.0)]);
        // There are six slices of ten seconds, and 90 seconds ago is before them.
        let slices = history.past(Duration::from_secs(60)).slices(6);
        let found: Vec<_> = slices.iter().map(|slice| (slice.ago.round(), slice.energy)).collect();
        assert_eq!(found, [(35.0, 5.0), (8.0, 3.0)]);
    }
}
