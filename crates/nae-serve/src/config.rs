//! The service's settings: a TOML file, then the environment, then the flags, each over the one
//! before, all by the same names. They are checked once, here, and everything wrong with them is said
//! in one error.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use nae_core::verdict::AlarmSettings;
use nae_infer::LONGEST_WINDOW;
use nae_infer::{BackendChoice, ExecutionProvider};
use serde::Serialize;

use super::broker::{self, Broker, BrokerAddress};
use super::secret::Secret;
use super::signature::Signer;
use super::source::{SourceAddress, SourceSettings, VARIABLES, without_login};
use super::tls::TlsFiles;
use super::webhook::WebhookAddress;

/// The largest settings file or secret read.
const MAX_FILE: u64 = 1 << 20;

/// Flags of `nae-infer serve`. Every one but `--config` is a key of the file and a variable too.
#[derive(Args, Serialize, Default)]
pub struct Flags {
    /// Settings: a TOML file with the names below, `_` for `-`
    #[arg(long, value_name = "FILE.toml")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Model: .onnx from nae-train, or .nae
    #[arg(long, value_name = "FILE")]
    model: Option<String>,
    /// Where frames come from: rtsp://, rtsps:// or https://CAMERA/… (by ffmpeg), http://CAMERA/… (Motion JPEG),
    /// /dev/video0, a folder (folder:DIR where it is not there yet), - (JPEG frames on standard input), or none
    /// [default: none]
    #[arg(long)]
    source: Option<String>,
    /// File with the camera's USER:PASSWORD, which others could read on a command line
    #[arg(long, value_name = "FILE")]
    source_login_file: Option<String>,
    /// Seconds without a frame after which a camera is lost, and opened again [default: 10]
    #[arg(long, value_name = "SECONDS")]
    source_timeout: Option<String>,
    /// Frames of rtsp://, rtsps:// and https:// are made smaller to fit into this many pixels [default: 1920x1080]
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    source_size: Option<String>,
    /// What ffmpeg is told before the address of rtsp://, rtsps:// or https://, with spaces between: how to decode in hardware,
    /// such as `-hwaccel vaapi`
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    ffmpeg_arguments: Option<String>,
    /// Frames a second taken from the source, at most [default: all]
    #[arg(long, value_name = "FPS")]
    max_fps: Option<String>,
    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// File with the token that clients send as `Authorization: Bearer …`; needed unless on loopback
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// Folder for alarms that wait, pictures and settings made on the page [default:
    /// $STATE_DIRECTORY, else ~/.local/state/nae-infer]
    #[arg(long, value_name = "DIR")]
    state: Option<String>,
    /// What reconstructs the images: simd, tract, ort, native, or auto for the fastest [default: for .onnx simd, or
    /// tract where simd lacks a layer; for .nae native]
    #[arg(long)]
    backend: Option<String>,
    /// What the backend ort computes on, the first that has a layer; several with commas between
    #[arg(long, value_name = "NAMES")]
    execution_providers: Option<String>,
    /// Threads that score [default: all]
    #[arg(long)]
    threads: Option<String>,
    /// Share of normal images that may be called anomalies [default: the model's]
    #[arg(long, value_name = "RATE")]
    false_positive_rate: Option<String>,
    /// Anomalies among the last frames that raise the alarm [default: 3]
    #[arg(long, value_name = "N")]
    alarm_raise: Option<String>,
    /// Anomalies among the last frames at which it is taken back [default: 1]
    #[arg(long, value_name = "N")]
    alarm_clear: Option<String>,
    /// How many frames the last frames are [default: 5]
    #[arg(long, value_name = "N")]
    alarm_window: Option<String>,
    /// Frames that may wait; the oldest is dropped for a new one [default: 4]
    #[arg(long, value_name = "N")]
    queue: Option<String>,
    /// The longest that scoring may take before its thread is given up, in seconds [default: 10]
    #[arg(long, value_name = "SECONDS")]
    score_timeout: Option<String>,
    /// The largest request taken, in MiB [default: 16]
    #[arg(long, value_name = "MIB")]
    max_body: Option<String>,
    /// Send alarms to this address, as JSON by POST: http[s]://[USER:PASSWORD@]HOST[:PORT]/PATH
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// File with the secret to sign these requests with: `whsec_` and base64 of 24 to 64 bytes; or `webhook_secret` in the
    /// settings file, or variable NAE_INFER_WEBHOOK_SECRET
    #[arg(long, value_name = "FILE")]
    webhook_secret_file: Option<String>,
    /// No flag, which others could read on a command line.
    #[arg(skip)]
    webhook_secret: Option<String>,
    /// What the camera is called at the broker: letters, digits, `-` and `_` [default: camera]
    #[arg(long, value_name = "NAME")]
    camera_name: Option<String>,
    /// Send alarms to this MQTT broker, and show there how the service is: [mqtt[s]://][USER:PASSWORD@]HOST[:PORT], mqtts
    /// for TLS
    #[arg(long, value_name = "ADDRESS")]
    mqtt: Option<String>,
    /// Topic of the alarms [default: nae/alarms]
    #[arg(long, value_name = "TOPIC")]
    mqtt_topic: Option<String>,
    /// What the topics of the retained state begin with [default: nae/CAMERA-NAME]
    #[arg(long, value_name = "TOPIC")]
    mqtt_state_topic: Option<String>,
    /// Have Home Assistant find the camera, by MQTT discovery under this prefix, `homeassistant` unless it was told another;
    /// the broker then also retains a picture of the last alarm
    #[arg(long, value_name = "PREFIX")]
    mqtt_home_assistant: Option<String>,
    /// User of the broker
    #[arg(long, value_name = "NAME")]
    mqtt_user: Option<String>,
    /// File with the user's password; or `mqtt_password` in the settings file, or variable NAE_INFER_MQTT_PASSWORD
    #[arg(long, value_name = "FILE")]
    mqtt_password_file: Option<String>,
    /// No flag, which others could read on a command line.
    #[arg(skip)]
    mqtt_password: Option<String>,
    /// PEM file of the authorities that the certificate of a mqtts:// broker has to come from [default: the system's]
    #[arg(long, value_name = "FILE")]
    mqtt_ca_file: Option<String>,
    /// PEM file of the service's own certificate, for a mqtts:// broker that asks for one
    #[arg(long, value_name = "FILE")]
    mqtt_certificate_file: Option<String>,
    /// PEM file of the certificate's private key
    #[arg(long, value_name = "FILE")]
    mqtt_key_file: Option<String>,
    /// Client id [default: of the camera's name and a number drawn once, kept in the folder of --state]
    #[arg(long, value_name = "ID")]
    mqtt_client_id: Option<String>,
    /// Append alarms to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    alarm_log: Option<String>,
    /// Room for pictures of alarms, in MiB; 0 keeps none [default: 256]
    #[arg(long, value_name = "MIB")]
    pictures: Option<String>,
}

