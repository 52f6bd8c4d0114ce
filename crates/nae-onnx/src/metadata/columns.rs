//! Columns of a table: the conversion of a row of cells to the network's input.
//!
//! An input is the number in a column's cell, or 1 or 0 for whether the cell contains a certain text, or for whether it
//! is empty. It is centred and divided by its scale; beyond the knee, if there is one, it grows logarithmically, so
//! that one extreme value does not make all others look alike. Then the range of `span` scales on both sides of the
//! centre is mapped to 0 to 1, the range of image networks. Values beyond it stay outside.

use serde::{Deserialize, Serialize};

/// The maximum absolute distance, so that energies stay finite.
const FAR: f64 = 1000.0;

/// What is read from a column's cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The number in the cell.
    #[default]
    Number,
    /// 1 if the cell contains this text, 0 if it contains another text, a number or nothing: one value of a category.
    Is(String),
    /// 1 if the cell is empty, 0 otherwise.
    Absent,
}

impl Reading {
    /// Whether it is a [`Number`](Self::Number).
    pub fn is_number(&self) -> bool {
        *self == Self::Number
    }
}

/// One input of the network, read from a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The column's name in the header; `column 1` and so on if there is no header.
    pub name: String,
    /// What is read from its cells.
    #[serde(default, skip_serializing_if = "Reading::is_number")]
    pub reading: Reading,
    /// The value that is mapped to 0.5: for numbers, the training data's median, or in files of earlier versions their
    /// mean.
    #[serde(alias = "mean")]
    pub center: f64,
    /// The unit of `knee` and `span`: for numbers, the training data's interquartile range divided by that of the
    /// standard normal distribution, or in files of earlier versions their standard deviation.
    #[serde(alias = "deviation")]
    pub scale: f64,
    /// The distance from the centre, in scales, at which logarithmic growth begins; `None` for linear growth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<f64>,
    /// The distance of 0 and of 1 from the centre, in scales, after the knee.
    pub span: f64,
}

impl Column {
    /// A column of numbers without a knee.
    pub fn number(name: impl Into<String>, center: f64, scale: f64, span: f64) -> Self {
        Self { name: name.into(), reading: Reading::Number, center, scale, knee: None, span }
    }

    /// The distance of `reading` from the centre in scales, logarithmic beyond the knee. It is odd and increasing, with
    /// a continuous slope: d up to the knee k, then k·(1 + ln(d/k)).
    ///
    /// ```
    /// use nae_onnx::metadata::Column;
    /// let column = |knee| Column { knee, ..Column::number("x", 1.0, 2.0, 4.0) };
    /// assert_eq!(column(None).distance(-19.0), -10.0);
    /// assert_eq!(column(Some(3.0)).distance(7.0), 3.0);
    /// assert!((column(Some(3.0)).distance(-19.0) + 3.0 * (1.0 + (10.0f64 / 3.0).ln())).abs() < 1e-12);
    /// ```
    pub fn distance(&self, reading: f64) -> f64 {
        let distance = (reading - self.center) / self.scale;
        match self.knee {
            Some(knee) if distance.abs() > knee => (knee * (1.0 + (distance.abs() / knee).ln())).copysign(distance),
            _ => distance,
        }
    }
}

/// The treatment of a missing value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The row is refused.
    #[default]
    Refuse,
    /// The column's centre is used. Columns with missing values in training have an additional input that marks them.
    #[serde(alias = "mean")]
    Fill,
}

impl Missing {
    /// `refuse` or `fill`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Fill => "fill",
        }
    }

    /// The variant with this [name](Self::name); earlier versions wrote `mean` for `fill`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "refuse" => Some(Self::Refuse),
            "fill" | "mean" => Some(Self::Fill),
            _ => None,
        }
    }
}

/// Invalid columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// There are no columns.
    #[error("no column")]
    Empty,
    /// Two inputs are the same.
    #[error("two columns are called {0:?}")]
    Duplicate(String),
    /// A centre is not finite, or a scale, knee or span is not finite and positive.
    #[error("column {name:?}: expected a finite centre, a positive scale, knee and span, found {found}")]
    Numbers {
        /// The name of the column.
        name: String,
        /// The numbers of the column.
        found: String,
    },
}

