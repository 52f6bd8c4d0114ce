//! Changes to a preset: replaces values by key, where dots separate the parts of a key.

use toml::{Table, Value};

use super::preset::{self, PresetError};
use super::text::TextError;
use super::{Config, RawConfig};

/// An error that prevents a change of a preset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The preset cannot be read.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// A key's parent table is not in the preset.
    #[error("`{0}` is no key of the preset: no such table is in it")]
    Key(String),
    /// The changed preset cannot be used.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Loads the preset called `name`, or in the file of that path, and applies `changes`, each of which replaces the whole
/// value of its key.
///
/// # Errors
/// [`ChangeError`] with the key or the value, what was expected and what was found.
pub fn changed(name: &str, changes: Table) -> Result<Config, ChangeError> {
    let origin = format!("{name}, changed");
    let base = preset::load(name)?;
    // The preset was read from TOML, so it can be converted back.
    let mut table = Table::try_from(base.raw()).expect("a preset is TOML");
    for (key, value) in changes {
        put(&mut table, &key, value).ok_or(ChangeError::Key(key))?;
    }
    Ok(config(table, &origin)?)
}

/// Converts `table` to a configuration; `origin` names its source in errors.
///
/// # Errors
/// [`TextError`] with the key, what was expected and what was found.
pub fn config(table: Table, origin: &str) -> Result<Config, TextError> {
    let raw: RawConfig = table.try_into().map_err(TextError::form(origin))?;
    Config::new(raw).map_err(TextError::value(origin))
}

/// Replaces or inserts the value of `key`; `None` if the table that should contain it does not exist.
pub fn put(table: &mut Table, key: &str, value: Value) -> Option<()> {
    let (parent, last) = parent(table, key)?;
    parent.insert(last.to_owned(), value);
    Some(())
}

/// The table that contains the last part of `key`, and that part.
pub fn parent<'a, 'k>(table: &'a mut Table, key: &'k str) -> Option<(&'a mut Table, &'k str)> {
    let Some((path, last)) = key.rsplit_once('.') else { return Some((table, key)) };
    let mut parent = table;
    for part in path.split('.') {
        parent = parent.get_mut(part)?.as_table_mut()?;
    }
    Some((parent, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_checked_as_the_preset_is() {
        let change = |text: &str| changed("digits", toml::from_str(text).expect("TOML"));
        let base = preset::load("digits").expect("valid");
        let config = change("\"training.learning_rate\" = 0.25\n\"data.held_out\" = 4").expect("valid");
        assert_eq!(config.raw().training.learning_rate, 0.25);
        assert_eq!(config.held_out(), Some(4));
        assert_eq!(config.raw().training.updates, base.raw().training.updates);
        for (text, said) in [
            ("\"trainin.updates\" = 1", "`trainin.updates` is no key"),
            ("\"training.update\" = 1", "unknown field `update`"),
            ("\"data.held_out\" = 10", "data.held_out"),
            ("\"training.updates\" = \"many\"", "invalid type"),
        ] {
            let message = change(text).expect_err(text).to_string();
            assert!(message.contains(said), "{message}");
        }
    }
}
