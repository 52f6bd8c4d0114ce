//! Chooses the inputs of a user's table and their scales: numbers by median and quartiles, categories with one input
//! for each value, gaps with one input for each column. Columns that are constant or follow from another column are
//! left out, and so are numbers with an ambiguous decimal sign. `own_table` reads the rows.

use std::borrow::Cow;
use std::collections::BTreeSet;

use nae_input::table::{Cell, Table, category};
use nae_onnx::metadata::{Column, Missing, Reading};

use crate::not_normal::{means_not_normal, plain};
use crate::tables::{MAX_COLUMNS, Read};

/// The least span, in scales; readings further out extend it.
const SPAN: f64 = 4.0;
/// The distance beyond which a few readings are warned of, with the logarithm beyond the knee: 60 scales without it. They take
/// the range of the inputs from all others, and often stand for a missing one, like −9999.
const FAR: f64 = 12.0;
/// The largest share of a column's numbers that are few.
const RARE: f64 = 0.01;
/// The distance from the median, in scales, beyond which distances grow logarithmically.
const KNEE: f64 = 3.0;
/// The interquartile range of the standard normal distribution.
const NORMAL_RANGE: f64 = 1.3489795003921634;
/// A text column with more values than this contains names or times and is not a category.
const MAX_VALUES: usize = 32;
/// The number of characters of a text in a message.
const SHOWN: usize = 30;
/// The share of the texts of a category from which on it is probably a column of numbers.
const NEARLY_ALL: f64 = 0.9;
/// What to do about numbers that are read as texts.
const AS_NUMBERS: &str = "for numbers, remove units, write decimals with a point, and minus as \"-\"";
/// The centre and scale of an input that is 0 or 1: both values are one scale from the centre.
const HALF: f64 = 0.5;
/// Two columns that differ by no more than this, in scales, count as equal.
const SAME: f64 = 1e-9;

/// The chosen inputs.
pub(super) struct Chosen {
    /// The inputs, in the order of the table's columns.
    pub(super) columns: Vec<Column>,
    /// The columns without an input, with the reason.
    pub(super) left_out: Vec<String>,
    /// Warnings about columns that are perhaps not what they seem, one sentence each.
    pub(super) warnings: Vec<String>,
}

/// Chooses the inputs of the table in `read` by the rows that `used` marks; gaps have inputs of their own if `missing` is
/// to be filled.
pub(super) fn choose(read: &Read, used: &[Vec<bool>], missing: Missing) -> Chosen {
    let mut chosen = Chosen { columns: Vec::new(), left_out: Vec::new(), warnings: Vec::new() };
    let names = read.tables.first().map(Table::names).unwrap_or_default();
    let mut numbers: Vec<(&str, Vec<Option<f64>>)> = Vec::new();
    let mut span = SPAN;
    chosen.warnings.extend(row_as_names(names));
    for (index, name) in names.iter().enumerate() {
        // The caller refuses more, and every further one is compared with all before it.
        if chosen.columns.len() > MAX_COLUMNS {
            break;
        }
        let shown = if name.is_empty() { format!("column {}", index + 1) } else { name.clone() };
        if let Some(found) = read.mixed_decimals(name) {
            chosen.left_out.push(format!("{shown} ({found})"));
            continue;
        }
        let content = Content::of(read.cells_of(name, used));
        let own = if content.numbers.is_empty() {
            content.category(name)
        } else {
            content.scaled(name).and_then(|column| {
                let cells = read.cells_of(name, used);
                let distances: Vec<_> = cells.map(|cell| Some(column.distance(number(cell)?))).collect();
                if let Some((first, _)) = numbers.iter().find(|(_, other)| same(other, &distances)) {
                    return Err(format!("follows from {first}"));
                }
                span = distances.iter().flatten().map(|distance| distance.abs()).fold(span, f64::max);
                chosen.warnings.extend(far_readings(&shown, &content, &column));
                numbers.push((name, distances));
                Ok(vec![column])
            })
        };
        match own {
            Ok(own) => {
                if let Some(example) = content.number_as_text() {
                    chosen.warnings.push(format!(
                        "the column {shown:?} is taken for a category, though its texts are like numbers, such as {example:?}: \
                         {AS_NUMBERS}"
                    ));
                }
                chosen.warnings.extend(label(&shown, &content));
                chosen.columns.extend(own);
                if content.has_gaps && missing == Missing::Fill {
                    chosen.columns.push(indicator(name, Reading::Absent));
                }
            }
            Err(reason) => chosen.left_out.push(format!("{shown} ({reason})")),
        }
    }
    // The span covers all readings that are trained on, and no others: rows for calibration and test that lie beyond it
    // are as new as those that are scored later. With one span, one scale has the same weight in all columns.
    chosen.columns.iter_mut().for_each(|column| column.span = span);
    chosen
}

