//! The data for the quantization of a model and the measurement of its effect, in the engine's layout.

use nae_core::contract::Preprocessing;
use nae_graph::Graph;
use nae_input::layout::to_channels_last;

use crate::run::Prepared;
use nae_data::ImageSet;

/// The largest number of images for the choice of ranges; more do not change them.
const MOST_FOR_RANGES: usize = 1024;

/// Images grouped by their use: HWC, in the range of the model's preprocessing.
#[derive(Clone, Debug)]
pub struct Data {
    /// Normal images for the choice of ranges.
    pub ranges: Vec<Vec<f32>>,
    /// Normal images whose energies determine the threshold.
    pub calibration: Vec<Vec<f32>>,
    /// Normal images for measuring the false-positive rate.
    pub test: Vec<Vec<f32>>,
    /// Whether `test` is every fourth of the normal images, or stretches, of a user, not a part of a run.
    pub every_fourth: bool,
    /// Sets of outliers with their names.
    pub outliers: Vec<(String, Vec<Vec<f32>>)>,
    /// A description of the images in a sentence.
    pub description: String,
}

impl Data {
    /// The parts of a run: training images for ranges, the calibration and test parts, and its outlier sets.
    pub fn of_run(prepared: &Prepared, network: &Graph) -> Self {
        let convert = |set: &ImageSet| images(set, network.contract.preprocessing);
        let split = &prepared.split;
        let mut ranges = convert(&split.train);
        ranges.truncate(MOST_FOR_RANGES);
        let source = prepared.config.source();
        Self {
            description: format!(
                "ranges from {} training {samples}, threshold from {} kept for calibration, measured on {} of the test; \
                 as the run divided {}",
                ranges.len(),
                split.calibration.len(),
                split.test.len(),
                source.title(),
                samples = source.samples(),
            ),
            ranges,
            calibration: convert(&split.calibration),
            test: convert(&split.test),
            every_fourth: false,
            outliers: prepared.outlier_sets().into_iter().map(|set| (set.name, convert(&set.images))).collect(),
        }
    }

    /// The normal images of a user: every fourth is for the test, the others determine ranges and threshold. Of windows of
    /// a time series, which overlap, it is every fourth stretch.
    pub fn of_images(normal: &ImageSet, outliers: Option<(String, &ImageSet)>, network: &Graph) -> Self {
        let all = images(normal, network.contract.preprocessing);
        let (mut test, mut calibration) = (Vec::new(), Vec::new());
        for (index, unit) in normal.units().into_iter().enumerate() {
            let part = if index % 4 == 3 { &mut test } else { &mut calibration };
            part.extend_from_slice(&all[unit]);
        }
        Self {
            description: format!(
                "ranges and threshold from {} samples, measured on every fourth{}, {}",
                calibration.len(),
                if normal.are_windows() { " stretch" } else { "" },
                test.len()
            ),
            ranges: calibration.iter().take(MOST_FOR_RANGES).cloned().collect(),
            calibration,
            test,
            every_fourth: true,
            outliers: outliers
                .into_iter()
                .map(|(name, set)| (name, images(set, network.contract.preprocessing)))
                .collect(),
        }
    }
}

/// Converts images from channels first in [0, 1] to channels last in the range of `preprocessing`.
fn images(set: &ImageSet, preprocessing: Preprocessing) -> Vec<Vec<f32>> {
    let (low, span) = (preprocessing.low(), preprocessing.high() - preprocessing.low());
    (0..set.len())
        .map(|index| {
            let mut image = to_channels_last(set.image(index), set.shape());
            image.iter_mut().for_each(|value| *value = low + *value * span);
            image
        })
        .collect()
}
