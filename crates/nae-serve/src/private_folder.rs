//! Folders of pictures of what a camera sees, which only this user can read.

use std::io;
use std::path::Path;

/// Creates a folder that only this user can read, and those above it. An existing one, of an earlier version, becomes such
/// a folder, if it belongs to this user.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    #[cfg(unix)]
    let _ = std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    Ok(())
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_this_user_can_read_it() {
        let place = tempfile::tempdir().unwrap();
        let (new, old) = (place.path().join("above/new"), place.path().join("old"));
        std::fs::create_dir(&old).unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
        for folder in [&new, &old] {
            private_folder(folder).unwrap();
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
