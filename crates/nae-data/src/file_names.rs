//! What the name of a file says about it: an image, an array of images, or a hidden file. Tables are known by
//! `nae_input::table::is_table`.

use std::path::Path;

/// Whether a file is read as images, judged by its name. Hidden files and files that other systems add to archives are not.
pub(crate) fn is_image(name: &str) -> bool {
    !is_hidden(name) && has_images(Path::new(name))
}

/// Whether the name is that of an image or of an array of images.
pub(crate) fn has_images(path: &Path) -> bool {
    is_array(path) || nae_input::is_image_name(path)
}

/// Whether the name is that of an array, or of an archive of arrays.
pub fn is_array(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy") || end.eq_ignore_ascii_case("npz"))
}

/// Whether a file is hidden, or in a folder that another system adds to archives.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.split('/').any(|part| part.starts_with('.') || part == "__MACOSX")
}
