//! The threads that score, one pool for all cameras. The jobs of each camera wait in a bounded lane of its own; a thread takes
//! what waits in one, up to a batch, and scores it in one call of that camera's model. Lanes take turns, so that none waits
//! longer than for a batch of each other. Within a lane, frames of the camera go before images of requests; a request whose client
//! has gone is not scored. Whoever sent a job is told by a closure, from that thread.
//!
//! A thread that is stuck in a backend cannot be stopped. The time limit is one image's: it begins anew with each that is decoded, and
//! where the network takes several in one call there is as much time for each. After a hang they are scored one by one until one
//! is scored. Where there are several lanes, one that takes long has its place in the pool taken by another thread, and nothing
//! more of its lane is begun meanwhile, so that other cameras go on; after the lane's time limit it is given up, and what it held
//! is left without an answer. A lane that loses threads again and again, and scores nothing in between, is given up itself. A
//! panic of a backend is an error before it comes here.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use nae_infer::input::{PrepareError, decode};
use nae_infer::{ScoreError, Scored};

use super::camera_name::CameraName;
use super::model::{Current, Model, NoModel};
use super::regions::{Applied, NothingSeen, Seen, View};
use waiting::{Job, Waiting};

mod waiting;

/// Jobs that are scored in one call.
const BATCH: usize = 32;
/// Threads that a lane may lose without a score in between, for each that should run, before it is given up.
const STUCK_FOR_EACH: usize = 4;
/// How long a batch may keep its place in the pool from other lanes.
const LONG: Duration = Duration::from_millis(500);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What is to be scored.
pub(crate) enum Input {
    /// An image, encoded, of which the model sees what the regions leave; all of it without any.
    Image(Bytes, Option<Arc<Applied>>),
    /// The network's input.
    Prepared(Vec<f32>),
}

/// Why there is no score.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Failure {
    /// The bytes are no image that is read.
    #[error("not an image that can be read (PNG, JPEG, BMP, TIFF, WebP, PGM, PPM): {0}")]
    Decode(String),
    /// The regions leave nothing of it.
    #[error(transparent)]
    NothingSeen(#[from] NothingSeen),
    /// The image cannot become the network's input.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// There is no energy: see [`is_of_model`](Self::is_of_model).
    #[error(transparent)]
    Score(ScoreError),
    /// There is none to score with.
    #[error(transparent)]
    NoModel(#[from] NoModel),
    /// Too many jobs wait.
    #[error("too many images wait to be scored")]
    Busy,
    /// The model did not return too often.
    #[error("the model did not return again and again, and is given up: exchange it, or restart the service")]
    GivenUp,
    /// The service stops.
    #[error("the service is stopping")]
    Stopping,
}

impl Failure {
    /// Whether the model failed on an image that it could have scored: what is decoded is finite, and so should its energy be.
    pub(crate) fn is_of_model(&self) -> bool {
        matches!(self, Self::Score(ScoreError::Backend(_) | ScoreError::Energy(_)))
    }
}

impl From<ScoreError> for Failure {
    fn from(error: ScoreError) -> Self {
        match error {
            // Of a model of tiles, which prepares an image while it scores.
            ScoreError::Prepare(error) => Self::Prepare(error),
            error => Self::Score(error),
        }
    }
}

/// A score, and the model it is by.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) scored: Scored,
    pub(crate) model: Arc<Model>,
    /// What part of the image was scored; all of it without regions.
    pub(crate) view: Option<Arc<View>>,
}

/// Called with the result.
pub(crate) type Reply = Box<dyn FnOnce(Result<Answer, Failure>) + Send>;

/// The threads that score.
pub(crate) struct Scorer {
    shared: Arc<Shared>,
}

/// Where the jobs of one camera wait.
pub(crate) struct Lane {
    shared: Arc<Shared>,
    index: usize,
}

