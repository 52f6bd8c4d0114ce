//! The JSON of a request as it is written, before its content is checked. Fields of other names are ignored. It is parsed
//! by hand where the number of values is limited: serde derives no parser with a parameter.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::lists::{Few, FewOf, Numbers};

/// A request.
pub(super) struct Document {
    pub(super) id: Option<String>,
    pub(super) parameters: Option<Parameters>,
    pub(super) inputs: Vec<Tensor>,
    pub(super) outputs: Vec<Requested>,
}

/// An input.
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) datatype: String,
    pub(super) parameters: Option<Parameters>,
    pub(super) data: Option<Vec<f32>>,
}

/// An output.
#[derive(Deserialize)]
pub(super) struct Requested {
    pub(super) name: String,
    pub(super) parameters: Option<Parameters>,
}

/// The parameters of a request, an input or an output; others are ignored.
#[derive(Default, Deserialize)]
pub(super) struct Parameters {
    /// 64 bits on every machine, so that a wrong size gives the same error everywhere.
    pub(super) binary_data_size: Option<u64>,
    pub(super) binary_data: Option<bool>,
    pub(super) binary_data_output: Option<bool>,
    pub(super) shared_memory_region: Option<String>,
    pub(super) classification: Option<usize>,
}

impl Document {
    /// Parses a request with at most `most` numbers in an input.
    pub(super) fn parse(json: &[u8], most: usize) -> serde_json::Result<Self> {
        let mut text = serde_json::Deserializer::from_slice(json);
        let document = DocumentOf { most }.deserialize(&mut text)?;
        text.end()?;
        Ok(document)
    }
}

/// Sets a field, which may be there only once: otherwise, each could have as many numbers as are permitted.
fn once<T, E: Error>(field: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum OfDocument {
    Id,
    Parameters,
    Inputs,
    Outputs,
    #[serde(other)]
    Other,
}

/// Parses a [`Document`].
struct DocumentOf {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for DocumentOf {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentOf {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Document, A::Error> {
        let (mut id, mut parameters, mut inputs, mut outputs) = (None, None, None, None);
        while let Some(field) = fields.next_key()? {
            match field {
                OfDocument::Id => once(&mut id, "id", fields.next_value()?)?,
                OfDocument::Parameters => once(&mut parameters, "parameters", fields.next_value()?)?,
                OfDocument::Inputs => {
                    once(&mut inputs, "inputs", fields.next_value_seed(FewOf(TensorOf { most: self.most }))?)?;
                }
                OfDocument::Outputs => once(&mut outputs, "outputs", fields.next_value::<Option<Few<_>>>()?)?,
                OfDocument::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        let inputs = inputs.ok_or_else(|| A::Error::missing_field("inputs"))?;
        let outputs = outputs.flatten().map_or_else(Vec::new, |Few(outputs)| outputs);
        Ok(Document { id: id.flatten(), parameters: parameters.flatten(), inputs, outputs })
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum OfTensor {
    Name,
    Shape,
    Datatype,
    Parameters,
    Data,
    #[serde(other)]
    Other,
}

/// Parses a [`Tensor`].
#[derive(Clone, Copy)]
struct TensorOf {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for TensorOf {
    type Value = Tensor;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tensor, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TensorOf {
    type Value = Tensor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an input")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Tensor, A::Error> {
        let (mut name, mut shape, mut datatype, mut parameters, mut data) = (None, None, None, None, None);
        while let Some(field) = fields.next_key()? {
            match field {
                OfTensor::Name => once(&mut name, "name", fields.next_value()?)?,
                OfTensor::Shape => once(&mut shape, "shape", fields.next_value()?)?,
                OfTensor::Datatype => once(&mut datatype, "datatype", fields.next_value()?)?,
                OfTensor::Parameters => once(&mut parameters, "parameters", fields.next_value()?)?,
                OfTensor::Data => once(&mut data, "data", fields.next_value_seed(Numbers { most: self.most })?)?,
                OfTensor::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        let missing = A::Error::missing_field;
        let Few(shape) = shape.ok_or_else(|| missing("shape"))?;
        Ok(Tensor {
            name: name.ok_or_else(|| missing("name"))?,
            shape,
            datatype: datatype.ok_or_else(|| missing("datatype"))?,
            parameters: parameters.flatten(),
            data: data.flatten(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_there_once_and_has_no_more_numbers_than_are_permitted() {
        let parse = |fields: &str| {
            let tensor = r#""name":"image","shape":[1,1,1,2],"datatype":"FP32""#;
            let text = format!(r#"{{"more":[{{}}],"inputs":[{{{tensor},"more":{{"data":[1,2,3,4]}}{fields}}}]}}"#);
            Document::parse(text.as_bytes(), 2).map(|mut document| document.inputs.remove(0).data)
        };
        assert_eq!(parse("").unwrap(), None);
        assert_eq!(parse(r#","data":null"#).unwrap(), None);
        assert_eq!(parse(r#","data":[1,2]"#).unwrap().unwrap(), [1.0, 2.0]);
        for (wrong, reason) in [
            (r#","data":[1,2,3]"#, "at most 2 numbers, found more"),
            (r#","data":[1,2],"data":[3]"#, "duplicate field `data`"),
            (r#","name":"image""#, "duplicate field `name`"),
            (r#"}],"inputs":[{"#, "missing field `shape`"),
        ] {
            let said = parse(wrong).unwrap_err().to_string();
            assert!(said.contains(reason), "{wrong}: {said}");
        }
    }
}
