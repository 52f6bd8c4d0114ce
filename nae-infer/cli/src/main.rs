//! `nae-infer`: scores images, inspects, calibrates and measures models, and watches cameras. The library `nae-infer`
//! scores, and the crate `nae-serve` has the camera service.
//!
//! Exit status: 0 if all went well (even if anomalies were found), 1 if anything failed (for `bench`, if no backend ran
//! the model), 2 for wrong usage, 3 if anomalies were found and `score --fail-on-anomaly` was given, 130 after Ctrl-C
//! or SIGTERM while heat maps are written (else the signal itself ends the program). A reader that stops early, such as `head`, does not
//! change this: the status is that of what was found until then.

mod arguments;
mod bench;
mod calibrate;
mod inputs;
mod inspect;
mod instructions;
mod output;
mod samples;
mod score;

use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};
use nae_terminal::manual;

use arguments::{Cli, Command, UsageError};

/// The exit status for wrong usage, as in clap.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A service logs its activity; the other commands only print results.
    cli.verbosity.begin_log(if cli.command.is_service() { "info" } else { "warn" });
    let result = instructions::choose().and_then(|()| command(cli));
    match result {
        Ok(code) => code,
        // Nothing had failed: commands in which something may have failed handle a closed pipe themselves.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error);
            if is_usage(&error) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether an error is wrong usage that clap did not detect.
fn is_usage(error: &anyhow::Error) -> bool {
    #[cfg(feature = "serve")]
    if error.is::<nae_serve::ConfigError>() {
        return true;
    }
    error.is::<UsageError>()
}

fn command(cli: Cli) -> anyhow::Result<ExitCode> {
    let quiet = cli.verbosity.is_quiet();
    match cli.command {
        Command::Score(arguments) => score::run(&arguments, quiet),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments, quiet),
        Command::Bench(arguments) => bench::run(&arguments),
        #[cfg(feature = "serve")]
        Command::Serve(flags) => nae_serve::run(&flags),
        #[cfg(feature = "serve")]
        Command::Health(health) => {
            health.ask()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions(shell) => {
            shell.write(Cli::command(), &mut io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(pages) => {
            let folder = pages.folder.display().to_string();
            manual::write_pages(Cli::command(), &pages.folder)
                .with_context(|| format!("cannot write man pages to {folder}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
