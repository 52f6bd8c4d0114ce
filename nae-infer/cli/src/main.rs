//! `nae-infer`: scores images, inspects, calibrates and measures models, and watches cameras. Scoring is the library
//! `nae-infer`'s, the camera service the crate `nae-serve`'s.
//!
//! Exit status: 0 when all went well (also when anomalies were found), 1 when anything failed, 2 for wrong usage.

mod arguments;
mod bench;
mod calibrate;
mod inspect;
mod instructions;
mod output;
mod score;

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Cli, Command};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let result = instructions::choose().and_then(|()| match command {
        Command::Score(arguments) => score::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        #[cfg(feature = "serve")]
        Command::Serve(flags) => nae_serve::run(&flags),
    });
    match result {
        Ok(code) => code,
        // Whoever read our output has had enough, as `head` does.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            output::report(&error);
            ExitCode::FAILURE
        }
    }
}
