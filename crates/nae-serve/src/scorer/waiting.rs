//! The jobs that wait in a lane, within bounds: frames of the camera before images of requests. The scheduling is
//! elsewhere.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::{Input, Reply, Turn};

/// The maximum number of waiting frames of a lane, and of waiting images of requests.
const WAITING: usize = 1024;
/// The maximum number of bytes of a lane's waiting requests; a single request may be larger.
pub(super) const WAITING_BYTES: usize = 256 << 20;

/// The origin of a job.
pub(super) enum Origin {
    Frame(Arc<Turn>),
    /// A request; its client drops the value when it stops waiting.
    Request(Weak<()>),
}

/// An input to be scored, and the closure for the result.
pub(super) struct Job {
    pub(super) input: Input,
    pub(super) reply: Reply,
    pub(super) origin: Origin,
}

impl Job {
    pub(super) fn is_frame(&self) -> bool {
        matches!(self.origin, Origin::Frame(_))
    }

    /// Begins the job; false if nobody waits for it any more.
    fn begin(&self) -> bool {
        match &self.origin {
            Origin::Frame(turn) => turn.begin(),
            Origin::Request(client) => client.strong_count() > 0,
        }
    }

    fn bytes(&self) -> usize {
        match &self.input {
            Input::Image(bytes, _) => bytes.len(),
            Input::Prepared(values) => size_of_val(values.as_slice()),
        }
    }
}

/// The jobs of one lane: its frames in order, then its requests in order.
#[derive(Default)]
pub(super) struct Waiting {
    /// The frames of the camera.
    frames: VecDeque<Job>,
    /// The images of requests; the next field: their size in bytes.
    requests: VecDeque<Job>,
    request_bytes: usize,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.frames.len() + self.requests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn has_room(&self, job: &Job) -> bool {
        match job.origin {
            Origin::Frame(_) => self.frames.len() < WAITING,
            Origin::Request(_) => {
                let fits = self.requests.is_empty() || self.request_bytes + job.bytes() <= WAITING_BYTES;
                fits && self.requests.len() < WAITING
            }
        }
    }

    pub(super) fn push(&mut self, job: Job) {
        if job.is_frame() {
            self.frames.push_back(job);
        } else {
            self.request_bytes += job.bytes();
            self.requests.push_back(job);
        }
    }

    /// Removes the next job, which begins now: a frame if one waits, otherwise the image of a request. Jobs for which
    /// nobody waits any more are dropped.
    pub(super) fn next(&mut self) -> Option<Job> {
        while let Some(frame) = self.frames.pop_front() {
            if frame.begin() {
                return Some(frame);
            }
        }
        self.next_request()
    }

    /// As [`next`](Self::next), but `None` while a frame waits.
    pub(super) fn next_request(&mut self) -> Option<Job> {
        while self.frames.is_empty()
            && let Some(request) = self.requests.pop_front()
        {
            self.request_bytes -= request.bytes();
            if request.begin() {
                return Some(request);
            }
        }
        None
    }

    /// Removes all jobs.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Job> {
        self.request_bytes = 0;
        self.frames.drain(..).chain(self.requests.drain(..))
    }
}
