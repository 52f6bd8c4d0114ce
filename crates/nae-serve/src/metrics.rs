//! What `/metrics` shows, in Prometheus' text format.

use std::sync::atomic::{AtomicI64, AtomicU64};

use nae_core::verdict::Verdict;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Where an image came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Origin {
    /// The source.
    Source,
    /// A request.
    Request,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct From {
    origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct To {
    receiver: String,
}

/// Counters and gauges of the service.
pub(crate) struct Metrics {
    registry: Registry,
    frames: Family<From, Counter>,
    failures: Family<From, Counter>,
    anomalies: Family<From, Counter>,
    requests: Family<Code, Counter>,
    delivered: Family<To, Counter>,
    delivery_failures: Family<To, Counter>,
    waiting_alarms: Family<To, Gauge>,
    lost_alarms: Family<To, Gauge>,
    /// Frames of the source that made room for newer ones.
    pub(crate) dropped: Counter,
    /// Alarms raised.
    pub(crate) alarms: Counter,
    /// Pictures of alarms that were not kept.
    pub(crate) pictures_dropped: Counter,
    /// From a frame's arrival, or a request's, to its score.
    pub(crate) latency: Histogram,
    /// Energies over the threshold's energy.
    pub(crate) energy: Histogram,
    /// Energies above it are anomalies.
    pub(crate) threshold: Gauge<f64, AtomicU64>,
    /// Whether the alarm is on.
    pub(crate) alarm: Gauge,
    /// 1 when energies have risen, −1 when they have fallen.
    pub(crate) drift: Gauge<i64, AtomicI64>,
    /// Whether frames come.
    pub(crate) source_up: Gauge,
    /// Whether the broker is connected.
    pub(crate) mqtt_connected: Gauge,
    /// Jobs and frames that wait.
    pub(crate) waiting: Gauge,
    /// Threads lost to a backend that does not return.
    pub(crate) stuck: Gauge,
}

impl Metrics {
    /// All zero.
    pub(crate) fn new() -> Self {
        let mut this = Self {
            registry: Registry::with_prefix("nae"),
            frames: Family::default(),
            failures: Family::default(),
            anomalies: Family::default(),
            requests: Family::default(),
            delivered: Family::default(),
            delivery_failures: Family::default(),
            waiting_alarms: Family::default(),
            lost_alarms: Family::default(),
            dropped: Counter::default(),
            alarms: Counter::default(),
            pictures_dropped: Counter::default(),
            latency: Histogram::new(exponential_buckets(0.000_25, 2.0, 16)),
            energy: Histogram::new(exponential_buckets(0.0625, 2.0_f64.sqrt(), 17)),
            threshold: Gauge::default(),
            alarm: Gauge::default(),
            drift: Gauge::default(),
            source_up: Gauge::default(),
            mqtt_connected: Gauge::default(),
            waiting: Gauge::default(),
            stuck: Gauge::default(),
        };
        let r = &mut this.registry;
        r.register("frames", "Images scored", this.frames.clone());
        r.register("frame_failures", "Images that could not be scored", this.failures.clone());
        r.register("anomalies", "Images above the threshold", this.anomalies.clone());
        r.register("frames_dropped", "Frames that made room for newer ones", this.dropped.clone());
        r.register("requests", "Answers, by status", this.requests.clone());
        r.register("alarms", "Alarms raised", this.alarms.clone());
        r.register("alarms_delivered", "Alarms a receiver acknowledged", this.delivered.clone());
        r.register("alarm_delivery_failures", "Attempts that failed", this.delivery_failures.clone());
        r.register("alarms_waiting", "Alarms a receiver does not have yet", this.waiting_alarms.clone());
        r.register("alarms_lost", "Alarms that left the journal undelivered", this.lost_alarms.clone());
        r.register("alarm_pictures_dropped", "Pictures of alarms not kept", this.pictures_dropped.clone());
        r.register_with_unit("score_latency", "From arrival to score", Unit::Seconds, this.latency.clone());
        r.register("energy_ratio", "Energy over the threshold", this.energy.clone());
        r.register("threshold", "Energy above which an image is an anomaly", this.threshold.clone());
        r.register("alarm", "1 while the alarm is on", this.alarm.clone());
        r.register("drift", "1 when energies have risen, -1 when they have fallen", this.drift.clone());
        r.register("source_up", "1 while frames come", this.source_up.clone());
        r.register("mqtt_connected", "1 while the MQTT broker is connected", this.mqtt_connected.clone());
        r.register("waiting", "Images that wait to be scored", this.waiting.clone());
        r.register("backend_threads_lost", "Threads a backend did not return", this.stuck.clone());
        // So that the first alarm is an increase, not a new series.
        for origin in [Origin::Source, Origin::Request] {
            drop(this.frames.get_or_create(&From { origin }));
            drop(this.failures.get_or_create(&From { origin }));
            drop(this.anomalies.get_or_create(&From { origin }));
        }
        this
    }

    /// An image was scored.
    pub(crate) fn scored(&self, origin: Origin, seconds: f64, energy: f32, threshold: Option<f32>) {
        let from = From { origin };
        self.frames.get_or_create(&from).inc();
        self.latency.observe(seconds);
        if let Some(threshold) = threshold {
            self.energy.observe(f64::from(energy / threshold));
            if Verdict::of(energy, threshold).is_anomaly() {
                self.anomalies.get_or_create(&from).inc();
            }
        }
    }

    /// An image could not be scored.
    pub(crate) fn failed(&self, origin: Origin) {
        self.failures.get_or_create(&From { origin }).inc();
    }

    /// A request was answered.
    pub(crate) fn answered(&self, code: u16) {
        self.requests.get_or_create(&Code { code }).inc();
    }

    /// An alarm was sent, or not.
    pub(crate) fn attempted(&self, receiver: &str, delivered: bool) {
        let to = To { receiver: receiver.to_owned() };
        let family = if delivered { &self.delivered } else { &self.delivery_failures };
        family.get_or_create(&to).inc();
    }

    /// What a receiver does not have.
    pub(crate) fn behind(&self, receiver: &str, (waiting, lost): (u64, u64)) {
        let to = To { receiver: receiver.to_owned() };
        self.waiting_alarms.get_or_create(&to).set(waiting as i64);
        self.lost_alarms.get_or_create(&to).set(lost as i64);
    }

    /// The text for Prometheus.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
