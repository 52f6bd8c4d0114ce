//! Tests of the format of hours and the times that they contain, with midnight, the end of the week and clock changes;
//! of pauses and snoozes with given times, and of their file.
#![allow(clippy::unwrap_used)]

use jiff::civil::DateTime;

use super::*;

/// Central Europe: clocks go forward on the last Sunday of March at 02:00, and back on that of October at 03:00.
fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

fn hours(text: &str) -> WeekHours {
    text.parse().unwrap()
}

fn contain(hours: &WeekHours, wall: &str) -> bool {
    hours.contain(wall.parse::<DateTime>().unwrap())
}

/// 7 September 2026 is a Monday.
#[test]
fn hours_are_of_their_days() {
    let two = hours("Mon-Fri 07:00-19:00, sat 8:00-12:00");
    for (wall, expected) in [
        ("2026-09-07T06:59:59", false),
        ("2026-09-07T07:00", true),
        ("2026-09-11T18:59:59", true),
        ("2026-09-11T19:00", false),
        ("2026-09-12T07:30", false),
        ("2026-09-12T11:59", true),
        ("2026-09-12T12:00", false),
        ("2026-09-13T09:00", false),
    ] {
        assert_eq!(contain(&two, wall), expected, "{wall}");
    }
    let nights = hours("22:00-06:00");
    for (wall, expected) in [
        ("2026-09-07T00:00", true),
        ("2026-09-07T05:59", true),
        ("2026-09-07T06:00", false),
        ("2026-09-07T21:59", false),
        ("2026-09-13T22:00", true),
        ("2026-09-13T23:59:59", true),
    ] {
        assert_eq!(contain(&nights, wall), expected, "{wall}");
    }
    // A night belongs to the day on which it begins, even from Sunday to Monday.
    let sunday = hours("Sun 22:00-06:00");
    for (wall, expected) in [
        ("2026-09-13T05:00", false),
        ("2026-09-13T22:00", true),
        ("2026-09-14T05:59", true),
        ("2026-09-14T06:00", false),
        ("2026-09-14T22:00", false),
    ] {
        assert_eq!(contain(&sunday, wall), expected, "{wall}");
    }
    let over_the_weekend = hours("Sat-Mon 00:00-24:00");
    let days = (7..14).map(|day| contain(&over_the_weekend, &format!("2026-09-{day:02}T23:59")));
    assert_eq!(days.collect::<Vec<_>>(), [true, false, false, false, false, true, true]);
    assert!(contain(&hours("23:00-0:00"), "2026-09-07T23:59") && !contain(&hours("23:00-00:00"), "2026-09-08T00:00"));
}

#[test]
fn what_is_no_hours_is_refused_with_the_part() {
    for wrong in [
        "",
        "always",
        "Mon",
        "Mon-Fri",
        "Mon 7-19",
        "Mon 07:00",
        "Mon 07:00-",
        "Mon -07:00",
        "Mon 07:00-25:00",
        "Mon 07:00-24:01",
        "Mon 24:00-07:00",
        "Mon 07:60-08:00",
        "Mon 07:0-08:00",
        "Mon 007:00-08:00",
        "Mon +7:00-08:00",
        "Mon 07:00-07:00",
        "Mon 07:00-08:00 09:00-10:00",
        "Mon-Tue-Wed 07:00-08:00",
        "Montag 07:00-08:00",
        "Mon 07:00–19:00",
        "Mön 07:00-19:00",
    ] {
        let said = wrong.parse::<WeekHours>().unwrap_err();
        assert!(said.contains(&format!("(`{wrong}` is neither)")), "{said}");
    }
    for (wrong, part) in [("Mon 07:00-08:00, ", ""), ("Mon 07:00-08:00, Tue 8", "Tue 8"), (",", "")] {
        let said = wrong.parse::<WeekHours>().unwrap_err();
        assert!(said.contains(&format!("(`{part}` is neither)")), "{said}");
    }
}

/// Whether alarms are raised, every half hour from the UTC time `from` on.
fn half_hours(hours: &WeekHours, zone: &TimeZone, from: &str, count: i64) -> Vec<bool> {
    let from: Timestamp = from.parse().unwrap();
    let at = |half| from.checked_add(jiff::SignedDuration::from_mins(30 * half)).unwrap();
    (0..count).map(|half| hours.contain(zone.to_datetime(at(half)))).collect()
}

/// In Berlin, 02:00 to 03:00 does not exist on 29 March 2026, and occurs twice on 25 October.
#[test]
fn an_hour_that_does_not_exist_or_comes_twice_is_by_the_clock_on_the_wall() {
    let zone = berlin();
    // From 01:00 local time: 01:00, 01:30, 03:00, 03:30.
    assert_eq!(half_hours(&hours("02:30-03:30"), &zone, "2026-03-29T00:00:00Z", 4), [false, false, true, false]);
    assert_eq!(half_hours(&hours("02:00-03:00"), &zone, "2026-03-29T00:00:00Z", 4), [false; 4]);
    assert_eq!(half_hours(&hours("22:00-06:00"), &zone, "2026-03-29T00:00:00Z", 4), [true; 4]);
    // From 01:30 local time: 01:30, 02:00, 02:30, again 02:00, 02:30, and 03:00.
    assert_eq!(
        half_hours(&hours("02:00-02:30"), &zone, "2026-10-24T23:30:00Z", 6),
        [false, true, false, true, false, false]
    );
}

