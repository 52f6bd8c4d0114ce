//! The results, compared with those of the paper.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use serde::Serialize;
use serde_json::{Value, json};

use super::search::{Tried, chosen};
use super::settings::{Cell, Published};
use super::{Experiment, Finished};
use crate::compare::Estimate;
use crate::experiments::origin;
use nae_train::config::{MethodKind, TableColumn};
use nae_train::eval::FOOTNOTE;

/// One outlier set for the models of one cell; in a search, for those of the selected candidates.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the cell.
    pub cell: String,
    /// The name of the outlier set.
    pub outliers: String,
    /// Whether training may use the set for selection.
    pub selection: bool,
    /// The number of seeds; 0 if the cell, or one of its candidates, was not run.
    pub seeds: usize,
    /// The number of seeds whose negative energies diverged, and whose earlier state was kept.
    pub diverged: usize,
    /// The numbers of the method, by the keys of their columns; for an NAE, also those of the autoencoder from
    /// which it started.
    #[serde(flatten)]
    pub values: BTreeMap<&'static str, Compared>,
}

/// The mean over cells that differ by the class held out, such as the ten digits of table 1.
#[derive(Clone, Debug, Serialize)]
pub struct Average {
    /// The common part of the cells' names.
    pub cells: String,
    /// The number of cells.
    pub count: usize,
    /// The means, by the keys of their columns.
    #[serde(flatten)]
    pub values: BTreeMap<&'static str, Compared>,
    #[serde(skip)]
    method: MethodKind,
}

/// The columns of a run of `method`, in the order of its table.
pub(super) fn columns(method: MethodKind) -> impl Iterator<Item = TableColumn> {
    let before = (method == MethodKind::Nae).then(|| MethodKind::Ae.columns());
    before.into_iter().chain([method.columns()]).flatten().copied()
}

/// One number and that of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// In a search, the candidate that was selected for this column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// The value of the paper, if it has one.
    pub paper: Option<Published>,
    /// The mean of this program over seeds; `None` if none was run, or the value of a seed is not a number.
    pub ours: Option<Estimate>,
    /// The number of seeds whose value is not a number, because energies are not.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_numbers: usize,
    /// The numbers of each seed.
    #[serde(skip)]
    by_seed: BTreeMap<u64, f64>,
    /// Whether the mean is at least the paper's value, if both exist.
    pub at_least_the_papers: Option<bool>,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// All rows, in the order of the cells.
pub fn rows(experiment: &Experiment, finished: &[Finished]) -> Vec<Row> {
    let mut rows = Vec::new();
    for candidates in groups(&experiment.settings.cells) {
        let tried: Vec<Tried<'_>> = candidates.iter().map(|cell| tried(experiment, cell, finished)).collect();
        // The common properties of the candidates; there is at least one.
        let cell = &candidates[0];
        let method = cell.config.method();
        let of_column = |column: TableColumn| chosen(&tried, column.key);
        // A row's other properties are those of the candidate for its first own column.
        let own = method.columns().first().and_then(|&column| of_column(column));
        let models = own.map_or(&[][..], |own| own.models.as_slice());
        for (outliers, paper) in &cell.paper {
            let row = |f: &Finished| f.auroc.rows.iter().find(|row| row.outliers == *outliers).cloned();
            let value = |column: TableColumn| {
                let chosen = of_column(column);
                let models = chosen.iter().flat_map(|chosen| chosen.models.iter());
                let values = models.filter_map(|model| Some((model.seed, *row(model)?.auroc.get(column.key)?)));
                let values: Vec<(u64, Option<f64>)> = values.collect();
                let name = chosen.map(|chosen| chosen.cell.name.clone()).filter(|name| *name != cell.group);
                (column.key, compared(name, paper.get(column.key).copied(), &values))
            };
            let measured: Vec<_> = models.iter().copied().filter_map(row).collect();
            rows.push(Row {
                cell: cell.group.clone(),
                outliers: outliers.clone(),
                selection: measured.iter().any(|row| row.selection),
                seeds: measured.len(),
                diverged: models.iter().filter(|f| f.diverged).count(),
                values: columns(method).map(value).collect(),
            });
        }
    }
    rows
}

/// The cells in the order of the settings, with the candidates of each grouped.
fn groups(cells: &[Cell]) -> impl Iterator<Item = &[Cell]> {
    cells.chunk_by(|one, next| one.group == next.group)
}

/// The models of `cell` that count, in the order of their seeds.
fn tried<'a>(experiment: &Experiment, cell: &'a Cell, finished: &'a [Finished]) -> Tried<'a> {
    // A cell from which others start has one seed, whatever theirs are.
    let is_start = experiment.settings.is_start(&cell.name);
    let counts = |f: &&Finished| f.cell == cell.name && (is_start || experiment.seeds.contains(f.seed));
    let mut models: Vec<&Finished> = finished.iter().filter(counts).collect();
    models.sort_by_key(|model| model.seed);
    Tried { cell, models }
}

