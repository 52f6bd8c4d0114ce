//! Changes of a camera: threshold, calibration, model, and whether alarms are raised. All are POSTs of
//! `application/json`, which a form on another site's page cannot send.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::camera::Camera;
use super::super::keeper::ChangeError;
use super::super::quiet::{AlarmState, LONGEST};
use super::asked::OfAddress;
use super::{Problem, body, json, with};

/// The default limit for the size of a request, in bytes.
const LIMIT: usize = 1 << 16;
/// The shortest snooze, in minutes.
const SHORTEST: f64 = 0.01;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    false_positive_rate: f32,
}

/// An interval of the past: `from` seconds ago to `to` seconds ago.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    from: f64,
    #[serde(default)]
    to: f64,
}

/// Without a length, the pause lasts until alarms are resumed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {
    #[serde(default)]
    minutes: Option<f64>,
}

/// The body of an action without settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Parses the JSON of a request.
pub(super) async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    read_up_to(request, LIMIT).await
}

/// Checks the media type of a request, which a form on another site's page must not be able to send. The case does not
/// matter, nor do parameters (RFC 9110, 8.3.1).
pub(super) fn has_type(request: &Request, expected: &str) -> Result<(), Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("expected content-type: {expected}")))
}

/// Parses the JSON of a request of at most `limit` bytes.
pub(super) async fn read_up_to<T: DeserializeOwned>(request: Request, limit: usize) -> Result<T, Problem> {
    has_type(&request, "application/json")?;
    let bytes: Bytes = body(request, limit).await?;
    serde_json::from_slice(&bytes).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error))
}

/// Makes a change on a separate thread, so that other requests are not delayed.
pub(super) async fn change<T: Send + 'static>(
    camera: Arc<Camera>,
    make: impl FnOnce(&Camera) -> Result<T, ChangeError> + Send + 'static,
) -> Result<T, Problem> {
    let span = camera.span.clone();
    with(camera, make).await?.map_err(|error| {
        let kept = matches!(error, ChangeError::Kept(_));
        let what = if kept { "a change is not kept" } else { "a change was refused" };
        span.in_scope(|| tracing::warn!(%error, "{what}"));
        let status = if kept { StatusCode::INSUFFICIENT_STORAGE } else { StatusCode::CONFLICT };
        Problem::new(status, error)
    })
}

/// The state after a change.
#[derive(Serialize)]
struct Changed {
    threshold: Option<f32>,
    false_positive_rate: Option<f32>,
    /// `None` if the model was removed meanwhile.
    model: Option<String>,
}

fn done(camera: &Camera) -> Response {
    let model = camera.model.load_full();
    let model = model.as_deref();
    let threshold = model.and_then(|model| model.detector.threshold());
    let false_positive_rate = model.and_then(|model| model.false_positive_rate());
    json(StatusCode::OK, &Changed { threshold, false_positive_rate, model: model.map(|model| model.digest.clone()) })
}

/// The state of the alarms after a change.
#[derive(Serialize)]
struct Attention {
    alarms: AlarmState,
}

pub(super) async fn adjustments(OfAddress(camera): OfAddress) -> Result<Response, Problem> {
    with(camera, |camera| json(StatusCode::OK, &camera.adjustments())).await
}

pub(super) async fn false_positive_rate(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Rate { false_positive_rate } = read(request).await?;
    change(Arc::clone(&camera), move |camera| camera.of_in_use().keeper.set_rate(false_positive_rate)).await?;
    Ok(done(&camera))
}

pub(super) async fn recalibrate(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Span { from, to } = read(request).await?;
    if !(to >= 0.0 && from > to) {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "expected `from` seconds ago before `to` seconds ago"));
    }
    change(Arc::clone(&camera), move |camera| camera.of_in_use().keeper.recalibrate(from, to)).await?;
    Ok(done(&camera))
}

pub(super) async fn undo(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Nothing {} = read(request).await?;
    change(Arc::clone(&camera), |camera| camera.of_in_use().keeper.undo()).await?;
    Ok(done(&camera))
}

pub(super) async fn reload(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Nothing {} = read(request).await?;
    change(Arc::clone(&camera), Camera::reload).await?;
    Ok(done(&camera))
}

pub(super) async fn pause(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Pause { minutes } = read(request).await?;
    let longest = LONGEST.as_secs_f64() / 60.0;
    if let Some(minutes) = minutes.filter(|minutes| !(SHORTEST..=longest).contains(minutes)) {
        let reason = format!(
            "`minutes`: expected a number from {SHORTEST} to {longest} (7 days), found {minutes}; without it, alarms are paused \
             until they are resumed"
        );
        return Err(Problem::new(StatusCode::BAD_REQUEST, reason));
    }
    let length = minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    change(Arc::clone(&camera), move |camera| camera.pause(length)).await?;
    Ok(json(StatusCode::OK, &Attention { alarms: camera.monitor.alarms() }))
}

pub(super) async fn resume(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Nothing {} = read(request).await?;
    change(Arc::clone(&camera), Camera::resume).await?;
    Ok(json(StatusCode::OK, &Attention { alarms: camera.monitor.alarms() }))
}
