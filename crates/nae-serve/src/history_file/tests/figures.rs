//! Measures the costs of the history: space for a day of a camera, time for the chart of a week, processor time for a
//! frame. These are slow tests, whose results are in docs/camera.md.

use std::sync::mpsc::sync_channel;
use std::time::Instant;

use super::super::recorder::Recorder;
use super::*;

/// Scattered energies, the same each time.
fn energies() -> impl Iterator<Item = f32> {
    let mut state = 1_u32;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.02 + (state >> 8) as f32 / (1 << 28) as f32
    })
}

#[test]
fn a_camera_of_five_frames_a_second_takes_little() {
    if std::env::var_os("NAE_SLOW_TESTS").is_none() {
        eprintln!("skipped: NAE_SLOW_TESTS is not set");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    let limits = HistoryLimits { days: 90, bytes: 200_000_000 };
    let (mut writer, ..) = writer(&path, limits.bytes, Vec::new());
    let (messages, received) = sync_channel(4096);
    let recorder = Recorder::new(0, messages, Counter::default());
    let mut energies = energies();
    let (mut handed, mut gathered, mut written) = (0.0, 0.0, 0.0);
    let (days, frames) = (35, 5 * 86_400);
    let mut sizes = Vec::new();
    for day in 0..days {
        for batch in 0..43_200 {
            let begin = Instant::now();
            for frame in 0..10 {
                let time = TODAY + day * DAY + batch * 2000 + frame * 200;
                recorder.energy(time, energies.next().unwrap(), Some(0.05), "0a0b0c0d", false);
            }
            let middle = Instant::now();
            received.try_iter().for_each(|message| writer.take(message));
            let end = Instant::now();
            // Like the writer, every two seconds; for most days an hour at once, which is faster.
            if day == 0 || batch % 1800 == 1799 {
                writer.write();
            }
            if day == 0 {
                handed += (middle - begin).as_secs_f64();
                gathered += (end - middle).as_secs_f64();
                written += end.elapsed().as_secs_f64();
            }
        }
        let mut store = open(&path, &["gate"]);
        while store.age(limits, TODAY + (day + 1) * DAY).unwrap() {}
        store.give_back().unwrap();
        sizes.push(path.metadata().unwrap().len());
    }
    let micro = |seconds: f64| 1e6 * seconds / f64::from(frames);
    println!(
        "a frame: handed over in {:.2} µs; gathered in {:.2} µs and written in {:.2} µs by the other thread",
        micro(handed),
        micro(gathered),
        micro(written)
    );
    println!("bytes after a day {}, after 35 days {}", sizes[0], sizes[34]);
    for (name, days) in [("day", 1), ("week", 7), ("month", 30)] {
        let span = Span { from: TODAY + (35 - days) * DAY, to: TODAY + 35 * DAY };
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let begin = Instant::now();
            let chart = Past::open(&path, "gate").unwrap().chart(span, 600).unwrap();
            best = best.min(begin.elapsed().as_secs_f64());
            assert_eq!(chart.slices.iter().map(|slice| slice.count).sum::<i64>(), days * i64::from(frames));
        }
        println!("a {name}'s chart: {:.0} ms", 1000.0 * best);
    }
    assert!(sizes[34] < 20_000_000, "{sizes:?}");
}
