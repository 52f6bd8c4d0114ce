//! Addresses of network cameras, and the part of them that may be shown: neither the login nor parts that may contain
//! one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The maximum length of an address, in bytes.
const MAX_LENGTH: usize = 4096;
/// The minimum length of a password that is removed from texts: a shorter one would also match unrelated text, and the
/// gaps would reveal it.
const MIN_PASSWORD: usize = 4;
/// The characters that begin the part of a path in which many cameras have the login.
const QUERY: [char; 4] = ['?', '&', '=', ';'];

/// The characters that are encoded in user and password: all but the unreserved ones (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The protocol of a camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
    Rtsp,
    Rtsps,
}

impl Scheme {
    const ALL: [Self; 4] = [Self::Http, Self::Https, Self::Rtsp, Self::Rtsps];

    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Rtsp => "rtsp",
            Self::Rtsps => "rtsps",
        }
    }

    /// The default port.
    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Rtsp => 554,
            Self::Rtsps => 322,
        }
    }

    /// The scheme of an address.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let (name, _) = text.split_once("://")?;
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }
}

/// The user and the password, separated by a colon.
#[derive(Clone, PartialEq)]
enum Login {
    /// As written in the address, with percent-encoding.
    Address(String),
    /// Not encoded.
    Plain(String),
}

/// `SCHEME://[USER:PASSWORD@]HOST[:PORT]/PATH`.
#[derive(Clone, PartialEq)]
pub(crate) struct CameraAddress {
    pub(crate) scheme: Scheme,
    pub(super) host: String,
    pub(super) port: u16,
    /// The part from the slash on.
    pub(super) path: String,
    login: Option<Login>,
}

impl FromStr for CameraAddress {
    type Err = String;

    /// The error does not repeat the address, since it may contain a password.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = Scheme::of(text).map_or("http", Scheme::name);
        let expected = || format!("{name}://[USER:PASSWORD@]HOST[:PORT]/PATH");
        let scheme = Scheme::of(text).ok_or_else(expected)?;
        let rest = &text[scheme.name().len() + 3..];
        if text.len() > MAX_LENGTH || rest.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(expected());
        }
        let (authority, path) = rest.find(['/', '?']).map_or((rest, "/"), |at| rest.split_at(at));
        let (login, place) = authority.rsplit_once('@').map_or((None, authority), |(l, p)| (Some(l), p));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| expected())?),
            _ => (place, scheme.port()),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['\'', '"', '\\', '%']) {
            return Err(expected());
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let login = login.map(|login| Login::Address(login.to_owned()));
        Ok(Self { scheme, host: host.to_owned(), port, path: format!("{slash}{path}"), login })
    }
}

impl CameraAddress {
    /// The same address with this login, `USER:PASSWORD`.
    pub(crate) fn with_login(self, login: String) -> Self {
        Self { login: Some(Login::Plain(login)), ..self }
    }

    /// Whether the address contains a login.
    pub(crate) fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// The login, separated by a colon and not encoded.
    pub(super) fn login(&self) -> Option<Cow<'_, str>> {
        Some(match self.login.as_ref()? {
            Login::Address(login) => percent_decode_str(login).decode_utf8_lossy(),
            Login::Plain(login) => login.into(),
        })
    }

    /// The whole address, with the login.
    pub(super) fn secret(&self) -> String {
        let login = match &self.login {
            None => String::new(),
            Some(Login::Address(login)) => format!("{login}@"),
            Some(Login::Plain(login)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                format!("{}:{}@", utf8_percent_encode(user, ENCODED), utf8_percent_encode(password, ENCODED))
            }
        };
        format!("{}://{login}{}{}", self.scheme.name(), self.place(), self.path)
    }

    /// Host and port for the header `Host`: without the scheme's default port.
    pub(super) fn host_field(&self) -> String {
        let place = self.place();
        match place.strip_suffix(&format!(":{}", self.scheme.port())) {
            Some(host) if self.port == self.scheme.port() => host.to_owned(),
            _ => place,
        }
    }

    /// Host and port as in an address.
    fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Removes the login from the output of a program that was given the address.
    pub(super) fn hide_in(&self, text: &str) -> String {
        let secret = self.secret();
        let mut text = text.replace(&secret, &self.to_string());
        let in_address = secret.split_once("://").and_then(|(_, rest)| Some(rest.split_once(&self.place())?.0));
        let own = self.login();
        let passwords = [in_address.map(|login| login.trim_end_matches('@')), own.as_deref()];
        let passwords = passwords.into_iter().flatten().filter_map(|login| Some(login.split_once(':')?.1));
        let tail = self.path.find(QUERY).map(|at| &self.path[at..]);
        for hidden in tail.into_iter().chain(passwords).filter(|part| part.len() >= MIN_PASSWORD) {
            text = text.replace(hidden, "…");
        }
        without_login(&text)
    }
}

impl fmt::Display for CameraAddress {
    /// The form for logs, errors and the page.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.name(), self.place(), without_query(&self.path))
    }
}

impl fmt::Debug for CameraAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Removes the text before an `@` in all addresses in a text, valid or not.
pub(crate) fn without_login(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(at) => {
                shown.push('…');
                rest = &after[at..];
            }
            None => rest = after,
        }
    }
    shown + rest
}

