//! The formats of model files, by their first bytes and by the ending of their names.
//!
//! Programs of this project recognize a file by its first bytes. People, scripts and build files go by its name.

use std::path::{Path, PathBuf};

use nae_core::format::MAGIC;

/// The format of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// ONNX.
    Onnx,
    /// `.nae`, the format of microcontrollers, which `nae-train deploy` writes.
    Nae,
}

/// A file's name ends as that of a model of the other format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndingError {
    /// An ONNX model would be called `.nae`.
    #[error(
        "{}: the model is written as ONNX, and .nae is another format; choose a name that ends in .onnx, of which `nae-train \
         deploy` makes a .nae file",
        .0.display()
    )]
    Onnx(PathBuf),
    /// A `.nae` model would be called `.onnx`.
    #[error("{}: the model is written in the format .nae; choose a name with this ending", .0.display())]
    Nae(PathBuf),
}

impl ModelFormat {
    /// The format of a file with these contents: whatever is not `.nae` is taken for ONNX.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(&MAGIC) { Self::Nae } else { Self::Onnx }
    }

    /// Checks that the name of a file that is to be written in this format does not end as that of the other one. All other
    /// endings are free.
    ///
    /// # Errors
    /// [`EndingError`].
    pub fn check_name(self, path: &Path) -> Result<(), EndingError> {
        let ends_in = |ending| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending));
        match self {
            Self::Onnx if ends_in("nae") => Err(EndingError::Onnx(path.to_owned())),
            Self::Nae if ends_in("onnx") => Err(EndingError::Nae(path.to_owned())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EndingError, ModelFormat};

    #[test]
    fn a_name_is_not_that_of_the_other_format() {
        let check = |format: ModelFormat, name: &str| format.check_name(name.as_ref());
        for name in ["model", "model.onnx", "a.nae/model.bin"] {
            check(ModelFormat::Onnx, name).unwrap();
        }
        assert_eq!(check(ModelFormat::Onnx, "m.NAE"), Err(EndingError::Onnx("m.NAE".into())));
        check(ModelFormat::Nae, "model.nae").unwrap();
        assert_eq!(check(ModelFormat::Nae, "m.onnx"), Err(EndingError::Nae("m.onnx".into())));
    }

    #[test]
    fn first_bytes_tell_the_format() {
        assert_eq!(ModelFormat::of(b"\x89NAE\r\n\x1a\n and more"), ModelFormat::Nae);
        assert_eq!(ModelFormat::of(b"\x08\x0a"), ModelFormat::Onnx);
        assert_eq!(ModelFormat::of(b""), ModelFormat::Onnx);
    }
}
