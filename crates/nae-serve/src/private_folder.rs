//! Folders of pictures of what a camera sees, which only this user can read.

use std::io;
use std::path::Path;

/// Creates a folder that only this user can read, and those above it. An existing one is left as it is.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
