//! Numbers of things in messages.

/// A number with its noun, which is in the plural unless the number is 1: `1 row`, `2 rows`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
