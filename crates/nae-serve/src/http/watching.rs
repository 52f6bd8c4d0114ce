//! Read access: the cameras and the state, history, alarms and pictures of each; health, metrics. Nothing here changes
//! anything.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use nae_core::drift::Drift;
use serde::{Deserialize, Serialize};
use serde_json::value::Value;

use super::super::Service;
use super::super::camera::Camera;
use super::super::camera_name::CameraName;
use super::super::day_night::DayNightState;
use super::super::history::HISTORY;
use super::super::model::NoModel;
use super::super::pictures::{Kind, picture, thumbnail, whole};
use super::super::quiet::AlarmState;
use super::super::shown::Latest as LastFrame;
use super::super::source::SourceState;
use super::super::tokens::Role;
use super::asked::{InPath, OfAddress};
use super::{Problem, apart, drawn, json, query, shown, typed, with};

/// The number of slices of the energies of the last hour, or less.
pub(super) const SLICES: usize = 600;
/// The number of alarms in an answer.
const ALARMS: usize = 50;

/// A camera in the list of all.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a CameraName,
    source: String,
    source_state: &'static str,
    source_reason: Option<String>,
    /// The digest of its model; `None` if it has none yet.
    model: Option<String>,
    /// Whether there is a model that was not given up.
    scoring: bool,
    /// Why the last frame could not be scored.
    failure: Option<String>,
    energy: Option<f32>,
    threshold: Option<f32>,
    anomaly: bool,
    alarm: bool,
    /// Whether alarms are raised.
    alarms: AlarmState,
    /// The current condition, and the condition whose model is in use; `None` if day and night are not distinguished.
    day_night: Option<DayNightState>,
    drift: Drift,
    /// The number of frames since the start that were dropped for newer ones.
    dropped: u64,
    /// The number of the last frame; the next field: seconds since it was taken.
    number: Option<u64>,
    age: Option<f64>,
}

fn listed(camera: &Camera) -> Listed<'_> {
    let (alarm, drift) = camera.monitor.alarm_and_drift();
    let (source_state, source_reason) = source_state(camera);
    let (latest, model) = (camera.monitor.latest(), camera.model.load_full());
    let scored = latest.as_ref().and_then(|latest| latest.scored());
    let frame = latest.as_ref().map(|latest| latest.frame());
    Listed {
        name: &camera.config.name,
        source: camera.config.source.address.to_string(),
        source_state,
        source_reason,
        scoring: camera.lane.is_working(),
        failure: camera.monitor.failure(),
        model: model.as_ref().map(|model| model.digest.clone()),
        energy: scored.map(|shown| shown.scored.energy),
        threshold: model.as_ref().and_then(|model| model.detector.threshold()),
        anomaly: scored.is_some_and(|shown| shown.is_anomaly()),
        alarm,
        alarms: camera.monitor.alarms(),
        day_night: camera.in_use.day_night(),
        drift,
        dropped: camera.metrics.dropped.get(),
        number: frame.map(|frame| frame.number),
        age: frame.map(|frame| frame.at.elapsed().as_secs_f64()),
    }
}

/// The state of the source in one word, and the reason if it was lost.
fn source_state(camera: &Camera) -> (&'static str, Option<String>) {
    let state = camera.monitor.source();
    let name = state.name();
    match state {
        SourceState::Lost(reason) => (name, Some(reason)),
        _ => (name, None),
    }
}

pub(super) async fn cameras(State(service): State<Arc<Service>>) -> Response {
    let all = service.cameras.iter().map(|camera| listed(camera));
    json(StatusCode::OK, &all.collect::<Vec<_>>())
}

#[derive(Serialize)]
struct Summary<'a> {
    name: &'a CameraName,
    source: String,
    source_state: &'static str,
    source_reason: Option<String>,
    /// Whether there is a model that was not given up.
    scoring: bool,
    /// Why the last frame could not be scored.
    failure: Option<String>,
    alarm: bool,
    alarms: AlarmState,
    day_night: Option<DayNightState>,
    drift: Drift,
    threshold: Option<f32>,
    false_positive_rate: Option<f32>,
    /// The smallest false-positive rate for which the calibration gives a threshold.
    smallest_rate: Option<f32>,
    latest: Option<Latest>,
    /// The digest of the model; `None` if there is none yet.
    model: Option<String>,
    card: Vec<(&'static str, String)>,
    version: &'static str,
    /// Whether the client may change anything.
    may_change: bool,
}

/// The last frame.
#[derive(Serialize)]
struct Latest {
    number: u64,
    /// `None` if no model has scored it.
    energy: Option<f32>,
    p_value: Option<f32>,
    anomaly: bool,
    name: Option<String>,
}

pub(super) async fn state(OfAddress(camera): OfAddress, Extension(role): Extension<Role>) -> Response {
    let model = camera.model.load_full();
    let model = model.as_deref();
    let (alarm, drift) = camera.monitor.alarm_and_drift();
    let (source_state, source_reason) = source_state(&camera);
    let calibration = model.and_then(|model| model.detector.contract().calibration());
    json(
        StatusCode::OK,
        &Summary {
            name: &camera.config.name,
            source: camera.config.source.address.to_string(),
            source_state,
            source_reason,
            scoring: camera.lane.is_working(),
            failure: camera.monitor.failure(),
            alarm,
            alarms: camera.monitor.alarms(),
            day_night: camera.in_use.day_night(),
            drift,
            threshold: model.and_then(|model| model.detector.threshold()),
            false_positive_rate: model.and_then(|model| model.false_positive_rate()),
            smallest_rate: calibration.map(|c| 1.0 / (c.count() as f32 + 1.0)),
            latest: camera.monitor.latest().map(|latest| {
                let (frame, scored) = (latest.frame(), latest.scored());
                Latest {
                    number: frame.number,
                    energy: scored.map(|shown| shown.scored.energy),
                    p_value: scored.and_then(|shown| shown.scored.p_value),
                    anomaly: scored.is_some_and(|shown| shown.is_anomaly()),
                    name: frame.name.clone(),
                }
            }),
            model: model.map(|model| model.digest.clone()),
            card: model.map(|model| model.card.clone()).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION"),
            may_change: role.may(Role::Operate),
        },
    )
}

