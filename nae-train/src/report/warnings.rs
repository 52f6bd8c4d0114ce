//! Warnings that affect how far a run's model can be trusted. Warnings about the data itself are in
//! [`Collection::warnings`](nae_data::own::Collection::warnings).

use burn::module::Module as _;
use nae_core::energy::Energy;

use crate::config::methods::MethodKind;
use crate::energy::{distance, mean as mean_energy};
use crate::eval::table::{NEIGHBOURS_COLUMN, Row, Table};
use crate::methods::Networks;
use crate::run::Prepared;
use crate::tensors::Batches as _;
use crate::train::Outcome;
use nae_data::{ImageSet, Repeated, Split};

/// With fewer normal images or rows, figures and thresholds are inaccurate.
pub(crate) const FEW_IMAGES: usize = 200;

/// The largest share of copies of training data that changes thresholds and figures little.
const COPIES: f64 = 0.02;

/// All warnings of a finished run, one sentence each, starting with those on its data.
pub fn warnings(prepared: &Prepared, outcome: &Outcome, table: &Table) -> Vec<String> {
    let mut warnings = prepared.warnings.clone();
    let split = &prepared.split;
    let parts = [&split.train, &split.validation, &split.calibration, &split.test];
    let images = parts.iter().map(|part| part.decisions()).sum();
    warnings.extend(too_few(images, prepared.config.source().samples()));
    warnings.extend(copies(split, prepared.config.source().samples()));
    let failed = no_better_than_the_mean(prepared, outcome, table);
    warnings.extend(failed.map(|warning| warning + "; give it more time, or try another --seed"));
    if outcome.autoencoder.is_some() {
        if outcome.kept_update == 0 {
            warnings.push(
                "NAE training did not improve the model and was discarded: the model is the plain autoencoder"
                    .to_owned(),
            );
        } else {
            warnings.extend(no_better(table));
        }
    }
    warnings.extend(neighbours_better(table, prepared.config.method()));
    warnings
}

/// Warns if the autoencoder reconstructs normal test images no better than the mean image does, so that the results are not those
/// of the method.
pub fn no_better_than_the_mean(prepared: &Prepared, outcome: &Outcome, table: &Table) -> Option<String> {
    let (split, config) = (&prepared.split, &prepared.config);
    let reached = reconstruction_error(prepared, outcome, table)?;
    learnt_nothing(&split.test, &split.train.mean(), config.architecture().energy(), reached, config.source().samples())
}

/// The number of test images whose reconstruction error stands for all.
const RECONSTRUCTED: usize = 500;

/// The mean reconstruction error of normal test images: of the autoencoder, if the method has one that is trained first or
/// within. `None` for other scores, and for distances, since normal data may be as far from each other as from their mean.
fn reconstruction_error(prepared: &Prepared, outcome: &Outcome, table: &Table) -> Option<f64> {
    let (method, test) = (prepared.config.method(), &prepared.split.test);
    match outcome.model.networks() {
        _ if method.is_fitted() => None,
        Some(Networks::Reconstruction { .. }) => {
            let first = if outcome.autoencoder.is_some() { MethodKind::Ae } else { method };
            table.normal_energy.get(&format!("{}_energy", first.column())).copied().flatten()
        }
        // A generator whose images are all black gives small distances of latents.
        Some(Networks::Latents { autoencoder, .. }) => {
            let autoencoder = autoencoder.valid();
            let x = test.batch(&test.evenly(RECONSTRUCTED), &autoencoder.devices().remove(0));
            let errors = distance(autoencoder.energy(), x.clone(), autoencoder.reconstruct(x)).into_data();
            Some(mean_energy(&errors.iter::<f32>().collect::<Vec<_>>()))
        }
        _ => None,
    }
}

/// If each of the training data occurs so often on average, copies are in the nature of the data.
const FEW_OF_EACH: usize = 10;

fn too_few(images: usize, noun: &str) -> Option<String> {
    (images < FEW_IMAGES).then(|| {
        format!("{images} normal {noun} are few: with {FEW_IMAGES} or more, the figures and the threshold mean more")
    })
}

/// Warns if a part that should be new to the model repeats much of the training data.
fn copies(split: &Split, noun: &str) -> Option<String> {
    let Repeated { calibration, test } = split.repeated();
    let units = |part: &ImageSet| part.units().len();
    let parts = [("calibration", calibration, units(&split.calibration)), ("test", test, units(&split.test))];
    if parts.iter().all(|&(_, repeated, all)| repeated as f64 <= COPIES * all as f64) {
        return None;
    }
    // Units of windows are stretches of them.
    let noun = if split.train.are_windows() { "stretches" } else { noun };
    let found = parts.iter().filter(|(_, repeated, _)| *repeated > 0);
    let said: Vec<_> = found.map(|(part, repeated, all)| format!("{repeated} of {all} {part} {noun}")).collect();
    let said = format!("{} are copies of training {noun}, value for value", said.join(" and "));
    // Columns of few categories have few combinations, and nobody could remove the copies.
    let (different, all) = (split.different(), units(&split.train));
    if different * FEW_OF_EACH <= all {
        return Some(format!(
            "{said}: the {all} training {noun} have {different} different values. The model can hardly do more than find {noun} of \
             other values"
        ));
    }
    let effect = match (calibration, test) {
        (0, _) => "the figures are too good".to_owned(),
        (_, 0) => format!("the threshold is too low for new {noun}"),
        _ => format!("the threshold is too low for new {noun} and the figures are too good"),
    };
    Some(format!("{said}: the model knows them, so that {effect}; remove the copies"))
}

