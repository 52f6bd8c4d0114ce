//! The connection to the broker, re-established with growing pauses when it is lost, each time with its files read
//! again. An alarm that was being sent when the connection broke is returned as not sent, since the journal sends it
//! again; if the MQTT client also kept it, it would be sent twice.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use rumqttc::{
    AsyncClient, ConnectReturnCode, ConnectionError, EventLoop, LastWill, MqttOptions, Outgoing, Packet,
    PublishOptions, QoS, TlsConfiguration, Transport,
};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::super::broker::Broker;
use super::super::metrics::CameraMetrics;
use super::super::monitor::{Event, Monitor};
use super::super::pictures::small_jpeg;
use super::super::receiver::Receiver;
use super::discovery;
use super::status::{OFFLINE, ONLINE, Status, Topics};

/// The timeout for the broker's acknowledgement.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an alarm waits for the connection before it is returned to the journal; it also limits the wait when the
/// service stops.
const CONNECTING: Duration = Duration::from_secs(2);
/// The keep-alive interval. A broker reports that a service is gone after 1.5 times this.
const KEEP_ALIVE_SECONDS: u16 = 15;
/// The first and the longest pause before the connection is made again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// The maximum size of a message in either direction, in bytes.
const LARGEST: usize = 1 << 20;
/// The minimum time between two published energies.
const ENERGIES: Duration = Duration::from_secs(1);
/// The maximum number of reasons for a broken connection that are known to be in the log: some contain a time.
const REASONS: usize = 8;
/// The size into which pictures are reduced, in pixels.
const PICTURE: (u32, u32) = (1280, 720);
const RETAINED: PublishOptions = PublishOptions::at_least_once().retained();

/// An alarm to be sent, and the channel for the result.
struct Request {
    alarm: String,
    answer: SyncSender<Result<(), String>>,
}

/// The state that link and receiver share.
#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    changed: Notify,
}

