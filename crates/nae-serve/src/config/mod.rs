//! The service's settings: a TOML file, then the environment, then the flags, each over the one before, all by the same
//! names (`flags`). They are read (`reading`) and checked (`checking`, of which `cameras` has what is a camera's) once, here,
//! and everything wrong with them is said in one error.

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
pub use flags::Flags;
use reading::FoundSettings;

/// Checked settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// At least one, in the order of the file; no two names differ by case only.
    pub(crate) cameras: Vec<CameraConfig>,
    pub(crate) listen: SocketAddr,
    pub(crate) tokens: Tokens,
    /// How much a client may ask.
    pub(crate) limits: LimitSettings,
    /// The service's own certificate; without one it is not encrypted.
    pub(crate) certificate: Option<CertificateFiles>,
    /// Who is believed to ask for others.
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) state: PathBuf,
    pub(crate) threads: usize,
    pub(crate) max_body: usize,
    pub(crate) largest_image: LargestImage,
    pub(crate) webhook: Option<WebhookAddress>,
    /// Signs what goes to the webhook.
    pub(crate) webhook_signer: Option<Signer>,
    pub(crate) alarm_log: Option<PathBuf>,
    /// How much history is kept on disk; none without.
    pub(crate) history: Option<HistoryLimits>,
    /// The program that trains: a name to be found on the PATH, or a path.
    pub(crate) nae_train: PathBuf,
}

/// Checked settings of one camera.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CameraConfig {
    pub(crate) name: CameraName,
    /// Its own folder for what is kept.
    pub(crate) state: PathBuf,
    /// What its addresses begin with where alarms name them.
    pub(crate) address: String,
    /// What the ids of its alarms begin with, so that they are no other camera's.
    pub(crate) id_prefix: String,
    /// Without one, it scores with what it has learned, if it has.
    pub(crate) model: Option<PathBuf>,
    /// The model for the night.
    pub(crate) night_model: Option<PathBuf>,
    /// By what day and night are told apart, until somebody sets another; not at all without.
    pub(crate) night: Option<Rule>,
    pub(crate) backend: BackendChoice,
    pub(crate) execution_providers: Vec<ExecutionProvider>,
    pub(crate) score_timeout: Duration,
    pub(crate) source: SourceSettings,
    pub(crate) false_positive_rate: Option<f32>,
    pub(crate) alarm: AlarmSettings,
    /// When alarms are raised; always without.
    pub(crate) alarm_hours: Option<WeekHours>,
    /// What of its frames the model sees, until somebody sets others.
    pub(crate) regions: Regions,
    pub(crate) queue: usize,
    pub(crate) picture_bytes: u64,
    /// Room for frames to learn from; 0 where none may be collected.
    pub(crate) learn_bytes: u64,
    /// The broker, with the topics of this camera.
    pub(crate) mqtt: Option<Broker>,
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

impl ConfigError {
    /// That of these problems; none where there are none.
    pub(crate) fn of(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }
}

impl CameraConfig {
    /// The same for what the model of the night has for itself: its file, and a folder of its own.
    pub(crate) fn of_night(&self) -> Self {
        Self { state: self.state.join("night"), model: self.night_model.clone(), ..self.clone() }
    }

    /// Why it could not learn a model here: without one it would do nothing.
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
