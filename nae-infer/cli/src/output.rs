//! Messages on standard error, and the handling of output that is not read to its end.

use std::io::{self, ErrorKind, Write};

/// Prints an error to standard error, with all its lines.
pub(crate) fn report(error: &anyhow::Error) {
    // The whole chain: no error's text repeats that of its source.
    // Errors about files name them; one of the system alone is about what is printed.
    let alone = error.chain().len() == 1 && error.downcast_ref::<io::Error>().is_some();
    let what = if alone { "cannot write to standard output: " } else { "" };
    let text = format!("{what}{error:#}").lines().map(printable).collect::<Vec<_>>().join("\n");
    let _ = writeln!(io::stderr(), "error: {text}");
}

/// An error about a sample.
pub(crate) fn about(name: &str, error: &dyn std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("{}: {error}", printable(name))
}

/// Prints a note to standard error.
pub(crate) fn note(text: &str) {
    // A reader that is gone needs no note.
    let _ = writeln!(io::stderr(), "note: {}", printable(text));
}

/// Whether the reader of the output has stopped, as `head` does.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Ignores the error if the reader has stopped: the exit status is that of what was found until then.
pub(crate) fn unless_closed(written: anyhow::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        written => written,
    }
}

/// Names and texts from files, without characters that a terminal interprets.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}
