//! The history on disk: what is scored is in it after a restart or a kill, what is asked of it is answered within limits, and
//! neither a full disk nor a spoilt file is anything to the alarms.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::alarms::{lines, numbers, raise, scored, start, webhook};
use crate::browser::Browser;
use crate::harness::{Clock, Place, Service, SmallDisk, eventually, model, picture};

/// All times that a test may see.
const EVER: &str = "from=2020-01-01T00:00:00Z&to=2029-12-01T00:00:00Z";

fn chart(service: &Service, query: &str) -> Value {
    let answer = service.get(&format!("/api/history/interval?{query}"));
    assert_eq!(answer.status, 200, "{query}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

/// Frames that a chart shows.
fn frames(chart: &Value) -> f64 {
    chart["slices"].as_array().unwrap().iter().map(|slice| slice["count"].as_f64().unwrap()).sum()
}

fn alarm_numbers(chart: &Value) -> Vec<u64> {
    chart["alarms"].as_array().unwrap().iter().map(|alarm| alarm["number"].as_u64().unwrap()).collect()
}

/// A frame comes and is scored.
fn show(service: &Service, place: &Place, name: &str, image: &str) {
    let before = scored(service);
    place.frame(&format!("{name}.png"), &picture(image));
    eventually("the frame is scored", || scored(service) > before);
}

/// Frames that have been seen are not seen again by the next start.
fn forget(place: &Place) {
    std::fs::remove_dir_all(place.path("frames")).unwrap();
    std::fs::create_dir(place.path("frames")).unwrap();
}

fn file(place: &Place) -> std::path::PathBuf {
    place.state().join("history.sqlite")
}

/// The lines of a CSV file as JSON, by the names in its first.
fn parsed(csv: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(csv).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let value = |name: &str, text: &str| match name {
        "time" | "model" | "id" => json!(text),
        _ if text.is_empty() => Value::Null,
        "cleared" => json!(text),
        "night" => json!(text.parse::<bool>().unwrap()),
        "seconds" | "count" | "number" => json!(text.parse::<i64>().unwrap()),
        // As the service writes it: the shortest text that is this number of 32 bits.
        "min" | "max" | "threshold" | "energy" => {
            json!(text.parse::<f32>().unwrap().to_string().parse::<f64>().unwrap())
        }
        _ => json!(text.parse::<f64>().unwrap()),
    };
    lines
        .map(|fields| names.iter().zip(fields).map(|(name, text)| ((*name).to_owned(), value(name, text))).collect())
        .collect()
}

#[test]
fn what_was_scored_is_there_after_a_restart_as_json_and_as_csv() {
    let place = Place::new();
    let service = start(&place, &[]);
    raise(&service, &place, "a", 2);
    show(&service, &place, "b", "zero");
    let largest = |slices: &Value, name: &str| {
        let energies = slices.as_array().unwrap().iter().map(|slice| slice[name].as_f64().unwrap());
        energies.fold(0.0, f64::max)
    };
    let energy = largest(&service.get("/api/history").json(), "energy");
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    forget(&place);
    assert!(!place.state().join("history.sqlite-wal").exists(), "all is in the one file");

    let service = start(&place, &[]);
    assert_eq!(scored(&service), 0.0);
    let whole = chart(&service, "from=600&points=2000");
    assert_eq!((frames(&whole), &whole["seconds"], &whole["more_alarms"]), (9.0, &json!(1), &json!(false)));
    let slices = whole["slices"].as_array().unwrap();
    let last = slices.last().unwrap();
    assert_eq!(largest(&whole["slices"], "max"), energy);
    let state = service.get("/api/state").json();
    assert_eq!((&last["threshold"], &last["model"]), (&state["threshold"], &state["model"]));

    let query = format!("from={}&to={}", whole["from"].as_str().unwrap(), whole["to"].as_str().unwrap());
    let csv = service.get(&format!("/api/history.csv?{query}"));
    assert_eq!((csv.status, csv.kind.as_str()), (200, "text/csv; charset=utf-8"));
    assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"camera-history.csv\""));
    assert_eq!(&parsed(&csv.body), slices);
    let csv = service.get(&format!("/api/alarms.csv?{query}"));
    assert_eq!(&parsed(&csv.body), whole["alarms"].as_array().unwrap());
    assert_eq!(alarm_numbers(&whole), [0, 1]);
    assert!(whole["alarms"].as_array().unwrap().iter().all(|alarm| alarm["cleared"].is_string()), "{whole}");

    // Fewer slices are the same frames.
    let few = chart(&service, "from=600&points=1");
    assert!(few["slices"].as_array().unwrap().len() <= 2 && few["seconds"] == 600, "{few}");
    assert_eq!(frames(&few), 9.0);
    // By the camera's name it is the same, and of another time nothing.
    assert_eq!(service.get("/api/cameras/camera/history/interval?from=600").status, 200);
    assert_eq!(frames(&chart(&service, "from=7200&to=3600")), 0.0);
    // As a user sees it.
    let users = Connection::open(file(&place)).unwrap();
    let text = "SELECT sum(count), max(camera), (SELECT count(*) FROM alarms WHERE cleared > time) FROM energies";
    let seen = users.query_row(text, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(seen, (9_i64, "camera".to_owned(), 2_i64));
}

/// Nothing but the last seconds is missing, and the file is whole.
#[test]
fn kills_in_the_middle_of_writing_lose_the_last_seconds_at_most() {
    let place = Place::new();
    let mut safe = 0.0;
    for round in 0..4_u64 {
        let service = start(&place, &[]);
        assert!(!service.started.contains("history"), "{}", service.started);
        let before = frames(&chart(&service, EVER));
        assert!(before >= safe, "round {round}: {safe} frames were scored long before the kill, {before} are there");
        let (begin, mut counts) = (Instant::now(), Vec::new());
        while begin.elapsed() < Duration::from_millis(5000 + 237 * round) {
            show(&service, &place, &format!("{round}-{}", counts.len()), "six");
            counts.push((Instant::now(), scored(&service)));
        }
        let old = counts.iter().filter(|(at, _)| at.elapsed() > Duration::from_secs(4)).map(|(_, count)| *count);
        let scored_long_before = old.fold(0.0, f64::max);
        assert!(scored_long_before > 0.0);
        safe = before + scored_long_before;
        service.kill();
        forget(&place);
    }
    let whole: String =
        Connection::open(file(&place)).unwrap().query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

/// Those that a kill kept from the file come from the journal.
#[test]
fn alarms_that_are_raised_are_those_of_the_history_and_those_delivered() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/alarm", listener.local_addr().unwrap());
    let received = webhook(listener);
    let service = start(&place, &["--webhook", &url]);
    raise(&service, &place, "a", 3);
    let mut raised = service.metric("nae_alarms_total");
    service.kill();
    forget(&place);
    let service = start(&place, &["--webhook", &url]);
    eventually("the killed one's are there", || alarm_numbers(&chart(&service, EVER)).len() as f64 == raised);
    raise(&service, &place, "b", 2);
    raised += service.metric("nae_alarms_total");
    let mut delivered = numbers(&received, raised as u64 - 1);
    delivered.dedup();
    eventually("all are in the history", || alarm_numbers(&chart(&service, EVER)) == delivered);
    assert_eq!(delivered, (0..raised as u64).collect::<Vec<_>>(), "raised {raised}");
    // The journal's own words.
    let of_journal = service.get("/api/alarms").json();
    let whole = chart(&service, EVER);
    for (kept, told) in whole["alarms"].as_array().unwrap().iter().rev().zip(of_journal.as_array().unwrap()) {
        for name in ["id", "number", "energy", "threshold", "model"] {
            assert_eq!(kept[name], told[name], "{name}");
        }
        assert_eq!(kept["time"].as_str().unwrap()[..19], told["time"].as_str().unwrap()[..19]);
    }
    let ends = |service: &Service| {
        let alarms = chart(service, EVER)["alarms"].as_array().unwrap().clone();
        alarms.iter().map(|alarm| alarm["cleared"].is_string()).collect::<Vec<_>>()
    };
    eventually("normal frames took back all of them", || ends(&service) == [true; 5]);
    show(&service, &place, "c1", "checkerboard");
    show(&service, &place, "c2", "checkerboard");
    eventually("one is up", || ends(&service) == [true, true, true, true, true, false]);
    assert_eq!(service.change("/api/pause", "{}").status, 200);
    eventually("a pause clears it", || ends(&service) == [true; 6]);
    assert_eq!(service.change("/api/resume", "{}").status, 200);
    show(&service, &place, "d1", "checkerboard");
    show(&service, &place, "d2", "checkerboard");
    eventually("another is up", || ends(&service) == [true, true, true, true, true, true, false]);
    let corner = r#"{"regions": [{"kind": "ignore", "vertices": [[0, 0], [0.2, 0], [0, 0.2]]}]}"#;
    assert_eq!(service.change("/api/regions", corner).status, 200);
    eventually("other regions clear it", || ends(&service) == [true; 7]);
}

#[test]
fn a_full_disk_stops_the_history_and_neither_scoring_nor_alarms() {
    let place = Place::new();
    // Room for the journal and little more.
    let Some(_disk) = SmallDisk::mount(&place.state()) else { return };
    let log = place.path("alarms.jsonl");
    let arguments = ["--alarm-log", log.to_str().unwrap()];
    let service = start(&place, &arguments);
    raise(&service, &place, "room", 1);
    eventually("it is written", || frames(&chart(&service, EVER)) == 4.0);
    assert_eq!((service.metric("nae_history_writing"), service.metric("nae_history_dropped_total")), (1.0, 0.0));
    let filler = place.state().join("filler");
    assert!(std::fs::write(&filler, vec![1; 8 << 20]).is_err());
    // What room SQLite has taken is used up by and by.
    let mut count = 0;
    eventually("the disk is full", || {
        raise(&service, &place, &format!("full{count}"), 1);
        count += 1;
        service.metric("nae_history_writing") == 0.0
    });
    service.wait_log("history is not written to");
    raise(&service, &place, "more", 2);
    let alarms = 3 + count;
    eventually("all alarms are in the file", || lines(&log).len() == alarms);
    std::fs::remove_file(&filler).unwrap();
    service.wait_log("history is written again");
    // The frame of the last alarm is counted after that.
    let all = scored(&service);
    assert!(all >= 4.0 * alarms as f64, "every frame is scored: {all}");
    eventually("that is in the metrics", || service.metric("nae_history_writing") == 1.0);
    let whole = chart(&service, EVER);
    assert_eq!((frames(&whole), alarm_numbers(&whole)), (all, (0..alarms as u64).collect()), "what waited is written");

    // Full at the start.
    assert!(std::fs::write(&filler, vec![1; 8 << 20]).is_err());
    service.kill();
    forget(&place);
    let service = start(&place, &arguments);
    raise(&service, &place, "again", 1);
    eventually("that alarm, too", || lines(&log).len() == alarms + 1);
    std::fs::remove_file(&filler).unwrap();
    eventually("the history goes on", || alarm_numbers(&chart(&service, EVER)).len() == alarms + 1);
    assert_eq!(service.metric("nae_history_writing"), 1.0);
}

#[test]
fn a_history_that_cannot_be_read_is_set_aside_and_all_goes_on() {
    let place = Place::new();
    std::fs::create_dir(place.state()).unwrap();
    std::fs::write(file(&place), "this is no history of anything".repeat(1000)).unwrap();
    let service = start(&place, &[]);
    assert!(service.started.contains("and a new history begins"), "{}", service.started);
    raise(&service, &place, "a", 1);
    eventually("it is written", || frames(&chart(&service, EVER)) == 4.0);
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    forget(&place);
    Connection::open(file(&place)).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let service = start(&place, &[]);
    assert!(
        service.started.contains("its tables are of version 7, which a newer program wrote"),
        "{}",
        service.started
    );
    raise(&service, &place, "b", 1);
    eventually("it is written", || frames(&chart(&service, EVER)) == 4.0);
    // The journal has both.
    assert_eq!(alarm_numbers(&chart(&service, EVER)), [0, 1]);
    let names =
        std::fs::read_dir(place.state()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("history.sqlite.aside-")).count(), 2);
}

