//! The threads that score: one pool for all cameras. The jobs of each camera wait in a separate bounded lane; a thread
//! takes a batch of one lane, and scores it in one call of that camera's model. Lanes take turns, so that each waits at
//! most for one batch of every other lane. A batch is one frame of the camera, or images of requests. Frames precede
//! requests: a batch takes no further image while a frame waits, and only as many as take a short time ([`QUICK`]), so
//! that requests with slow images, or for a slow model, delay a frame by one image. A request whose client has
//! disconnected is not scored, nor a frame that was withdrawn ([`Turn`]). Results are returned by a closure, called in
//! that thread.
//!
//! A thread that hangs in a backend cannot be stopped. The time limit is that of one image: it starts over for each
//! image that is decoded, and if the network scores several in one call, it is multiplied by their number. After a
//! hang, images are scored one by one until one succeeds. If there are several lanes, the place of a slow batch in the
//! pool is given to another thread, and no further batch of its lane is started meanwhile, so that other cameras
//! continue; after the lane's time limit, the thread is given up, and its jobs remain without an answer. A lane that
//! repeatedly loses threads without any score in between is given up itself. Threads that are lost while they decode the
//! image of a request do not count for that: the client chose the image. Requests are refused while as many of these
//! as the pool has are still at work. A panic of a backend is converted to an
//! error before it reaches this module.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use nae_infer::input::decode;
use nae_infer::{ScoreError, Scored};

use super::camera_name::CameraName;
use super::model::{Current, Model, NoModel};
use super::regions::{Applied, Seen, View};
pub(crate) use failure::Failure;
pub(crate) use turn::{NoAnswer, Turn};
use waiting::{Job, Origin, Waiting};

mod failure;
mod turn;
mod waiting;

/// The maximum number of jobs that are scored in one call.
const BATCH: usize = 32;
/// How long the images of a batch may take to be prepared, and how long in the network, if there are several.
const QUICK: Duration = Duration::from_millis(20);
/// The number of threads, for each in the pool, that a lane may lose without a score in between before it is given up.
const STUCK_FOR_EACH: usize = 4;
/// How long a batch may occupy its place in the pool if there are other lanes.
const LONG: Duration = Duration::from_millis(500);
/// How often that is checked.
const LOOK: Duration = Duration::from_millis(50);

/// The input to be scored.
pub(crate) enum Input {
    /// An encoded image and the regions that limit what the model sees; without any, it sees the whole image.
    Image(Bytes, Option<Arc<Applied>>),
    /// The input of the network.
    Prepared(Vec<f32>),
}

/// A score and its model.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) scored: Scored,
    pub(crate) model: Arc<Model>,
    /// The part of the image that was scored; `None` without regions.
    pub(crate) view: Option<Arc<View>>,
}

/// The closure that receives the result.
pub(crate) type Reply = Box<dyn FnOnce(Result<Answer, Failure>) + Send>;

/// The threads that score.
pub(crate) struct Scorer {
    shared: Arc<Shared>,
}

/// The queue of one camera's jobs.
pub(crate) struct Lane {
    shared: Arc<Shared>,
    index: usize,
}

/// The settings of a lane.
pub(crate) struct LaneSettings {
    pub(crate) camera: CameraName,
    pub(crate) model: Arc<Current>,
    /// The time limit for the scoring of one image.
    pub(crate) timeout: Duration,
}

struct Shared {
    lanes: Vec<LaneSettings>,
    /// The number of threads in the pool.
    threads: usize,
    state: Mutex<State>,
    /// Notified if there is a job, a lane may start another batch, or the service stops.
    changed: Condvar,
}

struct State {
    lanes: Vec<LaneState>,
    places: Vec<Place>,
    /// Batches whose place was given to another thread.
    overdue: Vec<Overdue>,
    /// The index of the lane whose turn it is.
    turn: usize,
    /// The number of threads started so far, which identifies each.
    hired: u64,
    /// The threads that were given up while they decoded the image of a request, and have not ended yet, and their lanes.
    decoding: Vec<(u64, usize)>,
    closed: bool,
}

impl State {
    /// The number of threads of a lane that were given up while they decoded the image of a request.
    fn still_decoding(&self, lane: usize) -> usize {
        self.decoding.iter().filter(|(_, of)| *of == lane).count()
    }
}

#[derive(Default)]
struct LaneState {
    waiting: Waiting,
    /// The number of batches that threads with a place are scoring.
    busy: usize,
    /// The number of batches that threads without a place are scoring.
    overdue: usize,
    /// The number of threads given up so far.
    stuck: usize,
    /// The number of threads given up since the last exchange of the model or its last score, except while they decoded
    /// the image of a request.
    stuck_of_model: usize,
    /// The model that scored last, and the time that it took for an image.
    pace: Option<(Weak<Model>, Duration)>,
}

