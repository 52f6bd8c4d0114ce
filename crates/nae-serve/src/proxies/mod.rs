//! The proxies whose statements about their clients are trusted. No other sender is trusted, since anybody can send
//! headers that name another client. `forwarded` parses the headers.

mod forwarded;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::HeaderMap;
use ipnet::IpNet;

use forwarded::{Element, elements, x_forwarded_for, x_forwarded_host};

/// The headers that proxies add. Only some of them are read; each shows that the request is forwarded.
const OF_PROXIES: [&str; 5] = ["x-forwarded-for", "forwarded", "x-forwarded-host", "x-real-ip", "via"];

/// Their addresses and networks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TrustedProxies(Vec<IpNet>);

/// `X-Forwarded-For` and `Forwarded` name different clients: the proxy writes one of them, and its client the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Disagree;

impl fmt::Display for Disagree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "X-Forwarded-For and Forwarded name different clients: have the proxy remove the one that it does not write itself",
        )
    }
}

impl FromStr for TrustedProxies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = |text: &str| {
            let text = text.trim();
            let network: Option<IpNet> = text.parse().ok().or_else(|| Some(text.parse::<IpAddr>().ok()?.into()));
            // A network of all addresses would let each client choose its own address.
            network.filter(|network| network.prefix_len() > 0)
        };
        let expected = || {
            String::from(
                "addresses and networks with commas between, such as `127.0.0.1, 10.1.0.0/16`; 0.0.0.0/0 and ::/0 are not allowed",
            )
        };
        text.split(',').map(network).collect::<Option<_>>().map(Self).ok_or_else(expected)
    }
}

impl TrustedProxies {
    /// Whether an address is that of a trusted proxy.
    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client of a request that `peer` sent: `peer`, or if that is a trusted proxy, the client that it names.
    ///
    /// # Errors
    /// [`Disagree`] if it names two.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, Disagree> {
        let peer = peer.to_canonical();
        if !self.trust(peer) {
            return Ok(peer);
        }
        let of = |named: &[Option<IpAddr>]| self.last_that_is_not_trusted(peer, named);
        match clients(headers) {
            [None, None] => Ok(peer),
            [Some(named), None] | [None, Some(named)] => Ok(of(&named)),
            [Some(named), Some(other)] => Some(of(&named)).filter(|client| *client == of(&other)).ok_or(Disagree),
        }
    }

    /// Each proxy appends the address of its own client to those that it received. Read from the end, all items may be
    /// forged except those that a trusted proxy has written. An item that is not an address (`unknown`) ends the
    /// search, at the proxy that wrote it.
    fn last_that_is_not_trusted(&self, peer: IpAddr, named: &[Option<IpAddr>]) -> IpAddr {
        let mut client = peer;
        for address in named.iter().rev() {
            let Some(address) = *address else { break };
            client = address;
            if !self.trust(client) {
                break;
            }
        }
        client
    }

    /// The host names by which the client of a trusted proxy called this service; empty if the proxy gives none, or is
    /// not trusted.
    pub(crate) fn hosts(&self, peer: IpAddr, headers: &HeaderMap) -> Vec<String> {
        if !self.trust(peer) {
            return Vec::new();
        }
        let of_elements = elements(headers).unwrap_or_default().into_iter().filter_map(|element| element.host);
        x_forwarded_host(headers).into_iter().chain(of_elements).collect()
    }

    /// Whether a header shows that there is a proxy that is not trusted. A proxy that sends none of them cannot be
    /// detected.
    pub(crate) fn are_missing_one(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        !self.trust(peer) && OF_PROXIES.iter().any(|name| headers.contains_key(*name))
    }

    /// Whether a trusted proxy shows that the request is forwarded, but gives no client: by a header that is not read,
    /// or as `unknown`.
    pub(crate) fn leave_client_out(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let lists = clients(headers);
        let is_unknown = |named: &Vec<Option<IpAddr>>| {
            let client = named.iter().rev().find(|address| address.is_none_or(|address| !self.trust(address)));
            named.is_empty() || client.is_some_and(Option::is_none)
        };
        let is_read = lists.iter().any(Option::is_some);
        let is_said = OF_PROXIES.iter().any(|name| headers.contains_key(*name));
        self.trust(peer) && if is_read { lists.iter().flatten().any(is_unknown) } else { is_said }
    }
}

