//! Tests of the file itself: created, of another version, damaged, deleted, locked; alarms in it; clocks that jump.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

use rusqlite::Connection;

use super::*;

const ROOM: u64 = 200_000_000;

/// The names in a folder that begin with a text.
fn names(folder: &Path, beginning: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name.starts_with(beginning)).collect();
    names.sort();
    names
}

fn version(path: &Path) -> i64 {
    Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// Takes a frame, and writes.
fn write(writer: &mut Writer, time: i64, energy: f32) {
    writer.take(Message::Energy { camera: 0, point: point(time, energy) });
    writer.write();
}

#[test]
fn a_file_is_made_for_its_owner_alone_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    // An empty file results if the file was opened but never written.
    File::create(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (mut writer_of_before, ..) = writer(&path, ROOM, Vec::new());
    write(&mut writer_of_before, TODAY + 100, 1.0);
    drop(writer_of_before);
    let (mut again, writing, _) = writer(&path, ROOM, Vec::new());
    write(&mut again, TODAY + 900, 3.0);
    let rows = rows(&path, "gate");
    assert_eq!(rows.len(), 1, "the same second");
    assert_eq!((rows[0].count, rows[0].min, rows[0].mean, rows[0].max), (2, 1.0, 2.0, 3.0));
    assert_eq!((version(&path), writing.get()), (2, 1));
    #[cfg(unix)]
    for name in names(folder.path(), "history.sqlite") {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&folder.path().join(&name).metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// A file from before there was a night continues to be used, and its rows belong to the day.
#[test]
fn a_file_of_the_first_version_gets_what_it_lacks_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    let old = Connection::open(&path).unwrap();
    old.execute_batch(schema::MIGRATIONS[0]).unwrap();
    old.execute_batch(
        "INSERT INTO camera VALUES (7, 'gate'); INSERT INTO model VALUES (3, '0a0b0c0d');
         INSERT INTO energy VALUES (7, 1, 1000, 3, 5, 0.1, 0.2, 0.3, 0.5);
         INSERT INTO alarm VALUES ('id', 7, 1, 1000, 2000, 2.5, 0.5, 3);",
    )
    .unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let (mut writer, writing, _) = writer(&path, ROOM, Vec::new());
    writer.take(Message::Energy { camera: 0, point: Point { night: true, ..point(TODAY, 1.0) } });
    writer.take(Message::Raised { camera: 0, alarm: AlarmRecord { night: true, ..alarm(2, TODAY) } });
    writer.write();
    assert_eq!((version(&path), writing.get(), names(folder.path(), "history.sqlite.aside").len()), (2, 1, 0));
    let rows = rows(&path, "gate");
    let found: Vec<_> = rows.iter().map(|row| (row.time, row.count, row.night)).collect();
    assert_eq!(found, [(1000, 5, false), (TODAY, 1, true)]);
    let read = Connection::open(&path).unwrap();
    let nights = |view: &str| -> Vec<bool> {
        let mut all = read.prepare(&format!("SELECT night FROM {view} ORDER BY time")).unwrap();
        all.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!((nights("energies"), nights("alarms")), (vec![false, true], vec![false, true]));
}

/// One file may be the model of both conditions; a second has one row for it.
#[test]
fn a_row_says_whose_model_it_was_at_its_last_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    let (mut writer, ..) = writer(&path, ROOM, Vec::new());
    let take = |writer: &mut Writer, time: i64, night: bool| {
        writer.take(Message::Energy { camera: 0, point: Point { night, ..point(time, 1.0) } });
    };
    let nights = || rows(&path, "gate").iter().map(|row| (row.count, row.night)).collect::<Vec<_>>();
    // Rows that are gathered before they are written, and rows that are merged with existing ones.
    take(&mut writer, TODAY, false);
    take(&mut writer, TODAY + 100, true);
    writer.write();
    assert_eq!(nights(), [(2, true)]);
    take(&mut writer, TODAY + 200, false);
    writer.write();
    assert_eq!(nights(), [(3, false)]);
}

#[test]
fn a_file_that_cannot_be_used_is_set_aside_and_kept() {
    type Spoil = fn(&Path);
    let spoilt: [(&str, Spoil); 5] = [
        ("newer", |path| Connection::open(path).unwrap().pragma_update(None, "user_version", 3).unwrap()),
        ("negative", |path| Connection::open(path).unwrap().pragma_update(None, "user_version", -1).unwrap()),
        ("garbage", |path| std::fs::write(path, "no database, but long enough to be looked at. ".repeat(99)).unwrap()),
        ("another table", |path| {
            std::fs::remove_file(path).unwrap();
            Connection::open(path).unwrap().execute_batch("CREATE TABLE something (a)").unwrap();
        }),
        ("a column is gone", |path| {
            Connection::open(path)
                .unwrap()
                .execute_batch("DROP VIEW alarms; ALTER TABLE alarm DROP COLUMN cleared")
                .unwrap();
        }),
    ];
    for (what, spoil) in spoilt {
        let folder = tempfile::tempdir().unwrap();
        let path = schema::file_in(folder.path());
        let (mut before, ..) = writer(&path, ROOM, Vec::new());
        write(&mut before, TODAY, 1.0);
        drop(before);
        spoil(&path);
        let bytes = std::fs::read(&path).unwrap();
        let (mut after, writing, dropped) = writer(&path, ROOM, Vec::new());
        write(&mut after, TODAY + DAY, 2.0);
        assert_eq!((writing.get(), dropped.get()), (1, 0), "{what}: {:?}", after.wrong);
        assert_eq!(rows(&path, "gate").iter().map(|row| row.max).collect::<Vec<_>>(), [2.0], "{what}");
        let aside = names(folder.path(), "history.sqlite.aside-");
        assert_eq!(aside.len(), 1, "{what}: {aside:?}");
        assert!(std::fs::read(folder.path().join(&aside[0])).unwrap() == bytes, "{what}: as it was");
    }
}

/// Damage in the table of cameras shows when the file is opened; damage in that of energies, when it is written.
#[test]
fn damage_that_shows_later_sets_the_file_aside_too_and_loses_nothing_that_waits() {
    for table in ["camera", "energy"] {
        let folder = tempfile::tempdir().unwrap();
        let path = schema::file_in(folder.path());
        let (mut before, ..) = writer(&path, ROOM, Vec::new());
        write(&mut before, TODAY, 1.0);
        drop(before);
        let text = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        let page: i64 = Connection::open(&path).unwrap().query_row(text, [table], |row| row.get(0)).unwrap();
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(4096 * (page as u64 - 1))).unwrap();
        file.write_all(&[0xAA; 4096]).unwrap();
        let (mut after, writing, _) = writer(&path, ROOM, Vec::new());
        assert_eq!(names(folder.path(), "history.sqlite.aside-").len(), usize::from(table == "camera"), "{table}");
        write(&mut after, TODAY + DAY, 2.0);
        assert_eq!(writing.get(), 1, "{table}");
        assert_eq!(rows(&path, "gate").iter().map(|row| row.max).collect::<Vec<_>>(), [2.0], "{table}");
        assert_eq!(names(folder.path(), "history.sqlite.aside-").len(), 1, "{table}");
    }
}

#[test]
fn a_file_that_is_deleted_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    let (mut writer, ..) = writer(&path, ROOM, Vec::new());
    write(&mut writer, TODAY, 1.0);
    for name in names(folder.path(), "history.sqlite") {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    write(&mut writer, TODAY + DAY, 2.0);
    assert_eq!(rows(&path, "gate").iter().map(|row| row.max).collect::<Vec<_>>(), [2.0]);
}

/// If the folder is missing, data wait, up to a limit, and are written once there is one.
#[test]
fn what_cannot_be_written_waits_and_more_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later").join("history.sqlite");
    let (mut writer, writing, dropped) = writer(&path, ROOM, Vec::new());
    for second in 0..20_100 {
        writer.take(Message::Energy { camera: 0, point: point(TODAY + second * SECOND, 1.0) });
    }
    writer.write();
    assert_eq!((writing.get(), dropped.get()), (0, 100));
    writer.take(Message::Raised { camera: 0, alarm: alarm(1, TODAY) });
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    writer.write();
    assert_eq!((writing.get(), dropped.get()), (1, 100));
    assert_eq!((rows(&path, "gate").len(), alarms(&path, "gate").len()), (20_000, 1));
}