#[derive(Default)]
struct Slot {
    request: Option<Request>,
    /// The reason why there is no connection.
    failure: Option<String>,
    /// No more requests will come.
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        // Each field is consistent at any time.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request; `None` if no more will come.
    async fn next(&self) -> Option<Request> {
        loop {
            {
                let mut slot = self.lock();
                if let Some(request) = slot.request.take() {
                    return Some(request);
                }
                if slot.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

/// Passes alarms to the link.
pub(super) struct LinkReceiver {
    name: String,
    name_before: String,
    shared: Arc<Shared>,
}

impl Receiver for LinkReceiver {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn key_before(&self) -> String {
        self.name_before.clone()
    }

    fn send(&mut self, alarm: &str) -> Result<(), String> {
        let (answer, answered) = sync_channel(1);
        self.shared.lock().request = Some(Request { alarm: alarm.to_owned(), answer });
        self.shared.changed.notify_one();
        let mut result = answered.recv_timeout(CONNECTING);
        if result == Err(RecvTimeoutError::Timeout) {
            let mut slot = self.shared.lock();
            // A request that was not started is withdrawn: the journal sends the alarm again.
            if slot.request.take().is_some() {
                return Err(slot.failure.clone().unwrap_or_else(|| "not connected yet".into()));
            }
            drop(slot);
            // Longer than the link waits, so that the link reports the reason first.
            result = answered.recv_timeout(PATIENCE);
        }
        result.unwrap_or_else(|_| Err("the connection broke before the broker had it".into()))
    }
}

impl Drop for LinkReceiver {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

/// Maintains the connection.
pub(super) struct Link {
    broker: Broker,
    client_id: String,
    topics: Topics,
    monitor: Arc<Monitor>,
    metrics: Arc<CameraMetrics>,
    shared: Arc<Shared>,
    /// The number of the frame whose picture the broker has, 0 if it has none since the start. A picture is not sent
    /// again with every connection, since it would look like another alarm.
    pictured: AtomicU64,
}

/// Creates a link, which does nothing until [`run`](Link::run), and the receiver that it serves.
pub(super) fn new(
    broker: Broker,
    client_id: String,
    monitor: Arc<Monitor>,
    metrics: Arc<CameraMetrics>,
) -> (LinkReceiver, Link) {
    let shared = Arc::new(Shared::default());
    let receiver = LinkReceiver { name: broker.name(), name_before: broker.name_before(), shared: Arc::clone(&shared) };
    let topics = Topics::new(&broker.state_topic);
    (receiver, Link { broker, client_id, topics, monitor, metrics, shared, pictured: AtomicU64::new(0) })
}

impl Link {
    /// Connects repeatedly until the receiver is dropped.
    pub(super) async fn run(self) {
        let (shortest, longest) = PAUSES;
        // The reasons that were logged since the last connection.
        let (mut pause, mut logged) = (shortest, VecDeque::new());
        while !self.shared.is_closed() {
            let begin = Instant::now();
            let Err(reason) = self.session().await else { return };
            self.metrics.mqtt_connected.set(0);
            // Two services with the same client id disconnect each other as soon as they are connected.
            if begin.elapsed() > longest {
                pause = shortest;
            }
            let was_connected = self.shared.lock().failure.replace(reason.clone()).is_none();
            if was_connected {
                logged.clear();
            }
            if !logged.contains(&reason) {
                tracing::warn!(broker = %self.broker.address, reason, again_in = ?pause, "no connection to the MQTT broker; it is tried again");
                logged.truncate(REASONS - 1);
                logged.push_front(reason);
            }
            let closed = async {
                while !self.shared.is_closed() {
                    self.shared.changed.notified().await;
                }
            };
            let _ = timeout(pause, closed).await;
            pause = (2 * pause).min(longest);
        }
    }

    fn options(&self) -> Result<MqttOptions, String> {
        let address = &self.broker.address;
        let mut options = MqttOptions::new(self.client_id.clone(), (address.host.clone(), address.port));
        options
            .set_keep_alive(KEEP_ALIVE_SECONDS)
            .set_clean_session(false)
            .set_max_packet_size(LARGEST, LARGEST)
            .set_last_will(LastWill::new(&self.topics.availability, OFFLINE, QoS::AtLeastOnce, true));
        if let Some((user, password)) = &address.login {
            options.set_credentials(user.clone(), password.expose().to_owned());
        }
        if address.encrypted {
            let config = self.broker.tls.read()?;
            options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(config))));
        }
        Ok(options)
    }

    /// One connection, from beginning to end; `Ok` if the receiver was dropped.
    async fn session(&self) -> Result<(), String> {
        let options = self.options()?;
        let (client, events) =
            AsyncClient::builder(options).capacity(16).try_build().map_err(|error| error.to_string())?;
        let connected = Notify::new();
        let talk = async {
            connected.notified().await;
            self.talk(&client).await?;
            client.disconnect().await.map_err(|error| error.to_string())?;
            // The other branch completes when it was sent.
            std::future::pending().await
        };
        tokio::select! {
            result = receive(events, &connected) => result,
            result = talk => result,
        }
    }

    /// Publishes the state of the service and alarms until no more requests will come.
    async fn talk(&self, client: &AsyncClient) -> Result<(), String> {
        let mut events = self.monitor.events();
        let mut status = Status::of(&self.monitor);
        let mut energy = None;
        for (topic, message) in discovery::messages(&self.broker, &self.topics) {
            publish(client, &topic, message).await?;
        }
        publish(client, &self.topics.state, status.json()).await?;
        self.picture(client).await?;
        publish(client, &self.topics.availability, ONLINE).await?;
        self.metrics.mqtt_connected.set(1);
        self.shared.lock().failure = None;
        tracing::info!(broker = %self.broker.address, client_id = self.client_id, "connected to the MQTT broker");

        let mut tick = interval(ENERGIES);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                request = self.shared.next() => match request {
                    Some(request) => {
                        let sent = acknowledged(client, &self.broker.alarm_topic, request.alarm, PublishOptions::at_least_once()).await;
                        // The receiver may have stopped waiting.
                        let _ = request.answer.try_send(sent.clone());
                        sent?;
                    }
                    None => return acknowledged(client, &self.topics.availability, OFFLINE.into(), RETAINED).await,
                },
                event = events.recv() => {
                    let alarm = !matches!(event, Ok(Event::Frame { .. } | Event::Source { .. }));
                    let now = match event {
                        Ok(event) => {
                            if let Event::Frame { energy: of_frame, .. } = event {
                                energy = Some(of_frame);
                            }
                            status.after(&event, &self.monitor)
                        }
                        // This object owns the monitor, which therefore does not end earlier.
                        Err(RecvError::Lagged(_) | RecvError::Closed) => Status::of(&self.monitor),
                    };
                    if now != status {
                        publish(client, &self.topics.state, now.json()).await?;
                        status = now;
                    }
                    // Also done if events were missed.
                    if alarm {
                        self.picture(client).await?;
                    }
                }
                _ = tick.tick() => if let Some(energy) = energy.take() {
                    publish(client, &self.topics.energy, energy.to_string()).await?;
                },
            }
        }
    }

