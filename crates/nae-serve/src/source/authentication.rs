//! Authentication at a camera by the scheme that it requests: digest (RFC 7616, with SHA-256 or MD5; without `qop` as
//! in RFC 2069, for old cameras), which does not reveal the password, or else basic (RFC 7617), which does.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::super::quoted::{between, unquoted};

/// The value of `Authorization` for a `GET` of `uri`, from the fields `WWW-Authenticate` of the previous answer.
/// `login` is user and password, separated by a colon.
///
/// # Errors
/// A requested scheme that is not supported; the error contains nothing of the login.
pub(super) fn authorization(asked: &[String], login: &str, uri: &str) -> Result<String, String> {
    let challenges: Vec<Challenge> = asked.iter().flat_map(|field| challenges(field)).collect();
    let offers = challenges.iter().filter_map(Offer::of);
    // The better algorithm, if there are several.
    if let Some(offer) = offers.max_by_key(|offer| offer.algorithm) {
        if login.chars().any(char::is_control) {
            return Err("user and password have characters that cannot be sent, such as a line's end".into());
        }
        let mut bytes = [0; 18];
        SystemRandom::new().fill(&mut bytes).map_err(|_| "the system has no random numbers".to_owned())?;
        return Ok(offer.authorization(login, uri, &STANDARD.encode(bytes)));
    }
    // Cameras that name no scheme take basic authentication.
    if challenges.is_empty() || challenges.iter().any(|challenge| challenge.is("basic")) {
        return Ok(format!("Basic {}", STANDARD.encode(login.as_bytes())));
    }
    let found = challenges.iter().map(|challenge| {
        let field = |name| challenge.field(name).map(|value| format!(" {name}={value}")).unwrap_or_default();
        format!("{}{}{}", challenge.scheme, field("algorithm"), field("qop"))
    });
    let found = found.collect::<Vec<_>>().join(", ");
    Err(format!("expected basic or digest authentication (SHA-256 or MD5, qop=auth), found {found}"))
}

/// One offered scheme.
struct Challenge<'a> {
    scheme: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Challenge<'a> {
    fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    fn field(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// The challenges in one field: each begins with a scheme, followed by its parameters, all separated by commas.
fn challenges(field: &str) -> Vec<Challenge<'_>> {
    let mut challenges: Vec<Challenge<'_>> = Vec::new();
    for item in between(field, ',').into_iter().map(str::trim).filter(|item| !item.is_empty()) {
        let (before, value) = item.split_once('=').unwrap_or((item, ""));
        let before = before.trim();
        let (scheme, name) = match before.split_once(char::is_whitespace) {
            Some((scheme, name)) => (Some(scheme), name.trim()),
            None if item.contains('=') => (None, before),
            None => (Some(before), ""),
        };
        if let Some(scheme) = scheme {
            challenges.push(Challenge { scheme, fields: Vec::new() });
        }
        if let Some(challenge) = challenges.last_mut() {
            challenge.fields.push((name, unquoted(value.trim())));
        }
    }
    challenges
}

/// In increasing order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Algorithm {
    Md5,
    Sha256,
}

impl Algorithm {
    fn hex(self, text: &str) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Md5 => hex(&Md5::digest(text.as_bytes())),
            Self::Sha256 => hex(digest(&SHA256, text.as_bytes()).as_ref()),
        }
    }
}

/// A digest challenge that can be answered.
struct Offer<'a> {
    algorithm: Algorithm,
    /// The camera's name of the algorithm, which is optional.
    algorithm_name: Option<&'a str>,
    realm: &'a str,
    nonce: &'a str,
    opaque: Option<&'a str>,
    /// Whether the answer contains a count and a client nonce (`qop=auth`).
    is_counted: bool,
}

impl<'a> Offer<'a> {
    fn of(challenge: &Challenge<'a>) -> Option<Self> {
        let algorithm_name = challenge.field("algorithm");
        let algorithm = match algorithm_name {
            None => Algorithm::Md5,
            Some(name) if name.eq_ignore_ascii_case("MD5") => Algorithm::Md5,
            Some(name) if name.eq_ignore_ascii_case("SHA-256") => Algorithm::Sha256,
            Some(_) => return None,
        };
        let is_counted = match challenge.field("qop") {
            None => false,
            Some(offered) if offered.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")) => true,
            Some(_) => return None,
        };
        let (realm, nonce) = (challenge.field("realm")?, challenge.field("nonce")?);
        let opaque = challenge.field("opaque");
        challenge.is("digest").then_some(Self { algorithm, algorithm_name, realm, nonce, opaque, is_counted })
    }