/// A long read prevents the log from being emptied, but it does not grow without limit.
#[test]
fn a_reader_that_never_ends_does_not_make_the_files_grow_beyond_their_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    let limit = 8_000_000;
    let (mut writer, writing, _) = writer(&path, limit, Vec::new());
    write(&mut writer, TODAY, 1.0);
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM energy").unwrap();
    let bytes = || path.metadata().unwrap().len() + schema::log_of(&path).metadata().unwrap().len();
    let mut most = 0;
    for batch in 0..30 {
        for second in 0..10_000 {
            let time = TODAY + (batch * 10_000 + second) * SECOND;
            writer.take(Message::Energy { camera: 0, point: point(time, 1.0) });
        }
        writer.write();
        most = most.max(bytes());
    }
    assert!(most < limit + 1_000_000, "one batch more: {most}");
    assert_eq!(writing.get(), 0);
    reader.execute_batch("COMMIT").unwrap();
    writer.write();
    assert_eq!(writing.get(), 1);
    for _ in 0..3 {
        writer.write();
        writer.look();
    }
    assert!(bytes() <= limit, "{}", bytes());
}

#[test]
fn alarms_are_there_once_with_their_end_also_those_that_only_the_journal_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    let now = super::super::now();
    let (mut before, ..) = writer(&path, ROOM, Vec::new());
    before.take(Message::Raised { camera: 0, alarm: alarm(0, now - 9000) });
    before.take(Message::Cleared { camera: 0, time: now - 8000 });
    before.take(Message::Raised { camera: 0, alarm: alarm(1, now - 7000) });
    before.write();
    let found = |path: &Path| alarms(path, "gate").iter().map(|a| (a.number, a.cleared)).collect::<Vec<_>>();
    assert_eq!(found(&path), [(0, Some(now - 8000)), (1, None)]);
    // It was killed before it wrote the third.
    drop(before);
    let (after, ..) = writer(&path, ROOM, (0..3).map(|n| alarm(n, now - 9000 + 2000 * n as i64)).collect());
    drop(after);
    let ends = found(&path);
    assert_eq!((ends.len(), ends[0], ends[1]), (3, (0, Some(now - 8000)), (1, Some(now - 5000))));
    assert!(ends[2].1.is_some_and(|end| end >= now), "the filter begins empty: {ends:?}");
    let one = &alarms(&path, "gate")[1];
    assert_eq!(
        (one.id.as_str(), one.energy, one.threshold, one.model.as_str()),
        ("gate-77-1", 2.5, Some(0.5), "0a0b0c0d")
    );
}

