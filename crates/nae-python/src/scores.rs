//! The scores of many samples: collected in a few vectors during scoring, then returned to Python as arrays without a
//! further copy.

use nae_infer::Scored;
use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyDict, PyList};

use crate::guard::Failure;

/// The optional results for each sample, besides its energy.
#[derive(Clone, Copy, Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Keep {
    pub(crate) latents: bool,
    pub(crate) heat_maps: bool,
    /// Whether a sample that cannot be scored gets the energy NaN and a stored message, instead of ending the call.
    pub(crate) errors: bool,
}

/// The collected scores.
pub(crate) struct Gathered {
    keep: Keep,
    /// Whether the model gives p-values.
    calibrated: bool,
    /// Whether the model gives verdicts.
    judges: bool,
    names: Vec<String>,
    energies: Vec<f32>,
    p_values: Vec<f32>,
    verdicts: Vec<bool>,
    /// Row after row; `None` if the model has no latent output.
    latents: Option<Vec<f32>>,
    /// Map after map; the next field: the rows and columns of each.
    heat_maps: Vec<f32>,
    map_shapes: Vec<(usize, usize)>,
    /// The length of a latent vector, and the rows and columns of a heat map, if no sample could be scored: of the model.
    latent_length: usize,
    map_shape: Option<(usize, usize)>,
    /// The positions of samples that could not be scored, with the reasons.
    errors: Vec<(usize, String)>,
}

impl Gathered {
    pub(crate) fn new(keep: Keep, calibrated: bool, judges: bool) -> Self {
        Self {
            keep,
            calibrated,
            judges,
            names: Vec::new(),
            energies: Vec::new(),
            p_values: Vec::new(),
            verdicts: Vec::new(),
            latents: keep.latents.then(Vec::new),
            heat_maps: Vec::new(),
            map_shapes: Vec::new(),
            latent_length: 0,
            map_shape: None,
            errors: Vec::new(),
        }
    }

    /// The number of samples so far.
    pub(crate) fn len(&self) -> usize {
        self.energies.len()
    }

    /// Whether no sample has been scored, so that the shapes of results are not known.
    pub(crate) fn needs_shapes(&self) -> bool {
        self.len() == self.errors.len() && (self.keep.latents || self.keep.heat_maps)
    }

    /// The shapes of results, if no sample has been scored: those of `like`, which is not kept. Without it there are none.
    pub(crate) fn shape_like(&mut self, like: Option<&Scored>) {
        match like.and_then(|like| like.latent.as_ref()) {
            Some(latent) => self.latent_length = latent.len(),
            None => self.latents = None,
        }
        self.map_shape = like.map(|like| (like.error_map_shape.height, like.error_map_shape.width));
    }

    /// Adds a sample.
    pub(crate) fn push(&mut self, name: Option<String>, scored: Scored) {
        let Scored { energy, p_value, verdict, latent, error_map, error_map_shape, .. } = scored;
        self.names.extend(name);
        self.energies.push(energy);
        self.p_values.extend(p_value);
        self.verdicts.extend(verdict.map(|verdict| verdict.is_anomaly()));
        match (&mut self.latents, latent) {
            (Some(all), Some(latent)) => all.extend(latent),
            (all, None) => *all = None,
            (None, _) => {}
        }
        if self.keep.heat_maps {
            self.heat_maps.extend(error_map);
            self.map_shapes.push((error_map_shape.height, error_map_shape.width));
        }
    }

    /// Adds a sample that could not be scored.
    ///
    /// # Errors
    /// `failure` itself, if errors are not kept, or if it does not concern the sample.
    pub(crate) fn push_error(&mut self, name: Option<String>, failure: Failure) -> Result<(), Failure> {
        let text = match failure {
            Failure::Value(text) | Failure::File(_, text) if self.keep.errors => text,
            failure => return Err(failure),
        };
        self.errors.push((self.len(), text));
        self.names.extend(name);
        self.energies.push(f32::NAN);
        self.p_values.extend(self.calibrated.then_some(f32::NAN));
        self.verdicts.extend(self.judges.then_some(false));
        Ok(())
    }

    /// The fields of `nae_edge.Scores`, by name.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let (count, errors) = (self.len(), self.errors);
        let scored = count - errors.len();
        let is_error = |at: usize| errors.binary_search_by_key(&at, |&(position, _)| position).is_ok();
        let fields = PyDict::new(py);
        fields.set_item("names", self.names)?;
        fields.set_item("p_values", self.calibrated.then(|| PyArray1::from_vec(py, self.p_values)))?;
        fields.set_item("verdicts", self.judges.then(|| PyArray1::from_vec(py, self.verdicts)))?;
        fields.set_item("energies", PyArray1::from_vec(py, self.energies))?;
        let length = |latents: &[f32]| latents.len().checked_div(scored).unwrap_or(self.latent_length);
        let latents = self.latents.filter(|latents| length(latents) > 0 && latents.len() == scored * length(latents));
        let rows = |latents: Vec<f32>| {
            let length = length(&latents);
            PyArray1::from_vec(py, with_gaps(latents, length, count, is_error)).reshape([count, length])
        };
        fields.set_item("latents", latents.map(rows).transpose()?)?;
        let (maps, shapes, all) = (self.heat_maps, &self.map_shapes, self.map_shape);
        let maps = self.keep.heat_maps.then(|| heat_maps(py, maps, shapes, all, count, is_error));
        fields.set_item("heat_maps", maps.transpose()?)?;
        fields.set_item("errors", errors.into_py_dict(py)?)?;
        Ok(fields)
    }
}

/// `count` rows of `length` values: those of `rows` in order, with rows of NaN where `is_gap` is true.
fn with_gaps(rows: Vec<f32>, length: usize, count: usize, is_gap: impl Fn(usize) -> bool) -> Vec<f32> {
    if rows.len() == count * length {
        return rows;
    }
    let mut rest = &rows[..];
    let mut all = Vec::with_capacity(count * length);
    for at in 0..count {
        if is_gap(at) {
            all.resize(all.len() + length, f32::NAN);
        } else {
            let (row, after) = rest.split_at(length);
            all.extend_from_slice(row);
            rest = after;
        }
    }
    all
}

/// The heat maps of `count` samples; those that are not a gap have a shape. Returns one array, with NaN in gaps, if all
/// shapes are equal, or if there is no map and `of_all` is the shape of each; otherwise a list of arrays, empty in gaps.
fn heat_maps<'py>(
    py: Python<'py>,
    values: Vec<f32>,
    shapes: &[(usize, usize)],
    of_all: Option<(usize, usize)>,
    count: usize,
    is_gap: impl Fn(usize) -> bool,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some((height, width)) = shapes.first().copied().or(of_all)
        && shapes.iter().all(|&shape| shape == (height, width))
    {
        let values = with_gaps(values, height * width, count, is_gap);
        return Ok(PyArray1::from_vec(py, values).reshape([count, height, width])?.into_any());
    }
    let (list, mut rest, mut shapes) = (PyList::empty(py), &values[..], shapes.iter().copied());
    for at in 0..count {
        let shape = if is_gap(at) { None } else { shapes.next() };
        let (height, width) = shape.unwrap_or((0, 0));
        let (map, after) = rest.split_at(height * width);
        list.append(PyArray1::from_slice(py, map).reshape([height, width])?)?;
        rest = after;
    }
    Ok(list.into_any())
}
