//! Where settings are found: a TOML file, then the environment, then the flags, each over the one before, all by the same
//! names. Here they are texts; what they have to be is in `checking`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::super::source::VARIABLES;
use super::flags::Flags;

/// The largest settings file or secret read.
const MAX_FILE: u64 = 1 << 20;

/// A setting as text, and where it was found.
pub(super) struct Found {
    pub(super) text: String,
    pub(super) origin: String,
}

/// The settings found, by name, and what is wrong so far.
#[derive(Default)]
pub(super) struct FoundSettings {
    pub(super) found: BTreeMap<String, Found>,
    pub(super) problems: Vec<String>,
}

impl FoundSettings {
    /// Reads file, environment and flags, in this order.
    pub(super) fn read(flags: &Flags, environment: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut settings = Self::default();
        let given = serde_json::to_value(flags).unwrap_or_default();
        let names: Vec<String> = given.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default();
        if let Some(path) = &flags.config {
            settings.take_file(path, &names);
        }
        settings.take_environment(environment, &names);
        for name in &names {
            if let Some(text) = given[name.as_str()].as_str() {
                settings.put(name, text.to_owned(), format!("flag --{}", name.replace('_', "-")));
            }
        }
        settings
    }

    fn put(&mut self, name: &str, text: String, origin: String) {
        self.found.insert(name.to_owned(), Found { text, origin });
    }

    fn take_file(&mut self, path: &Path, names: &[String]) {
        let table = match read_text(path).and_then(|text| text.parse::<toml::Table>().map_err(|e| e.to_string())) {
            Ok(table) => table,
            Err(error) => return self.problems.push(format!("{}: {}", path.display(), error.trim())),
        };
        for (name, value) in table {
            let origin = path.display().to_string();
            if !names.contains(&name) {
                let known = names.join(", ");
                self.problems.push(format!("{origin}: there is no setting `{name}`; the settings are {known}"));
                continue;
            }
            match value {
                toml::Value::String(text) => self.put(&name, text, origin),
                toml::Value::Integer(_) | toml::Value::Float(_) => self.put(&name, value.to_string(), origin),
                _ => self.problems.push(format!("{origin}: `{name}`: expected a text or a number, found {value}")),
            }
        }
    }

    fn take_environment(&mut self, environment: impl Iterator<Item = (OsString, OsString)>, names: &[String]) {
        for (variable, text) in environment {
            let variable = variable.to_string_lossy();
            let Some(name) = variable.strip_prefix(VARIABLES).map(str::to_lowercase) else { continue };
            match text.into_string() {
                Ok(text) if names.contains(&name) => self.put(&name, text, format!("variable {variable}")),
                Ok(_) => self.problems.push(format!("variable {variable}: there is no setting `{name}`")),
                Err(_) => self.problems.push(format!("variable {variable}: expected UTF-8")),
            }
        }
    }
}

/// The text of a settings file, or of one that holds a secret.
///
/// # Errors
/// It cannot be read, or is no text.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let bytes = nae_onnx::file::read(path, MAX_FILE).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|error| format!("it is not text: {}", error.utf8_error()))
}