/// `values` are those of each seed.
fn compared(chosen: Option<String>, paper: Option<Published>, values: &[(u64, Option<f64>)]) -> Compared {
    let not_numbers = values.iter().filter(|(_, value)| value.is_none()).count();
    let numbers: Option<Vec<f64>> = values.iter().map(|&(_, value)| value).collect();
    let ours = numbers.filter(|numbers| !numbers.is_empty()).map(|numbers| Estimate::of(&numbers));
    let at_least = |(ours, paper): (Estimate, Published)| ours.mean >= paper.mean();
    let by_seed = values.iter().filter_map(|&(seed, value)| Some((seed, value?))).collect();
    Compared { chosen, paper, ours, not_numbers, by_seed, at_least_the_papers: ours.zip(paper).map(at_least) }
}

/// The means of `rows` over cells of one method that differ by the class held out, over the seeds that all of them have. There
/// is none of cells that were not all run.
pub fn averages(experiment: &Experiment, rows: &[Row]) -> Vec<Average> {
    let held_out = rows.iter().filter(|row| row.outliers.ends_with(" (held out)"));
    let held_out: Vec<(&str, &Row)> = held_out.filter_map(|row| Some((without_number(&row.cell)?, row))).collect();
    let of = |group: &[(&str, &Row)]| {
        let name = group[0].0;
        let cells = &experiment.settings.cells;
        let cell = cells.iter().find(|cell| cell.group == group[0].1.cell)?;
        let method = cell.config.method();
        let values: Option<BTreeMap<_, _>> =
            columns(method).map(|column| Some((column.key, average(column.key, group)?))).collect();
        // Cells of an ablation have numbers in their names, and one class held out.
        let classes: BTreeSet<&str> = group.iter().map(|(_, row)| row.outliers.as_str()).collect();
        let values = values.filter(|_| group.len() > 1 && classes.len() == group.len())?;
        Some(Average { cells: name.to_owned(), count: group.len(), values, method })
    };
    held_out.chunk_by(|(one, _), (next, _)| one == next).filter_map(of).collect()
}

/// The name of a cell without the number of the class; `None` if it ends in none.
fn without_number(cell: &str) -> Option<&str> {
    let (name, number) = cell.rsplit_once('-')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

/// The mean of one column, if all of `group` have a number, for one seed at least.
fn average(key: &str, group: &[(&str, &Row)]) -> Option<Compared> {
    let values: Option<Vec<&Compared>> = group.iter().map(|(_, row)| row.values.get(key)).collect();
    let (values, count) = (values?, group.len() as f64);
    let mean = |seed: &u64| {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.by_seed.get(seed).copied()).collect();
        Some((*seed, Some(numbers?.iter().sum::<f64>() / count)))
    };
    let ours: Vec<(u64, Option<f64>)> = values.first()?.by_seed.keys().filter_map(mean).collect();
    let papers: Option<Vec<f64>> = values.iter().map(|value| value.paper.map(Published::mean)).collect();
    let paper = papers.map(|papers| Published::Value(papers.iter().sum::<f64>() / count));
    (!ours.is_empty()).then(|| compared(None, paper, &ours))
}

/// The results, for programs. `selection` is the set by which states were selected.
pub fn json(experiment: &Experiment, selection: Option<&str>, rows: &[Row], finished: &[Finished]) -> Value {
    json!({
        "experiment": experiment.name,
        "scale": experiment.scale,
        "work": experiment.settings.work,
        "seeds": experiment.seeds.iter().collect::<Vec<_>>(),
        "device": experiment.device,
        "version": env!("CARGO_PKG_VERSION"),
        "settings": experiment.settings.recorded(selection),
        "rows": rows,
        "averages": averages(experiment, rows),
        "models": finished,
    })
}

/// The note below the table of a search.
const SEARCH: &str = "\nIn brackets what was chosen, for each column by the AUROC of the selection set against validation images; a cell \
     counts once all of its candidates have run.";

