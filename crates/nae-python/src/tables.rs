//! Converts columns from Python to a table like one that `nae_input` reads from a file: NaN is a missing value, and a
//! text has the same meaning as in a file.

use nae_infer::input::table::{Cell, Table};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::guard::Failure;

/// The name of a table in memory, in messages.
pub(crate) const IN_MEMORY: &str = "table";

/// The values of one column.
enum Column {
    Numbers(Vec<f64>),
    Texts(Vec<Option<String>>),
}

impl Column {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(numbers) = object.extract::<PyReadonlyArray1<'_, f64>>() {
            // The array may have strides, such as a column of a matrix.
            return Ok(Self::Numbers(numbers.as_array().to_vec()));
        }
        object
            .extract()
            .map(Self::Texts)
            .map_err(|_| PyTypeError::new_err("expected a column as an array of float64, or a list of texts and None"))
    }

    fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    fn cell(&self, row: usize) -> Cell {
        match self {
            Self::Numbers(numbers) => numbers.get(row).map_or(Cell::Missing, |&number| number_cell(number)),
            Self::Texts(texts) => match texts.get(row) {
                Some(Some(text)) => Cell::from(text.trim()),
                _ => Cell::Missing,
            },
        }
    }
}

/// Converts a number as if it were read from a file: NaN is a missing value, and an infinite number is refused as a text.
fn number_cell(number: f64) -> Cell {
    if number.is_finite() {
        Cell::Number(number)
    } else if number.is_nan() {
        Cell::Missing
    } else {
        Cell::Text(number.to_string().into())
    }
}

/// Makes a table of these columns.
///
/// # Errors
/// `TypeError` for a column of another type, `ValueError` if lengths differ or names are repeated.
pub(crate) fn of_columns(names: Vec<String>, columns: &[Bound<'_, PyAny>]) -> PyResult<Table> {
    let columns: Vec<Column> = columns.iter().map(Column::of).collect::<PyResult<_>>()?;
    let rows = columns.first().map_or(0, Column::len);
    if let Some((name, column)) = names.iter().zip(&columns).find(|(_, column)| column.len() != rows) {
        let found = column.len();
        return Err(Failure::Value(format!("table: expected {rows} rows in the column {name:?}, found {found}")).into());
    }
    let rows = (0..rows).map(|row| columns.iter().map(|column| column.cell(row)).collect()).collect();
    Ok(Table::new(IN_MEMORY, names, rows).map_err(Failure::from)?)
}

/// Makes a table of a matrix, with its rows as rows. Without names, columns are named as in a file without a header.
///
/// # Errors
/// As for [`of_columns`].
pub(crate) fn of_matrix(names: Option<Vec<String>>, matrix: &PyReadonlyArray2<'_, f64>) -> PyResult<Table> {
    let width = matrix.shape()[1];
    let names = names.unwrap_or_else(|| (1..=width).map(|number| format!("column {number}")).collect());
    let values = matrix.as_array();
    let rows = values.rows().into_iter().map(|row| row.iter().map(|&number| number_cell(number)).collect()).collect();
    Ok(Table::new(IN_MEMORY, names, rows).map_err(Failure::from)?)
}
