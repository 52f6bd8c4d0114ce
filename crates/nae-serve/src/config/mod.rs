//! The service's settings: a TOML file, then the environment, then the flags, each over the one before, all by the same
//! names (`flags`). They are read (`reading`) and checked (`checking`) once, here, and everything wrong with them is said in
//! one error.

mod checking;
mod flags;
mod reading;

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nae_core::verdict::AlarmSettings;
use nae_infer::{BackendChoice, ExecutionProvider};

use super::broker::Broker;
use super::secret::Secret;
use super::signature::Signer;
use super::source::SourceSettings;
use super::webhook::WebhookAddress;
pub use flags::Flags;
use reading::FoundSettings;

/// Checked settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) model: PathBuf,
    pub(crate) source: SourceSettings,
    pub(crate) listen: SocketAddr,
    pub(crate) token: Option<Secret>,
    pub(crate) state: PathBuf,
    pub(crate) backend: BackendChoice,
    pub(crate) execution_providers: Vec<ExecutionProvider>,
    pub(crate) threads: usize,
    pub(crate) false_positive_rate: Option<f32>,
    pub(crate) alarm: AlarmSettings,
    pub(crate) queue: usize,
    pub(crate) score_timeout: Duration,
    pub(crate) max_body: usize,
    pub(crate) webhook: Option<WebhookAddress>,
    /// Signs what goes to the webhook.
    pub(crate) webhook_signer: Option<Signer>,
    pub(crate) mqtt: Option<Broker>,
    pub(crate) alarm_log: Option<PathBuf>,
    pub(crate) picture_bytes: u64,
}

/// All that is wrong with the settings: wrong usage, for an exit status.
#[derive(Debug, PartialEq)]
pub struct ConfigError(Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => f.write_str(one),
            all => {
                write!(f, "{} settings are wrong", all.len())?;
                all.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for ConfigError {}
impl Config {
    /// Reads file, environment and flags, in this order, and checks them.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub(crate) fn read(
        flags: &Flags,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        FoundSettings::read(flags, environment).check()
    }
}

#[cfg(test)]
mod tests;
