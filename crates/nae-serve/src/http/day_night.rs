//! Whether it is day or night at a camera, over HTTP: how it is and by what that is told, another rule in its place, and back to that
//! of the settings. What the rules are is in `day_night`.

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

/// Day and night, and their models.
#[derive(Serialize)]
struct Told {
    /// None where the two are not told apart.
    rule: Option<RuleText>,
    from: Option<Origin>,
    now: Option<DayNightState>,
    /// Of the last frame that was looked at for it.
    light: Option<Light>,
    /// What the model of each is known by; none where there is none.
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
