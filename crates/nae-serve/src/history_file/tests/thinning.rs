//! Tests that merged rows are equal to rows made from all frames; and of deletion.

use proptest::prelude::*;

use super::super::interval::{Gathered, LENGTHS, beginning};
use super::super::retention::THINNED_AFTER;
use super::*;

/// The expected rows, computed simply, frame by frame.
fn expected(points: &[Point], now: i64) -> Vec<Interval> {
    let minutes = beginning(now - THINNED_AFTER[0], LENGTHS[1]);
    let quarters = beginning(now - THINNED_AFTER[1], LENGTHS[2]);
    let length = |time: i64| {
        if time < quarters {
            900
        } else if time < minutes {
            60
        } else {
            1
        }
    };
    let mut keys: Vec<(i64, i64, &str)> = Vec::new();
    for point in points {
        let seconds = length(point.time);
        let key = (point.time.div_euclid(1000 * seconds) * 1000 * seconds, seconds, point.model.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_unstable();
    keys.iter()
        .map(|&(time, seconds, model)| {
            let own: Vec<&Point> = points
                .iter()
                .filter(|point| {
                    (time..time + 1000 * seconds).contains(&point.time)
                        && length(point.time) == seconds
                        && point.model == model
                })
                .collect();
            let energies = || own.iter().map(|point| point.energy);
            Interval {
                time,
                seconds,
                count: own.len() as i64,
                min: energies().fold(f32::INFINITY, f32::min),
                mean: energies().map(f64::from).sum::<f64>() / own.len() as f64,
                max: energies().fold(f32::NEG_INFINITY, f32::max),
                threshold: own.last().unwrap().threshold,
                model: model.to_owned(),
                night: own.last().unwrap().night,
            }
        })
        .collect()
}

/// Equal up to the rounding of means.
fn assert_same(found: &[Interval], expected: &[Interval]) {
    assert_eq!(found.len(), expected.len(), "{found:#?}\n{expected:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found.mean - expected.mean).abs() <= 1e-9 * expected.mean.abs().max(1.0), "{found:?}\n{expected:?}");
        assert_eq!(&Interval { mean: expected.mean, ..found.clone() }, expected);
    }
}

/// Successive frames, some close together, some days apart, of two models and three thresholds.
fn frames() -> impl Strategy<Value = Vec<Point>> {
    let apart = prop_oneof![4 => 0..400_i64, 4 => 0..40_000_i64, 1 => 0..2 * HOUR, 1 => 0..9 * DAY];
    let threshold = prop_oneof![Just(None), Just(Some(0.5_f32)), Just(Some(0.75))];
    let frame = (apart, 0.001..100.0_f32, threshold, any::<bool>());
    prop::collection::vec(frame, 1..120).prop_map(|frames| {
        let mut time = TODAY - 80 * DAY;
        let point = |(apart, energy, threshold, other)| {
            time += apart;
            Point { time, energy, threshold, model: if other { "one" } else { "two" }.to_owned(), night: other }
        };
        frames.into_iter().map(point).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Written batch by batch, merged in between or only at the end.
    #[test]
    fn thinned_rows_are_what_all_frames_make(
        points in frames(), batch in 1..20_usize, between in any::<bool>(), gone in 0..70 * DAY,
        edge in any::<prop::sample::Index>(), at in 0..3_usize, off in -60 * SECOND..60 * SECOND,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.sqlite");
        let mut store = open(&path, &["gate", "yard"]);
        let limits = HistoryLimits { days: 3650, bytes: 1 << 40 };
        for some in points.chunks(batch) {
            add(&mut store, some.iter().cloned());
            let now = some.last().unwrap().time;
            while between && store.age(limits, now).unwrap() {}
        }
        // Often such that a row begins before the age at which it is merged to a longer one, and ends after it.
        let last = points.last().unwrap().time;
        let near = THINNED_AFTER.get(at).map(|age| edge.get(&points).time + age + off);
        let now = near.unwrap_or(last + gone).max(last);
        while store.age(limits, now).unwrap() {}
        assert_same(&rows(&path, "gate"), &expected(&points, now));
        prop_assert!(rows(&path, "yard").is_empty());
    }

    /// For a chart of any width: no frame is lost, and the highest energy is in it.
    #[test]
    fn a_chart_has_all_frames_of_its_span(points in frames(), from in 0..80 * DAY, long in 1..80 * DAY, slices in 1..700_u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.sqlite");
        let mut store = open(&path, &["gate"]);
        add(&mut store, points.iter().cloned());
        let now = points.last().unwrap().time;
        while store.age(HistoryLimits { days: 3650, bytes: 1 << 40 }, now).unwrap() {}
        let span = Span { from: TODAY - 80 * DAY + from, to: TODAY - 80 * DAY + from + long };
        let chart = Past::open(&path, "gate").unwrap().chart(span, slices).unwrap();
        let within = expected(&points, now).into_iter().filter(|row| (span.from..span.to).contains(&row.time));
        let mut made = Gathered::default();
        within.for_each(|row| made.add(if row.seconds < chart.seconds { row.within(chart.seconds) } else { row }));
        assert_same(&chart.slices, &made.into_intervals());
        // Each model has its own slices.
        prop_assert!(chart.slices.len() as u64 <= 2 * (slices + 2));
        prop_assert_eq!(chart.seconds, ((long / 1000) as f64 / slices as f64).ceil().max(1.0) as i64);
    }
}

#[test]
fn what_is_older_than_the_settings_say_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    let mut store = open(&path, &["gate"]);
    let days = [100, 91, 89, 31, 29, 3, 1, 0];
    add(&mut store, days.map(|day| point(TODAY - day * DAY + 5 * SECOND + 1, day as f32)));
    let mut pending = Pending::of(1);
    let raised = days.iter().zip(0..).map(|(day, n)| (0, AlarmChange::Raised(alarm(n, TODAY - day * DAY + 1))));
    pending.alarms.extend(raised);
    store.add(&mut pending).unwrap();
    while store.age(HistoryLimits { days: 90, bytes: 1 << 40 }, TODAY).unwrap() {}
    let found: Vec<_> = rows(&path, "gate").iter().map(|row| (row.max, row.seconds, row.time)).collect();
    let at = |day: i64, off: i64| TODAY - day * DAY + off * SECOND;
    let expected = [
        (89.0, 900, at(89, 0)),
        (31.0, 900, at(31, 0)),
        (29.0, 60, at(29, 0)),
        (3.0, 60, at(3, 0)),
        (1.0, 1, at(1, 5)),
        (0.0, 1, at(0, 5)),
    ];
    assert_eq!(found, expected);
    let found: Vec<_> = alarms(&path, "gate").iter().map(|alarm| alarm.number).collect();
    assert_eq!(found, [2, 3, 4, 5, 6, 7]);
}

/// Three days of two cameras with a frame per second each: the file has room for the newest data second by second, and
/// the rest is merged earlier than by its age; if even that does not fit, the oldest is deleted.
#[test]
fn the_file_stays_within_its_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    let mut store = open(&path, &["gate", "yard"]);
    let start = TODAY - 3 * DAY;
    for hour in 0..72 {
        let mut pending = Pending::of(2);
        for second in 0..3600 {
            let time = start + hour * HOUR + second * SECOND;
            for camera in &mut pending.energies {
                camera.add(Interval::of(point(time, 0.1 + second as f32 / 7000.0)));
            }
        }
        store.add(&mut pending).unwrap();
    }
    let measured = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
        let of_store = files.filter(|file| !file.file_name().to_str().unwrap().ends_with("-shm"));
        of_store.map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    let before = measured();
    assert!(before > 25_000_000, "{before}");
    let frames = |rows: &[Interval]| rows.iter().map(|row| row.count).sum::<i64>();

    let limits = HistoryLimits { days: 90, bytes: 8_000_000 };
    while store.make_room(limits).unwrap() {}
    assert!(measured() <= 8_000_000, "{}", measured());
    for camera in ["gate", "yard"] {
        let rows = rows(&path, camera);
        assert_eq!(frames(&rows), 3 * 86_400, "thinned, not deleted");
        let fine = rows.iter().filter(|row| row.seconds == 1).count();
        assert!((7200..86_400).contains(&fine), "{fine}");
        assert_eq!(rows.last().unwrap().time, TODAY - SECOND);
    }
    assert!(!store.make_room(limits).unwrap(), "there is nothing to do");

    // Less than two hours of rows of a second need.
    let limits = HistoryLimits { days: 90, bytes: 3_400_000 };
    while store.make_room(limits).unwrap() {}
    assert!(measured() <= 3_400_000, "{}", measured());
    for camera in ["gate", "yard"] {
        let rows = rows(&path, camera);
        assert!(frames(&rows) < 86_400 && rows[0].time > start, "the oldest went");
        assert_eq!(rows.last().unwrap().time, TODAY - SECOND);
    }
}
