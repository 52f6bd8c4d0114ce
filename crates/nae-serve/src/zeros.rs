//! A backend for unit tests whose reconstruction is always zero: the energy of a frame is the mean square of its
//! pixels.

use std::sync::Arc;

use nae_core::calibration::Calibration;
use nae_core::contract::Contract;
use nae_infer::backend::{Backend, BackendError, Reconstructions};
use nae_infer::card::ScoringSettings;
use nae_infer::{BackendKind, Detector, Shape};

use super::day_night::Condition;
use super::model::Model;

pub(crate) struct Zeros;

impl Backend for Zeros {
    fn kind(&self) -> BackendKind {
        BackendKind::Native
    }

    fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
        Ok(Reconstructions { images: vec![0.0; batch.len()], ..Reconstructions::default() })
    }
}

/// A model of such a backend for grey images of 2×2 pixels, with this energy as its threshold.
pub(crate) fn model(digest: &str, condition: Condition, threshold: f32) -> Model {
    let calibration = Calibration::from_energies(&mut [threshold; 99]).expect("energies");
    let contract =
        Contract::new(Shape::new(1, 2, 2)).with_calibration(calibration, 0.01).expect("a rate that 99 can give");
    let detector = Detector::with_backend(ScoringSettings::new(contract), Arc::new(Zeros));
    Model { detector, card: Vec::new(), digest: digest.to_owned(), condition, bytes: Arc::default() }
}
