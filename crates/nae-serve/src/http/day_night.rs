//! Day and night at a camera, over HTTP: shows the condition and the rule, sets another rule, and restores that of the
//! settings. The rules are in `day_night`.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::super::camera::Camera;
use super::super::day_night::{Condition, DayNightState, Light, Origin, Rule, RuleText};
use super::asked::OfAddress;
use super::changes::{Nothing, change, read};
use super::{Problem, json};

/// The state of day and night, and their models.
#[derive(Serialize)]
struct Told {
    /// `None` if the two are not distinguished.
    rule: Option<RuleText>,
    from: Option<Origin>,
    now: Option<DayNightState>,
    /// The light of the last measured frame.
    light: Option<Light>,
    /// The digests of the models; `None` for a condition without one.
    models: Models,
}

#[derive(Serialize)]
struct Models {
    day: Option<String>,
    night: Option<String>,
}

fn told(camera: &Camera) -> Response {
    let (rule, from) = camera.day_night.rule().map(|(rule, from)| (rule.text(), from)).unzip();
    let digest = |condition| camera.in_use.of(condition).map(|model| model.digest.clone());
    let models = Models { day: digest(Condition::Day), night: digest(Condition::Night) };
    json(StatusCode::OK, &Told { rule, from, now: camera.in_use.day_night(), light: camera.day_night.light(), models })
}

pub(super) async fn day_night(OfAddress(camera): OfAddress) -> Response {
    told(&camera)
}

pub(super) async fn set(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let rule: RuleText = read(request).await?;
    let rule = Rule::try_from(rule).map_err(|wrong| Problem::new(StatusCode::BAD_REQUEST, wrong))?;
    change(Arc::clone(&camera), move |camera| camera.set_day_night(Some(rule))).await?;
    Ok(told(&camera))
}

pub(super) async fn reset(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Nothing {} = read(request).await?;
    change(Arc::clone(&camera), |camera| camera.set_day_night(None)).await?;
    Ok(told(&camera))
}
