//! The Open Inference Protocol (KServe's version 2): the tensor is the network's input, prepared by the client, as JSON
//! or as bytes after the JSON (Triton's extension `binary_tensor_data`). This module has the handlers of the addresses.
//! `body` divides the bytes of a request, `document` parses its JSON (`lists` the lists in it), `request` checks it,
//! `outputs` writes the answer, `describe` describes the model's inputs and outputs.

mod body;
mod describe;
mod document;
mod lists;
mod outputs;
mod request;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json as value;

#[cfg(fuzzing)]
pub(crate) use self::body::Coding;
#[cfg(fuzzing)]
use self::body::Parts;
use self::body::Received;
use self::request::Asked;
use super::super::Service;
use super::super::camera::Camera;
use super::super::model::{Model, NoModel};
use super::super::scorer::{Answer, Failure, Input};
use super::asked::InPath;
use super::score::answer;
use super::{Problem, in_turn, json, watching};

/// The model that an address names.
#[derive(Deserialize)]
pub(super) struct Target {
    model: String,
    version: Option<String>,
}

pub(super) async fn server() -> Response {
    json(StatusCode::OK, &describe::server())
}

pub(super) async fn live() -> Response {
    json(StatusCode::OK, &value!({"live": true}))
}

/// Without a model the protocol has nothing to offer, unlike the service, which has a page.
pub(super) async fn server_ready(state: State<Arc<Service>>) -> Result<Response, Problem> {
    if state.cameras.iter().all(|camera| camera.model.load().is_none()) {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, NoModel));
    }
    watching::ready(state).await?;
    Ok(json(StatusCode::OK, &value!({"ready": true})))
}

/// Whether images can be scored with this model. This needs no token, so that an error must not reveal the right name.
pub(super) async fn ready(state: State<Arc<Service>>, InPath(target): InPath<Target>) -> Result<Response, Problem> {
    let (camera, _) = known(&state, &target).map_err(|problem| {
        if problem.0 != StatusCode::NOT_FOUND {
            return problem;
        }
        let reason = match &target.version {
            None => "there is no model of this name",
            Some(_) => "there is no model of this name and version",
        };
        Problem::new(StatusCode::NOT_FOUND, reason)
    })?;
    watching::ready(state).await?;
    if !camera.lane.is_working() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, Failure::GivenUp));
    }
    Ok(json(StatusCode::OK, &value!({"name": target.model, "ready": true})))
}

pub(super) async fn model(
    State(service): State<Arc<Service>>,
    InPath(target): InPath<Target>,
) -> Result<Response, Problem> {
    let (_, model) = known(&service, &target)?;
    Ok(json(StatusCode::OK, &describe::metadata(&target.model, &model)))
}

pub(super) async fn config(
    State(service): State<Arc<Service>>,
    InPath(target): InPath<Target>,
) -> Result<Response, Problem> {
    let (_, model) = known(&service, &target)?;
    Ok(json(StatusCode::OK, &describe::config(&target.model, &model)))
}

/// Triton's clients request it. The counters of the service are of another kind, without a time for each phase.
pub(super) async fn statistics(
    State(service): State<Arc<Service>>,
    InPath(target): InPath<Target>,
) -> Result<Response, Problem> {
    known(&service, &target)?;
    Err(Problem::new(
        StatusCode::NOT_IMPLEMENTED,
        "the service does not serve `statistics`; its counters are at /metrics",
    ))
}

/// The model of a request. Its name is that of its camera; for a single camera, the name of its file in the settings,
/// without the extension, is also accepted. Its version is the file's checksum.
///
/// # Errors
/// 404 for another name or version, 503 if the camera has no model yet.
fn known(service: &Service, target: &Target) -> Result<(Arc<Camera>, Arc<Model>), Problem> {
    let only = service.only_camera();
    let file = only.map(|camera| match &camera.config.model {
        Some(file) => file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("model"),
        None => camera.config.name.as_str(),
    });
    let camera = service.camera(&target.model).or(only.filter(|_| file == Some(target.model.as_str())));
    let Some(camera) = camera else {
        let reason = match file {
            Some(file) => format!("there is no model of this name; the only one is `{file}`"),
            None => format!("there is no model of this name; models are called as their cameras: {}", service.names()),
        };
        return Err(Problem::new(StatusCode::NOT_FOUND, reason));
    };
    let model = camera.model.load_full().ok_or_else(|| Problem::new(StatusCode::SERVICE_UNAVAILABLE, NoModel))?;
    match &target.version {
        Some(version) if *version != model.digest => {
            let reason = format!("there is no version `{version}` of this model; the only one is `{}`", model.digest);
            Err(Problem::new(StatusCode::NOT_FOUND, reason))
        }
        _ => Ok((Arc::clone(camera), model)),
    }
}

pub(super) async fn infer(
    State(service): State<Arc<Service>>,
    InPath(target): InPath<Target>,
    request: Request,
) -> Result<Response, Problem> {
    let (camera, model) = known(&service, &target)?;
    let received = Received::from(request, service.config.max_body).await?;
    let of = Arc::clone(&model);
    // Takes up to tenths of a second, and several times the memory of the request.
    let parse = move || Asked::parse(&received.parts()?, of.detector.contract());
    let asked = in_turn(&service.parsing, parse).await??;
    // All are queued at once, so that they are scored together.
    let waiting: Vec<_> = asked.images().map(|image| answer(&camera, Input::Prepared(image))).collect();
    let mut answers = Vec::with_capacity(waiting.len());
    for one in waiting {
        answers.push(one.await);
    }
    let answers = answers.into_iter().collect::<Result<Vec<Answer>, Problem>>()?;
    one_version(&model.digest, answers.iter().map(|answer| answer.model.digest.as_str()))?;
    outputs::response((&target.model, &model.digest), asked.id.as_deref(), &asked.outputs, &answers)
}

/// Refuses scores of a model other than that against which the request was checked, if it was exchanged meanwhile.
fn one_version<'a>(asked: &str, mut found: impl Iterator<Item = &'a str>) -> Result<(), Problem> {
    if found.all(|version| version == asked) {
        return Ok(());
    }
    let reason = "the model was exchanged while this request was scored; send it again";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason))
}

/// Parses the images of a request, for the fuzz targets.
#[cfg(fuzzing)]
pub(crate) fn images(
    body: axum::body::Bytes,
    coding: Option<Coding>,
    length: Option<usize>,
    limit: usize,
    contract: &nae_core::contract::Contract,
) -> Result<Vec<Vec<f32>>, u16> {
    let images = |parts: Parts| Ok(Asked::parse(&parts, contract)?.images().collect());
    Parts::read(body, coding, length, limit).and_then(images).map_err(|problem| problem.0.as_u16())
}

#[cfg(test)]
mod tests {
    use super::one_version;

    #[test]
    fn scores_of_an_exchanged_model_are_refused() {
        assert!(one_version("a", ["a", "a"].into_iter()).is_ok());
        for found in [["b", "b"], ["a", "b"]] {
            assert_eq!(one_version("a", found.into_iter()).unwrap_err().0, 503);
        }
    }
}