    /// The answer to the challenge; `own` is the client nonce.
    fn authorization(&self, login: &str, uri: &str, own: &str) -> String {
        let Self { algorithm, algorithm_name, realm, nonce, opaque, is_counted } = self;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let who = algorithm.hex(&format!("{user}:{realm}:{password}"));
        let what = algorithm.hex(&format!("GET:{uri}"));
        let between = if *is_counted { format!("{nonce}:00000001:{own}:auth") } else { (*nonce).to_owned() };
        let response = algorithm.hex(&format!("{who}:{between}:{what}"));
        let mut text = format!(
            "Digest username=\"{}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{}\", response=\"{response}\"",
            escaped(user),
            escaped(uri)
        );
        if let Some(name) = algorithm_name {
            text.push_str(&format!(", algorithm={name}"));
        }
        if *is_counted {
            text.push_str(&format!(", qop=auth, nc=00000001, cnonce=\"{own}\""));
        }
        if let Some(opaque) = opaque {
            text.push_str(&format!(", opaque=\"{opaque}\""));
        }
        text
    }
}

/// Escapes a text for a quoted string.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REALM: &str = "realm=\"http-auth@example.org\", qop=\"auth, auth-int\"";
    const NONCES: &str = "nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
    const OWN: &str = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";

    fn answer(field: &str, login: &str, uri: &str) -> String {
        let challenges = challenges(field);
        Offer::of(&challenges[0]).unwrap().authorization(login, uri, OWN)
    }

    /// The examples of section 3.9.1.
    #[test]
    fn the_examples_of_rfc_7616() {
        for (algorithm, response) in [
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ] {
            let field = format!("Digest {REALM}, algorithm={algorithm}, {NONCES}");
            assert_eq!(
                answer(&field, "Mufasa:Circle of Life", "/dir/index.html"),
                format!(
                    "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", \
                     nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", uri=\"/dir/index.html\", \
                     response=\"{response}\", algorithm={algorithm}, qop=auth, nc=00000001, cnonce=\"{OWN}\", \
                     opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
                )
            );
        }
    }

    /// The example of RFC 2069, section 2.4, with the response of its erratum 749.
    #[test]
    fn a_camera_that_knows_no_qop() {
        let field = "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"";
        let answer = answer(field, "Mufasa:CircleOfLife", "/dir/index.html");
        assert!(answer.ends_with("response=\"1949323746fe6a43ef61f9606e7febea\""), "{answer}");
    }

    #[test]
    fn the_best_that_a_camera_offers_is_taken() {
        let of = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|&field| field.to_owned()).collect();
            authorization(&asked, "me:secret", "/video")
        };
        let (md5, sha) =
            ("Digest realm=\"a, b\", nonce=\"1\", algorithm=MD5", "Digest realm=r,nonce=2,algorithm=SHA-256");
        for (asked, expected) in [
            (&[md5, sha][..], "nonce=\"2\""),
            (&[sha, md5], "nonce=\"2\""),
            (&[&format!("{md5}, {sha}")], "nonce=\"2\""),
            (&[&format!("Basic realm=\"x\", {md5}")], "realm=\"a, b\", nonce=\"1\""),
            (&[&format!("Negotiate, {md5}"), "Basic realm=\"x\""], "nonce=\"1\""),
            (&["Digest realm=r, nonce=1, algorithm=SHA-512-256", "Basic realm=\"x\""], "Basic bWU6c2VjcmV0"),
            (&["basic"], "Basic bWU6c2VjcmV0"),
            (&[], "Basic bWU6c2VjcmV0"),
        ] {
            let answer = of(asked).unwrap();
            assert!(answer.contains(expected) && !answer.contains("secret"), "{asked:?}: {answer}");
        }
        for (asked, found) in [
            (&["Negotiate abc=="][..], "found Negotiate"),
            (&["Digest realm=r, nonce=1, algorithm=MD5-sess"], "found Digest algorithm=MD5-sess"),
            (&["Digest realm=r, nonce=1, qop=auth-int"], "found Digest qop=auth-int"),
            (&["Digest realm=r"], "found Digest"),
            (&["Other realm=r, nonce=1"], "found Other"),
            (&[", ,=, =\""], "found "),
        ] {
            match of(asked) {
                Err(error) => assert!(error.contains(found) && !error.contains("secret"), "{asked:?}: {error}"),
                // No known scheme is requested.
                Ok(answer) => assert!(asked[0].starts_with(',') && answer.starts_with("Basic "), "{asked:?}: {answer}"),
            }
        }
        // Each answer has a new random nonce.
        let counted = &["Digest realm=r, nonce=1, qop=auth"];
        assert_ne!(of(counted), of(counted));
    }

    #[test]
    fn a_login_cannot_add_to_the_request() {
        let asked = ["Digest realm=r, nonce=1".to_owned()];
        let error = authorization(&asked, "me\r\nX: y:secret", "/").unwrap_err();
        assert!(error.contains("a line's end") && !error.contains("secret"), "{error}");
        let answer = authorization(&asked, "m\"e\\:secret", "/\"").unwrap();
        assert!(answer.starts_with("Digest username=\"m\\\"e\\\\\", ") && answer.contains("uri=\"/\\\"\""), "{answer}");
    }
}
