//! Alarms: their JSON, and how one is raised: it is written to the journal, its pictures are stored, and the clients
//! are notified.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::camera_name::CameraName;
use super::config::CameraConfig;
use super::day_night::Condition;
use super::deliver;
use super::history_file::{AlarmRecord, Recorder};
use super::journal::Journal;
use super::metrics::CameraMetrics;
use super::model::Model;
use super::monitor::{Event, Monitor};
use super::pictures::{Kind, Pictures};
use super::receiver::Receiver;
use super::shown::Shown;

/// The most bytes of a name in an alarm's JSON, so that the alarm fits in its slot of the journal.
const NAME_LENGTH: usize = 200;

/// An alarm as it is sent to receivers. If a receiver sees an `id` twice, it already has the alarm.
#[derive(Debug, Serialize)]
struct Alarm<'a> {
    id: &'a str,
    number: u64,
    camera: &'a CameraName,
    time: String,
    energy: f32,
    threshold: Option<f32>,
    false_positive_rate: Option<f32>,
    p_value: Option<f32>,
    source: &'a str,
    frame: Option<&'a str>,
    model: &'a str,
    /// Whether that model was the one for the night; `None` if day and night are not distinguished.
    #[serde(skip_serializing_if = "Option::is_none")]
    night: Option<bool>,
    /// The digest of the regions that limited what the model saw; `None` if it saw the whole frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    regions: Option<&'a str>,
    /// The address of the alarm's picture at the service, if the picture was kept.
    picture: String,
}

/// Raises alarms and gives access to past ones.
pub(crate) struct Alarms {
    journal: Arc<Journal>,
    pictures: Pictures,
    camera: CameraName,
    /// The prefix of this camera's addresses; `id_prefix` is that of its alarms' ids.
    address: String,
    id_prefix: String,
    source: String,
    /// The name and the key of each receiver.
    receivers: Vec<(String, String)>,
    metrics: Arc<CameraMetrics>,
    recorder: Recorder,
}

impl Alarms {
    /// Opens the journal and the pictures, and starts to send pending alarms to the receivers. The threads end after
    /// [`stop`](Self::stop).
    ///
    /// # Errors
    /// If the camera's state folder cannot be written, or the system cannot start a thread.
    pub(crate) fn open(
        config: &CameraConfig,
        receivers: Vec<Box<dyn Receiver>>,
        metrics: &Arc<CameraMetrics>,
        recorder: Recorder,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let now = Timestamp::now().as_millisecond().max(0) as u64;
        let journal = Arc::new(Journal::open(&config.state, now)?);
        let pictures = Pictures::open(&config.state, config.picture_bytes)?;
        let (mut known, mut threads) = (Vec::new(), Vec::new());
        for receiver in receivers {
            known.push((receiver.name(), receiver.key()));
            let metrics = Arc::clone(metrics);
            let attempted = Arc::new(move |name: &str, delivered| metrics.attempted(name, delivered));
            threads.push(deliver::start(receiver, Arc::clone(&journal), attempted)?);
        }
        let source = config.source.address.to_string();
        let (camera, address, id_prefix) = (config.name.clone(), config.address.clone(), config.id_prefix.clone());
        let metrics = Arc::clone(metrics);
        let receivers = known;
        Ok((Self { journal, pictures, camera, address, id_prefix, source, receivers, metrics, recorder }, threads))
    }

