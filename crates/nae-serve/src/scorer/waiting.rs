//! What waits in a lane to be scored: frames of the camera before images of requests, within bounds. Who scores it, and when, is not
//! here.

use std::collections::VecDeque;
use std::sync::Weak;

use super::{Input, Reply};

/// Frames, and images of requests, of a lane that may wait.
const WAITING: usize = 1024;
/// Bytes of a lane's requests that may wait, but for a single one.
pub(super) const WAITING_BYTES: usize = 256 << 20;

/// What is to be scored, and who is told.
pub(super) struct Job {
    pub(super) input: Input,
    pub(super) reply: Reply,
    /// Of a request, dropped by its client where it waits no more.
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

/// The jobs of one lane: its frames in their order, then its requests in theirs.
#[derive(Default)]
pub(super) struct Waiting {
    /// Frames of the camera.
    frames: VecDeque<Job>,
    /// Images of requests, and how many bytes they are.
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

    /// The frames that wait, or where there are none images of requests, up to `most`; those that nobody waits for are dropped.
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

    /// All that wait.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Job> {
        self.request_bytes = 0;
        self.frames.drain(..).chain(self.requests.drain(..))
    }
}
