//! The service's settings: a TOML file, then the environment, then the flags, each overriding the one before, all with
//! the same names (`flags`). They are read (`reading`) and checked (`checking`; `cameras` for those of cameras) once,
//! and one error contains all problems.

mod cameras;
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
use super::camera_name::CameraName;
use super::day_night::Rule;
use super::history_file::HistoryLimits;
use super::hours::WeekHours;
use super::largest_image::LargestImage;
use super::limits::LimitSettings;
use super::proxies::TrustedProxies;
use super::regions::Regions;
use super::signature::Signer;
use super::source::{SourceAddress, SourceSettings};
use super::tls::CertificateFiles;
use super::tokens::Tokens;
use super::webhook::WebhookAddress;
pub(crate) use cameras::cameras_in;
pub use flags::Flags;
use reading::FoundSettings;

/// The settings after checking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// At least one, in the order of the file; no two names differ only in case.
    pub(crate) cameras: Vec<CameraConfig>,
    pub(crate) listen: SocketAddr,
    pub(crate) tokens: Tokens,
    /// The rate limits of clients.
    pub(crate) limits: LimitSettings,
    /// The service's own certificate; if `None`, connections are not encrypted.
    pub(crate) certificate: Option<CertificateFiles>,
    /// The proxies whose forwarding headers are trusted.
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) state: PathBuf,
    pub(crate) threads: usize,
    pub(crate) max_body: usize,
    pub(crate) largest_image: LargestImage,
    pub(crate) webhook: Option<WebhookAddress>,
    /// Signs the requests to the webhook.
    pub(crate) webhook_signer: Option<Signer>,
    pub(crate) alarm_log: Option<PathBuf>,
    /// The limits of the history on disk; `None` for no history.
    pub(crate) history: Option<HistoryLimits>,
    /// The program for training: a name to be found on the PATH, or a path.
    pub(crate) nae_train: PathBuf,
}

/// The settings of one camera after checking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CameraConfig {
    pub(crate) name: CameraName,
    /// The folder of its state.
    pub(crate) state: PathBuf,
    /// The prefix of its addresses in alarms.
    pub(crate) address: String,
    /// The prefix of the ids of its alarms, which distinguishes them from those of other cameras.
    pub(crate) id_prefix: String,
    /// The model's file; if `None`, the camera scores with a model that it has learned, if there is one.
    pub(crate) model: Option<PathBuf>,
    /// The file of the model for the night.
    pub(crate) night_model: Option<PathBuf>,
    /// The rule that distinguishes day from night, unless a user sets another; `None` for no distinction.
    pub(crate) night: Option<Rule>,
    pub(crate) backend: BackendChoice,
    pub(crate) execution_providers: Vec<ExecutionProvider>,
    pub(crate) score_timeout: Duration,
    pub(crate) source: SourceSettings,
    pub(crate) false_positive_rate: Option<f32>,
    pub(crate) alarm: AlarmSettings,
    /// The hours in which alarms are raised; `None` for always.
    pub(crate) alarm_hours: Option<WeekHours>,
    /// The regions that limit what the model sees, unless a user sets others.
    pub(crate) regions: Regions,
    pub(crate) queue: usize,
    pub(crate) picture_bytes: u64,
    /// The disk space for frames to learn from, in bytes; 0 if none may be collected.
    pub(crate) learn_bytes: u64,
    /// The broker, with the topics of this camera.
    pub(crate) mqtt: Option<Broker>,
}

/// All problems with the settings; the program ends with the exit status for wrong usage.
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

impl ConfigError {
    /// `Err` with these problems, or `Ok` if there are none.
    pub(crate) fn of(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }
}

impl CameraConfig {
    /// The settings for the model of the night, with its own file and folder.
    pub(crate) fn of_night(&self) -> Self {
        Self { state: self.state.join("night"), model: self.night_model.clone(), ..self.clone() }
    }

    /// The reason why the camera cannot learn a model; without a model and with no way to learn one, it would do
    /// nothing.
    pub(crate) fn cannot_learn(&self) -> Option<&'static str> {
        if self.source.address == SourceAddress::None {
            Some(
                "no `model`, and no `source` to learn one from: say where frames come from with --source, or which model with --model FILE",
            )
        } else if self.learn_bytes == 0 {
            Some(
                "no `model`, and `learn_room` is 0, so that none can be learned here: give frames room, or say which model with --model FILE",
            )
        } else {
            None
        }
    }
}

impl Config {
    /// Reads file, environment and flags, in this order, and checks them.
    ///
    /// # Errors
    /// [`ConfigError`] with all problems.
    pub(crate) fn read(
        flags: &Flags,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        FoundSettings::read(flags, environment).check()
    }
}

#[cfg(test)]
mod tests;
