//! Ctrl-C and SIGTERM, after which a program completes what it is writing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status of a program that was stopped: that of shells after Ctrl-C.
pub const STATUS: u8 = 130;

/// A flag that the first Ctrl-C or SIGTERM sets; the second ends the program at once, with [`STATUS`]. `stopping` is called
/// after the first Ctrl-C, to say what follows; not after SIGTERM, which nobody at a terminal sends.
///
/// # Errors
///
/// That the signals cannot be caught. A program calls this once.
pub fn catch(stopping: impl Fn() + Send + 'static) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(STATUS.into());
        }
        stopping();
    })
    .map_err(io::Error::other)?;
    // Sent by schedulers and service managers before they kill.
    #[cfg(unix)]
    {
        use signal_hook::{consts::SIGTERM, flag};
        flag::register_conditional_shutdown(SIGTERM, STATUS.into(), Arc::clone(&stop))?;
        flag::register(SIGTERM, Arc::clone(&stop))?;
    }
    Ok(stop)
}
