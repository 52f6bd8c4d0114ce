//! Results on standard output and messages on standard error. The standard library's macros panic if that fails; here a
//! full disk is an error of the command, a reader that has stopped, such as `head`, changes nothing, and a message that
//! cannot be shown is left out.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write as _};

/// Prints results. Has the errors of [`result`].
macro_rules! out {
    ($($text:tt)*) => { $crate::output::result(format_args!($($text)*)) };
}

/// Prints a line of results. Has the errors of [`result`].
macro_rules! outln {
    ($($text:tt)*) => { $crate::output::result(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line of messages.
macro_rules! errln {
    ($($text:tt)*) => { $crate::output::message(format_args!($($text)*)) };
}

pub(crate) use {errln, out, outln};

/// Prints `text` to standard output, for the macros `out!` and `outln!`.
///
/// # Errors
/// If it cannot be written, except to a reader that has stopped.
pub(crate) fn result(text: Arguments<'_>) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_fmt(text).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(()),
    }
}

/// Prints `text` and a line end to standard error, for the macro `errln!`.
pub(crate) fn message(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}
