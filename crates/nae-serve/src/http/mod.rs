//! The service over HTTP: common parts of requests and answers, and the table of addresses, which names the module of
//! each handler. `connections` accepts clients, within the number of `places` and with the time limits of `patience`;
//! `unread` handles bodies that no handler reads.

mod access;
mod asked;
mod changes;
mod connections;
mod day_night;
mod description;
mod events;
mod history;
pub(super) mod inference;
mod learn;
mod page;
mod patience;
mod places;
mod regions;
mod score;
mod unread;
mod watching;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::LengthLimitError;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::Service;
use super::camera::Camera;
use super::pictures::media_type;
use super::tokens::Role;
pub(super) use connections::serve;

/// How long a client may take to send the body of a request.
const BODY_TIME: Duration = Duration::from_secs(30);

/// An answer that describes an error.
#[derive(Debug)]
struct Problem(StatusCode, String);

impl Problem {
    fn new(status: StatusCode, reason: impl ToString) -> Self {
        Self(status, reason.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Text {
            error: String,
        }
        json(self.0, &Text { error: self.1 })
    }
}

/// An answer in JSON.
fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Runs `work`, which may take long or wait for a disk, in a thread of its own: the threads of the runtime also serve the
/// other clients and the brokers.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error))
}

/// The same for an operation on a camera; what it logs has the camera's name.
async fn with<T: Send + 'static>(
    camera: Arc<Camera>,
    make: impl FnOnce(&Camera) -> T + Send + 'static,
) -> Result<T, Problem> {
    apart(move || camera.span.in_scope(|| make(&camera))).await
}

/// The same for work of which little is done at a time: it waits for one of the `places`, and has it until it ends, also if
/// its client disconnects meanwhile.
async fn in_turn<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let place = Arc::clone(places).acquire_owned().await;
    // Cannot fail: the semaphore is never closed.
    let place = place.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error))?;
    apart(move || {
        let _until_it_ends = place;
        work()
    })
    .await
}

/// Makes a picture for a browser in a thread of its own. Few are made at a time, since each may take the memory of a whole
/// frame.
async fn drawn(
    service: &Service,
    draw: impl FnOnce() -> Option<Bytes> + Send + 'static,
) -> Result<Option<Bytes>, Problem> {
    in_turn(&service.drawing, draw).await
}

/// The answer with a picture, if there is one in a format that browsers can show.
fn shown(picture: Option<Bytes>) -> Result<Response, Problem> {
    let picture = picture.and_then(|picture| Some((media_type(&picture)?, picture)));
    let (kind, picture) = picture.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "there is no such picture"))?;
    Ok(typed(kind, picture))
}

/// The value of `name` in a query, not decoded: a caller whose values may have escapes, such as times, decodes them.
fn query<'a>(request_query: Option<&'a str>, name: &str) -> Option<&'a str> {
    request_query?.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, v)| v)
}

fn too_large(limit: usize) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the request is larger than {} KiB", limit >> 10))
}

