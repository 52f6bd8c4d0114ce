//! Checks a request for inference: its images and outputs. `body` divides its bytes, `document` parses its JSON.

use axum::body::Bytes;
use axum::http::StatusCode;
use nae_core::Shape;
use nae_core::contract::{Contract, Preprocessing};

use super::super::Problem;
use super::body::Parts;
use super::document::{Document, Requested, Tensor};
use super::outputs::{Output, Wanted};

/// The maximum number of images in a request.
const MOST: usize = 256;

/// A valid request.
pub(super) struct Asked {
    pub(super) id: Option<String>,
    pub(super) outputs: Vec<Wanted>,
    pixels: Pixels,
    /// The number of values of one image.
    length: usize,
}

/// The images, one after the other.
enum Pixels {
    /// The values of the network's input.
    Real(Vec<f32>),
    /// The same as little-endian bytes.
    RealBytes(Bytes),
    /// 8-bit pixels, which are converted to the network's input like those of an image file.
    Eight(Bytes, Preprocessing),
}

impl Asked {
    /// Checks a request for a model with this contract.
    pub(super) fn parse(parts: &Parts, contract: &Contract) -> Result<Self, Problem> {
        let shape = contract.input;
        let document = Document::parse(&parts.json, MOST * shape.len());
        let Document { id, parameters, inputs, outputs } =
            document.map_err(|error| wrong(format!("the JSON of the request: {error}")))?;
        let Ok([tensor]) = <[Tensor; 1]>::try_from(inputs) else {
            return Err(wrong("expected one input, `image`"));
        };
        let binary = parameters.unwrap_or_default().binary_data_output.unwrap_or(false);
        let outputs = wanted(outputs, binary)?;
        Ok(Self {
            id,
            outputs,
            pixels: pixels(tensor, &parts.binary, shape, contract.preprocessing)?,
            length: shape.len(),
        })
    }

    /// The network's input for each image.
    pub(super) fn images(&self) -> impl Iterator<Item = Vec<f32>> {
        let (bytes_of_one, count) = match &self.pixels {
            Pixels::Real(values) => (self.length, values.len() / self.length),
            Pixels::RealBytes(bytes) => (4 * self.length, bytes.len() / 4 / self.length),
            Pixels::Eight(bytes, _) => (self.length, bytes.len() / self.length),
        };
        (0..count).map(move |i| {
            let place = i * bytes_of_one..(i + 1) * bytes_of_one;
            match &self.pixels {
                Pixels::Real(values) => values[place].to_vec(),
                Pixels::RealBytes(bytes) => bytes[place].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
                Pixels::Eight(bytes, range) => bytes[place].iter().map(|byte| range.value(*byte)).collect(),
            }
        })
    }
}

fn wrong(reason: impl ToString) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, reason)
}

/// The named outputs, or all if none is named.
fn wanted(requested: Vec<Requested>, binary: bool) -> Result<Vec<Wanted>, Problem> {
    if requested.is_empty() {
        return Ok(Output::ALL.map(|output| Wanted { output, binary }).into());
    }
    let mut wanted: Vec<Wanted> = Vec::with_capacity(Output::ALL.len());
    for Requested { name, parameters } in requested {
        let parameters = parameters.unwrap_or_default();
        let Some(output) = Output::ALL.into_iter().find(|output| output.name() == name) else {
            let names = Output::ALL.map(Output::name).join("`, `");
            return Err(wrong(format!("expected outputs of `{names}`, found `{name}`")));
        };
        // Otherwise, a short request could cause a long answer.
        if wanted.iter().any(|other| other.output == output) {
            return Err(wrong(format!("expected each output once, found `{name}` twice")));
        }
        if parameters.shared_memory_region.is_some() || parameters.classification.is_some_and(|classes| classes > 0) {
            return Err(wrong(format!(
                "output `{name}`: shared memory and classification are not served; ask for its values"
            )));
        }
        wanted.push(Wanted { output, binary: parameters.binary_data.unwrap_or(binary) });
    }
    Ok(wanted)
}