#[test]
fn what_is_asked_of_the_history_has_limits() {
    let place = Place::new();
    let service = start(&place, &[]);
    let injected = "from=1%27);DROP%20TABLE%20energy;--";
    for address in ["/api/history/interval", "/api/history.csv", "/api/alarms.csv"] {
        for wrong in [
            "from=NaN",
            "to=NaN",
            "from=inf",
            "from=-5",
            "from=1e400",
            "from=10&to=20",
            "from=5&to=5",
            "from=today",
            "from=0001-01-01T00:00:00Z",
            "from=0&to=9999-01-01T00:00:00Z",
            "from=-9999-01-01T00:00:00Z",
            "from=%F0%9F",
            injected,
        ] {
            let (status, said) = service.get(&format!("{address}?{wrong}")).problem();
            assert!(
                status == 400 && (said.contains("`from`") || said.contains("`to`")),
                "{address}?{wrong}: {status} {said}"
            );
        }
    }
    for wrong in ["0", "2001", "-1", "1.5", "NaN", "", "99999999999999999999999"] {
        let (status, said) = service.get(&format!("/api/history/interval?points={wrong}")).problem();
        assert!(status == 400 && said.contains("from 1 to 2000"), "{wrong}: {status} {said}");
    }
    assert_eq!(frames(&chart(&service, "from=300000000&points=1")), 0.0, "ten years may be asked for");
    assert_eq!(service.get("/api/cameras/x'%20OR%201=1/history.csv").status, 404);
    drop(service);

    let service = start(&place, &["--history-days", "0"]);
    for address in ["/api/history/interval", "/api/history.csv", "/api/alarms.csv"] {
        let (status, said) = service.get(address).problem();
        assert_eq!((status, said.contains("no history is kept on disk")), (404, true), "{said}");
    }
    assert_eq!((service.get("/api/history").status, service.metric("nae_history_writing")), (200, 0.0));
    drop(service);
    for wrong in ["--history-days=-1", "--history-days=1.5", "--history-megabytes=7", "--history-megabytes=many"] {
        let said = Service::try_start(&model(), &place.state(), &[wrong]).err().unwrap();
        assert!(said.contains("history_") && said.contains("expected"), "{said}");
    }

    let tokens = place.three_tokens();
    let service = start(&place, &tokens.iter().map(String::as_str).collect::<Vec<_>>());
    for address in ["/api/history/interval", "/api/history.csv", "/api/alarms.csv"] {
        let ask = |token| service.get_with(address, &[("authorization", &format!("Bearer {token}"))]).status;
        assert_eq!(["token", "look-token", "score-token", "wrong"].map(ask), [200, 200, 403, 401], "{address}");
    }
}

