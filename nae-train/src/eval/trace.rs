//! Tracks a model's AUROCs during training, for studies; the run does not use them.

use std::collections::BTreeMap;

use burn::tensor::Device;

use super::metrics::auroc;
use super::scoring::Scorer;
use super::table::OutlierSet;
use crate::engine::Engine;
use crate::methods::{Decision, Model};
use nae_data::ImageSet;

/// The largest number of images of each set, which is enough for a curve.
const IMAGES: usize = 1000;

/// Normal test images and outlier sets, reduced in number.
pub struct Trace {
    normal: ImageSet,
    outliers: Vec<OutlierSet>,
    engine: Engine,
    device: Device,
}

impl Trace {
    /// Compares `normal` with each of `outliers`.
    pub fn new(normal: &ImageSet, outliers: &[OutlierSet], engine: Engine, device: &Device) -> Self {
        let outliers = outliers.iter().map(|set| OutlierSet { images: some(&set.images), ..set.clone() }).collect();
        Self { normal: some(normal), outliers, engine, device: device.clone() }
    }

    /// The AUROC of each set under `model`, by name; `None` if the set is empty or an energy is NaN.
    pub fn measure(&self, model: &dyn Model) -> BTreeMap<String, Option<f64>> {
        let scorer = Scorer::new(model, Decision::Reconstruction, self.normal.shape(), self.engine, &self.device);
        let normal = scorer.decided(&self.normal);
        let auroc = |set: &OutlierSet| auroc(&normal, &scorer.decided(&set.images));
        self.outliers.iter().map(|set| (set.name.clone(), auroc(set))).collect()
    }
}

fn some(images: &ImageSet) -> ImageSet {
    if !images.are_tiles() {
        return images.select(&images.evenly(IMAGES));
    }
    let units = images.units().len();
    let count = units.min(IMAGES);
    images.select_units(&(0..count).map(|k| k * units / count).collect::<Vec<_>>())
}
