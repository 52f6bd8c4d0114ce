//! The content of `/metrics`, in Prometheus' text format. The metrics of a camera have its name as the label `camera`.

use std::sync::atomic::{AtomicI64, AtomicU64};

use nae_core::drift::Drift;
use nae_core::verdict::Verdict;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::camera_name::CameraName;
use super::day_night::{Condition, DayNightState};
use super::model::Model;

/// The origin of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Origin {
    /// The camera's source.
    Source,
    /// A request of a client.
    Request,
}

/// What is limited for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Limit {
    /// Attempts with wrong tokens.
    WrongTokens,
    /// Changes of settings and models.
    Changes,
    /// Images to be scored.
    Scores,
    /// Connections.
    Connections,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct By {
    limit: Limit,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    camera: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct From {
    camera: String,
    origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct To {
    camera: String,
    receiver: String,
}

/// Metric families with further labels beside the camera.
#[derive(Debug, Clone, Default)]
struct Labelled {
    frames: Family<From, Counter>,
    failures: Family<From, Counter>,
    anomalies: Family<From, Counter>,
    delivered: Family<To, Counter>,
    delivery_failures: Family<To, Counter>,
    waiting_alarms: Family<To, Gauge>,
    lost_alarms: Family<To, Gauge>,
}

/// The counters and gauges of the service and of its cameras.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Code, Counter>,
    limited: Family<By, Counter>,
    /// The number of requests with an invalid token.
    pub(crate) wrong_tokens: Counter,
    /// The number of connections whose TLS handshake failed.
    pub(crate) handshakes_failed: Counter,
    /// Whether the files of the certificate cannot be used, so that the previous certificate is in use.
    pub(crate) certificate_refused: Gauge,
    /// The end of the validity of the certificate in use, in seconds of Unix time; NaN if there is none, so that every
    /// comparison with it is false.
    pub(crate) certificate_expires: Gauge<f64, AtomicU64>,
    labelled: Labelled,
    dropped: Family<Of, Counter>,
    alarms: Family<Of, Counter>,
    pictures_dropped: Family<Of, Counter>,
    history_dropped: Family<Of, Counter>,
    /// Whether the history is written to disk.
    pub(crate) history_writing: Gauge,
    /// The size of the history on disk, in bytes.
    pub(crate) history_bytes: Gauge,
    latency: Family<Of, Histogram, fn() -> Histogram>,
    energy: Family<Of, Histogram, fn() -> Histogram>,
    threshold: Family<Of, Gauge<f64, AtomicU64>>,
    alarm: Family<Of, Gauge>,
    alarms_on: Family<Of, Gauge>,
    drift: Family<Of, Gauge<i64, AtomicI64>>,
    source_up: Family<Of, Gauge>,
    mqtt_connected: Family<Of, Gauge>,
    waiting: Family<Of, Gauge>,
    stuck: Family<Of, Gauge>,
    scoring: Family<Of, Gauge>,
    model_in_use: Family<Of, Gauge>,
    night: Family<Of, Gauge>,
    night_model_in_use: Family<Of, Gauge>,
}

/// The counters and gauges of one camera.
pub(crate) struct CameraMetrics {
    camera: String,
    labelled: Labelled,
    /// The time from the arrival of a frame or request to its score, in seconds.
    latency: Histogram,
    /// Energies divided by the threshold's energy.
    energy: Histogram,
    /// The number of frames of the source that were dropped for newer ones.
    pub(crate) dropped: Counter,
    /// The number of raised alarms.
    pub(crate) alarms: Counter,
    /// The number of alarm pictures that were not kept.
    pub(crate) pictures_dropped: Counter,
    /// The number of energies and alarms that are not in the history on disk.
    pub(crate) history_dropped: Counter,
    /// The threshold; energies above it are anomalies.
    pub(crate) threshold: Gauge<f64, AtomicU64>,
    /// Whether the alarm is active.
    pub(crate) alarm: Gauge,
    /// Whether alarms are raised: neither paused nor outside their hours.
    pub(crate) alarms_on: Gauge,
    /// 1 if energies have risen, −1 if they have fallen, 0 otherwise.
    pub(crate) drift: Gauge<i64, AtomicI64>,
    /// Whether the source is open.
    pub(crate) source_up: Gauge,
    /// Whether the broker is connected.
    pub(crate) mqtt_connected: Gauge,
    /// The number of waiting jobs and frames.
    pub(crate) waiting: Gauge,
    /// The number of threads lost to a backend that does not return.
    pub(crate) stuck: Gauge,
    /// Whether there is a model that was not given up.
    pub(crate) scoring: Gauge,
    /// Whether there is a model.
    model_in_use: Gauge,
    /// Whether it is night; the next field: whether the model for the night is in use.
    pub(crate) night: Gauge,
    pub(crate) night_model_in_use: Gauge,
}

impl Metrics {
    /// The metrics of a service without cameras.
    pub(crate) fn new() -> Self {
        let mut this = Self {
            registry: Registry::with_prefix("nae"),
            requests: Family::default(),
            limited: Family::default(),
            wrong_tokens: Counter::default(),
            handshakes_failed: Counter::default(),
            certificate_refused: Gauge::default(),
            certificate_expires: Gauge::default(),
            labelled: Labelled::default(),
            dropped: Family::default(),
            alarms: Family::default(),
            pictures_dropped: Family::default(),
            history_dropped: Family::default(),
            history_writing: Gauge::default(),
            history_bytes: Gauge::default(),
            latency: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_25, 2.0, 16))),
            energy: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0625, 2.0_f64.sqrt(), 17))),
            threshold: Family::default(),
            alarm: Family::default(),
            alarms_on: Family::default(),
            drift: Family::default(),
            source_up: Family::default(),
            mqtt_connected: Family::default(),
            waiting: Family::default(),
            stuck: Family::default(),
            scoring: Family::default(),
            model_in_use: Family::default(),
            night: Family::default(),
            night_model_in_use: Family::default(),
        };
        let r = &mut this.registry;
        let l = &this.labelled;
        r.register("frames", "Images scored", l.frames.clone());
        r.register("frame_failures", "Images that could not be scored", l.failures.clone());
        r.register("anomalies", "Images above the threshold", l.anomalies.clone());
        r.register("frames_dropped", "Frames that made room for newer ones", this.dropped.clone());
        r.register("requests", "Answers, by status", this.requests.clone());
        r.register(
            "limited",
            "Requests that came too often, and connections that were too many, by what is limited",
            this.limited.clone(),
        );
        r.register("wrong_tokens", "Requests with a wrong token", this.wrong_tokens.clone());
        r.register("tls_handshakes_failed", "Connections without an agreement on TLS", this.handshakes_failed.clone());
        r.register(
            "tls_certificate_refused",
            "1 while the certificate's files cannot be used, and the one before is in use",
            this.certificate_refused.clone(),
        );
        r.register_with_unit(
            "tls_certificate_expires_timestamp",
            "Unix time at which the certificate in use, or one of its chain, ends; NaN without one",
            Unit::Seconds,
            this.certificate_expires.clone(),
        );
        this.certificate_expires.set(f64::NAN);
        r.register("alarms", "Alarms raised", this.alarms.clone());
        r.register("alarms_delivered", "Alarms a receiver acknowledged", l.delivered.clone());
        r.register("alarm_delivery_failures", "Attempts that failed", l.delivery_failures.clone());
        r.register("alarms_waiting", "Alarms a receiver does not have yet", l.waiting_alarms.clone());
        r.register("alarms_lost", "Alarms that left the journal undelivered", l.lost_alarms.clone());
        r.register("alarm_pictures_dropped", "Pictures of alarms not kept", this.pictures_dropped.clone());
        r.register("history_dropped", "Energies and alarms not kept in the history", this.history_dropped.clone());
        r.register("history_writing", "1 while the history is written to disk", this.history_writing.clone());
        r.register_with_unit("history", "Room that the history takes on disk", Unit::Bytes, this.history_bytes.clone());
        r.register_with_unit("score_latency", "From arrival to score", Unit::Seconds, this.latency.clone());
        r.register("energy_ratio", "Energy over the threshold", this.energy.clone());
        r.register("threshold", "Energy above which an image is an anomaly", this.threshold.clone());
        r.register("alarm", "1 while the alarm is on", this.alarm.clone());
        r.register(
            "alarms_on",
            "1 while alarms are raised, 0 while they are paused or outside their hours",
            this.alarms_on.clone(),
        );
        r.register("drift", "1 when energies have risen, -1 when they have fallen", this.drift.clone());
        r.register("source_up", "1 while the source is open", this.source_up.clone());
        r.register("mqtt_connected", "1 while the MQTT broker is connected", this.mqtt_connected.clone());
        r.register("waiting", "Images that wait to be scored", this.waiting.clone());
        r.register("backend_threads_lost", "Threads a backend did not return", this.stuck.clone());
        r.register(
            "scoring",
            "1 while the model is used, 0 once it is given up or if there is none",
            this.scoring.clone(),
        );
        r.register("model_in_use", "1 while there is a model, 0 until one is learned", this.model_in_use.clone());
        r.register("night", "1 while it is night, 0 by day and where the two are not told apart", this.night.clone());
        r.register(
            "night_model_in_use",
            "1 while the model for the night is in use, 0 while that of the day is",
            this.night_model_in_use.clone(),
        );
        for limit in [Limit::WrongTokens, Limit::Changes, Limit::Scores, Limit::Connections] {
            drop(this.limited.get_or_create(&By { limit }));
        }
        this
    }

    /// Creates a camera's metrics, all zero, so that its first alarm is an increase and not a new series.
    pub(crate) fn camera(&self, name: &CameraName) -> CameraMetrics {
        let of = Of { camera: name.to_string() };
        for origin in [Origin::Source, Origin::Request] {
            let from = From { camera: name.to_string(), origin };
            let Labelled { frames, failures, anomalies, .. } = &self.labelled;
            for family in [frames, failures, anomalies] {
                drop(family.get_or_create(&from));
            }
        }
        CameraMetrics {
            camera: name.to_string(),
            labelled: self.labelled.clone(),
            latency: self.latency.get_or_create_owned(&of),
            energy: self.energy.get_or_create_owned(&of),
            dropped: self.dropped.get_or_create_owned(&of),
            alarms: self.alarms.get_or_create_owned(&of),
            pictures_dropped: self.pictures_dropped.get_or_create_owned(&of),
            history_dropped: self.history_dropped.get_or_create_owned(&of),
            threshold: self.threshold.get_or_create_owned(&of),
            alarm: self.alarm.get_or_create_owned(&of),
            alarms_on: self.alarms_on.get_or_create_owned(&of),
            drift: self.drift.get_or_create_owned(&of),
            source_up: self.source_up.get_or_create_owned(&of),
            mqtt_connected: self.mqtt_connected.get_or_create_owned(&of),
            waiting: self.waiting.get_or_create_owned(&of),
            stuck: self.stuck.get_or_create_owned(&of),
            scoring: self.scoring.get_or_create_owned(&of),
            model_in_use: self.model_in_use.get_or_create_owned(&of),
            night: self.night.get_or_create_owned(&of),
            night_model_in_use: self.night_model_in_use.get_or_create_owned(&of),
        }
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, code: u16) {
        self.requests.get_or_create(&Code { code }).inc();
    }

    /// Counts a request that exceeded a limit.
    pub(crate) fn limited(&self, limit: Limit) {
        self.limited.get_or_create(&By { limit }).inc();
    }

    /// The text for Prometheus.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl CameraMetrics {
    fn from(&self, origin: Origin) -> From {
        From { camera: self.camera.clone(), origin }
    }

    fn to(&self, receiver: &str) -> To {
        To { camera: self.camera.clone(), receiver: receiver.to_owned() }
    }

    /// Sets the metrics of the model in use and its threshold; `None` if there is no model.
    pub(crate) fn model_is(&self, model: Option<&Model>) {
        self.model_in_use.set(i64::from(model.is_some()));
        let threshold = model.and_then(|model| model.detector.threshold());
        self.threshold.set(threshold.map_or(f64::NAN, f64::from));
    }

    /// Sets the direction in which energies have drifted.
    pub(crate) fn drift_is(&self, drift: Drift) {
        self.drift.set(match drift {
            Drift::Steady => 0,
            Drift::Rising => 1,
            Drift::Falling => -1,
        });
    }

    /// Sets the metrics of day and night.
    pub(crate) fn day_night_is(&self, day_night: Option<&DayNightState>) {
        let is_night =
            |which: fn(&DayNightState) -> Condition| day_night.is_some_and(|now| which(now) == Condition::Night);
        self.night.set(i64::from(is_night(|now| now.condition)));
        self.night_model_in_use.set(i64::from(is_night(|now| now.model_for)));
    }

    /// Counts a scored image.
    pub(crate) fn scored(&self, origin: Origin, seconds: f64, energy: f32, threshold: Option<f32>) {
        let from = self.from(origin);
        self.labelled.frames.get_or_create(&from).inc();
        self.latency.observe(seconds);
        if let Some(threshold) = threshold {
            self.energy.observe(f64::from(energy / threshold));
            if Verdict::of(energy, threshold).is_anomaly() {
                self.labelled.anomalies.get_or_create(&from).inc();
            }
        }
    }

    /// Counts an image that could not be scored.
    pub(crate) fn failed(&self, origin: Origin) {
        self.labelled.failures.get_or_create(&self.from(origin)).inc();
    }

    /// Counts an attempt to deliver an alarm.
    pub(crate) fn attempted(&self, receiver: &str, delivered: bool) {
        let family = if delivered { &self.labelled.delivered } else { &self.labelled.delivery_failures };
        family.get_or_create(&self.to(receiver)).inc();
    }

    /// Sets the numbers of alarms that a receiver waits for and has lost.
    pub(crate) fn behind(&self, receiver: &str, (waiting, lost): (u64, u64)) {
        let to = self.to(receiver);
        self.labelled.waiting_alarms.get_or_create(&to).set(waiting as i64);
        self.labelled.lost_alarms.get_or_create(&to).set(lost as i64);
    }
}
