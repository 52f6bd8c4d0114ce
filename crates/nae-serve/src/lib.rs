#![doc = include_str!("../README.md")]
//!
//! A `camera` has everything that is its own: the others go on whatever becomes of it. A frame's way: `source` takes it, in a
//! thread of its own, into a `queue` that drops the oldest; `pipeline` hands it to the threads of `scorer`, which all cameras
//! share, by turns, and which decode it, take what `regions` leave of it, and have the camera's detector score that; `monitor` keeps its energy, and the frame as it is `shown`, runs drift watch and,
//! unless `quiet` says that no alarms are raised now, the alarm filter, and tells the clients; `alarms` puts an alarm into the camera's `journal`, and `deliver` sends it from there,
//! `webhook` by POST with a `signature`, `mqtt` to a broker, which is also shown how the camera is. Requests to `/score` join at the
//! scorer. `history_file` keeps energies and alarms for weeks. `learn` makes a new model of what the camera sees, `keeper` changes a model (of `model`, which is none until a camera without one has learned it), `day_night` says whether it is day or night, `in_use` which model is in use then, `own` what each of the two has for itself, `http` is what can be asked, `limits` how often, `proxies` who is believed to ask for others, `config` what can be set, `signals` what the operating
//! system asks for.

mod alarms;
mod broker;
mod camera;
mod camera_name;
mod child;
mod config;
mod day_night;
mod deliver;
#[cfg(fuzzing)]
pub mod fuzzing;
mod health;
mod history;
mod history_file;
mod hours;
mod http;
mod in_use;
mod journal;
mod keeper;
mod kept_file;
mod largest_image;
mod learn;
mod limits;
mod metrics;
mod model;
mod monitor;
mod mqtt;
mod own;
mod pictures;
mod pipeline;
mod proxies;
mod queue;
mod quiet;
mod quoted;
mod receiver;
mod regions;
mod scorer;
mod secret;
mod shown;
mod signals;
mod signature;
mod source;
mod tls;
mod tokens;
mod webhook;
#[cfg(test)]
mod zeros;

use std::iter;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing::Instrument as _;

use crate::camera::{Beside, Camera, Parts};
use crate::config::{CameraConfig, Config};
pub use crate::config::{ConfigError, Flags};
pub use crate::health::Health;
use crate::history_file::{History, HistoryFigures};
use crate::keeper::{ChangeError, Opened};
use crate::learn::Trainer;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::model::{Current, Models};
use crate::monitor::Event;
use crate::quiet::Moment;
use crate::scorer::{LaneSettings, Scorer};
use crate::signals::{Reload, Stop};
use crate::tls::{CertificateFigures, OwnCertificate};

/// How long alarms may take to be delivered when the service stops.
const LAST_DELIVERIES: Duration = Duration::from_secs(2);
/// How often it is looked whether alarms are to be raised, where no frame is the occasion.
const ATTENTION: Duration = Duration::from_secs(1);
/// How long the history may take to be written when the service stops.
const LAST_HISTORY: Duration = Duration::from_secs(5);
/// How long the frames that have come may take with it.
const LAST_FRAMES: Duration = Duration::from_secs(15);

/// Thumbnails that are made at a time.
const THUMBNAILS: usize = 2;

/// Everything that the parts share.
struct Service {
    config: Config,
    /// In the order of the settings; at least one.
    cameras: Vec<Arc<Camera>>,
    scorer: Scorer,
    metrics: Arc<Metrics>,
    /// How much a client may ask.
    limits: Limits,
    /// Energies and alarms on disk.
    history: History,
    /// Frames that are decoded at a time for thumbnails, each of which takes the memory of a whole frame.
    thumbnails: Semaphore,
    stopping: watch::Sender<bool>,
}

impl Service {
    /// The camera of this name.
    fn camera(&self, name: &str) -> Option<&Arc<Camera>> {
        self.cameras.iter().find(|camera| camera.config.name.as_str() == name)
    }

    /// The camera, where there is but one.
    fn only_camera(&self) -> Option<&Arc<Camera>> {
        match self.cameras.as_slice() {
            [camera] => Some(camera),
            _ => None,
        }
    }

