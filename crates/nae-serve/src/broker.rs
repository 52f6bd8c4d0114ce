//! An MQTT broker as the settings name it: its address, who the service is to it, and the topics. How it is spoken to is in
//! [`mqtt`](super::mqtt).

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::camera_name::CameraName;
use super::secret::Secret;
use super::tls::TlsFiles;

/// `[mqtt[s]://][USER:PASSWORD@]HOST[:PORT]`; the port may be left out after `mqtt://` or `mqtts://`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BrokerAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether it is `mqtts://`.
    pub(crate) encrypted: bool,
    /// User and password.
    pub(crate) login: Option<(String, Secret)>,
    /// As it was written.
    written: Secret,
}

impl FromStr for BrokerAddress {
    type Err = String;

    /// The error does not repeat the address: a password may be in it.
    fn from_str(text: &str) -> Result<Self, String> {
        let (encrypted, usual_port, rest) = match text.split_once("://") {
            None => (false, None, text),
            Some(("mqtt", rest)) => (false, Some(1883), rest),
            Some(("mqtts", rest)) => (true, Some(8883), rest),
            Some(_) => return Err("HOST:PORT, mqtt://HOST or mqtts://HOST".into()),
        };
        let (login, place) = rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (place, usual_port),
        };
        let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let wrong = name.is_empty() || name.contains(|c: char| c == '/' || c == ' ' || c.is_control());
        let Some(port) = port.filter(|_| !wrong) else {
            return Err("HOST:PORT, mqtt://HOST or mqtts://HOST, with USER:PASSWORD@ before it encoded".into());
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let login = login.map(|login| login.split_once(':').unwrap_or((login, "")));
        Ok(Self {
            host: name.to_owned(),
            port,
            encrypted,
            login: login.map(|(user, password)| (decoded(user), Secret::new(decoded(password)))),
            written: Secret::new(text),
        })
    }
}

impl fmt::Display for BrokerAddress {
    /// For the log and the metrics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A broker as the settings name it, for all cameras.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BrokerSettings {
    /// With the login to use, from wherever it was given.
    pub(crate) address: BrokerAddress,
    /// Looked at where the address is `mqtts://`.
    pub(crate) tls: TlsFiles,
    /// In place of one that the service chooses.
    pub(crate) client_id: Option<String>,
    /// Where each alarm goes.
    pub(crate) alarm_topic: String,
    /// What the topics of the retained state begin with, in place of `nae`.
    pub(crate) state_topic: Option<String>,
    /// What the topics begin with under which Home Assistant is told of the cameras, if it is.
    pub(crate) home_assistant: Option<String>,
}

/// A broker, and what it is told of one camera.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Broker {
    pub(crate) address: BrokerAddress,
    pub(crate) tls: TlsFiles,
    pub(crate) client_id: Option<String>,
    pub(crate) camera: CameraName,
    pub(crate) alarm_topic: String,
    /// What the topics of the camera's retained state begin with.
    pub(crate) state_topic: String,
    pub(crate) home_assistant: Option<String>,
}

impl BrokerSettings {
    /// What the broker is told of the camera. One among several makes client id and topics its own.
    pub(crate) fn of(&self, camera: CameraName, among_several: bool) -> Broker {
        let Self { address, tls, client_id, alarm_topic, state_topic, home_assistant } = self.clone();
        let own = |text: String, between: char| if among_several { format!("{text}{between}{camera}") } else { text };
        Broker {
            address,
            tls,
            client_id: client_id.map(|id| own(id, '-')),
            alarm_topic,
            state_topic: state_topic.map_or_else(|| format!("nae/{camera}"), |topic| own(topic, '/')),
            home_assistant,
            camera,
        }
    }
}

impl Broker {
    /// What it is called in the log and in metrics.
    pub(crate) fn name(&self) -> String {
        format!("mqtt {} {}", self.address, self.alarm_topic)
    }

    /// What the journal called it when that was the whole address.
    pub(crate) fn name_before(&self) -> String {
        format!("mqtt {} {}", self.address.written.expose(), self.alarm_topic)
    }
}

/// A topic to publish under.
pub(crate) fn topic(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.len() < 1000 && !text.contains(['+', '#', '\0']);
    if plain { Ok(text.to_owned()) } else { Err("a topic without `+` and `#`".into()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_everything() {
        for (text, host, port, encrypted, login, shown) in [
            ("host:1884", "host", 1884, false, None, "host:1884"),
            ("mqtt://host", "host", 1883, false, None, "host:1883"),
            ("mqtts://host", "host", 8883, true, None, "host:8883"),
            ("mqtts://me:a%40b@host:99", "host", 99, true, Some(("me", "a@b")), "host:99"),
            ("me@[::1]:1883", "::1", 1883, false, Some(("me", "")), "[::1]:1883"),
            ("mqtts://[::1]", "::1", 8883, true, None, "[::1]:8883"),
        ] {
            let address: BrokerAddress = text.parse().unwrap();
            let (user, password) = login.unzip();
            let found = address.login.as_ref().map(|(user, password)| (user.as_str(), password.expose())).unzip();
            assert_eq!(
                (address.host.as_str(), address.port, address.encrypted, found),
                (host, port, encrypted, (user, password)),
                "{text}"
            );
            assert_eq!(address.to_string(), shown);
        }
        for wrong in ["host", ":1", "mqtts://", "http://host:1", "host:x", "mqtts://host/x", "mqtts://me:se/cret@", ""]
        {
            let error = wrong.parse::<BrokerAddress>().unwrap_err();
            assert!(!error.contains("cret"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let address: BrokerAddress = "mqtts://me:covert@host".parse().unwrap();
        assert!(!format!("{address:?} {address}").contains("covert"));
    }
}
