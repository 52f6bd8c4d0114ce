//! What settings have to be: texts become types that cannot be wrong afterwards, and everything that is wrong is noted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use nae_core::verdict::AlarmSettings;
use nae_infer::LONGEST_WINDOW;
use nae_infer::{BackendChoice, ExecutionProvider};

use super::super::broker::{self, Broker, BrokerAddress};
use super::super::secret::Secret;
use super::super::signature::Signer;
use super::super::source::{SourceAddress, SourceSettings, without_login};
use super::super::tls::TlsFiles;
use super::reading::{Found, FoundSettings, read_text};
use super::{Config, ConfigError};

impl FoundSettings {
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

    /// All of it.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong, also what was when it was read.
    pub(super) fn check(mut self) -> Result<Config, ConfigError> {
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

/// systemd's folder for the service, or the user's.
fn default_state() -> PathBuf {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("STATE_DIRECTORY")
        .or_else(|| folder("XDG_STATE_HOME").map(|p| p.join("nae-infer")))
        .or_else(|| folder("HOME").map(|p| p.join(".local/state/nae-infer")))
        .unwrap_or_else(|| PathBuf::from("nae-infer-state"))
}
