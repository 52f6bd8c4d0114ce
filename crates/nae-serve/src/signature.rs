//! Signatures of webhooks. They let a receiver verify that an alarm comes from this service, is complete, and is not an
//! old one that somebody else sent again: Standard Webhooks 1.0 (<https://www.standardwebhooks.com>), HMAC-SHA256 over
//! `id.timestamp.body`.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac::{self, HMAC_SHA256};

/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// The permitted length of a secret in bytes, from the standard.
const LENGTH: std::ops::RangeInclusive<usize> = 24..=64;

/// The secrets that service and receiver share: `whsec_` and base64 of 24 to 64 bytes, one per line. While a secret is
/// being replaced there are two, and each signs.
#[derive(Clone)]
pub(crate) struct Signer {
    keys: Vec<(Vec<u8>, hmac::Key)>,
}

impl FromStr for Signer {
    type Err = String;

    /// The error does not repeat the secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let key = |line: &str| {
            let bytes = BASE64_STANDARD.decode(line.strip_prefix(PREFIX)?).ok()?;
            LENGTH.contains(&bytes.len()).then(|| (bytes.clone(), hmac::Key::new(HMAC_SHA256, &bytes)))
        };
        let keys: Option<Vec<_>> = text.split_whitespace().map(key).collect();
        match keys {
            Some(keys) if !keys.is_empty() => Ok(Self { keys }),
            _ => Err(format!(
                "{PREFIX} and base64 of 24 to 64 bytes, such as `echo {PREFIX}$(openssl rand -base64 32)` makes"
            )),
        }
    }
}

impl Signer {
    /// The value of `webhook-signature`: `v1,` and base64 for each secret, separated by spaces.
    pub(crate) fn sign(&self, id: &str, seconds: i64, body: &str) -> String {
        let message = format!("{id}.{seconds}.{body}");
        let sign =
            |(_, key): &(_, hmac::Key)| format!("v1,{}", BASE64_STANDARD.encode(hmac::sign(key, message.as_bytes())));
        self.keys.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        self.keys.iter().map(|(bytes, _)| bytes).eq(other.keys.iter().map(|(bytes, _)| bytes))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} secrets)", self.keys.len())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The example from the standard's libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn sign(secrets: &str) -> String {
        let signer: Signer = secrets.parse().unwrap();
        signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}")
    }

    #[test]
    fn the_example_of_the_standard_is_signed_as_there() {
        assert_eq!(sign(SECRET), SIGNATURE);
        let other = format!("whsec_{}", BASE64_STANDARD.encode([7; 32]));
        let both = sign(&format!("{other}\n{SECRET}\n"));
        assert_eq!(both, format!("{} {SIGNATURE}", sign(&other)), "each signs");
        assert_ne!(sign(&other), SIGNATURE);
    }

    #[test]
    fn what_is_no_secret_is_not_repeated() {
        let short = format!("whsec_{}", BASE64_STANDARD.encode([7; 23]));
        for wrong in ["", "covert", "whsec_", "whsec_covert!", &short, &SECRET[6..], &format!("{SECRET} covert")] {
            let error = wrong.parse::<Signer>().unwrap_err();
            assert!(error.starts_with("whsec_ and base64") && !error.contains("covert"), "{error}");
        }
        let signer: Signer = SECRET.parse().unwrap();
        assert_eq!(format!("{signer:?}"), "Signer(1 secrets)");
        assert!(signer == SECRET.parse().unwrap());
    }
}