/// An hour back, a year ahead, and right again, at work and before a start.
#[test]
fn a_clock_that_jumps_loses_no_history() {
    let place = Place::new();
    let Some(clock) = Clock::new(&place) else { return };
    let variables = clock.variables();
    let source = place.source();
    let mut all = 0.0;
    for clocks in [[0, -3600, 0], [31_536_000, -7200, 0]] {
        forget(&place);
        clock.is_wrong_by(clocks[0]);
        let service = Service::start_with(&place.state(), &["--source", &source], &variables);
        for (at, time) in clocks.iter().enumerate() {
            clock.is_wrong_by(*time);
            for frame in 0..5 {
                show(&service, &place, &format!("{at}-{frame}"), "six");
            }
            all += 5.0;
            eventually("they are written", || frames(&chart(&service, EVER)) == all);
        }
        let slices = chart(&service, EVER)["slices"].as_array().unwrap().clone();
        let times: Vec<&str> = slices.iter().map(|slice| slice["time"].as_str().unwrap()).collect();
        assert!(times.windows(2).all(|two| two[0] < two[1]), "{times:?}");
        assert_eq!((service.metric("nae_history_dropped_total"), service.get("/readyz").status), (0.0, 200));
        service.kill();
    }
}

fn milliseconds_ago(seconds: i64) -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64 - 1000 * seconds
}

