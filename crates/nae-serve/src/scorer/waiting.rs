//! The jobs that wait in a lane, within bounds: frames of the camera before images of requests. The scheduling is
//! elsewhere.

use std::collections::VecDeque;
use std::sync::Weak;

use super::{Input, Reply};

/// The maximum number of waiting frames of a lane, and of waiting images of requests.
const WAITING: usize = 1024;
/// The maximum number of bytes of a lane's waiting requests; a single request may be larger.
pub(super) const WAITING_BYTES: usize = 256 << 20;

/// An input to be scored, and the closure for the result.
pub(super) struct Job {
    pub(super) input: Input,
    pub(super) reply: Reply,
    /// Set for a request; its client drops the value when it stops waiting.
    pub(super) client: Option<Weak<()>>,
}

impl Job {
    fn is_wanted(&self) -> bool {
        self.client.as_ref().is_none_or(|client| client.strong_count() > 0)
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
        match job.client {
            None => self.frames.len() < WAITING,
            Some(_) => {
                let fits = self.requests.is_empty() || self.request_bytes + job.bytes() <= WAITING_BYTES;
                fits && self.requests.len() < WAITING
            }
        }
    }

    pub(super) fn push(&mut self, job: Job) {
        if job.client.is_some() {
            self.request_bytes += job.bytes();
            self.requests.push_back(job);
        } else {
            self.frames.push_back(job);
        }
    }

    /// Removes the waiting frames, or if there are none, images of requests, up to `most`; requests whose clients have
    /// disconnected are dropped.
    pub(super) fn batch(&mut self, most: usize) -> Vec<Job> {
        if !self.frames.is_empty() {
            let count = self.frames.len().min(most);
            return self.frames.drain(..count).collect();
        }
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(job) = self.requests.pop_front()
        {
            self.request_bytes -= job.bytes();
            if job.is_wanted() {
                batch.push(job);
            }
        }
        batch
    }

    /// Removes all jobs.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Job> {
        self.request_bytes = 0;
        self.frames.drain(..).chain(self.requests.drain(..))
    }
}
