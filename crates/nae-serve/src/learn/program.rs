//! The program for training, `nae-train`, as a child process: run at the lowest priority, with its progress, and its
//! last lines if it fails. One camera trains at a time, since two would each get only half of their processor time.
//! `training` handles the resulting model.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::super::camera_name::CameraName;
use super::super::child::{self, LastLines};
use super::collection::gone;

/// The number of the program's lines that are kept.
const LINES: usize = 20;
/// How often the program is checked.
const LOOK: Duration = Duration::from_millis(100);
/// How long its last lines may take to arrive after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The program for training, for all cameras.
pub(crate) struct Trainer {
    program: PathBuf,
    camera: Mutex<Option<CameraName>>,
}

/// The right to train, returned when it is dropped.
pub(super) struct Claim(Arc<Trainer>);

impl Trainer {
    /// Uses this program: a name is looked up on the PATH, a path is used unchanged.
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, camera: Mutex::default() }
    }

    /// The program's file, if it exists now.
    pub(super) fn find(&self) -> Option<PathBuf> {
        let file = |path: PathBuf| path.is_file().then_some(path);
        if self.program.components().count() > 1 {
            return file(self.program.clone());
        }
        let name = format!("{}{}", self.program.display(), std::env::consts::EXE_SUFFIX);
        std::env::split_paths(&std::env::var_os("PATH")?).find_map(|folder| file(folder.join(&name)))
    }

    /// The program as given by the settings.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Lets a camera train, unless another one does.
    ///
    /// # Errors
    /// The other camera.
    pub(super) fn claim(self: &Arc<Self>, camera: &CameraName) -> Result<Claim, CameraName> {
        let mut training = self.camera.lock().unwrap_or_else(PoisonError::into_inner);
        match &*training {
            Some(other) => Err(other.clone()),
            None => {
                *training = Some(camera.clone());
                Ok(Claim(Arc::clone(self)))
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        *self.0.camera.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The data and paths of a training.
pub(super) struct Job {
    pub(super) frames: PathBuf,
    /// The program's run folder, from which it can resume.
    pub(super) run: PathBuf,
    /// The path for the model.
    pub(super) model: PathBuf,
    pub(super) seconds: f64,
    /// Whether it may resume the run in `run`.
    pub(super) go_on: bool,
}

/// A current training.
pub(super) struct Training {
    begin: Instant,
    said: Mutex<Option<Arc<LastLines>>>,
    /// How it was started.
    manner: Mutex<&'static str>,
    cancelled: AtomicBool,
}

/// The state of a training for clients.
#[derive(Debug, Serialize)]
pub(crate) struct TrainingStatus {
    /// The seconds since it was last started.
    gone: f64,
    /// `begun`, `resumed` after a restart of the service, or `started again` if resuming was impossible.
    manner: &'static str,
    progress: Option<Progress>,
    /// The last lines of its output.
    lines: Vec<String>,
}

/// The progress of a phase of the program.
#[derive(Debug, PartialEq, Serialize)]
struct Progress {
    doing: String,
    done: u64,
    total: u64,
    unit: String,
}

impl Training {
    pub(super) fn new() -> Self {
        Self {
            begin: Instant::now(),
            said: Mutex::default(),
            manner: Mutex::new("begun"),
            cancelled: AtomicBool::new(false),
        }
    }

    /// Ends the training soon.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn status(&self) -> TrainingStatus {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lines = said.map(|said| said.lines()).unwrap_or_default();
        TrainingStatus {
            gone: self.begin.elapsed().as_secs_f64(),
            manner: *self.manner.lock().unwrap_or_else(PoisonError::into_inner),
            progress: lines.iter().rev().find_map(|line| progress(line)),
            lines,
        }
    }

    /// Trains until the program has ended. The caller must provide a separate thread: it gets the lowest priority, and
    /// the program ends with it.
    ///
    /// # Errors
    /// The reason why there is no model; `None` if it was cancelled.
    pub(super) fn run(&self, program: &Path, job: &Job) -> Result<(), Option<String>> {
        child::lowest_priority();
        let may_go_on = job.go_on && job.run.join("resume.bin").is_file();
        if may_go_on {
            self.set_manner("resumed");
            match self.once(program, job, true) {
                Err(Some(reason)) => tracing::warn!(reason, "training cannot be resumed, and starts again"),
                ended => return ended,
            }
        }
        if job.go_on {
            self.set_manner("started again");
        }
        self.once(program, job, false)
    }

    fn set_manner(&self, manner: &'static str) {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    fn once(&self, program: &Path, job: &Job, resume: bool) -> Result<(), Option<String>> {
        let failed = |what: &dyn std::fmt::Display| Some(format!("{}: {what}", program.display()));
        if !resume {
            // The files of another run are not this one's.
            gone(std::fs::remove_dir_all(&job.run)).map_err(|error| failed(&error))?;
        }
        gone(std::fs::remove_file(&job.model)).map_err(|error| failed(&error))?;
        let mut child = Running(command(program, job, resume).spawn().map_err(|error| failed(&error))?);
        first_to_go(&child.0);
        let said = Arc::new(LastLines::new(LINES));
        if let Some(errors) = child.0.stderr.take() {
            said.listen(errors).map_err(|error| failed(&error))?;
        }
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&said));
        let status = loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(None);
            }
            match child.0.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => thread::sleep(LOOK),
                Err(error) => return Err(failed(&error)),
            }
        };
        said.wait(LAST_WORDS);
        if status.success() && job.model.is_file() {
            return Ok(());
        }
        let ended =
            if status.success() { "it ended without a model".to_owned() } else { format!("it ended, {status}") };
        let lines = said.lines();
        // The last lines contain the reason.
        let last = lines[lines.len().saturating_sub(5)..].join("; ");
        Err(failed(&format_args!("{ended}{}{last}", if last.is_empty() { "" } else { ": " })))
    }
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// If memory runs out, training ends before the service.
fn first_to_go(child: &Child) {
    #[cfg(target_os = "linux")]
    if let Err(error) = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000") {
        tracing::warn!(%error, "where memory runs out, the service may be ended in place of the training");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = child;
}

