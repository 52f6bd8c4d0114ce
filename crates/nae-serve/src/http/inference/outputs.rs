//! The outputs of inference, and the answer that contains them, as JSON or as bytes after the JSON.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json as value};

use super::super::super::scorer::Answer;
use super::super::{Problem, json};
use super::body::JSON_LENGTH;

/// An output of the model for each image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Energy,
    PValue,
    Anomaly,
}

/// A requested output.
pub(super) struct Wanted {
    pub(super) output: Output,
    pub(super) binary: bool,
}

impl Output {
    pub(super) const ALL: [Self; 3] = [Self::Energy, Self::PValue, Self::Anomaly];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Energy => "energy",
            Self::PValue => "p_value",
            Self::Anomaly => "anomaly",
        }
    }

    pub(super) const fn datatype(self) -> &'static str {
        match self {
            Self::Energy | Self::PValue => "FP32",
            Self::Anomaly => "BOOL",
        }
    }

    fn value(self, answer: &Answer) -> Value {
        match self {
            Self::Energy => answer.scored.energy.into(),
            Self::PValue => answer.scored.p_value.into(),
            Self::Anomaly => anomaly(answer).into(),
        }
    }

    /// Appends the value, little-endian. A missing p-value, which is `null` in JSON, is NaN here.
    fn append(self, answer: &Answer, bytes: &mut Vec<u8>) {
        match self {
            Self::Energy => bytes.extend(answer.scored.energy.to_le_bytes()),
            Self::PValue => bytes.extend(answer.scored.p_value.unwrap_or(f32::NAN).to_le_bytes()),
            Self::Anomaly => bytes.push(anomaly(answer).into()),
        }
    }
}

fn anomaly(answer: &Answer) -> bool {
    answer.scored.verdict.is_some_and(|verdict| verdict.is_anomaly())
}

/// The answer to a request with this `id`.
pub(super) fn response(
    (name, version): (&str, &str),
    id: Option<&str>,
    wanted: &[Wanted],
    answers: &[Answer],
) -> Result<Response, Problem> {
    let mut binary = Vec::new();
    let mut outputs = Vec::with_capacity(wanted.len());
    for &Wanted { output, binary: as_bytes } in wanted {
        let mut tensor = value!({"name": output.name(), "datatype": output.datatype(), "shape": [answers.len()]});
        if as_bytes {
            let before = binary.len();
            answers.iter().for_each(|answer| output.append(answer, &mut binary));
            tensor["parameters"] = value!({"binary_data_size": binary.len() - before});
        } else {
            tensor["data"] = answers.iter().map(|answer| output.value(answer)).collect();
        }
        outputs.push(tensor);
    }
    let mut document = value!({"model_name": name, "model_version": version, "outputs": outputs});
    if let Some(id) = id {
        document["id"] = id.into();
    }
    if !wanted.iter().any(|wanted| wanted.binary) {
        return Ok(json(StatusCode::OK, &document));
    }
    let mut bytes = serde_json::to_vec(&document).map_err(|e| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e))?;
    let length = HeaderValue::from(bytes.len());
    bytes.append(&mut binary);
    let kind = HeaderValue::from_static("application/octet-stream");
    let mut response = bytes.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(JSON_LENGTH, length);
    Ok(response)
}
