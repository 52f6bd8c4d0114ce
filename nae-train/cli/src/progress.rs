//! The bar of commands that train many models; a single run's bars are in `nae_train::report::progress`.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of `total` steps on standard error: what is done, and what is counted. Nothing is drawn when `quiet`.
pub(crate) fn bar(doing: &str, unit: &str, total: usize, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let template = format!("{doing} {{bar:32}} {{pos}}/{{len}} {unit}, {{elapsed}} gone, {{eta}} left");
    // The template is fixed text with indicatif's own fields.
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(total as u64), target).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
