//! `nae-train stopping-study`: the loss in AUROC of every stopping signal on the given runs.

use comfy_table::presets::ASCII_MARKDOWN;
use nae_lab::compare::Estimate;
use nae_lab::experiments::stopping::{Loss, Traced, study};
use serde_json::json;

use crate::Done;
use crate::args::StudyArgs;
use crate::output::outln;

pub(crate) fn run(args: &StudyArgs) -> anyhow::Result<Done> {
    let runs = args.runs.iter().map(|path| Traced::read(path, &args.outliers)).collect::<Result<Vec<_>, _>>()?;
    let count = runs.len();
    let rows = study(runs)?;
    if args.json {
        outln!("{}", json!({ "runs": count, "signals": rows }))?;
        return Ok(Done::Whole);
    }
    let mut table = comfy_table::Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "stopping by",
        "lost, chosen on",
        "largest",
        "lost, other half",
        "largest",
        "more than in use",
        "",
    ]);
    for row in &rows {
        let cells = |loss: Loss| [format!("{:.4}", loss.mean), format!("{:.4}", loss.largest)];
        let ([a, b], [c, d]) = (cells(row.chosen_on), cells(row.shown_on));
        let chosen = if row.chosen { "chosen" } else { "" };
        let Estimate { mean, standard_error } = row.more_than_in_use;
        let more = format!("{mean:+.4} ± {standard_error:.4}");
        table.add_row([row.signal.title().to_owned(), a, b, c, d, more, chosen.to_owned()]);
    }
    outln!(
        "AUROC lost against the best look of each run, means: {} runs to choose on, the other {} to show; and how much \
         more than by the rule in use, over all, with standard errors\n\n{table}",
        count.div_ceil(2),
        count / 2
    )?;
    Ok(Done::Whole)
}