/// Whose jobs wait in a lane, and how they are scored.
pub(crate) struct LaneSettings {
    pub(crate) camera: CameraName,
    pub(crate) model: Arc<Current>,
    /// The longest that scoring an image may take.
    pub(crate) timeout: Duration,
}

struct Shared {
    lanes: Vec<LaneSettings>,
    /// Threads that should run.
    threads: usize,
    state: Mutex<State>,
    /// There is a job, or one of a lane may be begun again, or the end has come.
    changed: Condvar,
}

struct State {
    lanes: Vec<LaneState>,
    places: Vec<Place>,
    /// Batches whose place was taken by another thread.
    overdue: Vec<Overdue>,
    /// The lane whose turn it is.
    turn: usize,
    /// Threads hired so far, by which each is known.
    hired: u64,
    closed: bool,
}

#[derive(Default)]
struct LaneState {
    waiting: Waiting,
    /// Batches being scored by threads that have a place.
    busy: usize,
    /// Batches being scored by threads that have lost theirs.
    overdue: usize,
    /// Threads given up so far, and of these since the model was exchanged or scored anything.
    stuck: usize,
    stuck_of_model: usize,
}

/// A place in the pool.
struct Place {
    /// The thread that has it; `None` where the system gave none.
    thread: Option<u64>,
    task: Option<Task>,
}

/// A batch that is scored.
#[derive(Clone, Copy)]
struct Task {
    lane: usize,
    since: Instant,
    step: Step,
}

/// What a thread is at: one job that is prepared, or several that are in the network.
#[derive(Clone, Copy)]
struct Step {
    since: Instant,
    jobs: u32,
}

impl Step {
    fn begin(jobs: usize) -> Self {
        // A batch is small.
        Self { since: Instant::now(), jobs: jobs.clamp(1, BATCH) as u32 }
    }

    /// Whether it has taken longer than `timeout` for each of its jobs.
    fn is_stuck(&self, timeout: Duration) -> bool {
        self.since.elapsed() >= timeout.saturating_mul(self.jobs)
    }
}

struct Overdue {
    thread: u64,
    lane: usize,
    step: Step,
}

