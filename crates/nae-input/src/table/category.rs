//! Gives the texts of a category one form: the same time is written in several ways.

use std::borrow::Cow;

/// The form of a date, for [`digits`].
const DATE: &str = "0000-00-00";

/// Returns the form in which the `text` of a category is compared with another, which differs from it only for dates with a time.
///
/// pandas writes the times of a column to a file with as many decimals as the longest has, and midnight only beside other times;
/// polars writes `T` and six decimals; in memory each value stands alone. So a date `YYYY-MM-DD`, `T` or a blank, and a time
/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.f` have the form of Python's `str`: a blank, seconds, and no zeros at the end of decimals.
/// Midnight is left out, as it is in a column of dates. With an offset from UTC (`Z`, `±HHMM` or `±HH:MM`, written as the last)
/// it is kept, since every program writes it there. Other texts are returned as they are.
pub fn category(text: &str) -> Cow<'_, str> {
    timed(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Whether two texts are the same value of a category.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    // A table has many pairs that differ: those of different days have no form made for them.
    one == other || (one.get(..DATE.len()) == other.get(..DATE.len()) && category(one) == category(other))
}

fn timed(text: &str) -> Option<String> {
    let (date, rest) = digits(text, DATE)?;
    let rest = rest.strip_prefix(['T', ' '])?;
    let (minutes, rest) = digits(rest, "00:00")?;
    let (seconds, (decimals, offset)) = match digits(rest, ":00") {
        Some((seconds, rest)) => (seconds, decimals(rest)?),
        None => (":00", ("", rest)),
    };
    let decimals = decimals.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    let time = format!("{minutes}{seconds}{point}{decimals}");
    let offset = offset_of(offset)?;
    Some(if offset.is_empty() && time == "00:00:00" { date.to_owned() } else { format!("{date} {time}{offset}") })
}

/// Splits `text` after the digits behind a point, of which there is at least one; without a point, there are none.
fn decimals(text: &str) -> Option<(&str, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some(("", text)) };
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 { None } else { rest.split_at_checked(count) }
}

/// The offset from UTC that is all of `text`, as `±HH:MM`; empty for none.
fn offset_of(text: &str) -> Option<String> {
    match text {
        "" => return Some(String::new()),
        "Z" => return Some("+00:00".to_owned()),
        _ => {}
    }
    let sign = text.chars().next().filter(|sign| ['+', '-'].contains(sign))?;
    let (hours, rest) = digits(text.get(1..)?, "00")?;
    let (minutes, rest) = digits(rest.strip_prefix(':').unwrap_or(rest), "00")?;
    rest.is_empty().then(|| format!("{sign}{hours}:{minutes}"))
}

/// Splits `text` after its start, if this has the form of `pattern`, where 0 stands for any digit.
fn digits<'a>(text: &'a str, pattern: &str) -> Option<(&'a str, &'a str)> {
    let (start, rest) = text.split_at_checked(pattern.len())?;
    let fits = |(byte, like): (u8, u8)| if like == b'0' { byte.is_ascii_digit() } else { byte == like };
    start.bytes().zip(pattern.bytes()).all(fits).then_some((start, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_form_however_it_is_written() {
        for (written, expected) in [
            (
                &["2024-01-01 00:00:00", "2024-01-01T00:00", "2024-01-01T00:00:00.000000", "2024-01-01"][..],
                "2024-01-01",
            ),
            (&["2024-01-01 06:00", "2024-01-01T06:00:00.000", "2024-01-01 06:00:00"], "2024-01-01 06:00:00"),
            (&["2024-01-01 00:00:00.500", "2024-01-01T00:00:00.500000"], "2024-01-01 00:00:00.5"),
            (&["2024-01-01 10:20:30.050", "2024-01-01T10:20:30.050000000"], "2024-01-01 10:20:30.05"),
            (
                &["2024-01-01 00:00:00+00:00", "2024-01-01T00:00:00.000000+0000", "2024-01-01T00:00Z"],
                "2024-01-01 00:00:00+00:00",
            ),
            (&["2024-01-01T06:00:00.500-0330", "2024-01-01 06:00:00.5-03:30"], "2024-01-01 06:00:00.5-03:30"),
        ] {
            for text in written {
                assert_eq!(category(text), expected, "{text}");
                assert_eq!(category(&category(text)), expected, "{text}");
                assert!(is_same(text, expected) && is_same(expected, text), "{text}");
                assert!(!is_same(text, "2024-01-02") && !is_same(text, "2024-01-01 06:00:01"), "{text}");
            }
        }
    }

    #[test]
    fn other_texts_are_as_they_are() {
        for text in [
            "",
            "red",
            "2024-01-01",
            "2024-01-01 ",
            "2024-01-01T",
            "2024-01-01  00:00:00",
            "2024-01-01_00:00:00",
            "2024-01-01 0:00:00",
            "2024-01-01 00:00:",
            "2024-01-01 00:00.5",
            "2024-01-01 00:00.000",
            "2024-01-01 00:00:00.",
            "2024-01-01 00:00:00.x",
            "2024-01-01 00:00:00 UTC",
            "2024-01-01 00:00:00z",
            "2024-01-01 00:00:00+01",
            "2024-01-01 00:00:00+01:000",
            "2024-01-01 00:00:00*01:00",
            "2024-1-1 00:00:00",
            "20240101 00:00:00",
            "x2024-01-01 00:00:00",
            "24-01-01 00:00:00",
            "00:00:00",
            "2024-01-0é 00:00:00",
        ] {
            assert_eq!(category(text), text);
            assert!(is_same(text, text));
            assert_eq!(is_same(text, "2024-01-01T00:00"), text == "2024-01-01", "{text}");
        }
    }
}
