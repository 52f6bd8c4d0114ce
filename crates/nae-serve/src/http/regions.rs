//! The regions of a camera that its model sees, over HTTP: shows the regions in use, sets others, and restores those of
//! the settings. Their meaning is in `regions`.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::super::camera::Camera;
use super::super::regions::{Origin, Regions, Wanted};
use super::asked::OfAddress;
use super::changes::{Nothing, change, read, read_up_to};
use super::{Problem, json, with};

/// The maximum size of a list in bytes: the maximum number of vertices with all digits of a double.
const LIMIT: usize = 1 << 17;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    regions: Vec<Wanted>,
}

/// The regions in use.
#[derive(Serialize)]
struct InUse<'a> {
    regions: &'a Regions,
    from: Origin,
    /// The digest by which an alarm refers to the regions.
    digest: &'a str,
    /// The advice if the model in use was trained on frames of other regions.
    warning: Option<&'static str>,
}

async fn in_use(camera: Arc<Camera>) -> Result<Response, Problem> {
    // Waits while regions, or the state of learning, are written to the disk.
    let told = |camera: &Camera| {
        let applied = camera.sight.applied();
        let (from, warning) = (camera.sight.origin(), camera.regions_warning());
        json(StatusCode::OK, &InUse { regions: applied.regions(), from, digest: applied.digest(), warning })
    };
    with(camera, told).await
}

pub(super) async fn regions(OfAddress(camera): OfAddress) -> Result<Response, Problem> {
    in_use(camera).await
}

pub(super) async fn set(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Asked { regions } = read_up_to(request, LIMIT).await?;
    let regions = Regions::new(regions).map_err(|wrong| Problem::new(StatusCode::BAD_REQUEST, wrong))?;
    change(Arc::clone(&camera), move |camera| camera.set_regions(Some(regions))).await?;
    in_use(camera).await
}

pub(super) async fn reset(OfAddress(camera): OfAddress, request: Request) -> Result<Response, Problem> {
    let Nothing {} = read(request).await?;
    change(Arc::clone(&camera), |camera| camera.set_regions(None)).await?;
    in_use(camera).await
}
