//! `nae-train`: see `--help`. [`args`] and [`train_args`] have the arguments, one file has a command. Everything that the
//! commands do is in the libraries.

mod args;
mod compare;
mod deploy;
mod devices;
mod eval;
mod export;
mod gather;
mod instructions;
mod job;
mod own;
mod pictures;
mod presets;
mod progress;
mod reproduce;
mod sample;
mod study;
mod train;
mod train_args;

use std::process::ExitCode;

use clap::Parser as _;
use nae_train::shard;

use args::{Cli, Command};

/// Ends as a shell expects of an interrupted program: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// How a command ended, when nothing failed.
enum Done {
    Whole,
    Interrupted,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = instructions::choose().and_then(|()| match cli.threads {
        Some(threads) => shard::with_threads(threads, || command(cli)),
        None => command(cli),
    });
    match result {
        Ok(Done::Whole) => ExitCode::SUCCESS,
        Ok(Done::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            // The whole chain: no error's text repeats what it gives as its source.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(cli: Cli) -> anyhow::Result<Done> {
    match cli.command {
        None => train::run(&cli.train),
        Some(Command::Deploy(args)) => deploy::run(&args),
        Some(Command::Export(args)) => export::run(&args),
        Some(Command::Eval(args)) => eval::run(&args),
        Some(Command::Sample(args)) => sample::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Reproduce(args)) => reproduce::run(&args),
        Some(Command::Gather(args)) => gather::run(&args),
        Some(Command::StoppingStudy(args)) => study::run(&args),
        Some(Command::Presets(args)) => presets::run(&args),
        Some(Command::Devices(args)) => devices::run(&args),
    }
}
