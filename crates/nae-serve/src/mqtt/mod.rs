//! A camera at an MQTT broker: one connection, kept up by `link`, that takes each alarm to the broker until it is
//! acknowledged, and shows there how the camera is. Each of several has a connection of its own: a last will is of one
//! connection and says one thing, and a connection that breaks for one camera's message is none of the others'. What is retained there is in `status`, `discovery` is what Home
//! Assistant is told, `client_id` is who the service is to the broker. The journal that alarms wait in is elsewhere: nothing
//! waits here.

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

/// Connects to the broker, in a task of the runtime this is called in, and stays so. The task ends some moments after the receiver
/// of alarms is dropped.
///
/// # Errors
/// If the folder of the state cannot be written.
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
