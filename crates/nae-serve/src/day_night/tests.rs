//! Tests with given times: values at the levels, flickering pictures, hours over midnight and clock changes; refused
//! input, and the file on disk.
#![allow(clippy::unwrap_used)]

use super::*;

const NIGHT: Light = Light { brightness: 10.0, colour: 1.0 };
const DAY: Light = Light { brightness: 90.0, colour: 20.0 };
const DUSK: Light = Light { brightness: 40.0, colour: 6.0 };

fn rule(json: &str) -> Result<Rule, String> {
    let text: RuleText = serde_json::from_str(json).map_err(|error| error.to_string())?;
    text.try_into()
}

/// Night below 30, day above 50, for half a minute.
fn by_brightness() -> Rule {
    rule(r#"{"by": "brightness", "night_below": 30, "day_above": 50}"#).unwrap()
}

/// A sequence of values at given seconds, and the condition after each.
struct Seen {
    judge: Judge,
    levels: Levels,
    begin: Instant,
}

impl Seen {
    /// Starts after a long time by day.
    fn new() -> Self {
        let Rule::Light(_, levels) = by_brightness() else { panic!("{:?}", by_brightness()) };
        Self { judge: Judge::new(Some(Condition::Day)), levels, begin: Instant::now() }
    }

    fn see(&mut self, second: f64, value: f32) -> Condition {
        self.judge.see(&self.levels, value, self.begin + Duration::from_secs_f64(second));
        self.judge.condition
    }
}

use Condition::{Day, Night};

/// A value on a level is not of the other condition, and the time has passed at exactly its last second.
#[test]
fn levels_and_time_count_at_their_edges() {
    let mut seen = Seen::new();
    for second in [0.0, 100.0, 1000.0] {
        assert_eq!(seen.see(second, 30.0), Day, "on the level is not below it");
    }
    assert_eq!(seen.see(1000.0, 29.99), Day);
    assert_eq!(seen.see(1029.9, 29.99), Day);
    assert_eq!(seen.see(1030.0, 29.99), Night);
    for second in [2000.0, 2100.0, 3000.0] {
        assert_eq!(seen.see(second, 50.0), Night, "on the level is not above it");
    }
    assert_eq!(seen.see(3000.0, 50.01), Night);
    assert_eq!(seen.see(3029.9, 50.01), Night);
    assert_eq!(seen.see(3030.0, 50.01), Day);
}

#[test]
fn a_picture_that_flickers_around_a_level_switches_nothing() {
    for (one, other) in [(29.0, 31.0), (29.0, 51.0), (0.0, 255.0)] {
        let mut seen = Seen::new();
        for second in 0..3600 {
            let value = if second % 2 == 0 { one } else { other };
            assert_eq!(seen.see(f64::from(second), value), Day, "{one}, {other}: second {second}");
        }
    }
    // Passing cars do not end the night: 29 seconds of their light per minute.
    let mut seen = Seen::new();
    seen.see(0.0, 10.0);
    assert_eq!(seen.see(30.0, 10.0), Night);
    for second in 60..3600 {
        let value = if second % 60 < 30 { 200.0 } else { 10.0 };
        assert_eq!(seen.see(f64::from(second), value), Night, "second {second}");
    }
}

/// If the service starts at night, no waiting is needed; if it restarts in headlights, the night continues.
#[test]
fn the_first_look_decides_unless_it_is_known_what_held() {
    let (levels, now) = (Seen::new().levels, Instant::now());
    let mut first = Judge::new(None);
    assert_eq!(first.condition, Day);
    assert!(first.see(&levels, 10.0, now) && first.condition == Night);
    // Between the levels, the first frame does not decide, and the next one waits.
    let mut dusk = Judge::new(None);
    assert!(!dusk.see(&levels, 40.0, now) && !dusk.see(&levels, 10.0, now));
    let mut again = Judge::new(Some(Night));
    assert!(!again.see(&levels, 200.0, now) && again.condition == Night);
    assert!(again.see(&levels, 200.0, now + Duration::from_secs(30)) && again.condition == Day);
}

/// The times need not be monotonic: frames that are late or out of order do no harm.
#[test]
fn a_frame_of_before_the_last_is_no_harm() {
    let mut seen = Seen::new();
    seen.begin += Duration::from_secs(100);
    let begin = seen.begin;
    seen.see(50.0, 10.0);
    assert!(!seen.judge.see(&seen.levels, 10.0, begin), "no time has gone");
    assert_eq!(seen.see(79.9, 10.0), Day);
    assert_eq!(seen.see(80.0, 10.0), Night);
}

/// Central Europe: clocks go forward on the last Sunday of March at 02:00, and back on that of October at 03:00.
fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

/// The schedule follows local time, including its jumps, whatever the monotonic clock shows.
#[test]
fn a_schedule_goes_over_midnight_and_follows_a_clock_that_jumps() {
    let folder = tempfile::tempdir().unwrap();
    let hours = rule(r#"{"by": "schedule", "night": "21:30-06:15"}"#).unwrap();
    let day_night = DayNight::open(folder.path(), Some(hours));
    let steady = Instant::now();
    let at = |wall: &str| {
        let now = Moment { wall: wall.parse().unwrap(), steady };
        let standing = day_night.standing_in(now, berlin).unwrap();
        assert_eq!(standing.by, "schedule");
        standing.condition
    };
    for (wall, expected) in [
        ("2026-09-07T21:29:59+02:00", Day),
        ("2026-09-07T21:30:00+02:00", Night),
        ("2026-09-07T23:59:59+02:00", Night),
        ("2026-09-08T00:00:00+02:00", Night),
        ("2026-09-08T06:14:59+02:00", Night),
        ("2026-09-08T06:15:00+02:00", Day),
        // The clock is set back by a minute, back by a day, and ahead by a year.
        ("2026-09-08T06:14:00+02:00", Night),
        ("2026-09-07T12:00:00+02:00", Day),
        ("2027-09-08T01:00:00+02:00", Night),
        // The night in which 02:00 becomes 03:00, and the night in which it occurs twice.
        ("2026-03-29T06:14:59+02:00", Night),
        ("2026-03-29T06:15:00+02:00", Day),
        ("2026-10-25T06:14:59+01:00", Night),
        ("2026-10-25T06:15:00+01:00", Day),
    ] {
        assert_eq!(at(wall), expected, "{wall}");
    }
}

fn holds(day_night: &DayNight) -> Option<Condition> {
    let zone = || panic!("no hours ask for a zone");
    day_night.standing_in(Moment::now(), zone).map(|standing| standing.condition)
}

/// Cameras that light the night by infrared give bright and grey pictures.
#[test]
fn each_measure_is_of_its_own() {
    let infrared = Light { brightness: 120.0, colour: 0.4 };
    let folder = tempfile::tempdir().unwrap();
    for (rule_text, light, expected) in [
        (r#"{"by": "brightness", "night_below": 30, "day_above": 50}"#, infrared, Day),
        (r#"{"by": "brightness", "night_below": 30, "day_above": 50}"#, NIGHT, Night),
        (r#"{"by": "colour", "night_below": 2, "day_above": 5}"#, infrared, Night),
        (r#"{"by": "colour", "night_below": 2, "day_above": 5}"#, DAY, Day),
    ] {
        let day_night = Arc::new(DayNight::open(folder.path(), Some(rule(rule_text).unwrap())));
        let now = Instant::now();
        let look = day_night.begin_look(now).unwrap();
        assert!(day_night.begin_look(now + LOOK).is_none(), "one at a time");
        day_night.see(light, now);
        drop(look);
        assert_eq!(holds(&day_night), Some(expected), "{rule_text} {light:?}");
        assert_eq!(day_night.light(), Some(light));
        // Decoding a frame takes time.
        assert!(day_night.begin_look(now + Duration::from_millis(999)).is_none());
        assert!(day_night.begin_look(now + LOOK).is_some());
    }
    let said = Arc::new(DayNight::open(folder.path(), Some(Rule::Always(Night))));
    assert!(said.begin_look(Instant::now()).is_none() && holds(&said) == Some(Night), "nothing is to be seen for that");
    let never = Arc::new(DayNight::open(folder.path(), None));
    assert!(never.begin_look(Instant::now()).is_none() && holds(&never).is_none());
}

/// A measurement also ends if the frame cannot be decoded or the decoder panics, and the next frame is measured.
#[test]
fn a_look_that_fails_is_followed_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let day_night = Arc::new(DayNight::open(folder.path(), Some(by_brightness())));
    let begin = Instant::now();
    let ends = || {
        let end = Instant::now() + Duration::from_secs(10);
        while day_night.lock().looking {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(1));
        }
    };
    day_night.look(&Bytes::from_static(b"no image"), begin);
    ends();
    assert_eq!(day_night.light(), None);
    let look = day_night.begin_look(begin + LOOK).unwrap();
    thread::spawn(move || {
        let _look = look;
        panic!("as a decoder might");
    })
    .join()
    .unwrap_err();
    let black = [b"P5 4 4 255\n".as_slice(), &[0; 16]].concat();
    day_night.look(&black.into(), begin + 2 * LOOK);
    ends();
    assert_eq!((day_night.light(), holds(&day_night)), (Some(Light { brightness: 0.0, colour: 0.0 }), Some(Night)));
}

#[test]
fn what_was_set_and_what_held_by_the_light_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day-night.json");
    let open = || DayNight::open(folder.path(), Some(by_brightness()));
    let first = open();
    assert!(!first.has_changed() && !path.exists());
    first.see(NIGHT, Instant::now());
    assert!(first.has_changed());
    first.keep().unwrap();
    assert!(!first.has_changed());
    drop(first);
    // A first frame of headlights does not end the night that held before.
    let second = open();
    assert_eq!(holds(&second), Some(Night));
    second.see(DAY, Instant::now());
    assert_eq!(holds(&second), Some(Night));

    second.set(Some(Rule::Always(Day))).unwrap();
    assert_eq!((holds(&second), second.rule().unwrap().1), (Some(Day), Origin::Kept));
    drop(second);
    let third = open();
    assert_eq!((holds(&third), third.rule().unwrap()), (Some(Day), (Rule::Always(Day), Origin::Kept)));
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(kept, r#"{"rule":{"by":"day"},"condition":null}"#, "what held by the light is of no use for that");
    third.set(None).unwrap();
    assert_eq!(third.rule().unwrap(), (by_brightness(), Origin::Settings));
    // Under another rule, its first frame decides, even between the levels.
    third.see(NIGHT, Instant::now());
    assert_eq!(holds(&third), Some(Night));
    third.see(DUSK, Instant::now());
    third.keep().unwrap();
    drop(third);
    assert_eq!(holds(&open()), Some(Night));

    for text in
        ["", "{}", "[]", r#"{"rule": null, "condition": "dusk"}"#, r#"{"rule": {"by": "moon"}, "condition": null}"#]
    {
        std::fs::write(&path, text).unwrap();
        let damaged = open();
        assert_eq!((holds(&damaged), damaged.rule().unwrap().1), (Some(Day), Origin::Settings), "{text}");
    }
}

#[test]
fn what_cannot_be_kept_holds_until_the_end_and_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let day_night = DayNight::open(&missing, None);
    day_night.set(Some(Rule::Always(Night))).unwrap_err();
    assert!(day_night.has_changed() && holds(&day_night) == Some(Night));
    std::fs::create_dir(&missing).unwrap();
    day_night.keep().unwrap();
    assert!(!day_night.has_changed() && holds(&DayNight::open(&missing, None)) == Some(Night));
}

#[test]
fn rules_are_read_as_they_are_shown_and_wrong_ones_are_refused() {
    for text in [
        r#"{"by":"day"}"#,
        r#"{"by":"night"}"#,
        r#"{"by":"schedule","night":"Mon-Fri 22:00-06:00, Sat 23:00-08:00"}"#,
        r#"{"by":"brightness","night_below":0.5,"day_above":254.5,"hold":0.1}"#,
        r#"{"by":"colour","night_below":2.0,"day_above":5.5,"hold":3600.0}"#,
    ] {
        let read = rule(text).unwrap();
        assert_eq!(serde_json::to_string(&read.text()).unwrap(), text);
        assert!(text.contains(read.name()));
    }
    assert_eq!(by_brightness().text(), RuleText::Brightness { night_below: 30.0, day_above: 50.0, hold: 30.0 });
    for (text, expected) in [
        (r#"{"by": "schedule", "night": "at dusk"}"#, "`night`: expected days and hours"),
        (r#"{"by": "schedule", "night": ""}"#, "`night`: expected days and hours"),
        (r#"{"by": "brightness", "night_below": 50, "day_above": 50}"#, "found 50, 50"),
        (r#"{"by": "brightness", "night_below": 0, "day_above": 50}"#, "`night_below` and `day_above`: expected"),
        (r#"{"by": "brightness", "night_below": 5, "day_above": 255}"#, "`night_below` and `day_above`: expected"),
        (r#"{"by": "colour", "night_below": -1, "day_above": 5}"#, "`night_below` and `day_above`: expected"),
        (r#"{"by": "colour", "night_below": 1, "day_above": 1e39}"#, "expected"),
        (r#"{"by": "colour", "night_below": 1, "day_above": 5, "hold": 0}"#, "`hold`: expected seconds from 0.1"),
        (r#"{"by": "colour", "night_below": 1, "day_above": 5, "hold": 1e300}"#, "`hold`: expected seconds"),
        (r#"{"by": "colour", "night_below": 1}"#, "missing field"),
        (r#"{"by": "day", "night_below": 1}"#, "night_below"),
        (r#"{"by": "moon"}"#, "unknown variant"),
        ("{}", "by"),
    ] {
        let refused = rule(text).unwrap_err();
        assert!(refused.contains(expected), "{text}: {refused}");
    }
    assert_eq!(Levels::new(f32::NAN, 5.0, HOLD).ok(), None);
    assert_eq!(Levels::new(1.0, f32::NAN, HOLD).ok(), None);
}
