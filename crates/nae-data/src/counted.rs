//! Numbers and lists of things in messages.

/// A number with its noun, which is in the plural unless the number is 1: `1 row`, `2 rows`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The first `most` of `all`, with `separator` between them, and the number of the others: `a, b, and 3 more`.
pub fn listed(all: &[String], most: usize, separator: &str) -> String {
    let mut named = all.get(..most).unwrap_or(all).join(separator);
    if all.len() > most {
        named += &format!("{separator}and {} more", all.len() - most);
    }
    named
}