/// Three weeks of rows as they are then, and alarms some minutes, hours, days and weeks ago.
fn fill(path: &Path) {
    let mut connection = Connection::open(path).unwrap();
    let change = connection.transaction().unwrap();
    change.execute("INSERT INTO model (digest) VALUES ('0a0b0c0d') ON CONFLICT DO NOTHING", ()).unwrap();
    let row = |ago: i64, seconds: i64| {
        let time = milliseconds_ago(ago) / 1000 / seconds * seconds * 1000;
        let text = "INSERT INTO energy SELECT 1, ?1, ?2, model.id, 9, 0.01, 0.02, 0.05, 0.04, 0 FROM model LIMIT 1";
        change.execute(text, (seconds, time)).unwrap();
    };
    (3..21 * 96).rev().for_each(|quarter| row(900 * quarter, 900));
    (5..40).rev().for_each(|minute| row(60 * minute, 60));
    for (number, ago) in [10 * 60, 5 * 3600, 3 * 86_400, 20 * 86_400].into_iter().enumerate() {
        let text = "INSERT INTO alarm SELECT ?1, 1, ?2, ?3, ?3 + 60000, 0.05, 0.04, model.id, 0 FROM model LIMIT 1";
        change.execute(text, (format!("old-{number}"), 100 + number as i64, milliseconds_ago(ago))).unwrap();
    }
    change.commit().unwrap();
}

