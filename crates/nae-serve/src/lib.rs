#![doc = include_str!("../README.md")]
//!
//! Each `camera` has its own parts, so that a failure of one does not affect the others. A frame passes through these
//! modules: `source` takes it, in a separate thread, into a `queue` that drops the oldest frame if it is full;
//! `pipeline` passes it to the threads of `scorer`, which all cameras share in turn. They decode it, apply `regions`,
//! and score the result with the camera's detector. `monitor` stores the energy and the frame (`shown`), runs the drift
//! watch and, unless `quiet` suspends alarms, the alarm filter, and notifies the clients. `alarms` writes an alarm to
//! the camera's `journal`, and `deliver` sends it from there: `webhook` by POST with a `signature`, `mqtt` to a broker,
//! to which it also publishes the camera's state. Requests to `/score` enter at the scorer. `history_file` stores
//! energies and alarms for weeks.
//!
//! `learn` makes a new model from a camera's frames, and `keeper` changes a model (`model`; a camera without one has to
//! learn it). `day_night` determines whether it is day or night, `in_use` which model is used then, and `own` contains
//! the parts of each of the two models. `http` answers requests, `limits` restricts their rate, `proxies` determines
//! the client of a forwarded request, `config` reads the settings, `lock` keeps other services out of the state folder,
//! and `signals` receives the operating system's signals.

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
mod lock;
mod metrics;
mod model;
mod monitor;
mod mqtt;
mod own;
mod pictures;
mod pipeline;
mod private_folder;
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
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use nae_onnx::file::FileError;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing::Instrument as _;

use crate::camera::{Beside, Camera, Parts};
use crate::config::{CameraConfig, Config, cameras_in};
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

/// How long the delivery of alarms may take when the service stops.
const LAST_DELIVERIES: Duration = Duration::from_secs(2);
/// How often a change of alarm hours, pauses and day and night is applied without a frame.
const ATTENTION: Duration = Duration::from_secs(1);
/// How long the writing of the history may take when the service stops.
const LAST_HISTORY: Duration = Duration::from_secs(5);
/// How long the frames that were taken may take when the service stops.
const LAST_FRAMES: Duration = Duration::from_secs(15);

/// The maximum number of pictures that are made for browsers at the same time.
const DRAWN: usize = 2;
/// The maximum number of images of requests whose size is read at the same time.
const MEASURED: usize = 2;
/// The maximum number of requests for inference that are unpacked and parsed at the same time.
const PARSED: usize = 2;

/// The state that all parts share.
struct Service {
    config: Config,
    /// In the order of the settings; at least one.
    cameras: Vec<Arc<Camera>>,
    scorer: Scorer,
    metrics: Arc<Metrics>,
    /// The rate limits of clients.
    limits: Limits,
    /// The energies and alarms on disk.
    history: History,
    /// Limits the number of pictures that are made for browsers at the same time.
    drawing: Arc<Semaphore>,
    /// Limits the number of images of requests whose size is read at the same time.
    measuring: Arc<Semaphore>,
    /// Limits the number of requests for inference that are unpacked and parsed at the same time.
    parsing: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

impl Service {
    /// The camera with this name.
    fn camera(&self, name: &str) -> Option<&Arc<Camera>> {
        self.cameras.iter().find(|camera| camera.config.name.as_str() == name)
    }

    /// The camera if there is exactly one.
    fn only_camera(&self) -> Option<&Arc<Camera>> {
        match self.cameras.as_slice() {
            [camera] => Some(camera),
            _ => None,
        }
    }

