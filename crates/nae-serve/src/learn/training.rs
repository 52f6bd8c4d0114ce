//! Starts and cancels a training, and handles its end. `program` runs the program.

use std::sync::Arc;
use std::thread;

use super::program::{self, Job, Training};
use super::{Action, Learn, LearnError, NEW, Phase, RUN};

impl Learn {
    /// Trains on the collected frames.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn train(self: &Arc<Self>, seconds: f64) -> Result<(), LearnError> {
        let _acting = self.acting();
        let before = self.lock().record.clone();
        before.check(Action::Train)?;
        if self.collection.counts().kept == 0 {
            return Err(LearnError::Missing("there are no frames to train on: collect some".into()));
        }
        self.change(|record| {
            record.phase = Phase::Training { seconds, starts: 1 };
            record.note = None;
        })?;
        if let Err(error) = self.start_training(seconds, false) {
            self.change(|record| *record = before)?;
            return Err(error);
        }
        self.tidy();
        Ok(())
    }

    pub(super) fn start_training(self: &Arc<Self>, seconds: f64, go_on: bool) -> Result<(), LearnError> {
        let program = self.trainer.find().ok_or_else(|| {
            LearnError::Missing(format!(
                "the program `{}` (setting `nae_train`) is not on this machine: download the frames, train elsewhere by `{}`, and \
                 bring the model by take-model",
                self.trainer.program().display(),
                program::by_hand(seconds)
            ))
        })?;
        let claim = self.trainer.claim(&self.config.name).map_err(|other| {
            LearnError::Missing(format!("the camera {other} is training, and one does at a time: wait for it"))
        })?;
        let job = Job {
            frames: self.collection.folder().to_owned(),
            run: self.folder.join(RUN),
            model: self.folder.join(NEW),
            seconds,
            go_on,
        };
        let training = Arc::new(Training::new());
        let mut inner = self.lock();
        let (own, activity, running) = (Arc::clone(self), inner.activity, Arc::clone(&training));
        let work = move || {
            let _entered = own.span.enter();
            tracing::info!(seconds, go_on, "training");
            let trained = match running.run(&program, &job) {
                Ok(()) => own.take(&job.model, Some(&job.run.join("report.html"))).map_err(|error| error.to_string()),
                // The action that cancelled it has been recorded.
                Err(None) => return,
                Err(Some(reason)) => Err(reason),
            };
            // A client that sees the end may train again.
            drop(claim);
            own.ended(activity, |record| match trained {
                Ok(model) => {
                    tracing::info!(model, "trained");
                    record.trained(model, true);
                }
                Err(reason) => {
                    tracing::error!(reason, "training failed");
                    record.phase = Phase::Collected;
                    record.note = Some(format!("training failed: {reason}"));
                }
            });
        };
        inner.thread = Some(thread::Builder::new().name("training".into()).spawn(work)?);
        inner.training = Some(training);
        Ok(())
    }

    /// Cancels the training.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn cancel(&self) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::Cancel)?;
        self.change(|record| {
            record.phase = Phase::Collected;
            record.note = Some("training was cancelled".into());
        })?;
        self.end_activity();
        self.tidy();
        Ok(())
    }
}
