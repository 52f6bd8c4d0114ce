//! The paper's figure of densities: heat maps as SVG, with data as crosses and negative samples as dots.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::GridDensity;

/// One heat map.
pub struct Panel<'a> {
    /// The title above it.
    pub title: &'a str,
    /// The density.
    pub density: &'a GridDensity,
    /// The data, drawn as black crosses.
    pub data: &'a [[f32; 2]],
    /// The negative samples, drawn as blue dots.
    pub samples: &'a [[f32; 2]],
}

/// The width and height of a panel in pixels: a square with its title.
const PANEL: (u32, u32) = (280, 300);
/// The number of shades of the heat map: adjacent cells in a row with the same shade are drawn as one
/// rectangle.
const SHADES: usize = 32;
/// The maximum number of cells drawn along an axis; finer grids are drawn with fewer.
const DRAWN: usize = 100;
const DOT: RGBColor = RGBColor(38, 80, 200);

/// Draws `panels` in rows of `columns`. The colour scale of each is from 0 to its own maximum density.
///
/// # Errors
/// The error of the drawing library, as text.
pub fn densities(panels: &[Panel<'_>], columns: usize) -> Result<String, String> {
    let mut svg = String::new();
    draw(&mut svg, panels, columns.max(1)).map_err(|error| error.to_string())?;
    Ok(svg)
}

fn draw(svg: &mut String, panels: &[Panel<'_>], columns: usize) -> Result<(), Box<dyn std::error::Error>> {
    let columns = columns.min(panels.len().max(1));
    let rows = panels.len().div_ceil(columns).max(1);
    let root = SVGBackend::with_string(svg, (PANEL.0 * columns as u32, PANEL.1 * rows as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((rows, columns)).iter().zip(panels) {
        draw_panel(area, panel)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    panel: &Panel<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let half = panel.density.grid().half();
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 16))
        .margin(6)
        .x_label_area_size(18)
        .y_label_area_size(22)
        .build_cartesian_2d(-half..half, -half..half)?;
    heat_map(&mut chart, panel.density)?;
    chart.configure_mesh().disable_mesh().x_labels(5).y_labels(5).label_style(("sans-serif", 10)).draw()?;
    let inside = |points: &[[f32; 2]]| -> Vec<(f64, f64)> {
        let points = points.iter().map(|p| (f64::from(p[0]), f64::from(p[1])));
        points.filter(|(x, y)| x.abs() <= half && y.abs() <= half).collect()
    };
    chart.draw_series(inside(panel.data).into_iter().map(|at| Cross::new(at, 2, BLACK.mix(0.7))))?;
    chart.draw_series(inside(panel.samples).into_iter().map(|at| Circle::new(at, 2, DOT.mix(0.8).filled())))?;
    Ok(())
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn heat_map(chart: &mut Chart<'_, '_>, density: &GridDensity) -> Result<(), Box<dyn std::error::Error>> {
    let grid = density.grid();
    let block = grid.cells().div_ceil(DRAWN).max(1);
    let side = grid.cells().div_ceil(block);
    let mut masses = vec![0.0; side * side];
    for (index, mass) in density.masses().iter().enumerate() {
        let (row, column) = (index / grid.cells(), index % grid.cells());
        masses[row / block * side + column / block] += mass;
    }
    let largest = masses.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let shades: Vec<usize> = masses.iter().map(|m| (m / largest * (SHADES - 1) as f64).round() as usize).collect();
    let edge = |k: usize| ((k * block) as f64 * grid.step() - grid.half()).min(grid.half());
    for (row, shades) in shades.chunks_exact(side).enumerate() {
        let mut column = 0;
        for run in shades.chunk_by(|a, b| a == b) {
            let (from, to) = (column, column + run.len());
            column = to;
            // The lightest shade is the background.
            if run[0] > 0 {
                let corners = [(edge(from), edge(row)), (edge(to), edge(row + 1))];
                chart.draw_series([Rectangle::new(corners, color(run[0]).filled())])?;
            }
        }
    }
    Ok(())
}

/// A scale from white over orange to dark red.
fn color(shade: usize) -> RGBColor {
    const STOPS: [[f64; 3]; 3] = [[255.0, 255.0, 255.0], [253.0, 174.0, 97.0], [150.0, 10.0, 30.0]];
    let position = shade as f64 / (SHADES - 1) as f64 * (STOPS.len() - 1) as f64;
    let low = (position as usize).min(STOPS.len() - 2);
    let part = position - low as f64;
    let [r, g, b] = [0, 1, 2].map(|k| (STOPS[low][k] + part * (STOPS[low + 1][k] - STOPS[low][k])).round() as u8);
    RGBColor(r, g, b)
}

#[cfg(test)]
mod tests {
    use super::super::{Grid, Mixture};
    use super::*;

    #[test]
    fn a_picture_has_its_panels_dots_and_crosses() {
        let mixture = Mixture::eight_gaussians();
        let density = GridDensity::from_log_density(Grid::paper(), |x| mixture.log_density(x)).expect("finite");
        let (data, samples) = ([[0.0f32, 1.0]; 3], [[2.0f32, 2.0], [9.0, 0.0]]);
        let panel = |title| Panel { title, density: &density, data: &data, samples: &samples };
        let svg = densities(&[panel("true density"), panel("OMI"), panel("CD")], 2).expect("drawn");
        assert!(["<svg", "true density", "OMI", "CD"].iter().all(|text| svg.contains(text)));
        assert_eq!(svg.matches("<circle").count(), 3, "one dot a panel; the other is outside");
        assert!(svg.contains("#960A1E"), "the largest density has the last colour");
        assert!(svg.len() < 1_000_000, "{}", svg.len());
    }

    #[test]
    fn no_panel_is_a_white_picture() {
        assert!(densities(&[], 3).expect("drawn").contains("<svg"));
    }
}
