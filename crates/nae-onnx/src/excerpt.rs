//! Makes text from a file of unknown origin safe for a message: short, and without the control
//! characters that a terminal interprets.

/// At most 60 characters of `text`, escaped.
pub fn excerpt(text: &str) -> String {
    const LIMIT: usize = 60;
    let mut short: String = text.chars().take(LIMIT).flat_map(escape).collect();
    if text.chars().nth(LIMIT).is_some() {
        short.push('…');
    }
    short
}

/// Escapes characters that a terminal interprets; quotes and letters of all scripts stay unchanged.
fn escape(c: char) -> impl Iterator<Item = char> {
    let control =
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let (plain, escaped) = if control { (None, Some(c.escape_unicode())) } else { (Some(c), None) };
    plain.into_iter().chain(escaped.into_iter().flatten())
}