    /// All names, separated by commas.
    fn names(&self) -> String {
        self.cameras.iter().map(|camera| camera.config.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Runs the service until it is stopped. Its activity is logged by `tracing`.
///
/// # Errors
/// [`ConfigError`] for invalid settings; otherwise, the reason why the service cannot start.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Comes first: without the handler, this signal ends the process. The handlers of the signals to stop come later:
    // until there is something to end in order, the system ends the process at once.
    let told_to_reload = {
        let _in_runtime = runtime.enter();
        Reload::listen()?
    };
    let config = Config::read(flags, std::env::vars_os())?;
    // Comes before anything in the folder is read. Is held as long as the service runs.
    let lock = lock::claim(&config.state)?;
    let models = Arc::new(Models::default());
    let bases = open_models(&config, &models)?;
    for folder in iter::once(&config.state).chain(config.cameras.iter().map(|camera| &camera.state)) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {} for the service's state", folder.display()))?;
        // Without the lock, they may be those of another service.
        for folder in ["", "pictures", "learn", "night", "night/learn"]
            .map(|part| folder.join(part))
            .iter()
            .filter(|_| lock.is_some())
        {
            if let Err(error) = nae_onnx::file::remove_incomplete(folder)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "incomplete files in {} are not removed", folder.display());
            }
        }
    }
    if config.cameras.iter().all(|camera| camera.state != config.state) && journal::is_in(&config.state) {
        tracing::warn!(
            "alarms of an only camera may wait in {}: docs/camera.md says how they become those of one of several",
            config.state.display()
        );
    }
    for folder in left_behind(&config) {
        tracing::warn!(
            "alarms of a camera that is not in the settings may wait in {}: if it has another name now, rename the folder, else \
             remove it",
            folder.display()
        );
    }
    runtime.block_on(serve(config, bases, &models, told_to_reload))?;
    // Threads that wait for a backend must not keep the process running.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// The folders of cameras that are not in the settings, because they were renamed or removed.
fn left_behind(config: &Config) -> Vec<PathBuf> {
    let cameras = std::fs::read_dir(cameras_in(&config.state)).into_iter().flatten().flatten();
    let is_left =
        |folder: &PathBuf| journal::is_in(folder) && config.cameras.iter().all(|camera| camera.state != *folder);
    let mut left: Vec<PathBuf> = cameras.map(|entry| entry.path()).filter(is_left).collect();
    left.sort();
    left
}

/// Opens the model of each camera that has one. A model that cannot be used is an error in the settings, so that an
/// unwatched camera is noticed at the start. A missing model is an error, too, if none can be learned.
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

async fn serve(
    config: Config,
    bases: Vec<Option<Opened>>,
    models: &Arc<Models>,
    told_to_reload: Reload,
) -> anyhow::Result<()> {
    // Comes before anything starts that has to be ended in order.
    let told_to_stop = Stop::listen()?;
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
        drawing: Arc::new(Semaphore::new(DRAWN)),
        measuring: Arc::new(Semaphore::new(MEASURED)),
        parsing: Arc::new(Semaphore::new(PARSED)),
        stopping,
    });
    // Comes after the journals, which allocate their space first.
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

/// Logs whether the camera is watched: if nothing is scored, the user has to know, and what to do.
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

/// Starts to write the history, if the settings keep one.
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

/// Writes what the history has received.
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

/// Scores the frames that a camera took and delivers alarms for a short time; the journal keeps the rest.
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
    // The connection is closed after the last delivery.
    if let Some(link) = link
        && tokio::time::timeout(LAST_DELIVERIES, link).await.is_err()
    {
        tracing::warn!("the MQTT broker does not answer any more; it finds out by itself that the service is gone");
    }
}

/// Completes when the service was requested to stop and its parts were notified.
async fn stop(told: Stop, service: Arc<Service>) {
    told.told().await;
    tracing::info!("stopping: requests and frames that have come are done first");
    service.stopping.send_replace(true);
    for camera in &service.cameras {
        camera.frames.close();
        camera.monitor.tell(Event::Stopping);
    }
}

/// Reloads every camera's model files whenever that is requested, as other services reload their files.
async fn tell_to_reload(mut told: Reload, service: Arc<Service>) {
    while told.told().await {
        service.cameras.iter().for_each(|camera| camera.reload.notify_one());
    }
}

/// Applies the beginning and end of pauses, snoozes, alarm hours, day and night also if no frames come; an active alarm
/// is cleared.
async fn attend(camera: Arc<Camera>) {
    let mut tick = tokio::time::interval(ATTENTION);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut is_stored, mut is_snooze_stored) = (true, true);
    loop {
        tick.tick().await;
        camera.monitor.attend(Moment::now());
        camera.attend_to_day_night(Moment::now());
        if camera.day_night.has_changed() {
            let failed = store(&camera, &mut is_stored, |camera| camera.day_night.keep()).await;
            if let Some(error) = failed {
                tracing::warn!(%error, "whether it is day or night is not kept over a restart; it is tried again");
            }
        }
        if camera.quiet.is_outdated(Moment::now()) {
            let failed = store(&camera, &mut is_snooze_stored, |camera| camera.quiet.keep(Moment::now())).await;
            if let Some(error) = failed {
                tracing::warn!(%error, "the remaining time of the snooze is not kept over a restart; it is tried again");
            }
        }
    }
}

/// Writes something in another thread, so that frames do not wait for the disk. Returns an error only if the write
/// before it did not fail.
async fn store(
    camera: &Arc<Camera>,
    is_stored: &mut bool,
    write: impl FnOnce(&Camera) -> Result<(), FileError> + Send + 'static,
) -> Option<FileError> {
    let camera = Arc::clone(camera);
    let error = tokio::task::spawn_blocking(move || write(&camera)).await.ok().and_then(Result::err);
    let was_stored = std::mem::replace(is_stored, error.is_none());
    error.filter(|_| was_stored)
}

/// Reloads the models of a camera on request, independently of the other cameras.
async fn reload_when_told(camera: Arc<Camera>) {
    loop {
        camera.reload.notified().await;
        let own = Arc::clone(&camera);
        let reloaded = tokio::task::spawn_blocking(move || own.span.in_scope(|| own.reload())).await;
        match reloaded {
            // The camera has no file to open; others may have theirs.
            Ok(Ok(()) | Err(ChangeError::NoModel(_))) | Err(_) => {}
            Ok(Err(error)) => tracing::error!(%error, "the model was not exchanged"),
        }
    }
}