impl fmt::Debug for Flags {
    /// Which are given, not what they say: a password may be in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = serde_json::to_value(self).unwrap_or_default();
        let names = given.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        f.write_str("Flags ")?;
        f.debug_set().entries(names.map(|(name, _)| name)).finish()
    }
}

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

/// A setting as text, and where it was found.
struct Found {
    text: String,
    origin: String,
}

/// The settings found, by name, and what is wrong so far.
#[derive(Default)]
struct FoundSettings {
    found: BTreeMap<String, Found>,
    problems: Vec<String>,
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
        let mut settings = FoundSettings::default();
        let given = serde_json::to_value(flags).unwrap_or_default();
        let names: Vec<String> = given.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default();
        if let Some(path) = &flags.config {
            settings.take_file(path, &names);
        }
        settings.take_environment(environment, &names);
        for name in &names {
            if let Some(text) = given[name.as_str()].as_str() {
                settings.put(name, text.to_owned(), format!("flag --{}", name.replace('_', "-")));
            }
        }
        settings.check()
    }
}

impl FoundSettings {
    fn put(&mut self, name: &str, text: String, origin: String) {
        self.found.insert(name.to_owned(), Found { text, origin });
    }

    fn take_file(&mut self, path: &Path, names: &[String]) {
        let table = match read_text(path).and_then(|text| text.parse::<toml::Table>().map_err(|e| e.to_string())) {
            Ok(table) => table,
            Err(error) => return self.problems.push(format!("{}: {}", path.display(), error.trim())),
        };
        for (name, value) in table {
            let origin = path.display().to_string();
            if !names.contains(&name) {
                let known = names.join(", ");
                self.problems.push(format!("{origin}: there is no setting `{name}`; the settings are {known}"));
                continue;
            }
            match value {
                toml::Value::String(text) => self.put(&name, text, origin),
                toml::Value::Integer(_) | toml::Value::Float(_) => self.put(&name, value.to_string(), origin),
                _ => self.problems.push(format!("{origin}: `{name}`: expected a text or a number, found {value}")),
            }
        }
    }

