//! The period of validity of a certificate: the only part that is read here; rustls reads the rest. `server` reports
//! its end.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rumqttc::tokio_rustls::rustls::pki_types::CertificateDer;

/// How long before its end a certificate should have been renewed.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
/// How often an expiry, imminent or past, is reported again.
const AGAIN: SignedDuration = SignedDuration::from_hours(24);

/// The DER tags (X.690) that are read.
const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which certificates of version 1 do not have.
const VERSION: u8 = 0xA0;

/// The period of validity of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
}

/// The validity at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    NotYet,
    Yes,
    NotForLong,
    NoMore,
}

impl Validity {
    /// The validity of the certificate in a chain that expires first: without it, clients accept none of them.
    pub(super) fn of_chain(chain: &[CertificateDer<'_>]) -> Option<Self> {
        chain.iter().filter_map(|certificate| Self::read(certificate)).min_by_key(|validity| validity.end)
    }

    /// RFC 5280, 4.1: after version, number, algorithm and issuer of the first part.
    fn read(certificate: &[u8]) -> Option<Self> {
        let (mut rest, _) = of(SEQUENCE, of(SEQUENCE, certificate)?.0)?;
        if let Some((_, after)) = of(VERSION, rest) {
            rest = after;
        }
        for tag in [INTEGER, SEQUENCE, SEQUENCE] {
            rest = of(tag, rest)?.1;
        }
        let (times, _) = of(SEQUENCE, rest)?;
        let (begin, after) = time(times)?;
        let (end, _) = time(after)?;
        Some(Self { begin, end })
    }

    /// A certificate for a few weeks is renewed later than one for months: it expires soon in the last third of its
    /// period, but at most two weeks before its end.
    pub(super) fn holds(&self, now: Timestamp) -> Holds {
        let soon = (self.end.duration_since(self.begin) / 3).min(SOON);
        match self.end.duration_since(now) {
            _ if now < self.begin => Holds::NotYet,
            left if left.is_negative() => Holds::NoMore,
            left if left < soon => Holds::NotForLong,
            _ => Holds::Yes,
        }
    }
}

/// The last report about a certificate.
#[derive(Debug, Default)]
pub(super) struct Said(Option<(Holds, Timestamp)>);

impl Said {
    /// The validity if it is to be reported: when it changes, and every day while it is not as it should be.
    pub(super) fn news(&mut self, holds: Holds, now: Timestamp) -> Option<Holds> {
        let known = self.0.is_some_and(|(before, at)| {
            // Also if the clock was set back.
            before == holds && (holds == Holds::Yes || now.duration_since(at).abs() < AGAIN)
        });
        if known {
            return None;
        }
        self.0 = Some((holds, now));
        Some(holds)
    }
}

/// The content of the first value, which must have this tag, and the bytes after it (X.690, 8.1).
fn of(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (digits, after) = rest.split_at_checked(length & 0x7F)?;
        // A certificate has only kilobytes.
        if !(1..=4).contains(&digits.len()) {
            return None;
        }
        length = digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit));
        rest = after;
    }
    (found == tag).then(|| rest.split_at_checked(length))?
}

