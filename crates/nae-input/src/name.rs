//! Names of files for output: as text, and different for different files.

use std::fmt::Write as _;
use std::path::Path;

/// A path as text. Bytes that are not UTF-8 are escaped, such as `\xff`, where [`Path::display`] has the same sign for all of
/// them.
///
/// ```
/// # #[cfg(unix)] {
/// use std::os::unix::ffi::OsStrExt as _;
/// let path = std::ffi::OsStr::from_bytes(b"caf\xe9/\xc3\xa9.png");
/// assert_eq!(nae_input::path_name(path.as_ref()), "caf\\xe9/é.png");
/// # }
/// ```
pub fn path_name(path: &Path) -> String {
    let mut name = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        name.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // A String takes everything.
            let _ = write!(name, "\\x{byte:02x}");
        }
    }
    name
}
