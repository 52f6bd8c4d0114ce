//! The command line; see [`cli`]. The camera service is in [`serve`].

mod cli;
#[cfg(feature = "serve")]
mod serve;

fn main() -> std::process::ExitCode {
    cli::run()
}
