//! A camera at an MQTT broker: one connection, maintained by `link`, that delivers each alarm until it is acknowledged,
//! and publishes the camera's state. Each of several cameras has its own connection: a last will belongs to one
//! connection and has one message, and a connection that breaks because of one camera's message does not affect the
//! others. `status` has the retained state, `discovery` the messages for Home Assistant, `client_id` the client id.
//! Alarms wait in the journal, not here.

mod client_id;
mod discovery;
mod link;
mod status;

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::broker::Broker;
use super::metrics::CameraMetrics;
use super::monitor::Monitor;
use super::receiver::Receiver;

/// Connects to the broker, and maintains the connection, in a task of the current runtime. The task ends shortly after
/// the receiver of alarms is dropped.
///
/// # Errors
/// If the state folder cannot be written.
pub(crate) fn start(
    broker: &Broker,
    state: &Path,
    monitor: &Arc<Monitor>,
    metrics: &Arc<CameraMetrics>,
) -> io::Result<(Box<dyn Receiver>, JoinHandle<()>)> {
    let client_id = match &broker.client_id {
        Some(chosen) => chosen.clone(),
        None => client_id::of(broker.camera.as_str(), state)?,
    };
    let (receiver, link) = link::new(broker.clone(), client_id, Arc::clone(monitor), Arc::clone(metrics));
    Ok((Box::new(receiver), tokio::spawn(link.run().in_current_span())))
}
