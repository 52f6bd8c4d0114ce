//! The threads that score. Jobs wait in a bounded queue; a thread takes all that wait, up to a batch,
//! and scores them in one call. Whoever sent a job is told by a closure, from that thread.
//!
//! A thread that is stuck in a backend cannot be stopped; it is given up, what it held is left without an
//! answer, and another thread takes its place. A panic of a backend is an error before it comes here.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use nae_infer::input::{Pixels, PrepareError, decode};
use nae_infer::{ScoreError, Scored};

use super::model::{Current, Model};
use super::queue::{Queue, Refused};

/// Jobs that are scored in one call.
const BATCH: usize = 32;
/// Jobs that may wait.
const WAITING: usize = 1024;
/// Threads that may be stuck, for each that should run, before no more are started.
const STUCK_FOR_EACH: usize = 4;
/// A thread that is doing nothing.
const IDLE: u64 = u64::MAX;

/// What is to be scored.
pub(crate) enum Input {
    /// An image, encoded.
    Image(Bytes),
    /// The network's input.
    Prepared(Vec<f32>),
}

/// Why there is no score.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Failure {
    /// The bytes are no image that is read.
    #[error("not an image that can be read (PNG, JPEG, BMP, TIFF, WebP, PGM, PPM): {0}")]
    Decode(String),
    /// The image cannot become the network's input.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The model failed on it.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// Too many jobs wait.
    #[error("too many images wait to be scored")]
    Busy,
    /// The service stops.
    #[error("the service is stopping")]
    Stopping,
}

/// A score, and the model it is by.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) scored: Scored,
    pub(crate) model: Arc<Model>,
}

/// Called with the result.
pub(crate) type Reply = Box<dyn FnOnce(Result<Answer, Failure>) + Send>;

struct Job {
    input: Input,
    reply: Reply,
}

/// The threads that score, and the jobs that wait for them.
pub(crate) struct Scorer {
    shared: Arc<Shared>,
}

struct Shared {
    jobs: Queue<Job>,
    model: Arc<Current>,
    started: Instant,
    timeout: Duration,
    /// Threads that should run.
    threads: usize,
    running: AtomicUsize,
    stuck: AtomicUsize,
}

/// What one thread is doing.
struct Desk {
    /// Since when it scores a batch, in milliseconds after the start of the service; [`IDLE`] otherwise.
    busy_since: AtomicU64,
}

impl Scorer {
    /// Starts `threads` threads, and one that watches them.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(model: Arc<Current>, threads: usize, timeout: Duration) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            jobs: Queue::new(WAITING),
            model,
            started: Instant::now(),
            timeout,
            threads,
            running: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
        });
        let desks = (0..threads).map(|_| Shared::hire(&shared)).collect::<std::io::Result<Vec<_>>>()?;
        let watched = Arc::downgrade(&shared);
        thread::Builder::new().name("score watch".into()).spawn(move || watch(&watched, desks))?;
        Ok(Self { shared })
    }

    /// Has `input` scored; `reply` is called with the result, at once if there is no room.
    pub(crate) fn submit(&self, input: Input, reply: impl FnOnce(Result<Answer, Failure>) + Send + 'static) {
        match self.shared.jobs.push(Job { input, reply: Box::new(reply) }) {
            Ok(()) => {}
            Err(Refused::Full(job)) => (job.reply)(Err(Failure::Busy)),
            Err(Refused::Closed(job)) => (job.reply)(Err(Failure::Stopping)),
        }
    }

    /// Threads given up so far.
    pub(crate) fn stuck(&self) -> usize {
        self.shared.stuck.load(Ordering::Relaxed)
    }

    /// Whether any thread is left that scores.
    pub(crate) fn is_working(&self) -> bool {
        self.shared.running.load(Ordering::Relaxed) > 0
    }

    /// Jobs that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.jobs.len()
    }

    /// Takes no more jobs; those that wait are done.
    pub(crate) fn stop(&self) {
        self.shared.jobs.close();
    }
}

