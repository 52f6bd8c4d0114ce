//! Decides whether a table's numbers have decimal points or decimal commas.

use std::collections::BTreeMap;

use super::cell::{Cell, with_point};
use super::records::Separator;

/// The decimal signs that have been seen in a table so far.
pub(super) struct Decimals {
    /// Whether commas within numbers are allowed.
    commas: bool,
    /// Whether such commas are certainly decimal commas. Between tabs, `1,500` alone may be a thousand and a half: programs
    /// that write points write tabs, too.
    are_decimal: bool,
    /// One entry per column.
    seen: Vec<Seen>,
}

/// The first numbers of a column with each sign.
#[derive(Clone, Default)]
struct Seen {
    comma: Option<Number>,
    point: Option<Number>,
}

#[derive(Clone)]
struct Number {
    line: u64,
    text: Box<str>,
}

impl Decimals {
    /// Starts a table whose cells are separated by `separator`.
    pub(super) fn new(separator: Separator) -> Self {
        let (commas, are_decimal) = (separator != Separator::Comma, separator == Separator::Semicolon);
        Self { commas, are_decimal, seen: Vec::new() }
    }

    /// Classifies the text of a cell.
    pub(super) fn cell(&self, text: &str) -> Cell {
        match Cell::from(text) {
            Cell::Text(text) if self.commas => with_point(&text).map_or(Cell::Text(text), Cell::Number),
            cell => cell,
        }
    }

    /// Records the decimal signs of a row. `record` has the texts of its cells.
    pub(super) fn note(&mut self, line: u64, record: &[&str], row: &[Cell]) {
        if !self.commas {
            return;
        }
        self.seen.resize(record.len(), Seen::default());
        for ((seen, &text), cell) in self.seen.iter_mut().zip(record).zip(row) {
            let first = match cell {
                Cell::Number(_) if text.contains(',') => {
                    self.are_decimal |= !may_be_thousands(text);
                    &mut seen.comma
                }
                Cell::Number(_) if text.contains('.') => &mut seen.point,
                _ => continue,
            };
            first.get_or_insert_with(|| Number { line, text: text.into() });
        }
    }

    /// Returns the columns whose numbers have no certain decimal sign, and for each the reason: they have points in a table with
    /// decimal commas, or commas that may separate thousands.
    pub(super) fn mixed(&self, names: &[String]) -> BTreeMap<usize, String> {
        if !self.are_decimal {
            let reason = |Number { line, text }: &Number| {
                format!("a comma that may be a decimal sign or separate thousands: {text:?} in line {line}")
            };
            let columns = self.seen.iter().enumerate();
            return columns.filter_map(|(index, seen)| Some((index, reason(seen.comma.as_ref()?)))).collect();
        }
        let commas = self.seen.iter().zip(names).filter_map(|(seen, name)| Some((seen.comma.as_ref()?, name)));
        let Some((elsewhere, name)) = commas.min_by_key(|(number, _)| number.line) else { return BTreeMap::new() };
        let columns = self.seen.iter().enumerate();
        let mixed = columns.filter_map(|(index, seen)| {
            let Number { line, text } = seen.point.as_ref()?;
            let comma = match &seen.comma {
                Some(Number { line, text }) => format!("{text:?} in line {line}"),
                None => format!("{:?} in line {} of the column {name:?}", elsewhere.text, elsewhere.line),
            };
            Some((index, format!("points beside decimal commas: {text:?} in line {line} and {comma}")))
        });
        mixed.collect()
    }
}

/// Whether the comma of a number can separate thousands: `1,500`, but not `0,500` or `1,50`.
fn may_be_thousands(text: &str) -> bool {
    let is_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    text.trim_start_matches(['+', '-']).split_once(',').is_some_and(|(thousands, rest)| {
        (1..=3).contains(&thousands.len())
            && !thousands.starts_with('0')
            && rest.len() == 3
            && is_digits(thousands)
            && is_digits(rest)
    })
}
