//! `nae-train`: see `--help`. [`args`] and [`train_args`] define the arguments, and each command has one file. The
//! libraries do the work.

mod args;
mod compare;
mod deploy;
mod devices;
mod eval;
mod export;
mod fid;
mod gather;
mod generator;
mod instructions;
mod job;
mod output;
mod output_file;
mod own;
mod pictures;
mod presets;
mod reconstruct;
mod reproduce;
mod sample;
mod study;
mod train;
mod train_args;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};
use nae_data::reading;
use nae_terminal::progress::LateProgress;
use nae_terminal::{interrupt, manual};
use nae_train::{commit, shard};

use args::{Cli, Command, CompareArgs, FidArgs, ReproduceArgs, TrainArgs};
use output::{errln, out};

/// The end of a command that did not fail.
enum Done {
    Whole,
    Interrupted,
}

fn main() -> ExitCode {
    if let Some(commit) = option_env!("NAE_COMMIT") {
        commit::set(commit);
    }
    let cli = Cli::parse();
    cli.verbosity.begin_log("warn");
    let result = instructions::choose().and_then(|()| match cli.threads {
        Some(threads) => shard::with_threads(threads, || command(cli)),
        None => command(cli),
    });
    match result {
        Ok(Done::Whole) => ExitCode::SUCCESS,
        Ok(Done::Interrupted) => ExitCode::from(interrupt::STATUS),
        Err(error) => {
            // The whole chain: no error's text repeats that of its source.
            errln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(cli: Cli) -> anyhow::Result<Done> {
    let quiet = cli.verbosity.is_quiet();
    let files = LateProgress::new("reading", "files", quiet);
    reading::watched(move |done, of| files.at(done, of), || chosen(cli, quiet))
}

fn chosen(cli: Cli, quiet: bool) -> anyhow::Result<Done> {
    match cli.command {
        None => train::run(&TrainArgs { quiet, ..cli.train }),
        Some(Command::Train(args)) => train::run(&TrainArgs { quiet, ..*args }),
        Some(Command::Deploy(args)) => deploy::run(&args),
        Some(Command::Export(args)) => export::run(&args),
        Some(Command::Eval(args)) => eval::run(&args),
        Some(Command::Sample(args)) => sample::run(&args),
        Some(Command::Reconstruct(args)) => reconstruct::run(&args),
        Some(Command::Fid(args)) => fid::run(&FidArgs { quiet, ..args }),
        Some(Command::Compare(args)) => compare::run(&CompareArgs { quiet, ..args }),
        Some(Command::Reproduce(args)) => reproduce::run(&ReproduceArgs { quiet, ..args }),
        Some(Command::Gather(args)) => gather::run(&args),
        Some(Command::StoppingStudy(args)) => study::run(&args),
        Some(Command::Presets(args)) => presets::run(&args),
        Some(Command::Devices(args)) => devices::run(&args),
        Some(Command::Completions(shell)) => {
            let mut script = Vec::new();
            shell.write(Cli::command(), &mut script)?;
            out!("{}", String::from_utf8(script)?)?;
            Ok(Done::Whole)
        }
        Some(Command::Man(args)) => {
            let folder = args.folder.display().to_string();
            manual::write_pages(Cli::command(), &args.folder)
                .with_context(|| format!("cannot write man pages to {folder}"))?;
            Ok(Done::Whole)
        }
    }
}
