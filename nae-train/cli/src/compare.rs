//! `nae-train compare`: the NAE compared with a plain autoencoder of the same training time, over
//! seeds.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use nae_data::counted;
use nae_lab::compare::{CompareError, Compared, Comparison, Part};
use nae_onnx::file;
use nae_terminal::progress::Progress;
use nae_train::config::{Config, preset};
use nae_train::engine::EngineChoice;
use nae_train::eval::FOOTNOTE;
use nae_train::report::journal::{self, Journal};

use crate::Done;
use crate::args::CompareArgs;
use crate::output::{errln, out, outln};
use crate::output_file;
use crate::train::stop_on_interrupt;

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Done> {
    if let Some(output) = &args.output {
        // Before hours of training. The preset may be a file.
        output_file::check(output, [Path::new(&args.preset)])?;
    }
    let base = preset::load(&args.preset)?;
    if base.source().own_title().is_some() {
        bail!(
            "--preset: {} is of your own data, which have no classes to hold out; expected the preset of a data set with classes: \
             for your own data, the report of a run compares its model with a plain autoencoder",
            args.preset
        );
    }
    refuse_repeated("--held-out", &args.held_out)?;
    refuse_repeated("--latent-dims", &args.latent_dims)?;
    let comparisons: Vec<Comparison> = args
        .held_out
        .iter()
        .map(|&held_out| {
            let mut raw = base.raw().clone();
            raw.data.held_out = Some(held_out);
            let config = Config::new(raw).context("--held-out")?;
            let engine = EngineChoice::from(args.engine).engine(config.architecture())?;
            let (latent_dims, data) = (args.latent_dims.clone(), args.data.clone());
            Ok(Comparison { config, seeds: args.seeds.clone(), latent_dims, engine, data })
        })
        .collect::<anyhow::Result<_>>()?;
    let stop = stop_on_interrupt()?;
    let device = Device::flex();
    let parts = comparisons.iter().map(Comparison::parts).sum();
    let progress = Progress::new("comparing", "parts", 0, parts, args.quiet);
    let digests = comparisons.iter().map(Comparison::digest).collect::<Result<Vec<_>, _>>()?;
    let mut notebook = Notebook::open(args.output.as_deref())?;
    let mut results = Vec::new();
    for (comparison, digest) in comparisons.iter().zip(&digests) {
        let kept = notebook.begin(digest)?;
        progress.advance(kept.len());
        let done = |part: &Part| -> anyhow::Result<()> {
            progress.advance(1);
            notebook.append(part)
        };
        match comparison.run(&device, &stop, &kept, done) {
            Ok(result) => results.push(result),
            Err(error) if matches!(error.downcast_ref(), Some(CompareError::Interrupted)) => {
                notebook.say_where();
                return Ok(Done::Interrupted);
            }
            Err(error) => return Err(error),
        }
    }
    progress.clear();
    let json = serde_json::to_string_pretty(&results)? + "\n";
    if let Some(path) = &args.output {
        file::write(path, json.as_bytes())?;
    }
    if args.json {
        out!("{json}")?;
    } else if !args.quiet || args.output.is_none() {
        // Without a file, the tables are the only result of hours.
        comparisons.iter().zip(&results).try_for_each(|(comparison, result)| print(comparison, result))?;
    }
    if let Some(path) = &args.output {
        // The output contains all parts of these; another interrupted command may have kept some of its own.
        journal::remove(&partial(path), &digests)?;
    }
    // Its lock is held until here.
    drop(notebook);
    Ok(Done::Whole)
}

fn refuse_repeated<T: PartialEq + std::fmt::Display>(option: &str, values: &[T]) -> anyhow::Result<()> {
    let twice = values.iter().enumerate().find(|(index, value)| values[..*index].contains(value));
    twice.map_or(Ok(()), |(_, value)| bail!("{option}: {value} is there twice"))
}

/// The finished parts of the comparisons, stored beside the output until that is written.
struct Notebook {
    journal: Option<(PathBuf, Journal)>,
}

impl Notebook {
    fn open(output: Option<&Path>) -> anyhow::Result<Self> {
        let Some(output) = output else { return Ok(Self { journal: None }) };
        let path = partial(output);
        // Nothing is written before `begin` sets the digest.
        let journal = Journal::open_alone(&path, String::new())?;
        Ok(Self { journal: Some((path, journal)) })
    }

    /// The parts of the comparison with this digest that are finished already; those that are added from now on are its.
    fn begin(&mut self, digest: &str) -> anyhow::Result<Vec<Part>> {
        let Some((path, journal)) = &mut self.journal else { return Ok(Vec::new()) };
        journal.change_digest(digest.to_owned());
        Ok(journal::read(path, digest)?)
    }

    fn append(&self, part: &Part) -> anyhow::Result<()> {
        self.journal.as_ref().map_or(Ok(()), |(_, journal)| Ok(journal.append(part)?))
    }

    fn say_where(&self) {
        match &self.journal {
            Some((path, _)) => {
                errln!("interrupted; the same command continues with what {} does not have yet", path.display());
            }
            None => errln!("interrupted; nothing is kept: with --output FILE.json, finished parts would be"),
        }
    }
}

/// `FILE.json` to `FILE.json.partial`.
fn partial(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn print(comparison: &Comparison, compared: &Compared) -> anyhow::Result<()> {
    let mut table = comfy_table::Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["outliers", "autoencoder", "NAE", "difference"]);
    for row in &compared.rows {
        let mark = if row.selection { " *" } else { "" };
        table.add_row([
            format!("{}{mark}", row.outliers),
            row.autoencoder.to_string(),
            row.nae.to_string(),
            row.difference.to_string(),
        ]);
    }
    let tried = |auroc: Option<f64>| auroc.map_or_else(|| "diverged".to_owned(), |auroc| format!("{auroc:.3}"));
    let tried: Vec<String> = compared.choice.iter().map(|(d, auroc)| format!("{d}: {}", tried(*auroc))).collect();
    outln!(
        "AUROC, mean ± standard error over {}, {} held out\n{table}\n\
         autoencoder: D_z = {} of {} (selection AUROC); NAE: D_z = {}; the same time for both\n{FOOTNOTE}\n",
        counted(compared.seeds.len(), "seed"),
        compared
            .held_out
            .map_or_else(|| "nothing".to_owned(), |class| format!("{} {class}", comparison.config.source().class())),
        compared.autoencoder_latent_dim,
        tried.join(", "),
        compared.latent_dim,
    )
}
