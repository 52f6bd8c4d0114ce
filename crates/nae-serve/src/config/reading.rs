//! Reads settings: from a TOML file, then the environment, then the flags, each overriding the one before, all with the
//! same names. In a file with `[[camera]]`, each camera can have its own, which the environment and the flags cannot
//! set. Here, settings are texts; `checking` parses them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use toml::{Table, Value};

use super::super::child::VARIABLES;
use super::super::source::{address_without_login, without_login};
use super::flags::{Flags, OF_A_CAMERA};

/// The maximum size of a settings file or a secret, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The key of the cameras in the file, and that of a camera's name.
const CAMERAS: &str = "camera";
const NAME: &str = "name";
/// The setting that may be written as tables.
const REGIONS: &str = "regions";
/// The settings that are addresses and may contain a password.
const ADDRESSES: [&str; 3] = ["source", "webhook", "mqtt"];

/// The text of a setting, and where it was found.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) origin: String,
}

/// Settings by name.
pub(super) type ByName = BTreeMap<String, Found>;

/// The settings by name, and the problems found so far.
#[derive(Default)]
pub(super) struct FoundSettings {
    /// The settings of the service, and those of the single camera or for all cameras.
    pub(super) found: ByName,
    /// The settings of each `[[camera]]`, if there are any.
    pub(super) cameras: Option<FoundCameras>,
    /// The prefix of problems that do not belong to one place.
    pub(super) of: String,
    pub(super) problems: Vec<String>,
}

/// The cameras in a file.
pub(super) struct FoundCameras {
    pub(super) file: String,
    pub(super) cameras: Vec<FoundCamera>,
}

