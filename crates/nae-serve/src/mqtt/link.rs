//! The connection to the broker: made again with growing pauses when it is lost, each time with files read anew. What was being
//! sent when it broke is given back as not sent, since the journal has it and sends it again; a client that kept it as well
//! would send it twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

/// How long the broker may take to acknowledge.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an alarm waits for the connection before it goes back to the journal; a service that stops waits no longer.
const CONNECTING: Duration = Duration::from_secs(2);
/// How often the two sides see that the other is there. A broker says that a service is gone after 1.5 times this.
const KEEP_ALIVE_SECONDS: u16 = 15;
/// The first pause before the connection is made again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// The largest message in and out, in bytes.
const LARGEST: usize = 1 << 20;
/// Energies are told no more often.
const ENERGIES: Duration = Duration::from_secs(1);
/// Pictures are made smaller to fit into so many pixels.
const PICTURE: (u32, u32) = (1280, 720);
const RETAINED: PublishOptions = PublishOptions::at_least_once().retained();

/// An alarm on its way, and who wants to know what became of it.
struct Request {
    alarm: String,
    answer: SyncSender<Result<(), String>>,
}

/// What link and receiver share.
#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    changed: Notify,
}

#[derive(Default)]
struct Slot {
    request: Option<Request>,
    /// Why there is no connection.
    failure: Option<String>,
    /// There will be no more requests.
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        // Each of its fields is whole at any time.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request; `None` where there will be no more.
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

/// Gives alarms to the link.
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
            // One that was not begun is taken back: it comes again from the journal.
            if slot.request.take().is_some() {
                return Err(slot.failure.clone().unwrap_or_else(|| "not connected yet".into()));
            }
            drop(slot);
            // Longer than the link waits, so that it is the one that says what is wrong.
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

/// Keeps the connection.
pub(super) struct Link {
    broker: Broker,
    client_id: String,
    topics: Topics,
    monitor: Arc<Monitor>,
    metrics: Arc<CameraMetrics>,
    shared: Arc<Shared>,
    /// Number of the frame whose picture the broker has, 0 if it has none of this start: it is not sent again with every
    /// connection, since it would look like another alarm.
    pictured: AtomicU64,
}

/// A link, which does nothing until it is [run](Link::run), and the receiver that it serves.
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
    /// Connects, again and again, until the receiver is dropped.
    pub(super) async fn run(self) {
        let (shortest, longest) = PAUSES;
        let (mut pause, mut said) = (shortest, None);
        while !self.shared.is_closed() {
            let begin = Instant::now();
            let Err(reason) = self.session().await else { return };
            self.metrics.mqtt_connected.set(0);
            // Two services of one client id throw each other out as soon as they are connected.
            if begin.elapsed() > longest {
                pause = shortest;
            }
            if said.as_ref() != Some(&reason) {
                tracing::warn!(broker = %self.broker.address, reason, again_in = ?pause, "no connection to the MQTT broker; it is tried again");
                said = Some(reason.clone());
            }
            self.shared.lock().failure = Some(reason);
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

    /// One connection, from its beginning to its end; `Ok` where the receiver is dropped.
    async fn session(&self) -> Result<(), String> {
        let options = self.options()?;
        let (client, events) =
            AsyncClient::builder(options).capacity(16).try_build().map_err(|error| error.to_string())?;
        let connected = Notify::new();
        let talk = async {
            connected.notified().await;
            self.talk(&client).await?;
            client.disconnect().await.map_err(|error| error.to_string())?;
            // The other branch sees it go out.
            std::future::pending().await
        };
        tokio::select! {
            result = receive(events, &connected) => result,
            result = talk => result,
        }
    }

    /// Tells the broker how the service is, and of alarms, until there will be no more.
    async fn talk(&self, client: &AsyncClient) -> Result<(), String> {
        let mut events = self.monitor.events();
        let mut status = Status::of(&self.monitor);
        let mut energy = None;
        for (topic, message) in discovery::messages(&self.broker, &self.topics) {
            publish(client, &topic, message).await?;
        }
        publish(client, &self.topics.state, status.json()).await?;
        self.picture(client).await?;
        publish(client, &self.topics.availability, ONLINE.into()).await?;
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
                        // It may wait no longer.
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
                        // The monitor is in our hands: it does not end before.
                        Err(RecvError::Lagged(_) | RecvError::Closed) => Status::of(&self.monitor),
                    };
                    if now != status {
                        publish(client, &self.topics.state, now.json()).await?;
                        status = now;
                    }
                    // Also where events were missed.
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

    /// The picture of the last alarm, if Home Assistant is to show it and does not have it.
    async fn picture(&self, client: &AsyncClient) -> Result<(), String> {
        let shown = self.monitor.alarmed().filter(|_| self.broker.home_assistant.is_some());
        let Some(shown) = shown.filter(|shown| shown.frame.number != self.pictured.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        let image = shown.frame.image.clone();
        let picture = tokio::task::spawn_blocking(move || small_jpeg(&image, PICTURE)).await;
        // Larger than a broker may take, or no picture: the alarm matters more.
        if let Ok(Some(picture)) = picture
            && picture.len() < LARGEST / 2
        {
            client.publish(&self.topics.image, picture, RETAINED).await.map_err(|error| error.to_string())?;
        }
        self.pictured.store(shown.frame.number, Ordering::Relaxed);
        Ok(())
    }
}

/// Takes what the broker sends, and says when it is connected, until the connection ends; `Ok` where we ended it.
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

/// Retained, without waiting for the acknowledgement: the last of each matters, and is told again with the next connection.
async fn publish(client: &AsyncClient, topic: &str, payload: String) -> Result<(), String> {
    client.publish(topic, payload, RETAINED).await.map_err(|error| error.to_string())
}

/// Publishes and waits until the broker has it.
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

/// What is wrong, and where to look.
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