    fn take_environment(&mut self, environment: impl Iterator<Item = (OsString, OsString)>, names: &[String]) {
        for (variable, text) in environment {
            let variable = variable.to_string_lossy();
            let Some(name) = variable.strip_prefix(VARIABLES).map(str::to_lowercase) else { continue };
            match text.into_string() {
                Ok(text) if names.contains(&name) => self.put(&name, text, format!("variable {variable}")),
                Ok(_) => self.problems.push(format!("variable {variable}: there is no setting `{name}`")),
                Err(_) => self.problems.push(format!("variable {variable}: expected UTF-8")),
            }
        }
    }

    /// The setting read by `read`, whose error says what was expected.
    fn parse<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let Found { text, origin } = self.found.get(name)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(expected) => {
                // A broker's address has no scheme that its login would follow.
                let text = match text.rsplit_once('@') {
                    Some((_, place)) if name == "mqtt" => format!("…@{place}"),
                    _ => without_login(text),
                };
                self.problems.push(format!("{origin}: `{name}`: expected {expected}, found `{text}`"));
                None
            }
        }
    }

    /// A number in the range.
    fn number<T: FromStr + PartialOrd + fmt::Display>(&mut self, name: &str, low: T, high: T) -> Option<T> {
        self.parse(name, |text| match text.parse() {
            Ok(number) if number >= low && number <= high => Ok(number),
            _ => Err(format!("a number from {low} to {high}")),
        })
    }

    fn seconds(&mut self, name: &str, default: f64) -> Duration {
        Duration::from_secs_f64(self.number(name, 0.01, 3600.0).unwrap_or(default))
    }

    fn path(&mut self, name: &str) -> Option<PathBuf> {
        self.parse(name, |text| if text.is_empty() { Err("a path".into()) } else { Ok(PathBuf::from(text)) })
    }

    /// What the file a setting names holds, without space around it.
    fn secret(&mut self, name: &str) -> Option<Secret> {
        self.parse(name, |path| match read_text(Path::new(path)) {
            Ok(text) if text.trim().is_empty() => Err("a file that is not empty".into()),
            Ok(text) => Ok(Secret::new(text.trim())),
            Err(error) => Err(format!("a file that can be read ({error})")),
        })
    }

    /// The secret that the setting holds, or the file that the setting `NAME_file` names.
    fn secret_or_file(&mut self, name: &str) -> Option<Secret> {
        let file = format!("{name}_file");
        if self.found.contains_key(name) && self.found.contains_key(&file) {
            self.problems.push(format!("`{name}` and `{file}`: give one of them"));
        }
        let given = self.found.get(name).map(|found| Secret::new(found.text.trim()));
        if given.as_ref().is_some_and(|secret| secret.expose().is_empty()) {
            self.problems.push(format!("`{name}`: expected a text that is not empty"));
        }
        self.secret(&file).or(given)
    }

    fn check(mut self) -> Result<Config, ConfigError> {
        let model = self.path("model");
        if model.is_none() && !self.found.contains_key("model") {
            self.problems.push("no `model`: say which with --model FILE, NAE_INFER_MODEL, or in the file".into());
        }
        let listen = self.parse("listen", |text| text.parse().map_err(|_| "ADDRESS:PORT".into()));
        let listen = listen.unwrap_or_else(|| SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 8080));
        let token = self.secret("token_file");
        if !listen.ip().is_loopback() && !self.found.contains_key("token_file") {
            self.problems.push(format!(
                "`listen` is {listen}, which others can reach: give a `token_file`, or listen on 127.0.0.1"
            ));
        }
        let alarm = self.alarm();
        let mqtt = self.mqtt();
        let source = self.source();
        let config = Config {
            source,
            listen,
            token,
            state: self.path("state").unwrap_or_else(default_state),
            backend: self
                .parse("backend", |text| {
                    let expected = || format!("one of {}", BackendChoice::NAMES.join(", "));
                    BackendChoice::from_name(text).ok_or_else(expected)
                })
                .unwrap_or_default(),
            execution_providers: self.parse("execution_providers", providers).unwrap_or_default(),
            threads: self
                .number("threads", 1, 1024)
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
            false_positive_rate: self.parse("false_positive_rate", |text| match text.parse() {
                Ok(rate) if rate > 0.0 && rate < 1.0 => Ok(rate),
                _ => Err("a number above 0 and below 1".into()),
            }),
            queue: self.number("queue", 1, 10_000).unwrap_or(4),
            score_timeout: self.seconds("score_timeout", 10.0),
            max_body: self.number("max_body", 1, 1024).unwrap_or(16) << 20,
            webhook: self.parse("webhook", str::parse),
            webhook_signer: self.webhook_signer(),
            alarm_log: self.path("alarm_log"),
            picture_bytes: self.number("pictures", 0, 1 << 30).unwrap_or(256_u64) << 20,
            mqtt,
            // A problem was noted where one of these is missing.
            model: model.unwrap_or_default(),
            alarm: match alarm {
                Some(alarm) => alarm,
                None => return Err(ConfigError(self.problems)),
            },
        };
        if self.problems.is_empty() { Ok(config) } else { Err(ConfigError(self.problems)) }
    }

    fn source(&mut self) -> SourceSettings {
        let mut address = self.parse("source", str::parse).unwrap_or(SourceAddress::None);
        let in_address = address.camera().is_some_and(|camera| camera.has_login());
        if in_address && self.found.get("source").is_some_and(|found| found.origin.starts_with("flag")) {
            tracing::warn!(
                "other users can read the camera's password on this command line: give it by --source-login-file"
            );
        }
        if let Some(login) = self.secret("source_login_file") {
            let login = login.expose();
            let known = address.clone().with_login(login.to_owned()).filter(|_| login.contains(':') && !in_address);
            match known {
                Some(known) => address = known,
                None if !login.contains(':') => {
                    self.problems.push("`source_login_file`: expected USER:PASSWORD in it, found no colon".into());
                }
                None if in_address => {
                    self.problems.push("`source_login_file`: user and password are in the `source`, too".into());
                }
                None => self.problems.push(format!("`source_login_file`: a source `{address}` takes no password")),
            }
        }
        let default = SourceSettings::default();
        SourceSettings {
            address,
            interval: self
                .number("max_fps", 0.001, 10_000.0)
                .map_or(default.interval, |fps: f64| Duration::from_secs_f64(1.0 / fps)),
            silence: self.seconds("source_timeout", default.silence.as_secs_f64()),
            largest: self.parse("source_size", size).unwrap_or(default.largest),
            ffmpeg_arguments: self
                .parse("ffmpeg_arguments", |text| Ok(text.split_whitespace().map(str::to_owned).collect()))
                .unwrap_or(default.ffmpeg_arguments),
        }
    }

    fn alarm(&mut self) -> Option<AlarmSettings> {
        let window = self.number("alarm_window", 1, LONGEST_WINDOW).unwrap_or(5);
        let raise = self.number("alarm_raise", 1, LONGEST_WINDOW).unwrap_or(3);
        let clear = self.number("alarm_clear", 0, LONGEST_WINDOW).unwrap_or(1);
        let settings = AlarmSettings::new(raise, clear, window);
        settings
            .inspect_err(|error| {
                self.problems
                    .push(format!("`alarm_raise` {raise}, `alarm_clear` {clear}, `alarm_window` {window}: {error}"));
            })
            .ok()
    }

    fn webhook_signer(&mut self) -> Option<Signer> {
        let secret = self.secret_or_file("webhook_secret")?;
        if !self.found.contains_key("webhook") {
            self.problems.push("`webhook_secret`: there is no `webhook` whose requests it would sign".into());
        }
        secret
            .expose()
            .parse()
            .inspect_err(|expected| self.problems.push(format!("`webhook_secret`: expected {expected}")))
            .ok()
    }

    fn mqtt(&mut self) -> Option<Broker> {
        let address = self.parse("mqtt", str::parse::<BrokerAddress>);
        let camera = self.parse("camera_name", broker::camera).unwrap_or_else(|| "camera".into());
        let alarm_topic = self.parse("mqtt_topic", broker::topic).unwrap_or_else(|| "nae/alarms".into());
        let state_topic = self.parse("mqtt_state_topic", broker::topic).unwrap_or_else(|| format!("nae/{camera}"));
        let home_assistant = self.parse("mqtt_home_assistant", broker::topic);
        let client_id = self.parse("mqtt_client_id", |text| match text.len() {
            1..=128 => Ok(text.to_owned()),
            _ => Err("1 to 128 bytes".into()),
        });
        let user = self.parse("mqtt_user", |text| Ok(text.to_owned()));
        let password = self.secret_or_file("mqtt_password");
        let tls = self.tls();
        let mut address = address?;
        if tls != TlsFiles::default() && !address.encrypted {
            self.problems.push(format!(
                "`mqtt_ca_file`, `mqtt_certificate_file` and `mqtt_key_file` are for TLS: write the broker as mqtts://{address}"
            ));
        } else if address.encrypted
            && let Err(error) = tls.read()
        {
            self.problems.push(format!("`mqtt`: {error} (`mqtt_ca_file`, `mqtt_certificate_file`, `mqtt_key_file`)"));
        }
        let has_password = address.login.as_ref().is_some_and(|(_, password)| !password.expose().is_empty());
        if has_password && self.found.get("mqtt").is_some_and(|found| found.origin.starts_with("flag")) {
            tracing::warn!(
                "other users can read the broker's password on this command line: give it by --mqtt-password-file"
            );
        }
        if let Some(user) = user {
            address.login = Some((user, password.unwrap_or_else(|| Secret::new(""))));
        }
        Some(Broker { address, tls, client_id, camera, alarm_topic, state_topic, home_assistant })
    }

    fn tls(&mut self) -> TlsFiles {
        let authorities = self.path("mqtt_ca_file");
        let (certificate, key) = (self.path("mqtt_certificate_file"), self.path("mqtt_key_file"));
        if certificate.is_some() != key.is_some() {
            self.problems.push("`mqtt_certificate_file` and `mqtt_key_file`: give both or none".into());
        }
        TlsFiles { authorities, identity: certificate.zip(key) }
    }
}