/// The inputs of a network, in order.
///
/// ```
/// use nae_onnx::metadata::{Column, Columns, Missing};
/// let columns = Columns::new(vec![Column::number("temperature", 20.0, 2.0, 4.0)], Missing::Fill)?;
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
    /// [`ColumnsError`], with the first invalid column.
    pub fn new(columns: Vec<Column>, missing: Missing) -> Result<Self, ColumnsError> {
        if columns.is_empty() {
            return Err(ColumnsError::Empty);
        }
        let mut inputs = std::collections::BTreeSet::new();
        let positive = |number: f64| number.is_finite() && number > 0.0;
        for Column { name, reading, center, scale, knee, span } in &columns {
            if !inputs.insert((name, reading)) {
                return Err(ColumnsError::Duplicate(name.clone()));
            }
            if !(center.is_finite() && positive(*scale) && knee.is_none_or(positive) && positive(*span)) {
                let knee = knee.map(|knee| format!("{knee:?}, ")).unwrap_or_default();
                let found = format!("{center:?}, {scale:?}, {knee}{span:?}");
                return Err(ColumnsError::Numbers { name: name.clone(), found });
            }
        }
        Ok(Self { columns, missing })
    }

    /// The columns, in the order of the network's input.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The treatment of missing values.
    pub const fn missing(&self) -> Missing {
        self.missing
    }

    /// The network's input for a `reading` of the column at `index`; `None` if the reading is missing and not filled
    /// in, is NaN, or there is no such column.
    pub fn value(&self, index: usize, reading: Option<f64>) -> Option<f32> {
        let column = self.columns.get(index)?;
        let distance = match (reading, self.missing) {
            (Some(reading), _) => column.distance(reading),
            (None, Missing::Fill) => 0.0,
            (None, Missing::Refuse) => return None,
        };
        let value = (0.5 + distance / (2.0 * column.span)).clamp(-FAR, FAR);
        (!value.is_nan()).then_some(value as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, center: f64, scale: f64) -> Column {
        Column::number(name, center, scale, 4.0)
    }

    #[test]
    fn what_is_no_column_is_refused() {
        assert_eq!(Columns::new(Vec::new(), Missing::Fill), Err(ColumnsError::Empty));
        let twice = vec![column("a", 0.0, 1.0), column("a", 0.0, 1.0)];
        assert_eq!(Columns::new(twice, Missing::Fill), Err(ColumnsError::Duplicate("a".to_owned())));
        for (center, scale) in [(f64::NAN, 1.0), (0.0, 0.0), (0.0, -1.0), (f64::INFINITY, 1.0), (0.0, f64::NAN)] {
            let error = Columns::new(vec![column("a", center, scale)], Missing::Fill).expect_err("no numbers");
            assert!(matches!(error, ColumnsError::Numbers { .. }), "{error}");
        }
    }

    #[test]
    fn spans_and_knees_are_positive() {
        for number in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let column = column("a", 0.0, 1.0);
            for wrong in [Column { span: number, ..column.clone() }, Column { knee: Some(number), ..column }] {
                assert!(Columns::new(vec![wrong], Missing::Fill).is_err(), "{number}");
            }
        }
    }

    #[test]
    fn one_column_may_have_several_inputs() {
        let of = |reading| Column { reading, ..column("a", 0.0, 1.0) };
        let different = vec![of(Reading::Number), of(Reading::Is("x".to_owned())), of(Reading::Absent)];
        assert!(Columns::new(different, Missing::Fill).is_ok());
        let twice = vec![of(Reading::Is("x".to_owned())), of(Reading::Is("x".to_owned()))];
        assert_eq!(Columns::new(twice, Missing::Fill), Err(ColumnsError::Duplicate("a".to_owned())));
    }

    #[test]
    fn values_are_finite_whatever_the_reading() {
        for knee in [None, Some(3.0)] {
            let narrow = Column { knee, ..column("a", 1.0, f64::MIN_POSITIVE) };
            let columns = Columns::new(vec![narrow], Missing::Refuse).expect("valid");
            for reading in [f64::MAX, f64::MIN, f64::INFINITY] {
                let value = columns.value(0, Some(reading)).expect("a number");
                assert!(value.is_finite() && value.abs() > 100.0, "{reading} {value}");
            }
            assert_eq!(columns.value(0, Some(1.0)), Some(0.5));
            assert_eq!(
                (columns.value(0, None), columns.value(0, Some(f64::NAN)), columns.value(1, Some(0.0))),
                (None, None, None)
            );
        }
    }

    #[test]
    fn a_knee_keeps_order_and_slope() {
        let column = Column { knee: Some(3.0), ..column("a", 0.0, 1.0) };
        let (mut last, step) = (f64::NEG_INFINITY, 1e-3);
        for reading in (-20_000..=20_000).map(|n| f64::from(n) * step) {
            let distance = column.distance(reading);
            assert!(distance > last && distance - last < step * 1.001 || last.is_infinite(), "{reading}");
            assert_eq!(distance, -column.distance(-reading));
            last = distance;
        }
    }

    #[test]
    fn settings_of_earlier_programs_are_read() {
        #[derive(Deserialize)]
        struct Old {
            missing: Missing,
            column: Column,
        }
        let text = r#"{"missing": "mean", "column": {"name": "a", "mean": 2.0, "deviation": 0.5, "span": 4.0}}"#;
        let Old { missing, column } = serde_json::from_str(text).expect("reads");
        assert_eq!(missing, Missing::Fill);
        assert_eq!(column, self::column("a", 2.0, 0.5));
    }
}
