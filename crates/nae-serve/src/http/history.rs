//! The history on disk over HTTP: the chart of an interval, and all data of an interval as CSV, sent while it is read.
//! Parameters are checked here; a client that is slow to take a download occupies neither a thread nor the file.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;

use super::super::Service;
use super::super::camera::Camera;
use super::super::history_file::{self, Past, Span};
use super::asked::OfAddress;
use super::{Problem, in_turn, json, query};

/// The longest interval, in milliseconds: ten years.
const LONGEST: i64 = 3660 * 86_400_000;
/// The default number of slices of a chart, and the maximum.
const POINTS: u64 = 600;
const MOST_POINTS: u64 = 2000;
/// The default length of an interval, in milliseconds.
const USUAL: i64 = 3_600_000;
/// The number of pieces of a download that may wait, and how long a client may take for one.
const PIECES: usize = 2;
const PATIENCE: Duration = Duration::from_secs(30);

fn wrong(reason: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, reason)
}

/// Parses a time, RFC 3339 or seconds before now, to milliseconds of Unix time.
fn time(text: Option<&str>, name: &str, now: i64) -> Result<Option<i64>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let text = percent_decode_str(text).decode_utf8_lossy();
    let ago = |seconds: &f64| (0.0..=LONGEST as f64 / 1000.0).contains(seconds);
    let before = text.parse().ok().filter(ago).map(|seconds: f64| now - (1000.0 * seconds).round() as i64);
    let at = || text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    before.or_else(at).map(Some).ok_or_else(|| {
        wrong(format!(
            "`{name}`: expected a time such as 2026-09-07T07:00:00Z, or seconds before now up to {}, found `{text}`",
            LONGEST / 1000
        ))
    })
}

/// `?from=`, `&to=`: the default is the last hour.
fn span(text: Option<&str>, now: i64) -> Result<Span, Problem> {
    let given = time(query(text, "to"), "to", now)?;
    // Includes data of this very moment, which do not count for the length.
    let to = given.unwrap_or(now + 1);
    let from = time(query(text, "from"), "from", now)?.unwrap_or(to - USUAL);
    if from >= to {
        return Err(wrong("`from` has to be before `to`".to_owned()));
    }
    if given.unwrap_or(now) - from > LONGEST {
        return Err(wrong(format!("`from` and `to` are more than {} days apart", LONGEST / 86_400_000)));
    }
    Ok(Span { from, to })
}

/// Queries the file of a camera, in turn and on a separate thread, so that other requests are not delayed.
async fn ask<T: Send + 'static>(
    service: Arc<Service>,
    camera: Arc<Camera>,
    question: impl FnOnce(&Past) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    if !service.history.is_kept() {
        let reason = "no history is kept on disk: `history_days` or `history_megabytes` is 0";
        return Err(Problem::new(StatusCode::NOT_FOUND, reason));
    }
    let failed = |error| {
        let reason = format!("the history cannot be read now: {error}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    };
    let places = Arc::clone(&service.history.places);
    let answered = move || service.history.past(camera.config.name.as_str()).and_then(|past| question(&past));
    in_turn(&places, answered).await?.map_err(failed)
}

/// `?from=`, `&to=`, `&points=`: the data of a chart.
pub(super) async fn interval(
    State(service): State<Arc<Service>>,
    OfAddress(camera): OfAddress,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    let span = span(text.as_deref(), history_file::now())?;
    let points =
        match query(text.as_deref(), "points") {
            None => POINTS,
            Some(found) => found.parse().ok().filter(|points| (1..=MOST_POINTS).contains(points)).ok_or_else(|| {
                wrong(format!("`points`: expected a number from 1 to {MOST_POINTS}, found `{found}`"))
            })?,
        };
    let chart = ask(service, camera, move |past| past.chart(span, points)).await?;
    Ok(json(StatusCode::OK, &chart))
}

/// `?from=`, `&to=`: energies as CSV.
pub(super) async fn csv(
    State(service): State<Arc<Service>>,
    OfAddress(camera): OfAddress,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    let read = |past: &Past, span| {
        let Some((rows, left)) = past.piece(span)? else { return Ok(None) };
        let mut lines = String::with_capacity(80 * rows.len());
        for row in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(
                lines,
                "{},{},{},{},{},{},{},{},{}",
                history_file::text(row.time),
                row.seconds,
                row.count,
                row.min,
                row.mean,
                row.max,
                field(row.threshold),
                row.model,
                row.night
            );
        }
        Ok(Some((lines, left)))
    };
    download(
        service,
        camera,
        text.as_deref(),
        "history",
        "time,seconds,count,min,mean,max,threshold,model,night\n",
        read,
    )
    .await
}

