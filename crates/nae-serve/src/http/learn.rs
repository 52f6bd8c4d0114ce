//! Learning at a camera, over HTTP: its state, the frames, and the actions. Each action is a POST whose last part is
//! its name; the answer is the state of learning after it. `?condition=night` selects the model of the night. The
//! actions, and when they are permitted, are in `learn`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;

use super::super::Service;
use super::super::camera::{Camera, SwapError};
use super::super::day_night::Condition;
use super::super::learn::{APART, Collecting, LearnError};
use super::super::pictures::small_jpeg;
use super::asked::{InPath, OfCondition};
use super::changes::{Nothing, has_type, read};
use super::watching::{SLICES, past_span};
use super::{Problem, body, drawn, json, query, shown, typed, with};

/// The default number of frames of a page, and the maximum.
const PAGE: usize = 60;
const MOST_LISTED: usize = 1000;
/// The default number of frames that are collected, and the maximum.
const USUAL_FRAMES: usize = 2000;
const MOST_FRAMES: usize = 20_000;
/// The maximum time for training or collecting, in minutes.
const MOST_MINUTES: f64 = 7.0 * 24.0 * 60.0;
/// The maximum width and height of a thumbnail, in pixels.
const THUMBNAIL: (u32, u32) = (160, 120);
/// The number of pieces of a download that may wait.
const PIECES: usize = 4;

/// The content security policy of a report: a browser may only show it. It contains its own styles and pictures, and no
/// scripts.
pub(super) const REPORT_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// Runs an action, and answers with the state of learning.
async fn act(
    camera: Arc<Camera>,
    of: Condition,
    make: impl FnOnce(&Camera) -> Result<(), SwapError> + Send + 'static,
) -> Result<Response, Problem> {
    let acted = move |camera: &Camera| {
        make(camera).map_err(|error| {
            tracing::warn!(%error, "an action of learning was refused");
            Problem::new(status_of(&error), error)
        })?;
        Ok(json(StatusCode::OK, &camera.of(of).learn.status()))
    };
    with(camera, acted).await?
}

/// Runs an action without settings.
async fn act_simply(
    camera: Arc<Camera>,
    of: Condition,
    request: Request,
    make: impl FnOnce(&Camera) -> Result<(), SwapError> + Send + 'static,
) -> Result<Response, Problem> {
    let Nothing {} = read(request).await?;
    act(camera, of, make).await
}

fn status_of(error: &SwapError) -> StatusCode {
    match error {
        SwapError::Learn(LearnError::Model(_)) => StatusCode::UNPROCESSABLE_ENTITY,
        SwapError::Learn(LearnError::Disk(_)) => StatusCode::INSUFFICIENT_STORAGE,
        SwapError::Learn(LearnError::Refused(_) | LearnError::Missing(_)) | SwapError::Change(_) => {
            StatusCode::CONFLICT
        }
    }
}

pub(super) async fn status(OfCondition(camera, of): OfCondition) -> Result<Response, Problem> {
    with(camera, move |camera| json(StatusCode::OK, &camera.of(of).learn.status())).await
}

/// `?from=`, `&count=`: the frames from this number on.
pub(super) async fn frames(
    OfCondition(camera, of): OfCondition,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    let number = |name| query(text.as_deref(), name).and_then(|value| value.parse::<u32>().ok());
    let count = number("count").map_or(PAGE, |count| count as usize).min(MOST_LISTED);
    let from = number("from").unwrap_or(0);
    // Waits while a frame is written to the disk.
    with(camera, move |camera| json(StatusCode::OK, &camera.of(of).learn.frames(from, count))).await
}

/// The number of a frame in an address, possibly after a camera's name.
#[derive(Deserialize)]
pub(super) struct Numbered {
    number: u32,
}

pub(super) async fn image(
    OfCondition(camera, of): OfCondition,
    InPath(Numbered { number }): InPath<Numbered>,
) -> Result<Response, Problem> {
    shown(with(camera, move |camera| camera.of(of).learn.frame(number)).await?)
}

pub(super) async fn thumbnail(
    State(service): State<Arc<Service>>,
    OfCondition(camera, of): OfCondition,
    InPath(Numbered { number }): InPath<Numbered>,
) -> Result<Response, Problem> {
    let small = move |camera: &Camera| small_jpeg(&camera.of(of).learn.frame(number)?, THUMBNAIL).map(Into::into);
    shown(drawn(&service, move || camera.span.in_scope(|| small(&camera))).await?)
}

