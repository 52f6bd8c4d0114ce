//! Columns of a table: how a row of readings becomes the network's input.
//!
//! A reading is standardised by its column's mean and deviation in the training data, and the column's span, so many
//! deviations to both sides of the mean, becomes the range from 0 to 1 that networks for images have, too. Readings
//! beyond it stay beyond.

use serde::{Deserialize, Serialize};

/// Values further out count as this, so that energies stay finite.
const FAR: f64 = 1000.0;

/// A column of numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name in the header; `column 1` and so on where there is none.
    pub name: String,
    /// Mean of the training data.
    pub mean: f64,
    /// Standard deviation of the training data.
    pub deviation: f64,
    /// Deviations from the mean to 0 and to 1.
    pub span: f64,
}

/// What a reading that is not there becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The row is refused.
    #[default]
    Refuse,
    /// The column's mean.
    Mean,
}

impl Missing {
    /// `refuse` or `mean`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Mean => "mean",
        }
    }

    /// What has this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Refuse, Self::Mean].into_iter().find(|missing| missing.name() == name)
    }
}

/// Columns that no network can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// There is none.
    #[error("no column")]
    Empty,
    /// Two have one name.
    #[error("two columns are called {0:?}")]
    Duplicate(String),
    /// A mean is not finite, or a deviation or span not finite and positive.
    #[error("column {name:?}: expected a finite mean, a positive deviation and span, found {found}")]
    Numbers {
        /// The column.
        name: String,
        /// Its numbers.
        found: String,
    },
}

/// The columns a network takes, in order.
///
/// ```
/// use nae_onnx::metadata::{Column, Columns, Missing};
/// let column = Column { name: "temperature".into(), mean: 20.0, deviation: 2.0, span: 4.0 };
/// let columns = Columns::new(vec![column], Missing::Mean)?;
/// assert_eq!(columns.value(0, Some(12.0)), Some(0.0));
/// assert_eq!(columns.value(0, Some(28.0)), Some(1.0));
/// assert_eq!(columns.value(0, None), Some(0.5));
/// # Ok::<(), nae_onnx::metadata::ColumnsError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    columns: Vec<Column>,
    missing: Missing,
}

impl Columns {
    /// Checks the columns.
    ///
    /// # Errors
    /// [`ColumnsError`] names the first that cannot be used.
    pub fn new(columns: Vec<Column>, missing: Missing) -> Result<Self, ColumnsError> {
        if columns.is_empty() {
            return Err(ColumnsError::Empty);
        }
        let mut names = std::collections::BTreeSet::new();
        let positive = |number: f64| number.is_finite() && number > 0.0;
        for Column { name, mean, deviation, span } in &columns {
            if !names.insert(name) {
                return Err(ColumnsError::Duplicate(name.clone()));
            }
            if !(mean.is_finite() && positive(*deviation) && positive(*span)) {
                let found = format!("{mean:?}, {deviation:?}, {span:?}");
                return Err(ColumnsError::Numbers { name: name.clone(), found });
            }
        }
        Ok(Self { columns, missing })
    }

    /// The columns, in the order of the network's input.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What a reading that is not there becomes.
    pub const fn missing(&self) -> Missing {
        self.missing
    }

    /// The network's input for a `reading` of the column at `index`; `None` where the reading is not there and not
    /// filled in, is NaN, or there is no such column.
    pub fn value(&self, index: usize, reading: Option<f64>) -> Option<f32> {
        let Column { mean, deviation, span, .. } = self.columns.get(index)?;
        let deviations = match (reading, self.missing) {
            (Some(reading), _) => (reading - mean) / deviation,
            (None, Missing::Mean) => 0.0,
            (None, Missing::Refuse) => return None,
        };
        let value = (0.5 + deviations / (2.0 * span)).clamp(-FAR, FAR);
        (!value.is_nan()).then_some(value as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, mean: f64, deviation: f64) -> Column {
        Column { name: name.to_owned(), mean, deviation, span: 4.0 }
    }

    #[test]
    fn what_is_no_column_is_refused() {
        assert_eq!(Columns::new(Vec::new(), Missing::Mean), Err(ColumnsError::Empty));
        let twice = vec![column("a", 0.0, 1.0), column("a", 0.0, 1.0)];
        assert_eq!(Columns::new(twice, Missing::Mean), Err(ColumnsError::Duplicate("a".to_owned())));
        for (mean, deviation) in [(f64::NAN, 1.0), (0.0, 0.0), (0.0, -1.0), (f64::INFINITY, 1.0), (0.0, f64::NAN)] {
            let error = Columns::new(vec![column("a", mean, deviation)], Missing::Mean).expect_err("no numbers");
            assert!(matches!(error, ColumnsError::Numbers { .. }), "{error}");
        }
    }

    #[test]
    fn a_span_is_positive() {
        for span in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let column = Column { span, ..column("a", 0.0, 1.0) };
            assert!(Columns::new(vec![column], Missing::Mean).is_err(), "{span}");
        }
    }

    #[test]
    fn values_are_finite_whatever_the_reading() {
        let columns = Columns::new(vec![column("a", 1.0, f64::MIN_POSITIVE)], Missing::Refuse).expect("valid");
        for reading in [f64::MAX, f64::MIN, f64::INFINITY] {
            assert_eq!(columns.value(0, Some(reading)).map(f32::abs), Some(1000.0));
        }
        assert_eq!(columns.value(0, Some(1.0)), Some(0.5));
        assert_eq!(
            (columns.value(0, None), columns.value(0, Some(f64::NAN)), columns.value(1, Some(0.0))),
            (None, None, None)
        );
    }
}