/// The expected moment is found by a slow but simple search, minute by minute.
#[test]
fn the_hours_begin_again_when_they_say() {
    for zone in [TimeZone::UTC, berlin(), TimeZone::posix("<+0545>-5:45").unwrap()] {
        for text in
            ["Mon-Fri 07:00-19:00, Sat 08:00-12:00", "22:00-06:00", "Sun 02:30-02:45", "02:30-03:30", "Sun 23:59-0:01"]
        {
            let hours = hours(text);
            for now in [
                "2026-03-28T23:10:30Z",
                "2026-03-29T00:59:00Z",
                "2026-10-25T00:20:00Z",
                "2026-10-25T00:50:00Z",
                "2026-09-13T21:59:59Z",
                "2026-09-11T17:00:00Z",
            ] {
                let now: Timestamp = now.parse().unwrap();
                if hours.contain(zone.to_datetime(now)) {
                    continue;
                }
                let minute = now.as_second() / 60;
                let moments = (1..).map(|later| Timestamp::from_second(60 * (minute + later)).unwrap());
                let expected = moments.take(9 * 24 * 60).find(|moment| hours.contain(zone.to_datetime(*moment)));
                assert!(expected.is_some());
                assert_eq!(hours.next(now, &zone), expected, "{text} after {now} in {zone:?}");
            }
        }
    }
}

/// A moment the given number of seconds after the first; the second number shifts the wall clock.
fn moments(wall: &str) -> impl Fn(u64, i64) -> Moment {
    let (wall, steady) = (wall.parse::<Timestamp>().unwrap(), Instant::now());
    move |seconds, off| Moment {
        wall: wall.checked_add(jiff::SignedDuration::from_secs(seconds as i64 + off)).unwrap(),
        steady: steady + Duration::from_secs(seconds),
    }
}

#[test]
fn a_pause_holds_until_it_is_ended_and_a_snooze_for_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = moments("2026-09-07T12:00:00Z");
    let open = |now| Quiet::open(folder.path(), None, TimeZone::UTC, now);
    let quiet = open(at(0, 0));
    assert_eq!(quiet.state(at(0, 0)), AlarmState::On);
    quiet.pause(None, at(1, 0)).unwrap();
    assert_eq!(quiet.state(at(1_000_000, 0)), AlarmState::Paused);
    assert_eq!(open(at(2_000_000, 0)).state(at(2_000_000, 0)), AlarmState::Paused, "it is kept");
    quiet.pause(Some(Duration::from_secs(60)), at(10, 0)).unwrap();
    assert_eq!(quiet.state(at(20, 0)), AlarmState::Snoozed { seconds_left: 50.0 });
    assert_eq!(quiet.state(at(69, 0)), AlarmState::Snoozed { seconds_left: 1.0 });
    assert_eq!(quiet.state(at(70, 0)), AlarmState::On);
    // Changes of the wall clock have no effect.
    assert_eq!(quiet.state(at(69, 86_400)), AlarmState::Snoozed { seconds_left: 1.0 });
    assert_eq!(quiet.state(at(70, -86_400)), AlarmState::On);
    quiet.resume(at(20, 0)).unwrap();
    assert_eq!(quiet.state(at(21, 0)), AlarmState::On);
    assert_eq!(open(at(21, 0)).state(at(21, 0)), AlarmState::On, "that is kept, too");
}

/// While the service is stopped, only the wall clock continues.
#[test]
fn a_snooze_ends_while_the_service_is_down_and_is_never_longer_than_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let at = moments("2026-09-07T12:00:00Z");
    let open = |now| Quiet::open(folder.path(), None, TimeZone::UTC, now).state(now);
    let quiet = Quiet::open(folder.path(), None, TimeZone::UTC, at(0, 0));
    quiet.pause(Some(Duration::from_secs(600)), at(0, 0)).unwrap();
    assert_eq!(open(at(200, 0)), AlarmState::Snoozed { seconds_left: 400.0 });
    assert_eq!(open(at(600, 0)), AlarmState::On);
    assert_eq!(open(at(200, -86_400)), AlarmState::Snoozed { seconds_left: 600.0 }, "a clock that was put back");
    assert_eq!(open(at(200, 86_400)), AlarmState::On);
    quiet.pause(Some(30 * LONGEST), at(0, 0)).unwrap();
    assert_eq!(quiet.state(at(0, 0)), AlarmState::Snoozed { seconds_left: LONGEST.as_secs_f64() });
}

