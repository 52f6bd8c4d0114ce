//! The interface of a receiver of alarms. The receivers are in [`webhook`](super::webhook),
//! [`mqtt`](super::mqtt) and [`deliver`](super::deliver), which sends to all of them.

/// A destination of alarms.
pub(crate) trait Receiver: Send + 'static {
    /// The name in the log and in metrics, which everyone may read; it contains nothing secret.
    fn name(&self) -> String;

    /// The key in the journal, which does not depend on the password.
    fn key(&self) -> String {
        self.name()
    }

    /// The key that earlier versions used in the journal, which contains the whole address.
    fn key_before(&self) -> String {
        self.key()
    }

    /// Sends an alarm. When this returns, the receiver has it.
    ///
    /// # Errors
    /// The reason if the receiver does not have it.
    fn send(&mut self, alarm: &str) -> Result<(), String>;
}
