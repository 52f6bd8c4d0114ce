//! An MQTT broker as the settings describe it: its address, the login and client id of the service, and the topics. The
//! protocol is in [`mqtt`](super::mqtt).

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::camera_name::CameraName;
use super::secret::Secret;
use super::tls::TlsFiles;

/// `[mqtt[s]://][USER:PASSWORD@]HOST[:PORT]`; the port is optional after `mqtt://` or `mqtts://`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BrokerAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the scheme is `mqtts://`.
    pub(crate) encrypted: bool,
    /// The user and the password.
    pub(crate) login: Option<(String, Secret)>,
    /// The address as it was given.
    written: Secret,
}

impl FromStr for BrokerAddress {
    type Err = String;

    /// The error does not repeat the address, since it may contain a password.
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
    /// The form for the log and the metrics, without the login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The settings of a broker, for all cameras.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BrokerSettings {
    /// The address, with the login to use, whichever setting gave it.
    pub(crate) address: BrokerAddress,
    /// Used if the address is `mqtts://`.
    pub(crate) tls: TlsFiles,
    /// The client id; if `None`, the service chooses one.
    pub(crate) client_id: Option<String>,
    /// The topic of alarms.
    pub(crate) alarm_topic: String,
    /// The prefix of the topics of the retained state; `nae` if `None`.
    pub(crate) state_topic: Option<String>,
    /// The prefix of the discovery topics of Home Assistant; `None` if the cameras are not announced to it.
    pub(crate) home_assistant: Option<String>,
}

/// A broker's settings for one camera.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Broker {
    pub(crate) address: BrokerAddress,
    pub(crate) tls: TlsFiles,
    pub(crate) client_id: Option<String>,
    pub(crate) camera: CameraName,
    pub(crate) alarm_topic: String,
    /// The prefix of the topics of the camera's retained state.
    pub(crate) state_topic: String,
    pub(crate) home_assistant: Option<String>,
}

impl BrokerSettings {
    /// The settings for one camera. If there are several cameras, client id and topics contain the camera's name.
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
    /// The name in the log and in metrics.
    pub(crate) fn name(&self) -> String {
        format!("mqtt {} {}", self.address, self.alarm_topic)
    }

    /// The key that earlier versions used in the journal, which contains the whole address.
    pub(crate) fn name_before(&self) -> String {
        format!("mqtt {} {}", self.address.written.expose(), self.alarm_topic)
    }
}

/// Checks a topic to publish under.
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
