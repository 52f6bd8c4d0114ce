//! What one may look at: state, history, alarms, pictures, health, metrics. Nothing here changes anything.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use nae_core::drift::Drift;
use serde::Serialize;
use serde_json::value::Value;

use super::super::Service;
use super::super::monitor::HISTORY;
use super::super::pictures::{Kind, media_type, picture};
use super::super::source::SourceState;
use super::{Problem, json, query, typed};

/// Slices of a history.
const SLICES: usize = 600;
/// Alarms shown.
const ALARMS: usize = 50;

#[derive(Serialize)]
struct Summary {
    source: String,
    source_state: &'static str,
    source_reason: Option<String>,
    alarm: bool,
    drift: Drift,
    threshold: Option<f32>,
    false_positive_rate: Option<f32>,
    /// The smallest false-positive rate that the calibration gives a threshold for.
    smallest_rate: Option<f32>,
    latest: Option<Latest>,
    model: String,
    card: Vec<(&'static str, String)>,
    version: &'static str,
}

/// The last frame.
#[derive(Serialize)]
struct Latest {
    number: u64,
    energy: f32,
    p_value: Option<f32>,
    anomaly: bool,
    name: Option<String>,
}

pub(super) async fn state(State(service): State<Arc<Service>>) -> Response {
    let model = service.model.load();
    let (alarm, drift) = service.monitor.alarm_and_drift();
    let source_state = service.monitor.source();
    let calibration = model.detector.contract().calibration();
    json(
        StatusCode::OK,
        &Summary {
            source: service.config.source.address.to_string(),
            source_state: source_state.name(),
            source_reason: match source_state {
                SourceState::Lost(reason) => Some(reason),
                _ => None,
            },
            alarm,
            drift,
            threshold: model.detector.threshold(),
            false_positive_rate: model.false_positive_rate(),
            smallest_rate: calibration.map(|c| 1.0 / (c.count() as f32 + 1.0)),
            latest: service.monitor.latest().map(|shown| Latest {
                number: shown.number,
                energy: shown.scored.energy,
                p_value: shown.scored.p_value,
                anomaly: shown.scored.verdict.is_some_and(|v| v.is_anomaly()),
                name: shown.name.clone(),
            }),
            model: model.digest.clone(),
            card: model.card.clone(),
            version: env!("CARGO_PKG_VERSION"),
        },
    )
}

/// `?seconds=`: how far back, an hour at most.
pub(super) async fn history(State(service): State<Arc<Service>>, RawQuery(text): RawQuery) -> Response {
    let span = query(text.as_deref(), "seconds").and_then(|s| s.parse::<u64>().ok()).map(Duration::from_secs);
    let span = span.unwrap_or(HISTORY).clamp(Duration::from_secs(1), HISTORY);
    json(StatusCode::OK, &service.monitor.history(span, SLICES))
}

/// `?false_positive_rate=`: what the last hour would have been.
pub(super) async fn what_if(
    State(service): State<Arc<Service>>,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    let wrong = |reason: &dyn std::fmt::Display| Problem::new(StatusCode::BAD_REQUEST, reason);
    let rate: f32 = query(text.as_deref(), "false_positive_rate")
        .and_then(|rate| rate.parse().ok())
        .ok_or_else(|| wrong(&"expected ?false_positive_rate=, above 0 and below 1"))?;
    let model = service.model.load();
    let calibration = model.detector.contract().calibration();
    let calibration = calibration.ok_or_else(|| wrong(&"the model is not calibrated"))?;
    let threshold = calibration.threshold(rate).map_err(|e| wrong(&e))?;
    Ok(json(StatusCode::OK, &service.monitor.what_if(threshold)))
}

pub(super) async fn latest_image(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    latest(&service, Kind::Image)
}

pub(super) async fn latest_heat_map(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    latest(&service, Kind::HeatMap)
}

fn latest(service: &Service, kind: Kind) -> Result<Response, Problem> {
    shown(service.monitor.latest().and_then(|shown| picture(&shown, kind)))
}

pub(super) async fn alarm_image(
    State(service): State<Arc<Service>>,
    Path(number): Path<u64>,
) -> Result<Response, Problem> {
    shown(service.alarms.picture(number, Kind::Image))
}

pub(super) async fn alarm_heat_map(
    State(service): State<Arc<Service>>,
    Path(number): Path<u64>,
) -> Result<Response, Problem> {
    shown(service.alarms.picture(number, Kind::HeatMap))
}

fn shown(picture: Option<axum::body::Bytes>) -> Result<Response, Problem> {
    let picture = picture.and_then(|picture| Some((media_type(&picture)?, picture)));
    let (kind, picture) = picture.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "there is no such picture"))?;
    Ok(typed(kind, picture))
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    alarm: Value,
    has_picture: bool,
}

pub(super) async fn alarms(State(service): State<Arc<Service>>) -> Response {
    let alarms = service.alarms.recent(ALARMS).into_iter();
    let listed =
        alarms.filter_map(|(text, has_picture)| Some(Listed { alarm: serde_json::from_str(&text).ok()?, has_picture }));
    json(StatusCode::OK, &listed.collect::<Vec<_>>())
}

/// The process runs.
pub(super) async fn healthy() -> Response {
    json(StatusCode::OK, &Value::from("alive"))
}

/// Images can be scored.
pub(super) async fn ready(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    if *service.stopping.borrow() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the service is stopping"));
    }
    if !service.scorer.is_working() {
        let reason = "the backend does not return: every thread that scores is lost";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason));
    }
    Ok(json(StatusCode::OK, &Value::from("ready")))
}

/// For Prometheus.
pub(super) async fn metrics(State(service): State<Arc<Service>>) -> Response {
    service.metrics.waiting.set((service.scorer.waiting() + service.frames.len()) as i64);
    service.metrics.stuck.set(service.scorer.stuck() as i64);
    service.alarms.measure();
    typed("application/openmetrics-text; version=1.0.0; charset=utf-8", service.metrics.text())
}
