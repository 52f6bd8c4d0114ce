//! What a receiver of alarms does. The receivers are in [`webhook`](super::webhook), [`mqtt`](super::mqtt) and
//! [`deliver`](super::deliver), which sends to all of them.

/// Somewhere alarms are sent.
pub(crate) trait Receiver: Send + 'static {
    /// What it is called in the log and in metrics, which everyone may read: nothing secret.
    fn name(&self) -> String;

    /// What it is called in the journal: the same whatever password it asks for.
    fn key(&self) -> String {
        self.name()
    }

    /// What the journal called it when that was the whole address.
    fn key_before(&self) -> String {
        self.key()
    }

    /// Sends an alarm; when this returns, the other side has it.
    ///
    /// # Errors
    /// Why it does not.
    fn send(&mut self, alarm: &str) -> Result<(), String>;
}