impl LaneState {
    /// The number of images that `model` may score in one call: one if its pace is not known; and one after a hang, so
    /// that a further hang is detected sooner and leaves no other job without an answer.
    fn most(&self, model: &Arc<Model>) -> usize {
        match &self.pace {
            Some((of, pace)) if self.stuck_of_model == 0 && of.as_ptr() == Arc::as_ptr(model) => {
                let most = QUICK.as_nanos() / pace.as_nanos().max(1);
                most.clamp(1, BATCH as u128) as usize
            }
            _ => 1,
        }
    }
}

/// A place in the pool.
struct Place {
    /// The thread that occupies it; `None` if the system could not start one.
    thread: Option<u64>,
    task: Option<Task>,
}

/// A batch that is being scored.
#[derive(Clone, Copy)]
struct Task {
    lane: usize,
    since: Instant,
    step: Step,
}

/// The current step of a thread: one job that is prepared, or several in the network.
#[derive(Clone, Copy)]
struct Step {
    since: Instant,
    jobs: u32,
    /// Whether it is the image of a request that is prepared. That this takes too long says nothing of the model: otherwise
    /// a client with large images could have it given up.
    prepares_request: bool,
}

impl Step {
    fn network(jobs: usize) -> Self {
        // A batch is small.
        Self { since: Instant::now(), jobs: jobs.clamp(1, BATCH) as u32, prepares_request: false }
    }

    fn preparation(of_request: bool) -> Self {
        Self { prepares_request: of_request, ..Self::network(1) }
    }

    /// Whether it has taken longer than `timeout` for each of its jobs.
    fn is_stuck(&self, timeout: Duration) -> bool {
        self.since.elapsed() >= timeout.saturating_mul(self.jobs)
    }
}

/// A thread, the place that it had when it began its batch, and the batch's lane.
#[derive(Clone, Copy)]
struct Worker {
    lane: usize,
    place: usize,
    thread: u64,
}

struct Overdue {
    thread: u64,
    lane: usize,
    step: Step,
}

