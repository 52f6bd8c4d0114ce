//! One camera of the service: everything that is a camera's own, so that what happens to one is nothing to the others. What
//! cameras have in common is the pool of the `scorer`, and `http`.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use tokio::sync::Notify;
use tokio::task;
use tracing::Span;

use super::alarms::Alarms;
use super::config::{CameraConfig, Config};
use super::deliver;
use super::keeper::{ChangeError, Keeper};
use super::metrics::CameraMetrics;
use super::model::{Current, Model, Models};
use super::monitor::Monitor;
use super::mqtt;
use super::queue::Queue;
use super::scorer::Lane;
use super::source::{self, Frame};

/// A camera: where its frames come from, the model they are scored by, and what has come of them.
pub(crate) struct Camera {
    pub(crate) config: CameraConfig,
    pub(crate) model: Arc<Current>,
    /// Where its images wait to be scored.
    pub(crate) lane: Lane,
    pub(crate) frames: Arc<Queue<Frame>>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) keeper: Keeper,
    pub(crate) alarms: Alarms,
    pub(crate) metrics: Arc<CameraMetrics>,
    /// Names it in the log.
    pub(crate) span: Span,
    /// Its model's file is to be opened again.
    pub(crate) reload: Notify,
}

/// What goes on beside a camera, and comes to its end after it.
#[derive(Default)]
pub(crate) struct Beside {
    /// A thread for each receiver of alarms.
    pub(crate) deliveries: Vec<JoinHandle<()>>,
    /// The connection to the broker.
    pub(crate) link: Option<task::JoinHandle<()>>,
}

impl Camera {
    /// Opens what it keeps, and begins to deliver the alarms that wait; frames are not taken yet. `base` is the model of its file,
    /// `model` where the one in use is kept, at which `lane` looks.
    ///
    /// # Errors
    /// If its folder of the state cannot be read or written, or the system gives no thread.
    pub(crate) fn open(
        config: CameraConfig,
        service: &Config,
        base: Arc<Model>,
        models: &Arc<Models>,
        model: Arc<Current>,
        lane: Lane,
        metrics: CameraMetrics,
    ) -> anyhow::Result<(Self, Beside)> {
        let span = tracing::error_span!("camera", name = %config.name);
        let entered = span.clone().entered();
        let in_state = |folder: &Path| format!("camera `{}`: its state in {}", config.name, folder.display());
        let metrics = Arc::new(metrics);
        let monitor = Arc::new(Monitor::new(config.alarm, &base, Arc::clone(&metrics))?);
        let mut receivers = deliver::receivers(service);
        let mut link = None;
        if let Some(broker) = &config.mqtt {
            let (receiver, task) =
                mqtt::start(broker, &service.state, &monitor, &metrics).with_context(|| in_state(&service.state))?;
            receivers.push(receiver);
            link = Some(task);
        }
        let (alarms, deliveries) =
            Alarms::open(&config, receivers, &metrics).with_context(|| in_state(&config.state))?;
        let keeper = Keeper::start(config.clone(), Arc::clone(models), base, Arc::clone(&model), Arc::clone(&monitor))
            .with_context(|| in_state(&config.state))?;
        drop(entered);
        let frames = Arc::new(Queue::new(config.queue));
        let reload = Notify::new();
        let camera = Self { config, model, lane, frames, monitor, keeper, alarms, metrics, span, reload };
        Ok((camera, Beside { deliveries, link }))
    }

    /// Starts to take frames; the thread is given back where it is to be waited for.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn watch(&self) -> std::io::Result<Option<JoinHandle<()>>> {
        let _entered = self.span.enter();
        source::spawn(self.config.source.clone(), Arc::clone(&self.frames), Arc::clone(&self.monitor))
    }

    /// Opens its model's file again and takes the model if it is fit to.
    ///
    /// # Errors
    /// [`ChangeError`]; the model in use stays.
    pub(crate) fn reload(&self) -> Result<(), ChangeError> {
        self.keeper.reload()?;
        self.lane.reopen();
        Ok(())
    }

    /// Brings what waits and what was lost into the figures.
    pub(crate) fn measure(&self) {
        self.metrics.waiting.set((self.lane.waiting() + self.frames.len()) as i64);
        self.metrics.stuck.set(self.lane.stuck() as i64);
        self.metrics.scoring.set(i64::from(self.lane.is_working()));
        self.alarms.measure();
    }
}