impl Shared {
    /// One more thread.
    fn hire(shared: &Arc<Self>) -> std::io::Result<Arc<Desk>> {
        let desk = Arc::new(Desk { busy_since: AtomicU64::new(IDLE) });
        let (shared, own) = (Arc::clone(shared), Arc::clone(&desk));
        shared.running.fetch_add(1, Ordering::Relaxed);
        thread::Builder::new().name("score".into()).spawn(move || shared.work(&own))?;
        Ok(desk)
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn work(&self, desk: &Desk) {
        loop {
            let jobs = self.jobs.pop_up_to(BATCH);
            if jobs.is_empty() {
                self.running.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            let began = self.now();
            desk.busy_since.store(began, Ordering::Release);
            score(&self.model.load_full(), jobs);
            // Given up in the meantime: another thread has the place.
            if desk.busy_since.compare_exchange(began, IDLE, Ordering::AcqRel, Ordering::Acquire).is_err() {
                return;
            }
        }
    }
}

/// Scores a batch and tells everyone.
fn score(model: &Arc<Model>, jobs: Vec<Job>) {
    let detector = &model.detector;
    let mut batch = Vec::with_capacity(jobs.len() * detector.contract().input.len());
    let mut replies = Vec::with_capacity(jobs.len());
    for Job { input, reply } in jobs {
        match prepared(input, model) {
            Ok(Prepared::Input(values)) => {
                batch.extend(values);
                replies.push(reply);
            }
            Ok(Prepared::Scored(scored)) => reply(Ok(Answer { scored, model: Arc::clone(model) })),
            Err(failure) => reply(Err(failure)),
        }
    }
    for (reply, scored) in replies.into_iter().zip(detector.score_each(&batch)) {
        reply(match scored {
            Ok(scored) => Ok(Answer { scored, model: Arc::clone(model) }),
            Err(error) => Err(error.into()),
        });
    }
}

/// What becomes of a job on the way to the network.
enum Prepared {
    /// The network's input.
    Input(Vec<f32>),
    /// The score of an image that is cut into tiles, which are a batch by themselves.
    Scored(Scored),
}

fn prepared(input: Input, model: &Model) -> Result<Prepared, Failure> {
    let settings = model.detector.settings();
    match input {
        Input::Image(bytes) => {
            let pixels: Pixels = decode(&bytes).map_err(|error| Failure::Decode(error.to_string()))?;
            match settings.tiles {
                Some(_) => Ok(Prepared::Scored(model.detector.score_pixels(&pixels)?)),
                None => Ok(Prepared::Input(settings.prepare(&pixels)?)),
            }
        }
        Input::Prepared(values) if values.len() == settings.contract.input.len() => Ok(Prepared::Input(values)),
        Input::Prepared(values) => {
            Err(ScoreError::Length { expected: settings.contract.input.len(), found: values.len() }.into())
        }
    }
}

/// Gives up threads that take too long and puts others in their place, until the scorer is dropped.
fn watch(shared: &Weak<Shared>, mut desks: Vec<Arc<Desk>>) {
    loop {
        thread::sleep(Duration::from_millis(100));
        let Some(shared) = shared.upgrade() else { return };
        let limit = shared.timeout.as_millis() as u64;
        for desk in &mut desks {
            let since = desk.busy_since.load(Ordering::Acquire);
            if since == IDLE || shared.now().saturating_sub(since) < limit {
                continue;
            }
            if desk.busy_since.compare_exchange(since, IDLE, Ordering::AcqRel, Ordering::Acquire).is_err() {
                continue;
            }
            let stuck = shared.stuck.fetch_add(1, Ordering::Relaxed) + 1;
            shared.running.fetch_sub(1, Ordering::Relaxed);
            tracing::error!(timeout = ?shared.timeout, stuck, "the backend does not return: its thread is given up");
            if stuck > shared.threads * STUCK_FOR_EACH {
                continue;
            }
            match Shared::hire(&shared) {
                Ok(new) => *desk = new,
                Err(error) => tracing::error!(%error, "no thread to take its place"),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

    use nae_core::calibration::Calibration;
    use nae_core::contract::Contract;
    use nae_infer::backend::{Backend, BackendError, Reconstructions};
    use nae_infer::card::ScoringSettings;
    use nae_infer::{BackendKind, Detector, Shape};
    use nae_onnx::metadata::Tiles;

    use super::*;

    /// Reconstructs zeros, hangs on an image that begins with 2 and fails on one that begins with 3.
    struct Moody;

    impl Backend for Moody {
        fn kind(&self) -> BackendKind {
            BackendKind::Native
        }

        fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
            for image in batch.chunks(4) {
                match image[0] {
                    2.0 => loop {
                        thread::park();
                    },
                    3.0 => return Err(BackendError::Run { backend: self.kind(), reason: "moody".into() }),
                    _ => {}
                }
            }
            Ok(Reconstructions { images: vec![0.0; batch.len()], ..Reconstructions::default() })
        }
    }

    fn moody() -> Arc<Current> {
        with_tiles(None)
    }

    fn with_tiles(tiles: Option<Tiles>) -> Arc<Current> {
        let calibration = Calibration::from_energies(&mut [0.5; 99]).unwrap();
        let contract = Contract::new(Shape::new(1, 2, 2)).with_calibration(calibration, 0.01).unwrap();
        let mut settings = ScoringSettings::new(contract);
        settings.tiles = tiles;
        let detector = Detector::with_backend(settings, Arc::new(Moody));
        let model = Model { detector, card: Vec::new(), digest: String::new(), bytes: Arc::default() };
        Arc::new(Current::from_pointee(model))
    }

    fn submit(scorer: &Scorer, first: f32) -> Receiver<Result<f32, Failure>> {
        let (sender, receiver) = channel();
        scorer.submit(Input::Prepared(vec![first, 0.0, 0.0, 0.0]), move |answer| {
            let _ = sender.send(answer.map(|a| a.scored.energy));
        });
        receiver
    }

    #[test]
    fn one_bad_image_does_not_spoil_a_batch() {
        let scorer = Scorer::start(moody(), 1, Duration::from_secs(60)).unwrap();
        let answers: Vec<_> = [1.0, 3.0, 0.5, f32::NAN, 0.0].map(|v| submit(&scorer, v)).into();
        let answers: Vec<_> = answers.iter().map(|a| a.recv().unwrap()).collect();
        assert_eq!((&answers[0], &answers[2], &answers[4]), (&Ok(0.25), &Ok(0.0625), &Ok(0.0)));
        assert!(matches!(answers[1], Err(Failure::Score(ScoreError::Backend(_)))));
        assert!(matches!(answers[3], Err(Failure::Score(ScoreError::Energy(_)))));
    }

    #[test]
    fn an_image_is_cut_into_the_models_tiles() {
        let scorer =
            Scorer::start(with_tiles(Some(Tiles { stride: 1, top_k: 1 })), 1, Duration::from_secs(60)).unwrap();
        let (sender, receiver) = channel();
        // White in a corner of nine pixels: a tile with it has a quarter of its pixels wrong.
        let image = b"P5 3 3 255\n\xFF\0\0\0\0\0\0\0\0".as_slice();
        scorer.submit(Input::Image(image.into()), move |answer| sender.send(answer.map(|a| a.scored)).unwrap());
        let scored = receiver.recv().unwrap().unwrap();
        assert_eq!((scored.energy, scored.error_map_shape), (0.25, Shape::new(1, 3, 3)));
    }

    #[test]
    fn a_backend_that_hangs_loses_its_thread_and_no_more() {
        let scorer = Scorer::start(moody(), 1, Duration::from_millis(200)).unwrap();
        let hung = submit(&scorer, 2.0);
        let after = submit(&scorer, 1.0);
        // Either it was in the same batch and is lost with it, or it is answered by the next thread.
        let _ = after.recv_timeout(Duration::from_secs(20));
        let later = submit(&scorer, 1.0);
        assert_eq!(later.recv_timeout(Duration::from_secs(20)), Ok(Ok(0.25)));
        assert_eq!((scorer.stuck(), scorer.is_working()), (1, true));
        assert_eq!(hung.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout), "it still hangs");
    }

    #[test]
    fn what_hangs_again_and_again_is_not_served_for_ever() {
        let scorer = Scorer::start(moody(), 1, Duration::from_millis(100)).unwrap();
        let mut hung = Vec::new();
        while scorer.is_working() {
            hung.push(submit(&scorer, 2.0));
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(scorer.stuck(), STUCK_FOR_EACH + 1);
    }

    #[test]
    fn what_waits_is_done_before_the_end() {
        let scorer = Scorer::start(moody(), 2, Duration::from_secs(60)).unwrap();
        let answers: Vec<_> = (0..100).map(|_| submit(&scorer, 1.0)).collect();
        scorer.stop();
        assert!(answers.iter().all(|a| a.recv().unwrap() == Ok(0.25)));
        assert_eq!(submit(&scorer, 1.0).recv().unwrap(), Err(Failure::Stopping));
    }
}
