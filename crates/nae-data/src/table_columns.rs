//! Which inputs a user's table gives, and how they are scaled: numbers by median and quartiles, categories one input a
//! value, gaps one input a column. What says nothing, or nothing new, is left out, and so are numbers whose decimal sign is
//! not known. Reading rows by them is `own_table`'s.

use std::collections::BTreeSet;

use nae_input::table::{Cell, Table};
use nae_onnx::metadata::{Column, Missing, Reading};

use crate::tables::Read;

/// The span, in scales, where no reading goes further.
const SPAN: f64 = 4.0;
/// Scales from the median to where distances grow like a logarithm.
const KNEE: f64 = 3.0;
/// The interquartile range of the standard normal distribution.
const NORMAL_RANGE: f64 = 1.3489795003921634;
/// With more values than this, a text is a name or a time, and no category.
const MAX_VALUES: usize = 32;
/// Characters of a text in a message.
const SHOWN: usize = 30;
/// Of an input that is 0 or 1: both are a scale from the centre.
const HALF: f64 = 0.5;
/// Two columns that differ by no more than this, in scales, are one.
const SAME: f64 = 1e-9;

/// What was chosen.
pub(super) struct Chosen {
    /// The inputs, in the order of the table's columns.
    pub(super) columns: Vec<Column>,
    /// Columns that give none, and why.
    pub(super) left_out: Vec<String>,
}

/// Chooses the inputs of a table that was `read`; gaps have inputs of their own where they are `missing` to be filled.
pub(super) fn choose(read: &Read, missing: Missing) -> Chosen {
    let mut chosen = Chosen { columns: Vec::new(), left_out: Vec::new() };
    let names = read.tables.first().map(Table::names).unwrap_or_default();
    let mut numbers: Vec<(&str, Vec<Option<f64>>)> = Vec::new();
    let mut span = SPAN;
    for name in names {
        if let Some(found) = read.mixed_decimals(name) {
            chosen.left_out.push(format!("{name} (points beside decimal commas: {found})"));
            continue;
        }
        let content = Content::of(read, name);
        let own = if content.numbers.is_empty() {
            content.category(name)
        } else {
            content.scaled(name).and_then(|column| {
                let distances: Vec<_> = read.cells(name).map(|cell| Some(column.distance(number(cell)?))).collect();
                if let Some((first, _)) = numbers.iter().find(|(_, other)| same(other, &distances)) {
                    return Err(format!("follows from {first}"));
                }
                span = distances.iter().flatten().map(|distance| distance.abs()).fold(span, f64::max);
                numbers.push((name, distances));
                Ok(vec![column])
            })
        };
        match own {
            Ok(own) => {
                chosen.columns.extend(own);
                if content.has_gaps && missing == Missing::Fill {
                    chosen.columns.push(indicator(name, Reading::Absent));
                }
            }
            Err(reason) => chosen.left_out.push(format!("{name} ({reason})")),
        }
    }
    // Nothing is cut off, so that calibration holds for what scoring sees; and a scale weighs the same in all columns.
    chosen.columns.iter_mut().for_each(|column| column.span = span);
    chosen
}

/// What the cells of a column hold.
struct Content<'a> {
    /// All numbers, in order of size.
    numbers: Vec<f64>,
    texts: BTreeSet<&'a str>,
    has_gaps: bool,
}

impl<'a> Content<'a> {
    fn of(read: &'a Read, name: &'a str) -> Self {
        let mut content = Self { numbers: Vec::new(), texts: BTreeSet::new(), has_gaps: false };
        for cell in read.cells(name) {
            match cell {
                Cell::Number(number) => content.numbers.push(*number),
                Cell::Text(text) => {
                    content.texts.insert(text);
                }
                Cell::Missing => content.has_gaps = true,
            }
        }
        content.numbers.sort_unstable_by(f64::total_cmp);
        content
    }

    /// An input a value of a column of texts, or why there is none.
    fn category(&self, name: &str) -> Result<Vec<Column>, String> {
        match self.texts.len() {
            0 => Err("nothing in it".to_owned()),
            1 if !self.has_gaps => Err("always the same".to_owned()),
            values if values > MAX_VALUES => {
                let one: String = self.texts.iter().take(1).flat_map(|text| text.chars().take(SHOWN)).collect();
                Err(format!("text with {values} values, such as {one:?}"))
            }
            _ => Ok(self.texts.iter().map(|&text| indicator(name, Reading::Is(text.to_owned()))).collect()),
        }
    }

    /// The input of a column of numbers, or why there is none. Texts among them are found out when rows are taken.
    fn scaled(&self, name: &str) -> Result<Column, String> {
        let range = self.quantile(0.75) - self.quantile(0.25);
        // More than half of the numbers may be one number.
        let scale = if range == 0.0 { self.deviation() } else { range / NORMAL_RANGE };
        if scale == 0.0 {
            return Err("always the same".to_owned());
        }
        Ok(Column { knee: Some(KNEE), ..Column::number(name, self.quantile(0.5), scale, SPAN) })
    }

    /// Between two numbers, on the line through them.
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

fn indicator(name: &str, reading: Reading) -> Column {
    Column { reading, ..Column::number(name, HALF, HALF, SPAN) }
}

fn number(cell: &Cell) -> Option<f64> {
    if let Cell::Number(number) = cell { Some(*number) } else { None }
}

/// Whether two columns tell the same, turned over or not: scaled, they are equal.
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
