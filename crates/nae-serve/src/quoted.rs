//! Lists in fields of HTTP, whose items may have texts in quotes (RFC 9110, 5.6).

/// The parts between separators of one byte, but for those in quotes.
pub(crate) fn between(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if letter == separator && !quoted => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// What is between the quotes; all of it where there are none.
pub(crate) fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_quotes_is_not_divided() {
        assert_eq!(between("a=1, b=\"2,\\\",3\",c", ','), ["a=1", " b=\"2,\\\",3\"", "c"]);
        assert_eq!(between("", ','), [""]);
        assert_eq!(between("a,", ','), ["a", ""]);
        assert_eq!(between("ä,\"ö", ','), ["ä", "\"ö"]);
        assert_eq!([unquoted("\"a\""), unquoted("a"), unquoted("\""), unquoted("\"\"")], ["a", "a", "\"", ""]);
    }
}