/// `?seconds=`: how far back energies are asked for, at most an hour, which is the default.
pub(super) fn past_span(text: Option<&str>) -> Duration {
    let span = query(text, "seconds").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    span.unwrap_or(HISTORY).clamp(Duration::from_secs(1), HISTORY)
}

/// `?seconds=`: the energies of the model in use.
pub(super) async fn history(OfAddress(camera): OfAddress, RawQuery(text): RawQuery) -> Result<Response, Problem> {
    let span = past_span(text.as_deref());
    with(camera, move |camera| json(StatusCode::OK, &camera.monitor.history(span, SLICES))).await
}

/// `?false_positive_rate=`: the counts of the last hour for another rate.
pub(super) async fn what_if(OfAddress(camera): OfAddress, RawQuery(text): RawQuery) -> Result<Response, Problem> {
    let wrong = |reason: &dyn std::fmt::Display| Problem::new(StatusCode::BAD_REQUEST, reason);
    let rate: f32 = query(text.as_deref(), "false_positive_rate")
        .and_then(|rate| rate.parse().ok())
        .ok_or_else(|| wrong(&"expected ?false_positive_rate=, above 0 and below 1"))?;
    let model = camera.model.load_full().ok_or_else(|| Problem::new(StatusCode::CONFLICT, NoModel))?;
    let calibration = model.detector.contract().calibration();
    let calibration = calibration.ok_or_else(|| wrong(&"the model is not calibrated"))?;
    let threshold = calibration.threshold(rate).map_err(|e| wrong(&e))?;
    with(camera, move |camera| json(StatusCode::OK, &camera.monitor.what_if(threshold))).await
}

pub(super) async fn latest_image(
    State(service): State<Arc<Service>>,
    OfAddress(camera): OfAddress,
) -> Result<Response, Problem> {
    of_latest(&service, &camera, |latest| whole(&latest.frame().image)).await
}

pub(super) async fn latest_heat_map(
    State(service): State<Arc<Service>>,
    OfAddress(camera): OfAddress,
) -> Result<Response, Problem> {
    of_latest(&service, &camera, |latest| picture(latest.scored()?, Kind::HeatMap)).await
}

/// The last frame, reduced for a page of many cameras.
pub(super) async fn latest_thumbnail(
    State(service): State<Arc<Service>>,
    OfAddress(camera): OfAddress,
) -> Result<Response, Problem> {
    of_latest(&service, &camera, |latest| thumbnail(&latest.frame().image)).await
}

/// A picture of the last frame.
async fn of_latest(
    service: &Service,
    camera: &Camera,
    draw: fn(&LastFrame) -> Option<Bytes>,
) -> Result<Response, Problem> {
    let latest = camera.monitor.latest();
    shown(drawn(service, move || draw(&latest?)).await?)
}

pub(super) async fn alarm_image(
    OfAddress(camera): OfAddress,
    InPath(Numbered { number }): InPath<Numbered>,
) -> Result<Response, Problem> {
    shown(apart(move || camera.alarms.picture(number, Kind::Image)).await?)
}

pub(super) async fn alarm_heat_map(
    OfAddress(camera): OfAddress,
    InPath(Numbered { number }): InPath<Numbered>,
) -> Result<Response, Problem> {
    shown(apart(move || camera.alarms.picture(number, Kind::HeatMap)).await?)
}

/// The number of an alarm in an address, possibly after a camera's name.
#[derive(Deserialize)]
pub(super) struct Numbered {
    number: u64,
}

#[derive(Serialize)]
struct AlarmListed {
    #[serde(flatten)]
    alarm: Value,
    has_picture: bool,
}

pub(super) async fn alarms(OfAddress(camera): OfAddress) -> Result<Response, Problem> {
    // Waits while an alarm is written to the disk.
    let alarms = apart(move || camera.alarms.recent(ALARMS)).await?;
    let listed = alarms
        .into_iter()
        .filter_map(|(text, has_picture)| Some(AlarmListed { alarm: serde_json::from_str(&text).ok()?, has_picture }));
    Ok(json(StatusCode::OK, &listed.collect::<Vec<_>>()))
}

/// The process is running.
pub(super) async fn healthy() -> Response {
    json(StatusCode::OK, &Value::from("alive"))
}

/// Whether images of any camera with a model can be scored. A camera that is lost, or whose model hangs, does not
/// count: a restart of the process for it would interrupt the others. A camera without a model does not count either:
/// some proxies keep browsers from a service that is not ready, and a model is learned on its page.
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
pub(super) async fn metrics(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    // Waits while an alarm is written to the disk.
    let text = apart(move || {
        service.cameras.iter().for_each(|camera| camera.measure());
        service.metrics.text()
    });
    Ok(typed("application/openmetrics-text; version=1.0.0; charset=utf-8", text.await?))
}