/// As on a computer without a clock that runs while it is off.
#[test]
fn a_snooze_does_not_begin_anew_with_a_clock_that_is_always_behind() {
    let folder = tempfile::tempdir().unwrap();
    let at = moments("2026-09-07T12:00:00Z");
    let quiet = Quiet::open(folder.path(), None, TimeZone::UTC, at(0, 0));
    quiet.pause(Some(Duration::from_secs(600)), at(0, 0)).unwrap();
    let mut writes = 0;
    for second in 0..=700 {
        if quiet.is_outdated(at(second, 0)) {
            quiet.keep(at(second, 0)).unwrap();
            writes += 1;
        }
        let again = Quiet::open(folder.path(), None, TimeZone::UTC, at(second, -86_400)).state(at(second, -86_400));
        match again {
            AlarmState::Snoozed { seconds_left } => {
                let was = 600.0 - second as f64;
                assert!((was..was + 60.0).contains(&seconds_left), "{seconds_left} after {second}");
            }
            again => assert_eq!((again, second >= 600), (AlarmState::On, true), "after {second}"),
        }
    }
    assert_eq!(writes, 10, "once a minute, and none after its end");
    // A service that starts with it continues to write it.
    quiet.pause(Some(Duration::from_secs(600)), at(1000, 0)).unwrap();
    let later = Quiet::open(folder.path(), None, TimeZone::UTC, at(1100, 0));
    assert!(later.is_outdated(at(1100, 0)));
    later.keep(at(1100, 0)).unwrap();
    assert!(!later.is_outdated(at(1159, 0)) && later.is_outdated(at(1160, 0)));
    // A pause has no end.
    later.pause(None, at(1170, 0)).unwrap();
    assert!(!later.is_outdated(at(9999, 0)));
}

#[test]
fn a_file_that_says_nothing_has_alarms_raised() {
    let folder = tempfile::tempdir().unwrap();
    let at = moments("2026-09-07T12:00:00Z")(0, 0);
    for text in [
        "",
        "garbage",
        "{\"alarms\": \"maybe\"}",
        "{\"alarms\": \"snoozed\"}",
        "{\"alarms\": \"snoozed\", \"until\": \"soon\", \"seconds\": 5}",
        "{\"alarms\": \"snoozed\", \"until\": \"9999-01-01T00:00:00Z\", \"seconds\": 1e300}",
        "{\"alarms\": \"snoozed\", \"until\": \"9999-01-01T00:00:00Z\", \"seconds\": -1}",
    ] {
        std::fs::write(folder.path().join("alarms-paused.json"), text).unwrap();
        assert_eq!(Quiet::open(folder.path(), None, TimeZone::UTC, at).state(at), AlarmState::On, "{text}");
    }
}

/// Monday noon and evening.
#[test]
fn outside_the_hours_no_alarms_are_raised_and_it_says_until_when() {
    let folder = tempfile::tempdir().unwrap();
    let at = moments("2026-09-07T10:00:00Z");
    let quiet = Quiet::open(folder.path(), Some(hours("Mon-Fri 07:00-19:00")), berlin(), at(0, 0));
    assert_eq!(quiet.state(at(0, 0)), AlarmState::On);
    let off = AlarmState::OffBySchedule { on_at: Some("2026-09-08T07:00:00+02:00".to_owned()) };
    assert_eq!(quiet.state(at(7 * 3600, 0)), off);
    assert_eq!(quiet.state(at(7 * 3600, -1)), AlarmState::On, "these go by the clock on the wall");
    quiet.pause(None, at(7 * 3600, 0)).unwrap();
    assert_eq!(quiet.state(at(7 * 3600, 0)), AlarmState::Paused, "what someone asked for comes first");
    let json = serde_json::to_value([off, AlarmState::On, AlarmState::Snoozed { seconds_left: 1.5 }]).unwrap();
    let expected = serde_json::json!([
        {"state": "off_by_schedule", "on_at": "2026-09-08T07:00:00+02:00"}, {"state": "on"},
        {"state": "snoozed", "seconds_left": 1.5},
    ]);
    assert_eq!(json, expected);
}

/// A frame may have waited to be scored.
#[test]
fn a_frame_of_before_counts_for_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let at = moments("2026-09-07T10:00:00Z");
    let quiet = Quiet::open(folder.path(), Some(hours("Mon 12:00-13:00")), berlin(), at(0, 0));
    let counts = |taken: u64, now: u64| quiet.counts(at(taken, 0).steady, at(now, 0));
    assert!(counts(0, 1) && counts(10, 10));
    quiet.pause(Some(Duration::from_secs(60)), at(100, 0)).unwrap();
    assert!(!counts(99, 101) && !counts(101, 102) && !counts(159, 161));
    assert!(counts(160, 161));
    quiet.pause(None, at(200, 0)).unwrap();
    quiet.resume(at(300, 0)).unwrap();
    assert!(!counts(199, 301) && !counts(299, 301) && counts(300, 301));
    quiet.resume(at(400, 0)).unwrap();
    assert!(counts(399, 401), "there was nothing to resume");
    // The hours end after 3600 seconds.
    assert!(counts(3599, 3599) && !counts(3599, 3600) && !counts(3600, 3600));
}
