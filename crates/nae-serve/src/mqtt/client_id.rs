//! The client id of the service at the broker. It is the same after every start, so that the broker continues its
//! session, and unique, since a broker disconnects the older of two clients with the same id. A process id has neither
//! property: in containers it is 1.

use std::io;
use std::path::Path;

use ring::rand::{SecureRandom as _, SystemRandom};

/// The file in the state folder.
const FILE: &str = "mqtt-client-id";
/// The number of random bytes.
const LENGTH: usize = 8;

/// The name of the camera and a number that was drawn when the state folder was new.
///
/// # Errors
/// If the folder cannot be written.
pub(super) fn of(camera: &str, state: &Path) -> io::Result<String> {
    let path = state.join(FILE);
    let drawn = match std::fs::read_to_string(&path) {
        Ok(text) if is_drawn(text.trim()) => text.trim().to_owned(),
        Err(error) if error.kind() != io::ErrorKind::NotFound && error.kind() != io::ErrorKind::InvalidData => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
        }
        // The file is missing, or damaged by a crash: a new number is as good.
        _ => {
            let drawn = draw()?;
            let unfinished = path.with_extension("new");
            std::fs::write(&unfinished, &drawn)?;
            std::fs::rename(&unfinished, &path)?;
            drawn
        }
    };
    Ok(format!("nae-{camera}-{drawn}"))
}

fn is_drawn(text: &str) -> bool {
    text.len() == 2 * LENGTH && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn draw() -> io::Result<String> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_in_a_folder_and_differs_between_folders() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = of("gate", one.path()).unwrap();
        assert!(first.starts_with("nae-gate-") && first.len() == 9 + 16, "{first}");
        assert_eq!(of("gate", one.path()).unwrap(), first);
        assert_ne!(of("gate", other.path()).unwrap(), first);
        // Possible contents after a crash.
        for left in [b"".as_slice(), b"0123", b"\xFF", b"zz23456789abcdef"] {
            std::fs::write(one.path().join(FILE), left).unwrap();
            let again = of("gate", one.path()).unwrap();
            assert_eq!(again.len(), first.len());
            assert_eq!(of("gate", one.path()).unwrap(), again);
        }
    }
}