    /// All names, with commas between.
    fn names(&self) -> String {
        self.cameras.iter().map(|camera| camera.config.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Runs the service until it is told to stop. What it does is in the log of `tracing`.
///
/// # Errors
/// [`ConfigError`] for wrong settings; else what keeps it from starting.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let config = Config::read(flags, std::env::vars_os())?;
    let models = Arc::new(Models::default());
    let bases = open_models(&config, &models)?;
    for folder in iter::once(&config.state).chain(config.cameras.iter().map(|camera| &camera.state)) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {} for the service's state", folder.display()))?;
    }
    if config.cameras.iter().all(|camera| camera.state != config.state) && journal::is_in(&config.state) {
        tracing::warn!(
            "alarms of an only camera may wait in {}: docs/camera.md says how they become those of one of several",
            config.state.display()
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config, bases, &models))?;
    // Threads that a backend did not return must not keep the process.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// The model of each camera that has one. One that cannot be used is a wrong setting: a camera that is not watched should be noticed
/// at the start. So is having none where none can be learned.
fn open_models(config: &Config, models: &Models) -> anyhow::Result<Vec<Option<Opened>>> {
    let open = |camera: &CameraConfig| {
        let opened = keeper::open(camera, learn::model_in_use(camera), models)?;
        if let Some(Opened { model, path }) = &opened {
            let of_images = model.detector.settings().columns.is_none();
            anyhow::ensure!(of_images, "{}: this is a model of tables; the service takes images", path.display());
        }
        Ok(opened)
    };
    let (mut opened, mut problems) = (Vec::new(), Vec::new());
    if let [only] = config.cameras.as_slice() {
        opened.push(open(only)?);
    } else {
        for camera in &config.cameras {
            match open(camera) {
                Ok(model) => opened.push(model),
                Err(error) => problems.push(format!("camera `{}`: {error:#}", camera.name)),
            }
        }
        anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n  "));
    }
    let without = config.cameras.iter().zip(&opened).filter(|(_, opened)| opened.is_none());
    let cannot = without.filter_map(|(camera, _)| Some((&camera.name, camera.cannot_learn()?)));
    let is_only = config.cameras.len() == 1;
    let said = |(name, why)| if is_only { String::from(why) } else { format!("camera `{name}`: {why}") };
    ConfigError::of(cannot.map(said).collect())?;
    Ok(opened)
}

async fn serve(config: Config, bases: Vec<Option<Opened>>, models: &Arc<Models>) -> anyhow::Result<()> {
    // Before anything runs that wants to be ended in order.
    let (told_to_stop, told_to_reload) = signals::listen()?;
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another with --listen ADDRESS:PORT", config.listen))?;
    let metrics = Arc::new(Metrics::new());
    let figures = || CertificateFigures {
        refused: metrics.certificate_refused.clone(),
        expires: metrics.certificate_expires.clone(),
    };
    let tls = config.certificate.clone().map(|files| OwnCertificate::watch(files, figures()));
    let tls = tls.transpose().map_err(anyhow::Error::msg)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let page = format!("{scheme}://{}/", listener.local_addr()?);
    let in_use = bases.iter().map(|base| Arc::new(Current::from(base.as_ref().map(|base| Arc::clone(&base.model)))));
    let in_use: Vec<_> = in_use.collect();
    let lanes = config.cameras.iter().zip(&in_use).map(|(camera, model)| LaneSettings {
        camera: camera.name.clone(),
        model: Arc::clone(model),
        timeout: camera.score_timeout,
    });
    let (scorer, lanes) = Scorer::start(lanes.collect(), config.threads)?;
    let trainer = Arc::new(Trainer::new(config.nae_train.clone()));
    let history = History::new(&config.state, config.history);
    let (mut cameras, mut beside) = (Vec::new(), Vec::new());
    for (((own, base), model), lane) in config.cameras.iter().zip(bases).zip(in_use).zip(lanes) {
        let metrics = metrics.camera(&own.name);
        let recorder = history.recorder(cameras.len(), metrics.history_dropped.clone());
        let parts = Parts { base, model, lane, metrics, recorder };
        let (camera, its) = Camera::open(own.clone(), &config, models, &trainer, parts)?;
        cameras.push(Arc::new(camera));
        beside.push(its);
    }
    let (limits, stopping) = (Limits::new(config.limits), watch::Sender::new(false));
    let service = Arc::new(Service {
        config,
        cameras,
        scorer,
        metrics,
        limits,
        history,
        thumbnails: Semaphore::new(THUMBNAILS),
        stopping,
    });
    // After the journals, which take their room first.
    let history = start_history(&service)?;
    let mut endings = Vec::new();
    for (camera, its) in service.cameras.iter().zip(beside) {
        let frames = pipeline::start(Arc::clone(camera), service.config.largest_image)?;
        let taking = camera.watch()?.into_iter().chain([frames]).collect();
        camera.span.in_scope(|| say_what_is_watched(camera, &page));
        tokio::spawn(reload_when_told(Arc::clone(camera)).instrument(camera.span.clone()));
        tokio::spawn(attend(Arc::clone(camera)).instrument(camera.span.clone()));
        endings.push(end(Arc::clone(camera), taking, its).instrument(camera.span.clone()));
    }
    tracing::info!("watching {}; the page is at {page}", service.names());
    tokio::spawn(tell_to_reload(told_to_reload, Arc::clone(&service)));
    http::serve(listener, tls, Arc::clone(&service), stop(told_to_stop, Arc::clone(&service))).await;
    let ended: JoinSet<()> = endings.into_iter().collect();
    if tokio::time::timeout(LAST_FRAMES, ended.join_all()).await.is_err() {
        tracing::warn!("the last frames and deliveries take too long; alarms are delivered after the next start");
    }
    end_history(&service, history).await;
    service.scorer.stop();
    Ok(())
}

/// That nothing is scored has to be known to whoever relies on it, and what to do.
fn say_what_is_watched(camera: &Camera, page: &str) {
    let source = &camera.config.source.address;
    match &*camera.model.load() {
        Some(model) => tracing::info!(model = model.digest, %source, "watched"),
        None => tracing::warn!(
            %source,
            "no model yet: frames are taken and shown, nothing is scored, and no alarm raised. Open {page}#{} and learn \
             a model there (\"Learn here\"), or start with --model FILE",
            camera.config.name
        ),
    }
}

/// Begins to write the history, where one is kept.
fn start_history(service: &Service) -> std::io::Result<Option<JoinHandle<()>>> {
    let figures = HistoryFigures {
        dropped: service.cameras.iter().map(|camera| camera.metrics.history_dropped.clone()).collect(),
        writing: service.metrics.history_writing.clone(),
        bytes: service.metrics.history_bytes.clone(),
    };
    let names = service.cameras.iter().map(|camera| camera.config.name.to_string()).collect();
    let alarms = service.cameras.iter().map(|camera| camera.alarms.of_journal()).collect();
    service.history.start(names, alarms, figures)
}

/// What has come is written.
async fn end_history(service: &Arc<Service>, writer: Option<JoinHandle<()>>) {
    let Some(writer) = writer else { return };
    let service = Arc::clone(service);
    let last = tokio::task::spawn_blocking(move || {
        service.history.stop();
        let _ = writer.join();
    });
    if tokio::time::timeout(LAST_HISTORY, last).await.is_err() {
        tracing::warn!("the last seconds of the history take too long to be written");
    }
}

/// What a camera took in is scored, its alarms get a moment to leave; the journal has the rest.
async fn end(camera: Arc<Camera>, taking: Vec<JoinHandle<()>>, Beside { deliveries, link }: Beside) {
    let last = tokio::task::spawn_blocking(move || {
        for thread in taking {
            let _ = thread.join();
        }
        for learn in camera.learning() {
            learn.stop();
        }
        camera.alarms.stop(LAST_DELIVERIES);
        for thread in deliveries {
            let _ = thread.join();
        }
    });
    let _ = last.await;
    // Says goodbye once the last delivery is made.
    if let Some(link) = link
        && tokio::time::timeout(LAST_DELIVERIES, link).await.is_err()
    {
        tracing::warn!("the MQTT broker does not answer any more; it finds out by itself that the service is gone");
    }
}

/// Done when the service has been told to stop, and its parts have been told in turn.
async fn stop(told: Stop, service: Arc<Service>) {
    told.told().await;
    tracing::info!("stopping: requests and frames that have come are done first");
    service.stopping.send_replace(true);
    for camera in &service.cameras {
        camera.frames.close();
        camera.monitor.tell(Event::Stopping);
    }
}

/// Has every camera open its model's file again whenever that is asked for, as other services do with their files.
async fn tell_to_reload(mut told: Reload, service: Arc<Service>) {
    while told.told().await {
        service.cameras.iter().for_each(|camera| camera.reload.notify_one());
    }
}

/// Has a pause, a snooze, the hours of alarms, day and night begin and end also while no frames come: an alarm that is up is cleared.
async fn attend(camera: Arc<Camera>) {
    let mut tick = tokio::time::interval(ATTENTION);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_kept = true;
    loop {
        tick.tick().await;
        camera.monitor.attend(Moment::now());
        camera.attend_to_day_night(Moment::now());
        if camera.day_night.has_changed() {
            let own = Arc::clone(&camera);
            // Away from frames, which do not wait for the disk.
            let written = tokio::task::spawn_blocking(move || own.day_night.keep()).await;
            let was_kept = std::mem::replace(&mut is_kept, !matches!(written, Ok(Err(_))));
            if let Ok(Err(error)) = written
                && was_kept
            {
                tracing::warn!(%error, "whether it is day or night is not kept over a restart; it is tried again");
            }
        }
    }
}

/// Opens a camera's model again, whatever becomes of the others'.
async fn reload_when_told(camera: Arc<Camera>) {
    loop {
        camera.reload.notified().await;
        let own = Arc::clone(&camera);
        let reloaded = tokio::task::spawn_blocking(move || own.span.in_scope(|| own.reload())).await;
        match reloaded {
            // There is no file to open, beside others that have theirs.
            Ok(Ok(()) | Err(ChangeError::NoModel(_))) | Err(_) => {}
            Ok(Err(error)) => tracing::error!(%error, "the model was not exchanged"),
        }
    }
}
