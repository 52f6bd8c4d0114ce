//! Finds columns of a table that say when a row was recorded: later rows have values that no row before them had, so
//! that a model with such a column as an input finds all of them unusual.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use nae_input::table::Cell;
use nae_onnx::metadata::{Column, Reading};

use crate::tables::Read;

/// With fewer different numbers, a column may rise or fall throughout by chance, or because the rows are sorted by a grade.
const FEWEST: usize = 10;
/// The largest number of rows with the same time, on average; a column with more is probably a counter that rarely moves.
const ROWS_AT_A_TIME: usize = 20;
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
                direction(&numbers(read, name)).map(|verb| format!("{verb} from one row to the next, as a time does"))
            }
            Reading::Is(_) => has_dates(read, name).then(|| "contains dates".to_owned()),
            Reading::Absent => None,
        }?;
        Some(format!("the column {name:?} {found}: later rows will all be unlike these; remove the column"))
    });
    found.collect()
}

/// The numbers of a column, row after row, over all tables.
fn numbers(read: &Read, name: &str) -> Vec<f64> {
    read.cells(name).filter_map(|cell| if let Cell::Number(number) = cell { Some(*number) } else { None }).collect()
}

/// Whether numbers rise or fall throughout. Neighbours may be equal, since several rows can be recorded at a time.
fn direction(numbers: &[f64]) -> Option<&'static str> {
    let changes = || numbers.windows(2).map(|pair| pair[0].total_cmp(&pair[1]));
    let different = 1 + changes().filter(|change| change.is_ne()).count();
    if different < FEWEST || different * ROWS_AT_A_TIME < numbers.len() {
        None
    } else if changes().all(Ordering::is_le) {
        Some("never falls")
    } else {
        changes().all(Ordering::is_ge).then_some("never rises")
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
    fn a_time_has_a_direction_also_with_several_rows_at_a_time() {
        let rows = |of: fn(usize) -> f64| (0..200).map(of).collect::<Vec<f64>>();
        assert_eq!(direction(&rows(|n| n as f64)), Some("never falls"));
        assert_eq!(direction(&rows(|n| (n / 2) as f64)), Some("never falls"), "two rows a second");
        assert_eq!(direction(&rows(|n| -((n / 10) as f64))), Some("never rises"));
        assert_eq!(direction(&rows(|n| (n / 40) as f64)), None, "sorted by a grade");
        assert_eq!(direction(&rows(|n| if n == 150 { 0.0 } else { n as f64 })), None);
        let counter: Vec<f64> = (0..10_000).map(|n| f64::from(n / 800)).collect();
        assert_eq!(direction(&counter), None, "a counter that rarely moves");
        assert_eq!(direction(&[1.0, 2.0, 3.0]), None, "too few");
    }

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
