//! SHA-256 as text: what data and long work are recognised by.

use sha2::{Digest as _, Sha256};

/// The digest of what went into `hash`, in hexadecimal.
pub fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
