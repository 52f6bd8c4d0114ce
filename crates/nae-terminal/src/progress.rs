//! Shows the progress of work, with the time left.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// The time between two lines if standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);
/// Work that takes less time shows no [`LateProgress`].
const LATE: Duration = Duration::from_secs(1);

/// Whether and where progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nowhere,
    /// A bar that is redrawn in place, for a terminal.
    Bar,
    /// A line from time to time, for a log.
    Lines,
}

/// The progress of one piece of work, on standard error: a bar on a terminal, elsewhere a line every half minute.
#[derive(Debug)]
pub struct Progress {
    doing: String,
    unit: String,
    bar: ProgressBar,
    // Several threads may advance it at the same time.
    lines: Option<Mutex<Lines>>,
}

impl Progress {
    /// Starts with `done` of `total` units done. Shows nothing if `quiet`.
    ///
    /// `doing` is the name of the work ("pre-training"), `unit` that of its units ("epochs").
    pub fn new(doing: &str, unit: &str, done: usize, total: usize, quiet: bool) -> Self {
        let shown = match (quiet, io::stderr().is_terminal()) {
            (true, _) => Shown::Nowhere,
            (false, true) => Shown::Bar,
            (false, false) => Shown::Lines,
        };
        Self::shown(shown, doing, unit, done, total)
    }

    /// Progress that is not shown.
    pub fn hidden() -> Self {
        Self::shown(Shown::Nowhere, "", "", 0, 0)
    }

