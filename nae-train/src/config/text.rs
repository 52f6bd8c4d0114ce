//! Reads TOML texts: presets and the files of experiments. The modules that use them define their content.

use serde::de::DeserializeOwned;

use super::ConfigError;

/// An error that prevents the use of a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The text does not have the expected form.
    #[error("{origin}: {cause}")]
    Form {
        /// The file, with its part if it has several, or the name of a preset.
        origin: String,
        /// The position and the problem.
        cause: Box<toml::de::Error>,
    },
    /// A value cannot be used.
    #[error("{origin}: {cause}")]
    Value {
        /// The file, with its part if it has several, or the name of a preset.
        origin: String,
        /// The value and what was expected.
        cause: ConfigError,
    },
}

impl TextError {
    /// Makes the error for a text or table without the expected form.
    pub fn form(origin: &str) -> impl Fn(toml::de::Error) -> Self {
        |cause| Self::Form { origin: origin.to_owned(), cause: Box::new(cause) }
    }

    /// Makes the error for a value that cannot be used.
    pub fn value(origin: &str) -> impl Fn(ConfigError) -> Self {
        |cause| Self::Value { origin: origin.to_owned(), cause }
    }
}

/// Reads `text`; `origin` is named in errors.
///
/// # Errors
/// [`TextError::Form`] if the text does not have the form of `T`.
pub fn read<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, TextError> {
    toml::from_str(text).map_err(TextError::form(origin))
}
