//! What was found of many samples, gathered in few vectors while they are scored and given to Python as arrays without
//! another copy.

use nae_infer::Scored;
use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// What is kept of each sample beside its energy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) latents: bool,
    pub(crate) heat_maps: bool,
}

/// Everything found so far.
pub(crate) struct Gathered {
    keep: Keep,
    /// Whether the model gives p-values, and verdicts.
    calibrated: bool,
    judges: bool,
    names: Vec<String>,
    energies: Vec<f32>,
    p_values: Vec<f32>,
    verdicts: Vec<bool>,
    /// Row after row; `None` where the model gives none out.
    latents: Option<Vec<f32>>,
    /// Map after map, and the rows and columns of each.
    heat_maps: Vec<f32>,
    map_shapes: Vec<(usize, usize)>,
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
        }
    }

    /// Takes what was found of some samples.
    pub(crate) fn extend(&mut self, names: impl IntoIterator<Item = String>, scored: Vec<Scored>) {
        self.names.extend(names);
        for Scored { energy, p_value, verdict, latent, error_map, error_map_shape, .. } in scored {
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
    }

    /// The fields of `nae_edge.Scores`, by name.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let count = self.energies.len();
        let fields = PyDict::new(py);
        fields.set_item("names", self.names)?;
        fields.set_item("p_values", self.calibrated.then(|| PyArray1::from_vec(py, self.p_values)))?;
        fields.set_item("verdicts", self.judges.then(|| PyArray1::from_vec(py, self.verdicts)))?;
        fields.set_item("energies", PyArray1::from_vec(py, self.energies))?;
        let latents = self.latents.filter(|latents| count > 0 && latents.len().is_multiple_of(count));
        let rows = |latents: Vec<f32>| {
            let length = latents.len() / count;
            PyArray1::from_vec(py, latents).reshape([count, length])
        };
        fields.set_item("latents", latents.map(rows).transpose()?)?;
        fields.set_item("heat_maps", heat_maps(py, self.heat_maps, &self.map_shapes)?)?;
        Ok(fields)
    }
}

/// One array where all maps have one size, a list of arrays otherwise; `None` where there are none.
fn heat_maps<'py>(py: Python<'py>, values: Vec<f32>, shapes: &[(usize, usize)]) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(&(height, width)) = shapes.first() else { return Ok(None) };
    if shapes.iter().all(|&shape| shape == (height, width)) {
        return Ok(Some(PyArray1::from_vec(py, values).reshape([shapes.len(), height, width])?.into_any()));
    }
    let (list, mut rest) = (PyList::empty(py), &values[..]);
    for &(height, width) in shapes {
        let (map, after) = rest.split_at(height * width);
        list.append(PyArray1::from_slice(py, map).reshape([height, width])?)?;
        rest = after;
    }
    Ok(Some(list.into_any()))
}