/// Warns if `reached`, the mean energy of the normal images of `test`, is not below the energy with `mean` as the
/// reconstruction of each. The samples are called `noun`.
fn learnt_nothing(test: &ImageSet, mean: &[f32], energy: Energy, reached: f64, noun: &str) -> Option<String> {
    let constant = (0..test.len()).map(|index| energy.evaluate(test.image(index), mean, test.shape()));
    let constant = mean_energy(&test.decide(constant.collect::<Result<_, _>>().ok()?));
    (reached >= constant).then(|| {
        format!(
            "the autoencoder reconstructs normal test {noun} no better than their mean does (energy {reached:.4} against \
             {constant:.4}): its training failed or was too short"
        )
    })
}

fn no_better(table: &Table) -> Option<String> {
    let rows = judging(table);
    let (before, after) = (mean(&rows, MethodKind::Ae.column())?, mean(&rows, MethodKind::Nae.column())?);
    // Where both detect everything, none can be better.
    let room = 1.0 - before >= CLEAR || before - after >= CLEAR;
    (after <= before && room).then(|| {
        format!(
            "the NAE does no better than the plain autoencoder on {}: AUROC {after:.3} against {before:.3}",
            names(&rows)
        )
    })
}

/// The least difference of two AUROCs that gives a warning: with some hundred samples, smaller ones are due to chance.
const CLEAR: f64 = 0.01;

/// Warns if nearest neighbours, which need no training, detect outliers clearly better than the model of `method`.
fn neighbours_better(table: &Table, method: MethodKind) -> Option<String> {
    let rows = judging(table);
    let (model, neighbours) = (mean(&rows, method.column())?, mean(&rows, NEIGHBOURS_COLUMN)?);
    let better: Vec<&Row> = rows.iter().copied().filter(|row| is_clear(row, method.column())).collect();
    (neighbours >= model + CLEAR && !better.is_empty()).then(|| {
        format!(
            "nearest neighbours detect {} better than the model ({}) does: AUROC {neighbours:.3} against {model:.3} on average. Where \
             there is room for the data that they remember and time to search them, they are the better choice: --method knn makes a \
             similar model",
            names(&better),
            method.title(),
        )
    })
}

/// Whether nearest neighbours detect the set of `row` better than the model in `column`, by more than the choice of test samples
/// explains.
fn is_clear(row: &Row, column: &str) -> bool {
    let auroc = |column: &str| row.auroc.get(column).copied().flatten();
    let Some((model, neighbours)) = auroc(column).zip(auroc(NEIGHBOURS_COLUMN)) else { return false };
    let interval = row.figures.get(column).and_then(|figures| figures.auroc.interval);
    neighbours >= model + CLEAR && interval.is_none_or(|interval| neighbours > interval.high)
}

/// The sets that models are compared on, without the selection set: the user's sets if there are any, otherwise all.
fn judging(table: &Table) -> Vec<&Row> {
    let rows: Vec<&Row> = table.rows.iter().filter(|row| !row.selection).collect();
    let given: Vec<&Row> = rows.iter().copied().filter(|row| row.given).collect();
    if given.is_empty() { rows } else { given }
}

/// The mean AUROC of a column; `None` if it is missing in a row.
fn mean(rows: &[&Row], column: &str) -> Option<f64> {
    let figures: Vec<f64> = rows.iter().map(|row| row.auroc.get(column).copied().flatten()).collect::<Option<_>>()?;
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}

