//! `GET /events`: events as server-sent events (HTML standard, 9.2), of all cameras or of the one of `?camera=`. A
//! client that is too slow misses some, and receives their number; it delays nobody else.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::sse::{self, KeepAlive, Sse};
use serde::Serialize;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt, StreamMap};

use super::super::Service;
use super::super::camera_name::CameraName;
use super::super::monitor::Event;
use super::{Problem, asked, query};

/// An event and its camera.
#[derive(Serialize)]
struct Told<'a> {
    camera: &'a CameraName,
    #[serde(flatten)]
    event: &'a Event,
}

pub(super) async fn stream(
    State(service): State<Arc<Service>>,
    RawQuery(text): RawQuery,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Problem> {
    let cameras = match query(text.as_deref(), "camera") {
        Some(name) => vec![asked::named(&service, name)?],
        None => service.cameras.clone(),
    };
    // Each camera has its own channel, so that many events of one do not displace those of others.
    let all: StreamMap<CameraName, BroadcastStream<Event>> = cameras
        .iter()
        .map(|camera| (camera.config.name.clone(), BroadcastStream::new(camera.monitor.events())))
        .collect();
    let events = all
        // Otherwise, an open page would prevent the service from stopping.
        .take_while(|(_, event)| !matches!(event, Ok(Event::Stopping)))
        .map(|(camera, event)| match event {
            Ok(event) => {
                let told = Told { camera: &camera, event: &event };
                // Cannot fail: events consist of texts and finite numbers.
                Ok(sse::Event::default().data(serde_json::to_string(&told).unwrap_or_default()))
            }
            Err(BroadcastStreamRecvError::Lagged(missed)) => {
                Ok(sse::Event::default().comment(format!("{missed} missed of {camera}")))
            }
        });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}
