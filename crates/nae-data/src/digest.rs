//! SHA-256 digests as text; they identify data and long computations.

use sha2::{Digest as _, Sha256};

/// Returns the digest of the bytes given to `hash`, in hexadecimal.
pub fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
