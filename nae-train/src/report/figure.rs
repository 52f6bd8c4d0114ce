//! The main picture of a run: histograms of the energy under each model, as SVG.

use plotters::prelude::*;

use crate::eval::evaluation::Evaluation;

/// The histograms of one model.
struct Panel<'a> {
    title: &'a str,
    /// The word for the samples, in the plural.
    samples: &'a str,
    /// The names of at most three kinds of images, and their energies.
    series: Vec<(&'a str, &'a [f32])>,
}

/// The size of one panel, in pixels.
const WIDTH: u32 = 430;
const HEIGHT: u32 = 330;
const BINS: usize = 48;
/// The share of the energies that either end of the axis leaves out; they are counted in the bins there.
const BEYOND: f64 = 0.01;
const COLORS: [RGBColor; 3] = [RGBColor(38, 110, 180), RGBColor(214, 84, 32), RGBColor(120, 120, 120)];

/// Draws one panel for each column of `evaluation`: normal test images, and the two most informative outlier sets.
///
/// # Errors
/// The error of the drawing library, as text.
pub fn energies(evaluation: &Evaluation) -> Result<String, String> {
    let shown = evaluation.telling(2);
    let panels: Vec<Panel<'_>> = evaluation
        .columns
        .iter()
        .enumerate()
        .map(|(column, (_, title))| Panel {
            title,
            samples: evaluation.samples,
            series: std::iter::once(("normal", evaluation.normal[column].as_slice()))
                .chain(shown.iter().map(|set| (set.name.as_str(), set.scores[column].as_slice())))
                .collect(),
        })
        .collect();
    let mut svg = String::new();
    draw(&mut svg, &panels).map_err(|error| error.to_string())?;
    Ok(svg)
}

fn draw(svg: &mut String, panels: &[Panel<'_>]) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH * panels.len() as u32, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, shown) in root.split_evenly((1, panels.len())).iter().zip(panels) {
        panel(area, shown)?;
    }
    root.present()?;
    Ok(())
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    &Panel { title, samples, ref series }: &Panel<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (start, end) = axis(series.iter().flat_map(|(_, energies)| energies.iter().copied()));
    let width = (end - start) / BINS as f32;
    let shares: Vec<_> = series.iter().map(|(name, energies)| (*name, histogram(energies, start, width))).collect();
    let top = shares.iter().flat_map(|(_, bins)| bins.iter().copied()).fold(0.0f32, f32::max) * 1.35;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(46)
        .build_cartesian_2d(start..end, 0.0..top.max(f32::MIN_POSITIVE))?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("energy E(x)")
        .y_desc(format!("share of {samples}"))
        .x_labels(5)
        .y_labels(5)
        .label_style(("sans-serif", 12))
        .draw()?;
    for ((name, bins), color) in shares.iter().zip(COLORS) {
        let bars = bins.iter().enumerate().map(|(k, &share)| {
            let [left, right] = [k, k + 1].map(|k| start + k as f32 * width);
            Rectangle::new([(left, 0.0), (right, share)], color.mix(0.5).filled())
        });
        chart
            .draw_series(bars)?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.mix(0.5).filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 12))
        .background_style(WHITE.mix(0.8))
        .border_style(TRANSPARENT)
        .draw()?;
    Ok(())
}

/// The ends of the axis. It begins at 0, unless energies are negative or all of them are far from 0, as likelihoods are.
fn axis(energies: impl Iterator<Item = f32>) -> (f32, f32) {
    let mut all: Vec<f32> = energies.filter(|energy| energy.is_finite()).collect();
    all.sort_by(f32::total_cmp);
    let at = |share: f64| all.get((share * all.len() as f64) as usize).or(all.last()).copied();
    let (low, high) = (at(BEYOND).unwrap_or(0.0), at(1.0 - BEYOND).unwrap_or(1.0));
    let start = if low < 0.0 || low > high / 2.0 { low } else { 0.0 };
    // Wide enough for bins of different ends, however alike the energies are.
    (start, high.max(start + (f32::EPSILON * BINS as f32 * start.abs()).max(f32::MIN_POSITIVE)))
}

/// The shares of `energies` in bins of `width` from `start`. NaN is in none, so that its share is missing.
fn histogram(energies: &[f32], start: f32, width: f32) -> Vec<f32> {
    let mut bins = vec![0.0; BINS];
    for energy in energies.iter().filter(|energy| !energy.is_nan()) {
        bins[(((energy - start) / width) as usize).min(BINS - 1)] += 1.0 / energies.len() as f32;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_the_energies_of_any_method() {
        let ramp = |low: f32, high: f32| (0..=100).map(move |k| low + (high - low) * k as f32 / 100.0);
        assert_eq!(axis(ramp(0.01, 1.0)), (0.0, 0.9901));
        // Negative energies, and bits per dimension.
        assert_eq!(axis(ramp(-20.0, -10.0)), (-19.9, -10.1));
        assert_eq!(axis(ramp(-1.0, 3.0)), (-0.96, 2.96));
        assert_eq!(axis(ramp(6.0, 7.0)), (6.01, 6.99));
        assert_eq!(axis([f32::NAN, f32::INFINITY].into_iter()), (0.0, 1.0));
        for same in [0.0, 5.0, -5.0] {
            let (start, end) = axis([same; 3].into_iter());
            assert!(start < end && start <= same, "{same}");
        }
    }

    #[test]
    fn scores_are_in_the_bin_of_their_value() {
        let bins =
            histogram(&[-10.0, -9.9, -5.1, f32::NEG_INFINITY, f32::INFINITY, f32::NAN], -10.0, 10.0 / BINS as f32);
        let filled: Vec<_> = bins.iter().enumerate().filter(|(_, share)| **share > 0.0).map(|(bin, _)| bin).collect();
        assert_eq!(filled, [0, BINS / 2 - 1, BINS - 1]);
        assert_eq!((bins[0], bins[BINS - 1]), (1.0 / 6.0 + 1.0 / 6.0 + 1.0 / 6.0, 1.0 / 6.0));
    }
    use crate::eval::evaluation::ScoredSet;
    use crate::eval::table::OutlierKind;

    #[test]
    fn a_figure_names_its_series_and_panels() {
        let set = |name: &str, kind, scores: &[f32]| ScoredSet {
            name: name.to_owned(),
            kind,
            selection: false,
            scores: vec![scores.to_vec(), scores.to_vec()],
        };
        let evaluation = Evaluation {
            columns: vec![("autoencoder", "autoencoder"), ("nae", "NAE")],
            samples: "rows",
            are_windows: false,
            normal: vec![vec![0.1, 0.2], vec![0.1]],
            outliers: vec![
                set("noise", OutlierKind::Noise, &[0.5]),
                set("halves", OutlierKind::Halves, &[0.0; 3]),
                set("nobody", OutlierKind::HeldOut, &[]),
                set("sneakers", OutlierKind::Given, &[0.3]),
            ],
        };
        let svg = energies(&evaluation).expect("drawn");
        for text in ["<svg", "share of rows", "normal", "sneakers", "halves", "autoencoder", "NAE"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("nobody") && !svg.contains("noise"), "{svg}");
    }
}
