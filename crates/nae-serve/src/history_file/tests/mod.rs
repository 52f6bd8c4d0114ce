//! Tests of the history's file: it contains the recorded data, merged, for the time and within the size of the
//! settings; and its behaviour with damage, other versions, clocks that jump, and other readers.
#![allow(clippy::unwrap_used)]

mod figures;
mod file;
mod thinning;

use std::path::Path;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::interval::{Interval, Point};
use super::reading::Past;
use super::recorder::{AlarmRecord, Message};
use super::retention::HistoryLimits;
use super::store::{AlarmChange, Pending, Store};
use super::writer::{Setup, Writer};
use super::{Span, schema};

const SECOND: i64 = 1000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// A day of 2026, at midnight.
const TODAY: i64 = 20_600 * DAY;
const ALL: Span = Span { from: 0, to: 2 * TODAY };

fn point(time: i64, energy: f32) -> Point {
    Point { time, energy, threshold: Some(0.5), model: "0a0b0c0d".to_owned(), night: false }
}

/// All rows of a camera.
fn rows(path: &Path, camera: &str) -> Vec<Interval> {
    let past = Past::open(path, camera).unwrap();
    let (mut rows, mut left) = (Vec::new(), Some(ALL));
    while let Some((piece, rest)) = left.and_then(|left| past.piece(left).unwrap()) {
        rows.extend(piece);
        left = Some(rest);
    }
    rows
}

fn alarms(path: &Path, camera: &str) -> Vec<super::reading::PastAlarm> {
    let past = Past::open(path, camera).unwrap();
    let (mut alarms, mut left) = (Vec::new(), Some(ALL));
    while let Some((piece, rest)) = left.and_then(|left| past.piece_of_alarms(left).unwrap()) {
        alarms.extend(piece);
        left = Some(rest);
    }
    alarms
}

fn open(path: &Path, cameras: &[&str]) -> Store {
    let cameras: Vec<String> = cameras.iter().map(|name| (*name).to_owned()).collect();
    Store::open(path, &cameras, TODAY).unwrap()
}

/// Stores points of the first camera.
fn add(store: &mut Store, points: impl IntoIterator<Item = Point>) {
    let mut pending = Pending::of(1);
    points.into_iter().for_each(|point| pending.energies[0].add(Interval::of(point)));
    store.add(&mut pending).unwrap();
    assert!(pending.is_empty());
}

fn alarm(number: u64, time: i64) -> AlarmRecord {
    let id = format!("gate-77-{number}");
    AlarmRecord { id, number, time, energy: 2.5, threshold: Some(0.5), model: "0a0b0c0d".to_owned(), night: false }
}

/// A writer of the camera `gate`, and its metrics: writing, dropped.
fn writer(path: &Path, bytes: u64, alarms: Vec<AlarmRecord>) -> (Writer, Gauge, Counter) {
    let (writing, dropped) = (Gauge::default(), Counter::default());
    let setup = Setup {
        path: path.to_owned(),
        cameras: vec!["gate".to_owned()],
        limits: HistoryLimits { days: 90, bytes },
        dropped: vec![dropped.clone()],
        writing: writing.clone(),
        bytes: Gauge::default(),
    };
    (Writer::new(setup, vec![alarms]), writing, dropped)
}