/// Width and height of a picture with an `x` between.
fn size(text: &str) -> Result<(u32, u32), String> {
    let side = |text: &str| text.parse().ok().filter(|side| (16..=16_384).contains(side));
    text.split_once('x')
        .and_then(|(width, height)| Some((side(width)?, side(height)?)))
        .ok_or_else(|| "WIDTHxHEIGHT, each from 16 to 16384, such as 1280x720".into())
}

/// Names of execution providers with commas between.
fn providers(text: &str) -> Result<Vec<ExecutionProvider>, String> {
    let names = text.split(',').map(|name| ExecutionProvider::from_name(name.trim()));
    let expected = || format!("some of {}", ExecutionProvider::ALL.map(ExecutionProvider::name).join(", "));
    names.collect::<Option<_>>().ok_or_else(expected)
}

fn read_text(path: &Path) -> Result<String, String> {
    let bytes = nae_onnx::file::read(path, MAX_FILE).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|error| format!("it is not text: {}", error.utf8_error()))
}

/// systemd's folder for the service, or the user's.
fn default_state() -> PathBuf {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("STATE_DIRECTORY")
        .or_else(|| folder("XDG_STATE_HOME").map(|p| p.join("nae-infer")))
        .or_else(|| folder("HOME").map(|p| p.join(".local/state/nae-infer")))
        .unwrap_or_else(|| PathBuf::from("nae-infer-state"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(file: Option<&str>, environment: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        if let Some(text) = file {
            std::fs::write(&path, text).unwrap();
        }
        let flags = Flags { config: file.map(|_| path), ..flags };
        let environment = environment.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        Config::read(&flags, environment).map_err(|e| e.to_string())
    }

    fn flag(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn flags_go_over_the_environment_and_that_over_the_file() {
        let file = "model = \"a.onnx\"\nqueue = 7\nalarm_window = 9\nmax_fps = 12.5";
        let environment = [("NAE_INFER_QUEUE", "8"), ("NAE_INFER_THREADS", "3"), ("OTHER", "x")];
        let config = read(Some(file), &environment, Flags { threads: flag("2"), ..Flags::default() }).unwrap();
        assert_eq!(config.model, PathBuf::from("a.onnx"));
        assert_eq!((config.queue, config.threads), (8, 2));
        assert_eq!(config.source.interval, Duration::from_millis(80));
        assert_eq!(config.alarm, AlarmSettings::new(3, 1, 9).unwrap());
        assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let file = "modle = \"a\"\nqueue = true\nmax_fps = -1\nwebhook = \"ftp://x\"";
        let environment = [("NAE_INFER_LISTEN", "here"), ("NAE_INFER_TYPO", "1")];
        let flags =
            Flags { alarm_raise: flag("6"), mqtt: flag("broker"), token_file: flag("none"), ..Flags::default() };
        let error = read(Some(file), &environment, flags).unwrap_err();
        for part in [
            "there is no setting `modle`",
            "`queue`: expected a text or a number",
            "`max_fps`: expected a number from 0.001",
            "`webhook`: expected an address",
            "variable NAE_INFER_LISTEN: `listen`: expected ADDRESS:PORT, found `here`",
            "variable NAE_INFER_TYPO: there is no setting `typo`",
            "the raising count must be between 1 and the window's length",
            "flag --mqtt: `mqtt`: expected HOST:PORT, mqtt://HOST or mqtts://HOST",
            "flag --token-file: `token_file`: expected a file that can be read",
            "no `model`",
        ] {
            assert!(error.contains(part), "expected {part} in\n{error}");
        }
        assert!(error.starts_with("10 settings are wrong"), "{error}");
    }

    #[test]
    fn a_cameras_password_is_in_no_error() {
        for source in ["rtsp://me:sec/ret@:0/", "ftp://me:secret@camera/x", "rtsp://me:secret@camera:port/"] {
            let error =
                read(None, &[], Flags { model: flag("m"), source: flag(source), ..Flags::default() }).unwrap_err();
            assert!(error.contains("`source`: expected") && !error.contains("sec"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login");
        let with = |source: &str, login: &str| {
            std::fs::write(&path, login).unwrap();
            let source_login_file = Some(path.display().to_string());
            read(None, &[], Flags { model: flag("m"), source: flag(source), source_login_file, ..Flags::default() })
        };
        let config = with("rtsp://camera/live", "me:secret\n").unwrap();
        assert!(config.source.address.camera().unwrap().has_login());
        assert!(!format!("{config:?}").contains("secret"));
        for (source, login, said) in [
            ("rtsp://camera/live", "secret", "expected USER:PASSWORD in it"),
            ("rtsp://me:secret@camera/live", "me:secret", "are in the `source`, too"),
            ("folder:x", "me:secret", "a source `folder:x` takes no password"),
        ] {
            let error = with(source, login).unwrap_err();
            assert!(error.contains(said) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_receivers_password_is_in_no_error() {
        let flags =
            |webhook, mqtt| Flags { model: flag("m"), webhook: flag(webhook), mqtt: flag(mqtt), ..Flags::default() };
        let error = read(None, &[], flags("http://me:sec/ret@host/", "me:secret@broker")).unwrap_err();
        assert!(error.contains("`webhook`: expected an address") && error.contains("found `…@broker`"), "{error}");
        assert!(!error.contains("sec"), "{error}");
        let config = read(None, &[], flags("https://me:secret@host/", "me:s%40cret@broker:1883")).unwrap();
        assert!(!format!("{:?}", config.webhook).contains("secret"));
        let mqtt = config.mqtt.unwrap();
        assert_eq!(mqtt.address.login, Some(("me".into(), Secret::new("s@cret"))));
        assert_eq!(mqtt.name(), "mqtt broker:1883 nae/alarms");
        assert_eq!(mqtt.name_before(), "mqtt me:s%40cret@broker:1883 nae/alarms", "what journals of before call it");
    }

    /// The settings were printed with the broker's login and the token, and the flags with every address.
    #[test]
    fn what_is_secret_is_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "covert\n").unwrap();
        let file = Some(path.display().to_string());
        let flags = || Flags {
            model: flag("m"),
            source: flag("rtsp://me:covert@camera/"),
            token_file: file.clone(),
            webhook: flag("https://me:covert@host/covert"),
            mqtt: flag("mqtts://me:covert@broker"),
            mqtt_password_file: file.clone(),
            ..Flags::default()
        };
        let config = read(None, &[], flags()).unwrap();
        let of_file = read(None, &[], Flags { mqtt_user: flag("me"), ..flags() }).unwrap();
        assert_eq!(of_file.mqtt.as_ref().unwrap().address.login.as_ref().unwrap().1.expose(), "covert");
        for text in [format!("{:?}", flags()), format!("{config:#?}"), format!("{of_file:?}")] {
            assert!(!text.contains("covert"), "{text}");
        }
        let variable = [("NAE_INFER_MQTT_PASSWORD", "covert"), ("NAE_INFER_MQTT_USER", "me")];
        let of_variable = read(None, &variable, Flags { mqtt_password_file: None, ..flags() }).unwrap();
        assert_eq!(of_variable.mqtt.unwrap().address.login, of_file.mqtt.unwrap().address.login);
        let error = read(None, &variable, flags()).unwrap_err();
        assert!(
            error.contains("`mqtt_password` and `mqtt_password_file`: give one") && !error.contains("covert"),
            "{error}"
        );
    }

    #[test]
    fn a_secret_to_sign_with_is_taken_from_a_file_or_a_variable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        std::fs::write(&path, format!("{secret}\n")).unwrap();
        let flags = |webhook: Option<String>, webhook_secret_file| Flags {
            model: flag("m"),
            webhook,
            webhook_secret_file,
            ..Flags::default()
        };
        let (hook, file) = (|| flag("http://host/"), || Some(path.display().to_string()));
        let variable = [("NAE_INFER_WEBHOOK_SECRET", secret)];
        let config = read(None, &[], flags(hook(), file())).unwrap();
        assert_eq!(config.webhook_signer, Some(secret.parse().unwrap()));
        assert_eq!(config, read(None, &variable, flags(hook(), None)).unwrap());
        assert!(!format!("{config:?}").contains("MfKQ"));
        let wrong = [("NAE_INFER_WEBHOOK_SECRET", "covert")];
        for (variable, flags, said) in [
            (&variable, flags(hook(), file()), "`webhook_secret` and `webhook_secret_file`: give one"),
            (&variable, flags(None, None), "there is no `webhook`"),
            (&wrong, flags(hook(), None), "`webhook_secret`: expected whsec_ and base64"),
        ] {
            let error = read(None, variable, flags).unwrap_err();
            assert!(error.contains(said) && !error.contains("covert") && !error.contains("MfKQ"), "{error}");
        }
    }

    #[test]
    fn files_for_tls_are_not_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.pem");
        std::fs::write(&path, "no certificate").unwrap();
        let file = Some(path.display().to_string());
        let flags = |mqtt| Flags { model: flag("m"), mqtt: flag(mqtt), mqtt_ca_file: file.clone(), ..Flags::default() };
        let error = read(None, &[], flags("broker:1883")).unwrap_err();
        assert!(error.contains("write the broker as mqtts://broker:1883"), "{error}");
        let error = read(None, &[], flags("mqtts://broker")).unwrap_err();
        assert!(error.contains("none.pem: expected certificates in PEM, found none"), "{error}");
        let error = read(None, &[], Flags { mqtt_key_file: file.clone(), ..flags("mqtts://broker") }).unwrap_err();
        assert!(error.contains("give both or none"), "{error}");
    }

    #[test]
    fn a_stream_is_taken_as_it_is_said() {
        let file = "model = \"m\"\nsource = \"rtsps://camera/live\"\nmax_fps = 4\nsource_timeout = 2.5\n\
                    source_size = \"640x480\"\nffmpeg_arguments = \"-hwaccel  vaapi\"";
        let source = read(Some(file), &[], Flags::default()).unwrap().source;
        assert_eq!((source.interval, source.silence), (Duration::from_millis(250), Duration::from_millis(2500)));
        assert_eq!(
            (source.largest, source.ffmpeg_arguments.as_slice()),
            ((640, 480), ["-hwaccel", "vaapi"].map(String::from).as_slice())
        );
        for wrong in ["640", "0x480", "640x-1", "99999x1000"] {
            let error =
                read(None, &[], Flags { model: flag("m"), source_size: flag(wrong), ..Flags::default() }).unwrap_err();
            assert!(error.contains("`source_size`: expected WIDTHxHEIGHT"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_no_text_is_not_passed_over() {
        use std::os::unix::ffi::OsStringExt as _;
        let variable = ("NAE_INFER_STATE".into(), OsString::from_vec(b"/tmp/\xFF".to_vec()));
        let error = Config::read(&Flags { model: flag("m"), ..Flags::default() }, [variable].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "variable NAE_INFER_STATE: expected UTF-8");
    }

    #[test]
    fn others_need_a_token() {
        let flags = || Flags { model: flag("m"), listen: flag("0.0.0.0:80"), ..Flags::default() };
        assert!(read(None, &[], flags()).unwrap_err().contains("give a `token_file`"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "  secret\n").unwrap();
        let token_file = Some(path.display().to_string());
        let config = read(None, &[], Flags { token_file, ..flags() }).unwrap();
        assert_eq!(config.token, Some(Secret::new("secret")));
    }
}
