//! The entries of a table's columns. A column has several inputs if it is a category, or may be missing, and is listed once.

use std::collections::BTreeMap;

use nae_onnx::metadata::{Columns, Reading};

use super::{Entry, Value};

/// What is read from a column.
#[derive(Default)]
struct Readings<'a> {
    name: &'a str,
    number: bool,
    /// The values of a category that have inputs of their own.
    values: Vec<&'a str>,
    /// Whether an input says that the cell is empty.
    missing: bool,
}

/// The columns in the order of their first inputs.
fn readings(columns: &Columns) -> Vec<Readings<'_>> {
    let (mut found, mut places): (Vec<Readings<'_>>, BTreeMap<&str, usize>) = (Vec::new(), BTreeMap::new());
    for column in columns.columns() {
        let name = column.name.as_str();
        let place = *places.entry(name).or_insert_with(|| {
            found.push(Readings { name, ..Readings::default() });
            found.len() - 1
        });
        match &column.reading {
            Reading::Number => found[place].number = true,
            Reading::Is(value) => found[place].values.push(value),
            Reading::Absent => found[place].missing = true,
        }
    }
    found
}

/// The names of the columns, as a header of a table has them, and what is read from each.
pub(super) fn entries(columns: &Columns) -> [Entry; 2] {
    let readings = readings(columns);
    let names: Vec<String> = readings.iter().map(|column| column.name.to_owned()).collect();
    let fields = readings.iter().map(|column| {
        Value::fields([
            ("column", column.name.into()),
            ("number", column.number.into()),
            ("values", Value::Texts(column.values.iter().map(|&value| value.to_owned()).collect())),
            ("missing", column.missing.into()),
        ])
    });
    let value = Value::List(fields.collect());
    let text = names.join(", ");
    [Entry::new("columns", Value::Texts(names), text), Entry::new("readings", value, described(&readings))]
}

/// The readings as text: the numbers, the categories with their values, and the columns with an input for missing values.
fn described(readings: &[Readings<'_>]) -> String {
    let named = |kind: &str, of: Vec<String>| (!of.is_empty()).then(|| format!("{kind}: {}", of.join(", ")));
    let names = |is: fn(&Readings<'_>) -> bool| {
        readings.iter().filter(|column| is(column)).map(|column| column.name.to_owned()).collect::<Vec<_>>()
    };
    let numbers = names(|column| column.number);
    let numbers = if numbers.len() == readings.len() { Some("numbers".to_owned()) } else { named("numbers", numbers) };
    let categories = readings.iter().filter(|column| !column.values.is_empty());
    let categories = categories.map(|column| format!("{} ({})", column.name, column.values.join(", "))).collect();
    let parts = [
        numbers,
        named("categories", categories),
        named("an input for missing values", names(|column| column.missing)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use nae_onnx::metadata::{Column, Missing};

    use super::*;

    #[test]
    fn a_column_of_several_inputs_is_listed_once() {
        let of = |name: &str, reading| Column { reading, ..Column::number(name, 0.5, 0.5, 4.0) };
        let is = |name: &str, value: &str| of(name, Reading::Is(value.to_owned()));
        let inputs = vec![
            of("temp", Reading::Number),
            is("colour", "blue"),
            is("colour", "red"),
            of("flow", Reading::Number),
            of("colour", Reading::Absent),
            of("flow", Reading::Absent),
        ];
        let [names, readings] = entries(&Columns::new(inputs, Missing::Fill).unwrap());
        assert_eq!((names.name, names.text.as_str()), ("columns", "temp, colour, flow"));
        assert_eq!(names.value, Value::Texts(["temp", "colour", "flow"].map(str::to_owned).to_vec()));
        let text = "numbers: temp, flow; categories: colour (blue, red); an input for missing values: colour, flow";
        assert_eq!((readings.name, readings.text.as_str()), ("readings", text));
        let Value::List(list) = readings.value else { panic!("{:?}", readings.value) };
        let expected = Value::fields([
            ("column", "colour".into()),
            ("number", false.into()),
            ("values", Value::Texts(vec!["blue".to_owned(), "red".to_owned()])),
            ("missing", true.into()),
        ]);
        assert_eq!((list.len(), &list[1]), (3, &expected));
        let numbers = Columns::new(vec![of("a", Reading::Number), of("b", Reading::Number)], Missing::Refuse).unwrap();
        assert_eq!(entries(&numbers)[1].text, "numbers");
    }
}
