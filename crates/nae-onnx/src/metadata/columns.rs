//! Columns of a table: how a row of cells becomes the network's input.
//!
//! An input is a column's number, or 1 or 0 for whether its cell has a certain text, or for whether there is anything in
//! it. It is centred and divided by its scale; beyond the knee, where there is one, it grows like a logarithm, so that one
//! reading far out does not make all others look alike. The span, so many scales to both sides of the centre, then becomes
//! the range from 0 to 1 that networks for images have, too. What is beyond it stays beyond.

use serde::{Deserialize, Serialize};

/// Values further out count as this, so that energies stay finite.
const FAR: f64 = 1000.0;

/// What of a column's cell an input is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The number in it.
    #[default]
    Number,
    /// 1 where the cell has this text, 0 where it has another one, a number or nothing: one of a category's values.
    Is(String),
    /// 1 where there is nothing in it, 0 otherwise.
    Absent,
}

impl Reading {
    /// Whether it is a [`Number`](Self::Number).
    pub fn is_number(&self) -> bool {
        *self == Self::Number
    }
}

/// One input, from a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The column's name in the header; `column 1` and so on where there is none.
    pub name: String,
    /// What is read of its cells.
    #[serde(default, skip_serializing_if = "Reading::is_number")]
    pub reading: Reading,
    /// What becomes 0.5: of numbers the training data's median, in files of earlier versions their mean.
    #[serde(alias = "mean")]
    pub center: f64,
    /// The unit of `knee` and `span`: of numbers the training data's interquartile range over that of the standard normal
    /// distribution, in files of earlier versions their standard deviation.
    #[serde(alias = "deviation")]
    pub scale: f64,
    /// How many scales from the centre the growth like a logarithm begins; nowhere without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<f64>,
    /// Scales from the centre to 0 and to 1, after the knee.
    pub span: f64,
}

impl Column {
    /// A column of numbers without a knee.
    pub fn number(name: impl Into<String>, center: f64, scale: f64, span: f64) -> Self {
        Self { name: name.into(), reading: Reading::Number, center, scale, knee: None, span }
    }

    /// How many scales `reading` is from the centre, beyond the knee by its logarithm. Odd and increasing, with a
    /// continuous slope: d up to the knee k, then k·(1 + ln(d/k)).
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

/// What a reading that is not there becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The row is refused.
    #[default]
    Refuse,
    /// The column's centre. Columns that lack some in training have an input of their own that says so.
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

    /// What has this [name](Self::name); earlier versions wrote `mean` for `fill`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "refuse" => Some(Self::Refuse),
            "fill" | "mean" => Some(Self::Fill),
            _ => None,
        }
    }
}

/// Columns that no network can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// There is none.
    #[error("no column")]
    Empty,
    /// Two inputs are the same.
    #[error("two columns are called {0:?}")]
    Duplicate(String),
    /// A centre is not finite, or a scale, knee or span not finite and positive.
    #[error("column {name:?}: expected a finite centre, a positive scale, knee and span, found {found}")]
    Numbers {
        /// The column.
        name: String,
        /// Its numbers.
        found: String,
    },
}

/// The inputs a network takes, in order.
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
    /// [`ColumnsError`] names the first that cannot be used.
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

    /// What a reading that is not there becomes.
    pub const fn missing(&self) -> Missing {
        self.missing
    }

    /// The network's input for a `reading` of the column at `index`; `None` where the reading is not there and not
    /// filled in, is NaN, or there is no such column.
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
