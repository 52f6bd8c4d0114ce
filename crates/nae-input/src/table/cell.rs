//! Classifies the text of a table's cell.

/// The value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A finite number.
    Number(f64),
    /// A missing value.
    Missing,
    /// Any other text.
    Text(Box<str>),
}

impl Cell {
    /// The texts of a missing value, in lower case; the reader takes them in either case.
    pub const MISSING: [&str; 10] = ["", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "?"];
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        if Self::MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing)) {
            return Self::Missing;
        }
        match text.parse() {
            Ok(number) if f64::is_finite(number) => Self::Number(number),
            _ => Self::Text(text.into()),
        }
    }
}

/// Parses `text` as a number with a decimal comma.
pub(super) fn with_point(text: &str) -> Option<f64> {
    let is_candidate = text.matches(',').count() == 1 && !text.contains('.');
    let number = is_candidate.then(|| text.replace(',', ".").parse().ok())?;
    number.filter(|number: &f64| number.is_finite())
}
