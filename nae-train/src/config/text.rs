//! TOML texts: presets and the files of experiments. What each holds is said where it is read.

use serde::de::DeserializeOwned;

use super::ConfigError;

/// A text that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// It does not have the form.
    #[error("{origin}: {cause}")]
    Form {
        /// The file, and the part of it where it has some; or the name of a preset.
        origin: String,
        /// Where and what.
        cause: Box<toml::de::Error>,
    },
    /// A value cannot be used.
    #[error("{origin}: {cause}")]
    Value {
        /// The file, and the part of it where it has some; or the name of a preset.
        origin: String,
        /// Which value.
        cause: ConfigError,
    },
}

impl TextError {
    /// What is said of a text or table that does not have the form.
    pub fn form(origin: &str) -> impl Fn(toml::de::Error) -> Self {
        |cause| Self::Form { origin: origin.to_owned(), cause: Box::new(cause) }
    }

    /// What is said of a value that cannot be used.
    pub fn value(origin: &str) -> impl Fn(ConfigError) -> Self {
        |cause| Self::Value { origin: origin.to_owned(), cause }
    }
}

/// Reads `text`; `origin` is named in errors.
///
/// # Errors
/// [`TextError::Form`].
pub fn read<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, TextError> {
    toml::from_str(text).map_err(TextError::form(origin))
}