/// The table for a terminal.
pub fn terminal(experiment: &Experiment, rows: &[Row], finished: &[Finished]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["cell", "outliers", "method", "paper", "ours", "at least the paper's"]);
    let absent = experiment.absent_sets();
    let is_trained = |name: &str| {
        let mut candidates = experiment.settings.cells.iter().filter(|cell| cell.group == name);
        candidates.all(|cell| !tried(experiment, cell, finished).models.is_empty())
    };
    for row in rows {
        let mark = if row.selection { " *" } else { "" };
        let method = experiment.settings.cells.iter().find(|cell| cell.group == row.cell).map(|c| c.config.method());
        for column in method.into_iter().flat_map(columns) {
            let Some(Compared { chosen, paper, ours, not_numbers, at_least_the_papers, .. }) =
                row.values.get(column.key)
            else {
                continue;
            };
            let chosen = chosen
                .as_deref()
                .and_then(|name| name.strip_prefix(&row.cell))
                .map_or_else(String::new, |values| format!(" ({})", values.trim_start_matches('+').replace('+', ", ")));
            let ours = match (ours, not_numbers) {
                (Some(ours), _) => ours.to_string(),
                (None, 0) if absent.contains(&row.outliers.as_str()) => "files missing".to_owned(),
                // The settings name only sets that there may be; of data of one class, there are no chimeras.
                (None, 0) if is_trained(&row.cell) => "no such set".to_owned(),
                (None, 0) => "not run".to_owned(),
                (None, count) => format!("not a number ({count} of {})", row.seeds),
            };
            let diverged = match row.diverged {
                n if n > 0 && column.key == MethodKind::Nae.name() => format!(" ({n} of {} taken back)", row.seeds),
                _ => String::new(),
            };
            table.add_row([
                row.cell.clone(),
                format!("{}{mark}", row.outliers),
                column.title.to_owned(),
                published(*paper),
                format!("{ours}{chosen}{diverged}"),
                said(*at_least_the_papers).to_owned(),
            ]);
        }
    }
    for Average { cells, count, values, method } in averages(experiment, rows) {
        for column in columns(method) {
            let Some(Compared { paper, ours: Some(ours), at_least_the_papers, .. }) = values.get(column.key) else {
                continue;
            };
            table.add_row([
                cells.clone(),
                format!("average of {count}"),
                column.title.to_owned(),
                published(*paper),
                ours.to_string(),
                said(*at_least_the_papers).to_owned(),
            ]);
        }
    }
    let Experiment { settings, scale, .. } = experiment;
    let ours = match rows.iter().map(|row| row.seeds).max() {
        None | Some(0) => "ours not run".to_owned(),
        Some(1) => "ours of one seed".to_owned(),
        Some(seeds) => format!("ours as mean ± standard error over up to {seeds} seeds"),
    };
    let footnote = footnote(rows.iter().any(|row| row.selection));
    let search = if settings.search { SEARCH } else { "" };
    let counted = || settings.cells.iter().flat_map(|cell| tried(experiment, cell, finished).models);
    let note = origin::note(counted().map(|model| &model.origin));
    let warnings: BTreeSet<&str> = counted().flat_map(|model| model.warnings.iter().map(String::as_str)).collect();
    let warnings: String = warnings.iter().map(|warning| format!("\nwarning: {warning}")).collect();
    format!(
        "{} (paper, {}): AUROC, {ours}, scale `{}`: {}\n{table}{footnote}{search}{note}{warnings}",
        settings.title,
        settings.source,
        scale.name(),
        settings.work,
    )
}

/// Whether the mean is at least the paper's value, in a cell of the table.
fn said(at_least: Option<bool>) -> &'static str {
    match at_least {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    }
}

fn published(value: Option<Published>) -> String {
    match value {
        None => "–".to_owned(),
        Some(Published::Value(mean)) => format!("{mean:.3}"),
        Some(Published::Estimate([mean, error])) => format!("{mean:.3} ± {error:.3}"),
    }
}