/// More alarms than one answer contains.
#[test]
fn many_alarms_come_piece_by_piece_and_a_chart_has_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    let mut store = open(&path, &["gate"]);
    let mut pending = Pending::of(1);
    // Two at a time, so that a piece would end between two.
    pending.alarms.extend((0..3001).map(|n| (0, AlarmChange::Raised(alarm(n, TODAY + (n as i64 + 1) / 2)))));
    store.add(&mut pending).unwrap();
    let found: Vec<i64> = alarms(&path, "gate").iter().map(|alarm| alarm.number).collect();
    assert_eq!(found, (0..3001).collect::<Vec<i64>>());
    let chart = Past::open(&path, "gate").unwrap().chart(ALL, 600).unwrap();
    assert!(chart.more_alarms);
    assert_eq!(chart.alarms.iter().map(|alarm| alarm.number).collect::<Vec<_>>(), (2001..3001).collect::<Vec<i64>>());
}

/// After an hour back, data are merged with those of that hour. After a year ahead and back, both are where their
/// clock put them.
#[test]
fn rows_are_in_the_order_of_the_clock_whatever_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema::file_in(folder.path());
    let (mut writer, writing, dropped) = writer(&path, ROOM, Vec::new());
    let mut come = |from: i64, energy: f32| {
        for second in 0..600 {
            writer.take(Message::Energy { camera: 0, point: point(from + second * SECOND, energy) });
        }
        writer.write();
        writer.looked = None;
        writer.look();
    };
    come(TODAY, 1.0);
    come(TODAY - HOUR, 2.0);
    // The clock was set back, and these ten minutes occur again.
    come(TODAY, 3.0);
    come(TODAY + 365 * DAY, 4.0);
    come(TODAY + HOUR, 5.0);
    // Before 1970, where a clock without a battery begins, and as late as possible.
    come(-DAY, 6.0);
    come(i64::MAX / 2, 7.0);
    assert_eq!((writing.get(), dropped.get()), (1, 0));
    let found = rows(&path, "gate");
    assert_eq!(found.len(), 4 * 600);
    assert!(found.windows(2).all(|two| two[0].time < two[1].time), "in order, each once");
    let again = &found[600];
    assert_eq!((again.time, again.count, again.min, again.max), (TODAY, 2, 1.0, 3.0));
    assert_eq!((found[0].max, found[1200].max, found[1800].max), (2.0, 5.0, 4.0));
}
