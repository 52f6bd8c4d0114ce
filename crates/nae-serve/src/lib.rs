#![doc = include_str!("../README.md")]
//!
//! A frame's way: `source` takes it, in a thread of its own, into a `queue` that drops the oldest; `pipeline` hands it to
//! the threads of `scorer`, which decode it and have the detector score it; `monitor` keeps its energy, runs alarm
//! filter and drift watch, and tells the clients; `alarms` puts an alarm into the `journal`, and `deliver` sends it from
//! there, `webhook` by POST with a `signature`, `mqtt` to a broker, which is also shown how the service is. Requests to `/score` join at the scorer. `keeper` changes the model in use, `http` is what can be asked,
//! `config` what can be set, `signals` what the operating system asks for.

mod alarms;
mod broker;
mod config;
mod deliver;
mod health;
mod http;
mod journal;
mod keeper;
mod metrics;
mod model;
mod monitor;
mod mqtt;
mod pictures;
mod pipeline;
mod queue;
mod receiver;
mod scorer;
mod secret;
mod signals;
mod signature;
mod source;
mod tls;
mod webhook;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::alarms::Alarms;
use crate::config::Config;
pub use crate::config::{ConfigError, Flags};
pub use crate::health::Health;
use crate::keeper::Keeper;
use crate::metrics::Metrics;
use crate::model::Current;
use crate::monitor::{Event, Monitor};
use crate::queue::Queue;
use crate::scorer::Scorer;
use crate::signals::{Reload, Stop};
use crate::source::Frame;

/// How long alarms may take to be delivered when the service stops.
const LAST_DELIVERIES: Duration = Duration::from_secs(2);

/// Everything that the parts share.
struct Service {
    config: Config,
    model: Arc<Current>,
    scorer: Scorer,
    frames: Arc<Queue<Frame>>,
    monitor: Arc<Monitor>,
    keeper: Keeper,
    alarms: Alarms,
    metrics: Arc<Metrics>,
    stopping: watch::Sender<bool>,
}

/// Runs the service until it is told to stop. What it does is in the log of `tracing`.
///
/// # Errors
/// [`ConfigError`] for wrong settings; else what keeps it from starting.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let config = Config::read(flags, std::env::vars_os())?;
    std::fs::create_dir_all(&config.state)
        .with_context(|| format!("cannot make the folder {} for the service's state", config.state.display()))?;
    let base = keeper::open(&config)?;
    anyhow::ensure!(
        base.detector.settings().columns.is_none(),
        "{}: this is a model of tables; the service takes images",
        config.model.display()
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config, Arc::new(base)))?;
    // Threads that a backend did not return must not keep the process.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Config, base: Arc<model::Model>) -> anyhow::Result<()> {
    // Before anything runs that wants to be ended in order.
    let (told_to_stop, told_to_reload) = signals::listen()?;
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another with --listen ADDRESS:PORT", config.listen))?;
    let address = listener.local_addr()?;
    let metrics = Arc::new(Metrics::new());
    let monitor = Arc::new(Monitor::new(config.alarm, &base, Arc::clone(&metrics))?);
    let model = Arc::new(Current::new(Arc::clone(&base)));
    let in_state = || format!("the service's state in {}", config.state.display());
    let mut receivers = deliver::receivers(&config);
    let mut link = None;
    if let Some(broker) = &config.mqtt {
        let (receiver, task) = mqtt::start(broker, &config.state, &monitor, &metrics).with_context(in_state)?;
        receivers.push(receiver);
        link = Some(task);
    }
    let (alarms, deliveries) = Alarms::open(&config, receivers, &metrics).with_context(in_state)?;
    let keeper =
        Keeper::start(config.clone(), base, Arc::clone(&model), Arc::clone(&monitor)).with_context(in_state)?;
    let service = Arc::new(Service {
        scorer: Scorer::start(Arc::clone(&model), config.threads, config.score_timeout)?,
        frames: Arc::new(Queue::new(config.queue)),
        stopping: watch::Sender::new(false),
        model,
        monitor,
        keeper,
        alarms,
        metrics,
        config,
    });
    let frames = pipeline::start(Arc::clone(&service))?;
    let source =
        source::spawn(service.config.source.clone(), Arc::clone(&service.frames), Arc::clone(&service.monitor))?;
    let digest = service.model.load().digest.clone();
    tracing::info!(model = digest, source = %service.config.source.address, "watching; the page is at http://{address}/");
    tokio::spawn(reload_when_told(told_to_reload, Arc::clone(&service)));
    http::serve(listener, Arc::clone(&service), stop(told_to_stop, Arc::clone(&service))).await;

    // What was taken in is scored, alarms get a moment to leave; the journal has the rest.
    let last = tokio::task::spawn_blocking(move || {
        if let Some(source) = source {
            let _ = source.join();
        }
        let _ = frames.join();
        service.scorer.stop();
        service.alarms.stop(LAST_DELIVERIES);
        for thread in deliveries {
            let _ = thread.join();
        }
    });
    let patience = Duration::from_secs(15);
    if tokio::time::timeout(patience, last).await.is_err() {
        tracing::warn!("the last deliveries take too long; they are made after the next start");
    }
    // Says goodbye once the last delivery is made.
    if let Some(link) = link
        && tokio::time::timeout(LAST_DELIVERIES, link).await.is_err()
    {
        tracing::warn!("the MQTT broker does not answer any more; it finds out by itself that the service is gone");
    }
    Ok(())
}

/// Done when the service has been told to stop, and its parts have been told in turn.
async fn stop(told: Stop, service: Arc<Service>) {
    told.told().await;
    tracing::info!("stopping: requests and frames that have come are done first");
    service.stopping.send_replace(true);
    service.frames.close();
    service.monitor.tell(Event::Stopping);
}

/// Opens the model's file again whenever it is asked for, as other services do with theirs.
async fn reload_when_told(mut told: Reload, service: Arc<Service>) {
    while told.told().await {
        let service = Arc::clone(&service);
        let reloaded = tokio::task::spawn_blocking(move || service.keeper.reload()).await;
        if let Ok(Err(error)) = reloaded {
            tracing::error!(%error, "the model was not exchanged");
        }
    }
}
