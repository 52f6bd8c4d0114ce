//! The Open Inference Protocol (KServe's version 2), for clients that speak it: the tensor is the network's
//! input, prepared by the client, as JSON. Its binary form is not here.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use nae_core::Shape;
use serde::Deserialize;
use serde_json::{Value, json as value};

use super::super::Service;
use super::super::scorer::{Answer, Input};
use super::score::answer;
use super::{Problem, body, json, watching};

/// Images in a request.
const MOST: usize = 256;

#[derive(Deserialize)]
struct Inference {
    id: Option<String>,
    inputs: Vec<Tensor>,
}

#[derive(Deserialize)]
struct Tensor {
    name: String,
    shape: Vec<usize>,
    datatype: String,
    data: Value,
}

pub(super) async fn server() -> Response {
    json(
        StatusCode::OK,
        &value!({"name": "nae-infer", "version": env!("CARGO_PKG_VERSION"), "extensions": Value::Array(Vec::new())}),
    )
}

pub(super) async fn model(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Result<Response, Problem> {
    known(&service, &name)?;
    let model = service.model.load();
    let Shape { channels, height, width } = model.detector.contract().input;
    let scalar = |name: &str| value!({"name": name, "datatype": "FP32", "shape": [-1]});
    Ok(json(
        StatusCode::OK,
        &value!({
            "name": name,
            "versions": [model.digest],
            "platform": "onnx",
            "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, channels, height, width]}],
            "outputs": [scalar("energy"), scalar("p_value"), {"name": "anomaly", "datatype": "BOOL", "shape": [-1]}],
        }),
    ))
}

/// Whether images can be scored with this model. Asked without a token, so that a wrong name is not told the right one.
pub(super) async fn ready(state: State<Arc<Service>>, Path(name): Path<String>) -> Result<Response, Problem> {
    if known(&state, &name).is_err() {
        return Err(Problem::new(StatusCode::NOT_FOUND, "there is no model of this name"));
    }
    watching::ready(state).await
}

/// The model is called as its file, without the extension.
fn known(service: &Service, name: &str) -> Result<(), Problem> {
    let own = service.config.model.file_stem().and_then(|stem| stem.to_str()).unwrap_or("model");
    if name == own {
        return Ok(());
    }
    Err(Problem::new(StatusCode::NOT_FOUND, format!("there is no model of this name; the only one is `{own}`")))
}

pub(super) async fn infer(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    known(&service, &name)?;
    let wrong = |reason: String| Problem::new(StatusCode::BAD_REQUEST, reason);
    let bytes = body(request, service.config.max_body).await?;
    let Inference { id, inputs } = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
    let [tensor] = inputs.as_slice() else {
        return Err(wrong(format!("expected one input, `image`, found {}", inputs.len())));
    };
    let shape = service.model.load().detector.contract().input;
    let images = match tensor.shape.as_slice() {
        [n, c, h, w] if [*c, *h, *w] == [shape.channels, shape.height, shape.width] && (1..=MOST).contains(n) => *n,
        other => return Err(wrong(format!("expected the shape [1 to {MOST}, {shape}], found {other:?}"))),
    };
    if tensor.name != "image" || tensor.datatype != "FP32" {
        let (name, datatype) = (&tensor.name, &tensor.datatype);
        return Err(wrong(format!("expected `image` of FP32, found `{name}` of {datatype}")));
    }
    let mut values = Vec::with_capacity(images * shape.len());
    flatten(&tensor.data, 5, &mut values).ok_or_else(|| wrong("expected numbers in `data`".into()))?;
    if values.len() != images * shape.len() {
        return Err(wrong(format!("expected {} values, found {}", images * shape.len(), values.len())));
    }
    // All at once into the queue, so that they are scored together.
    let mut waiting = Vec::with_capacity(images);
    for image in values.chunks(shape.len()) {
        let (service, input) = (Arc::clone(&service), Input::Prepared(image.to_vec()));
        waiting.push(tokio::spawn(async move { answer(&service, input).await }));
    }
    let mut answers: Vec<Answer> = Vec::with_capacity(images);
    for one in waiting {
        answers.push(one.await.map_err(|e| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e))??);
    }
    let output = |name: &str, datatype: &str, of: fn(&Answer) -> Value| {
        let data: Vec<Value> = answers.iter().map(of).collect();
        value!({"name": name, "datatype": datatype, "shape": [images], "data": data})
    };
    let anomaly = |a: &Answer| a.scored.verdict.is_some_and(|v| v.is_anomaly()).into();
    let version = answers.first().map(|a| a.model.digest.clone());
    Ok(json(
        StatusCode::OK,
        &value!({
            "model_name": name,
            "model_version": version,
            "id": id,
            "outputs": [
                output("energy", "FP32", |a| a.scored.energy.into()),
                output("p_value", "FP32", |a| a.scored.p_value.into()),
                output("anomaly", "BOOL", anomaly),
            ],
        }),
    ))
}

/// The numbers of nested lists, which the protocol allows beside a flat one.
fn flatten(data: &Value, depth: usize, values: &mut Vec<f32>) -> Option<()> {
    match data {
        Value::Array(items) if depth > 0 => items.iter().try_for_each(|item| flatten(item, depth - 1, values)),
        Value::Number(number) => {
            values.push(number.as_f64()? as f32);
            Some(())
        }
        _ => None,
    }
}
