//! `nae-train`: see `--help`. The commands are in [`cli`]; everything they do is in the library.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