/// Parses a time of either type, always UTC and to the second (RFC 5280, 4.1.2.5), and returns the bytes after it.
fn time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (text, rest, century) = match of(UTC_TIME, bytes) {
        Some((text, rest)) => {
            // Two digits for the years from 1950 to 2049.
            (text, rest, if *text.first()? >= b'5' { "19" } else { "20" })
        }
        None => {
            let (text, rest) = of(GENERALIZED_TIME, bytes)?;
            (text, rest, "")
        }
    };
    let digits = format!("{century}{}", str::from_utf8(text).ok()?.strip_suffix('Z')?);
    let time = DateTime::strptime("%Y%m%d%H%M%S", digits).ok()?;
    Some((time.to_zoned(TimeZone::UTC).ok()?.timestamp(), rest))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let head =
            if length < 0x80 { vec![tag, length as u8] } else { vec![tag, 0x82, (length >> 8) as u8, length as u8] };
        [head, content.to_vec()].concat()
    }

    /// A certificate as far as it is read, with an issuer of `issuer` letters.
    fn certificate(version: bool, begin: (u8, &str), end: (u8, &str), issuer: usize) -> Vec<u8> {
        let times = [value(begin.0, begin.1.as_bytes()), value(end.0, end.1.as_bytes())].concat();
        let version = if version { value(VERSION, &value(INTEGER, &[2])) } else { vec![] };
        let parts =
            [value(INTEGER, &[1]), value(SEQUENCE, &[]), value(SEQUENCE, &vec![b'x'; issuer]), value(SEQUENCE, &times)];
        value(SEQUENCE, &value(SEQUENCE, &[version, parts.concat()].concat()))
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn both_kinds_of_times_are_read() {
        let old = certificate(false, (UTC_TIME, "991231235959Z"), (UTC_TIME, "490101000000Z"), 10);
        let expected = Validity { begin: at("1999-12-31T23:59:59Z"), end: at("2049-01-01T00:00:00Z") };
        assert_eq!(Validity::read(&old), Some(expected));
        let new = certificate(true, (UTC_TIME, "260501120000Z"), (GENERALIZED_TIME, "20510102030405Z"), 300);
        let expected = Validity { begin: at("2026-05-01T12:00:00Z"), end: at("2051-01-02T03:04:05Z") };
        assert_eq!(Validity::read(&new), Some(expected));
        let chain = [new, old].map(CertificateDer::from);
        assert_eq!(
            Validity::of_chain(&chain).unwrap().end,
            at("2049-01-01T00:00:00Z"),
            "that of the chain which ends first"
        );
    }

    #[test]
    fn what_breaks_off_or_is_no_time_has_no_validity() {
        let whole = certificate(true, (UTC_TIME, "260501120000Z"), (UTC_TIME, "270501120000Z"), 200);
        assert!(Validity::read(&whole).is_some());
        assert!((0..whole.len()).all(|length| Validity::read(&whole[..length]).is_none()));
        for end in ["271301120000Z", "270501120000", "2705011200Z", "", "\u{e9}", "270501120000+0100"] {
            assert_eq!(
                Validity::read(&certificate(true, (UTC_TIME, "260501120000Z"), (UTC_TIME, end), 1)),
                None,
                "{end}"
            );
        }
        assert_eq!(Validity::read(&[SEQUENCE, 0xFF]), None);
        assert_eq!(Validity::read(&[[SEQUENCE, 0x88].as_slice(), &[0xFF; 20]].concat()), None);
        assert_eq!(Validity::of_chain(&[]), None);
    }

    #[test]
    fn the_last_two_weeks_or_the_last_third_are_not_for_long() {
        let begin = at("2026-01-01T00:00:00Z");
        let after =
            |days: i64, seconds| begin + SignedDuration::from_hours(24 * days) + SignedDuration::from_secs(seconds);
        let of_days = |days| Validity { begin, end: after(days, 0) };
        for (days, soon) in [(90, 76), (42, 28), (6, 4)] {
            let validity = of_days(days);
            assert_eq!(validity.holds(after(0, -1)), Holds::NotYet);
            assert_eq!([after(0, 0), after(soon, 0)].map(|now| validity.holds(now)), [Holds::Yes; 2], "{days}");
            assert_eq!(
                [after(soon, 1), after(days, 0)].map(|now| validity.holds(now)),
                [Holds::NotForLong; 2],
                "{days}"
            );
            assert_eq!(validity.holds(after(days, 1)), Holds::NoMore);
        }
    }

    #[test]
    fn it_is_said_when_it_changes_and_every_day() {
        let (mut said, now) = (Said::default(), at("2026-01-01T00:00:00Z"));
        let later = |hours| now + SignedDuration::from_hours(hours);
        assert_eq!(said.news(Holds::Yes, now), Some(Holds::Yes));
        assert_eq!(said.news(Holds::Yes, later(1000)), None, "that all is well once");
        assert_eq!(said.news(Holds::NotForLong, later(1001)), Some(Holds::NotForLong));
        assert_eq!(said.news(Holds::NotForLong, later(1024)), None);
        assert_eq!(said.news(Holds::NotForLong, later(1025)), Some(Holds::NotForLong));
        assert_eq!(said.news(Holds::NotForLong, later(0)), Some(Holds::NotForLong), "the clock was put back");
        assert_eq!(said.news(Holds::NoMore, later(1)), Some(Holds::NoMore));
    }
}
