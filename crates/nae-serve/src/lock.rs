//! The lock of the state folder: two services that write alarms to one journal lose some of them, and give the same id
//! to others. The system releases the lock when the process ends, for whatever reason.

use std::fs::{self, File};
use std::path::Path;

use anyhow::bail;
use nae_onnx::file;

/// The name of the file that is locked.
const LOCK: &str = "lock";

/// Locks the state folder, which it makes if there is none, until the returned file is closed or the process ends.
/// `None`, with a warning, if the file cannot be made: on a full disk, alarms have their room already, and a folder
/// that cannot be written is an error where something has to be written.
///
/// # Errors
/// If another service has the lock.
pub(crate) fn claim(folder: &Path) -> anyhow::Result<Option<File>> {
    let path = folder.join(LOCK);
    match fs::create_dir_all(folder).and_then(|()| file::lock(&path)) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => bail!(
            "{}: another service keeps its state in this folder; stop that service, or choose another folder with \
             --state DIR",
            folder.display()
        ),
        Err(error) => {
            tracing::warn!(
                %error,
                "cannot make {}: it is not checked whether another service uses this folder, too",
                path.display()
            );
            Ok(None)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_service_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("new/state");
        let lock = claim(&state).unwrap().unwrap();
        let error = claim(&state).unwrap_err().to_string();
        assert!(error.starts_with(state.to_str().unwrap()) && error.contains("--state"), "{error}");
        claim(folder.path()).unwrap().unwrap();
        drop(lock);
        claim(&state).unwrap().unwrap();
    }

    #[test]
    fn what_cannot_be_made_is_not_locked_and_no_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(LOCK)).unwrap();
        assert!(claim(folder.path()).unwrap().is_none());
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(claim(&file).unwrap().is_none());
    }
}
