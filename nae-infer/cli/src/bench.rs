//! `nae-infer bench`: the time and memory of a model on this machine, by backend. Each backend is measured
//! in a separate process, so that start-up and memory are its own.

use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use nae_infer::backend::BackendError;
use nae_infer::{BackendKind, Detector};
use serde::{Deserialize, Serialize};

use crate::arguments::{Bench, runtime};
use crate::output::{printable, unless_closed};

/// The number of images in a large batch.
const BATCH: usize = 32;

/// The measurements of a backend.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    backend: String,
    /// The time from the start to a detector that has scored an image, in seconds.
    start_up: f64,
    /// The latency of one image at a time, in seconds.
    latency_median: f64,
    latency_p99: f64,
    /// Images per second, one at a time; the next field: 32 at a time.
    throughput: f64,
    throughput_32: f64,
    /// The peak memory of the process, in bytes; `None` if the system does not report it.
    memory: Option<u64>,
}

/// The result of a backend: its measurements, or the reason why there are none.
#[derive(Serialize)]
#[serde(untagged)]
enum Line {
    Measured(Measured),
    Failed { backend: String, error: String },
}

pub(crate) fn run(arguments: &Bench) -> anyhow::Result<ExitCode> {
    runtime(arguments.backend.as_deref(), &arguments.execution_provider)?;
    if let (true, Some(kind)) = (arguments.alone, arguments.backend.as_deref().and_then(BackendKind::from_name)) {
        writeln!(io::stdout(), "{}", serde_json::to_string(&measure(arguments, kind)?)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(kind) = arguments.backend.as_deref().and_then(BackendKind::from_name).filter(|kind| !kind.is_built_in())
    {
        return Err(BackendError::NotBuiltIn(kind).into());
    }
    let wanted = |kind: &BackendKind| arguments.backend.as_deref().is_none_or(|name| name == kind.name());
    let kinds = BackendKind::ALL.into_iter().filter(|kind| wanted(kind) && kind.is_built_in());
    let lines = kinds.map(|kind| in_a_process(arguments, kind)).collect::<anyhow::Result<Vec<Line>>>()?;
    unless_closed(print(arguments, &lines))?;
    let failed = lines.iter().all(|line| matches!(line, Line::Failed { .. }));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(arguments: &Bench, lines: &[Line]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        for line in lines {
            writeln!(out, "{}", serde_json::to_string(line)?)?;
        }
    } else {
        let image = Detector::open(&arguments.model)?.contract().input;
        let plural = if arguments.threads.get() == 1 { "" } else { "s" };
        writeln!(out, "images of {image} (CxHxW), {} thread{plural}", arguments.threads)?;
        writeln!(out, "{}", table(lines))?;
    }
    Ok(())
}

/// Runs this program again for one backend.
fn in_a_process(arguments: &Bench, kind: BackendKind) -> anyhow::Result<Line> {
    let providers = arguments.execution_provider.iter().filter(|_| kind == BackendKind::Ort);
    let providers = providers.flat_map(|name| ["--execution-provider", name.as_str()]);
    let output = Command::new(std::env::current_exe().context("cannot find this program")?)
        .args(["bench", "--alone", "--backend", kind.name()])
        .args(providers)
        .args(["--seconds", &arguments.seconds.to_string(), "--threads", &arguments.threads.to_string()])
        // The model's name may begin as a flag does.
        .arg("--")
        .arg(&arguments.model)
        .output()
        .context("cannot start this program again")?;
    let backend = kind.name().to_owned();
    if output.status.success() {
        Ok(Line::Measured(serde_json::from_slice(&output.stdout).context("cannot read what it measured")?))
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Ok(Line::Failed { backend, error: said.trim().trim_start_matches("error: ").to_owned() })
    }
}

fn measure(arguments: &Bench, kind: BackendKind) -> anyhow::Result<Measured> {
    let threads = arguments.threads.get();
    let started = Instant::now();
    let (backend, providers) = runtime(Some(kind.name()), &arguments.execution_provider)?;
    let builder = Detector::builder().backend(backend).execution_providers(providers);
    let detector = builder.threads(threads).open(&arguments.model)?;
    let length = detector.contract().input.len();
    // Various grey levels; the time does not depend on them.
    let (low, high) = (detector.contract().preprocessing.low(), detector.contract().preprocessing.high());
    let batch: Vec<f32> = (0..BATCH * length).map(|i| low + (high - low) * ((i * 37 % 101) as f32 / 100.0)).collect();
    let one = &batch[..length];
    detector.score_prepared(one)?;
    let start_up = started.elapsed().as_secs_f64();

    let span = Duration::from_secs_f64(arguments.seconds);
    let time = |images: &[f32]| -> anyhow::Result<Vec<f64>> {
        let (end, mut times) = (Instant::now() + span, Vec::new());
        while Instant::now() < end || times.is_empty() {
            let begun = Instant::now();
            detector.score_prepared(images)?;
            times.push(begun.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    };
    let ones = time(one)?;
    let many = time(&batch)?;
    let at = |share: f64| ones[((ones.len() - 1) as f64 * share).round() as usize];
    let rate = |times: &[f64], images: usize| (times.len() * images) as f64 / times.iter().sum::<f64>();
    Ok(Measured {
        backend: kind.name().to_owned(),
        start_up,
        latency_median: at(0.5),
        latency_p99: at(0.99),
        throughput: rate(&ones, 1),
        throughput_32: rate(&many, BATCH),
        memory: most_memory(),
    })
}

/// The peak memory of this process, as Linux reports it.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The table, and below it the reasons of the backends that cannot run the model.
fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "backend",
        "start-up",
        "latency",
        "99th percentile",
        "images/s",
        "of 32 at once",
        "memory",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut reasons = String::new();
    for line in lines {
        match line {
            Line::Measured(m) => table.add_row([
                m.backend.clone(),
                format!("{:.0} ms", 1e3 * m.start_up),
                format!("{:.3} ms", 1e3 * m.latency_median),
                format!("{:.3} ms", 1e3 * m.latency_p99),
                format!("{:.0}", m.throughput),
                format!("{:.0}", m.throughput_32),
                m.memory.map_or_else(|| "-".into(), |bytes| format!("{} MiB", bytes >> 20)),
            ]),
            Line::Failed { backend, error } => {
                reasons += &format!("\n{backend}: {}", printable(error));
                table.add_row([backend.as_str(), "-", "-", "-", "-", "-", "-"])
            }
        };
    }
    table.trim_fmt() + &reasons
}
