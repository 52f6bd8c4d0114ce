//! Alarms by POST: the address, the part of it that may be shown, and the request. [`deliver`](super::deliver) calls
//! it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::receiver::Receiver;
use super::signature::Signer;

/// `http[s]://[USER:PASSWORD@]HOST[:PORT][/PATH]`. The path and query are secret, too: with many services, whoever
/// knows them may send.
#[derive(Clone, PartialEq)]
pub(crate) struct WebhookAddress {
    /// The address as it was given.
    whole: String,
    /// `http[s]://HOST[:PORT]`.
    origin: String,
    /// The part from the slash or question mark on.
    path: String,
    /// The user and password for basic authentication.
    login: Option<String>,
}

impl FromStr for WebhookAddress {
    type Err = String;

    /// The error does not repeat the address, since it may contain a password.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "an address that begins with http:// or https://, with USER:PASSWORD encoded".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(expected)?;
        let (authority, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
        let (login, place) = authority.rsplit_once('@').map_or((None, authority), |(l, p)| (Some(l), p));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (place, None),
        };
        // An unencoded slash in a password ends the host, and the text before it is not a valid port.
        let wrong = host.is_empty() || port.is_some_and(|port| port.parse::<u16>().is_err());
        if wrong || !["http", "https"].contains(&scheme) || rest.contains(|c: char| c.is_control() || c == ' ') {
            return Err(expected());
        }
        Ok(Self {
            whole: text.to_owned(),
            origin: format!("{scheme}://{place}"),
            path: path.to_owned(),
            login: login.map(|login| percent_decode_str(login).decode_utf8_lossy().into_owned()),
        })
    }
}

impl fmt::Display for WebhookAddress {
    /// The form for the log and the metrics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

impl fmt::Debug for WebhookAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A POST of JSON; any status 2xx is an acknowledgement.
pub(super) struct Webhook {
    address: WebhookAddress,
    signer: Option<Signer>,
    agent: ureq::Agent,
}

impl Webhook {
    /// Creates a receiver with the timeout `patience`; the signer, if any, signs its requests.
    pub(super) fn new(address: WebhookAddress, signer: Option<Signer>, patience: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(patience))
            .max_redirects(0)
            // Each status is reported in the same way.
            .http_status_as_error(false)
            .build();
        Self { address, signer, agent: config.into() }
    }
}

impl Receiver for Webhook {
    fn name(&self) -> String {
        format!("webhook {}", self.address)
    }

    /// Excludes the login and the query, which a new password or token changes.
    fn key(&self) -> String {
        let path = self.address.path.split(['?', '#']).next().unwrap_or_default();
        format!("webhook {}{path}", self.address.origin)
    }

    fn key_before(&self) -> String {
        format!("webhook {}", self.address.whole)
    }

    fn send(&mut self, alarm: &str) -> Result<(), String> {
        let WebhookAddress { origin, path, login, .. } = &self.address;
        let mut request = self.agent.post(format!("{origin}{path}")).header("content-type", "application/json");
        if let Some(login) = login {
            request = request.header("authorization", format!("Basic {}", BASE64_STANDARD.encode(login)));
        }
        if let Some(signer) = &self.signer {
            let id = id(alarm);
            // The time of this attempt, not of the alarm: receivers refuse requests that are older than some minutes.
            let seconds = Timestamp::now().as_second();
            request = request
                .header("webhook-id", id)
                .header("webhook-timestamp", seconds.to_string())
                .header("webhook-signature", signer.sign(id, seconds, alarm));
        }
        match request.send(alarm) {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("it answered {}", response.status())),
            Err(error) if path.len() > 1 => Err(error.to_string().replace(path.as_str(), "…")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The `id` of an alarm, by which a receiver recognizes a repetition.
fn id(alarm: &str) -> &str {
    #[derive(Deserialize)]
    struct Id<'a> {
        id: &'a str,
    }
    // The service itself made the text. If it had no id, it should be sent all the same.
    serde_json::from_str(alarm).map_or("unknown", |Id { id }| id)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::super::journal::Journal;
    use super::*;

    fn webhook(text: &str) -> Webhook {
        Webhook::new(text.parse().unwrap(), None, Duration::from_secs(1))
    }

    #[test]
    fn of_an_address_only_the_host_is_shown() {
        for (text, name, key) in [
            ("http://host/alarm", "webhook http://host", "webhook http://host/alarm"),
            ("https://me:s%40x@host:8443/a?key=b", "webhook https://host:8443", "webhook https://host:8443/a"),
            ("http://me:x@[::1]:80", "webhook http://[::1]:80", "webhook http://[::1]:80"),
            ("http://host?x", "webhook http://host", "webhook http://host"),
        ] {
            let webhook = webhook(text);
            assert_eq!((webhook.name().as_str(), webhook.key().as_str()), (name, key));
            assert_eq!(format!("webhook {:?}", webhook.address), name);
        }
        for wrong in
            ["ftp://x", "http://", "http://me:sec/ret@host/", "http://me@", "http://h:70000/", "x", "http://a b"]
        {
            assert!(wrong.parse::<WebhookAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_status_but_2xx_is_reported_alike() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/alarm", listener.local_addr().unwrap());
        let statuses = [
            ("204 No Content", Ok(())),
            ("302 Found", Err("it answered 302 Found")),
            ("404 Not Found", Err("it answered 404 Not Found")),
            ("500 Internal Server Error", Err("it answered 500 Internal Server Error")),
        ];
        std::thread::spawn(move || {
            for (status, _) in statuses {
                let (mut client, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"{}") {
                    let mut piece = [0; 1000];
                    let read = client.read(&mut piece).unwrap();
                    request.extend(&piece[..read]);
                }
                let headers = "Location: http://127.0.0.1:9/\r\nContent-Length: 0\r\nConnection: close";
                write!(client, "HTTP/1.1 {status}\r\n{headers}\r\n\r\n").unwrap();
            }
        });
        let mut webhook = Webhook::new(address.parse().unwrap(), None, Duration::from_secs(30));
        for (status, expected) in statuses {
            assert_eq!(webhook.send("{}"), expected.map_err(str::to_owned), "{status}");
        }
    }

    /// Earlier versions used the whole address, with user and password, as the key in the journal.
    #[test]
    fn what_a_journal_of_before_has_queued_is_not_lost() {
        let now = Duration::ZERO;
        for url in ["http://me:secret@host/alarm?key=x", "http://host/alarm"] {
            let folder = tempfile::tempdir().unwrap();
            let journal = Journal::open(folder.path(), 7).unwrap();
            let before = format!("webhook {url}");
            journal.subscribe(&before, &before).unwrap();
            for text in ["zero", "one", "two"] {
                journal.append(|_, _| text.to_owned()).1.unwrap();
            }
            journal.acknowledge(&before, 0).unwrap();
            drop(journal);

            let journal = Journal::open(folder.path(), 8).unwrap();
            let this = webhook(url);
            journal.subscribe(&this.key(), &this.key_before()).unwrap();
            assert_eq!(journal.next_for(&this.key(), now), Some((1, "one".into())), "{url}");
            assert_eq!(journal.behind(&this.key()), (2, 0));
            journal.acknowledge(&this.key(), 1).unwrap();
            drop(journal);

            // With another password, it is the same receiver.
            let journal = Journal::open(folder.path(), 9).unwrap();
            let this = webhook(&url.replace("secret", "changed"));
            journal.subscribe(&this.key(), &this.key_before()).unwrap();
            assert_eq!(journal.next_for(&this.key(), now), Some((2, "two".into())), "{url}");
        }
    }
}