/// All frames to train on, as a tar file.
pub(super) async fn archive(OfCondition(camera, of): OfCondition) -> Response {
    let (sender, pieces) = channel(PIECES);
    let runtime = Handle::current();
    // Ends when everything was sent or the client has disconnected.
    drop(tokio::task::spawn_blocking(move || {
        camera.span.in_scope(|| camera.of(of).learn.send_frames(sender, &runtime))
    }));
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"frames.tar\""),
    ];
    (headers, Body::from_stream(ReceiverStream::new(pieces))).into_response()
}

pub(super) async fn report(OfCondition(camera, of): OfCondition) -> Result<Response, Problem> {
    let report = with(camera, move |camera| camera.of(of).learn.report()).await?;
    let report = report.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "there is no report of a training here"))?;
    let mut response = typed("text/html; charset=utf-8", report);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPORT_POLICY));
    Ok(response)
}

/// `?seconds=`: energies of the model that is tested beside the one in use, at most an hour back.
pub(super) async fn energies(
    OfCondition(camera, of): OfCondition,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    let span = past_span(text.as_deref());
    with(camera, move |camera| json(StatusCode::OK, &camera.of(of).learn.shadow_slices(span, SLICES))).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Collect {
    /// If missing, collecting continues until it is stopped.
    minutes: Option<f64>,
    frames: Option<usize>,
    min_distance: Option<f32>,
}

/// Checks that a number is in a range.
fn within<T: PartialOrd + std::fmt::Display>(name: &str, value: T, low: T, high: T) -> Result<T, Problem> {
    if value >= low && value <= high {
        return Ok(value);
    }
    let reason = format!("`{name}`: expected a number from {low} to {high}, found {value}");
    Err(Problem::new(StatusCode::BAD_REQUEST, reason))
}

pub(super) async fn collect(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    let Collect { minutes, frames, min_distance } = read(request).await?;
    let minutes = minutes.map(|minutes| within("minutes", minutes, 0.01, MOST_MINUTES)).transpose()?;
    let settings = Collecting {
        left: minutes.map(|minutes| 60.0 * minutes),
        most: within("frames", frames.unwrap_or(USUAL_FRAMES), 1, MOST_FRAMES)?,
        min_distance: within("min_distance", min_distance.unwrap_or(APART), 0.0, 255.0)?,
    };
    act(camera, of, move |camera| Ok(camera.of(of).learn.collect(settings)?)).await
}

pub(super) async fn stop(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    act_simply(camera, of, request, move |camera| Ok(camera.of(of).learn.stop_collecting()?)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbers {
    frames: Vec<u32>,
}

pub(super) async fn throw_out(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    let Numbers { frames } = read(request).await?;
    act(camera, of, move |camera| Ok(camera.of(of).learn.throw_out(&frames, true)?)).await
}

pub(super) async fn bring_back(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    let Numbers { frames } = read(request).await?;
    act(camera, of, move |camera| Ok(camera.of(of).learn.throw_out(&frames, false)?)).await
}

pub(super) async fn delete(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    act_simply(camera, of, request, move |camera| Ok(camera.of(of).learn.delete()?)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Train {
    minutes: f64,
}

pub(super) async fn train(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    let Train { minutes } = read(request).await?;
    let seconds = 60.0 * within("minutes", minutes, 0.05, MOST_MINUTES)?;
    act(camera, of, move |camera| Ok(camera.of(of).learn.train(seconds)?)).await
}

pub(super) async fn cancel(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    act_simply(camera, of, request, move |camera| Ok(camera.of(of).learn.cancel()?)).await
}

/// Takes the bytes of a model file; a form on another site's page cannot send this type.
pub(super) async fn take_model(
    State(service): State<Arc<Service>>,
    OfCondition(camera, of): OfCondition,
    request: Request,
) -> Result<Response, Problem> {
    has_type(&request, "application/octet-stream")?;
    let bytes = body(request, service.config.max_body).await?;
    act(camera, of, move |camera| Ok(camera.of(of).learn.take_model(&bytes)?)).await
}

pub(super) async fn shadow(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    act_simply(camera, of, request, move |camera| Ok(camera.of(of).learn.start_shadowing()?)).await
}

pub(super) async fn end_shadow(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    act_simply(camera, of, request, move |camera| Ok(camera.of(of).learn.end_shadowing()?)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Swap {
    /// Whether to take the model even if it calls frames anomalies that the model in use calls normal.
    #[serde(default)]
    anyway: bool,
}

pub(super) async fn swap(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    let Swap { anyway } = read(request).await?;
    act(camera, of, move |camera| camera.swap(of, anyway)).await
}

pub(super) async fn roll_back(OfCondition(camera, of): OfCondition, request: Request) -> Result<Response, Problem> {
    act_simply(camera, of, request, move |camera| camera.roll_back(of)).await
}