fn command(program: &Path, job: &Job, resume: bool) -> Command {
    let mut command = Command::new(program);
    command.arg("--data").arg(&job.frames);
    if resume {
        // The program stores the other settings, including the remaining time.
        command.arg("--resume").arg(&job.run);
    } else {
        command.arg("--out").arg(&job.run).arg("--time-budget").arg(budget(job.seconds));
    }
    command.arg("--export").arg(&job.model);
    command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    child::of_service(&mut command);
    command
}

/// The command for training on another machine.
pub(super) fn by_hand(seconds: f64) -> String {
    format!("nae-train --data frames.tar --time-budget {} --export model.onnx", budget(seconds))
}

/// A time in the format of the program.
fn budget(seconds: f64) -> String {
    format!("{}s", seconds.round().max(1.0))
}

/// Parses a line such as `NAE training: 3 of 100 updates, 2 minutes gone; …`.
fn progress(line: &str) -> Option<Progress> {
    let (doing, rest) = line.split_once(": ")?;
    let (done, rest) = rest.split_once(" of ")?;
    let (total, rest) = rest.split_once(' ')?;
    let unit = rest.split(',').next()?;
    let progress =
        Progress { doing: doing.into(), done: done.parse().ok()?, total: total.parse().ok()?, unit: unit.into() };
    (progress.done <= progress.total && progress.total > 0).then_some(progress)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_progress_are_read_and_others_are_not() {
        let read = progress("NAE training: 3 of 100 updates, 2 minutes gone, about 60 minutes left; E+ 0.01").unwrap();
        assert_eq!(read, Progress { doing: "NAE training".into(), done: 3, total: 100, unit: "updates".into() });
        for line in [
            "data: 200 images, RGB, brought to 32x32 pixels (bilinear)",
            "140 to train on, 20 for validation, 20 for calibration, 20 for the test",
            "pre-training: 1 epochs of 2 updates, about 1 s; NAE training: 1 updates, about 7 s",
            "training: 5 of 3 epochs",
            "training: 0 of 0 epochs",
            "training: 1 of 99999999999999999999999 epochs",
            "",
        ] {
            assert_eq!(progress(line), None, "{line}");
        }
    }

    #[test]
    fn one_camera_trains_at_a_time() {
        let trainer = Arc::new(Trainer::new("nae-train".into()));
        let names: [CameraName; 2] = ["gate", "yard"].map(|name| name.parse().unwrap());
        let claim = trainer.claim(&names[0]).ok().unwrap();
        assert_eq!(trainer.claim(&names[1]).err().unwrap(), names[0]);
        drop(claim);
        assert!(trainer.claim(&names[1]).is_ok());
    }

    #[test]
    fn a_program_is_found_by_its_path_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trainer");
        assert_eq!(Trainer::new(path.clone()).find(), None);
        std::fs::write(&path, "").unwrap();
        assert_eq!(Trainer::new(path.clone()).find(), Some(path));
        assert_eq!(Trainer::new("no-program-has-this-name".into()).find(), None);
    }
}
