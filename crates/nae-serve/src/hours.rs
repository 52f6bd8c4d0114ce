//! Hours of a week in local time: the format of the settings `alarm_hours` and `night_hours`, whether they contain a
//! time, when they begin next, and the local time zone. Their use is elsewhere.

use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// The length of a day, in minutes.
const DAY: u16 = 24 * 60;
const WEEK: u16 = 7 * DAY;

/// Hours of a week; at least one span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WeekHours(Vec<Span>);

/// A span of minutes in a week that begins on Monday at 00:00; it may pass midnight and the end of Sunday.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    /// The first minute, below [`WEEK`].
    begin: u16,
    /// The number of minutes, 1 to [`DAY`].
    length: u16,
}

impl WeekHours {
    /// Whether the hours contain a local time. If clocks are set back, an hour occurs twice, and both occurrences
    /// count; if they are set forward, an hour is missing.
    pub(crate) fn contain(&self, wall: DateTime) -> bool {
        let days = wall.weekday().to_monday_zero_offset().unsigned_abs();
        let minute = u16::from(days) * DAY
            + u16::from(wall.hour().unsigned_abs()) * 60
            + u16::from(wall.minute().unsigned_abs());
        self.0.iter().any(|span| (minute + WEEK - span.begin) % WEEK < span.length)
    }

    /// The first moment after `now` that the hours contain, if they do not contain `now`.
    pub(crate) fn next(&self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut moments = Vec::new();
        let mut date = Some(zone.to_datetime(now).date());
        // Includes the same weekday of the next week, since today's beginning may be past.
        for _ in 0..=DAYS.len() {
            let Some(day) = date else { break };
            let first = u16::from(day.weekday().to_monday_zero_offset().unsigned_abs()) * DAY;
            let begins = self.0.iter().filter_map(|span| span.begin.checked_sub(first)).filter(|begin| *begin < DAY);
            for begin in begins {
                let midnight = day.at(0, 0, 0, 0);
                let Ok(wall) = midnight.checked_add(SignedDuration::from_mins(begin.into())) else { continue };
                // A local time that occurs twice has two moments.
                let moment = || zone.to_ambiguous_timestamp(wall);
                moments.extend([moment().earlier(), moment().later()].into_iter().flatten());
            }
            date = day.tomorrow().ok();
        }
        // If clocks are set forward past a beginning, the hours begin at that change.
        let end = now.checked_add(SignedDuration::from_hours(8 * 24)).unwrap_or(Timestamp::MAX);
        moments.extend(zone.following(now).map(|change| change.timestamp()).take_while(|moment| *moment <= end));
        moments.into_iter().filter(|moment| *moment > now && self.contain(zone.to_datetime(*moment))).min()
    }
}

impl FromStr for WeekHours {
    /// The expected format.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for part in text.split(',').map(str::trim) {
            let spans = spans(part).ok_or_else(|| {
                format!(
                    "days and hours such as `Mon-Fri 07:00-19:00, Sat 08:00-12:00`, or hours of every day such as \
                     `22:00-06:00` (`{part}` is neither)"
                )
            })?;
            all.extend(spans);
        }
        Ok(Self(all))
    }
}

/// The time zone of this machine, from the variable TZ or the system's setting.
pub(crate) fn local_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or_else(|error| {
        tracing::warn!(
            %error,
            "the time zone is not known: `alarm_hours` and `night_hours` are hours of UTC. Set the variable TZ, where there are no zone \
             files to a rule such as CET-1CEST,M3.5.0,M10.5.0/3"
        );
        TimeZone::UTC
    })
}

/// Parses the spans of `Mon-Fri 07:00-19:00`, of `Sat 08:00-12:00`, or of `22:00-06:00`, which applies to every day.
fn spans(part: &str) -> Option<Vec<Span>> {
    let mut words = part.split_whitespace();
    let (first, second) = (words.next()?, words.next());
    if words.next().is_some() {
        return None;
    }
    let (days, hours) = second.map_or((None, first), |second| (Some(first), second));
    let (first, count) = days.map_or(Some((0, 7)), days_of)?;
    let (begin, end) = hours.split_once('-')?;
    let (begin, end) = (minute(begin).filter(|begin| *begin < DAY)?, minute(end)?);
    // A whole day is written 00:00-24:00; equal times are refused, since their meaning would be a guess.
    let length = if end > begin { end - begin } else { end + DAY - begin };
    (begin != end).then_some(())?;
    Some((first..first + count).map(|day| Span { begin: day % 7 * DAY + begin, length }).collect())
}

/// The first of a range of weekdays, and their number.
fn days_of(text: &str) -> Option<(u16, u16)> {
    let number = |name: &str| Some(DAYS.iter().position(|day| day.eq_ignore_ascii_case(name))? as u16);
    match text.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            Some((first, (last + 7 - first) % 7 + 1))
        }
        None => Some((number(text)?, 1)),
    }
}

/// The minutes from midnight to a time such as `07:30`, at most `24:00`.
fn minute(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str| -> Option<u16> {
        (matches!(digits.len(), 1 | 2) && digits.bytes().all(|digit| digit.is_ascii_digit()))
            .then(|| digits.parse().ok())
            .flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes).filter(|_| minutes.len() == 2)?);
    let minute = 60 * hours + minutes;
    (minutes < 60 && minute <= DAY).then_some(minute)
}