    /// Raises an alarm for the frame.
    pub(crate) fn raise(&self, shown: &Shown, model: &Model, monitor: &Monitor) {
        let name = shown.frame.name.as_ref().map(|name| cut(name));
        let source = cut(&self.source);
        let time = Timestamp::now();
        let mut id_of_all = String::new();
        let (number, written) = self.journal.append(|number, id| {
            id_of_all = format!("{}{id}", self.id_prefix);
            self.pictures.announce(number);
            let alarm = Alarm {
                id: &id_of_all,
                number,
                camera: &self.camera,
                time: time.to_string(),
                energy: shown.scored.energy,
                threshold: model.detector.threshold(),
                false_positive_rate: model.false_positive_rate(),
                p_value: shown.scored.p_value,
                source,
                frame: name,
                model: &model.digest,
                night: monitor.day_night().map(|_| model.condition == Condition::Night),
                regions: Some(&shown.looked.regions)
                    .filter(|applied| !applied.regions().is_empty())
                    .map(|applied| applied.digest()),
                picture: format!("{}/alarms/{number}/image", self.address),
            };
            // Cannot fail: the alarm consists of texts and finite numbers.
            serde_json::to_string(&alarm).unwrap_or_default()
        });
        self.metrics.alarms.inc();
        self.recorder.raised(AlarmRecord {
            id: id_of_all,
            number,
            time: time.as_millisecond(),
            energy: shown.scored.energy,
            threshold: model.detector.threshold(),
            model: model.digest.clone(),
            night: model.condition == Condition::Night,
        });
        monitor.raised_is_recorded();
        if let Err(error) = written {
            tracing::error!(alarm = number, %error, "the alarm is not on disk; it is sent from memory");
        }
        if let Err(error) = self.pictures.keep(number, shown) {
            self.metrics.pictures_dropped.inc();
            tracing::warn!(alarm = number, %error, "the picture is not kept");
        }
        tracing::warn!(alarm = number, energy = shown.scored.energy, frame = name, "alarm");
        monitor.tell(Event::Alarm { number });
    }

    /// The last alarms as JSON, the newest first, each with whether it has a picture.
    pub(crate) fn recent(&self, count: usize) -> Vec<(String, bool)> {
        self.journal.recent(count).into_iter().map(|(number, text)| (text, self.pictures.has(number))).collect()
    }

    /// All alarms in the journal, the oldest first.
    pub(crate) fn of_journal(&self) -> Vec<AlarmRecord> {
        let texts = self.journal.recent(usize::MAX).into_iter().rev();
        texts.filter_map(|(_, text)| record(&text)).collect()
    }

    /// Reads a picture of an alarm.
    pub(crate) fn picture(&self, number: u64, kind: Kind) -> Option<axum::body::Bytes> {
        self.pictures.read(number, kind)
    }

    /// Updates the metrics with the numbers of pending and lost alarms.
    pub(crate) fn measure(&self) {
        for (name, key) in &self.receivers {
            self.metrics.behind(name, self.journal.behind(key));
        }
    }

    /// Waits up to `time` for pending alarms to be delivered, then stops; the rest is sent after the next start.
    pub(crate) fn stop(&self, time: Duration) {
        let end = Instant::now() + time;
        let waiting = || self.receivers.iter().any(|(_, key)| self.journal.behind(key).0 > 0);
        while waiting() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.journal.close();
    }
}

/// Parses an alarm of the journal; `None` if it was written by a version with another format.
fn record(text: &str) -> Option<AlarmRecord> {
    let alarm: Value = serde_json::from_str(text).ok()?;
    let field = |name: &str| alarm[name].as_str();
    Some(AlarmRecord {
        id: field("id")?.to_owned(),
        number: alarm["number"].as_u64()?,
        time: field("time")?.parse::<Timestamp>().ok()?.as_millisecond(),
        energy: alarm["energy"].as_f64()? as f32,
        threshold: alarm["threshold"].as_f64().map(|threshold| threshold as f32),
        model: field("model")?.to_owned(),
        night: alarm["night"].as_bool().unwrap_or_default(),
    })
}