fn names(rows: &[&Row]) -> String {
    let names: Vec<&str> = rows.iter().map(|row| row.outliers.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::interval::Interval;
    use crate::eval::table::{DetectionFigures, Figure};

    fn row(outliers: &str, given: bool, selection: bool, before: f64, after: f64) -> Row {
        let auroc = [("autoencoder".to_owned(), Some(before)), ("nae".to_owned(), Some(after))].into();
        Row {
            outliers: outliers.to_owned(),
            count: 3,
            selection,
            given,
            figures: std::collections::BTreeMap::new(),
            auroc,
        }
    }

    fn table(rows: Vec<Row>) -> Table {
        Table {
            columns: Vec::new(),
            samples: "images",
            normal_count: 3,
            no_intervals: None,
            normal_energy: Default::default(),
            rows,
        }
    }

    #[test]
    fn outliers_given_decide_and_the_selection_set_never_does() {
        let synthetic = || vec![row("noise", false, false, 0.9, 1.0), row("gray", false, true, 1.0, 0.1)];
        assert_eq!(no_better(&table(synthetic())), None);
        let mut rows = synthetic();
        rows.push(row("scratches", true, false, 0.8, 0.7));
        let warning = no_better(&table(rows)).expect("worse");
        assert!(warning.contains("scratches: AUROC 0.700 against 0.800"), "{warning}");
        assert!(no_better(&table(vec![row("noise", false, false, 0.9, 0.9)])).is_some());
        assert_eq!(no_better(&table(Vec::new())), None);
        assert_eq!(no_better(&table(vec![row("noise", false, false, 1.0, 0.995)])), None, "none can be better");
        assert!(no_better(&table(vec![row("noise", false, false, 1.0, 0.98)])).is_some());
    }

    #[test]
    fn nearest_neighbours_that_do_better_are_named() {
        let with_neighbours = |nae: f64, neighbours: f64| {
            let mut row = row("faults", true, false, 0.5, nae);
            row.auroc.insert(NEIGHBOURS_COLUMN.to_owned(), Some(neighbours));
            // Synthetic outliers do not count if the user has given some.
            let mut noise = super::tests::row("noise", false, false, 0.5, 1.0);
            noise.auroc.insert(NEIGHBOURS_COLUMN.to_owned(), Some(1.0));
            table(vec![row, noise])
        };
        let warning = neighbours_better(&with_neighbours(0.8, 0.9), MethodKind::Nae).expect("better");
        assert!(
            warning.contains("detect faults better than the model (NAE) does: AUROC 0.900 against 0.800"),
            "{warning}"
        );
        assert!(warning.contains("--method knn makes a similar model"), "{warning}");
        assert_eq!(neighbours_better(&with_neighbours(0.9, 0.905), MethodKind::Nae), None);
        // Of several sets, those that are detected better.
        let mut several = with_neighbours(0.8, 0.9);
        several
            .rows
            .extend(with_neighbours(1.0, 1.0).rows.into_iter().map(|row| Row { outliers: "spots".into(), ..row }));
        let warning = neighbours_better(&several, MethodKind::Nae).expect("better");
        assert!(warning.contains("detect faults better") && warning.contains("0.950 against 0.900"), "{warning}");
        // A difference that the choice of test images explains is none.
        let within = |high| {
            let auroc = Figure { value: 0.8, interval: Some(Interval { low: 0.7, high }) };
            let figures = DetectionFigures { auroc, aupr: auroc, fpr95: auroc };
            let mut table = with_neighbours(0.8, 0.9);
            table.rows[0].figures.insert(MethodKind::Nae.column().to_owned(), figures);
            neighbours_better(&table, MethodKind::Nae).is_some()
        };
        assert!(within(0.89) && !within(0.91));
        assert_eq!(neighbours_better(&table(vec![row("faults", true, false, 0.5, 0.1)]), MethodKind::Nae), None);
    }

    #[test]
    fn an_autoencoder_as_good_as_the_mean_image_has_learnt_nothing() {
        let test =
            ImageSet::new(nae_core::Shape::new(1, 1, 2), vec![0.0, 1.0, 1.0, 1.0], vec![0, 0]).expect("an image set");
        // The energies relative to the mean are 0 and 1/2.
        let said = |reached| learnt_nothing(&test, &[0.0, 1.0], Energy::SquaredL2, reached, "windows");
        assert_eq!(said(0.24), None);
        let warning = said(0.25).expect("no better");
        assert!(warning.contains("test windows no better") && warning.contains("0.2500 against 0.2500"), "{warning}");
    }

    #[test]
    fn few_images_are_said_to_be_few() {
        assert_eq!(too_few(200, "images"), None);
        assert!(too_few(199, "rows").expect("few").contains("199 normal rows"));
    }

    #[test]
    fn copies_of_training_data_are_counted() {
        let set = |values: &[f32]| {
            ImageSet::new(nae_core::Shape::new(1, 1, 1), values.to_vec(), vec![0; values.len()]).expect("an image set")
        };
        let new: Vec<f32> = (0..99).map(|n| 0.5 + n as f32 / 1000.0).collect();
        let trained_on = |train: &[f32], old: &[f32]| {
            let calibration = set(&[old, &new[old.len()..]].concat());
            let (train, validation, test, held_out) = (set(train), set(&[0.1]), set(&[0.4]), set(&[0.1]));
            copies(&Split { train, validation, calibration, test, held_out, selection: None }, "images")
        };
        let with = |old: &[f32]| trained_on(&[0.1, 0.2, 0.3], old);
        assert_eq!(with(&[0.1]), None, "1% of the images");
        let warning = with(&[0.1, 0.3]).expect("2% are too many");
        assert!(warning.starts_with("2 of 99 calibration images are copies of training images"), "{warning}");
        assert!(warning.ends_with("the threshold is too low for new images; remove the copies"), "{warning}");
        let warning = trained_on(&[0.1, 0.2, 0.4], &[]).expect("all of the test");
        assert!(warning.starts_with("1 of 1 test images are copies"), "{warning}");
        assert!(warning.contains("so that the figures are too good; remove"), "{warning}");
        // As of columns of few categories: removed, hardly a row would be left.
        let warning = trained_on(&[[0.1; 10], [0.3; 10]].concat(), &[0.1, 0.3]).expect("2% are too many");
        assert!(warning.contains("the 20 training images have 2 different values"), "{warning}");
    }
}
