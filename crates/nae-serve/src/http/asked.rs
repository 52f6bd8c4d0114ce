//! Determines the camera of a request: the one in its address, the one of `?camera=`, or the single one; which of its two
//! models, if it has one for the night; and what else is in the address.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::super::Service;
use super::super::camera::Camera;
use super::super::day_night::Condition;
use super::{Problem, query};

/// The camera of an address: `/api/cameras/CAMERA/…`, or `/api/…` if there is only one.
pub(super) struct OfAddress(pub(super) Arc<Camera>);

/// The camera of `?camera=CAMERA`, which is optional if there is only one.
pub(super) struct OfQuery(pub(super) Arc<Camera>);

impl FromRequestParts<Arc<Service>> for OfAddress {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, service).await;
        let params = params.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error))?;
        if let Some((_, name)) = params.iter().find(|(key, _)| *key == "camera") {
            return named(service, name).map(Self);
        }
        let only = service.only_camera().cloned().ok_or_else(|| {
            let rest = parts.uri.path().trim_start_matches("/api");
            let reason = format!(
                "there are {} cameras: ask for /api/cameras/CAMERA{rest}, where CAMERA is one of {}",
                service.cameras.len(),
                service.names()
            );
            Problem::new(StatusCode::NOT_FOUND, reason)
        });
        only.map(Self)
    }
}

impl FromRequestParts<Arc<Service>> for OfQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        if let Some(name) = query(parts.uri.query(), "camera") {
            return named(service, name).map(Self);
        }
        let only = service.only_camera().cloned().ok_or_else(|| {
            let reason = format!(
                "there are {} cameras: say whose model it is for by {}?camera=CAMERA, where CAMERA is one of {}",
                service.cameras.len(),
                parts.uri.path(),
                service.names()
            );
            Problem::new(StatusCode::BAD_REQUEST, reason)
        });
        only.map(Self)
    }
}

/// The camera of an address, and the condition whose model is meant: that of `?condition=night`, else the day.
pub(super) struct OfCondition(pub(super) Arc<Camera>, pub(super) Condition);

impl FromRequestParts<Arc<Service>> for OfCondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        let OfAddress(camera) = OfAddress::from_request_parts(parts, service).await?;
        let condition = match query(parts.uri.query(), "condition") {
            None | Some("day") => Condition::Day,
            Some("night") if camera.day_night.rule().is_some() => Condition::Night,
            Some("night") => {
                let reason = "this camera does not tell day from night: say by what it is to (`/api/day-night`), then a model of the \
                              night has a use";
                return Err(Problem::new(StatusCode::CONFLICT, reason));
            }
            Some(_) => {
                let reason = "`condition`: expected `day` or `night`";
                return Err(Problem::new(StatusCode::BAD_REQUEST, reason));
            }
        };
        Ok(Self(camera, condition))
    }
}

/// The parameters in an address.
pub(super) struct InPath<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Path::<T>::from_request_parts(parts, state).await;
        // axum's own answer is plain text.
        found.map(|Path(value)| Self(value)).map_err(|error| Problem::new(error.status(), error.body_text()))
    }
}

/// The camera with this name.
pub(super) fn named(service: &Service, name: &str) -> Result<Arc<Camera>, Problem> {
    let reason = || format!("there is no camera of this name; there are {}", service.names());
    service.camera(name).cloned().ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, reason()))
}
