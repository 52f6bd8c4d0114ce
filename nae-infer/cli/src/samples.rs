//! The samples that a model takes from a file, for `score` and `calibrate`: images, rows of a table, or windows of its rows.

use std::path::Path;

use nae_infer::Detector;
use nae_infer::input::table::{Table, TableError};
use nae_infer::input::window::Prepared;
use nae_infer::input::{InputError, Named, Pixels, parse, path_name, table};
use nae_onnx::metadata::{Columns, RowWindow};

use crate::inputs::content;
use crate::output::about;

/// What is found in a file.
pub(crate) enum Found {
    /// A sample and its name: that of the file, with the number of an image, the line of a row, or the lines of a window.
    Sample(String, Sample),
    /// Why a sample cannot be used.
    Unusable(anyhow::Error),
    /// Why the file cannot be read.
    Unread(anyhow::Error),
    /// What is unusual in a file that can be read.
    Note(String),
}

pub(crate) enum Sample {
    /// The network's input, to be scored in a batch with others.
    Values(Vec<f32>),
    /// An image that is cut into tiles, a batch by themselves.
    Tiled(Pixels),
}

/// Calls `take` with all that is found in a file.
///
/// # Errors
/// The first error of `take`, which ends the reading.
pub(crate) fn read<E>(detector: &Detector, path: &Path, take: &mut dyn FnMut(Found) -> Result<(), E>) -> Result<(), E> {
    if let Some(columns) = &detector.settings().columns {
        return match content(path).map_err(TableError::from).and_then(|bytes| table::parse(path, &bytes)) {
            Ok(table) => samples(detector, &table, columns, take),
            Err(error) => take(Found::Unread(error.into())),
        };
    }
    match content(path).map_err(InputError::from).and_then(|bytes| parse(path, &bytes)) {
        Ok(images) => images.into_iter().try_for_each(|image| take(prepared(detector, image))),
        Err(error) => take(Found::Unread(error.into())),
    }
}

fn prepared(detector: &Detector, Named { name, pixels }: Named) -> Found {
    if detector.settings().tiles.is_some() {
        return Found::Sample(name, Sample::Tiled(pixels));
    }
    match detector.settings().prepare(&pixels) {
        Ok(values) => Found::Sample(name, Sample::Values(values)),
        Err(error) => Found::Unusable(about(&name, &error)),
    }
}

/// The rows of a table, or its windows if the model takes windows.
fn samples<E>(
    detector: &Detector,
    table: &Table,
    columns: &Columns,
    take: &mut dyn FnMut(Found) -> Result<(), E>,
) -> Result<(), E> {
    let path = path_name(table.path());
    // These lines may hide rows.
    if let Some(line_breaks) = table.line_breaks() {
        take(Found::Note(format!("{path}: {line_breaks}")))?;
    }
    let found: Result<Box<dyn Iterator<Item = Found> + '_>, TableError> = match detector.settings().window {
        None => rows(&path, table, columns).map(|rows| Box::new(rows) as _),
        Some(window) => windows(&path, table, columns, window).map(|windows| Box::new(windows) as _),
    };
    match found {
        Ok(mut found) => found.try_for_each(take),
        Err(error) => take(Found::Unread(error.into())),
    }
}

fn rows<'a>(
    path: &'a str,
    table: &'a Table,
    columns: &'a Columns,
) -> Result<impl Iterator<Item = Found> + 'a, TableError> {
    let positions = table.positions(columns)?;
    Ok(table.rows().iter().map(move |row| {
        let name = format!("{path}:{}", row.line);
        match row.prepare(&positions, columns) {
            Ok(values) => Found::Sample(name, Sample::Values(values)),
            Err(error) => Found::Unusable(about(&name, &error)),
        }
    }))
}

fn windows<'a>(
    path: &'a str,
    table: &'a Table,
    columns: &'a Columns,
    window: RowWindow,
) -> Result<impl Iterator<Item = Found> + 'a, TableError> {
    let windows = table.windows(columns, window)?;
    Ok(windows.map(move |Prepared { first, last, values }| match values {
        Ok(values) => Found::Sample(format!("{path}:{first}-{last}"), Sample::Values(values)),
        Err((line, error)) => {
            let left_out = format!("{error}; the window {first}-{last} is left out");
            Found::Unusable(about(&format!("{path}:{line}"), &left_out))
        }
    }))
}