/// `?from=`, `&to=`: alarms as CSV.
pub(super) async fn alarms_csv(
    State(service): State<Arc<Service>>,
    OfAddress(camera): OfAddress,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    let read = |past: &Past, span| {
        let Some((alarms, left)) = past.piece_of_alarms(span)? else { return Ok(None) };
        let mut lines = String::with_capacity(120 * alarms.len());
        for alarm in alarms {
            let _ = writeln!(
                lines,
                "{},{},{},{},{},{},{},{}",
                history_file::text(alarm.time),
                field(alarm.cleared.map(history_file::text)),
                alarm.number,
                alarm.id,
                alarm.energy,
                field(alarm.threshold),
                alarm.model,
                alarm.night
            );
        }
        Ok(Some((lines, left)))
    };
    download(service, camera, text.as_deref(), "alarms", "time,cleared,number,id,energy,threshold,model,night\n", read)
        .await
}

/// A field of CSV; empty for `None`.
fn field(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The lines of a piece of an interval, and the rest of it; `None` if nothing is left.
type Piece = rusqlite::Result<Option<(String, Span)>>;

async fn download(
    service: Arc<Service>,
    camera: Arc<Camera>,
    text: Option<&str>,
    name: &str,
    head: &'static str,
    read: fn(&Past, Span) -> Piece,
) -> Result<Response, Problem> {
    let span = span(text, history_file::now())?;
    // An error in the first piece can still be reported as the status of the answer.
    let first = ask(Arc::clone(&service), Arc::clone(&camera), move |past| read(past, span)).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}-{name}.csv\"", camera.config.name)),
    ];
    let (sender, pieces) = channel(PIECES);
    tokio::spawn(async move {
        let mut next = Some((head.to_owned(), first));
        while let Some((lines, left)) = next {
            if send(&sender, Ok(lines)).await.is_err() {
                return;
            }
            next = match left {
                None => None,
                Some((lines, span)) => {
                    let asked = ask(Arc::clone(&service), Arc::clone(&camera), move |past| read(past, span)).await;
                    match asked {
                        Ok(left) => Some((lines, left)),
                        Err(Problem(_, reason)) => {
                            // Lets the client see that the download is incomplete.
                            let _ = send(&sender, Err(std::io::Error::other(reason))).await;
                            return;
                        }
                    }
                }
            };
        }
    });
    Ok((headers, Body::from_stream(ReceiverStream::new(pieces))).into_response())
}

/// Sends a piece to the client; an error if the client does not take it.
async fn send(sender: &Sender<std::io::Result<Bytes>>, piece: std::io::Result<String>) -> Result<(), ()> {
    let sent = tokio::time::timeout(PATIENCE, sender.send(piece.map(Bytes::from))).await;
    sent.map_err(drop)?.map_err(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const NOW: i64 = 1_788_750_000_000;

    #[test]
    fn an_interval_is_times_or_seconds_ago() {
        let asked = |text: &str| {
            let span = span(Some(text), NOW).unwrap();
            (NOW - span.from, NOW - span.to)
        };
        assert_eq!(asked(""), (USUAL - 1, -1));
        assert_eq!(asked("from=86400"), (86_400_000, -1));
        assert_eq!(asked("from=20.5&to=10"), (20_500, 10_000));
        assert_eq!(asked("to=0&from=1e3"), (1_000_000, 0));
        // The longest that is permitted.
        assert_eq!(asked("from=316224000"), (LONGEST, -1));
        assert_eq!(asked("from=316224000&to=0"), (LONGEST, 0));
        // NOW is 2026-09-07T03:00:00Z.
        assert_eq!(asked("from=2026-09-07T02:59:00Z&to=2026-09-07T02:59:30.250Z"), (60_000, 29_750));
        assert_eq!(asked("from=2026-09-07T04%3A59%3A00%2B02%3A00&to=0"), (60_000, 0));
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        for text in [
            "from=NaN",
            "from=inf",
            "from=-1",
            "from=1e300",
            "to=-inf",
            "from=",
            "to=tomorrow",
            "from=10&to=10",
            "from=10&to=20",
            "from=316224000.001",
            "from=316224000&to=2026-09-07T03:00:00.001Z",
            "from=2026-09-07T04:00:00Z&to=2026-09-07T03:00:00Z",
            "from=1900-01-01T00:00:00Z",
            "to=9999-12-30T00:00:00Z&from=0",
            "from=-009999-01-02T01:59:59Z&to=0",
            "from=%00",
            "from=%ff",
            "from=1'%20OR%201=1--",
        ] {
            let Problem(status, reason) = span(Some(text), NOW).unwrap_err();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
            assert!(reason.contains("`from`") || reason.contains("`to`"), "{text}: {reason}");
        }
    }
}
