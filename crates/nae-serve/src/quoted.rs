//! Lists in fields of HTTP, whose items may contain quoted strings (RFC 9110, 5.6).

/// Splits a text at a separator of one byte, except inside quotes.
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

/// The text between the quotes, or the whole text if it has none.
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
