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
/// The share of the energies that the axis covers; larger ones are counted in the last bin.
const SHOWN: f64 = 0.99;
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
    let mut all: Vec<f32> = series.iter().flat_map(|(_, e)| e.iter().copied()).collect();
    all.sort_by(f32::total_cmp);
    let end =
        all.get((SHOWN * all.len() as f64) as usize).or(all.last()).copied().unwrap_or(1.0).max(f32::MIN_POSITIVE);
    let width = end / BINS as f32;
    let shares: Vec<(&str, Vec<f32>)> = series
        .iter()
        .map(|(name, energies)| {
            let mut bins = vec![0.0; BINS];
            for &energy in *energies {
                bins[((energy / width) as usize).min(BINS - 1)] += 1.0 / energies.len() as f32;
            }
            (*name, bins)
        })
        .collect();
    let top = shares.iter().flat_map(|(_, bins)| bins.iter().copied()).fold(0.0f32, f32::max) * 1.35;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(46)
        .build_cartesian_2d(0.0..end, 0.0..top.max(f32::MIN_POSITIVE))?;
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
            Rectangle::new([(k as f32 * width, 0.0), ((k + 1) as f32 * width, share)], color.mix(0.5).filled())
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

#[cfg(test)]
mod tests {
    use super::*;
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
