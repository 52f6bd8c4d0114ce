//! What the commands say on standard error.

use std::io::{self, Write};

/// An error on standard error, in as many lines as it has.
pub(crate) fn report(error: &anyhow::Error) {
    // The whole chain: no error's text repeats what it gives as its source.
    let text = format!("{error:#}").lines().map(printable).collect::<Vec<_>>().join("\n");
    let _ = writeln!(io::stderr(), "error: {text}");
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
