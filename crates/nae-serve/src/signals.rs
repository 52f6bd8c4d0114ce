//! What the operating system tells the service: to stop (SIGTERM, Ctrl-C), and to open its model again (SIGHUP). Where
//! there are no Unix signals, Ctrl-C alone.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Told once the service is to stop.
pub(crate) struct Stop {
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    interrupt: Signal,
}

/// Told whenever the model's file is to be opened again.
pub(crate) struct Reload {
    #[cfg(unix)]
    hangup: Signal,
}

/// From here on a signal waits until it is asked for, and does not end the process.
///
/// # Errors
/// The operating system's.
#[cfg(unix)]
pub(crate) fn listen() -> io::Result<(Stop, Reload)> {
    let stop = Stop { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
    Ok((stop, Reload { hangup: signal(SignalKind::hangup())? }))
}

/// Ctrl-C waits from the first [`Stop::told`] on.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub(crate) fn listen() -> io::Result<(Stop, Reload)> {
    Ok((Stop {}, Reload {}))
}

impl Stop {
    /// Done when the service is told to stop.
    #[cfg(unix)]
    pub(crate) async fn told(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Done when the service is told to stop.
    #[cfg(not(unix))]
    pub(crate) async fn told(self) {
        // Without a handler the system itself ends the process.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Reload {
    /// Done when the model's file is to be opened again; false where that will not be asked for any more.
    #[cfg(unix)]
    pub(crate) async fn told(&mut self) -> bool {
        self.hangup.recv().await.is_some()
    }

    /// There is no such signal here.
    #[cfg(not(unix))]
    pub(crate) async fn told(&mut self) -> bool {
        false
    }
}