impl Scorer {
    /// Starts `threads` threads, and one that watches them, for lanes in this order.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(lanes: Vec<LaneSettings>, threads: usize) -> std::io::Result<(Self, Vec<Lane>)> {
        let state = State {
            lanes: lanes.iter().map(|_| LaneState::default()).collect(),
            places: (0..threads).map(|_| Place { thread: None, task: None }).collect(),
            overdue: Vec::new(),
            turn: 0,
            hired: 0,
            closed: false,
        };
        let shared = Arc::new(Shared { lanes, threads, state: Mutex::new(state), changed: Condvar::new() });
        for place in 0..threads {
            Shared::hire(&shared, &mut shared.lock(), place)?;
        }
        let watched = Arc::downgrade(&shared);
        thread::Builder::new().name("score watch".into()).spawn(move || watch(&watched))?;
        let lanes = (0..shared.lanes.len()).map(|index| Lane { shared: Arc::clone(&shared), index }).collect();
        Ok((Self { shared }, lanes))
    }

    /// Whether there is a thread, and a lane that it scores for, or would if there were a model.
    pub(crate) fn is_working(&self) -> bool {
        let state = self.shared.lock();
        let has_thread = state.places.iter().any(|place| place.thread.is_some());
        has_thread && state.lanes.iter().any(|lane| !self.shared.is_given_up(lane))
    }

    /// Takes no more jobs; those that wait are done.
    pub(crate) fn stop(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Lane {
    /// Has a frame of the camera scored; `reply` is called with the result, at once if there is no room.
    pub(crate) fn submit(&self, input: Input, reply: impl FnOnce(Result<Answer, Failure>) + Send + 'static) {
        self.take_in(Job { input, reply: Box::new(reply), client: None });
    }

    /// The same for the image of a request. Where what `client` points to is dropped before its turn comes, it is not scored, and
    /// `reply` is not called.
    pub(crate) fn request(
        &self,
        input: Input,
        client: Weak<()>,
        reply: impl FnOnce(Result<Answer, Failure>) + Send + 'static,
    ) {
        self.take_in(Job { input, reply: Box::new(reply), client: Some(client) });
    }

    fn take_in(&self, job: Job) {
        let mut state = self.shared.lock();
        let closed = state.closed;
        let lane = &mut state.lanes[self.index];
        let refused = if closed {
            Failure::Stopping
        } else if self.shared.lanes[self.index].model.load().is_none() {
            NoModel.into()
        } else if self.shared.is_given_up(lane) {
            Failure::GivenUp
        } else if !lane.waiting.has_room(&job) {
            Failure::Busy
        } else {
            lane.waiting.push(job);
            drop(state);
            self.shared.changed.notify_one();
            return;
        };
        drop(state);
        (job.reply)(Err(refused));
    }

    /// Threads given up so far.
    pub(crate) fn stuck(&self) -> usize {
        self.shared.lock().lanes[self.index].stuck
    }

    /// Jobs that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.lock().lanes[self.index].waiting.len()
    }

    /// Whether there is a model, and it is not given up.
    pub(crate) fn is_working(&self) -> bool {
        self.shared.lanes[self.index].model.load().is_some()
            && !self.shared.is_given_up(&self.shared.lock().lanes[self.index])
    }

    /// Another model is in use, which is to be tried.
    pub(crate) fn reopen(&self) {
        self.shared.lock().lanes[self.index].stuck_of_model = 0;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_given_up(&self, lane: &LaneState) -> bool {
        lane.stuck_of_model > self.threads * STUCK_FOR_EACH
    }

    /// Whether other lanes are to be kept from harm by one.
    fn has_several(&self) -> bool {
        self.lanes.len() > 1
    }

    /// A new thread in the place.
    fn hire(shared: &Arc<Self>, state: &mut State, place: usize) -> std::io::Result<()> {
        state.hired += 1;
        let thread = state.hired;
        state.places[place] = Place { thread: None, task: None };
        let own = Arc::clone(shared);
        thread::Builder::new().name("score".into()).spawn(move || own.work(place, thread))?;
        state.places[place].thread = Some(thread);
        Ok(())
    }

    fn work(&self, place: usize, thread: u64) {
        while let Some((lane, jobs)) = self.take(place) {
            let model = self.lanes[lane].model.load_full();
            let has_scored = match &model {
                Some(model) => score(model, jobs, |jobs| self.goes_on(place, thread, jobs)),
                None => {
                    // It was taken back while they waited.
                    jobs.into_iter().for_each(|job| (job.reply)(Err(NoModel.into())));
                    false
                }
            };
            // Of another that was in use before it says nothing.
            let in_use = self.lanes[lane].model.load_full();
            let is_good = has_scored && model.zip(in_use).is_some_and(|(by, now)| Arc::ptr_eq(&by, &now));
            if !self.done(place, thread, is_good) {
                return;
            }
        }
    }

    /// Waits for jobs of one lane; `None` where all are done and there will be no more.
    fn take(&self, place: usize) -> Option<(usize, Vec<Job>)> {
        let mut state = self.lock();
        loop {
            let count = state.lanes.len();
            let mut lanes = (0..count).map(|i| (state.turn + i) % count);
            if let Some(lane) = lanes.find(|&lane| self.may_begin(&state.lanes[lane])) {
                state.turn = (lane + 1) % count;
                let own = &mut state.lanes[lane];
                // After a hang one by one, so that another is not waited for as long as for a batch, and costs others no answer.
                let most = if own.stuck_of_model > 0 { 1 } else { BATCH };
                let jobs = own.waiting.batch(most);
                if jobs.is_empty() {
                    // All clients have gone.
                    continue;
                }
                own.busy += 1;
                let step = Step::begin(1);
                state.places[place].task = Some(Task { lane, since: step.since, step });
                // There may be more that can be begun than threads were woken for.
                if state.closed || state.lanes.iter().any(|lane| self.may_begin(lane)) {
                    self.changed.notify_all();
                }
                return Some((lane, jobs));
            }
            // What waits behind another batch of its lane is still done.
            if state.closed && state.lanes.iter().all(|lane| lane.waiting.is_empty()) {
                state.places[place].thread = None;
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One of several lanes leaves a thread to the others, where there is more than one, and begins nothing while a batch of it
    /// takes long.
    fn may_begin(&self, lane: &LaneState) -> bool {
        let limit = if self.has_several() { (self.threads - 1).max(1) } else { self.threads };
        !lane.waiting.is_empty() && lane.overdue == 0 && lane.busy < limit
    }

    /// A thread is at the next step of its batch, which is of so many jobs.
    fn goes_on(&self, place: usize, thread: u64, jobs: usize) {
        let mut state = self.lock();
        let State { places, overdue, .. } = &mut *state;
        if places[place].thread == Some(thread) {
            if let Some(task) = &mut places[place].task {
                task.step = Step::begin(jobs);
            }
        } else if let Some(overdue) = overdue.iter_mut().find(|overdue| overdue.thread == thread) {
            overdue.step = Step::begin(jobs);
        }
    }

    /// A batch is done, which `is_good` where the model in use has scored any of it; false where its thread has no place any more.
    fn done(&self, place: usize, thread: u64, is_good: bool) -> bool {
        let mut state = self.lock();
        if state.places[place].thread == Some(thread) {
            if let Some(Task { lane, .. }) = state.places[place].task.take() {
                state.lanes[lane].busy -= 1;
                self.returned(&mut state.lanes[lane], is_good);
            }
            return true;
        }
        // Otherwise it was given up.
        if let Some(at) = state.overdue.iter().position(|overdue| overdue.thread == thread) {
            let lane = state.overdue.swap_remove(at).lane;
            state.lanes[lane].overdue -= 1;
            self.returned(&mut state.lanes[lane], is_good);
            drop(state);
            self.changed.notify_all();
        }
        false
    }

    /// A batch of a lane came back in time. What goes wrong once in a while is then not what goes wrong again and again; but a lane that
    /// was given up waits for another model.
    fn returned(&self, lane: &mut LaneState, is_good: bool) {
        if is_good && !self.is_given_up(lane) {
            lane.stuck_of_model = 0;
        }
    }

    /// Gives up threads that take too long, and puts others in the places of those that take long. What there is to say is said
    /// afterwards: a log that is not read must not stop the scoring.
    fn look(shared: &Arc<Self>) {
        let mut state = shared.lock();
        let (mut stuck, mut given_up, mut unanswered, mut failed) = (Vec::new(), Vec::new(), Vec::new(), None);
        for place in 0..state.places.len() {
            let Place { thread, task } = state.places[place];
            let vacant = match (thread, task) {
                (None, _) => !state.closed,
                (Some(_), None) => false,
                (Some(thread), Some(Task { lane, since, step })) => {
                    if step.is_stuck(shared.lanes[lane].timeout) {
                        stuck.push(lane);
                    } else if shared.has_several() && since.elapsed() >= LONG {
                        state.overdue.push(Overdue { thread, lane, step });
                        state.lanes[lane].overdue += 1;
                    } else {
                        continue;
                    }
                    state.lanes[lane].busy -= 1;
                    true
                }
            };
            // One that could not be had is asked for again.
            if vacant && let Err(error) = Self::hire(shared, &mut state, place) {
                failed = failed.or(thread.map(|_| error));
            }
        }
        let is_stuck = |overdue: &Overdue| overdue.step.is_stuck(shared.lanes[overdue.lane].timeout);
        for overdue in state.overdue.extract_if(.., |overdue| is_stuck(overdue)).collect::<Vec<_>>() {
            state.lanes[overdue.lane].overdue -= 1;
            stuck.push(overdue.lane);
        }
        for &lane in &stuck {
            let own = &mut state.lanes[lane];
            let before = shared.is_given_up(own);
            own.stuck += 1;
            own.stuck_of_model += 1;
            if shared.is_given_up(own) && !before {
                given_up.push(lane);
                unanswered.extend(own.waiting.drain());
            }
        }
        drop(state);
        if !stuck.is_empty() {
            shared.changed.notify_all();
        }
        if let Some(error) = failed {
            tracing::error!(%error, "no thread to score");
        }
        for lane in stuck {
            let LaneSettings { camera, timeout, .. } = &shared.lanes[lane];
            tracing::error!(%camera, ?timeout, "the backend does not return: its thread is given up");
        }
        for lane in given_up {
            let camera = &shared.lanes[lane].camera;
            tracing::error!(%camera, "the model is given up: no image is scored by it until another is taken");
        }
        unanswered.into_iter().for_each(|job| (job.reply)(Err(Failure::GivenUp)));
    }
}

/// Scores a batch and tells everyone; whether there is any score. Before each step `goes_on` is told of how many jobs it is.
fn score(model: &Arc<Model>, jobs: Vec<Job>, goes_on: impl Fn(usize)) -> bool {
    let detector = &model.detector;
    let mut has_scored = false;
    let mut batch = Vec::with_capacity(jobs.len() * detector.contract().input.len());
    let mut replies = Vec::with_capacity(jobs.len());
    for Job { input, reply, .. } in jobs {
        goes_on(1);
        match prepared(input, model) {
            Ok(Prepared::Input(values, view)) => {
                batch.extend(values);
                replies.push((reply, view));
            }
            Ok(Prepared::Scored(scored, view)) => {
                has_scored = true;
                reply(Ok(Answer { scored, model: Arc::clone(model), view }));
            }
            Err(failure) => reply(Err(failure)),
        }
    }
    // Also what fails together and is tried one by one.
    goes_on(replies.len());
    for ((reply, view), scored) in replies.into_iter().zip(detector.score_each(&batch)) {
        has_scored |= scored.is_ok();
        reply(match scored {
            Ok(scored) => Ok(Answer { scored, model: Arc::clone(model), view }),
            Err(error) => Err(error.into()),
        });
    }
    has_scored
}

/// What becomes of a job on the way to the network.
enum Prepared {
    /// The network's input.
    Input(Vec<f32>, Option<Arc<View>>),
    /// The score of an image that is cut into tiles, which are a batch by themselves.
    Scored(Scored, Option<Arc<View>>),
}

fn prepared(input: Input, model: &Model) -> Result<Prepared, Failure> {
    let settings = model.detector.settings();
    match input {
        Input::Image(bytes, regions) => {
            let pixels = decode(&bytes).map_err(|error| Failure::Decode(error.to_string()))?;
            let seen = match regions {
                Some(regions) => regions.look(pixels)?,
                None => Seen::whole(pixels),
            };
            match settings.tiles {
                Some(_) => Ok(Prepared::Scored(seen.score(&model.detector)?, seen.into_view())),
                None => Ok(Prepared::Input(settings.prepare(seen.pixels())?, seen.into_view())),
            }
        }
        Input::Prepared(values) if values.len() == settings.contract.input.len() => Ok(Prepared::Input(values, None)),
        Input::Prepared(values) => {
            Err(ScoreError::Length { expected: settings.contract.input.len(), found: values.len() }.into())
        }
    }
}

/// Looks at the threads, until the scorer is dropped.
fn watch(shared: &Weak<Shared>) {
    loop {
        thread::sleep(LOOK);
        let Some(shared) = shared.upgrade() else { return };
        Shared::look(&shared);
    }
}

#[cfg(test)]
mod tests;