    fn shown(shown: Shown, doing: &str, unit: &str, done: usize, total: usize) -> Self {
        let target = if shown == Shown::Bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let template = format!("{doing:<13} {{bar:32}} {{pos}}/{{len}} {unit}{{left}}  {{msg}}");
        // The template is fixed text with indicatif's own fields and one of this module.
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("left", move |state: &ProgressState, out: &mut dyn fmt::Write| {
            // A field that cannot be written stays empty.
            let _ = out.write_str(&left(state.pos(), done as u64, state.eta()));
        });
        let bar = ProgressBar::with_draw_target(Some(total as u64), target).with_style(style);
        bar.set_position(done as u64);
        // Units that were done before the start do not count for the estimate of the time left.
        bar.reset_eta();
        if shown == Shown::Bar {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        let lines = (shown == Shown::Lines).then(|| Mutex::new(Lines::new(Instant::now(), done)));
        Self { doing: doing.to_string(), unit: unit.to_string(), bar, lines }
    }

    /// Reports that `count` more units are done.
    pub fn advance(&self, count: usize) {
        self.bar.inc(count as u64);
        self.line();
    }

    /// Reports that `done` units are done in total.
    pub fn set_done(&self, done: usize) {
        self.bar.set_position(done as u64);
        self.line();
    }

    /// Sets the text beside the count, such as the latest figures.
    pub fn set_message(&self, message: String) {
        match &self.lines {
            Some(lines) => lock(lines).message = message,
            None => self.bar.set_message(message),
        }
    }

    /// Calls `write`, which writes to the terminal, with the bar hidden.
    pub fn suspend<R>(&self, write: impl FnOnce() -> R) -> R {
        self.bar.suspend(write)
    }

    /// Ends the progress; the bar remains visible.
    pub fn finish(&self) {
        self.bar.finish();
    }

    /// Ends the progress and removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self) {
        let Some(lines) = &self.lines else { return };
        let mut lines = lock(lines);
        let (position, length) = (self.bar.position(), self.bar.length().unwrap_or_default());
        if let Some(times) = lines.due(Instant::now(), position, length) {
            let text = line(&self.doing, &self.unit, position, length, &times, &lines.message);
            // If standard error is closed, the work continues.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

/// The progress of work that is usually short: a bar appears only if the work takes more than a second.
#[derive(Debug)]
pub struct LateProgress {
    doing: &'static str,
    unit: &'static str,
    quiet: bool,
    state: Mutex<(Instant, Option<Progress>)>,
}

impl LateProgress {
    /// Starts without showing anything; if `quiet`, nothing is ever shown. The texts are those of [`Progress::new`].
    pub fn new(doing: &'static str, unit: &'static str, quiet: bool) -> Self {
        Self { doing, unit, quiet, state: Mutex::new((Instant::now(), None)) }
    }

    /// Reports that `done` of `total` units are done. At 0 the time starts again; at `total` the bar is removed.
    pub fn at(&self, done: usize, total: usize) {
        let mut state = lock(&self.state);
        let (started, bar) = &mut *state;
        if done >= total {
            if let Some(bar) = bar.take() {
                bar.clear();
            }
        } else if done == 0 {
            *started = Instant::now();
        } else if let Some(bar) = bar {
            bar.set_done(done);
        } else if started.elapsed() > LATE {
            *bar = Some(Progress::new(self.doing, self.unit, done, total, self.quiet));
        }
    }
}

/// Locks the state, also after a panic of another thread, which cannot leave it inconsistent.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the output in lines.
#[derive(Debug)]
struct Lines {
    started: Instant,
    last: Instant,
    /// The number of units that were done at the start.
    done: usize,
    message: String,
}

/// The elapsed time and the estimated time left.
#[derive(Debug, PartialEq)]
struct Times {
    gone: Duration,
    left: Option<Duration>,
}

impl Lines {
    fn new(now: Instant, done: usize) -> Self {
        Self { started: now, last: now, done, message: String::new() }
    }

    /// Returns the times for the next line if one is due.
    fn due(&mut self, now: Instant, position: u64, length: u64) -> Option<Times> {
        if now.duration_since(self.last) < LINE_EVERY {
            return None;
        }
        self.last = now;
        let gone = now.duration_since(self.started);
        let made = position.saturating_sub(self.done as u64);
        let left = (made > 0).then(|| gone.mul_f64(length.saturating_sub(position) as f64 / made as f64));
        Some(Times { gone, left })
    }
}

/// The text of a bar for the time left, after `position` units of which `done` were done before its start. Before the first
/// unit of its own there is no estimate.
fn left(position: u64, done: u64, estimate: Duration) -> String {
    if position > done { format!(", {:#} left", HumanDuration(estimate)) } else { String::new() }
}

fn line(doing: &str, unit: &str, position: u64, length: u64, times: &Times, message: &str) -> String {
    let left = times.left.map(|left| format!(", about {} left", HumanDuration(left))).unwrap_or_default();
    let message = if message.is_empty() { String::new() } else { format!("; {message}") };
    format!("{doing}: {position} of {length} {unit}, {} gone{left}{message}", HumanDuration(times.gone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_every_half_minute_and_counts_what_was_done_since_the_start() {
        let start = Instant::now();
        let mut lines = Lines::new(start, 40);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(lines.due(after(29), 45, 100), None);
        // 10 of the 60 that were left took 30 seconds.
        let times = Times { gone: Duration::from_secs(30), left: Some(Duration::from_secs(150)) };
        assert_eq!(lines.due(after(30), 50, 100), Some(times));
        assert_eq!(lines.due(after(59), 60, 100), None);
        let times = Times { gone: Duration::from_secs(60), left: Some(Duration::ZERO) };
        assert_eq!(lines.due(after(60), 100, 100), Some(times));
    }

    #[test]
    fn without_a_unit_done_nothing_is_said_of_the_time_left() {
        let start = Instant::now();
        let mut lines = Lines::new(start, 7);
        let times = lines.due(start + LINE_EVERY, 7, 9).expect("a line is due");
        assert_eq!(line("training", "models", 7, 9, &times, ""), "training: 7 of 9 models, 30 seconds gone");
    }

    #[test]
    fn a_bar_gives_the_time_left_only_after_a_unit_of_its_own() {
        assert_eq!(left(0, 0, Duration::ZERO), "");
        assert_eq!(left(40, 40, Duration::ZERO), "");
        assert_eq!(left(41, 40, Duration::from_secs(150)), ", 3m left");
    }

    #[test]
    fn a_line_has_the_latest_figures() {
        let times = Times { gone: Duration::from_secs(120), left: Some(Duration::from_secs(3600)) };
        assert_eq!(
            line("NAE training", "updates", 3, 100, &times, "E+ 0.01"),
            "NAE training: 3 of 100 updates, 2 minutes gone, about 60 minutes left; E+ 0.01"
        );
    }
}
