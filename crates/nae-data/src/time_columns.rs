//! Finds columns of a table that say when a row was recorded: later rows have values that no row before them had, so
//! that a model with such a column as an input finds all of them unusual.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use nae_input::table::Cell;
use nae_onnx::metadata::{Column, Reading};

use crate::tables::Read;

/// With fewer numbers, a column may rise or fall throughout by chance.
const FEWEST: usize = 10;
/// The years of a date; other numbers of four digits are probably something else.
const YEARS: std::ops::RangeInclusive<u32> = 1900..=2199;

/// One warning for each of `columns` that is a time, a date or a number of the row.
pub(super) fn warnings(read: &Read, columns: &[Column]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let first_inputs = columns.iter().filter(|column| seen.insert(column.name.as_str()));
    let found = first_inputs.filter_map(|column| {
        let name = &column.name;
        let found = match column.reading {
            Reading::Number => {
                direction(read, name).map(|verb| format!("{verb} from each row to the next, as a time does"))
            }
            Reading::Is(_) => has_dates(read, name).then(|| "contains dates".to_owned()),
            Reading::Absent => None,
        }?;
        Some(format!("the column {name:?} {found}: later rows will all be unlike these; remove the column"))
    });
    found.collect()
}

/// Whether the numbers of a column rise or fall from each row to the next, over all tables.
fn direction(read: &Read, name: &str) -> Option<&'static str> {
    let numbers =
        || read.cells(name).filter_map(|cell| if let Cell::Number(number) = cell { Some(*number) } else { None });
    let all = |order| numbers().zip(numbers().skip(1)).all(|(one, next)| one.partial_cmp(&next) == Some(order));
    if numbers().nth(FEWEST - 1).is_none() {
        None
    } else if all(Ordering::Less) {
        Some("rises")
    } else {
        all(Ordering::Greater).then_some("falls")
    }
}

/// Whether all texts of a column are dates.
fn has_dates(read: &Read, name: &str) -> bool {
    let mut texts =
        read.cells(name).filter_map(|cell| if let Cell::Text(text) = cell { Some(&**text) } else { None }).peekable();
    texts.peek().is_some() && texts.all(is_date)
}

/// Whether `text` is a date in numbers, such as `2024-01-31`, `31.1.2024` or `2024-01`, possibly with a time after it.
fn is_date(text: &str) -> bool {
    let date = text.split(['T', ' ']).next().unwrap_or_default();
    ['-', '/', '.'].into_iter().any(|separator| {
        let parts: Option<Vec<u32>> = date.split(separator).map(|part| part.parse().ok()).collect();
        let days = |one: u32, other: u32| (1..=31).contains(&one) && (1..=31).contains(&other) && one.min(other) <= 12;
        match parts.as_deref() {
            Some(&[year, month]) => separator == '-' && YEARS.contains(&year) && (1..=12).contains(&month),
            Some(&[first, second, third]) => {
                YEARS.contains(&first) && days(second, third) || YEARS.contains(&third) && days(first, second)
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_known_by_their_form() {
        for text in
            ["2024-01-31", "2024/1/2", "31.12.2024", "12/31/2024", "2024-01-31T12:00:00Z", "2024-02", "1.2.2024 8:00"]
        {
            assert!(is_date(text), "{text}");
        }
        for text in ["", "red", "12:30", "1.2", "2024", "2024-13", "13-13-2024", "1-2-3", "2024-01-31-1", "A-2024-01"] {
            assert!(!is_date(text), "{text}");
        }
    }
}