/// One `[[camera]]`.
pub(super) struct FoundCamera {
    /// Its name in errors.
    pub(super) called: String,
    pub(super) name: Option<Found>,
    /// Its own settings.
    pub(super) found: ByName,
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
                settings.put_over_file(name, text.to_owned(), format!("flag --{}", name.replace('_', "-")));
            }
        }
        settings
    }

    /// Sets a variable or flag, which overrides the file. If there are several cameras, a setting of a camera is
    /// refused, since it does not name one.
    fn put_over_file(&mut self, name: &str, text: String, origin: String) {
        match &self.cameras {
            Some(FoundCameras { file, cameras }) if OF_A_CAMERA.contains(&name) => {
                let names: Vec<&str> = cameras.iter().map(|camera| camera.called.as_str()).collect();
                let (names, text) = (names.join(", "), shown(name, &text));
                self.problems.push(format!(
                    "{origin}: `{name}` is a camera's own, and {file} has [[camera]] ({names}): write it there, in one of \
                     them, or before the first for all; found `{text}`"
                ));
            }
            _ => drop(self.found.insert(name.to_owned(), Found { text, origin })),
        }
    }

    fn take_file(&mut self, path: &Path, names: &[String]) {
        let mut table = match read_text(path).and_then(|text| parsed(&text)) {
            Ok(table) => table,
            Err(error) => return self.problems.push(format!("{}: {}", path.display(), error.trim())),
        };
        let file = path.display().to_string();
        let cameras = table.remove(CAMERAS);
        self.found = self.take_table(table, &file, |name| {
            let known = || format!("there is no setting `{name}`; the settings are {}, {CAMERAS}", names.join(", "));
            if names.iter().any(|known| known == name) { Ok(()) } else { Err(known()) }
        });
        if let Some(cameras) = cameras {
            self.take_cameras(cameras, file, names);
        }
    }

    fn take_cameras(&mut self, value: Value, file: String, names: &[String]) {
        let tables: Option<Vec<Table>> = match value {
            Value::Array(values) if !values.is_empty() => {
                values.into_iter().map(|value| value.try_into().ok()).collect()
            }
            _ => None,
        };
        let Some(tables) = tables else {
            self.problems
                .push(format!("{file}: `{CAMERAS}`: expected [[{CAMERAS}]] and below it the settings of a camera"));
            return;
        };
        let mut cameras = Vec::new();
        for (index, mut table) in tables.into_iter().enumerate() {
            let name = table.remove(NAME);
            let called = match &name {
                Some(Value::String(name)) => format!("camera `{name}`"),
                _ => format!("[[{CAMERAS}]] number {}", index + 1),
            };
            let origin = format!("{file}: {called}");
            let name = name.and_then(|name| self.text(NAME, name, &origin));
            let found = self.take_table(table, &origin, |name| {
                if OF_A_CAMERA.contains(&name) {
                    return Ok(());
                }
                let settings = OF_A_CAMERA.join(", ");
                let of_service = names.iter().any(|known| known == name);
                Err(if of_service {
                    format!("`{name}` is no setting of a camera: write it before the first [[{CAMERAS}]]; a camera's are {NAME}, {settings}")
                } else {
                    format!("there is no setting `{name}` of a camera; they are {NAME}, {settings}")
                })
            });
            cameras.push(FoundCamera { called, name, found });
        }
        self.cameras = Some(FoundCameras { file, cameras });
    }

    /// The settings of a table; names that `known` refuses, and values of unsuitable types, are problems.
    fn take_table(&mut self, table: Table, origin: &str, known: impl Fn(&str) -> Result<(), String>) -> ByName {
        let mut found = ByName::new();
        for (name, value) in table {
            if let Err(problem) = known(&name) {
                self.problems.push(format!("{origin}: {problem}"));
            } else if let Some(setting) = self.text(&name, value, origin) {
                found.insert(name, setting);
            }
        }
        found
    }

    fn text(&mut self, name: &str, value: Value, origin: &str) -> Option<Found> {
        let text = match value {
            Value::String(text) => text,
            Value::Integer(_) | Value::Float(_) => value.to_string(),
            // Tables; their content is checked later.
            Value::Array(_) if name == REGIONS => serde_json::to_string(&value).unwrap_or_default(),
            _ => {
                let value = shown(name, &value.to_string());
                self.problems.push(format!("{origin}: `{name}`: expected a text or a number, found {value}"));
                return None;
            }
        };
        Some(Found { text, origin: origin.to_owned() })
    }

    fn take_environment(&mut self, environment: impl Iterator<Item = (OsString, OsString)>, names: &[String]) {
        for (variable, text) in environment {
            let variable = variable.to_string_lossy();
            let Some(name) = variable.strip_prefix(VARIABLES).map(str::to_lowercase) else { continue };
            match text.into_string() {
                Ok(text) if names.contains(&name) => self.put_over_file(&name, text, format!("variable {variable}")),
                Ok(text) if is_of_kubernetes(&name, &text) => {}
                Ok(_) => self.problems.push(format!("variable {variable}: there is no setting `{name}`")),
                Err(_) => self.problems.push(format!("variable {variable}: expected UTF-8")),
            }
        }
    }
}

/// Parses a settings file. An error gives the position but does not quote the line, which may contain a password.
fn parsed(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|error| match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            format!("line {line}, column {column}: {}", error.message())
        }
        None => error.message().to_owned(),
    })
}

/// The form of a wrong setting in an error.
pub(super) fn shown(name: &str, text: &str) -> String {
    if ADDRESSES.contains(&name) { address_without_login(text) } else { without_login(text) }
}

/// Whether a variable, given by its name without [`VARIABLES`], is one of those that Kubernetes sets in containers for
/// a Service with the name `nae-infer` or `nae-infer-…`. A port variable whose value is not an address is not one of
/// them, but a mistake.
fn is_of_kubernetes(name: &str, text: &str) -> bool {
    let of_port = || {
        let (_, protocol) = name.split_once("port_")?;
        Some(["_tcp", "_udp", "_sctp"].iter().any(|known| protocol.contains(known)))
    };
    ["service_host", "service_port"].iter().any(|part| name.contains(part))
        || of_port().unwrap_or(name.ends_with("port") && text.contains("://"))
}

/// Reads a settings file, or a file with a secret.
///
/// # Errors
/// If it cannot be read, or is not text.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let bytes = nae_onnx::file::read(path, MAX_FILE).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|error| format!("it is not text: {}", error.utf8_error()))
}