/// Removes the text before the last `@` of an address, valid or not, since the scheme may be missing or mistyped and
/// the password may contain a space; also removes the query, in which some cameras have the password. A valid scheme
/// stays.
pub(crate) fn address_without_login(text: &str) -> String {
    let Some((before, place)) = text.rsplit_once('@') else { return without_query(text) };
    // An `@` after a question mark may also be part of a password.
    let place = if before.contains('?') { String::new() } else { format!("@{}", without_query(place)) };
    let scheme = before.split_once("://").filter(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    let scheme = scheme.map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
    format!("{scheme}…{place}")
}

/// A path up to the part in which many cameras have the login.
fn without_query(text: &str) -> String {
    text.find(QUERY).map_or_else(|| text.to_owned(), |at| format!("{}…", &text[..at]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CameraAddress, String> {
        text.parse()
    }

    #[test]
    fn addresses() {
        let camera = parse("http://me:p@ss@[::1]:8081/a").unwrap();
        assert_eq!((camera.host.as_str(), camera.port, camera.path.as_str()), ("::1", 8081, "/a"));
        assert_eq!(camera.login().as_deref(), Some("me:p@ss"));
        assert_eq!(camera.to_string(), "http://[::1]:8081/a", "the password is not shown");
        assert_eq!(parse("http://me:p%40%C3%A4%@camera").unwrap().login().as_deref(), Some("me:p@ä%"));
        assert_eq!(parse("http://camera").unwrap().to_string(), "http://camera:80/");
        for (text, host) in [
            ("http://camera", "camera"),
            ("http://camera:81/x", "camera:81"),
            ("http://camera:8080", "camera:8080"),
            ("http://[::1]/", "[::1]"),
            ("http://[fe80::80]:81/", "[fe80::80]:81"),
        ] {
            assert_eq!(parse(text).unwrap().host_field(), host);
        }
        for (text, port) in [("https://a", 443), ("rtsp://a", 554), ("rtsps://a", 322), ("rtsp://a:8554", 8554)] {
            assert_eq!(parse(text).unwrap().port, port, "{text}");
        }
        for wrong in ["http://", "http://:80/", "http://a:port/", "http://a/\r\nX: y", "ftp://a", "a", "rtsp://a b/"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&format!("rtsp://a/{}", "x".repeat(MAX_LENGTH))).is_err());
    }

    #[test]
    fn what_may_hold_a_password_is_not_shown() {
        for (text, shown) in [
            ("rtsp://cam/live?user=me&password=secret", "rtsp://cam:554/live…"),
            ("rtsp://cam/user=me_password=secret_channel=1.sdp", "rtsp://cam:554/user…"),
            ("rtsp://cam?password=secret", "rtsp://cam:554/…"),
        ] {
            let camera = parse(text).unwrap();
            assert_eq!((camera.to_string().as_str(), format!("{camera:?}").as_str()), (shown, shown));
        }
        let wrong = parse("rtsp://me:sec/ret@cam/").unwrap_err();
        assert_eq!(wrong, "rtsp://[USER:PASSWORD@]HOST[:PORT]/PATH");
    }

    #[test]
    fn a_login_of_its_own_is_encoded_for_the_address() {
        let camera = parse("rtsp://cam:8554/live?x=1").unwrap();
        assert!(!camera.has_login());
        let camera = camera.with_login("me:p/s:ä%".into());
        assert!(camera.has_login());
        assert_eq!(camera.secret(), "rtsp://me:p%2Fs%3A%C3%A4%25@cam:8554/live?x=1");
        assert_eq!(camera.login().as_deref(), Some("me:p/s:ä%"));
        assert_eq!(parse("rtsp://me:p%2Fs@cam/").unwrap().secret(), "rtsp://me:p%2Fs@cam:554/");
    }

    #[test]
    fn texts_of_others_lose_the_password() {
        let camera = parse("rtsp://me:p%40ss'w@cam/live?token=12345").unwrap();
        for (text, shown) in [
            ("open 'rtsp://me:p%40ss'w@cam:554/live?token=12345'", "open 'rtsp://cam:554/live…'"),
            ("open rtsp://me:p%40ss'w@cam:554/live/track1", "open rtsp://…@cam:554/live/track1"),
            ("sent p%40ss'w and p@ss'w", "sent … and …"),
            ("GET /live?token=12345", "GET /live…"),
            ("Connection to tcp://cam:554 failed", "Connection to tcp://cam:554 failed"),
        ] {
            assert_eq!(camera.hide_in(text), shown);
        }
        let camera = parse("rtsp://cam/").unwrap().with_login("me:a b c d".into());
        assert_eq!(camera.hide_in("rtsp://me:a%20b%20c%20d@cam:554/: a%20b%20c%20d, a b c d"), "rtsp://cam:554/: …, …");
        let short = parse("rtsp://me:1@10.1.1.1/").unwrap();
        assert_eq!(
            short.hide_in("tcp://10.1.1.1:554 and rtsp://me:1@10.1.1.1:554/"),
            "tcp://10.1.1.1:554 and rtsp://10.1.1.1:554/"
        );
        assert_eq!(without_login("a://b://me:x@c d://u@e, mail@f"), "a://…@c d://…@e, mail@f");
    }

    #[test]
    fn wrong_addresses_lose_the_password_however_they_are_wrong() {
        for (text, shown) in [
            ("rtsp:/me:secret@cam/live", "…@cam/live"),
            ("me:secret@host/x", "…@host/x"),
            ("rtsp://me:my secret@cam/", "rtsp://…@cam/"),
            ("ftp://me:se@cret@cam/", "ftp://…@cam/"),
            ("me:sec://ret@cam/", "…@cam/"),
            ("rstp://cam/live", "rstp://cam/live"),
            ("rstp://cam/live?user=me&password=secret", "rstp://cam/live…"),
            ("me@cam/live?password=secret", "…@cam/live…"),
            ("rstp://cam/live?password=se@cret", "rstp://…"),
        ] {
            assert_eq!(address_without_login(text), shown);
        }
    }
}
