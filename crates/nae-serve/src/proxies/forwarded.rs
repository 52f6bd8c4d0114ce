//! Parses `Forwarded` (RFC 7239) and its predecessors, `X-Forwarded-For` and `X-Forwarded-Host`, as lists from the
//! first client to the last proxy. The headers are untrusted: an unreadable item is treated as unknown, never as an
//! error.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, header};

use super::super::quoted::{between, unquoted};

/// The data that one proxy gives about its client.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Element {
    /// `None` if there is no address.
    pub(super) client: Option<IpAddr>,
    pub(super) host: Option<String>,
}

/// The addresses in `X-Forwarded-For`; `None` without it.
pub(super) fn x_forwarded_for(headers: &HeaderMap) -> Option<Vec<Option<IpAddr>>> {
    Some(items(headers, "x-forwarded-for")?.into_iter().map(address).collect())
}

/// The host names in `X-Forwarded-Host`.
pub(super) fn x_forwarded_host(headers: &HeaderMap) -> Vec<String> {
    items(headers, "x-forwarded-host").unwrap_or_default().into_iter().map(str::to_owned).collect()
}

/// The items between the commas of a header, which may be repeated; a line that is not text counts as one unknown item.
fn items<'a>(headers: &'a HeaderMap, name: &str) -> Option<Vec<&'a str>> {
    let lines: Vec<&str> = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?")).collect();
    let items = || lines.iter().flat_map(|line| line.split(',')).map(str::trim).filter(|item| !item.is_empty());
    (!lines.is_empty()).then(|| items().collect())
}

/// The elements of `Forwarded`; `None` without it.
pub(super) fn elements(headers: &HeaderMap) -> Option<Vec<Element>> {
    let lines: Vec<&str> = headers.get_all(header::FORWARDED).iter().map(|line| line.to_str().unwrap_or("?")).collect();
    let parts = || lines.iter().flat_map(|line| between(line, ',')).map(str::trim).filter(|part| !part.is_empty());
    (!lines.is_empty()).then(|| parts().map(element).collect())
}

fn element(text: &str) -> Element {
    let mut element = Element::default();
    for pair in between(text, ';') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim());
        let value = unquoted(value);
        if name.eq_ignore_ascii_case("for") {
            element.client = address(value);
        } else if name.eq_ignore_ascii_case("host") {
            element.host = Some(value.to_owned());
        }
    }
    element
}

/// Parses an address, with or without a port: `192.0.2.7`, `192.0.2.7:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let plain = || text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let in_brackets = || Some(IpAddr::V6(text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?));
    plain().or_else(with_port).or_else(in_brackets).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(line: &'static [u8]) -> Vec<Element> {
        let mut headers = HeaderMap::new();
        headers.append(header::FORWARDED, HeaderValue::from_bytes(line).unwrap());
        elements(&headers).unwrap()
    }

    fn clients(line: &'static [u8]) -> Vec<Option<String>> {
        of(line).into_iter().map(|element| element.client.map(|address| address.to_string())).collect()
    }

    /// The examples of RFC 7239, sections 4, 5.2, 7.1 and 7.4.
    #[test]
    fn the_examples_of_the_rfc() {
        assert_eq!(clients(b"for=\"_gazonk\""), [None]);
        assert_eq!(clients(b"For=\"[2001:db8:cafe::17]:4711\""), [Some("2001:db8:cafe::17".into())]);
        assert_eq!(clients(b"for=192.0.2.60;proto=http;by=203.0.113.43"), [Some("192.0.2.60".into())]);
        assert_eq!(
            clients(b"for=192.0.2.43, for=198.51.100.17"),
            [Some("192.0.2.43".into()), Some("198.51.100.17".into())]
        );
        assert_eq!(clients(b"for=_hidden, for=_SEVKISEK"), [None, None]);
        assert_eq!(
            clients(b"for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown"),
            [Some("192.0.2.43".into()), Some("2001:db8:cafe::17".into()), None]
        );
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        for line in [&b"for"[..], b"=", b"\xff", b"for=", b"for=\"", b"for=\"\\\"192.0.2.1\"", b"for=192.0.2.256"] {
            assert!(clients(line).iter().all(Option::is_none), "{line:?}");
        }
        // An open quote makes what a proxy appends unreadable, and no other address takes its place.
        assert_eq!(clients(b"for=\"192.0.2.9, for=198.51.100.17"), [None]);
        assert_eq!(of(b"host=\"a,b;c\";for=192.0.2.1")[0].host.as_deref(), Some("a,b;c"));
        assert_eq!(clients(b" , ,"), [] as [Option<String>; 0]);
    }
}
