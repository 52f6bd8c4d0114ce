//! Energies that were computed elsewhere: at export time, or by the firmware's test.

use std::path::PathBuf;

use super::{QEMU_M3, QEMU_M4F};
use crate::{Images, Runtime, Unavailable, vectors};

/// Energies given beforehand.
pub struct Stored {
    name: &'static str,
    energies: Result<Vec<f32>, String>,
}

impl Stored {
    /// These energies, or why there are none.
    pub fn new(name: &'static str, energies: Result<Vec<f32>, String>) -> Self {
        Self { name, energies }
    }
}

impl Runtime for Stored {
    fn name(&self) -> &'static str {
        self.name
    }

    fn energies(&self, _: &Images) -> Result<Vec<f32>, Unavailable> {
        self.energies.clone().map_err(Unavailable::Absent)
    }
}

/// The log of the firmware under QEMU, which `tests/qemu.sh` leaves in the target folder.
pub struct Qemu {
    name: &'static str,
    log: PathBuf,
}

impl Qemu {
    /// A Cortex-M4F's log in the folder where tests keep their files.
    pub fn cortex_m4f(folder: &str) -> Self {
        Self { name: QEMU_M4F, log: PathBuf::from(folder).join("mps2-an386-qemu-f32.log") }
    }

    /// A Cortex-M3's log in the folder where tests keep their files.
    pub fn cortex_m3(folder: &str) -> Self {
        Self { name: QEMU_M3, log: PathBuf::from(folder).join("mps2-an385-qemu-f32.log") }
    }
}

impl Runtime for Qemu {
    fn name(&self) -> &'static str {
        self.name
    }

    fn energies(&self, _: &Images) -> Result<Vec<f32>, Unavailable> {
        let absent = |reason: &str| Unavailable::Absent(format!("{reason}; run tests/qemu.sh"));
        let written = |path: &std::path::Path| path.metadata().and_then(|m| m.modified()).ok();
        let log = written(&self.log).ok_or_else(|| absent("no log of the firmware"))?;
        // A log of another model would be a false alarm.
        if written(&vectors::repository("models/digits/digits.nae")).is_none_or(|model| model > log) {
            return Err(absent("the firmware's log is older than the model"));
        }
        let text = std::fs::read_to_string(&self.log).map_err(|e| Unavailable::Failed(e.to_string()))?;
        let mut energies = Vec::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let ["image", _, "energy", bits, ..] = fields[..] {
                let bits = u32::from_str_radix(bits, 16).map_err(|e| Unavailable::Failed(format!("{line}: {e}")))?;
                energies.push(f32::from_bits(bits));
            }
        }
        Ok(energies)
    }
}
