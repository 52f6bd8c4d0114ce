//! Checks constants: the length against the extents, types, finiteness.

use super::graph::Constant;
use super::operator::integers::BATCH;
use super::{CheckError, Limits};
use crate::excerpt::excerpt;
use crate::proto::{DataType, TensorProto};

/// How to get one file of a model and its data.
const ONE_FILE: &str = ": export with `external_data=False`, or `onnx.save(onnx.load(FILE), NEW_FILE)` in Python";

const TYPES: &str = "elements of type Float, Int64, or Int8, Uint8 and Int32 where they are quantized";

/// The extents and elements of a tensor.
pub(super) fn decode(name: &str, tensor: &TensorProto, limits: &Limits) -> Result<(Vec<usize>, Constant), CheckError> {
    let wrong = |expected: String, found: String| CheckError::Constant { name: excerpt(name), expected, found };
    if tensor.data_location.unwrap_or(0) != 0 || !tensor.external_data.is_empty() {
        return Err(wrong("data in the model's own file".into(), format!("external data{ONE_FILE}")));
    }
    let mut dims = Vec::with_capacity(tensor.dims.len().min(8));
    let mut elements = 1u64;
    for &dim in &tensor.dims {
        let extent = u64::try_from(dim).map_err(|_| wrong("extents of zero and more".into(), dim.to_string()))?;
        elements = elements.saturating_mul(extent);
        dims.push(usize::try_from(extent).unwrap_or(usize::MAX));
    }
    if dims.len() > 8 {
        return Err(wrong("at most 8 axes".into(), dims.len().to_string()));
    }
    if elements > limits.elements {
        return Err(CheckError::Limit {
            place: format!("constant `{}`", excerpt(name)),
            what: "elements",
            limit: limits.elements,
            found: elements,
        });
    }
    let elements = elements as usize;
    one_field(name, tensor)?;
    let raw = tensor.raw_data.as_deref();
    let stored = |typed: usize, width: usize| match raw {
        Some(bytes) if typed == 0 => (bytes.len(), elements * width, "bytes"),
        _ => (typed, elements, "elements"),
    };
    let length = |typed: usize, width: usize| {
        let (found, expected, unit) = stored(typed, width);
        if found == expected {
            Ok(())
        } else {
            Err(wrong(format!("{expected} {unit}, as {:?} says", tensor.dims), found.to_string()))
        }
    };
    let constant = match DataType::try_from(tensor.data_type()) {
        Ok(DataType::Float) => {
            length(tensor.float_data.len(), 4)?;
            let data: Vec<f32> = match raw {
                Some(bytes) if tensor.float_data.is_empty() => {
                    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
                }
                _ => tensor.float_data.clone(),
            };
            if let Some(index) = data.iter().position(|v| !v.is_finite()) {
                return Err(wrong("finite numbers".into(), format!("{} at {index}", data[index])));
            }
            Constant::Floats(data)
        }
        Ok(DataType::Int64) => {
            length(tensor.int64_data.len(), 8)?;
            let data = match raw {
                Some(bytes) if tensor.int64_data.is_empty() => {
                    bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
                }
                _ => tensor.int64_data.clone(),
            };
            Constant::Integers(extents(name, data)?)
        }
        Ok(kind @ (DataType::Int8 | DataType::Uint8 | DataType::Int32)) => {
            let (width, range) = match kind {
                DataType::Int8 => (1, (-128, 127)),
                DataType::Uint8 => (1, (0, 255)),
                _ => (4, (i32::MIN, i32::MAX)),
            };
            length(tensor.int32_data.len(), width)?;
            let values: Vec<i32> = match raw {
                Some(bytes) if tensor.int32_data.is_empty() => match kind {
                    DataType::Int8 => bytes.iter().map(|b| i32::from(*b as i8)).collect(),
                    DataType::Uint8 => bytes.iter().map(|b| i32::from(*b)).collect(),
                    _ => bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect(),
                },
                _ => tensor.int32_data.clone(),
            };
            if let Some(value) = values.iter().find(|value| !(range.0..=range.1).contains(value)) {
                return Err(wrong(format!("{} to {}", range.0, range.1), value.to_string()));
            }
            Constant::Quantized { values, range }
        }
        Ok(other) => return Err(wrong(TYPES.to_owned(), format!("{other:?}"))),
        Err(_) => return Err(wrong(TYPES.to_owned(), format!("type {}", tensor.data_type()))),
    };
    Ok((dims, constant))
}

/// Checks that the data are in one field, that of the type or `raw_data`: of several, runtimes do not read the same one.
fn one_field(name: &str, tensor: &TensorProto) -> Result<(), CheckError> {
    let fields = [
        ("raw_data", tensor.raw_data.as_ref().map_or(0, Vec::len)),
        ("float_data", tensor.float_data.len()),
        ("int32_data", tensor.int32_data.len()),
        ("int64_data", tensor.int64_data.len()),
    ];
    let present: Vec<&str> = fields.iter().filter(|(_, length)| *length > 0).map(|(field, _)| *field).collect();
    // Other types are refused by name.
    let Ok(kind) = DataType::try_from(tensor.data_type()) else { return Ok(()) };
    let own = match kind {
        DataType::Float => "float_data",
        DataType::Int64 => "int64_data",
        DataType::Int8 | DataType::Uint8 | DataType::Int32 => "int32_data",
        _ => return Ok(()),
    };
    let expected = match present.as_slice() {
        [] => return Ok(()),
        [field] if *field == own || *field == "raw_data" => return Ok(()),
        [_] => format!("data of type {kind:?} in {own} or raw_data"),
        _ => "one field of data".to_owned(),
    };
    Err(CheckError::Constant { name: excerpt(name), expected, found: present.join(" and ") })
}

/// Checks that integers from a file do not contain the mark for the batch size.
pub(super) fn extents(name: &str, values: Vec<i64>) -> Result<Vec<i64>, CheckError> {
    if values.contains(&BATCH) {
        let (expected, found) = ("shapes and axes".to_owned(), BATCH.to_string());
        return Err(CheckError::Constant { name: excerpt(name), expected, found });
    }
    Ok(values)
}
