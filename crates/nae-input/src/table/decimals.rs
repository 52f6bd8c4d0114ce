//! Decides whether a table's numbers have decimal points or decimal commas.

use std::collections::BTreeMap;

use super::cell::{Cell, with_point};
use super::records::Separator;

/// The decimal signs that have been seen in a table so far.
pub(super) struct Decimals {
    /// Whether decimal commas are allowed.
    commas: bool,
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
        Self { commas: separator == Separator::Semicolon, seen: Vec::new() }
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
                Cell::Number(_) if text.contains(',') => &mut seen.comma,
                Cell::Number(_) if text.contains('.') => &mut seen.point,
                _ => continue,
            };
            first.get_or_insert_with(|| Number { line, text: text.into() });
        }
    }

    /// Returns the columns that have decimal points in a table with decimal commas, and for each the first number of each kind.
    pub(super) fn mixed(&self, names: &[String]) -> BTreeMap<usize, String> {
        let commas = self.seen.iter().zip(names).filter_map(|(seen, name)| Some((seen.comma.as_ref()?, name)));
        let Some((elsewhere, name)) = commas.min_by_key(|(number, _)| number.line) else { return BTreeMap::new() };
        let columns = self.seen.iter().enumerate();
        let mixed = columns.filter_map(|(index, seen)| {
            let Number { line, text } = seen.point.as_ref()?;
            let comma = match &seen.comma {
                Some(Number { line, text }) => format!("{text:?} in line {line}"),
                None => format!("{:?} in line {} of the column {name:?}", elsewhere.text, elsewhere.line),
            };
            Some((index, format!("{text:?} in line {line} and {comma}")))
        });
        mixed.collect()
    }
}
