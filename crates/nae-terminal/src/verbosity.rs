//! `-v` and `-q`, and the log on standard error.

use std::io::{self, IsTerminal as _};

use clap::{ArgAction, Args};
use tracing_subscriber::EnvFilter;

/// How much a program says on standard error. To flatten into the arguments of a program.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Verbosity {
    /// Log what is done and how long it takes to standard error; twice for more. RUST_LOG selects modules.
    // Listed last, before `--help`: otherwise they stand between a command's own options.
    #[arg(long, short, global = true, action = ArgAction::Count, conflicts_with = "quiet", display_order = 900)]
    verbose: u8,
    /// Print no progress, only requested results and errors.
    #[arg(long, short, global = true, display_order = 900)]
    quiet: bool,
}

impl Verbosity {
    /// Whether progress and notes are suppressed.
    pub fn is_quiet(self) -> bool {
        self.quiet
    }

    /// The log level, in the syntax of `RUST_LOG`; `usual` if neither `-v` nor `-q` is given.
    fn filter(self, usual: &'static str) -> &'static str {
        match (self.quiet, self.verbose) {
            (true, _) => "error",
            (false, 0) => usual,
            (false, 1) => {
                "info,nae_core=debug,nae_data=debug,nae_infer=debug,nae_lab=debug,nae_serve=debug,nae_train=debug"
            }
            (false, _) => "debug",
        }
    }

    /// Starts the process's log on standard error. `RUST_LOG` takes precedence over `-v` and `-q`; `usual` is the level without
    /// any of them.
    pub fn begin_log(self, usual: &'static str) {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(self.filter(usual)));
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(coloured(io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref()))
            .with_writer(io::stderr)
            .with_target(self.verbose > 1)
            // The error of a log that cannot be written would be printed there, too, and that print panics.
            .log_internal_errors(false)
            .init();
    }
}

/// Whether the log has colours: on a terminal, unless `NO_COLOR` is set and not empty (no-color.org).
fn coloured(terminal: bool, no_color: Option<&std::ffi::OsStr>) -> bool {
    terminal && no_color.is_none_or(std::ffi::OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_leaves_colours_out_and_an_empty_one_does_not() {
        assert!(coloured(true, None));
        assert!(coloured(true, Some("".as_ref())));
        assert!(!coloured(true, Some("1".as_ref())));
        assert!(!coloured(false, None));
    }
}