/// The beginning of a name, as much as fits in an alarm. A character may take more bytes in JSON than in the name.
fn cut(name: &str) -> &str {
    let mut length = 0;
    let end = name.char_indices().find(|(_, character)| {
        // The quotation marks around it do not count.
        length += serde_json::to_string(character).map_or(0, |text| text.len() - 2);
        length > NAME_LENGTH
    });
    end.map_or(name, |(end, _)| &name[..end])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use axum::body::Bytes;
    use jiff::tz::TimeZone;
    use nae_core::verdict::{AlarmSettings, Verdict};
    use nae_infer::{Scored, Shape};
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::super::config::{Config, Flags};
    use super::super::history_file::{History, HistoryFigures, HistoryLimits, Span};
    use super::super::metrics::Metrics;
    use super::super::quiet::{Moment, Quiet};
    use super::super::regions::Sight;
    use super::super::shown::Looked;
    use super::super::source::Frame;
    use super::super::zeros;
    use super::*;

    /// Whether an alarm has an end in the history, if the threshold is changed while it is written to the disk, or not.
    fn has_end(is_changed: bool) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let environment = [("NAE_INFER_MODEL", "model.onnx"), ("NAE_INFER_STATE", folder.path().to_str().unwrap())];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let config = Config::read(&Flags::default(), environment.into_iter()).unwrap().cameras.remove(0);
        let model = zeros::model("00000001", Condition::Day, 0.5);

        let history = History::new(folder.path(), Some(HistoryLimits { days: 1, bytes: HistoryLimits::LEAST_BYTES }));
        let recorder = history.recorder(0, Counter::default());
        let figures =
            HistoryFigures { dropped: vec![Counter::default()], writing: Gauge::default(), bytes: Gauge::default() };
        let writer = history.start(vec![config.name.to_string()], vec![vec![]], figures).unwrap().unwrap();
        let metrics = Arc::new(Metrics::new().camera(&config.name));
        let quiet = Arc::new(Quiet::open(folder.path(), None, TimeZone::UTC, Moment::now()));
        let sight = Arc::new(Sight::open(folder.path(), config.regions.clone()));
        let each = AlarmSettings::new(1, 0, 1).unwrap();
        let monitor = Monitor::new(each, quiet, Arc::clone(&sight), Some(&model), Arc::clone(&metrics)).unwrap();
        let monitor = monitor.recorded(recorder.clone());
        let (alarms, _) = Alarms::open(&config, Vec::new(), &metrics, recorder).unwrap();

        let frame = Frame { bytes: Bytes::from_static(b"image"), name: None, taken: Instant::now() };
        let scored = Scored {
            energy: 1.0,
            p_value: None,
            verdict: Some(Verdict::Anomaly),
            latent: None,
            error_map: Vec::new(),
            error_map_shape: Shape::new(1, 0, 0),
        };
        let looked = Looked { regions: sight.applied(), view: None };
        let shown = monitor.observe(&frame, scored, &model, looked).unwrap();
        if is_changed {
            monitor.model_changed(Condition::Day, Some(&model), false);
        }
        alarms.raise(&shown, &model, &monitor);
        history.stop();
        writer.join().unwrap();
        let all = Span { from: 0, to: i64::MAX };
        let (found, _) = history.past(config.name.as_str()).unwrap().piece_of_alarms(all).unwrap().unwrap();
        assert_eq!(found.len(), 1);
        found[0].cleared.is_some()
    }

    /// Otherwise, the history would show it as active until the next alarm.
    #[test]
    fn an_alarm_that_is_cleared_before_the_history_has_it_is_cleared_there_too() {
        assert!(has_end(true) && !has_end(false));
    }

    /// A slot of the journal has 1,008 bytes for an alarm.
    #[test]
    fn the_longest_alarm_fits_in_its_slot() {
        let camera: CameraName = "x".repeat(64).parse().unwrap();
        for (character, kept) in [("ö", NAME_LENGTH / 2), ("x", NAME_LENGTH), ("\"", NAME_LENGTH / 2), ("\u{1}", 33)] {
            let name = character.repeat(NAME_LENGTH);
            assert_eq!(cut(&name), character.repeat(kept));
            let text = longest(&camera, &name);
            assert!(text.len() <= 1008, "{}: {text}", text.len());
        }
    }

    /// The longest alarm of a frame with this name, from a source with the same name.
    fn longest(camera: &CameraName, name: &str) -> String {
        let (id, small) = (format!("{camera}-{}-{}", u64::MAX >> 20, 1_u64 << 40), Some(-f32::MIN_POSITIVE));
        let alarm = Alarm {
            id: &id,
            number: 1 << 40,
            camera,
            time: Timestamp::MAX.to_string(),
            energy: -f32::MIN_POSITIVE,
            threshold: small,
            false_positive_rate: small,
            p_value: small,
            source: cut(name),
            frame: Some(cut(name)),
            model: "01234567",
            night: Some(false),
            regions: Some("01234567"),
            picture: format!("/api/cameras/{camera}/alarms/{}/image", 1_u64 << 40),
        };
        serde_json::to_string(&alarm).unwrap()
    }
}
