//! Which sign separates the decimals of a table's numbers.

use std::collections::BTreeMap;

use super::cell::{Cell, with_point};
use super::records::Separator;

/// What was seen in a table so far.
pub(super) struct Decimals {
    /// Whether a comma may.
    commas: bool,
    /// By column.
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
    /// Nothing yet, of a table whose cells the `separator` separates.
    pub(super) fn new(separator: Separator) -> Self {
        Self { commas: separator == Separator::Semicolon, seen: Vec::new() }
    }

    /// What is in a cell.
    pub(super) fn cell(&self, text: &str) -> Cell {
        match Cell::from(text) {
            Cell::Text(text) if self.commas => with_point(&text).map_or(Cell::Text(text), Cell::Number),
            cell => cell,
        }
    }

    /// Notes the signs in a row, whose cells were those of `record`.
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

    /// The columns, of those called `names`, that have points where there are commas in the table, and what was seen.
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
