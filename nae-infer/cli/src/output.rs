//! What the commands say on standard error, and what becomes of a run whose output nobody reads to its end.

use std::io::{self, ErrorKind, Write};

/// An error on standard error, in as many lines as it has.
pub(crate) fn report(error: &anyhow::Error) {
    // The whole chain: no error's text repeats what it gives as its source.
    let text = format!("{error:#}").lines().map(printable).collect::<Vec<_>>().join("\n");
    let _ = writeln!(io::stderr(), "error: {text}");
}

/// Whether whoever read the output has had enough, as `head` does.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// No error where the reader has had enough: the exit status is that of what was found until then.
pub(crate) fn unless_closed(written: anyhow::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        written => written,
    }
}

/// Names and texts from files, without what commands a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}