#[test]
fn the_page_shows_weeks_by_clicks_and_keys() {
    let place = Place::new();
    let service = start(&place, &[]);
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    fill(&file(&place));
    let service = start(&place, &[]);
    let Some(mut page) = Browser::open(&service.url("/")) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    page.widen(1200);
    let marks = "document.querySelectorAll('#history-chart .alarm').length";
    // How wide what is drawn of the energies is, of all of the chart, and whether it can be seen.
    let drawn = "(() => { const m = [...document.querySelectorAll('#history-chart .mean')]; if (!m.length) return 0; \
        const b = m.map(p => p.getBoundingClientRect()); const all = document.querySelector('#history-chart').getBoundingClientRect(); \
        const s = getComputedStyle(m[0]); if (s.stroke === 'none' || s.visibility !== 'visible') return -1; \
        return (Math.max(...b.map(r => r.right)) - Math.min(...b.map(r => r.left))) / all.width; })()";
    let share = |page: &mut Browser| page.value(drawn).as_f64().unwrap_or(-2.0);
    let pressed = "[...document.querySelectorAll('[data-history][aria-pressed=true]')].map(b => b.textContent).join()";
    eventually("a day is shown", || page.value(marks) == 2);
    assert_eq!(page.value(pressed), "Day");
    assert!(share(&mut page) > 0.85, "{}", share(&mut page));
    for (button, name, alarms, least) in
        [("604800", "Week", 3, 0.9), ("2592000", "Month", 4, 0.6), ("3600", "Hour", 1, 0.5), ("86400", "Day", 2, 0.85)]
    {
        page.tap(&format!("[data-history=\"{button}\"]"));
        eventually(name, || page.value(marks) == alarms);
        assert_eq!(page.value(pressed), name);
        eventually(name, || share(&mut page) > least);
    }
    let month_alone =
        |page: &mut Browser| page.value("document.querySelector('#history-chart .alarm title').textContent");
    assert!(month_alone(&mut page).as_str().unwrap().starts_with("Alarm 101, "), "{}", month_alone(&mut page));
    // The day before, and the one after.
    page.tap("#history-earlier");
    eventually("the day before has none", || page.value(marks) == 0);
    assert!(share(&mut page) > 0.85);
    page.tap("#history-later");
    eventually("this day", || page.value(marks) == 2);
    assert_eq!(page.value("document.getElementById('history-later').disabled"), true);
    // By the keys: from the last moment, one back.
    let at = "document.getElementById('history-at').textContent";
    let last = page.value(at);
    page.value("document.getElementById('history-moment').focus()");
    page.key("ArrowLeft");
    eventually("another moment", || page.value(at) != last);
    let said = page.value(at).as_str().unwrap().to_owned();
    assert!(said.contains("frames, energy 0.0100 to 0.0500, mean 0.0200, threshold 0.0400"), "{said}");
    assert_eq!(page.value("document.getElementById('history-moment').getAttribute('aria-valuetext')"), said);
    // What is saved is what is shown.
    let csv = page.value("document.getElementById('history-csv').getAttribute('href')");
    let rows = parsed(&service.get(csv.as_str().unwrap()).body);
    assert_eq!(
        rows.iter().map(|row| row["count"].as_f64().unwrap()).sum::<f64>(),
        frames(&chart(&service, "from=86400"))
    );
    // On a telephone nothing is wider than it.
    page.widen(360);
    let over = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    eventually("it fits", || page.value(over) == 0);
    eventually("it is drawn again", || {
        page.value("document.getElementById('history-chart').getAttribute('viewBox')").as_str().is_some_and(|box_| {
            box_.split(' ').nth(2).and_then(|width| width.parse::<f64>().ok()).is_some_and(|width| width < 360.0)
        })
    });
    drop(service);

    let service = start(&place, &["--history-megabytes", "0"]);
    page.value(&format!("location.href = '{}'", service.url("/")));
    page.wait_text("history-note", "no history is kept on disk: `history_days` or `history_megabytes` is 0");
    assert_eq!(page.value("document.getElementById('history-shown').hidden"), true);
}