/// Reads the body of a request, within the limits of size and time.
async fn body(request: Request, limit: usize) -> Result<Bytes, Problem> {
    // Refused before it is sent if the client announces its size.
    if request.body().size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    match tokio::time::timeout(BODY_TIME, axum::body::to_bytes(request.into_body(), limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if error.source().is_some_and(|cause| cause.is::<LengthLimitError>()) => Err(too_large(limit)),
        Ok(Err(error)) => {
            let reason = format!("the request broke off: {}", anyhow::Error::new(error).root_cause());
            Err(Problem::new(StatusCode::BAD_REQUEST, reason))
        }
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive")),
    }
}

/// The addresses for reading the state of a camera, named or single.
fn of_camera() -> Router<Arc<Service>> {
    Router::new()
        .route("/state", get(watching::state))
        .route("/history", get(watching::history))
        .route("/history.csv", get(history::csv))
        .route("/history/interval", get(history::interval))
        .route("/what-if", get(watching::what_if))
        .route("/latest/image", get(watching::latest_image))
        .route("/latest/thumbnail", get(watching::latest_thumbnail))
        .route("/latest/heat-map", get(watching::latest_heat_map))
        .route("/alarms", get(watching::alarms))
        .route("/alarms.csv", get(history::alarms_csv))
        .route("/alarms/{number}/image", get(watching::alarm_image))
        .route("/alarms/{number}/heat-map", get(watching::alarm_heat_map))
        .route("/adjustments", get(changes::adjustments))
        .route("/regions", get(regions::regions))
        .route("/day-night", get(day_night::day_night))
        .route("/learn", get(learn::status))
        .route("/learn/frames", get(learn::frames))
        .route("/learn/frames.tar", get(learn::archive))
        .route("/learn/frames/{number}/image", get(learn::image))
        .route("/learn/frames/{number}/thumbnail", get(learn::thumbnail))
        .route("/learn/report", get(learn::report))
        .route("/learn/energies", get(learn::energies))
}

/// The addresses for changing a camera.
fn changes_of_camera() -> Router<Arc<Service>> {
    Router::new()
        .route("/false-positive-rate", post(changes::false_positive_rate))
        .route("/recalibrate", post(changes::recalibrate))
        .route("/undo", post(changes::undo))
        .route("/reload", post(changes::reload))
        .route("/pause", post(changes::pause))
        .route("/resume", post(changes::resume))
        .route("/regions", post(regions::set))
        .route("/regions/reset", post(regions::reset))
        .route("/day-night", post(day_night::set))
        .route("/day-night/reset", post(day_night::reset))
        .route("/learn/collect", post(learn::collect))
        .route("/learn/stop", post(learn::stop))
        .route("/learn/throw-out", post(learn::throw_out))
        .route("/learn/bring-back", post(learn::bring_back))
        .route("/learn/delete", post(learn::delete))
        .route("/learn/train", post(learn::train))
        .route("/learn/cancel", post(learn::cancel))
        .route("/learn/take-model", post(learn::take_model))
        .route("/learn/shadow", post(learn::shadow))
        .route("/learn/end-shadow", post(learn::end_shadow))
        .route("/learn/swap", post(learn::swap))
        .route("/learn/roll-back", post(learn::roll_back))
}

/// All addresses.
fn router(service: Arc<Service>) -> Router {
    let only_for = |role| middleware::from_fn_with_state((Arc::clone(&service), role), access::check);
    let looking = Router::new()
        .route("/events", get(events::stream))
        .route("/api/cameras", get(watching::cameras))
        .nest("/api/cameras/{camera}", of_camera())
        .nest("/api", of_camera())
        .layer(only_for(Role::Look));
    let operating = Router::new()
        .nest("/api/cameras/{camera}", changes_of_camera())
        .nest("/api", changes_of_camera())
        .layer(only_for(Role::Operate));
    let scoring = Router::new()
        .route("/score", post(score::score))
        .route("/score/heat-map", post(score::heat_map))
        .route("/v2", get(inference::server))
        .route("/v2/models/{model}", get(inference::model))
        .route("/v2/models/{model}/config", get(inference::config))
        .route("/v2/models/{model}/stats", get(inference::statistics))
        .route("/v2/models/{model}/infer", post(inference::infer))
        .route("/v2/models/{model}/versions/{version}", get(inference::model))
        .route("/v2/models/{model}/versions/{version}/config", get(inference::config))
        .route("/v2/models/{model}/versions/{version}/stats", get(inference::statistics))
        .route("/v2/models/{model}/versions/{version}/infer", post(inference::infer))
        .layer(only_for(Role::Score));
    Router::new()
        .route("/", get(page::html))
        .route("/page.css", get(page::css))
        .route("/page.js", get(page::js))
        .route("/learn.js", get(page::learn_js))
        .route("/quiet.js", get(page::quiet_js))
        .route("/regions.js", get(page::regions_js))
        .route("/day-night.js", get(page::day_night_js))
        .route("/history.js", get(page::history_js))
        .route("/icon.svg", get(page::icon))
        .route("/openapi.json", get(description::openapi))
        .route("/healthz", get(watching::healthy))
        .route("/readyz", get(watching::ready))
        .route("/metrics", get(watching::metrics))
        .route("/v2/health/live", get(inference::live))
        .route("/v2/health/ready", get(inference::server_ready))
        .route("/v2/models/{model}/ready", get(inference::ready))
        .route("/v2/models/{model}/versions/{version}/ready", get(inference::ready))
        .merge(looking)
        .merge(operating)
        .merge(scoring)
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "there is nothing here; see /openapi.json") })
        .method_not_allowed_fallback(|| async { Problem::new(StatusCode::METHOD_NOT_ALLOWED, "see /openapi.json") })
        .layer(middleware::from_fn_with_state(Arc::clone(&service), count))
        .layer(middleware::from_fn(unread::read_unread))
        // Bodies are limited by `body`, according to the settings.
        .layer(DefaultBodyLimit::disable())
        .with_state(service)
}

/// Counts the answers, and adds headers that prevent browsers from misinterpreting them.
async fn count(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    service.metrics.answered(response.status().as_u16());
    let headers = response.headers_mut();
    // A report of training has its own, stricter policy, since it is not the service's page.
    let policy = headers.remove(header::CONTENT_SECURITY_POLICY);
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; \
             frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(policy) = policy {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// An answer with a body of this type.
fn typed(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn work_has_its_place_until_it_ends_also_if_its_client_disconnects() {
        let places = Arc::new(Semaphore::new(1));
        let (begun, begins) = channel();
        let (end, ends) = channel();
        let turn = Arc::clone(&places);
        let work = move || {
            begun.send(()).unwrap();
            ends.recv().unwrap();
        };
        let client = tokio::spawn(async move { in_turn(&turn, work).await });
        begins.recv().unwrap();
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
        assert_eq!(places.available_permits(), 0, "the work goes on");
        end.send(()).unwrap();
        assert_eq!(in_turn(&places, || 7).await.unwrap(), 7);
    }
}
