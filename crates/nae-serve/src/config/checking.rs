//! Checks settings: converts texts to types that contain only valid values, and collects all problems. This module has
//! the settings of the service; those of cameras are in `cameras`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::super::broker::{self, BrokerAddress, BrokerSettings};
use super::super::history_file::HistoryLimits;
use super::super::largest_image::LargestImage;
use super::super::limits::{LimitSettings, Rate};
use super::super::secret::Secret;
use super::super::signature::Signer;
use super::super::tls::{CertificateFiles, TlsFiles};
use super::super::tokens::{Role, Tokens};
use super::reading::{Found, FoundSettings, read_text, shown};
use super::{Config, ConfigError};

/// The settings that name files of tokens.
const TOKENS: [(Role, &str); 3] =
    [(Role::Operate, "token_file"), (Role::Score, "score_token_file"), (Role::Look, "look_token_file")];

impl FoundSettings {
    /// Parses a setting with `read`, whose error describes what was expected.
    pub(super) fn parse<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let Found { text, origin } = self.found.get(name)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(expected) => {
                let text = shown(name, text);
                self.problems.push(format!("{origin}: `{name}`: expected {expected}, found `{text}`"));
                None
            }
        }
    }

    /// Parses a number in a range.
    pub(super) fn number<T: FromStr + PartialOrd + fmt::Display>(&mut self, name: &str, low: T, high: T) -> Option<T> {
        self.parse(name, |text| match text.parse() {
            Ok(number) if number >= low && number <= high => Ok(number),
            _ => Err(format!("a number from {low} to {high}")),
        })
    }

    pub(super) fn seconds(&mut self, name: &str, default: f64) -> Duration {
        Duration::from_secs_f64(self.number(name, 0.01, 3600.0).unwrap_or(default))
    }

    pub(super) fn path(&mut self, name: &str) -> Option<PathBuf> {
        self.parse(name, |text| if text.is_empty() { Err("a path".into()) } else { Ok(PathBuf::from(text)) })
    }

    /// The content of the file that a setting names, without surrounding whitespace.
    pub(super) fn secret(&mut self, name: &str) -> Option<Secret> {
        self.parse(name, |path| match read_text(Path::new(path)) {
            Ok(text) if text.trim().is_empty() => Err("a file that is not empty".into()),
            Ok(text) => Ok(Secret::new(text.trim())),
            Err(error) => Err(format!("a file that can be read ({error})")),
        })
    }

    /// The secret in a setting, or in the file that the setting `NAME_file` names.
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

    /// Checks all settings.
    ///
    /// # Errors
    /// [`ConfigError`] with all problems, including those from reading.
    pub(super) fn check(mut self) -> Result<Config, ConfigError> {
        let listen = self.parse("listen", |text| text.parse().map_err(|_| "ADDRESS:PORT".into()));
        let listen = listen.unwrap_or_else(|| SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 8080));
        let tokens = self.tokens();
        if !listen.ip().is_loopback() && !TOKENS.iter().any(|(_, name)| self.found.contains_key(*name)) {
            self.problems.push(format!(
                "`listen` is {listen}, which others can reach: give a `token_file`, or listen on 127.0.0.1"
            ));
        }
        let state = self.path("state").unwrap_or_else(default_state);
        let broker = self.mqtt();
        let cameras = self.cameras(&state, broker.as_ref());
        let config = Config {
            cameras,
            listen,
            limits: self.limits(!tokens.is_empty()),
            certificate: self.certificate(),
            trusted_proxies: self.parse("trusted_proxies", str::parse).unwrap_or_default(),
            tokens,
            state,
            threads: self
                .number("threads", 1, 1024)
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
            max_body: self.number("max_body", 1, 1024).unwrap_or(16) << 20,
            largest_image: LargestImage::of_megapixels(self.number("max_megapixels", 1, 1024).unwrap_or(36)),
            webhook: self.parse("webhook", str::parse),
            webhook_signer: self.webhook_signer(),
            alarm_log: self.path("alarm_log"),
            history: self.history(),
            nae_train: self.path("nae_train").unwrap_or_else(|| "nae-train".into()),
        };
        if self.problems.is_empty() { Ok(config) } else { Err(ConfigError(self.problems)) }
    }

    /// `None` if one of the two is 0.
    fn history(&mut self) -> Option<HistoryLimits> {
        let days = self.number("history_days", 0, 3650).unwrap_or(90_u32);
        let least = HistoryLimits::LEAST_BYTES / 1_000_000;
        let megabytes = self.parse("history_megabytes", |text| match text.parse() {
            Ok(megabytes) if megabytes == 0 || (least..=1_000_000).contains(&megabytes) => Ok(megabytes),
            _ => Err(format!("0, or a number from {least} to 1000000")),
        });
        let bytes = megabytes.unwrap_or(200_u64) * 1_000_000;
        (days > 0 && bytes > 0).then_some(HistoryLimits { days, bytes })
    }

    fn tokens(&mut self) -> Tokens {
        let mut tokens: Vec<(Role, Secret)> = Vec::new();
        for (role, name) in TOKENS {
            let Some(token) = self.secret(name) else { continue };
            // A header of a request cannot have others.
            if !token.expose().bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
                self.problems
                    .push(format!("`{name}`: expected one line of letters, digits, signs and blanks of ASCII"));
            }
            if tokens.iter().any(|(_, other)| *other == token) {
                self.problems.push(format!("`{name}`: expected a token of its own, found that of another role"));
            }
            tokens.push((role, token));
        }
        Tokens::new(tokens)
    }

    fn certificate(&mut self) -> Option<CertificateFiles> {
        let (certificate, key) = (self.path("tls_certificate_file"), self.path("tls_key_file"));
        if certificate.is_some() != key.is_some() {
            self.problems.push("`tls_certificate_file` and `tls_key_file`: give both or none".into());
        }
        let (certificate, key) = certificate.zip(key)?;
        let files = CertificateFiles { certificate, key };
        if let Err(error) = files.open() {
            self.problems.push(format!("`tls_certificate_file`, `tls_key_file`: {error}"));
        }
        Some(files)
    }

    /// Without tokens, only this machine has access, and only limits that are set apply.
    fn limits(&mut self, others: bool) -> LimitSettings {
        let usual = |count| if others { count } else { 0 };
        let wrong_tokens = self.number("wrong_tokens", 0, 1000).unwrap_or(5);
        let changes = self.number("changes_per_minute", 0, 60_000).unwrap_or(usual(240));
        let scores = self.number("scores_per_second", 0, 100_000).unwrap_or(usual(200));
        LimitSettings {
            wrong_tokens: NonZeroU32::new(wrong_tokens),
            changes: NonZeroU32::new(changes).map(Rate::per_minute),
            scores: NonZeroU32::new(scores).map(Rate::per_second),
        }
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

    fn mqtt(&mut self) -> Option<BrokerSettings> {
        let address = self.parse("mqtt", str::parse::<BrokerAddress>);
        let alarm_topic = self.parse("mqtt_topic", broker::topic).unwrap_or_else(|| "nae/alarms".into());
        let state_topic = self.parse("mqtt_state_topic", broker::topic);
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
        address.login = self.login(address.login, user, password);
        Some(BrokerSettings { address, tls, client_id, alarm_topic, state_topic, home_assistant })
    }

    /// The user and the password, of the address or of settings of their own. None is passed over.
    fn login(
        &mut self,
        of_address: Option<(String, Secret)>,
        user: Option<String>,
        password: Option<Secret>,
    ) -> Option<(String, Secret)> {
        let (other_user, other_password) = of_address.unzip();
        if user.is_some() && other_user.is_some() {
            self.problems.push("`mqtt` and `mqtt_user`: give the user in one of them".into());
        }
        let other_password = other_password.filter(|password| !password.expose().is_empty());
        if password.is_some() && other_password.is_some() {
            self.problems.push("`mqtt` and `mqtt_password`: give the password in one of them".into());
        }
        let (user, password) = (user.or(other_user), password.or(other_password));
        if user.is_none() && password.is_some() {
            self.problems.push("`mqtt_password`: there is no user: give `mqtt_user`".into());
        }
        Some((user?, password.unwrap_or_else(|| Secret::new(""))))
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

/// systemd's state folder for the service, or that of the user.
fn default_state() -> PathBuf {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("STATE_DIRECTORY")
        .or_else(|| folder("XDG_STATE_HOME").map(|p| p.join("nae-infer")))
        .or_else(|| folder("HOME").map(|p| p.join(".local/state/nae-infer")))
        .unwrap_or_else(|| PathBuf::from("nae-infer-state"))
}
