//! `GET /events`: what happens, as server-sent events (HTML standard, 9.2). A client too slow for them
//! misses some, and is told how many; nobody waits for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};

use super::super::Service;
use super::super::monitor::Event;

pub(super) async fn stream(
    State(service): State<Arc<Service>>,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let events = BroadcastStream::new(service.monitor.events())
        // Otherwise a page that is open would keep the service from stopping.
        .take_while(|event| !matches!(event, Ok(Event::Stopping)))
        .map(|event| match event {
            // Texts and finite numbers: this does not fail.
            Ok(event) => Ok(sse::Event::default().data(serde_json::to_string(&event).unwrap_or_default())),
            Err(BroadcastStreamRecvError::Lagged(missed)) => {
                Ok(sse::Event::default().comment(format!("{missed} missed")))
            }
        });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}
