//! The paper's experiments, to be made again: the one in two dimensions, [`gaussians8`]; those whose result is a table
//! of AUROC, [`detection`]; illustrations, [`pictures`]. [`record`] is what a folder says of the
//! experiment it is of. [`stopping`] is a study of this program's own: what to stop
//! by.

pub mod detection;
pub mod gaussians8;
pub mod pictures;
pub mod record;
pub mod stopping;

use serde::{Deserialize, Serialize};

/// How much work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Seconds: does it run?
    Smoke,
    /// Minutes on two cores.
    Cpu,
    /// As the paper.
    Paper,
}

impl Scale {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Cpu => "cpu",
            Self::Paper => "paper",
        }
    }
}
