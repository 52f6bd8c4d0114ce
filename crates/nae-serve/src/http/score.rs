//! `POST /score`: scores an image with a camera's model.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use nae_core::verdict::Verdict;
use nae_infer::Scored;
use nae_infer::heat_map::HeatMap;
use serde::Serialize;
use tokio::sync::oneshot;

use super::super::Service;
use super::super::camera::Camera;
use super::super::metrics::Origin;
use super::super::pictures::overlay;
use super::super::regions::Applied;
use super::super::scorer::{Answer, Failure, Input};
use super::asked::OfQuery;
use super::{Problem, body, drawn, in_turn, json, query, typed};

/// The maximum number of regions in an answer.
const REGIONS: usize = 16;
/// The ratio of a pixel's error to the threshold above which the pixel belongs to a region.
const BRIGHT: f32 = 4.0;

#[derive(Serialize)]
struct Score<'a> {
    energy: f32,
    p_value: Option<f32>,
    verdict: Option<Verdict>,
    threshold: Option<f32>,
    model: &'a str,
    /// Where the energy is concentrated: pixels above [`BRIGHT`] times the threshold, with adjacent ones joined.
    regions: Vec<Region>,
}

/// In fractions of the image's width and height, so that they do not depend on the image's size.
#[derive(Serialize)]
struct Region {
    left: f32,
    top: f32,
    width: f32,
    height: f32,
}

/// Reads the image of a request. Its header may be megabytes long, and the threads of the runtime do not wait for it.
async fn image(request: Request, service: &Service) -> Result<Bytes, Problem> {
    let image = body(request, service.config.max_body).await?;
    let (largest, measured) = (service.config.largest_image, image.clone());
    let checked = in_turn(&service.measuring, move || largest.check(&measured)).await?;
    checked.map_err(|error| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, error))?;
    Ok(image)
}

/// Submits an input to the camera's scorer, and waits as long as the settings permit. The input is queued when this
/// returns; if the future is dropped before its turn, it is not scored.
pub(super) fn answer(camera: &Camera, input: Input) -> impl Future<Output = Result<Answer, Problem>> {
    let started = Instant::now();
    let (sender, receiver) = oneshot::channel();
    let client = Arc::new(());
    camera.lane.request(input, Arc::downgrade(&client), move |answer| {
        // The client may have disconnected.
        let _ = sender.send(answer);
    });
    async move {
        let answered = answered(camera, started, receiver).await;
        drop(client);
        answered
    }
}

async fn answered(
    camera: &Camera,
    started: Instant,
    receiver: oneshot::Receiver<Result<Answer, Failure>>,
) -> Result<Answer, Problem> {
    let latest = started + camera.config.score_timeout;
    let answer = match tokio::time::timeout_at(latest.into(), receiver).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => {
            camera.metrics.failed(Origin::Request);
            return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "the model did not answer in time"));
        }
    };
    match answer {
        Ok(answer) => {
            let threshold = answer.model.detector.threshold();
            let seconds = started.elapsed().as_secs_f64();
            camera.metrics.scored(Origin::Request, seconds, answer.scored.energy, threshold);
            Ok(answer)
        }
        Err(failure) => {
            camera.metrics.failed(Origin::Request);
            Err(Problem::new(status(&failure), failure))
        }
    }
}

fn status(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Decode(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Failure::NothingSeen(_) | Failure::Prepare(_) => StatusCode::UNPROCESSABLE_ENTITY,
        // A non-finite image is the client's error.
        Failure::Score(nae_infer::ScoreError::Backend(_)) => StatusCode::INTERNAL_SERVER_ERROR,
        Failure::Score(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Failure::NoModel(_) | Failure::Busy | Failure::GivenUp | Failure::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    }
}

pub(super) async fn score(
    State(service): State<Arc<Service>>,
    OfQuery(camera): OfQuery,
    RawQuery(text): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let applied = asked_regions(&camera, text.as_deref())?;
    let image = image(request, &service).await?;
    let Answer { scored, model, view } = answer(&camera, Input::Image(image, applied)).await?;
    let threshold = model.detector.threshold();
    let place = view.map_or([0.0, 0.0, 1.0, 1.0], |view| view.place());
    let regions =
        scored.heat_map().zip(threshold).map_or_else(Vec::new, |(map, threshold)| regions(map, threshold, place));
    let Scored { energy, p_value, verdict, .. } = scored;
    Ok(json(StatusCode::OK, &Score { energy, p_value, verdict, threshold, model: &model.digest, regions }))
}

/// The camera's regions if `?regions=true` requests them: an image is scored whole unless its sender declares it a
/// frame of the camera.
fn asked_regions(camera: &Camera, text: Option<&str>) -> Result<Option<Arc<Applied>>, Problem> {
    match query(text, "regions") {
        None | Some("false") => Ok(None),
        Some("true") => Ok(Some(camera.sight.applied())),
        Some(_) => {
            let reason = "`regions`: expected `true`, for an image that is seen by the camera's regions, or `false`";
            Err(Problem::new(StatusCode::BAD_REQUEST, reason))
        }
    }
}

/// The energy is the mean of the map, so that a pixel is compared directly with the threshold. `place` is the position
/// of the map in the image.
fn regions(map: HeatMap<'_>, threshold: f32, place: [f32; 4]) -> Vec<Region> {
    let [left, top, across, down] = place;
    let (width, height) = (map.width() as f32 / across, map.height() as f32 / down);
    let share = |r: &nae_infer::heat_map::Region| Region {
        left: left + r.left as f32 / width,
        top: top + r.top as f32 / height,
        width: r.width as f32 / width,
        height: r.height as f32 / height,
    };
    map.regions(BRIGHT * threshold).iter().take(REGIONS).map(share).collect()
}

/// `POST /score/heat-map`: the heat map to lay over the image.
pub(super) async fn heat_map(
    State(service): State<Arc<Service>>,
    OfQuery(camera): OfQuery,
    RawQuery(text): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let applied = asked_regions(&camera, text.as_deref())?;
    let image = image(request, &service).await?;
    let Answer { scored, view, .. } = answer(&camera, Input::Image(image, applied)).await?;
    let picture = drawn(&service, move || {
        let largest = scored.heat_map().map_or(0.0, |map| map.largest());
        overlay(&scored, largest, view.as_deref())
    });
    match picture.await? {
        Some(picture) => Ok(typed("image/png", picture)),
        None => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the heat map cannot be drawn")),
    }
}