/// The cells of a column.
struct Content<'a> {
    /// All numbers, sorted by size.
    numbers: Vec<f64>,
    /// Each time in its one form.
    texts: BTreeSet<Cow<'a, str>>,
    has_gaps: bool,
}

impl<'a> Content<'a> {
    fn of(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let mut content = Self { numbers: Vec::new(), texts: BTreeSet::new(), has_gaps: false };
        for cell in cells {
            match cell {
                Cell::Number(number) => content.numbers.push(*number),
                Cell::Text(text) => {
                    content.texts.insert(category(text));
                }
                Cell::Missing => content.has_gaps = true,
            }
        }
        content.numbers.sort_unstable_by(f64::total_cmp);
        content
    }

    /// Returns one input for each value of a column of texts, or the reason why there is none.
    fn category(&self, name: &str) -> Result<Vec<Column>, String> {
        match self.texts.len() {
            0 => Err("nothing in it".to_owned()),
            1 if !self.has_gaps => Err("always the same".to_owned()),
            // How many there are in all is not known, if these are those of the rows to train on.
            values if values > MAX_VALUES => {
                let one: String = self.texts.first().map(|text| shortened(text)).unwrap_or_default();
                let todo = self.number_as_text().map(|_| format!("; {AS_NUMBERS}")).unwrap_or_default();
                Err(format!("text with more than {MAX_VALUES} values, such as {one:?}{todo}"))
            }
            _ => Ok(self.texts.iter().map(|text| indicator(name, Reading::Is(text.to_string()))).collect()),
        }
    }

    /// Returns an example if nearly all texts of a column without numbers are like numbers.
    fn number_as_text(&self) -> Option<&str> {
        let mut found = self.texts.iter().filter(|text| is_like_number(text));
        let example = found.next()?;
        let count = 1 + found.count();
        (self.numbers.is_empty() && count as f64 >= NEARLY_ALL * self.texts.len() as f64).then_some(example)
    }

    /// Returns the input of a column of numbers, or the reason why there is none. Texts among the numbers cause an
    /// error later, when rows are read.
    fn scaled(&self, name: &str) -> Result<Column, String> {
        // Rounding can make the mean of equal numbers, and with it their deviation, differ from what it should be.
        if self.numbers.first() == self.numbers.last() {
            let number = self.numbers.first().copied().unwrap_or_default();
            return match self.texts.first() {
                None => Err("always the same".to_owned()),
                Some(text) => Err(format!("texts such as {:?} beside the number {number}", shortened(text))),
            };
        }
        let range = self.quantile(0.75) - self.quantile(0.25);
        // The range is 0 if more than half of the numbers are equal.
        let scale = if range == 0.0 { self.deviation() } else { range / NORMAL_RANGE };
        // The squares of differences below 1e-162 are 0.
        if scale == 0.0 {
            return Err("always nearly the same".to_owned());
        }
        Ok(Column { knee: Some(KNEE), ..Column::number(name, self.quantile(0.5), scale, SPAN) })
    }