    /// Publishes the picture of the last alarm, if Home Assistant shows it and the broker does not have it.
    async fn picture(&self, client: &AsyncClient) -> Result<(), String> {
        let shown = self.monitor.alarmed().filter(|_| self.broker.home_assistant.is_some());
        let Some(shown) = shown.filter(|shown| shown.frame.number != self.pictured.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        let image = shown.frame.image.clone();
        let picture = tokio::task::spawn_blocking(move || small_jpeg(&image, PICTURE)).await;
        // Without a picture, or with one that is too large for brokers, the alarm is still sent.
        if let Ok(Some(picture)) = picture
            && picture.len() < LARGEST / 2
        {
            publish(client, &self.topics.image, picture).await?;
        }
        self.pictured.store(shown.frame.number, Ordering::Relaxed);
        Ok(())
    }
}

/// Handles the broker's messages, and notifies when connected, until the connection ends; `Ok` if this side ended it.
async fn receive(mut events: EventLoop, connected: &Notify) -> Result<(), String> {
    loop {
        match events.poll().await {
            Ok(rumqttc::Event::Incoming(Packet::ConnAck(_))) => connected.notify_one(),
            Ok(rumqttc::Event::Outgoing(Outgoing::Disconnect)) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(describe(&error)),
        }
    }
}

/// Publishes a retained message without waiting for the acknowledgement: only the last of each matters, and it is sent
/// again with the next connection. If the broker acknowledges none, no more can be sent; it is then left, since it may
/// answer pings all the same.
async fn publish(client: &AsyncClient, topic: &str, payload: impl Into<Bytes>) -> Result<(), String> {
    let sent = client.publish(topic, payload.into(), RETAINED);
    match timeout(PATIENCE, sent).await {
        Ok(sent) => sent.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the broker acknowledges nothing: no message could be sent within {PATIENCE:?}")),
    }
}

/// Publishes and waits until the broker acknowledges.
async fn acknowledged(
    client: &AsyncClient,
    topic: &str,
    payload: String,
    options: PublishOptions,
) -> Result<(), String> {
    let sent = async {
        let notice = client.publish_tracked(topic, payload, options).await.map_err(|error| error.to_string())?;
        notice.wait_completion_async().await.map_err(|error| error.to_string())
    };
    timeout(PATIENCE, sent).await.unwrap_or_else(|_| Err(format!("no acknowledgement within {PATIENCE:?}")))
}

/// Describes an error and where to look for its cause.
fn describe(error: &ConnectionError) -> String {
    if let ConnectionError::ConnectionRefused(code) = error {
        let look = match code {
            ConnectReturnCode::BadUserNamePassword | ConnectReturnCode::NotAuthorized => {
                "look at `mqtt_user`, `mqtt_password_file` and the client's certificate"
            }
            ConnectReturnCode::BadClientId => "give a `mqtt_client_id` that it takes",
            _ => "its log may say why",
        };
        return format!("the broker refuses it ({code:?}): {look}");
    }
    let text = error.to_string();
    if text.contains("UnknownIssuer") {
        return format!("{text}: the broker's certificate is not of an authority in `mqtt_ca_file`");
    }
    text
}
