//! Signals of the operating system: to stop (SIGTERM, Ctrl-C), and to open the models again (SIGHUP). Systems without
//! Unix signals have only Ctrl-C.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Notifies once that the service is to stop.
pub(crate) struct Stop {
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    interrupt: Signal,
}

/// Notifies whenever the models' files are to be opened again.
pub(crate) struct Reload {
    #[cfg(unix)]
    hangup: Signal,
}

impl Stop {
    /// Installs the handlers, in a runtime: from now on, these signals are kept until they are awaited, and do not end
    /// the process.
    ///
    /// # Errors
    /// The error of the operating system.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Ctrl-C is handled from the first call of [`told`](Self::told) on.
    ///
    /// # Errors
    /// None.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Completes when the service is to stop.
    #[cfg(unix)]
    pub(crate) async fn told(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Completes when the service is to stop.
    #[cfg(not(unix))]
    pub(crate) async fn told(self) {
        // Without a handler, the system itself ends the process.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Reload {
    /// As [`Stop::listen`].
    ///
    /// # Errors
    /// The error of the operating system.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { hangup: signal(SignalKind::hangup())? })
    }

    /// This system has no such signal.
    ///
    /// # Errors
    /// None.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Completes when the models' files are to be opened again; false if no more signals will come.
    #[cfg(unix)]
    pub(crate) async fn told(&mut self) -> bool {
        self.hangup.recv().await.is_some()
    }

    /// Returns false: this system has no such signal.
    #[cfg(not(unix))]
    pub(crate) async fn told(&mut self) -> bool {
        false
    }
}
