//! Reproduction of the paper's experiments: the one in two dimensions, [`gaussians8`]; those with a table of AUROC,
//! [`detection`]; illustrations, [`pictures`]. [`record`] describes the experiment of a folder, and [`origin`]
//! what made a model. [`stopping`] is a
//! study that is not in the paper: by which signal to stop training.

pub mod detection;
pub mod gaussians8;
pub mod origin;
pub mod pictures;
pub mod record;
pub mod stopping;

use serde::{Deserialize, Serialize};

/// The scale of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Takes seconds a model, to test that it runs.
    Smoke,
    /// Takes minutes on two cores.
    Cpu,
    /// The size of the paper.
    Paper,
}

impl Scale {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Cpu => "cpu",
            Self::Paper => "paper",
        }
    }
}
