//! Arrays of images, borrowed from NumPy: converted to pixels one by one, or used directly if they already are the
//! network's input.

use nae_core::Shape;
use nae_infer::card::ScoringSettings;
use nae_infer::input::{Pixels, Transforms};
use nae_input::layout::to_channels_last;
use numpy::{Element, PyArrayDyn, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::layout::Axes;

/// An array that Python keeps alive.
pub(crate) enum Array<'py> {
    Bytes(PyReadonlyArrayDyn<'py, u8>),
    Floats(PyReadonlyArrayDyn<'py, f32>),
    Doubles(PyReadonlyArrayDyn<'py, f64>),
}

/// The values of an array, row after row.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a> {
    /// From 0 to 255.
    Bytes(&'a [u8]),
    /// From 0 to 1.
    Floats(&'a [f32]),
    /// From 0 to 1.
    Doubles(&'a [f64]),
}

impl<'py> Array<'py> {
    /// Borrows an array.
    ///
    /// # Errors
    /// `TypeError` for other element types, and for objects that are not arrays.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Some(bytes) = typed(object) {
            return Ok(Self::Bytes(bytes));
        }
        if let Some(floats) = typed(object) {
            return Ok(Self::Floats(floats));
        }
        if let Some(doubles) = typed(object) {
            return Ok(Self::Doubles(doubles));
        }
        let found = match object.cast::<PyUntypedArray>() {
            Ok(array) => format!("an array of {}", array.dtype()),
            Err(_) => object.get_type().to_string(),
        };
        Err(PyTypeError::new_err(format!("expected an array of uint8, float32 or float64, found {found}")))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Self::Bytes(array) => array.shape(),
            Self::Floats(array) => array.shape(),
            Self::Doubles(array) => array.shape(),
        }
    }

    /// The values of the array.
    ///
    /// # Errors
    /// `TypeError` if the array is not in C order.
    pub(crate) fn values(&self) -> PyResult<Values<'_>> {
        let whole = match self {
            Self::Bytes(array) => array.as_slice().map(Values::Bytes),
            Self::Floats(array) => array.as_slice().map(Values::Floats),
            Self::Doubles(array) => array.as_slice().map(Values::Doubles),
        };
        whole.map_err(|_| PyTypeError::new_err("expected an array in C order (numpy.ascontiguousarray)"))
    }
}

/// The array, if its elements have this type and are aligned for the processor.
fn typed<'py, T: Element>(object: &Bound<'py, PyAny>) -> Option<PyReadonlyArrayDyn<'py, T>> {
    let array = object.cast::<PyArrayDyn<T>>().ok()?;
    if array.is_aligned() { array.extract().ok() } else { None }
}

/// The images of one array.
#[derive(Clone, Copy)]
pub(crate) struct Images<'a> {
    pub(crate) values: Values<'a>,
    pub(crate) axes: Axes,
}

impl<'a> Images<'a> {
    /// A copy of the image `index`; `None` past the last.
    pub(crate) fn pixels(&self, index: usize) -> Option<Pixels> {
        let shape = self.axes.shape;
        let range = index * shape.len()..(index + 1) * shape.len();
        let values: Vec<f32> = match self.values {
            Values::Bytes(all) => all.get(range)?.iter().map(|&byte| f32::from(byte) / 255.0).collect(),
            Values::Floats(all) => all.get(range)?.to_vec(),
            Values::Doubles(all) => all.get(range)?.iter().map(|&value| value as f32).collect(),
        };
        let last = self.axes.channels_last || shape.channels == 1;
        Some(Pixels { shape, values: if last { values } else { to_channels_last(&values, shape) } })
    }

    /// All images as the network's input, not copied, if they have its shape, order and range.
    pub(crate) fn as_input(&self, settings: &ScoringSettings) -> Option<&'a [f32]> {
        let Values::Floats(values) = self.values else { return None };
        let (input, preprocessing) = (settings.contract.input, settings.contract.preprocessing);
        let Transforms { crop, invert, .. } = settings.transforms;
        let as_they_are = crop.is_none() && !invert && preprocessing.is_unit();
        let in_order = !self.axes.channels_last || input.channels == 1;
        let image = matches!(input, Shape { channels: 1 | 3, .. });
        let whole = self.axes.shape == input && in_order && image && as_they_are && settings.tiles.is_none();
        // Values out of range are left to the other path, which reports them.
        (whole && values.iter().all(|value| (0.0..=1.0).contains(value))).then_some(values)
    }
}