    /// The quantile, interpolated linearly between two numbers.
    fn quantile(&self, share: f64) -> f64 {
        let place = share * (self.numbers.len() - 1) as f64;
        let (below, above) = (self.numbers[place.floor() as usize], self.numbers[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }

    fn deviation(&self) -> f64 {
        let count = self.numbers.len() as f64;
        let mean = self.numbers.iter().sum::<f64>() / count;
        (self.numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count).sqrt()
    }
}

/// The number of names that are frequencies or wavelengths if they rise or fall, and no readings.
const AXIS: usize = 4;

/// A warning if names of columns are numbers with decimals: years, positions and the values of an axis are names, readings are not.
fn row_as_names(names: &[String]) -> Option<String> {
    let numbers = || names.iter().filter_map(|name| number(&Cell::from(name.as_str())).map(|number| (name, number)));
    let (example, _) = numbers().find(|(name, _)| name.contains(['.', ',']))?;
    let values: Vec<f64> = numbers().map(|(_, number)| number).collect();
    let is_axis = values.is_sorted_by(|a, b| a < b) || values.is_sorted_by(|a, b| a > b);
    if is_axis && values.len() >= AXIS {
        return None;
    }
    Some(format!(
        "{example:?} is the name of a column, since the first row has a text and is taken for the names: if the table has no \
         names, the first row is lost; write names above it, the same ones in every table that is scored"
    ))
}

/// Names of columns that probably say which rows are normal.
const LABELS: [&str; 15] = [
    "anomalous",
    "anomaly",
    "attack",
    "class",
    "defect",
    "failure",
    "fault",
    "isanomaly",
    "isoutlier",
    "label",
    "labels",
    "machinefailure",
    "outlier",
    "target",
    "y",
];

/// A warning if the column that is `shown` by this name has a value for what is not normal, or is named for a label and has two
/// values, such as 0 and 1.
fn label(shown: &str, content: &Content<'_>) -> Option<String> {
    let found = content.texts.iter().find(|text| means_not_normal(text));
    let is_switch = content.numbers.iter().all(|number| [-1.0, 0.0, 1.0].contains(number)) && content.texts.len() <= 2;
    if found.is_none() && !(is_switch && LABELS.contains(&plain(shown).as_str())) {
        return None;
    }
    let such = found.map(|text| format!(", such as {:?}", shortened(text))).unwrap_or_default();
    Some(format!(
        "the column {shown:?} seems to say which rows are normal{such}: all rows are trained on as normal, with this column as an \
         input; keep the rows that are not normal in a table of their own for --outliers, and remove the column from both"
    ))
}

/// A warning if a few readings of the column that is `shown` by this name are beyond [`FAR`], or many of one value.
fn far_readings(shown: &str, content: &Content<'_>, column: &Column) -> Option<String> {
    let distance = |number: &f64| column.distance(*number).abs();
    let far: Vec<f64> = content.numbers.iter().copied().filter(|number| distance(number) > FAR).collect();
    let count = far.len();
    let example = far.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    // A value that stands for a missing one is always the same, and may be frequent. Numbers are sorted.
    let most = far.chunk_by(|a, b| a == b).max_by_key(|alike| alike.len());
    let repeated = most.filter(|alike| alike.len() > 1 && 2 * alike.len() >= count);
    if count as f64 > RARE * content.numbers.len() as f64 && repeated.is_none() {
        return None;
    }
    let (readings, otherwise) = match (count, repeated) {
        (1, _) => (format!("a reading very far from the others, {example}"), ""),
        (_, None) => (format!("{count} readings very far from the others, such as {example}"), ""),
        (_, Some(alike)) => {
            let all = if alike.len() == count { "all".to_owned() } else { alike.len().to_string() };
            let readings = format!("{count} readings very far from the others, {all} of them {}", alike[0]);
            (readings, "; a state of the machine may stay")
        }
    };
    Some(format!(
        "the column {shown:?} has {readings}, which leaves all columns a smaller range: if this stands for a missing reading, leave the \
         cell empty{otherwise}"
    ))
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Whether `text` is a number with a decimal comma, or a number with a unit.
fn is_like_number(text: &str) -> bool {
    // Documents write minus by its sign in Unicode, which no number in a table has.
    let number = text.trim_start_matches(['+', '-', '\u{2212}']);
    let unit = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ',');
    // Fractions, times and ranges are not meant.
    let is_unit = |text: &str| !text.starts_with(['-', '/', ':']) && !text.contains(|c: char| c.is_ascii_digit());
    number.starts_with(|c: char| c.is_ascii_digit()) && is_unit(unit)
}

fn indicator(name: &str, reading: Reading) -> Column {
    Column { reading, ..Column::number(name, HALF, HALF, SPAN) }
}

fn number(cell: &Cell) -> Option<f64> {
    if let Cell::Number(number) = cell { Some(*number) } else { None }
}

/// Whether two scaled columns are equal, possibly with opposite sign.
fn same(one: &[Option<f64>], other: &[Option<f64>]) -> bool {
    let equal = |sign: f64| {
        one.iter().zip(other).all(|pair| match pair {
            (Some(one), Some(other)) => (one - sign * other).abs() <= SAME * one.abs().max(1.0),
            (None, None) => true,
            _ => false,
        })
    };
    one.len() == other.len() && (equal(1.0) || equal(-1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_commas_or_units_are_like_numbers() {
        for text in ["20,1", "-3,5", "\u{2212}3", "\u{2212}0,5 C", "20.1 C", "16.2%", "5kg", "1.234,5"] {
            assert!(is_like_number(text), "{text}");
        }
        for text in ["", "red", "\u{2212}", "C 20", "3/4", "12:30", "2024-01-31", "1-2", "A7", "10 of 12"] {
            assert!(!is_like_number(text), "{text}");
        }
    }
}
