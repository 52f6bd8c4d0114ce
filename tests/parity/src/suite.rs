//! Every pair of runtimes, within its bound, in one table.

use comfy_table::{CellAlignment, Table, presets};

use crate::{Images, Runtime, Unavailable, runtimes};

/// How far two energies may be apart: `absolute + relative · |larger|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Factor of the larger energy.
    pub relative: f32,
    /// Difference that is always allowed.
    pub absolute: f32,
}

/// The bound of each pair.
///
/// | pair | bound |
/// |---|---|
/// | nae-core on the host, nae-core in QEMU | none: equal bit for bit, the same portable code |
/// | any other | 1e-5 relative + 1e-7 absolute |
///
/// Sums in another order and fused multiply-adds make the difference between runtimes, some 1e-6 on
/// this network; a wrong weight, pad or coordinate makes 1e-2 and more.
pub fn bound(a: &str, b: &str) -> Bound {
    let core = [runtimes::NATIVE, runtimes::QEMU_M4F, runtimes::QEMU_M3];
    if core.contains(&a) && core.contains(&b) {
        Bound { relative: 0.0, absolute: 0.0 }
    } else {
        Bound { relative: 1e-5, absolute: 1e-7 }
    }
}

/// The runtimes to compare.
pub struct Suite {
    runtimes: Vec<Box<dyn Runtime>>,
}

/// What each runtime gave.
pub struct Report {
    results: Vec<(&'static str, Result<Vec<f32>, Unavailable>)>,
}

impl Suite {
    /// A suite of these.
    pub fn new(runtimes: Vec<Box<dyn Runtime>>) -> Self {
        Self { runtimes }
    }

    /// Adds a runtime.
    pub fn push(&mut self, runtime: impl Runtime + 'static) {
        self.runtimes.push(Box::new(runtime));
    }

    /// Runs every runtime on the images.
    pub fn run(&self, images: &Images) -> Report {
        let expected = images.shape[0];
        let run = |runtime: &dyn Runtime| {
            let energies = runtime.energies(images)?;
            if energies.len() != expected {
                return Err(Unavailable::Failed(format!("{} energies for {expected} images", energies.len())));
            }
            match energies.iter().position(|e| !e.is_finite()) {
                Some(i) => Err(Unavailable::Failed(format!("the energy of image {i} is {}", energies[i]))),
                None => Ok(energies),
            }
        };
        Report { results: self.runtimes.iter().map(|r| (r.name(), run(r.as_ref()))).collect() }
    }
}

impl Report {
    /// The energies of a runtime; `None` where it gave none.
    pub fn energies(&self, name: &str) -> Option<&[f32]> {
        self.results.iter().find(|(n, _)| *n == name).and_then(|(_, r)| r.as_deref().ok())
    }

    /// Runtimes that gave no energies, and why.
    pub fn unavailable(&self) -> impl Iterator<Item = (&'static str, &Unavailable)> {
        self.results.iter().filter_map(|(name, result)| result.as_ref().err().map(|e| (*name, e)))
    }

    /// What is out of bounds, and which runtimes failed; empty when all is well.
    pub fn failures(&self) -> Vec<String> {
        let mut failures: Vec<String> = self
            .unavailable()
            .filter(|(_, e)| matches!(e, Unavailable::Failed(_)))
            .map(|(name, e)| format!("{name} {e}"))
            .collect();
        for (i, (a, first)) in self.results.iter().enumerate() {
            for (b, second) in &self.results[i + 1..] {
                let (Ok(first), Ok(second)) = (first, second) else { continue };
                let Bound { relative, absolute } = bound(a, b);
                for (image, (x, y)) in first.iter().zip(second).enumerate() {
                    let allowed = absolute + relative * x.abs().max(y.abs());
                    if (x - y).abs() > allowed {
                        failures.push(format!("image {image}: {a} {x:?}, {b} {y:?}; allowed difference {allowed:e}"));
                    }
                }
            }
        }
        failures
    }

    /// The largest relative difference of each pair, and why a runtime is missing.
    pub fn table(&self) -> String {
        let present: Vec<(&str, &[f32])> =
            self.results.iter().filter_map(|(n, r)| r.as_deref().ok().map(|e| (*n, e))).collect();
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        let header: Vec<String> = ["largest relative difference".to_owned()]
            .into_iter()
            .chain((1..=present.len()).map(|i| format!("{i}")))
            .collect();
        table.set_header(header);
        for (i, (name, energies)) in present.iter().enumerate() {
            let mut row = vec![format!("{}  {name}", i + 1)];
            row.extend(present[..i].iter().map(|(_, other)| match difference(energies, other) {
                0.0 => "equal".to_owned(),
                d => format!("{d:.1e}"),
            }));
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text = table.to_string();
        for (name, error) in self.unavailable() {
            text.push_str(&format!("\n{name}: {error}"));
        }
        text
    }
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    let relative = |(x, y): (&f32, &f32)| (x - y).abs() / x.abs().max(y.abs()).max(f32::MIN_POSITIVE);
    a.iter().zip(b).map(relative).fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(&'static str, Result<Vec<f32>, Unavailable>);

    impl Runtime for Given {
        fn name(&self) -> &'static str {
            self.0
        }

        fn energies(&self, _: &Images) -> Result<Vec<f32>, Unavailable> {
            self.1.clone()
        }
    }

    fn report(other: Vec<f32>, name: &'static str) -> Report {
        let mut suite = Suite::new(Vec::new());
        suite.push(Given(runtimes::NATIVE, Ok(vec![0.5, 0.25])));
        suite.push(Given(name, Ok(other)));
        let operator = "Resize".to_owned();
        suite.push(Given("third", Err(Unavailable::Operator { operator, reason: "cubic".into() })));
        suite.run(&Images { shape: [2, 1, 1, 1], values: vec![0.0; 2] })
    }

    #[test]
    fn bounds_are_kept() {
        let near = 0.5 + 3e-6;
        assert!(report(vec![near, 0.25], "other").failures().is_empty());
        let exact = report(vec![near, 0.25], runtimes::QEMU_M4F).failures();
        assert_eq!(exact.len(), 1);
        assert!(exact[0].starts_with("image 0: nae-core 0.5, nae-core in QEMU, Cortex-M4F 0.500003"), "{}", exact[0]);
        assert_eq!(report(vec![0.5, 0.2501], "other").failures().len(), 1);
        assert_eq!(report(vec![0.5], "other").failures(), ["other failed: 1 energies for 2 images"]);
        assert_eq!(report(vec![0.5, f32::NAN], "other").failures(), ["other failed: the energy of image 1 is NaN"]);
    }

    #[test]
    fn a_missing_operator_is_in_the_table() {
        let table = report(vec![0.5, 0.25], "other").table();
        assert!(table.contains("equal"), "{table}");
        assert!(table.ends_with("third: lacks Resize: cubic"), "{table}");
    }
}
