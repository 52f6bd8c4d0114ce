//! Camera names, which are part of addresses, topics, labels and folder names.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A camera's name: 1 to 64 letters, digits, `-` and `_`. It therefore cannot point outside a folder, and needs no
/// encoding in an address, a topic or a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub(crate) struct CameraName(String);

impl CameraName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for CameraName {
    /// The name of a single camera if the settings give none.
    fn default() -> Self {
        Self("camera".to_owned())
    }
}

impl FromStr for CameraName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if (1..=64).contains(&text.len()) && text.chars().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err("1 to 64 of letters, digits, `-` and `_`".into())
        }
    }
}

impl fmt::Display for CameraName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere() {
        for name in ["gate", "Gate-2_b", "0", &"x".repeat(64)] {
            assert_eq!(name.parse::<CameraName>().unwrap().as_str(), name);
        }
        for wrong in ["", ".", "..", "a/b", "a\\b", "a.b", "a b", "a\0", "tür", "a+", "#", &"x".repeat(65)] {
            assert!(wrong.parse::<CameraName>().is_err(), "{wrong}");
        }
    }
}