/// The values of the input tensor, in the form that its fields describe.
fn pixels(tensor: Tensor, binary: &Bytes, shape: Shape, range: Preprocessing) -> Result<Pixels, Problem> {
    let Tensor { name, shape: found, datatype, parameters, data } = tensor;
    let parameters = parameters.unwrap_or_default();
    // Bytes are brightnesses only if the network takes images.
    let takes_images = matches!(shape.channels, 1 | 3);
    let eight = match datatype.as_str() {
        "FP32" if name == "image" => false,
        "UINT8" if name == "image" && takes_images => true,
        _ => {
            let expected = if takes_images { "FP32 or UINT8" } else { "FP32" };
            return Err(wrong(format!("expected `image` of {expected}, found `{name}` of {datatype}")));
        }
    };
    let count = match found.as_slice() {
        [n, c, h, w] if [*c, *h, *w] == [shape.channels, shape.height, shape.width] && (1..=MOST).contains(n) => *n,
        _ => {
            let Shape { channels, height, width } = shape;
            return Err(wrong(format!(
                "expected the shape [1 to {MOST}, {channels}, {height}, {width}], found {found:?}"
            )));
        }
    };
    // Cannot overflow: at most 256 inputs of a network that fits in memory.
    let values = count * shape.len();
    if parameters.shared_memory_region.is_some() {
        return Err(wrong("shared memory is not served; send the values in `data` or as binary data"));
    }
    match (data, parameters.binary_data_size) {
        (Some(_), Some(_)) => Err(wrong("expected `data` or `binary_data_size`, found both")),
        (None, None) => {
            Err(wrong("expected `data`, or `binary_data_size` and the bytes after the JSON, found neither"))
        }
        (None, Some(size)) => {
            let expected = if eight { values } else { 4 * values };
            if size != expected as u64 {
                let reason =
                    format!("expected a `binary_data_size` of {expected} for {found:?} of {datatype}, found {size}");
                return Err(wrong(reason));
            }
            if binary.len() != expected {
                let reason = format!(
                    "expected {size} bytes after the JSON, as `binary_data_size` says, found {}; where the JSON ends is \
                     in the header `Inference-Header-Content-Length`",
                    binary.len()
                );
                return Err(wrong(reason));
            }
            Ok(if eight { Pixels::Eight(binary.clone(), range) } else { Pixels::RealBytes(binary.clone()) })
        }
        (Some(data), None) => {
            if !binary.is_empty() {
                return Err(wrong(format!("expected nothing after the JSON, found {} bytes", binary.len())));
            }
            if data.len() != values {
                return Err(wrong(format!("expected {values} values, found {}", data.len())));
            }
            if !eight {
                return Ok(Pixels::Real(data));
            }
            let byte = |value: f32| {
                let whole = value.fract() == 0.0 && (0.0..=255.0).contains(&value);
                whole
                    .then_some(value as u8)
                    .ok_or_else(|| wrong(format!("expected whole numbers from 0 to 255, found {value}")))
            };
            let bytes: Vec<u8> = data.into_iter().map(byte).collect::<Result<_, _>>()?;
            Ok(Pixels::Eight(bytes.into(), range))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(json: &[u8], binary: &[u8], shape: Shape) -> Result<Asked, Problem> {
        let parts = Parts { json: Bytes::copy_from_slice(json), binary: Bytes::copy_from_slice(binary) };
        Asked::parse(&parts, &Contract::new(shape))
    }

    #[test]
    fn bytes_are_brightness_for_networks_of_images_only() {
        let text = |channels| {
            let parameters = r#""parameters":{"binary_data_size":4}"#;
            format!(r#"{{"inputs":[{{"name":"image","shape":[1,{channels},1,2],"datatype":"UINT8",{parameters}}}]}}"#)
        };
        let asked = parse(text(2).as_bytes(), &[0; 4], Shape::new(2, 1, 2));
        let Problem(status, reason) = asked.err().unwrap();
        assert_eq!((status.as_u16(), reason.as_str()), (400, "expected `image` of FP32, found `image` of UINT8"));
        let text = text(1).replace("[1,1,1,2]", "[2,1,1,2]");
        let asked = parse(text.as_bytes(), &[0, 51, 255, 102], Shape::new(1, 1, 2)).unwrap();
        assert_eq!(asked.images().collect::<Vec<_>>(), [[0.0, 0.2], [1.0, 0.4]]);
    }

    #[test]
    fn a_spoilt_byte_is_an_error_or_another_request() {
        let good = br#"{"id":"7","parameters":{"binary_data_output":true},"inputs":[{"name":"image","shape":[2,1,1,2],"datatype":"FP32","parameters":{"binary_data_size":16}}],"outputs":[{"name":"energy","parameters":{"binary_data":true}}]}"#;
        let listed =
            br#"{"inputs":[{"name":"image","shape":[2,1,1,2],"datatype":"FP32","data":[[[[1,2.5]]],[[[-3,4e1]]]]}]}"#;
        let shape = Shape::new(1, 1, 2);
        for (text, binary) in [(&good[..], &[1; 16][..]), (listed, &[])] {
            let images = |text: &[u8]| parse(text, binary, shape).map(|asked| asked.images().collect::<Vec<_>>());
            assert_eq!(images(text).unwrap().len(), 2);
            for place in 0..text.len() {
                assert!(images(&text[..place]).is_err());
                for byte in b"\0\x0909-.e[]{}\",\xff" {
                    let mut spoilt = text.to_vec();
                    spoilt[place] = *byte;
                    match images(&spoilt) {
                        Ok(images) => assert!(images.len() == 2 && images.iter().all(|image| image.len() == 2)),
                        Err(problem) => assert_eq!(problem.0, 400),
                    }
                }
            }
        }
    }
}