/// The line below a table that explains the mark of the selection set, if a row is `marked`.
pub(crate) fn footnote(marked: bool) -> String {
    if marked { format!("\n{FOOTNOTE}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use nae_train::device::DeviceChoice;
    use nae_train::engine::EngineChoice;

    use super::*;
    use crate::Seeds;
    use crate::experiments::Scale;
    use crate::experiments::detection::{DetectionSettings, EXPERIMENTS};

    fn experiment(name: &str) -> Experiment {
        let known = EXPERIMENTS.iter().find(|known| known.name == name).expect("comes with the program");
        Experiment {
            name: known.name.to_owned(),
            settings: DetectionSettings::parse(known.text, known.name, Scale::Smoke, false).expect("valid"),
            scale: Scale::Smoke,
            seeds: Seeds::first(1).expect("one is a number of seeds"),
            only: Vec::new(),
            engine: EngineChoice::Auto,
            device: DeviceChoice::Cpu,
            data: PathBuf::new(),
            checkpoint_every: Duration::MAX,
            trace_outliers: false,
        }
    }

    /// The table of mnist-ood with a model of the NAE whose own table has `rows`.
    fn table(rows: &Value) -> String {
        let experiment = experiment("mnist-ood");
        let finished = [Finished {
            cell: "mnist".to_owned(),
            seed: 0,
            data_sha256: None,
            outliers_sha256: BTreeMap::new(),
            warnings: vec!["here: other data".to_owned()],
            auroc: serde_json::from_value(json!({ "normal_count": 1, "rows": rows })).expect("a table"),
            selection_auroc: BTreeMap::new(),
            kept_update: 0,
            diverged: false,
            processor_seconds: 0.0,
            origin: origin::Origin::default(),
        }];
        terminal(&experiment, &super::rows(&experiment, &finished), &finished)
    }

    #[test]
    fn the_mark_of_the_selection_set_is_explained_where_a_row_has_it() {
        let of = |selection: bool| {
            table(
                &json!([{ "outliers": "ConstantGray", "count": 1, "selection": selection, "autoencoder": 0.5, "nae": 0.75 }]),
            )
        };
        let marked = of(true);
        assert!(
            marked.contains("ConstantGray *") && marked.ends_with(&format!("\n{FOOTNOTE}\nwarning: here: other data")),
            "{marked}"
        );
        let unmarked = of(false);
        assert!(unmarked.contains("0.750") && !unmarked.contains("selection set"), "{unmarked}");
    }

    #[test]
    fn the_average_is_that_of_seeds_that_all_cells_have() {
        let row = |cell: &str, outliers: &str, paper: f64, values: &[(u64, Option<f64>)]| {
            let of = |key| (key, compared(None, Some(Published::Value(paper)), values));
            Row {
                cell: cell.to_owned(),
                outliers: outliers.to_owned(),
                selection: false,
                seeds: values.len(),
                diverged: 0,
                values: ["autoencoder", "nae"].map(of).into(),
            }
        };
        let experiment = experiment("mnist-holdout");
        let of = |rows: &[Row]| averages(&experiment, rows);
        let zero = row("digit-0", "digit 0 (held out)", 0.5, &[(0, Some(0.9)), (1, Some(0.7)), (2, Some(0.1))]);
        let one = row("digit-1", "digit 1 (held out)", 0.8, &[(0, Some(0.8)), (1, Some(0.8))]);
        let half = row("digit-1", "half-digits", 0.8, &[(0, Some(0.1)), (1, Some(0.1))]);
        let [average] = &of(&[zero.clone(), one.clone(), half])[..] else { panic!("one of both cells") };
        assert_eq!((average.cells.as_str(), average.count), ("digit", 2));
        let nae = &average.values["nae"];
        let ours = nae.ours.expect("two seeds");
        // Seed 0 has .85, seed 1 .75.
        assert!((ours.mean - 0.8).abs() < 1e-12 && (ours.standard_error - 0.05).abs() < 1e-12, "{ours}");
        assert!((nae.paper.expect("both have one").mean() - 0.65).abs() < 1e-12);
        assert_eq!(nae.at_least_the_papers, Some(true));
        // A cell that was not run, a seed that only one has, one cell alone, and cells that hold out the same class.
        assert!(of(&[zero.clone(), row("digit-1", "digit 1 (held out)", 0.8, &[])]).is_empty());
        assert!(of(&[zero.clone(), row("digit-1", "digit 1 (held out)", 0.8, &[(3, Some(0.8))])]).is_empty());
        assert!(of(std::slice::from_ref(&zero)).is_empty());
        assert!(of(&[zero, Row { outliers: "digit 0 (held out)".to_owned(), ..one }]).is_empty());
    }

    /// As chimeras of data of one class.
    #[test]
    fn a_set_that_a_trained_model_does_not_have_is_not_said_to_be_still_to_run() {
        let text = table(&json!([]));
        let of =
            |cell: &str| text.lines().find(|line| line.contains(cell) && line.contains("chimeras")).expect("a row");
        assert!(of("mnist").contains("no such set"), "{text}");
        assert!(of("pixelcnn").contains("not run"), "{text}");
    }

    #[test]
    fn a_seed_without_a_number_is_not_hidden_by_the_mean_of_the_others() {
        let of = |values: &[Option<f64>]| {
            let values: Vec<_> = values.iter().enumerate().map(|(seed, value)| (seed as u64, *value)).collect();
            compared(None, Some(Published::Value(0.5)), &values)
        };
        let found = of(&[Some(0.9), None]);
        assert_eq!((found.ours.is_none(), found.not_numbers, found.at_least_the_papers), (true, 1, None));
        let found = of(&[Some(0.9), Some(0.7)]);
        assert!((found.ours.expect("two numbers").mean - 0.8).abs() < 1e-12 && found.not_numbers == 0);
        assert!(of(&[]).ours.is_none());
    }
}
