//! Generates shell completions and man pages.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Args, Command};
use clap_complete::Shell;

/// The arguments of `completions`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Writes the completions of `program`.
    ///
    /// # Errors
    /// The error of writing.
    pub fn write(self, mut program: Command, out: &mut impl Write) -> io::Result<()> {
        let name = program.get_name().to_string();
        // The generator panics if it cannot write, so it writes to memory first.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut text);
        out.write_all(&text)
    }
}

/// Writes the man pages of `program` and of each of its commands into a folder, as `PROGRAM.1` and `PROGRAM-COMMAND.1`. The
/// folder is created if it does not exist.
///
/// # Errors
/// The error of creating the folder or of writing.
pub fn write_pages(program: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(program, folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Command {
        Command::new("example").version("1.2.3").subcommand(Command::new("score").about("Print energies"))
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let pages = folder.path().join("man/man1");
        write_pages(program(), &pages).expect("pages");
        let whole = fs::read_to_string(pages.join("example.1")).expect("the program's page");
        assert!(whole.contains("score"), "{whole}");
        let command = fs::read_to_string(pages.join("example-score.1")).expect("the command's page");
        assert!(command.contains("Print energies"), "{command}");
    }

    #[test]
    fn completions_know_the_commands() {
        let mut text = Vec::new();
        Completions { shell: Shell::Bash }.write(program(), &mut text).expect("completions");
        assert!(String::from_utf8_lossy(&text).contains("score"));
    }
}