/// The addresses in `X-Forwarded-For` and in `Forwarded`, each from the first client to the last proxy; `None` if a
/// header is missing.
fn clients(headers: &HeaderMap) -> [Option<Vec<Option<IpAddr>>>; 2] {
    let addresses = |elements: Vec<Element>| elements.iter().map(|element| element.client).collect();
    [x_forwarded_for(headers), elements(headers).map(addresses)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_address_that_is_not_trusted_is_the_client() {
        let proxies: TrustedProxies = "127.0.0.1, 10.1.0.0/16,2001:db8::/32".parse().unwrap();
        let xff = "x-forwarded-for";
        for (peer, lines, client) in [
            ("192.0.2.9", &[(xff, "203.0.113.1")][..], "192.0.2.9"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &[(xff, "203.0.113.1")], "203.0.113.1"),
            // Items that the client itself wrote precede that of the proxy.
            ("127.0.0.1", &[(xff, "198.51.100.9, 203.0.113.1")], "203.0.113.1"),
            ("127.0.0.1", &[(xff, "127.0.0.1, 203.0.113.1")], "203.0.113.1"),
            // Through two proxies; a repeated header is one list.
            ("127.0.0.1", &[(xff, "198.51.100.9, 203.0.113.1, 10.1.2.3")], "203.0.113.1"),
            ("127.0.0.1", &[(xff, "198.51.100.9"), (xff, "203.0.113.1"), (xff, "10.1.2.3")], "203.0.113.1"),
            ("::ffff:127.0.0.1", &[(xff, "::ffff:203.0.113.1")], "203.0.113.1"),
            ("2001:db8::5", &[(xff, "[2001:db9::1]:443")], "2001:db9::1"),
            ("127.0.0.1", &[(xff, "10.1.9.9, 10.1.2.3")], "10.1.9.9"),
            ("127.0.0.1", &[(xff, "203.0.113.1:5555")], "203.0.113.1"),
            // If a proxy does not know its client, the client is that proxy.
            ("127.0.0.1", &[(xff, "203.0.113.1, unknown, 10.1.2.3")], "10.1.2.3"),
            ("127.0.0.1", &[(xff, "203.0.113.1, ")], "203.0.113.1"),
            ("127.0.0.1", &[("forwarded", "for=198.51.100.9, for=\"[2001:db9::1]:80\";proto=https")], "2001:db9::1"),
            ("127.0.0.1", &[("forwarded", "for=203.0.113.1"), (xff, "203.0.113.1")], "203.0.113.1"),
        ] {
            assert_eq!(proxies.client(ip(peer), &headers(lines)), Ok(ip(client)), "{peer} {lines:?}");
        }
        let both = headers(&[("forwarded", "for=198.51.100.9"), (xff, "203.0.113.1")]);
        assert_eq!(proxies.client(ip("127.0.0.1"), &both), Err(Disagree));
        assert_eq!(proxies.client(ip("192.0.2.9"), &both), Ok(ip("192.0.2.9")), "not looked at");
        assert_eq!(TrustedProxies::default().client(ip("127.0.0.1"), &both), Ok(ip("127.0.0.1")));
    }

    #[test]
    fn the_name_of_the_service_is_a_trusted_proxys_word_too() {
        let proxies: TrustedProxies = "127.0.0.1".parse().unwrap();
        let told = headers(&[("x-forwarded-host", "cams.example, localhost"), ("forwarded", "host=\"other:80\"")]);
        assert_eq!(proxies.hosts(ip("127.0.0.1"), &told), ["cams.example", "localhost", "other:80"]);
        assert!(proxies.hosts(ip("127.0.0.2"), &told).is_empty());
        assert!(proxies.are_missing_one(ip("127.0.0.2"), &told) && !proxies.are_missing_one(ip("127.0.0.1"), &told));
        assert!(!proxies.are_missing_one(ip("127.0.0.2"), &HeaderMap::new()));
        for name in ["x-forwarded-for", "x-forwarded-host", "x-real-ip", "via", "forwarded"] {
            let lines = headers(&[(name, "")]);
            assert!(proxies.are_missing_one(ip("127.0.0.2"), &lines), "{name}");
            assert!(!proxies.are_missing_one(ip("127.0.0.1"), &lines), "{name}");
            assert!(proxies.leave_client_out(ip("127.0.0.1"), &lines), "{name}");
            assert!(!proxies.leave_client_out(ip("127.0.0.2"), &lines), "{name}");
        }
        assert!(!proxies.leave_client_out(ip("127.0.0.1"), &HeaderMap::new()));
        for (name, line, expected) in [
            ("x-forwarded-for", "unknown", true),
            ("x-forwarded-for", "192.0.2.1, unknown, 127.0.0.1", true),
            ("x-forwarded-for", "unknown, 192.0.2.1", false),
            ("x-forwarded-for", "127.0.0.1", false),
            ("forwarded", "for=_hidden", true),
            ("forwarded", "for=192.0.2.1", false),
        ] {
            let lines = headers(&[(name, line)]);
            assert_eq!(proxies.leave_client_out(ip("127.0.0.1"), &lines), expected, "{name}: {line}");
        }
    }

    #[test]
    fn proxies_are_addresses_and_networks() {
        for wrong in ["", "proxy", "10.0.0.0/33", "0.0.0.0/0", "::/0", "127.0.0.1;10.0.0.1", "127.0.0.1,"] {
            let error = wrong.parse::<TrustedProxies>().unwrap_err();
            assert!(error.contains("`127.0.0.1, 10.1.0.0/16`"), "{wrong}: {error}");
        }
    }
}