impl Scorer {
    /// Starts `threads` threads, and one that watches them, for these lanes in this order.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn start(lanes: Vec<LaneSettings>, threads: usize) -> std::io::Result<(Self, Vec<Lane>)> {
        let state = State {
            lanes: lanes.iter().map(|_| LaneState::default()).collect(),
            places: (0..threads).map(|_| Place { thread: None, task: None }).collect(),
            overdue: Vec::new(),
            turn: 0,
            hired: 0,
            decoding: Vec::new(),
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

    /// Whether there is a thread, and a lane that was not given up, even if it has no model yet.
    pub(crate) fn is_working(&self) -> bool {
        let state = self.shared.lock();
        let has_thread = state.places.iter().any(|place| place.thread.is_some());
        has_thread && state.lanes.iter().any(|lane| !self.shared.is_given_up(lane))
    }

    /// Accepts no more jobs; waiting jobs are completed.
    pub(crate) fn stop(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Lane {
    /// Submits a frame of the camera; `reply` is called with the result, at once if there is no room. [`Turn::wait`]
    /// waits for it.
    pub(crate) fn submit(
        &self,
        input: Input,
        reply: impl FnOnce(Result<Answer, Failure>) + Send + 'static,
    ) -> Arc<Turn> {
        let turn = Arc::default();
        self.take_in(Job { input, reply: Box::new(reply), origin: Origin::Frame(Arc::clone(&turn)) });
        turn
    }

    /// Submits the image of a request. If the value behind `client` is dropped before the job's turn, the job is not
    /// scored, and `reply` is not called.
    pub(crate) fn request(
        &self,
        input: Input,
        client: Weak<()>,
        reply: impl FnOnce(Result<Answer, Failure>) + Send + 'static,
    ) {
        self.take_in(Job { input, reply: Box::new(reply), origin: Origin::Request(client) });
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

    /// The number of threads given up so far.
    pub(crate) fn stuck(&self) -> usize {
        self.shared.lock().lanes[self.index].stuck
    }

    /// The number of waiting jobs.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.lock().lanes[self.index].waiting.len()
    }

    /// Whether there is a model that was not given up.
    pub(crate) fn is_working(&self) -> bool {
        self.shared.lanes[self.index].model.load().is_some()
            && !self.shared.is_given_up(&self.shared.lock().lanes[self.index])
    }

    /// Lets the lane start again after an exchange of the model.
    pub(crate) fn reopen(&self) {
        self.shared.lock().lanes[self.index].stuck_of_model = 0;
    }
}

#[cfg(test)]
impl Lane {
    /// As if the model had not returned too often.
    pub(crate) fn give_up(&self) {
        self.shared.lock().lanes[self.index].stuck_of_model = usize::MAX;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_given_up(&self, lane: &LaneState) -> bool {
        lane.stuck_of_model > self.threads * STUCK_FOR_EACH
    }

    /// Whether there are other lanes, which must not suffer from a slow one.
    fn has_several(&self) -> bool {
        self.lanes.len() > 1
    }

    /// Starts a new thread in the place.
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
        while let Some((lane, first)) = self.take(place) {
            let model = self.lanes[lane].model.load_full();
            let is_full = !first.is_frame() && self.lock().still_decoding(lane) >= self.threads;
            let has_scored = match &model {
                Some(_) if is_full => {
                    (first.reply)(Err(Failure::Busy));
                    false
                }
                Some(model) => self.score(model, first, Worker { lane, place, thread }),
                None => {
                    // The model was removed while the job waited.
                    (first.reply)(Err(NoModel.into()));
                    false
                }
            };
            // A score of a model that is no longer in use does not count.
            let in_use = self.lanes[lane].model.load_full();
            let is_good = has_scored && model.zip(in_use).is_some_and(|(by, now)| Arc::ptr_eq(&by, &now));
            if !self.done(place, thread, is_good) {
                return;
            }
        }
    }

    /// Scores a batch that begins with `first`, and sends the results. Returns whether there was any score.
    fn score(&self, model: &Arc<Model>, first: Job, worker: Worker) -> bool {
        let detector = &model.detector;
        let most = {
            let state = self.lock();
            let one_by_one = first.is_frame() || state.still_decoding(worker.lane) > 0;
            if one_by_one { 1 } else { state.lanes[worker.lane].most(model) }
        };
        let (mut batch, mut replies) = (Vec::new(), Vec::new());
        let mut has_scored = false;
        let (begun, mut count, mut next) = (Instant::now(), 0, Some(first));
        while let Some(Job { input, reply, .. }) = next {
            count += 1;
            match prepared(input, model, || self.goes_on(worker, Step::network(1))) {
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
            next = if count < most && begun.elapsed() < QUICK { self.another(worker) } else { None };
        }
        // The limit also covers a batch that fails as a whole and is then scored one by one.
        self.goes_on(worker, Step::network(replies.len()));
        let (begun, mut scores) = (Instant::now(), 0);
        for ((reply, view), scored) in replies.into_iter().zip(detector.score_each(&batch)) {
            scores += u32::from(scored.is_ok());
            reply(match scored {
                Ok(scored) => Ok(Answer { scored, model: Arc::clone(model), view }),
                Err(error) => Err(error.into()),
            });
        }
        // Images that are refused take no time in the network.
        if scores > 0 {
            self.lock().lanes[worker.lane].pace = Some((Arc::downgrade(model), begun.elapsed() / scores));
        }
        has_scored || scores > 0
    }

    /// The next image of a batch of requests, unless a frame waits.
    fn another(&self, worker: Worker) -> Option<Job> {
        self.goes_on(worker, Step::preparation(true));
        self.lock().lanes[worker.lane].waiting.next_request()
    }

    /// Waits for the first job of a batch; `None` if all are done and no more will come.
    fn take(&self, place: usize) -> Option<(usize, Job)> {
        let mut state = self.lock();
        loop {
            let count = state.lanes.len();
            let mut lanes = (0..count).map(|i| (state.turn + i) % count);
            if let Some(lane) = lanes.find(|&lane| self.may_begin(&state.lanes[lane])) {
                state.turn = (lane + 1) % count;
                let own = &mut state.lanes[lane];
                let Some(first) = own.waiting.next() else {
                    // Nobody waits for any of them.
                    continue;
                };
                own.busy += 1;
                let step = Step::preparation(!first.is_frame());
                state.places[place].task = Some(Task { lane, since: step.since, step });
                // More batches may be possible than threads were woken for.
                if state.closed || state.lanes.iter().any(|lane| self.may_begin(lane)) {
                    self.changed.notify_all();
                }
                return Some((lane, first));
            }
            // Jobs that wait behind another batch of their lane are still completed.
            if state.closed && state.lanes.iter().all(|lane| lane.waiting.is_empty()) {
                state.places[place].thread = None;
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a lane may start a batch. If there are several lanes and threads, one thread is left to the other lanes;
    /// while a batch of the lane is overdue, no other one is started.
    fn may_begin(&self, lane: &LaneState) -> bool {
        let limit = if self.has_several() { (self.threads - 1).max(1) } else { self.threads };
        !lane.waiting.is_empty() && lane.overdue == 0 && lane.busy < limit
    }

    /// Records that a thread has reached the next step of its batch.
    fn goes_on(&self, Worker { place, thread, .. }: Worker, step: Step) {
        let mut state = self.lock();
        let State { places, overdue, .. } = &mut *state;
        if places[place].thread == Some(thread) {
            if let Some(task) = &mut places[place].task {
                task.step = step;
            }
        } else if let Some(overdue) = overdue.iter_mut().find(|overdue| overdue.thread == thread) {
            overdue.step = step;
        }
    }

    /// Ends a batch; `is_good` if the model in use has scored any of it. Returns false if the thread no longer has a
    /// place.
    fn done(&self, place: usize, thread: u64, is_good: bool) -> bool {
        let mut state = self.lock();
        if state.places[place].thread == Some(thread) {
            if let Some(Task { lane, .. }) = state.places[place].task.take() {
                state.lanes[lane].busy -= 1;
                self.returned(&mut state.lanes[lane], is_good);
            }
            return true;
        }
        state.decoding.retain(|(decoding, _)| *decoding != thread);
        // If it is not in the list, it was given up.
        if let Some(at) = state.overdue.iter().position(|overdue| overdue.thread == thread) {
            let lane = state.overdue.swap_remove(at).lane;
            state.lanes[lane].overdue -= 1;
            self.returned(&mut state.lanes[lane], is_good);
            drop(state);
            self.changed.notify_all();
        }
        false
    }

    /// Records that a batch of a lane ended in time. A score resets the count of lost threads, so that only repeated
    /// hangs add up; a lane that was given up waits for another model.
    fn returned(&self, lane: &mut LaneState, is_good: bool) {
        if is_good && !self.is_given_up(lane) {
            lane.stuck_of_model = 0;
        }
    }

    /// Gives up threads that exceed the time limit, and replaces those that take long. Messages are logged after the
    /// lock is released: a blocked log must not stop the scoring.
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
                        stuck.push((lane, step, thread));
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
            // If the system could not start a thread, this is tried again at the next check.
            if vacant && let Err(error) = Self::hire(shared, &mut state, place) {
                failed = failed.or(thread.map(|_| error));
            }
        }
        let is_stuck = |overdue: &Overdue| overdue.step.is_stuck(shared.lanes[overdue.lane].timeout);
        for overdue in state.overdue.extract_if(.., |overdue| is_stuck(overdue)).collect::<Vec<_>>() {
            state.lanes[overdue.lane].overdue -= 1;
            stuck.push((overdue.lane, overdue.step, overdue.thread));
        }
        for &(lane, step, thread) in &stuck {
            if step.prepares_request {
                state.decoding.push((thread, lane));
            }
            let own = &mut state.lanes[lane];
            let before = shared.is_given_up(own);
            own.stuck += 1;
            own.stuck_of_model += usize::from(!step.prepares_request);
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
        for (lane, step, _) in stuck {
            let LaneSettings { camera, timeout, .. } = &shared.lanes[lane];
            if step.prepares_request {
                tracing::error!(%camera, ?timeout, "the image of a request takes too long to decode: its thread is given up");
            } else {
                tracing::error!(%camera, ?timeout, "the backend does not return: its thread is given up");
            }
        }
        for lane in given_up {
            let camera = &shared.lanes[lane].camera;
            tracing::error!(%camera, "the model is given up: no image is scored by it until another is taken");
        }
        unanswered.into_iter().for_each(|job| (job.reply)(Err(Failure::GivenUp)));
    }
}

/// A job after its preparation.
enum Prepared {
    /// The input of the network.
    Input(Vec<f32>, Option<Arc<View>>),
    /// The score of an image that is cut into tiles, which are a batch by themselves.
    Scored(Scored, Option<Arc<View>>),
}

/// Decodes and resizes an image; an image that is cut into tiles is scored, and `scores` is called before that.
fn prepared(input: Input, model: &Model, scores: impl FnOnce()) -> Result<Prepared, Failure> {
    let settings = model.detector.settings();
    match input {
        Input::Image(bytes, regions) => {
            let pixels = decode(&bytes).map_err(|error| Failure::Decode(error.to_string()))?;
            let seen = match regions {
                Some(regions) => regions.look(pixels)?,
                None => Seen::whole(pixels),
            };
            match settings.tiles {
                Some(_) => {
                    scores();
                    Ok(Prepared::Scored(seen.score(&model.detector)?, seen.into_view()))
                }
                None => Ok(Prepared::Input(settings.prepare(seen.pixels())?, seen.into_view())),
            }
        }
        Input::Prepared(values) if values.len() == settings.contract.input.len() => Ok(Prepared::Input(values, None)),
        Input::Prepared(values) => {
            Err(ScoreError::Length { expected: settings.contract.input.len(), found: values.len() }.into())
        }
    }
}

/// Checks the threads until the scorer is dropped.
fn watch(shared: &Weak<Shared>) {
    loop {
        thread::sleep(LOOK);
        let Some(shared) = shared.upgrade() else { return };
        Shared::look(&shared);
    }
}

#[cfg(test)]
mod tests;
